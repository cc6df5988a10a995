// Exported code on a device: built by the C compiler, run in a process of its own, compared with the evaluator.
#include <catch2/catch.hpp>
#include <cstring>

#include "api/check_outputs.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"
#include "tests/support/exported_program.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

struct ExportCase {
  std::string schedule;
  ScalarType dtype;
  std::vector<Lengths> lengths;  // D and Dv are those of the first
};

std::string bytes_of(const runtime::HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data->data()), tensor.data->size()};
}

runtime::HostTensor read_tensor(const std::filesystem::path& path, ScalarType type, const Index& shape) {
  runtime::HostTensor tensor = runtime::zeros(type, shape);
  const std::string bytes = read_bytes(path);
  REQUIRE(bytes.size() == tensor.data->size());
  std::memcpy(tensor.data->data(), bytes.data(), bytes.size());
  return tensor;
}

void check_on_device(const ExportCase& c, const Algorithm& algorithm) {
  // Kernels of a schedule for sm_80 run where they were compiled for.
  const std::string target = runtime::driver().device(0).target();
  const ExportedProgram exported(c.schedule, c.dtype, {target == "sm_90" ? "sm_90a" : target}, c.lengths.front());
  for (const Lengths& lengths : c.lengths) {
    const auto [b, hq, hkv, sq, sk, d, dv] = lengths;
    const HostTensors inputs = {{"Q", gaussian(c.dtype, {b, hq, sq, d}, 1)},
                                {"K", gaussian(c.dtype, {b, hkv, sk, d}, 2)},
                                {"V", gaussian(c.dtype, {b, hkv, sk, dv}, 3)}};
    for (const auto& [name, tensor] : inputs) write_bytes(exported.data() / (name + ".bin"), bytes_of(tensor));
    const ProgramResult run = exported.run(lengths, {});
    INFO(c.schedule << "\n" << run.out << run.err);
    REQUIRE(run.code == 0);
    const HostTensors outputs = {{"O", read_tensor(exported.data() / "O.bin", c.dtype, {b, hq, sq, dv})},
                                 {"L", read_tensor(exported.data() / "L.bin", ScalarType::f32, {b, hq, sq})}};
    for (const OutputCheck& check :
         check_outputs(algorithm, astatide::testing::extents_of(lengths), {}, inputs, outputs)) {
      INFO(check.name << " is off by " << check.max_abs_error << ", allowed is " << check.limit);
      CHECK(check.ok());
    }
  }
}

}  // namespace

TEST_CASE("exported kernels compute what the evaluator computes, for lengths that nothing was compiled for") {
  ASTATIDE_NEED_GPU();
  if (!has_c_compiler()) ASTATIDE_SKIP("no C compiler: cc");
  const Algorithm algorithm = load_algorithm("causal_gqa");
  const std::vector<Lengths> rows = {{2, 4, 2, 130, 200, 64, 64}, {1, 2, 1, 33, 33, 64, 64}, {1, 2, 2, 5, 0, 64, 64}};
  const std::vector<Lengths> decode = {{2, 8, 2, 1, 700, 64, 64}, {1, 4, 4, 1, 70, 64, 64}};
  for (const ExportCase& c : {ExportCase{"simt/flash2", ScalarType::f32, rows},
                              {"simt/standard", ScalarType::f32, rows},
                              {"sm80/flash2", ScalarType::bf16, rows},
                              {"sm80/decode", ScalarType::bf16, decode},
                              {"sm90/flash3", ScalarType::bf16, rows},
                              {"sm90/flash3_cluster", ScalarType::f16, rows},
                              {"sm90/decode", ScalarType::bf16, decode},
                              {"sm90/decode_gqa", ScalarType::bf16, decode}})
    if (runs_here(c.schedule)) check_on_device(c, algorithm);
}
