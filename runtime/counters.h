#pragma once

#include <atomic>
#include <cstdint>

namespace astatide::runtime {

/// What happened so far. Shared by a cache and all that came out of it.
struct Counters {
  std::atomic<std::uint64_t> compiles{0};
  std::atomic<std::uint64_t> disk_hits{0};
  std::atomic<std::uint64_t> memory_hits{0};
  std::atomic<std::uint64_t> launches{0};
};

}  // namespace astatide::runtime
