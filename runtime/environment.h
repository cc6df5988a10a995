#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace astatide::runtime {

/// The most that the cache holds where ASTATIDE_CACHE_LIMIT is unset: some hundreds of kernels.
constexpr std::uint64_t kDefaultCacheLimit = std::uint64_t{1} << 30;

/// Every environment variable that the library looks at. A variable that is set to the empty string counts as unset.
struct Environment {
  /// ASTATIDE_LIBCUDA: the CUDA driver library to load in place of libcuda.so.1.
  std::optional<std::string> libcuda;
  /// ASTATIDE_NVRTC: the NVRTC library, or the folder that holds it. Nothing else is tried when it is set.
  std::optional<std::string> nvrtc;
  /// CUDA_HOME, CUDA_PATH: toolkits whose lib64/ (or lib/) may hold NVRTC.
  std::optional<std::string> cuda_home;
  std::optional<std::string> cuda_path;
  /// ASTATIDE_NVDISASM: the disassembler to use in place of the one on PATH.
  std::optional<std::string> nvdisasm;
  /// ASTATIDE_PYTHON_SITE: a Python site-packages folder with NVIDIA's wheels (nvidia-cuda-nvrtc).
  std::optional<std::string> python_site;
  /// ASTATIDE_CACHE_DIR, XDG_CACHE_HOME, HOME: the place of the kernel cache, see DiskCache.
  std::optional<std::string> cache_dir;
  std::optional<std::string> xdg_cache_home;
  std::optional<std::string> home;
  /// ASTATIDE_CACHE_LIMIT: the most bytes that the cache on disk holds, such as 500M or 2G; "none": no limit.
  std::optional<std::uint64_t> cache_limit = kDefaultCacheLimit;
  /// ASTATIDE_THREADS: threads of the CPU backend; 0 when unset: as many as the process may run on.
  int threads = 0;
  /// ASTATIDE_REQUIRE_GPU=1: a GPU test without a device fails, it does not skip.
  bool require_gpu = false;
};

/// "1000", "64K", "500M", "2G": bytes, by powers of 1024; nothing where `text` is no such number.
std::optional<std::uint64_t> parse_bytes(const std::string& text);

/// The environment as it is now. Throws UserError where a variable has no meaning. No other file of the project reads
/// environment variables.
Environment read_environment();

}  // namespace astatide::runtime
