// mask_map: conditions that no interval bounds, found by kernels that compute them.
#include <catch2/catch.hpp>
#include <cmath>

#include "api/check_outputs.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

Schedule mapped(const std::string& name) {
  Schedule schedule = load_schedule(name);
  for (Placement& placement : schedule.placements)
    if (placement.name == "O") placement.directives.push_back({DirectiveKind::mask_map, true, {}});
  return schedule;
}

Case dense(std::int64_t rows, std::int64_t columns, ScalarType dtype,
           const std::function<bool(std::int64_t, std::int64_t)>& sees) {
  Case c;
  c.algorithm = load_algorithm("dense_mask");
  c.dtype = dtype;
  c.extents = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", rows}, {"Sk", columns}, {"D", 64}, {"Dv", 64}};
  fill_gaussian(c, 1);
  // The second item sees what the first one does, from the other end.
  c.inputs["visible"] = filled(ScalarType::boolean, {2, rows, columns}, [&](const Index& at) {
    return sees(at[1], at[0] == 0 ? at[2] : columns - 1 - at[2]) ? 1.0 : 0.0;
  });
  return c;
}

void check_against_evaluator(const Case& c, const HostTensors& outputs) {
  for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs)) {
    INFO(check.name << " error " << check.max_abs_error << " of " << check.limit << ", not finite "
                    << check.wrong_nonfinite);
    CHECK(check.ok());
  }
}

bool scattered(std::int64_t i, std::int64_t j) { return (i * 2654435761u + j * 40503u) / 7 % 5 == 0; }
bool in_blocks(std::int64_t i, std::int64_t j) { return (i / 70 + j / 90) % 3 == 0; }

/// A type and the schedules that take it.
struct Taken {
  const char* schedule;
  ScalarType dtype;
};
constexpr Taken kTaken[] = {{"cpu/flash2", ScalarType::f32},
                            {"simt/flash2", ScalarType::f32},
                            {"sm80/flash2", ScalarType::bf16},

                            {"sm90/flash3", ScalarType::bf16}};

}  // namespace

TEST_CASE("a map of a dense mask gives what the mask gives, for masks of all kinds and lengths that no tile divides") {
  for (const Taken& taken : kTaken) {
    const Schedule schedule = mapped(taken.schedule);
    const auto run = [&](std::int64_t rows, std::int64_t columns, const auto& sees) {
      INFO(taken.schedule << ", " << rows << " by " << columns);
      const Case c = dense(rows, columns, taken.dtype, sees);
      check_against_evaluator(c, run_case(c, schedule, Device::cpu()));
    };
    run(150, 410, in_blocks);
    run(67, 130, scattered);
    run(1, 1, [](auto, auto) { return true; });
    run(5, 300, [](auto, auto) { return false; });
    run(64, 128, [](auto, auto) { return true; });
    run(3, 0, [](auto, auto) { return true; });
    run(0, 7, [](auto, auto) { return true; });
  }
}

TEST_CASE("tiles that a map shows to be empty are not read") {
  for (const Taken& taken : kTaken) {
    INFO(taken.schedule);
    Case c = dense(150, 410, taken.dtype, [](auto, std::int64_t j) { return j < 70; });
    c.extents["B"] = 1;
    c.inputs["visible"] =
        filled(ScalarType::boolean, {1, 150, 410}, [](const Index& at) { return at[2] < 70 ? 1.0 : 0.0; });
    fill_gaussian(c, 1);
    const HostTensors before = run_case(c, mapped(taken.schedule), Device::cpu());
    // Behind the tile of the last visible key.
    runtime::HostTensor& values = c.inputs["V"];
    for (std::int64_t j = 128; j < 410; ++j)
      for (std::int64_t e = 0; e < 64; ++e) runtime::set(values, Index{0, 0, j, e}, std::nan(""));
    const HostTensors after = run_case(c, mapped(taken.schedule), Device::cpu());
    for (const auto& [name, tensor] : before) require_same_bits(after.at(name), tensor);
  }
}

TEST_CASE("conditions of several parts are mapped as one") {
  Case c = dense(150, 410, ScalarType::f32, in_blocks);
  std::string text = print_algorithm(c.algorithm);
  const std::string condition = "where visible[b,i,j]";
  REQUIRE(text.find(condition) != std::string::npos);
  text.replace(text.find(condition), condition.size(), condition + " and j <= i + Sk - Sq and (i + j) % 3 != 0");
  c.algorithm = parse_algorithm(text, "dense.yaml");
  for (const char* schedule : {"cpu/flash2", "simt/flash2"})
    check_against_evaluator(c, run_case(c, mapped(schedule), Device::cpu()));
}

TEST_CASE("a launch takes the map that an earlier one has left, where it says so") {
  Case c = dense(150, 410, ScalarType::f32, [](auto, std::int64_t j) { return j < 100; });
  const Executable run =
      case_engine().build(c.algorithm, mapped("cpu/flash2"), {Device::cpu(), ScalarType::f32, c.extents, {}});
  std::vector<std::byte> memory(static_cast<std::size_t>(run.workspace_bytes(c.extents)) + 256);
  LaunchArguments arguments;
  HostTensors outputs;
  for (const char* name : {"O", "L"}) {
    const TensorView wanted = describe_tensor(run, name, c.extents);
    outputs[name] = runtime::zeros(wanted.dtype, wanted.shape);
  }
  const auto add = [&](const std::string& name, const runtime::HostTensor& tensor) {
    arguments.tensors[name] = {tensor.origin(), tensor.dtype, tensor.shape, tensor.strides};
  };
  for (const auto& [name, tensor] : c.inputs) add(name, tensor);
  for (const auto& [name, tensor] : outputs) add(name, tensor);
  arguments.mask_map_is_current = true;
  CHECK_THROWS_WITH(run.launch(arguments),
                    Catch::Matchers::Contains("the map lies in the workspace, and none is given"));
  arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 255) / 256 * 256);
  arguments.mask_map_is_current = false;
  run.launch(arguments);
  check_against_evaluator(c, outputs);
  const std::vector<double> first = runtime::to_doubles(outputs.at("O"));
  arguments.mask_map_is_current = true;
  run.launch(arguments);
  CHECK(runtime::to_doubles(outputs.at("O")) == first);
  // A mask that sees more: the old map leaves the other keys out, a new one finds them.
  c.inputs["visible"] = filled(ScalarType::boolean, {2, 150, 410}, [](const Index&) { return 1.0; });
  add("visible", c.inputs["visible"]);
  run.launch(arguments);
  CHECK(check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs).front().ok() == false);
  arguments.mask_map_is_current = false;
  run.launch(arguments);
  check_against_evaluator(c, outputs);

  const Executable without =
      case_engine().build(c.algorithm, load_schedule("cpu/flash2"), {Device::cpu(), ScalarType::f32, c.extents, {}});
  arguments.mask_map_is_current = true;
  CHECK_THROWS_WITH(without.launch(arguments), Catch::Matchers::Contains("dense_mask makes no map of masks"));
}
