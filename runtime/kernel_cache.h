#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/build_notes.h"
#include "runtime/cache.h"
#include "runtime/counters.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"
#include "runtime/nvrtc_facts.h"

namespace astatide::runtime {

/// Where a compiled kernel came from.
enum class CacheOrigin { none, disk, memory };

std::string_view name_of(CacheOrigin origin);

/// What a compilation gave, however long ago.
struct Artifact {
  CompiledBinary binary;                   // `seconds` is 0 when it came from the disk
  std::vector<KernelResources> resources;  // empty for PTX
  std::string key;
};

/// The key of a request: source, headers, options, target and kind of output, and the compiler's version.
std::string kernel_cache_key(const CompileRequest& request, const NvrtcVersion& version);

/// Compiled kernels, in memory and on disk; loaded modules, a context each. Thread-safe; of threads that ask for one
/// thing at once, one does the work.
class KernelCache {
 public:
  explicit KernelCache(DiskCache disk);

  /// The artifact of a request; `notes` go to the disk with what is compiled. Needs NVRTC, no device. Throws as
  /// Nvrtc::load and Nvrtc::compile.
  std::pair<std::shared_ptr<const Artifact>, CacheOrigin> compile(const CompileRequest& request,
                                                                  const BuildNotes& notes = {});

  /// The artifact of a request, loaded into a context. Throws as compile() and Module.
  std::pair<std::shared_ptr<const Module>, CacheOrigin> load(const Context& context, const CompileRequest& request);

  /// What this cache and the kernels that it loaded did so far.
  const Counters& counters() const { return *counters_; }
  DiskCache& disk() { return disk_; }
  /// The folder of an entry on disk, which exists only if storing it worked.
  std::filesystem::path folder_of(const Artifact& artifact) const { return disk_.root() / artifact.key; }

 private:
  std::pair<std::shared_ptr<const Artifact>, CacheOrigin> read_or_compile(const CompileRequest& request,
                                                                          const BuildNotes& notes,
                                                                          const std::string& key);
  /// Asked for once; a failure is asked for again.
  const NvrtcFacts& known_facts();

  DiskCache disk_;
  std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
  std::mutex facts_mutex_;  // guards facts_
  std::optional<NvrtcFacts> facts_;
  std::mutex mutex_;  // guards the maps; not held while a kernel is compiled
  std::map<std::string, std::shared_future<std::shared_ptr<const Artifact>>> artifacts_;
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<const Module>> modules_;
};

}  // namespace astatide::runtime
