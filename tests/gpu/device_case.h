#pragma once

#include <map>
#include <string>

#include "tests/gpu/device_tensor.h"
#include "tests/support/case_run.h"

namespace astatide::testing {

/// A case in device memory, to be launched many times. Inputs that the case does not give are one small number
/// everywhere.
class DeviceCase {
 public:
  DeviceCase(const Case& c, const Schedule& schedule, const runtime::Stream& stream)
      : DeviceCase(c, case_engine().build(c.algorithm, schedule, {Device::cuda(0), c.dtype, c.extents, {}}), stream) {}

  /// An executable that others launch, too.
  DeviceCase(const Case& c, Executable executable, const runtime::Stream& stream)
      : context_(stream.context()), executable_(std::move(executable)) {
    for (const Input& input : c.algorithm.inputs) {
      const TensorView wanted = describe_tensor(executable_, input.name, c.extents);
      DeviceTensor& tensor = add(input.name, wanted.dtype, wanted.shape);
      const auto given = c.inputs.find(input.name);
      if (given != c.inputs.end())
        tensor.put(given->second, stream);
      else
        tensor.buffer().fill(std::byte{0x3c}, stream);  // 0.0115 in bf16
    }
    for (const std::string& name : c.algorithm.outputs) {
      const TensorView wanted = describe_tensor(executable_, name, c.extents);
      add(name, wanted.dtype, wanted.shape);
      outputs_.push_back(name);
    }
    arguments_.extents = c.extents;
    clear_outputs(stream);
  }

  void launch(const runtime::Stream& stream) {
    arguments_.stream = stream.handle();
    executable_.launch(arguments_);
  }
  /// Outputs become NaN.
  void clear_outputs(const runtime::Stream& stream) {
    for (const std::string& name : outputs_) tensors_.at(name).buffer().fill(std::byte{0xff}, stream);
  }
  HostTensors take_outputs(const runtime::Stream& stream) const {
    HostTensors out;
    for (const std::string& name : outputs_) out.emplace(name, tensors_.at(name).take(stream));
    return out;
  }

 private:
  DeviceTensor& add(const std::string& name, ScalarType type, const Index& shape) {
    DeviceTensor& tensor = tensors_.try_emplace(name, context_, type, shape).first->second;
    arguments_.tensors[name] = tensor.view();
    return tensor;
  }

  runtime::Context context_;
  Executable executable_;
  std::map<std::string, DeviceTensor> tensors_;
  std::vector<std::string> outputs_;
  LaunchArguments arguments_;
};

}  // namespace astatide::testing
