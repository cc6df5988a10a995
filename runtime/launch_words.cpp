#include "runtime/launch_words.h"

namespace astatide::runtime {
namespace {

/// Counters of two launches lie in two sectors of the L2 cache.
constexpr std::size_t kBytesEach = 32;
constexpr std::size_t kLaunchesEach = 128;  // of a buffer

}  // namespace

DevicePointer LaunchWords::take(const Stream& stream) {
  const bool captured = stream.is_capturing();
  const std::lock_guard lock(mutex_);
  if (captured) return next();
  const auto known = of_stream_.find(stream.handle());
  return known != of_stream_.end() ? known->second : of_stream_.emplace(stream.handle(), next()).first->second;
}

DevicePointer LaunchWords::next() {
  if (left_ == 0) {
    buffers_.push_back(DeviceBuffer::of_zeros(context_, kBytesEach * kLaunchesEach));
    left_ = kLaunchesEach;
  }
  return buffers_.back().pointer() + kBytesEach * --left_;
}

}  // namespace astatide::runtime
