// Kernels compute parts of the keys, another one merges what they gave: the result is that of all keys.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "api/check_outputs.h"
#include "compiler/rewrite/derive_merge.h"
#include "tests/support/case_run.h"
#include "tests/support/merge_cases.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

std::string schedule_of_parts() { return case_device().kind == Device::Kind::cpu ? "cpu/flash2" : "simt/flash2"; }

/// Keys begin .. end of K or V.
runtime::HostTensor keys_of(const runtime::HostTensor& tensor, std::int64_t begin, std::int64_t end) {
  runtime::HostTensor out = tensor;
  out.shape[2] = end - begin;
  out.offset += static_cast<std::size_t>(begin * tensor.strides[2] * size_in_bytes(tensor.dtype));
  return runtime::dense_copy(out, tensor.dtype);
}

Case with_keys(const Case& whole, std::int64_t begin, std::int64_t end) {
  Case out = whole;
  out.extents["Sk"] = end - begin;
  for (const char* name : {"K", "V"}) out.inputs.at(name) = keys_of(whole.inputs.at(name), begin, end);
  return out;
}

/// The case that merges parts, with its executable.
struct MergeRun {
  Case c;
  Executable executable;
};

MergeRun merge_of(const Case& whole, const std::vector<HostTensors>& parts, ScalarType result) {
  const Merge merge = derive_merge(whole.algorithm, whole.dtype);
  Case c;
  c.algorithm = merge.algorithm;
  c.dtype = result;
  for (const Extent& extent : merge.algorithm.extents)
    c.extents[extent.name] =
        extent.name == merge.count ? static_cast<std::int64_t>(parts.size()) : whole.extents.at(extent.name);
  for (const Input& input : merge.algorithm.inputs)
    if (const auto given = whole.inputs.find(input.name); given != whole.inputs.end()) c.inputs.insert(*given);
  for (const auto& [output, input] : merge.parts_of) {
    Index shape = parts.front().at(output).shape;
    shape.insert(shape.begin(), static_cast<std::int64_t>(parts.size()));
    c.inputs[input] = filled(parts.front().at(output).dtype, shape, [&, name = output](const Index& at) {
      return runtime::get(parts[static_cast<std::size_t>(at[0])].at(name), std::span(at).subspan(1));
    });
  }
  return {c, case_engine().build_merge(whole.algorithm, {case_device(), result, whole.extents, {}}, whole.dtype)};
}

/// Merges and requires the contract of the merge by itself.
HostTensors merged(const Case& whole, const std::vector<HostTensors>& parts, ScalarType result) {
  const MergeRun run = merge_of(whole, parts, result);
  HostTensors outputs = run_executable(run.c, run.executable);
  for (const OutputCheck& check : check_outputs(run.c.algorithm, run.c.extents, {}, run.c.inputs, outputs)) {
    INFO(check.name << ": " << check.max_abs_error << " of at most " << check.limit);
    CHECK(check.ok());
  }
  return outputs;
}

Case case_of(const Algorithm& algorithm, ScalarType dtype, std::int64_t rows, std::int64_t keys, double scale) {
  Case c;
  c.algorithm = algorithm;
  c.dtype = dtype;
  c.extents = {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", rows}, {"Sk", keys}, {"D", 16}, {"Dv", 24}};
  c.inputs["Q"] = gaussian(dtype, query_shape(c), 1);
  c.inputs["Q"] =
      filled(dtype, query_shape(c), [&, q = c.inputs["Q"]](const Index& at) { return scale * runtime::get(q, at); });
  c.inputs["K"] = gaussian(dtype, key_shape(c), 2);
  c.inputs["V"] = gaussian(dtype, value_shape(c), 3);
  if (algorithm.find_input("sink")) c.inputs["sink"] = gaussian(dtype, {4}, 4);
  return c;
}

double tolerance_of(ScalarType type) {
  return type == ScalarType::f32 ? 2e-5 : type == ScalarType::f16 ? 4e-3 : 3.2e-2;
}

void require_close(const HostTensors& found, const HostTensors& expected, double tolerance) {
  for (const auto& [name, tensor] : expected)
    require_values(
        found.at(name), [&, &tensor = tensor](const Index& at) { return runtime::get(tensor, at); },
        [tolerance](double value) { return tolerance * std::max(1.0, std::fabs(value)); });
}

std::vector<HostTensors> in_parts(const Case& whole, std::int64_t count) {
  std::vector<HostTensors> parts;
  const std::int64_t keys = whole.extents.at("Sk");
  for (std::int64_t n = 0; n < count; ++n)
    parts.push_back(run_case(with_keys(whole, n * keys / count, (n + 1) * keys / count), schedule_of_parts()));
  return parts;
}

}  // namespace

TEST_CASE("merged parts: any number of them, some without a key, gives one pass over all keys") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16}) {
    const Case whole = case_of(attention(), type, 5, 40, 1);
    const HostTensors expected = run_case(whole, schedule_of_parts());
    for (const std::int64_t count : {1, 2, 3, 7, 64}) {
      INFO(name_of(type) << ", " << count << " parts");
      require_close(merged(whole, in_parts(whole, count), type), expected, tolerance_of(type));
    }
  }
}

TEST_CASE("merged parts: rows of any number, also none and one") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const std::int64_t rows : {0, 1, 33, 130}) {
    INFO(rows << " rows");
    const Case whole = case_of(attention(), ScalarType::f32, rows, 70, 1);
    require_close(merged(whole, in_parts(whole, 3), ScalarType::f32), run_case(whole, schedule_of_parts()), 2e-5);
  }
}

TEST_CASE("merged parts: scores of thousands overflow nothing") {
  ASTATIDE_NEED_CASE_DEVICE();
  const Case whole = case_of(attention(), ScalarType::f32, 9, 64, 3000);
  // L has 13 bits behind the point there, which the weights of parts are made of.
  require_close(merged(whole, in_parts(whole, 4), ScalarType::f32), run_case(whole, schedule_of_parts()), 5e-3);
}

TEST_CASE("merged parts: empty with empty stays empty, and changes nothing else") {
  ASTATIDE_NEED_CASE_DEVICE();
  const Case whole = case_of(attention(), ScalarType::f32, 5, 30, 1);
  const HostTensors none = run_case(with_keys(whole, 0, 0), schedule_of_parts());
  const HostTensors some = run_case(whole, schedule_of_parts());
  for (const std::vector<HostTensors>& parts : {std::vector{none}, {none, none}, {none, none, none}}) {
    const HostTensors result = merged(whole, parts, ScalarType::f32);
    require_same_bits(result.at("O"), constant(ScalarType::f32, result.at("O").shape, 0));
    require_same_bits(result.at("L"),
                      constant(ScalarType::f32, result.at("L").shape, -std::numeric_limits<double>::infinity()));
  }
  require_same_bits(merged(whole, {none, some, none}, ScalarType::f32).at("O"), some.at("O"));
}

TEST_CASE("merged parts: results of another type than the parts") {
  ASTATIDE_NEED_CASE_DEVICE();
  const Case whole = case_of(attention(), ScalarType::f32, 5, 40, 1);
  const HostTensors expected = run_case(whole, schedule_of_parts());
  for (const ScalarType type : {ScalarType::f16, ScalarType::bf16})
    require_close(merged(whole, in_parts(whole, 3), type), expected, tolerance_of(type));
}

TEST_CASE("merged parts: a sink takes weight once, however many parts there are") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const MergeCase& c : merge_cases()) {
    if (c.name != "softmax with a sink") continue;
    for (const double sink : {-3.0, 0.5, 60.0}) {
      Case whole = case_of(c.algorithm, ScalarType::f32, 5, 40, 1);
      whole.inputs["sink"] = constant(ScalarType::f32, {4}, sink);
      const HostTensors expected = run_case(whole, schedule_of_parts());
      for (const std::int64_t count : {1, 5, 64}) {
        INFO("sink " << sink << ", " << count << " parts");
        require_close(merged(whole, in_parts(whole, count), ScalarType::f32), expected, 2e-5);
      }
    }
  }
}

TEST_CASE("merged parts: other recurrences") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const MergeCase& c : merge_cases()) {
    // The fusion of these is a row without values: schedules of attention name V.
    if (c.algorithm.find_input("V") == nullptr) continue;
    INFO(c.name);
    const Case whole = case_of(c.algorithm, ScalarType::f32, 5, 40, 1);
    require_close(merged(whole, in_parts(whole, 3), ScalarType::f32), run_case(whole, schedule_of_parts()), 5e-5);
  }
}
