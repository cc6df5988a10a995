#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "runtime/buffer.h"

namespace astatide::runtime {

/// Counters of a context's launches: two words of 32 bits in device memory for each, 0 before a launch, which leaves
/// them at 0. Launches into one stream follow each other and share theirs. A launch that is captured into a graph has
/// its own, since a graph may run beside the stream that it was captured in, and beside other graphs; they live as long
/// as this does. Thread-safe.
class LaunchWords {
 public:
  explicit LaunchWords(const Context& context) : context_(context) {}

  DevicePointer take(const Stream& stream);

 private:
  DevicePointer next();

  Context context_;
  std::mutex mutex_;  // guards what follows
  std::vector<DeviceBuffer> buffers_;
  std::size_t left_ = 0;  // in the last buffer
  std::map<StreamHandle, DevicePointer> of_stream_;
};

}  // namespace astatide::runtime
