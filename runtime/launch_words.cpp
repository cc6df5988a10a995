#include "runtime/launch_words.h"

#include <algorithm>

namespace astatide::runtime {
namespace {

/// Counters of two launches lie in two sectors of the L2 cache.
constexpr std::size_t kUnit = 32;
constexpr std::size_t kSharedBuffer = 4096;

}  // namespace

DevicePointer LaunchWords::take(const Stream& stream, std::size_t words) {
  const bool captured = stream.is_capturing();
  const std::size_t bytes = (words * sizeof(std::uint32_t) + kUnit - 1) / kUnit * kUnit;
  const std::lock_guard lock(mutex_);
  if (captured) return next(bytes).pointer;
  // Where a launch needs more than those before it, theirs stay where they are: they may still run.
  Words& own = of_stream_[stream.handle()];
  if (own.bytes < bytes) own = next(std::max(bytes, 2 * own.bytes));
  return own.pointer;
}

LaunchWords::Words LaunchWords::next(std::size_t bytes) {
  if (bytes > kSharedBuffer / 2) {
    buffers_.push_back(DeviceBuffer::of_zeros(context_, bytes));
    return {buffers_.back().pointer(), bytes};
  }
  if (left_ < bytes) {
    buffers_.push_back(DeviceBuffer::of_zeros(context_, kSharedBuffer));
    free_ = buffers_.back().pointer();
    left_ = kSharedBuffer;
  }
  const Words words{free_, bytes};
  free_ += bytes;
  left_ -= bytes;
  return words;
}

}  // namespace astatide::runtime
