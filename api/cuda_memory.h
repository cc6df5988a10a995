#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/buffer.h"
#include "runtime/launch_words.h"

namespace astatide {

/// Scratch memory of one stream, which launches into it use one after the other.
struct StreamScratch {
  /// Held until a launch has put all its kernels into the stream: what comes later in the stream may use the same
  /// memory.
  std::mutex mutex;
  std::optional<runtime::DeviceBuffer> buffer;

  /// At least `bytes`, with the mutex held. Growing waits for the stream.
  void* memory(const runtime::Stream& stream, std::size_t bytes);
};

/// Device memory that launches of one program need beside that of the caller. Thread-safe; all of it lives as long as
/// this.
class CudaMemory {
 public:
  std::shared_ptr<StreamScratch> scratch(const runtime::Stream& stream);
  /// Of a launch that is captured: a graph may run beside the stream that it was captured in, and beside other graphs,
  /// so its memory is its own.
  void* captured_scratch(const runtime::Context& context, std::size_t bytes);
  /// Where an element 0 lies.
  runtime::DevicePointer zero(const runtime::Context& context);
  runtime::LaunchWords& words(const runtime::Context& context);

 private:
  std::mutex mutex_;  // guards what follows
  std::map<std::pair<std::uint64_t, runtime::StreamHandle>, std::shared_ptr<StreamScratch>> scratch_;
  std::list<runtime::DeviceBuffer> captured_;
  std::map<std::uint64_t, std::optional<runtime::DeviceBuffer>> zeros_;
  std::map<std::uint64_t, runtime::LaunchWords> words_;
};

}  // namespace astatide
