#include "api/cpu_device.h"

#include "api/clock.h"
#include "compiler/support/diagnostic.h"

#if ASTATIDE_WITH_CPU

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <list>
#include <mutex>
#include <thread>

#include "compiler/cpu/emit.h"
#include "runtime/environment.h"
#include "runtime/orc.h"
#include "runtime/orc_launch.h"

namespace astatide {
namespace {

std::int64_t physical_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));
}

/// Scratch memory that launches lend and give back, so that its pages stay mapped from one to the next.
class ScratchPool {
 public:
  ScratchLease lend(const std::shared_ptr<ScratchPool>& self, std::int64_t bytes) {
    Block block = take(bytes);
    void* memory = block.memory.get();
    const auto hold = std::make_shared<Lease>(Lease{self, std::move(block)});
    return {memory, hold};
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    std::int64_t bytes = 0;
  };
  struct Lease {
    std::shared_ptr<ScratchPool> pool;
    Block block;
    Lease(std::shared_ptr<ScratchPool> from, Block lent) : pool(std::move(from)), block(std::move(lent)) {}
    Lease(Lease&&) = default;
    ~Lease() {
      if (pool) pool->give_back(std::move(block));
    }
  };

  Block take(std::int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (free_.bytes >= bytes) return std::exchange(free_, Block{});
    }
    // The system promises memory that it has not; what can never be there is refused before it is touched.
    if (bytes > physical_bytes())
      throw MachineError(
          fmt::format("scratch tensors need {} bytes of memory, the machine has {}", bytes, physical_bytes()));
    const std::int64_t size = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    Block block{std::unique_ptr<void, Free>(std::aligned_alloc(kScratchAlignment, static_cast<std::size_t>(size))),
                bytes};
    if (!block.memory) throw MachineError(fmt::format("no memory for scratch tensors of {} bytes", bytes));
    return block;
  }
  void give_back(Block block) {
    const std::lock_guard lock(mutex_);
    // One block is kept, the largest: launches at the same time are rare.
    if (block.bytes > free_.bytes) std::swap(free_, block);
  }

  std::mutex mutex_;  // guards free_
  Block free_;
};

class CpuCode : public DeviceCode {
 public:
  CpuCode(cpu::CpuModule emitted, std::shared_ptr<const runtime::OrcModule> module,
          std::shared_ptr<runtime::CpuWorkers> workers, std::shared_ptr<runtime::Counters> counters)
      : emitted_(std::move(emitted)),
        module_(std::move(module)),
        workers_(std::move(workers)),
        counters_(std::move(counters)) {
    for (const cpu::CpuKernel& kernel : emitted_.kernels) functions_.push_back(module_->function(kernel.symbol));
    emitted_.bitcode.clear();
  }

  std::int64_t resident_blocks(std::size_t) const override { return workers_->threads(); }
  bool uses_host_memory() const override { return true; }
  void copy_to_host(const void*, std::span<std::byte>, void*) const override {
    throw InternalError("tensors of the CPU lie with the host");
  }
  void check_pointer(const std::string&, const void*) const override {}

  ScratchLease scratch(std::int64_t bytes, void*) const override { return scratch_->lend(scratch_, bytes); }

  void launch(const std::vector<KernelLaunch>& launches, void*) const override {
    for (const KernelLaunch& launch : launches) {
      std::vector<std::uint64_t> words;
      words.reserve(launch.arguments.size());
      std::list<std::vector<std::int32_t>> counters;
      for (const ArgumentValue& argument : launch.arguments) {
        const bool arrivals = argument.kind == tile::Parameter::Kind::arrivals;
        words.push_back(arrivals ? reinterpret_cast<std::uintptr_t>(counters.emplace_back(argument.word).data())
                                 : argument.word);
      }
      workers_->launch(functions_[launch.kernel], words, launch.tiles, emitted_.kernels[launch.kernel].workspace_bytes);
      ++counters_->launches;
    }
  }

 private:
  cpu::CpuModule emitted_;
  std::shared_ptr<const runtime::OrcModule> module_;
  std::shared_ptr<runtime::CpuWorkers> workers_;
  std::shared_ptr<runtime::Counters> counters_;
  std::vector<runtime::CpuFunction> functions_;
  std::shared_ptr<ScratchPool> scratch_ = std::make_shared<ScratchPool>();
};

}  // namespace

bool has_cpu_backend() { return true; }

struct CpuDevice::State {
  State(int count, std::shared_ptr<runtime::DiskCache> cache, std::shared_ptr<runtime::Counters> shared)
      : threads(count), disk(std::move(cache)), counters(std::move(shared)), modules(*disk) {}

  /// Threads start with the first kernel that is compiled, not with the engine.
  std::shared_ptr<runtime::CpuWorkers> running_workers() {
    const std::lock_guard lock(mutex);
    if (!workers)
      workers = std::make_shared<runtime::CpuWorkers>(threads > 0 ? threads : runtime::read_environment().threads);
    return workers;
  }

  int threads;
  std::shared_ptr<runtime::DiskCache> disk;
  std::shared_ptr<runtime::Counters> counters;
  runtime::OrcCache modules;
  std::mutex mutex;  // guards workers
  std::shared_ptr<runtime::CpuWorkers> workers;
};

CpuDevice::CpuDevice(int threads, std::shared_ptr<runtime::DiskCache> disk, std::shared_ptr<runtime::Counters> counters)
    : state_(std::make_shared<State>(threads, std::move(disk), std::move(counters))) {}
CpuDevice::~CpuDevice() = default;

std::shared_ptr<const DeviceCode> CpuDevice::compile(const tile::Program& program, runtime::BuildNotes notes,
                                                     BuildReport& report) {
  const auto lowering = Clock::now();
  cpu::CpuModule emitted = cpu::emit_llvm(program, cpu::detect_host());
  notes.lower_ms = report.lower_ms += milliseconds_since(lowering);
  const auto compiling = Clock::now();
  const runtime::OrcRequest request{emitted.name, emitted.bitcode, emitted.host.cpu, emitted.host.features};
  const runtime::OrcCache::Loaded loaded = state_->modules.load(request, notes);
  report.compile_ms = milliseconds_since(compiling);
  report.cache = name_of(loaded.origin);
  switch (loaded.origin) {
    case runtime::CacheOrigin::none:
      ++state_->counters->compiles;
      break;
    case runtime::CacheOrigin::disk:
      ++state_->counters->disk_hits;
      break;
    case runtime::CacheOrigin::memory:
      ++state_->counters->memory_hits;
      break;
  }
  return std::make_shared<CpuCode>(std::move(emitted), loaded.module, state_->running_workers(), state_->counters);
}

std::string print_llvm(const tile::Program& program) { return cpu::emit_llvm_text(program, cpu::detect_host()); }

}  // namespace astatide

#else

namespace astatide {
namespace {

[[noreturn]] void refuse() {
  throw MachineError("this build has no CPU backend", {"it is built with LLVM 19 and ASTATIDE_CPU=ON"});
}

}  // namespace

struct CpuDevice::State {};

bool has_cpu_backend() { return false; }
CpuDevice::CpuDevice(int, std::shared_ptr<runtime::DiskCache>, std::shared_ptr<runtime::Counters>) {}
CpuDevice::~CpuDevice() = default;
std::shared_ptr<const DeviceCode> CpuDevice::compile(const tile::Program&, runtime::BuildNotes, BuildReport&) {
  refuse();
}
std::string print_llvm(const tile::Program&) { refuse(); }

}  // namespace astatide

#endif
