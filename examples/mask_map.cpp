// A dense mask of which most is empty: a map of its tiles, made by the first launch and kept for the second.
#include <astatide/astatide.h>

#include <cstdio>
#include <random>

#include "api/check_outputs.h"

using namespace astatide;

/// Queries see the keys of their own block of 100, every second block nobody.
static bool sees(std::int64_t i, std::int64_t j) { return i / 100 == j / 100 && j / 100 % 2 == 0; }

int main() try {
  Schedule schedule = load_schedule("cpu/flash2");
  for (Placement& placement : schedule.placements)
    if (placement.name == "O") placement.directives.push_back({DirectiveKind::mask_map, true, {}});
  const std::map<std::string, std::int64_t> extents = {{"B", 1},    {"Hq", 4}, {"Hkv", 2}, {"Sq", 400},
                                                       {"Sk", 400}, {"D", 32}, {"Dv", 32}};
  Engine engine;
  const Algorithm algorithm = load_algorithm("dense_mask");
  const Executable run = engine.build(algorithm, schedule, {Device::cpu(), ScalarType::f32, extents, {}});

  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  std::map<std::string, runtime::HostTensor> inputs, outputs;
  LaunchArguments arguments;
  for (const char* name : {"Q", "K", "V", "visible", "O", "L"}) {
    const TensorView wanted = describe_tensor(run, name, extents);
    const runtime::HostTensor tensor = runtime::zeros(wanted.dtype, wanted.shape);
    std::int64_t n = 0;
    runtime::for_each_element(tensor, [&](auto* at) {
      const bool mask = wanted.dtype == ScalarType::boolean;
      runtime::store_element(tensor.dtype, at, mask ? sees(n / 400, n % 400) : normal(generator));
      ++n;
    });
    (algorithm.find_input(name) != nullptr ? inputs : outputs)[name] = tensor;
    arguments.tensors[name] = {tensor.origin(), tensor.dtype, tensor.shape, tensor.strides};
  }
  std::vector<std::byte> memory(static_cast<std::size_t>(run.workspace_bytes(extents)) + 256);
  arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 255) / 256 * 256);

  bool ok = true;
  for (const bool kept : {false, true}) {
    arguments.mask_map_is_current = kept;
    run.launch(arguments);
    for (const OutputCheck& check : check_outputs(algorithm, extents, {}, inputs, outputs)) {
      std::printf("%s, map %s: error %.2e, limit %.2e\n", check.name.c_str(), kept ? "kept" : "made",
                  check.max_abs_error, check.limit);
      ok = ok && check.ok();
    }
  }
  return ok ? 0 : 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
