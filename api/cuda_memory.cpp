#include "api/cuda_memory.h"

#include "api/launch_plan.h"

namespace astatide {

void* StreamScratch::memory(const runtime::Stream& stream, std::size_t bytes) {
  if (!buffer || buffer->size() < bytes) {
    stream.synchronize();
    buffer.reset();
    buffer.emplace(stream.context(), bytes);
  }
  return reinterpret_cast<void*>(buffer->pointer());
}

std::shared_ptr<StreamScratch> CudaMemory::scratch(const runtime::Stream& stream) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<StreamScratch>& scratch = scratch_[{stream.context().id(), stream.handle()}];
  if (!scratch) scratch = std::make_shared<StreamScratch>();
  return scratch;
}

void* CudaMemory::captured_scratch(const runtime::Context& context, std::size_t bytes) {
  const runtime::OutsideCapture outside;
  const std::lock_guard lock(mutex_);
  return reinterpret_cast<void*>(captured_.emplace_back(context, bytes).pointer());
}

runtime::DevicePointer CudaMemory::zero(const runtime::Context& context) {
  const std::lock_guard lock(mutex_);
  std::optional<runtime::DeviceBuffer>& buffer = zeros_[context.id()];
  if (!buffer) buffer = runtime::DeviceBuffer::of_zeros(context, kScratchAlignment);
  return buffer->pointer();
}

runtime::LaunchWords& CudaMemory::words(const runtime::Context& context) {
  const std::lock_guard lock(mutex_);
  return words_.try_emplace(context.id(), context).first->second;
}

}  // namespace astatide
