#pragma once

#include <memory>

#include "runtime/context.h"

namespace astatide::runtime {

/// A stream of a context: one of our own, or the caller's (null is the context's default stream), which is used and
/// never destroyed. Copies name the same stream.
class Stream {
 public:
  static Stream create(const Context& context);
  static Stream borrow(const Context& context, StreamHandle handle);

  StreamHandle handle() const { return state_->handle; }
  const Context& context() const { return state_->context; }
  /// Waits for all work in the stream. Errors of kernels that ran in it surface here.
  void synchronize() const;

 private:
  Stream() = default;

  struct State {
    Context context;
    StreamHandle handle = nullptr;
    bool owned = false;
    ~State();
  };

  std::shared_ptr<const State> state_;
};

/// A mark in a stream that takes the time.
class Event {
 public:
  explicit Event(const Context& context);
  ~Event();
  Event(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;

  EventHandle handle() const { return handle_; }
  void record(const Stream& stream);
  void synchronize() const;
  /// Milliseconds from `start` to this event; both are recorded and have happened.
  double milliseconds_since(const Event& start) const;

 private:
  Context context_;
  EventHandle handle_ = nullptr;
};

}  // namespace astatide::runtime
