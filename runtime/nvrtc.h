#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "runtime/environment.h"

namespace astatide::runtime {

enum class BinaryKind { cubin, ptx };

/// A header that a source includes by `name`. It is handed over in memory; no folder is searched.
struct Header {
  std::string name;
  std::string text;
};

/// One translation unit for NVRTC. Equal requests give equal binaries: nothing else enters the compilation.
struct CompileRequest {
  std::string name;    // stands for the file name in messages and line information
  std::string source;  // CUDA C++
  std::string target;  // "sm_80", "sm_90a", …
  BinaryKind output = BinaryKind::cubin;
  std::vector<std::string> options = {};  // for example "--use_fast_math", "-DTILE=64"
  std::vector<Header> headers = {};
};

/// What ptxas reports about one kernel.
struct KernelResources {
  std::string kernel;
  int registers = 0;
  int stack_bytes = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int shared_bytes = 0;  // static shared memory
};

struct CompiledBinary {
  BinaryKind kind = BinaryKind::cubin;
  std::string target;  // what it was built for: "sm_90a", or "compute_90" for PTX
  std::string bytes;
  std::string log;  // warnings, and the report of ptxas for a cubin
  double seconds = 0;
};

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  std::string text() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// NVRTC refused a source that we emitted.
class CompileError : public InternalError {
 public:
  CompileError(std::string source_name, std::string source, std::string log);

  const std::string& source_name() const { return source_name_; }
  const std::string& source() const { return source_; }
  const std::string& log() const { return log_; }

 private:
  std::string source_name_;
  std::string source_;
  std::string log_;
};

/// What to ask NVRTC for when a binary for `target` is wanted. `architecture` is the value of --gpu-architecture.
struct ArchitectureChoice {
  BinaryKind kind = BinaryKind::cubin;
  std::string architecture;
};

/// A cubin for `target` where NVRTC knows it; else, for a target without suffix that is newer than all of `supported`,
/// PTX of the newest architecture that is known, which the driver compiles. `supported` holds numbers such as 75, 90,
/// 120, in order. Throws UserError when `target` is no architecture, MachineError when this NVRTC can't serve it.
ArchitectureChoice choose_architecture(std::string_view target, BinaryKind wanted, const std::vector<int>& supported,
                                       const NvrtcVersion& version);

/// The report of `--ptxas-options=-v`, a kernel an entry, in order of their names.
std::vector<KernelResources> parse_ptxas_report(std::string_view log);

/// The files and names to try for NVRTC, in order.
std::vector<std::string> nvrtc_candidates(const Environment& environment);

struct NvrtcApi;

/// NVIDIA's run-time compiler. Thread-safe, as NVRTC is.
class Nvrtc {
 public:
  /// Loads the first of nvrtc_candidates that can be loaded. Throws MachineError with every place that was tried.
  static Nvrtc load(const Environment& environment);

  const NvrtcVersion& version() const { return version_; }
  const std::string& library_path() const { return library_path_; }
  const std::vector<int>& supported_architectures() const { return supported_; }

  /// Throws CompileError when the source doesn't compile; UserError or MachineError as choose_architecture.
  CompiledBinary compile(const CompileRequest& request) const;

 private:
  Nvrtc() = default;

  std::shared_ptr<const NvrtcApi> api_;
  NvrtcVersion version_;
  std::string library_path_;
  std::vector<int> supported_;
};

/// The NVRTC of this process, loaded on the first call. Throws MachineError as Nvrtc::load, and tries again on the next
/// call then.
const Nvrtc& nvrtc();

}  // namespace astatide::runtime
