// The C interface on device memory: what DLPack says of it is looked at, and the work is in the caller's stream.
#include <catch2/catch.hpp>

#include "tests/gpu/device_tensor.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/c_handles.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

TEST_CASE("a launch through C on a GPU computes the bits of one through C++, in a stream of the caller's") {
  ASTATIDE_NEED_GPU();
  Case c{causal_attention(),
         {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 37}, {"Sk", 130}, {"D", 64}, {"Dv", 64}},
         ScalarType::bf16,
         {},
         {}};
  c.inputs = {{"Q", gaussian(c.dtype, {2, 4, 37, 64}, 1)},
              {"K", gaussian(c.dtype, {2, 2, 130, 64}, 2)},
              {"V", gaussian(c.dtype, {2, 2, 130, 64}, 3)}};
  const HostTensors wanted = run_case(c, "simt/flash2", Device::cuda(0));

  const CEngine engine;
  const CExecutable run =
      engine.build(parse_c<AstatideAlgorithm>(print_algorithm(c.algorithm), "case.yaml"),
                   load_c<AstatideSchedule>("simt/flash2"), {kDLCUDA, 0}, dl_type(c.dtype), {{"D", 64}, {"Dv", 64}});
  const runtime::Context context = runtime::Context::primary(0);
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream stream = runtime::Stream::create(context);
  HostTensors tensors = c.inputs;
  for (const char* output : {"O", "L"})
    tensors.emplace(output, constant(wanted.at(output).dtype, wanted.at(output).shape, 7));
  std::map<std::string, DeviceTensor> memory;
  CTensors arguments;
  for (const auto& [name, values] : tensors) {
    DeviceTensor& tensor = memory.try_emplace(name, context, values.dtype, values.shape).first->second;
    tensor.put(values, stream);
    arguments.add(name, tensor.view().data, {kDLCUDA, 0}, values.dtype, values.shape);
  }
  AstatideLaunch launch = arguments.launch();
  launch.stream = stream.handle();
  const auto launched = [&] {
    AstatideError* error = nullptr;
    astatide_executable_launch(run.get(), &launch, &error);
    return taken_text(error);
  };

  // Refused before anything is launched: V is the last by name.
  DLTensor& v = arguments.last();
  v.device = {kDLCPU, 0};
  CHECK_THAT(launched(), Contains("V lies on kDLCPU:0, the executable was built for kDLCUDA:0"));
  v.device = {kDLCUDA, 1};
  CHECK_THAT(launched(), Contains("V lies on kDLCUDA:1"));
  v.device = {kDLCUDA, 0};
  void* const there = v.data;
  v.data = tensors.at("V").data->data();
  CHECK_THAT(launched(), Contains("V") && Contains("is no device memory"));
  v.data = there;
  CHECK(*memory.at("O").take(stream).data == *tensors.at("O").data);

  CHECK(launched().empty());
  for (const char* output : {"O", "L"}) CHECK(*memory.at(output).take(stream).data == *wanted.at(output).data);
}
