#pragma once

#include <memory>
#include <string>

#include "api/astatide.h"
#include "api/device_code.h"
#include "runtime/build_notes.h"
#include "runtime/cache.h"
#include "runtime/counters.h"

// The one place that knows whether this build has the CPU backend. Without it everything here throws MachineError.

namespace astatide {

bool has_cpu_backend();

/// Compiles for the CPU of this machine and runs there. Thread-safe.
class CpuDevice {
 public:
  /// `threads` 0: all cores. `disk` is used as long as this and what it compiled live.
  CpuDevice(int threads, std::shared_ptr<runtime::DiskCache> disk, std::shared_ptr<runtime::Counters> counters);
  ~CpuDevice();

  /// The notes say how long it took so far. Fills the report's source, times and origin.
  std::shared_ptr<const DeviceCode> compile(const tile::Program& program, runtime::BuildNotes notes,
                                            BuildReport& report);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// LLVM IR of a program for this machine.
std::string print_llvm(const tile::Program& program);

}  // namespace astatide
