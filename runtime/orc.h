#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/build_notes.h"
#include "runtime/cache.h"
#include "runtime/kernel_cache.h"

namespace astatide::runtime {

/// void kernel(args, tile_begin, tile_end, workspace); see CpuKernel of the compiler.
using CpuFunction = void (*)(const std::uint64_t*, std::int64_t, std::int64_t, void*);

/// Starts LLVM's backend for this machine, once a process.
void initialize_llvm();

/// LLVM bitcode and the machine that it is for, in LLVM's names.
struct OrcRequest {
  std::string name;
  std::string bitcode;
  std::string cpu, features;
};

/// Version of the LLVM library that is linked.
std::string llvm_version();

/// Optimises and compiles to a relocatable object file. Throws InternalError where LLVM refuses the bitcode, UserError
/// where it has no backend for its triple.
std::string compile_object(const OrcRequest& request);
/// The assembly text of the same object.
std::string compile_assembly(const OrcRequest& request);

/// Machine code in this process, from an object file. The functions live as long as the module.
class OrcModule {
 public:
  /// Throws InternalError where the object can't be linked.
  OrcModule(const std::string& name, const std::string& object);
  ~OrcModule();
  OrcModule(const OrcModule&) = delete;
  OrcModule& operator=(const OrcModule&) = delete;

  /// Throws InternalError where there is none.
  CpuFunction function(const std::string& symbol) const;

 private:
  struct Jit;
  std::unique_ptr<Jit> jit_;
};

/// The key of a request: bitcode, processor, features and LLVM's version.
std::string orc_cache_key(const OrcRequest& request);

/// Compiled modules, in memory and on disk. Thread-safe; of threads that ask for one thing at once, one does the work.
class OrcCache {
 public:
  /// `disk` is used as long as this lives.
  explicit OrcCache(DiskCache& disk) : disk_(disk) {}

  /// `compile_seconds` is 0 where nothing was compiled.
  struct Loaded {
    std::shared_ptr<const OrcModule> module;
    CacheOrigin origin = CacheOrigin::none;
    double compile_seconds = 0;
  };
  /// `notes` go to the disk with what is compiled.
  Loaded load(const OrcRequest& request, const BuildNotes& notes = {});

 private:
  DiskCache& disk_;
  std::mutex mutex_;  // guards the map; not held while a module is compiled
  std::map<std::string, std::shared_future<std::shared_ptr<const OrcModule>>> modules_;
};

}  // namespace astatide::runtime
