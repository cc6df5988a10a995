#include "runtime/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>

#include "runtime/shared_library.h"

#ifdef __SANITIZE_ADDRESS__
namespace {
std::atomic<bool> nvrtc_is_loaded = false;
}

/// The leak checker asks this at exit. It stops all threads to search their memory, and with NVRTC in the process it
/// has crashed there ("Tracer caught signal 11"): such a process isn't searched, every other one is.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier)
  return nvrtc_is_loaded;
}
#endif

namespace astatide::runtime {

// The parts of the NVRTC API that are called, declared from its public documentation.
using NvrtcProgram = struct NvrtcProgramTag*;
constexpr const char* kLibraryNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

constexpr int kNvrtcSuccess = 0;
constexpr int kNvrtcOutOfMemory = 1;
constexpr int kNvrtcCompilation = 6;
constexpr int kNvrtcBuiltinOperationFailure = 7;

#define ASTATIDE_NVRTC_FUNCTIONS(F)                                                         \
  F(int, version, "nvrtcVersion", (int*, int*))                                             \
  F(const char*, error_string, "nvrtcGetErrorString", (int))                                \
  F(int, num_supported_archs, "nvrtcGetNumSupportedArchs", (int*))                          \
  F(int, supported_archs, "nvrtcGetSupportedArchs", (int*))                                 \
  F(int, create_program, "nvrtcCreateProgram",                                              \
    (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  F(int, destroy_program, "nvrtcDestroyProgram", (NvrtcProgram*))                           \
  F(int, compile_program, "nvrtcCompileProgram", (NvrtcProgram, int, const char* const*))   \
  F(int, log_size, "nvrtcGetProgramLogSize", (NvrtcProgram, std::size_t*))                  \
  F(int, log, "nvrtcGetProgramLog", (NvrtcProgram, char*))                                  \
  F(int, ptx_size, "nvrtcGetPTXSize", (NvrtcProgram, std::size_t*))                         \
  F(int, ptx, "nvrtcGetPTX", (NvrtcProgram, char*))                                         \
  F(int, cubin_size, "nvrtcGetCUBINSize", (NvrtcProgram, std::size_t*))                     \
  F(int, cubin, "nvrtcGetCUBIN", (NvrtcProgram, char*))

struct NvrtcApi {
#define ASTATIDE_DECLARE(result, function, name, parameters) result(*function) parameters = nullptr;
  ASTATIDE_NVRTC_FUNCTIONS(ASTATIDE_DECLARE)
#undef ASTATIDE_DECLARE
};

namespace {

void check(const NvrtcApi& api, int result, std::string_view act) {
  if (result == kNvrtcSuccess) return;
  std::string message = fmt::format("{}: NVRTC error {}: {}", act, result, api.error_string(result));
  if (result == kNvrtcOutOfMemory) throw MachineError(std::move(message));
  if (result == kNvrtcBuiltinOperationFailure) {
    throw MachineError(std::move(message), {"libnvrtc-builtins must lie beside libnvrtc"});
  }
  throw InternalError(message);
}

// The lines of `log` from the first error on, so that a message shows causes and not a page of warnings.
std::string first_errors(std::string_view log) {
  const std::size_t found = log.find(": error:");
  std::size_t start = found == std::string_view::npos ? 0 : log.rfind('\n', found);
  if (start == std::string_view::npos) start = 0;
  std::string text(log.substr(start, 2000));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

class Program {
 public:
  Program(const NvrtcApi& api, const CompileRequest& request) : api_(api) {
    std::vector<const char*> names, texts;
    for (const Header& header : request.headers) {
      names.push_back(header.name.c_str());
      texts.push_back(header.text.c_str());
    }
    check(api_,
          api_.create_program(&program_, request.source.c_str(), request.name.c_str(), static_cast<int>(names.size()),
                              texts.data(), names.data()),
          "create the program " + request.name);
  }
  ~Program() { api_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    return api_.compile_program(program_, static_cast<int>(words.size()), words.data());
  }

  std::string log() const {
    std::string text = fetch(api_.log_size, api_.log, "read the log");
    // The size that NVRTC reports counts the terminating zero.
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }
  std::string ptx() const { return fetch(api_.ptx_size, api_.ptx, "read the PTX"); }
  std::string cubin() const { return fetch(api_.cubin_size, api_.cubin, "read the cubin"); }

 private:
  std::string fetch(int (*ask_size)(NvrtcProgram, std::size_t*), int (*ask)(NvrtcProgram, char*),
                    std::string_view act) const {
    std::size_t size = 0;
    check(api_, ask_size(program_, &size), act);
    std::string bytes(size, '\0');
    if (size != 0) check(api_, ask(program_, bytes.data()), act);
    return bytes;
  }

  const NvrtcApi& api_;
  NvrtcProgram program_ = nullptr;
};

}  // namespace

CompileError::CompileError(std::string source_name, std::string source, std::string log)
    : InternalError(fmt::format("NVRTC refuses {}:\n{}", source_name, first_errors(log))),
      source_name_(std::move(source_name)),
      source_(std::move(source)),
      log_(std::move(log)) {}

std::vector<std::string> nvrtc_candidates(const Environment& environment) {
  namespace fs = std::filesystem;
  std::vector<std::string> candidates;
  const auto add_folder = [&](const fs::path& folder) {
    for (const char* name : kLibraryNames) candidates.push_back((folder / name).string());
  };
  if (environment.nvrtc) {
    std::error_code ignored;
    if (fs::is_directory(*environment.nvrtc, ignored)) {
      add_folder(*environment.nvrtc);
    } else {
      candidates.push_back(*environment.nvrtc);
    }
    return candidates;
  }
  for (const auto& toolkit : {environment.cuda_home, environment.cuda_path}) {
    if (!toolkit) continue;
    add_folder(fs::path(*toolkit) / "lib64");
    add_folder(fs::path(*toolkit) / "lib");
  }
  for (const char* name : kLibraryNames) candidates.emplace_back(name);
  add_folder("/usr/local/cuda/lib64");
  if (environment.python_site) {
    // Where NVIDIA's wheels put it: nvidia-cuda-nvrtc (13 and later), nvidia-cuda-nvrtc-cu12.
    add_folder(fs::path(*environment.python_site) / "nvidia/cu13/lib");
    add_folder(fs::path(*environment.python_site) / "nvidia/cuda_nvrtc/lib");
  }
  return candidates;
}

Nvrtc Nvrtc::load(const Environment& environment) {
  std::vector<std::string> notes;
  for (const std::string& candidate : nvrtc_candidates(environment)) {
    std::string reason;
    const std::optional<SharedLibrary> library = SharedLibrary::open(candidate, reason);
    if (!library) {
      notes.push_back("tried " + reason);
      continue;
    }
#ifdef __SANITIZE_ADDRESS__
    nvrtc_is_loaded = true;
#endif
    auto api = std::make_shared<NvrtcApi>();
    std::string missing;
#define ASTATIDE_LOAD(result, function, name, parameters)                                \
  api->function = reinterpret_cast<decltype(NvrtcApi::function)>(library->symbol(name)); \
  if (api->function == nullptr) missing = name;
    ASTATIDE_NVRTC_FUNCTIONS(ASTATIDE_LOAD)
#undef ASTATIDE_LOAD
    if (!missing.empty()) {
      notes.push_back(fmt::format("tried {}: it lacks {}, which NVRTC has since 11.2", candidate, missing));
      continue;
    }
    Nvrtc compiler;
    compiler.library_path_ = candidate;
    check(*api, api->version(&compiler.version_.major, &compiler.version_.minor), "ask for NVRTC's version");
    int count = 0;
    check(*api, api->num_supported_archs(&count), "ask for NVRTC's architectures");
    compiler.supported_.resize(static_cast<std::size_t>(count));
    check(*api, api->supported_archs(compiler.supported_.data()), "ask for NVRTC's architectures");
    std::sort(compiler.supported_.begin(), compiler.supported_.end());
    compiler.api_ = std::move(api);
    return compiler;
  }
  if (environment.nvrtc) {
    notes.emplace_back("ASTATIDE_NVRTC is set, so no other place was searched");
  } else {
    notes.emplace_back("set ASTATIDE_NVRTC to libnvrtc.so or its folder, or CUDA_HOME to a toolkit");
  }
  throw MachineError("no NVRTC: libnvrtc can't be loaded from any place that was searched", std::move(notes));
}

CompiledBinary Nvrtc::compile(const CompileRequest& request) const {
  const auto started = std::chrono::steady_clock::now();
  const ArchitectureChoice choice = choose_architecture(request.target, request.output, supported_, version_);

  std::vector<std::string> options = {"--gpu-architecture=" + choice.architecture, "--std=c++17"};
  if (choice.kind == BinaryKind::cubin) options.push_back("--ptxas-options=-v");
  // NVRTC's own cache gives a binary without the report of ptxas; what is kept is kept by DiskCache, with its report.
  if (version_.major >= 13) options.push_back("--no-cache");
  options.insert(options.end(), request.options.begin(), request.options.end());

  Program program(*api_, request);
  const int result = program.compile(options);
  CompiledBinary binary;
  binary.log = program.log();
  if (result == kNvrtcCompilation) throw CompileError(request.name, request.source, binary.log);
  check(*api_, result, fmt::format("compile {} for {}", request.name, choice.architecture));
  binary.kind = choice.kind;
  binary.target = choice.architecture;
  binary.bytes = choice.kind == BinaryKind::cubin ? program.cubin() : program.ptx();
  // nvrtcGetPTX ends the text with a zero, which is not part of it.
  if (choice.kind == BinaryKind::ptx && !binary.bytes.empty() && binary.bytes.back() == '\0') binary.bytes.pop_back();
  if (binary.bytes.empty()) throw InternalError(fmt::format("NVRTC gave no binary for {}", request.name));
  binary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return binary;
}

const Nvrtc& nvrtc() {
  static const Nvrtc loaded = Nvrtc::load(read_environment());
  return loaded;
}

}  // namespace astatide::runtime
