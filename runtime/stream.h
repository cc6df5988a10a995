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

  StreamHandle handle() const { return handle_; }
  const Context& context() const { return context_; }
  /// Whether what is put into the stream becomes a part of a graph.
  bool is_capturing() const;
  /// What Driver::check does, and a UserError where a call failed since the stream is none of `context`.
  template <class... What>
  void check(DriverResult result, const What&... what) const {
    if (result != DriverResult::success) refuse_if_of_another_context();
    driver().check(result, what...);
  }
  /// Waits for all work in the stream. Errors of kernels that ran in it surface here.
  void synchronize() const;

 private:
  void refuse_if_of_another_context() const;
  Stream(const Context& context, StreamHandle handle) : context_(context), handle_(handle) {}

  struct Owned {
    Context context;
    StreamHandle handle = nullptr;
    ~Owned();
  };

  Context context_;
  StreamHandle handle_ = nullptr;
  std::shared_ptr<const Owned> owned_;  // none for the caller's
};

/// While it lives, this thread may allocate and wait although a stream of it is being captured: what it does then has
/// no part in the graph.
class OutsideCapture {
 public:
  OutsideCapture();
  ~OutsideCapture();
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  int mode_ = kCaptureModeRelaxed;
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
