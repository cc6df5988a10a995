#include "runtime/shared_library.h"

#include <dlfcn.h>

namespace astatide::runtime {

std::optional<SharedLibrary> SharedLibrary::open(const std::string& path, std::string& reason) {
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* message = dlerror();
    reason = message != nullptr ? message : "unknown reason";
    return std::nullopt;
  }
  return SharedLibrary(handle, path);
}

void* SharedLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace astatide::runtime
