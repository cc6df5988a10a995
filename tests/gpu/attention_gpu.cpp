// Whole runs on a GPU, beyond the cases that the CPU has too: the caller's stream and memory, and the program
// itself.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/schedule/target.h"
#include "runtime/driver.h"
#include "tests/gpu/device_tensor.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

Case gaussian_case(std::map<std::string, std::int64_t> extents, ScalarType dtype) {
  Case c;
  c.algorithm = causal_attention();
  c.extents = std::move(extents);
  c.dtype = dtype;
  fill_gaussian(c, 71);
  return c;
}

Executable build(const Case& c, const std::string& schedule) {
  return case_engine().build(c.algorithm, load_schedule(schedule), {Device::cuda(0), c.dtype, c.extents, {}});
}

}  // namespace

TEST_CASE("L08: a launch is ordered in the caller's stream, copies before and after it included") {
  ASTATIDE_NEED_GPU();
  const Case c = gaussian_case({{"B", 1}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 300}, {"Sk", 500}, {"D", 64}, {"Dv", 64}},
                               ScalarType::f32);
  const HostTensors expected = run_case(c, "simt/flash2", Device::cuda(0));
  const runtime::Context context = runtime::Context::primary(0);
  const runtime::ScopedCurrent scope(context);
  const Executable executable = build(c, "simt/flash2");
  const runtime::Stream stream = runtime::Stream::create(context);
  std::map<std::string, DeviceTensor> tensors;
  LaunchArguments arguments;
  for (const auto& [name, tensor] : c.inputs) tensors.try_emplace(name, context, c.dtype, tensor.shape);
  for (const auto& [name, tensor] : expected) tensors.try_emplace(name, context, tensor.dtype, tensor.shape);
  for (const auto& [name, tensor] : tensors) arguments.tensors[name] = tensor.view();
  arguments.stream = stream.handle();
  for (int round = 0; round < 3; ++round) {
    // Wrong inputs first: what the launch reads is what the stream brought last.
    for (auto& [name, tensor] : tensors) tensor.buffer().fill(std::byte{0xff}, stream);
    for (const auto& [name, tensor] : c.inputs) tensors.at(name).put(tensor, stream);
    executable.launch(arguments);
    for (const auto& [name, tensor] : expected) require_same_bits(tensors.at(name).take(stream), tensor);
  }
}

TEST_CASE("two streams at once have scratch memory of their own") {
  ASTATIDE_NEED_GPU();
  const runtime::Context context = runtime::Context::primary(0);
  const runtime::ScopedCurrent scope(context);
  const Case c = gaussian_case({{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 500}, {"Sk", 700}, {"D", 64}, {"Dv", 64}},
                               ScalarType::f32);
  for (const char* schedule : {"simt/standard", "simt/flash1"}) {
    const HostTensors expected = run_case(c, schedule, Device::cuda(0));
    const Executable executable = build(c, schedule);
    REQUIRE(executable.workspace_bytes(c.extents) > 0);
    struct Lane {
      runtime::Stream stream;
      std::map<std::string, DeviceTensor> tensors;
      LaunchArguments arguments;
    };
    std::vector<Lane> lanes;
    for (int n = 0; n < 2; ++n) {
      Lane& lane = lanes.emplace_back(Lane{runtime::Stream::create(context), {}, {}});
      for (const auto& [name, tensor] : c.inputs) {
        lane.tensors.try_emplace(name, context, c.dtype, tensor.shape);
        lane.tensors.at(name).put(tensor, lane.stream);
      }
      for (const auto& [name, tensor] : expected) lane.tensors.try_emplace(name, context, tensor.dtype, tensor.shape);
      for (const auto& [name, tensor] : lane.tensors) lane.arguments.tensors[name] = tensor.view();
      lane.arguments.stream = lane.stream.handle();
    }
    for (int round = 0; round < 4; ++round)
      for (Lane& lane : lanes) executable.launch(lane.arguments);
    for (Lane& lane : lanes)
      for (const auto& [name, tensor] : expected) require_same_bits(lane.tensors.at(name).take(lane.stream), tensor);

    // The caller's own workspace does as well.
    runtime::DeviceBuffer workspace(context, static_cast<std::size_t>(executable.workspace_bytes(c.extents)));
    workspace.fill(std::byte{0xff}, lanes[0].stream);
    lanes[0].arguments.workspace = reinterpret_cast<void*>(workspace.pointer());
    executable.launch(lanes[0].arguments);
    for (const auto& [name, tensor] : expected)
      require_same_bits(lanes[0].tensors.at(name).take(lanes[0].stream), tensor);
  }
}

TEST_CASE("memory of the host is refused by name") {
  ASTATIDE_NEED_GPU();
  const Case c =
      gaussian_case({{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 8}, {"Sk", 8}, {"D", 64}, {"Dv", 64}}, ScalarType::f32);
  const Executable executable = build(c, "simt/flash2");
  LaunchArguments arguments;
  HostTensors outputs;
  for (const auto& [name, tensor] : c.inputs)
    arguments.tensors[name] = {tensor.origin(), tensor.dtype, tensor.shape, tensor.strides};
  for (const std::string& name : c.algorithm.outputs) {
    const TensorView wanted = describe_tensor(executable, name, c.extents);
    outputs[name] = runtime::zeros(wanted.dtype, wanted.shape);
    arguments.tensors[name] = {outputs[name].origin(), wanted.dtype, wanted.shape, wanted.strides};
  }
  CHECK_THROWS_WITH(executable.launch(arguments), Contains("Q"));
}

TEST_CASE("a schedule for the CPU is refused on a GPU") {
  ASTATIDE_NEED_GPU();
  const Case c =
      gaussian_case({{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 8}, {"Sk", 8}, {"D", 64}, {"Dv", 64}}, ScalarType::f32);
  CHECK_THROWS_WITH(build(c, "cpu/flash2"), Contains("written for the CPU"));
}

TEST_CASE("L12: the target is that of the device that runs, whichever is current") {
  // tile-ai/tilelang#2516: device 0 alone was looked at.
  ASTATIDE_NEED_GPU();
  const Case c =
      gaussian_case({{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 70}, {"Sk", 90}, {"D", 64}, {"Dv", 64}}, ScalarType::bf16);
  const HostTensors expected = run_case(c, "simt/flash2", Device::cuda(0));
  for (const runtime::DeviceFacts& device : runtime::driver().devices()) {
    INFO("cuda:" << device.ordinal << " (" << device.name << ")");
    const Target* known = target_of_device(10 * device.major + device.minor);
    if (known == nullptr) continue;
    for (const runtime::DeviceFacts& current : runtime::driver().devices()) {
      const runtime::ScopedCurrent scope(runtime::Context::primary(current.ordinal));
      const Executable executable = case_engine().build(c.algorithm, load_schedule("simt/flash2"),
                                                        {Device::cuda(device.ordinal), c.dtype, c.extents, {}});
      CHECK(executable.report().target.starts_with(device.target()));
      const HostTensors out = run_case(c, "simt/flash2", Device::cuda(device.ordinal));
      if (device.target() == runtime::driver().device(0).target()) require_same_bits(out.at("O"), expected.at("O"));
    }
    // A schedule of sm_90a runs there and is refused elsewhere, when it is built.
    const auto build_wgmma = [&] {
      case_engine().build(c.algorithm, load_schedule("sm90/flash3"),
                          {Device::cuda(device.ordinal), c.dtype, c.extents, {}});
    };
    if (known->name == "sm_90a")
      CHECK_NOTHROW(build_wgmma());
    else
      CHECK_THROWS_WITH(build_wgmma(), Contains("the schedule needs sm_90a, the target is " + device.target()));
  }
}

TEST_CASE("the program runs every schedule for GPUs in every type, and is checked") {
  ASTATIDE_NEED_GPU();
  const TemporaryFolder folder;
  for (const char* schedule : {"simt/standard", "simt/fused_row", "simt/flash1", "simt/flash2", "simt/decode"}) {
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      for (const auto& [algorithm, shape] : {std::pair{"attention", "B=2,Hq=4,Hkv=4,Sq=130,Sk=257,D=64,Dv=64"},
                                             std::pair{"causal_gqa", "B=2,Hq=4,Hkv=2,Sq=5,Sk=130,D=72,Dv=40"},
                                             std::pair{"causal_gqa", "B=2,Hq=4,Hkv=2,Sq=130,Sk=5,D=72,Dv=40"}}) {
        const ProgramResult result = run_astatide({"run", algorithm, "--schedule", schedule, "--shape", shape,
                                                   "--dtype", dtype, "--device", "cuda", "--check", "--json"},
                                                  {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
        INFO(algorithm << " with " << schedule << ", " << dtype << ", " << shape << "\n" << result.out << result.err);
        CHECK(result.code == 0);
        if (result.code != 0) continue;
        const nlohmann::json out = nlohmann::json::parse(result.out);
        CHECK(out.at("ok") == true);
        CHECK(out.at("device") == "cuda:0");
      }
    }
  }
}

TEST_CASE("a second process on a GPU compiles nothing") {
  ASTATIDE_NEED_GPU();
  const TemporaryFolder folder;
  const std::vector<std::string> words = {
      "run", "attention", "--device", "cuda:0", "--json", "--shape", "B=1,Hq=2,Hkv=2,Sq=64,Sk=64"};
  const std::map<std::string, std::string> environment = {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}};
  const ProgramResult first = run_astatide(words, environment);
  INFO(first.out << first.err);
  REQUIRE(first.code == 0);
  CHECK(nlohmann::json::parse(first.out).at("cache") == "none");
  const nlohmann::json second = nlohmann::json::parse(run_astatide(words, environment).out);
  CHECK(second.at("cache") == "disk");
  CHECK(second.at("compiles") == 0);
}
