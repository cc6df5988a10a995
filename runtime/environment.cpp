#include "runtime/environment.h"

#include <cstdlib>

namespace astatide::runtime {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.libcuda = variable("ASTATIDE_LIBCUDA");
  environment.nvrtc = variable("ASTATIDE_NVRTC");
  environment.nvdisasm = variable("ASTATIDE_NVDISASM");
  environment.cuda_home = variable("CUDA_HOME");
  environment.cuda_path = variable("CUDA_PATH");
  environment.python_site = variable("ASTATIDE_PYTHON_SITE");
  environment.cache_dir = variable("ASTATIDE_CACHE_DIR");
  environment.xdg_cache_home = variable("XDG_CACHE_HOME");
  environment.home = variable("HOME");
  environment.require_gpu = variable("ASTATIDE_REQUIRE_GPU") == "1";
  return environment;
}

}  // namespace astatide::runtime
