#include "runtime/graph.h"

#include <utility>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {

Graph Graph::capture(const Stream& stream, const std::function<void()>& work) {
  const DriverApi& api = driver().api();
  if (api.stream_begin_capture == nullptr || api.stream_end_capture == nullptr || api.graph_instantiate == nullptr ||
      api.graph_launch == nullptr || api.graph_exec_destroy == nullptr || api.graph_destroy == nullptr)
    throw MachineError("the CUDA driver has no graphs of launches", {"drivers for CUDA 11.4 and later have them"});
  const ScopedCurrent scope(stream.context());
  Graph graph(stream.context());
  GraphHandle captured = nullptr;
  driver().check(api.stream_begin_capture(stream.handle(), kCaptureModeRelaxed), "capture a stream");
  try {
    work();
  } catch (...) {
    // The stream must not be left in a capture.
    if (api.stream_end_capture(stream.handle(), &captured) == DriverResult::success) api.graph_destroy(captured);
    throw;
  }
  driver().check(api.stream_end_capture(stream.handle(), &captured), "end the capture of a stream");
  const DriverResult made = api.graph_instantiate(&graph.handle_, captured, 0);
  api.graph_destroy(captured);
  driver().check(made, "make a graph of what was captured");
  return graph;
}

Graph::Graph(Graph&& other) noexcept : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}

Graph::~Graph() {
  if (handle_ != nullptr) release_in(context_, [&] { driver().api().graph_exec_destroy(handle_); });
}

void Graph::launch(const Stream& stream) const {
  const ScopedCurrent scope(context_);
  driver().check(driver().api().graph_launch(handle_, stream.handle()), "launch a graph");
}

}  // namespace astatide::runtime
