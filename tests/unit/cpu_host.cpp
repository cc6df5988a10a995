#include <catch2/catch.hpp>

#include "api/check_outputs.h"
#include "compiler/cpu/emit.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/case_run.h"
#include "tests/support/streaming_program.h"

using namespace astatide;

TEST_CASE("The width of vectors follows the processor's features") {
  const std::string triple = "x86_64-pc-linux-gnu";
  CHECK(cpu::describe_host(triple, "x86-64", "").lanes() == 4);
  CHECK(cpu::describe_host(triple, "haswell", "").lanes() == 8);
  CHECK(cpu::describe_host(triple, "skylake-avx512", "").lanes() == 16);
  CHECK(cpu::describe_host(triple, "haswell", "-avx,-avx2").lanes() == 4);
}

TEST_CASE("The host's description is the same every time it is asked for") {
  CHECK(cpu::detect_host().features == cpu::detect_host().features);
}

TEST_CASE("Inputs of 16 bits are compared as what they hold where their loads are masked") {
  // A tile of one row and 5 columns, 8 lanes: the comparison was one of halves, its operands swapped.
  testing::Case c;
  c.algorithm = parse_algorithm(
      "algorithm: masked\nextents: [R, N, D]\ninputs: {Q: [R, D], K: [N, D], sign: [R, N]}\ndefine:\n"
      "  - S[i,j] = sum(d, Q[i,d] * K[j,d]) where sign[i,j] > 0.0\n  - O[i] = max(j, S[i,j])\noutputs: [O]\n",
      "masked.yaml");
  c.extents = {{"R", 3}, {"N", 11}, {"D", 4}};
  c.dtype = ScalarType::f16;
  c.inputs = {{"Q", testing::gaussian(c.dtype, {3, 4}, 1)},
              {"K", testing::gaussian(c.dtype, {11, 4}, 2)},
              {"sign", testing::gaussian(c.dtype, {3, 11}, 3)}};
  const Schedule schedule = parse_schedule(
      "target: cpu\nO: {tile: {i: 1, j: 5}, parallel: [i.o]}\nS: {compute_at: j.o, store_in: shared}\n"
      "Q: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n",
      "masked.yaml");
  const testing::HostTensors outputs = testing::run_case(c, schedule, Device::cpu());
  for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs)) CHECK(check.ok());
}

TEST_CASE("Emitting a program twice gives the same bitcode") {
  const cpu::CpuHost host = cpu::detect_host();
  const auto program = testing::streaming_program({});
  CHECK(cpu::emit_llvm(program, host).bitcode == cpu::emit_llvm(program, host).bitcode);
}

TEST_CASE("The text of the LLVM stage names the program's tensors, tiles and loops") {
  const std::string text = cpu::emit_llvm_text(testing::streaming_program({}), cpu::detect_host());
  for (const char* word : {"define void @kernel.streaming(", "%Q_stride_0", "%i_o", "%j_o", "@multiply.64x64x64", "%S"})
    CHECK_THAT(text, Catch::Contains(word));
}

TEST_CASE("A kernel's own number of lanes takes the place of the host's, and must be a power of two") {
  tile::Program program = testing::streaming_program({});
  program.kernels[0].vector_lanes = 2;
  CHECK_THAT(cpu::emit_llvm_text(program, cpu::detect_host()), Catch::Contains("<2 x float>"));
  program.kernels[0].vector_lanes = 3;
  CHECK_THROWS_WITH(cpu::emit_llvm(program, cpu::detect_host()), Catch::Contains("vectors of 3 lanes"));
}

TEST_CASE("What an earlier pass should have removed is our own fault") {
  tile::Program program = testing::streaming_program({});
  program.kernels[0].body.push_back({tile::Advance{}});
  CHECK_THROWS_AS(cpu::emit_llvm(program, cpu::detect_host()), InternalError);
  program.kernels[0].body.back() = {tile::Role{}};
  CHECK_THROWS_AS(cpu::emit_llvm(program, cpu::detect_host()), InternalError);
}

TEST_CASE("A program may bear the name of a library's function") {
  for (const char* name : {"powf", "memset", "floorf"}) {
    tile::Program program = testing::streaming_program({});
    program.kernels[0].name = name;
    const cpu::CpuModule module = cpu::emit_llvm(program, cpu::detect_host());
    CHECK(module.kernels[0].symbol == "kernel." + std::string(name));
  }
}
