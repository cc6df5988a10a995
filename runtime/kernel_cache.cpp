#include "runtime/kernel_cache.h"

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {
namespace {

constexpr const char* kSourceName = "kernel.cu";
constexpr const char* kCubinName = "kernel.cubin";
constexpr const char* kPtxName = "kernel.ptx";
constexpr const char* kLogName = "log";
constexpr const char* kTargetName = "target";

CacheFiles files_of(const CompileRequest& request, const CompiledBinary& binary, const BuildNotes& notes) {
  CacheFiles files = {{kSourceName, request.source},
                      {binary.kind == BinaryKind::cubin ? kCubinName : kPtxName, binary.bytes},
                      {kTargetName, binary.target},
                      {kLogName, binary.log}};
  add_notes(files, notes, binary.seconds);
  for (std::size_t i = 0; i < request.headers.size(); ++i) {
    // The name a source includes may hold slashes; the entry is for people to read, so the last part is enough.
    const std::string& name = request.headers[i].name;
    files.push_back({"header" + std::to_string(i) + "_" + name.substr(name.rfind('/') + 1), request.headers[i].text});
  }
  return files;
}

std::optional<CompiledBinary> binary_of(const CacheFiles& files) {
  const std::string* cubin = find_file(files, kCubinName);
  const std::string* ptx = find_file(files, kPtxName);
  const std::string* target = find_file(files, kTargetName);
  const std::string* log = find_file(files, kLogName);
  if ((cubin == nullptr) == (ptx == nullptr) || target == nullptr || log == nullptr) return std::nullopt;
  CompiledBinary binary;
  binary.kind = cubin != nullptr ? BinaryKind::cubin : BinaryKind::ptx;
  binary.bytes = cubin != nullptr ? *cubin : *ptx;
  binary.target = *target;
  binary.log = *log;
  return binary;
}

}  // namespace

std::string_view name_of(CacheOrigin origin) {
  switch (origin) {
    case CacheOrigin::none:
      return "none";
    case CacheOrigin::disk:
      return "disk";
    case CacheOrigin::memory:
      return "memory";
  }
  return "none";
}

std::string kernel_cache_key(const CompileRequest& request, const NvrtcVersion& version) {
  CacheKeyBuilder key;
  key.add("compiler", "nvrtc " + version.text());
  key.add("target", request.target);
  key.add("output", request.output == BinaryKind::cubin ? "cubin" : "ptx");
  key.add("name", request.name);
  for (const std::string& option : request.options) key.add("option", option);
  for (const Header& header : request.headers) key.add("header", header.name).add("text", header.text);
  key.add("source", request.source);
  return key.key();
}

KernelCache::KernelCache(DiskCache disk) : disk_(std::move(disk)) {}

std::pair<std::shared_ptr<const Artifact>, CacheOrigin> KernelCache::compile(const CompileRequest& request,
                                                                             const BuildNotes& notes) {
  // A target that can't be served leaves no trace on disk.
  const NvrtcFacts& facts = known_facts();
  choose_architecture(request.target, request.output, facts.supported, facts.version);
  const std::string key = kernel_cache_key(request, facts.version);
  std::promise<std::shared_ptr<const Artifact>> promise;
  std::shared_future<std::shared_ptr<const Artifact>> others;
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, added] = artifacts_.try_emplace(key);
    if (added) {
      entry->second = promise.get_future().share();
    } else {
      others = entry->second;
    }
  }
  if (others.valid()) {
    std::shared_ptr<const Artifact> artifact = others.get();
    ++counters_->memory_hits;
    return {std::move(artifact), CacheOrigin::memory};
  }
  try {
    auto result = read_or_compile(request, notes, key);
    promise.set_value(result.first);
    return result;
  } catch (...) {
    // A failure isn't kept: what the machine lacked may be there the next time.
    {
      const std::lock_guard lock(mutex_);
      artifacts_.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

const NvrtcFacts& KernelCache::known_facts() {
  const std::lock_guard lock(facts_mutex_);
  if (!facts_) facts_ = nvrtc_facts(disk_);
  return *facts_;
}

std::pair<std::shared_ptr<const Artifact>, CacheOrigin> KernelCache::read_or_compile(const CompileRequest& request,
                                                                                     const BuildNotes& notes,
                                                                                     const std::string& key) {
  auto artifact = std::make_shared<Artifact>();
  artifact->key = key;
  DiskCache::Found found = disk_.find_or_build(key, [&] {
    ++counters_->compiles;
    artifact->binary = nvrtc().compile(request);
    return files_of(request, artifact->binary, notes);
  });
  if (found.built) {
    keep_nvrtc_facts(disk_, known_facts());
  } else {
    ++counters_->disk_hits;
    auto binary = binary_of(found.files);
    // The hashes of the manifest were right, so this is no damage: the key is wrong, or the version wasn't raised.
    if (!binary) throw InternalError("the cache entry " + key + " is no kernel");
    artifact->binary = std::move(*binary);
  }
  if (artifact->binary.kind == BinaryKind::cubin) artifact->resources = parse_ptxas_report(artifact->binary.log);
  return {std::move(artifact), found.built ? CacheOrigin::none : CacheOrigin::disk};
}

std::pair<std::shared_ptr<const Module>, CacheOrigin> KernelCache::load(const Context& context,
                                                                        const CompileRequest& request) {
  const auto [artifact, origin] = compile(request);
  const std::pair<std::uint64_t, std::string> slot(context.id(), artifact->key);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = modules_.find(slot); found != modules_.end()) return {found->second, origin};
  }
  auto module = std::make_shared<const Module>(context, artifact->binary, request.name, counters_);
  const std::lock_guard lock(mutex_);
  // Two threads may have loaded it at once; the first to come here wins.
  return {modules_.try_emplace(slot, std::move(module)).first->second, origin};
}

}  // namespace astatide::runtime
