#pragma once

#include <functional>

#include "runtime/stream.h"

namespace astatide::runtime {

/// Work that was captured from a stream and is launched as a whole, so that the host's time for each launch in it is
/// paid once.
class Graph {
 public:
  /// What `work` puts into `stream`, which is not the default stream. Throws MachineError where the driver is too old.
  static Graph capture(const Stream& stream, const std::function<void()>& work);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph& operator=(Graph&&) = delete;

  void launch(const Stream& stream) const;

 private:
  explicit Graph(const Context& context) : context_(context) {}

  Context context_;
  ExecutableGraphHandle handle_ = nullptr;
};

}  // namespace astatide::runtime
