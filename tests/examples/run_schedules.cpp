// Every shipped schedule runs on the CPU in every type, and is checked.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "tests/support/run_program.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// Grouped heads, unequal widths, lengths that no tile divides; last, more rows than keys.
const std::vector<std::pair<std::string, std::string>> kRequests{
    {"attention", "B=2,Hq=4,Hkv=4,Sq=130,Sk=257,D=64,Dv=64"},
    {"causal_gqa", "B=2,Hq=4,Hkv=2,Sq=5,Sk=130,D=72,Dv=40"},
    {"causal_gqa", "B=2,Hq=4,Hkv=2,Sq=130,Sk=5,D=72,Dv=40"}};

/// Under those of kRequests that `chosen` names.
void run_under_every_schedule(const std::string& dtype, const std::vector<std::size_t>& chosen) {
  const TemporaryFolder folder;
  for (const std::string& schedule : shipped_schedules()) {
    for (const std::size_t n : chosen) {
      const auto& [algorithm, shape] = kRequests[n];
      const ProgramResult result = run_astatide({"run", algorithm, "--schedule", schedule, "--shape", shape, "--dtype",
                                                 dtype, "--device", "cpu", "--check", "--json", "--repeat", "1"},
                                                {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
      if (dtype == "f32" && !schedule.starts_with("simt/") && !schedule.starts_with("cpu/") && !takes_f32(schedule)) {
        INFO(schedule << "\n" << result.out);
        CHECK(result.code == 2);  // tensor cores take 16 bits, unless told to round f32
        continue;
      }
      INFO(algorithm << " with " << schedule << ", " << shape << "\n" << result.out << result.err);
      CHECK(result.code == 0);
      if (result.code == 0) CHECK(nlohmann::json::parse(result.out).at("ok") == true);
    }
  }
}

}  // namespace

TEST_CASE("every shipped schedule runs in f32") { run_under_every_schedule("f32", {0, 1, 2}); }
TEST_CASE("every shipped schedule runs in f16") { run_under_every_schedule("f16", {1}); }
TEST_CASE("every shipped schedule runs in bf16") { run_under_every_schedule("bf16", {2}); }
