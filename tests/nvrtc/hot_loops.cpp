// What the hottest loop of each shipped schedule of tensor cores is made of, by classes of instructions:
// tests/golden/sass holds a file for each. UPDATE_GOLDENS=1 writes them anew. Needs NVRTC and nvdisasm or cuobjdump
// (ASTATIDE_NVDISASM).

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "compiler/support/diagnostic.h"
#include "runtime/nvrtc.h"
#include "tests/support/paths.h"
#include "tests/support/run_program.h"
#include "tests/support/sass_loop.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// Another ptxas schedules other instructions: major and minor version of NVRTC, or nothing without it.
std::string compiler_version() {
  try {
    const runtime::NvrtcVersion& version = runtime::nvrtc().version();
    return "NVRTC " + std::to_string(version.major) + "." + std::to_string(version.minor);
  } catch (const MachineError&) {
    return "";
  }
}

std::filesystem::path golden_of(const std::string& schedule) {
  std::string name = schedule;
  std::replace(name.begin(), name.end(), '/', '_');
  return source_path("tests/golden/sass/" + name + ".txt");
}

std::string type_of(const std::string& schedule) { return takes_f32(schedule) ? "f32" : "bf16"; }

/// What the golden's first line says before the compiler's version.
std::string title_of(const std::string& schedule) {
  const std::string target = parse_schedule(shipped_schedule(schedule), schedule).target;
  return "attention, " + schedule + ", " + type_of(schedule) + ", D " + std::to_string(head_size_of(schedule)) + ", " +
         target + ", ";
}

void check_hot_loop(const std::string& schedule) {
  if (compiler_version().empty()) ASTATIDE_SKIP("no NVRTC on this machine");
  const std::string title = title_of(schedule), width = std::to_string(head_size_of(schedule));
  const std::filesystem::path path = golden_of(schedule);
  INFO(path << ": UPDATE_GOLDENS=1 writes what is there now");
  if (!updates_goldens()) {
    REQUIRE(std::filesystem::exists(path));
    const std::string golden = text_of(path);
    const std::string line = golden.substr(0, golden.find('\n'));
    REQUIRE_THAT(line, Catch::StartsWith(title));
    if (line != title + compiler_version())
      ASTATIDE_SKIP("the golden is of " + line.substr(title.size()) + ", here is " + compiler_version());
  }
  const TemporaryFolder folder;
  const ProgramResult sass = run_astatide({"emit", "attention", "--schedule", schedule, "--stage", "sass", "--dtype",
                                           type_of(schedule), "--shape", "D=" + width + ",Dv=" + width},
                                          {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  if (sass.code == 3) ASTATIDE_SKIP(sass.err);
  INFO(sass.err);
  REQUIRE(sass.code == 0);
  // Loads and stores of a thread's own memory.
  for (const char* spill : {" STL", " LDL"}) CHECK(sass.out.find(spill) == std::string::npos);
  const std::optional<InstructionCounts> now = hottest_loop(sass.out);
  REQUIRE(now);
  if (updates_goldens()) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << title << compiler_version() << "\n" << to_text(*now);
  }
  const std::string golden = text_of(path);
  const InstructionCounts before = parse_counts(golden.substr(golden.find('\n') + 1));
  INFO("before:\n" << to_text(before) << "now:\n" << to_text(*now));
  for (const char* name : {"mma", "mufu", "ldsm"}) {
    INFO(name);
    CHECK(count_of(*now, name) == count_of(before, name));
  }
  const int total = count_of(before, "total");
  CHECK(std::abs(count_of(*now, "total") - total) <= 0.05 * total);
}

}  // namespace

TEST_CASE("the hottest loop of sm80/flash2 is as it was") { check_hot_loop("sm80/flash2"); }
TEST_CASE("the hottest loop of sm80/flash2_d64 is as it was") { check_hot_loop("sm80/flash2_d64"); }
TEST_CASE("the hottest loop of sm80/flash2_tf32 is as it was") { check_hot_loop("sm80/flash2_tf32"); }
TEST_CASE("the hottest loop of sm80/decode is as it was") { check_hot_loop("sm80/decode"); }
TEST_CASE("the hottest loop of sm80/decode_gqa is as it was") { check_hot_loop("sm80/decode_gqa"); }
TEST_CASE("the hottest loop of sm90/decode_gqa is as it was") { check_hot_loop("sm90/decode_gqa"); }
TEST_CASE("the hottest loop of sm90/decode_gqa_short is as it was") { check_hot_loop("sm90/decode_gqa_short"); }
TEST_CASE("the hottest loop of sm90/decode_gqa_teams is as it was") { check_hot_loop("sm90/decode_gqa_teams"); }
TEST_CASE("the hottest loop of sm90/decode is as it was") { check_hot_loop("sm90/decode"); }
TEST_CASE("the hottest loop of sm80/wide is as it was") { check_hot_loop("sm80/wide"); }
TEST_CASE("the hottest loop of sm80/wide_gqa is as it was") { check_hot_loop("sm80/wide_gqa"); }
TEST_CASE("the hottest loop of sm90/wide is as it was") { check_hot_loop("sm90/wide"); }
TEST_CASE("the hottest loop of sm90/wide_gqa is as it was") { check_hot_loop("sm90/wide_gqa"); }
TEST_CASE("the hottest loop of sm90/flash2_wgmma is as it was") { check_hot_loop("sm90/flash2_wgmma"); }
TEST_CASE("the hottest loop of sm90/flash3_plain is as it was") { check_hot_loop("sm90/flash3_plain"); }
TEST_CASE("the hottest loop of sm90/flash3 is as it was") { check_hot_loop("sm90/flash3"); }
TEST_CASE("the hottest loop of sm90/flash3_cluster is as it was") { check_hot_loop("sm90/flash3_cluster"); }
TEST_CASE("the hottest loop of sm90/flash3_d64 is as it was") { check_hot_loop("sm90/flash3_d64"); }
TEST_CASE("the hottest loop of sm90/flash3_d256 is as it was") { check_hot_loop("sm90/flash3_d256"); }
TEST_CASE("the hottest loop of sm90/flash3_tma_store is as it was") { check_hot_loop("sm90/flash3_tma_store"); }

TEST_CASE("every shipped schedule of tensor cores has a golden of its hottest loop, and no golden is left over") {
  std::vector<std::filesystem::path> wanted, found;
  for (const std::string& schedule : tensor_core_schedule_names()) wanted.push_back(golden_of(schedule));
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/golden/sass")))
    found.push_back(entry.path());
  std::sort(wanted.begin(), wanted.end());
  std::sort(found.begin(), found.end());
  CHECK(wanted == found);
}
