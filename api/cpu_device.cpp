#include "api/cpu_device.h"

#include "api/clock.h"
#include "compiler/support/diagnostic.h"

#if ASTATIDE_WITH_CPU

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
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
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    std::int64_t bytes = 0;
  };

 public:
  class Loan {
   public:
    Loan(ScratchPool& pool, std::int64_t bytes) : pool_(pool) {
      if (bytes > 0) block_ = pool.take(bytes);
    }
    ~Loan() {
      if (block_.bytes > 0) pool_.give_back(std::move(block_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    void* memory() const { return block_.memory.get(); }

   private:
    ScratchPool& pool_;
    Block block_;
  };

 private:
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

/// The program's functions and what runs them.
struct CpuProgram {
  std::vector<runtime::CpuFunction> functions;
  std::vector<std::int64_t> workspace_bytes;  // of one thread, by kernel
  std::shared_ptr<runtime::CpuWorkers> workers;
  std::shared_ptr<runtime::Counters> counters;
  mutable ScratchPool scratch;
};

class CpuLaunch : public BoundLaunch {
 public:
  CpuLaunch(const CpuProgram& program, std::vector<KernelLaunch> launches, std::int64_t workspace_bytes)
      : program_(program), workspace_bytes_(workspace_bytes) {
    for (KernelLaunch& launch : launches) {
      Kernel& kernel = kernels_.emplace_back();
      kernel.words.resize(launch.arguments.size());
      for (std::size_t n = 0; n < launch.arguments.size(); ++n)
        if (launch.arguments[n].kind == tile::Parameter::Kind::arrivals)
          kernel.arrivals[n].resize(launch.arguments[n].word);
      kernel.launch = std::move(launch);
    }
  }

  bool fits() const override { return true; }

  void launch(std::span<void* const> tensors, void* workspace, void*) override {
    const ScratchPool::Loan scratch(program_.scratch, workspace == nullptr ? workspace_bytes_ : 0);
    if (workspace == nullptr) workspace = scratch.memory();
    for (Kernel& kernel : kernels_) {
      const std::vector<ArgumentValue>& arguments = kernel.launch.arguments;
      for (std::size_t n = 0; n < arguments.size(); ++n)
        kernel.words[n] = arguments[n].is_address() ? arguments[n].address(tensors, workspace) : arguments[n].word;
      for (auto& [n, words] : kernel.arrivals) {
        std::fill(words.begin(), words.end(), 0);
        kernel.words[n] = reinterpret_cast<std::uintptr_t>(words.data());
      }
      program_.workers->launch(program_.functions[kernel.launch.kernel], kernel.words, kernel.launch.tiles,
                               program_.workspace_bytes[kernel.launch.kernel]);
      ++program_.counters->launches;
    }
  }

 private:
  struct Kernel {
    KernelLaunch launch;
    std::vector<std::uint64_t> words;
    std::map<std::size_t, std::vector<std::int32_t>> arrivals;  // counters, by the argument that points to them
  };

  const CpuProgram& program_;
  std::int64_t workspace_bytes_;
  std::vector<Kernel> kernels_;
};

class CpuCode : public DeviceCode {
 public:
  CpuCode(const cpu::CpuModule& emitted, std::shared_ptr<const runtime::OrcModule> module,
          std::shared_ptr<runtime::CpuWorkers> workers, std::shared_ptr<runtime::Counters> counters)
      : module_(std::move(module)) {
    program_.workers = std::move(workers);
    program_.counters = std::move(counters);
    for (const cpu::CpuKernel& kernel : emitted.kernels) {
      program_.functions.push_back(module_->function(kernel.symbol));
      program_.workspace_bytes.push_back(kernel.workspace_bytes);
    }
  }

  std::int64_t resident_blocks(std::size_t) const override { return program_.workers->threads(); }
  bool uses_host_memory() const override { return true; }
  void copy_to_host(const void*, std::span<std::byte>, void*) const override {
    throw InternalError("tensors of the CPU lie with the host");
  }
  void check_pointer(const std::string&, const void*) const override {}

  std::unique_ptr<BoundLaunch> bind(std::vector<KernelLaunch> launches, std::int64_t workspace_bytes) const override {
    return std::make_unique<CpuLaunch>(program_, std::move(launches), workspace_bytes);
  }

 private:
  std::shared_ptr<const runtime::OrcModule> module_;
  CpuProgram program_;
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
  const cpu::CpuModule emitted = cpu::emit_llvm(program, cpu::detect_host());
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
  return std::make_shared<CpuCode>(emitted, loaded.module, state_->running_workers(), state_->counters);
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
