// fast_math: what it emits, what explain says of it, and what a check then allows.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "api/check_outputs.h"
#include "compiler/cuda/emit.h"
#include "compiler/explain.h"
#include "compiler/pipeline.h"
#include "tests/support/case_run.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

const std::map<std::string, std::int64_t> kSizes = {{"B", 1},   {"Hq", 2}, {"Hkv", 1}, {"Sq", 40},
                                                    {"Sk", 72}, {"D", 64}, {"Dv", 64}};

Schedule fast(const std::string& name) {
  Schedule schedule = load_schedule(name);
  schedule.fast_math = true;
  return schedule;
}

std::string source_of(const Schedule& schedule, ScalarType dtype) {
  const CompileOptions options{*find_target(schedule.target), kSizes, dtype};
  return cuda::emit(compile(load_algorithm("softcap_alibi"), schedule, options)).text;
}

Case softcap() {
  Case c;
  c.algorithm = load_algorithm("softcap_alibi");
  c.extents = kSizes;
  fill_gaussian(c, 1);
  return c;
}

/// What a kernel would give whose tanh is `tanh_of` the exact one.
HostTensors outputs_with(const Case& c, const std::function<double(double)>& tanh_of) {
  Arguments arguments{c.extents, {}, {}};
  for (const auto& [name, tensor] : c.inputs) arguments.inputs[name] = {tensor.shape, runtime::to_doubles(tensor)};
  HostTensors out;
  for (const auto& [name, tensor] : evaluate(c.algorithm, arguments, Precision::f32, {{}, {{Op::tanh, tanh_of}}})) {
    std::size_t n = 0;
    runtime::HostTensor& made = out[name] = runtime::zeros(ScalarType::f32, tensor.shape);
    runtime::for_each_element(
        made, [&, &values = tensor.values](auto* at) { runtime::store_element(ScalarType::f32, at, values[n++]); });
  }
  return out;
}

bool is_within(const Case& c, const HostTensors& outputs, const Allowance& allowance) {
  const std::vector<OutputCheck> checks = check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs, allowance);
  return std::all_of(checks.begin(), checks.end(), [](const OutputCheck& check) { return check.ok(); });
}

}  // namespace

TEST_CASE("tanh is approximated where a schedule says fast_math, and nowhere else") {
  for (const auto& [name, dtype] : {std::pair{"simt/flash2", ScalarType::f32},
                                    {"sm80/flash2", ScalarType::bf16},
                                    {"sm90/flash3", ScalarType::bf16},
                                    {"simt/standard", ScalarType::f32}}) {
    INFO(name);
    const std::string exact = source_of(load_schedule(name), dtype);
    CHECK(exact.find("tanhf(") != std::string::npos);
    CHECK(exact.find("fast_tanh(") == std::string::npos);
    std::string approximate = source_of(fast(name), dtype);
    CHECK(approximate.find("tanhf(") == std::string::npos);
    // On FMA units nothing else changes; on tensor cores the quotient becomes a product.
    if (!std::string(name).starts_with("simt/")) {
      CHECK(exact.find("(scale / cap)") == std::string::npos);
      CHECK(approximate.find("* (scale / cap))") != std::string::npos);
      continue;
    }
    for (std::size_t at = 0; (at = approximate.find("fast_tanh(", at)) != std::string::npos;)
      approximate.replace(at, std::string("fast_tanh").size(), "tanhf");
    CHECK(approximate == exact);
  }
}

TEST_CASE("a CPU computes what a schedule for GPUs may approximate as exactly as without") {
  const Case c = softcap();
  const HostTensors exact = run_case(c, load_schedule("simt/flash2"), Device::cpu());
  const HostTensors allowed = run_case(c, fast("simt/flash2"), Device::cpu());
  for (const auto& [name, tensor] : exact) require_same_bits(allowed.at(name), tensor);
}

TEST_CASE("explain names what is approximated, where, and by how much") {
  const Schedule schedule = fast("simt/flash2");
  const Algorithm algorithm = load_algorithm("softcap_alibi");
  const Explanation said = explain(algorithm, schedule, {*find_target("sm_80"), kSizes, ScalarType::f32});
  REQUIRE(said.approximations.size() == 1);
  CHECK(said.approximations[0].approximation.instruction == "tanh.approx.f32");
  CHECK(said.approximations[0].approximation.error_bits == 11);
  CHECK(said.approximations[0].kernels == std::vector<std::string>{"softcap_alibi"});
  CHECK(explain(algorithm, schedule, {*find_target("cpu"), kSizes, ScalarType::f32}).approximations.empty());
  const TemporaryFolder folder;
  const std::string path = (folder / "fast.yaml").string();
  std::ofstream(path) << print_schedule(schedule);
  const ProgramResult result = run_astatide({"explain", "softcap_alibi", "--schedule", path});
  INFO(result.out << result.err);
  CHECK(result.out.find(
            "fast_math: tanh by tanh.approx.f32 in softcap_alibi, off by up to 2^-11 of each result (0.000488)"
            "\n") != std::string::npos);
}

TEST_CASE("a rounding of 11 bits is off by up to 2^-11 of a number, and by nearly as much") {
  const Approximation one{Op::tanh, "", 11};
  double worst = 0;
  for (double x = 1e-3; x < 4; x *= 1.0001) worst = std::max(worst, std::fabs(approximated(x, one) / x - 1));
  CHECK(worst <= std::ldexp(1, -11));
  CHECK(worst > 0.99 * std::ldexp(1, -11));
  CHECK(approximated(-1, one) == -1);
  CHECK(approximated(0, one) == 0);
  CHECK(std::isnan(approximated(std::nan(""), one)));
}

TEST_CASE("a check allows a tanh that is off as the instruction may be where the schedule says so, and not more") {
  const Case c = softcap();
  const Allowance allowed = allowance_of(fast("simt/flash2"), Device::cuda());
  REQUIRE(allowed.functions.size() == 1);
  CHECK(allowance_of(fast("simt/flash2"), Device::cpu()).functions.empty());
  CHECK(allowance_of(load_schedule("simt/flash2"), Device::cuda()).functions.empty());
  const double most = std::ldexp(1, -11);
  // Off to both sides, as a table would be, and all to one side.
  const auto waving = [&](double x) { return x * (1 + most * std::sin(1e5 * x)); };
  const auto above = [&](double x) { return x * (1 + most); };
  CHECK(is_within(c, outputs_with(c, waving), allowed));
  CHECK(is_within(c, outputs_with(c, above), allowed));
  CHECK_FALSE(is_within(c, outputs_with(c, waving), {}));
  CHECK_FALSE(is_within(c, outputs_with(c, above), {}));
  CHECK_FALSE(is_within(c, outputs_with(c, [&](double x) { return x * (1 + 8 * most); }), allowed));
  CHECK_FALSE(is_within(c, outputs_with(c, [](double) { return 0.0; }), allowed));
}
