// Rows that a schedule pads: what is read and written in vectors begins at multiples of them.

#include <catch2/catch.hpp>

#include "compiler/cuda/emit.h"
#include "tests/support/case_run.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {

TEST_CASE("padding that vectors do not divide is read element by element") {
  const std::string flash2 = with(shipped_schedule("simt/flash2"), "tile: {i: 128, j: 64}", "tile: {i: 16, j: 64}");
  const auto kernel = [&](const std::string& schedule) {
    const CompileOptions options{*find_target("sm_80"), {{"D", 64}, {"Dv", 64}}, ScalarType::bf16};
    return cuda::emit(compile(example_algorithm("attention"), parse_schedule(schedule, "s.yaml"), options)).text;
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string v = "V: {stage_at: j.o, store_in: shared", k = "K: {stage_at: j.o, store_in: shared";
  const std::string odd = kernel(with(flash2, v, v + ", align_storage: {e: 3}"));
  CHECK(holds(odd, "(j, e) = (64, 64), 66 elements a row"));
  CHECK(holds(odd, "load1(V_s"));
  CHECK_FALSE(holds(odd, "load4(V_s"));
  const std::string whole = kernel(with(flash2, v, v + ", align_storage: {e: 68}"));
  CHECK(holds(whole, "(j, e) = (64, 64), 68 elements a row"));
  CHECK(holds(whole, "load4(V_s"));
  CHECK_FALSE(holds(kernel(with(flash2, k, k + ", align_storage: {d: 3}")), "load4(K_s"));
}

}  // namespace astatide::testing
