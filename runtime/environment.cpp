#include "runtime/environment.h"

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

// 1 .. 1024, or 0 when unset.
int thread_count(const std::optional<std::string>& text) {
  if (!text) return 0;
  int count = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), count);
  if (error != std::errc() || end != text->data() + text->size() || count < 1 || count > 1024)
    throw UserError({"ASTATIDE_THREADS", 0, 0, ""}, "'" + *text + "' is no number of threads, 1 to 1024");
  return count;
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
  environment.threads = thread_count(variable("ASTATIDE_THREADS"));
  environment.require_gpu = variable("ASTATIDE_REQUIRE_GPU") == "1";
  return environment;
}

}  // namespace astatide::runtime
