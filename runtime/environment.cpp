#include "runtime/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>
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

std::optional<std::uint64_t> cache_limit(const std::optional<std::string>& text) {
  if (!text) return kDefaultCacheLimit;
  if (*text == "none") return std::nullopt;
  if (const auto bytes = parse_bytes(*text)) return bytes;
  throw UserError({"ASTATIDE_CACHE_LIMIT", 0, 0, ""}, "'" + *text + "' is no number of bytes",
                  {"500M and 2G are, and none is no limit"});
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  std::uint64_t count = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, count);
  if (error != std::errc()) return std::nullopt;
  if (end == last) return count;
  const std::size_t unit = kUnits.find(*end);
  if (unit == std::string_view::npos || end + 1 != last) return std::nullopt;
  const unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (count > (~std::uint64_t{0} >> shift)) return std::nullopt;
  return count << shift;
}

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
  environment.cache_limit = cache_limit(variable("ASTATIDE_CACHE_LIMIT"));
  environment.threads = thread_count(variable("ASTATIDE_THREADS"));
  environment.require_gpu = variable("ASTATIDE_REQUIRE_GPU") == "1";
  return environment;
}

}  // namespace astatide::runtime
