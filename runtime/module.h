#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/context.h"
#include "runtime/counters.h"
#include "runtime/nvrtc.h"

namespace astatide::runtime {

/// Throws MachineError, with the device, its compute capability and what the binary was built for, when it can't run
/// there. A cubin runs on the same major capability from its minor one on, with a suffix only on exactly its own; PTX
/// runs on its own and on all newer ones.
void check_runs_on(const DeviceFacts& device, BinaryKind kind, std::string_view target);

/// A kernel of a loaded module. Lives as long as the module.
class KernelFunction {
 public:
  FunctionHandle handle() const { return handle_; }
  const std::string& name() const { return name_; }
  int static_shared_bytes() const { return static_shared_bytes_; }
  int registers() const { return registers_; }
  /// Bytes of local memory a thread: spills and arrays that don't fit registers.
  int local_bytes() const { return local_bytes_; }
  int most_threads() const { return most_threads_; }
  Counters* counters() const { return counters_.get(); }

 private:
  friend class Module;
  friend void allow_shared_bytes(const KernelFunction&, unsigned);

  FunctionHandle handle_ = nullptr;
  std::string name_;
  int static_shared_bytes_ = 0;
  int registers_ = 0;
  int local_bytes_ = 0;
  int most_threads_ = 0;
  std::shared_ptr<Counters> counters_;
  // The limit of dynamic shared memory that was set so far; 48 KiB less the static part need no setting.
  mutable std::atomic<unsigned> allowed_shared_bytes_{0};
};

/// Code loaded into a context.
class Module {
 public:
  /// Throws MachineError as check_runs_on, or when the driver can't compile the PTX.
  /// `counters`, when given, counts the launches of its kernels.
  Module(const Context& context, const CompiledBinary& binary, const std::string& name,
         std::shared_ptr<Counters> counters = nullptr);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Context& context() const { return context_; }
  /// Throws InternalError when the module has no such kernel.
  const KernelFunction& function(const std::string& name) const;

 private:
  Context context_;
  std::string name_;
  std::shared_ptr<Counters> counters_;
  ModuleHandle handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<KernelFunction>> functions_;
};

/// Raises the kernel's limit of dynamic shared memory to `bytes` where it is lower. The context is current.
void allow_shared_bytes(const KernelFunction& function, unsigned bytes);

}  // namespace astatide::runtime
