#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "runtime/buffer.h"

namespace astatide::runtime {

/// Counters of a context's launches: words of 32 bits in device memory, as many as each asks for, 0 before a launch,
/// which leaves them at 0. Launches into one stream follow each other and share theirs. A launch that is captured into
/// a graph has its own, since a graph may run beside the stream that it was captured in, and beside other graphs; they
/// live as long as this does. Thread-safe.
class LaunchWords {
 public:
  explicit LaunchWords(const Context& context) : context_(context) {}

  /// `words`: 1 or more.
  DevicePointer take(const Stream& stream, std::size_t words);

 private:
  struct Words {
    DevicePointer pointer = 0;
    std::size_t bytes = 0;
  };
  Words next(std::size_t bytes);

  Context context_;
  std::mutex mutex_;  // guards what follows
  std::vector<DeviceBuffer> buffers_;
  DevicePointer free_ = 0;  // in a buffer that small ones share
  std::size_t left_ = 0;    // bytes there
  std::map<StreamHandle, Words> of_stream_;
};

}  // namespace astatide::runtime
