// CUDA source of any algorithm under any schedule compiles to a cubin for the machine that the schedule is written for.
// ASTATIDE_SEED=N compiles one draw again, ASTATIDE_DRAWS=N so many.

#include <catch2/catch.hpp>

#include "compiler/cuda/emit.h"
#include "compiler/support/embedded.h"
#include "runtime/nvrtc.h"
#include "tests/support/random_draws.h"
#include "tests/support/skip.h"

namespace astatide::testing {
namespace {

void compile_to_cubin(const tile::Program& program, const std::string& target) {
  runtime::CompileRequest request;
  request.name = "kernel.cu";
  request.source = cuda::emit(program).text;
  request.target = target;
  request.options = {"--std=c++17"};
  for (const EmbeddedFile& header : embedded_device_headers())
    request.headers.push_back({std::string(header.name), std::string(header.text)});
  runtime::nvrtc().compile(request);
}

}  // namespace

TEST_CASE("random algorithms under random schedules of GPUs compile to cubins") {
  try {
    runtime::nvrtc();
  } catch (const MachineError&) {
    ASTATIDE_SKIP("no NVRTC on this machine");
  }
  DrawOptions options;
  for (const std::string& name : shipped_schedules())
    if (!name.starts_with("cpu/")) options.schedules.push_back(name);
  options.wanted = 12;
  options.lengths = 0;
  options.own_code = compile_to_cubin;
  options.command = "test_nvrtc 'random algorithms under random schedules of GPUs compile to cubins'";
  check_draws(options);
}

}  // namespace astatide::testing
