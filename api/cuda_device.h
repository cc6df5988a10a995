#pragma once

#include <memory>
#include <string>

#include "api/astatide.h"
#include "api/device_code.h"
#include "compiler/cuda/emit.h"
#include "compiler/schedule/target.h"
#include "runtime/kernel_cache.h"

namespace astatide {

/// What a CUDA device runs: the facts that a schedule is checked against, and the architecture to compile for. `facts`
/// has the name of the architecture.
Target target_of_cuda_device(int ordinal);

/// One translation unit for NVRTC: the source with the device headers that it includes.
runtime::CompileRequest compile_request(const cuda::Source& source, const std::string& name,
                                        const std::string& architecture, runtime::BinaryKind output);

/// Emits and compiles a program for one device; the notes say how long it took so far. Fills the report's source, log,
/// times and origin.
std::shared_ptr<const DeviceCode> compile_for_cuda(const tile::Program& program, const Target& target, int ordinal,
                                                   std::shared_ptr<runtime::KernelCache> cache,
                                                   runtime::BuildNotes notes, BuildReport& report);

}  // namespace astatide
