// Loads an algorithm, a schedule and tensors from files, runs them on the CPU, and compares with the double-precision
// evaluator. From the root of the source tree: run_files [ALGORITHM SCHEDULE TENSORS.safetensors]
#include <astatide/astatide.h>

#include <cstdio>

#include "api/check_outputs.h"
#include "runtime/tensor_file.h"

using namespace astatide;

int main(int argc, char** argv) try {
  const bool given = argc == 4;
  const Algorithm algorithm = load_algorithm(given ? argv[1] : "examples/attention.yaml");
  const Schedule schedule = load_schedule(given ? argv[2] : "schedules/cpu/flash2.yaml");
  const auto file = runtime::read_safetensors(given ? argv[3] : "examples/data/minilm_qkv.safetensors");

  // Tensors of the file are views as they stand there: any strides will do.
  std::map<std::string, runtime::HostTensor> inputs, outputs;
  LaunchArguments arguments;
  const auto add_view = [&](const std::string& name, const runtime::HostTensor& tensor) {
    arguments.tensors[name] = {tensor.origin(), tensor.dtype, tensor.shape, tensor.strides};
  };
  for (const auto& [name, tensor] : file.tensors) {
    if (algorithm.find_input(name) == nullptr) continue;
    inputs[name] = tensor;
    add_view(name, tensor);
  }
  const auto extents = extents_of(algorithm, arguments.tensors);

  Engine engine;
  const ScalarType dtype = inputs.empty() ? ScalarType::f32 : inputs.begin()->second.dtype;
  const Executable run = engine.build(algorithm, schedule, {Device::cpu(), dtype, extents, {}});
  for (const std::string& name : algorithm.outputs) {
    const TensorView wanted = describe_tensor(run, name, extents);
    outputs[name] = runtime::zeros(wanted.dtype, wanted.shape);
    add_view(name, outputs[name]);
  }
  run.launch(arguments);

  bool ok = true;
  for (const OutputCheck& check : check_outputs(algorithm, extents, arguments.scalars, inputs, outputs)) {
    std::printf("%s: error %.2e, limit %.2e\n", check.name.c_str(), check.max_abs_error, check.limit);
    ok = ok && check.ok();
  }
  for (const std::string& warning : engine.take_warnings()) std::printf("warning: %s\n", warning.c_str());
  return ok ? 0 : 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
