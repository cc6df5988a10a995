#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/astatide.h"
#include "runtime/host_tensor.h"

namespace astatide {

using HostTensors = std::map<std::string, runtime::HostTensor>;

/// An input of the executable, normally distributed. Booleans are 0 or 1 at random; other integers have no sensible
/// random value: UserError. Equal seeds give equal values on every machine.
runtime::HostTensor random_tensor(const Executable& executable, const std::string& name,
                                  const std::map<std::string, std::int64_t>& extents, std::uint64_t seed);

/// The same tensor, of an input that has this name, type and shape.
runtime::HostTensor random_tensor(const std::string& name, ScalarType dtype, std::vector<std::int64_t> shape,
                                  std::uint64_t seed);

/// Outputs filled with NaN (all bits set), so that an element that nothing writes is seen.
HostTensors prepare_outputs(const Executable& executable, const std::map<std::string, std::int64_t>& extents);

/// Copies of the inputs that updates of the algorithm store into, for a launch to change: it finds them in `outputs`.
HostTensors prepare_updated(const Algorithm& algorithm, const HostTensors& inputs);

TensorView view_of(const runtime::HostTensor& tensor);
/// What launches an executable on tensors of the host. One that is in both is that of the outputs.
LaunchArguments launch_arguments(const HostTensors& inputs, const HostTensors& outputs,
                                 const std::map<std::string, double>& scalars,
                                 const std::map<std::string, std::int64_t>& extents);

}  // namespace astatide
