#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/orc.h"
#include "runtime/thread_pool.h"

namespace astatide::runtime {

/// Threads and their workspaces, kept from launch to launch.
class CpuWorkers {
 public:
  /// As ThreadPool.
  explicit CpuWorkers(int threads = 0, int limit = 0) : pool_(threads, limit), workspaces_(pool_.workers()) {}

  int threads() const { return pool_.workers(); }
  /// Bytes that the workspaces hold now, all threads together.
  std::int64_t workspace_bytes() const;

  /// Runs output tiles 0 .. tiles-1 of a kernel over all threads and waits. `args` are the kernel's words in order;
  /// `workspace_bytes` is what one thread needs. Throws MachineError where memory is lacking.
  void launch(CpuFunction function, std::span<const std::uint64_t> args, std::int64_t tiles,
              std::int64_t workspace_bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Workspace {
    std::unique_ptr<std::byte, Free> memory;
    std::int64_t bytes = 0;
  };

  ThreadPool pool_;
  std::vector<Workspace> workspaces_;
};

}  // namespace astatide::runtime
