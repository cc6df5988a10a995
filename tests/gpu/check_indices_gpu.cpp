// Integers in device memory that lead indices out of a tensor: refused before anything is launched where a launch asks.
#include <catch2/catch.hpp>

#include "tests/gpu/device_tensor.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// Two items of at most 96 keys in pages of 16, of 12 pages.
Algorithm paged_attention() {
  return parse_algorithm(
      "algorithm: paged\nextents: [B, H, Sq, Sk, D, Pages]\nscalars: {scale: 1/sqrt(D)}\n"
      "inputs: {Q: [B, H, Sq, D], K: [Pages, H, 16, D], V: [Pages, H, 16, D], page: {dims: [B, Sk/16], dtype: i32},\n"
      "  length: {dims: [B], dtype: i32}}\naxes: {j: \"length[b] <= Sk\"}\ndefine:\n"
      "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[page[b, j/16], h, j%16, d]) * scale\n"
      "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
      "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[page[b, j/16], h, j%16, e])\noutputs: [O]\n",
      "paged.yaml");
}

/// What a launch with check_indices says to a table of pages; `reversed` gives it backwards, with negative strides.
std::string said_to(const std::vector<std::int64_t>& pages, const std::vector<std::int64_t>& lengths,
                    bool reversed = false) {
  const Executable run = case_engine().build(paged_attention(), load_schedule("simt/flash2"),
                                             {Device::cuda(0), ScalarType::bf16, {{"D", 64}}, {}});
  const runtime::Context context = runtime::Context::primary(0);
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream stream = runtime::Stream::create(context);
  std::map<std::string, DeviceTensor> tensors;
  LaunchArguments arguments;
  const auto add = [&](const std::string& name, const runtime::HostTensor& values) {
    DeviceTensor& tensor = tensors.try_emplace(name, context, values.dtype, values.shape).first->second;
    tensor.put(values, stream);
    arguments.tensors[name] = tensor.view();
  };
  add("Q", gaussian(ScalarType::bf16, {2, 2, 5, 64}, 1));
  add("K", gaussian(ScalarType::bf16, {12, 2, 16, 64}, 2));
  add("V", gaussian(ScalarType::bf16, {12, 2, 16, 64}, 3));
  add("O", constant(ScalarType::bf16, {2, 2, 5, 64}, 7));
  add("length", filled(ScalarType::i32, {2},
                       [&](const Index& at) { return static_cast<double>(lengths[static_cast<std::size_t>(at[0])]); }));
  add("page", filled(ScalarType::i32, {2, 6}, [&](const Index& at) {
        const std::int64_t place = at[0] * 6 + at[1];
        return static_cast<double>(pages[static_cast<std::size_t>(reversed ? 11 - place : place)]);
      }));
  if (reversed) {
    TensorView& page = arguments.tensors.at("page");
    page.data = static_cast<std::int32_t*>(page.data) + 11;
    page.strides = {-6, -1};
  }
  arguments.stream = stream.handle();
  arguments.extents = {{"Sk", 96}};
  arguments.check_indices = true;
  std::string said;
  try {
    run.launch(arguments);
  } catch (const UserError& error) {
    said = error.what();
  }
  const HostTensors out{{"O", tensors.at("O").take(stream)}};
  // Nothing is launched that was refused.
  std::int64_t untouched = 0;
  for_each(out.at("O"), [&](const Index&, double value) { untouched += value == 7; });
  CHECK(untouched == (said.empty() ? 0 : 2 * 2 * 5 * 64));
  return said;
}

}  // namespace

TEST_CASE("a launch that checks indices copies them from the device and refuses pages that are not there") {
  ASTATIDE_NEED_GPU();
  const std::vector<std::int64_t> pages = {11, 10, 9, 8, -5, 999, 0, 1, 2, 3, 4, 5};
  for (const bool reversed : {false, true}) {
    INFO((reversed ? "backwards" : "forwards"));
    CHECK(said_to(pages, {64, 96}, reversed).empty());
    const std::string said = said_to(pages, {65, 96}, reversed);
    CHECK(said.find("S reads K at index page[b, j/16], which is -5 at b = 0, j = 64; dimension 1 has the length 12") !=
          std::string::npos);
    CHECK(said.find("O reads V at index page[b, j/16], which is -5 at b = 0, j = 64;") != std::string::npos);
  }
  CHECK(said_to(pages, {64, 97}).find("axis j is length[b] = 97 long at b = 1, at most 96") != std::string::npos);
  CHECK(said_to(pages, {-1, 96}).find("axis j is length[b] = -1 long at b = 0, the least is 0") != std::string::npos);
}
