#include "runtime/orc_launch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {
namespace {

constexpr std::int64_t kAlignment = 64;
// Ranges a worker, at least: enough that the last ones finish together, few enough that taking one costs nothing.
constexpr std::int64_t kRangesPerWorker = 64;

}  // namespace

void CpuWorkers::Free::operator()(std::byte* memory) const { std::free(memory); }

std::int64_t CpuWorkers::workspace_bytes() const {
  std::int64_t sum = 0;
  for (const Workspace& workspace : workspaces_) sum += workspace.bytes;
  return sum;
}

void CpuWorkers::launch(CpuFunction function, std::span<const std::uint64_t> args, std::int64_t tiles,
                        std::int64_t workspace_bytes) {
  const std::int64_t bytes = (std::max<std::int64_t>(workspace_bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const std::int64_t chunk = std::max<std::int64_t>(1, tiles / (kRangesPerWorker * threads()));
  pool_.for_each_range(tiles, chunk, [&](int worker, std::int64_t begin, std::int64_t end) {
    Workspace& workspace = workspaces_[static_cast<std::size_t>(worker)];
    if (workspace.bytes < bytes) {
      // By the thread that uses it: its pages then lie near.
      workspace.memory.reset();
      workspace.bytes = 0;
      workspace.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(bytes))));
      if (!workspace.memory) throw MachineError("no memory for a workspace of " + std::to_string(bytes) + " bytes");
      // Padding is computed on and thrown away; zeros keep it from being slow numbers.
      std::memset(workspace.memory.get(), 0, static_cast<std::size_t>(bytes));
      workspace.bytes = bytes;
    }
    function(args.data(), begin, end, workspace.memory.get());
  });
}

}  // namespace astatide::runtime
