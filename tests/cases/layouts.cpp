// Heads, strides and shapes: results depend on values alone, and what disagrees is refused before memory is touched.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

Case gaussian_case(Algorithm algorithm, std::map<std::string, std::int64_t> extents, ScalarType dtype) {
  Case c;
  c.algorithm = std::move(algorithm);
  c.extents = std::move(extents);
  c.extents.try_emplace("Dv", c.extents.at("D"));
  c.dtype = dtype;
  fill_gaussian(c, 11);
  return c;
}

/// Every schedule gives the same bits for both. Those of TMA may refuse the strides of one.
void require_same_results(const Case& a, const Case& b) {
  const std::map<std::string, HostTensors> results = results_by_schedule(a), others = results_by_schedule(b);
  REQUIRE(!results.empty());
  for (const auto& [schedule, outputs] : results) {
    INFO(schedule);
    const auto found = others.find(schedule);
    if (found == others.end() && schedule.starts_with("sm90/flash3")) continue;
    REQUIRE(found != others.end());
    for (const auto& [name, tensor] : outputs) require_same_bits(found->second.at(name), tensor);
  }
}

/// One tensor of `c` as a view with these strides, for every tensor that is named.
Case strided(Case c, const std::map<std::string, Index>& strides) {
  for (const auto& [name, wanted] : strides) c.inputs.at(name) = with_strides(c.inputs.at(name), wanted);
  return c;
}

std::string refusal_of(const Case& c, const std::string& schedule) {
  try {
    run_case(c, schedule);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("N11: keys and values broadcast over heads with stride 0 give the bits of copies") {
  // pytorch/pytorch#191937: wrong where the number of keys was 1 mod 32.
  ASTATIDE_NEED_CASE_DEVICE();
  for (const std::int64_t width : {64, 512}) {
    for (const std::int64_t keys : {31, 32, 33, 64, 65}) {
      Case view = gaussian_case(attention(), {{"B", 1}, {"Hq", 8}, {"Hkv", 8}, {"Sq", 40}, {"Sk", keys}, {"D", width}},
                                ScalarType::bf16);
      // 64 rows of 512 channels are over the budget of every shipped schedule.
      if (width == 512) view.extents["Dv"] = 64, view.inputs["V"] = gaussian(view.dtype, value_shape(view), 13);
      for (const char* name : {"K", "V"}) {
        runtime::HostTensor& tensor = view.inputs.at(name);
        tensor = gaussian(view.dtype, {1, 1, tensor.shape[2], tensor.shape[3]}, 17);
        tensor.shape[1] = 8;
        tensor.strides[1] = 0;
      }
      Case copy = view;
      for (auto& [name, tensor] : copy.inputs) tensor = runtime::dense_copy(tensor, tensor.dtype);
      if (width == 512) {
        // Where the tiles fit: the CPU's workspace is larger than a block's shared memory.
        if (case_device().kind == Device::Kind::cuda) continue;
        const HostTensors a = run_case(view, "simt/flash2");
        const HostTensors b = run_case(copy, "simt/flash2");
        require_same_bits(a.at("O"), b.at("O"));
        continue;
      }
      require_same_results(view, copy);
    }
  }
}

TEST_CASE("N11: slices of one packed buffer give the bits of copies") {
  // NVIDIA/TransformerEngine#1195: real strides were ignored.
  ASTATIDE_NEED_CASE_DEVICE();
  const std::int64_t length = case_device().kind == Device::Kind::cuda ? 2048 : 300;
  const std::int64_t heads = 16, slots = heads + 2, width = 64;
  Case copy = gaussian_case(causal_attention(),
                            {{"B", 1}, {"Hq", heads}, {"Hkv", 1}, {"Sq", length}, {"Sk", length}, {"D", width}},
                            ScalarType::f16);
  const runtime::HostTensor packed = gaussian(copy.dtype, {length, 1, slots, width}, 19);
  const auto slice = [&](std::int64_t first, std::int64_t count) {
    runtime::HostTensor view = packed;
    view.shape = {1, count, length, width};
    view.strides = {slots * width, width, slots * width, 1};
    view.offset = static_cast<std::size_t>(first * width * size_in_bytes(copy.dtype));
    return view;
  };
  Case view = copy;
  view.inputs["Q"] = slice(0, heads);
  view.inputs["K"] = slice(heads, 1);
  view.inputs["V"] = slice(heads + 1, 1);
  for (auto& [name, tensor] : copy.inputs) tensor = runtime::dense_copy(view.inputs.at(name), copy.dtype);
  require_same_results(view, copy);
}

TEST_CASE("N11: rows of unequal strides, odd offsets, transposed and strided channels give the bits of copies") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const ScalarType dtype : {ScalarType::f32, ScalarType::bf16}) {
    const Case copy = gaussian_case(
        causal_attention(), {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 37}, {"Sk", 70}, {"D", 24}, {"Dv", 40}}, dtype);
    // Rows of K and V are longer than their channels, by different amounts that break 16-byte alignment.
    require_same_results(strided(copy, {{"K", {2 * 70 * 25, 70 * 25, 25, 1}}, {"V", {2 * 70 * 43, 70 * 43, 43, 1}}}),
                         copy);
    // Sequence before heads, the order of many caches.
    require_same_results(strided(copy, {{"Q", {37 * 4 * 24, 24, 4 * 24, 1}}, {"K", {70 * 2 * 24, 24, 2 * 24, 1}}}),
                         copy);
    // Channels apart: d outside j, and every other element.
    require_same_results(strided(copy, {{"K", {2 * 70 * 24, 70 * 24, 1, 70}}, {"V", {2 * 70 * 80, 70 * 80, 80, 2}}}),
                         copy);
    // A first element that no vector is aligned to.
    Case shifted = copy;
    runtime::HostTensor longer = with_strides(copy.inputs.at("K"), copy.inputs.at("K").strides);
    longer.data->insert(longer.data->begin(), static_cast<std::size_t>(size_in_bytes(dtype)), std::byte{0xff});
    longer.offset = static_cast<std::size_t>(size_in_bytes(dtype));
    shifted.inputs["K"] = longer;
    require_same_results(shifted, copy);
  }
}

TEST_CASE("N14: a head reads its own group's keys and the mask reads the row, whatever the ratio of heads") {
  // Dao-AILab/flash-attention PR 2528: the row was divided by the group.
  ASTATIDE_NEED_CASE_DEVICE();
  const std::vector<std::pair<std::int64_t, std::int64_t>> ratios = {{8, 2}, {12, 2}, {12, 6}, {64, 8}, {5, 5}, {7, 1}};
  for (const auto& [heads, kv_heads] : ratios) {
    Case c =
        gaussian_case(causal_attention(),
                      {{"B", 1}, {"Hq", heads}, {"Hkv", kv_heads}, {"Sq", 33}, {"Sk", 33}, {"D", 64}}, ScalarType::f16);
    c.inputs["Q"] = constant(c.dtype, query_shape(c), 0);
    c.inputs["V"] = filled(c.dtype, value_shape(c), [](const Index& at) { return static_cast<double>(at[1]); });
    for_each_schedule(c, [&, heads = heads, kv_heads = kv_heads](const HostTensors& out) {
      require_values(
          out.at("O"), [&](const Index& at) { return std::floor(static_cast<double>(at[1] * kv_heads / heads)); },
          units(c.dtype, 0));
      require_values(
          out.at("L"), [](const Index& at) { return std::log(static_cast<double>(at[2] + 1)); }, lse_tolerance);
    });
  }
}

TEST_CASE("N14: heads that no whole groups divide are refused with both numbers") {
  ASTATIDE_NEED_CASE_DEVICE();
  const Case c = gaussian_case(causal_attention(), {{"B", 1}, {"Hq", 5}, {"Hkv", 2}, {"Sq", 8}, {"Sk", 8}, {"D", 16}},
                               ScalarType::f32);
  const std::string message = refusal_of(c, "simt/flash2");
  REQUIRE_THAT(message,
               Catch::Contains("Hq = 5") && Catch::Contains("Hkv = 2") && Catch::Contains("must be a multiple"));
}

TEST_CASE("N20: a batch of 0 and 0 rows give empty results and launch nothing") {
  // pytorch/pytorch#133780.
  ASTATIDE_NEED_CASE_DEVICE();
  for (const auto& [batch, heads, rows] : {std::tuple{0, 10, 3952}, std::tuple{2, 10, 0}, std::tuple{2, 0, 7}}) {
    const Case c =
        gaussian_case(attention(), {{"B", batch}, {"Hq", heads}, {"Hkv", heads}, {"Sq", rows}, {"Sk", 16}, {"D", 64}},
                      ScalarType::f16);
    for_each_schedule(c, [&, batch = batch, heads = heads, rows = rows](const HostTensors& out) {
      REQUIRE(out.at("O").shape == Index{batch, heads, rows, 64});
      REQUIRE(out.at("L").shape == Index{batch, heads, rows});
    });
    const std::uint64_t launches = case_engine().counters().launches;
    run_case(c, "simt/flash2");
    REQUIRE(case_engine().counters().launches == launches);
  }
}

TEST_CASE("N20: no keys give O = 0 and L = -inf") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const Algorithm& algorithm : {attention(), causal_attention()}) {
    const Case c =
        gaussian_case(algorithm, {{"B", 2}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 70}, {"Sk", 0}, {"D", 64}}, ScalarType::f16);
    for_each_schedule(c, [&](const HostTensors& out) {
      require_values(
          out.at("O"), [](const Index&) { return 0.0; }, units(c.dtype, 0));
      require_values(
          out.at("L"), [](const Index&) { return -INFINITY; }, lse_tolerance);
    });
  }
}

TEST_CASE("N21: shapes that disagree are refused, and name both tensors and sizes") {
  // pytorch/pytorch PR 193728: reads past the end of K.
  ASTATIDE_NEED_CASE_DEVICE();
  const Case good =
      gaussian_case(attention(), {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 3}, {"Sk", 5}, {"D", 8}}, ScalarType::f32);
  const auto with = [&](const char* name, const Index& shape) {
    Case c = good;
    c.inputs[name] = gaussian(c.dtype, shape, 23);
    // The shapes alone speak.
    return c;
  };
  const auto refuses = [](const Case& c, const std::string& a, const std::string& b) {
    // What the request says is checked too; here the shapes are to disagree among themselves.
    const Executable executable = case_engine().build(c.algorithm, load_schedule("simt/flash2"),
                                                      {case_device(), c.dtype, {{"D", 8}, {"Dv", 8}}, {}});
    std::map<std::string, TensorView> views;
    for (const auto& [name, tensor] : c.inputs)
      views[name] = {tensor.data->data(), tensor.dtype, tensor.shape, tensor.strides};
    std::vector<float> o(24, 7), l(3, 7);
    views["O"] = {o.data(), ScalarType::f32, {1, 1, 3, 8}, {24, 24, 8, 1}};
    views["L"] = {l.data(), ScalarType::f32, {1, 1, 3}, {3, 3, 1}};
    LaunchArguments arguments;
    arguments.tensors = views;
    REQUIRE_THROWS_WITH(executable.launch(arguments), Catch::Contains(a) && Catch::Contains(b));
    REQUIRE(o == std::vector<float>(24, 7));
    REQUIRE(l == std::vector<float>(3, 7));
  };
  refuses(with("V", {1, 1, 6, 8}), "Sk is 5 in K", "6 in V");
  refuses(with("K", {1, 1, 6, 8}), "Sk is 6 in K", "5 in V");
  refuses(with("K", {1, 1, 5, 7}), "D is 8 in Q", "7 in K");
  refuses(with("V", {1, 2, 5, 8}), "Hkv is 1 in K", "2 in V");
  refuses(with("K", {2, 1, 5, 8}), "B is 1 in Q", "2 in K");
  refuses(with("Q", {1, 1, 4, 8}), "Sq is 4 in Q", "3 in O");
  refuses(with("Q", {1, 1, 3}), "Q has 3 dimensions", "has 4");
}
