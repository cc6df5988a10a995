// Streams, events, graphs, and copies, of which only whether they may happen is known.
//
//   clear address=A bytes=N
//   graph of N launches, and of each of its launches: graph     what is captured is recorded when it is, not again
#include "tests/support/fake_cuda/world.h"

using namespace fake;
using namespace astatide::runtime;

namespace {

/// A new thing of the current context.
template <class T>
DriverResult make(const Call& call, T** out, Object object) {
  DriverResult result = DriverResult::success;
  const Context* const context = call.current(result);
  if (context == nullptr) return result;
  object.context = context->id;
  return give(out, call.world.add(std::move(object))), DriverResult::success;
}

template <class T>
DriverResult destroy(const Call& call, Kind kind, T* handle) {
  DriverResult result = DriverResult::success;
  if (call.own(kind, number_of(handle), result) != nullptr) call.world.remove(number_of(handle));
  return result;
}

/// One that may be waited for wherever it was made.
Object* any(const Call& call, Kind kind, Handle handle, DriverResult& result) {
  Object* const found = call.world.find(kind, handle);
  if (found == nullptr) result = call.fault(kInvalidHandle, kind == Kind::stream ? "no such stream" : "no such event");
  return found;
}

DriverResult copy(const Call& call, DevicePointer memory, std::size_t bytes, StreamHandle stream) {
  DriverResult result = DriverResult::success;
  if (call.takes_stream(number_of(stream), result)) call.takes_memory(memory, bytes, result);
  return result;
}

}  // namespace

extern "C" {

DriverResult cuMemcpyHtoDAsync_v2(DevicePointer to, const void*, std::size_t bytes, StreamHandle stream) {
  return copy(Call("cuMemcpyHtoDAsync"), to, bytes, stream);
}
DriverResult cuMemcpyDtoHAsync_v2(void*, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  return copy(Call("cuMemcpyDtoHAsync"), from, bytes, stream);
}
DriverResult cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  const Call call("cuMemcpyDtoDAsync");
  const DriverResult read = copy(call, from, bytes, stream);
  return read != DriverResult::success ? read : copy(call, to, bytes, stream);
}
DriverResult cuMemsetD8Async(DevicePointer pointer, unsigned char, std::size_t bytes, StreamHandle stream) {
  const Call call("cuMemsetD8Async");
  record("clear address=" + std::to_string(pointer) + " bytes=" + std::to_string(bytes));
  return copy(call, pointer, bytes, stream);
}

DriverResult cuStreamCreate(StreamHandle* stream, unsigned) {
  Object object;
  object.kind = Kind::stream;
  return make(Call("cuStreamCreate"), stream, std::move(object));
}
DriverResult cuStreamDestroy_v2(StreamHandle stream) { return destroy(Call("cuStreamDestroy"), Kind::stream, stream); }
DriverResult cuStreamSynchronize(StreamHandle stream) {
  const Call call("cuStreamSynchronize");
  DriverResult result = DriverResult::success;
  if (stream == nullptr) call.current(result);
  if (stream != nullptr) any(call, Kind::stream, number_of(stream), result);
  return result;
}
DriverResult cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  const Call call("cuStreamWaitEvent");
  DriverResult result = DriverResult::success;
  if (stream == nullptr ? call.current(result) != nullptr
                        : any(call, Kind::stream, number_of(stream), result) != nullptr)
    any(call, Kind::event, number_of(event), result);
  return result;
}

DriverResult cuStreamGetCtx(StreamHandle stream, ContextHandle* context) {
  const Call call("cuStreamGetCtx");
  DriverResult result = DriverResult::success;
  if (const Object* const own = any(call, Kind::stream, number_of(stream), result))
    give(context, call.world.context_of(own->context)->handle);
  return result;
}
DriverResult cuStreamIsCapturing(StreamHandle stream, int* status) {
  const Call call("cuStreamIsCapturing");
  DriverResult result = DriverResult::success;
  *status = kCaptureStatusNone;
  if (stream == nullptr) return result;
  if (const Object* const own = any(call, Kind::stream, number_of(stream), result))
    *status = own->launches < 0 ? kCaptureStatusNone : 1;
  return result;
}
DriverResult cuStreamBeginCapture_v2(StreamHandle stream, int) {
  const Call call("cuStreamBeginCapture");
  DriverResult result = DriverResult::success;
  Object* const own = call.own(Kind::stream, number_of(stream), result);
  if (own == nullptr) return result;
  if (own->launches >= 0) return call.fault(DriverResult::invalid_value, "the stream is captured already");
  return own->launches = 0, result;
}
DriverResult cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  const Call call("cuStreamEndCapture");
  DriverResult result = DriverResult::success;
  Object* const own = call.own(Kind::stream, number_of(stream), result);
  if (own == nullptr) return result;
  if (own->launches < 0) return call.fault(DriverResult::invalid_value, "the stream is not captured");
  record("graph of " + std::to_string(own->launches) + " launches");
  Object made;
  made.kind = Kind::graph;
  own->launches = -1;
  return make(call, graph, std::move(made));
}
DriverResult cuGraphInstantiateWithFlags(ExecutableGraphHandle* made, GraphHandle graph, unsigned long long) {
  const Call call("cuGraphInstantiate");
  DriverResult result = DriverResult::success;
  if (call.own(Kind::graph, number_of(graph), result) == nullptr) return result;
  Object object;
  object.kind = Kind::executable_graph;
  return make(call, made, std::move(object));
}
DriverResult cuGraphLaunch(ExecutableGraphHandle graph, StreamHandle stream) {
  const Call call("cuGraphLaunch");
  DriverResult result = DriverResult::success;
  if (call.own(Kind::executable_graph, number_of(graph), result) == nullptr) return result;
  if (!call.takes_stream(number_of(stream), result)) return result;
  return record("graph"), result;
}
DriverResult cuGraphDestroy(GraphHandle graph) { return destroy(Call("cuGraphDestroy"), Kind::graph, graph); }
DriverResult cuGraphExecDestroy(ExecutableGraphHandle graph) {
  return destroy(Call("cuGraphExecDestroy"), Kind::executable_graph, graph);
}

DriverResult cuEventCreate(EventHandle* event, unsigned) {
  Object object;
  object.kind = Kind::event;
  return make(Call("cuEventCreate"), event, std::move(object));
}
DriverResult cuEventDestroy_v2(EventHandle event) { return destroy(Call("cuEventDestroy"), Kind::event, event); }
DriverResult cuEventRecord(EventHandle event, StreamHandle stream) {
  const Call call("cuEventRecord");
  DriverResult result = DriverResult::success;
  Object* const own = call.own(Kind::event, number_of(event), result);
  if (own != nullptr && call.takes_stream(number_of(stream), result)) own->recorded = true;
  return result;
}
DriverResult cuEventSynchronize(EventHandle event) {
  const Call call("cuEventSynchronize");
  DriverResult result = DriverResult::success;
  any(call, Kind::event, number_of(event), result);
  return result;
}
DriverResult cuEventElapsedTime(float* milliseconds, EventHandle start, EventHandle end) {
  const Call call("cuEventElapsedTime");
  DriverResult result = DriverResult::success;
  const Object* const from = any(call, Kind::event, number_of(start), result);
  const Object* const to = from == nullptr ? nullptr : any(call, Kind::event, number_of(end), result);
  if (to == nullptr) return result;
  if (from->context != to->context || !from->recorded || !to->recorded)
    return call.fault(kInvalidHandle, "two events of " + call.name_of(from->context) + " and of " +
                                          call.name_of(to->context) + ", or not both recorded");
  return *milliseconds = 0, result;
}
}
