#include "runtime/orc.h"

#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include <chrono>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {
namespace {

constexpr const char* kObjectName = "kernel.o";
constexpr const char* kBitcodeName = "kernel.bc";

template <class T>
T checked(llvm::Expected<T> value, const std::string& what) {
  if (!value) throw InternalError(what + ": " + llvm::toString(value.takeError()));
  return std::move(*value);
}

}  // namespace

struct OrcModule::Jit {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

OrcModule::OrcModule(const std::string& name, const std::string& object) : jit_(std::make_unique<Jit>()) {
  initialize_llvm();
  jit_->jit = checked(llvm::orc::LLJITBuilder().create(), "can't start LLVM's JIT");
  // Rare operations (pow, copies of blocks) are calls into the process's libraries.
  const char prefix = jit_->jit->getDataLayout().getGlobalPrefix();
  jit_->jit->getMainJITDylib().addGenerator(
      checked(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(prefix), "can't search this process"));
  if (llvm::Error error = jit_->jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object, name)))
    throw InternalError("can't link " + name + ": " + llvm::toString(std::move(error)));
}

OrcModule::~OrcModule() = default;

CpuFunction OrcModule::function(const std::string& symbol) const {
  return checked(jit_->jit->lookup(symbol), "no function " + symbol).toPtr<CpuFunction>();
}

std::string orc_cache_key(const OrcRequest& request) {
  CacheKeyBuilder key;
  key.add("compiler", "llvm " + llvm_version());
  key.add("cpu", request.cpu);
  key.add("features", request.features);
  key.add("bitcode", request.bitcode);
  return key.key();
}

OrcCache::Loaded OrcCache::load(const OrcRequest& request, const BuildNotes& notes) {
  const std::string key = orc_cache_key(request);
  std::promise<std::shared_ptr<const OrcModule>> promise;
  {
    std::unique_lock lock(mutex_);
    const auto found = modules_.find(key);
    if (found != modules_.end()) {
      const auto future = found->second;
      lock.unlock();
      return {future.get(), CacheOrigin::memory, 0};
    }
    modules_.emplace(key, promise.get_future().share());
  }
  try {
    double seconds = 0;
    const auto build = [&]() -> CacheFiles {
      const auto start = std::chrono::steady_clock::now();
      std::string object = compile_object(request);
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      CacheFiles files = {{kObjectName, std::move(object)}, {kBitcodeName, request.bitcode}};
      add_notes(files, notes, seconds);
      return files;
    };
    DiskCache::Found entry = disk_.find_or_build(key, build);
    // An entry of this key without an object can only be another version's: build over it in memory.
    if (!find_file(entry.files, kObjectName)) entry = {build(), true};
    auto module = std::make_shared<const OrcModule>(request.name, *find_file(entry.files, kObjectName));
    promise.set_value(module);
    return {module, entry.built ? CacheOrigin::none : CacheOrigin::disk, seconds};
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    modules_.erase(key);
    throw;
  }
}

}  // namespace astatide::runtime
