// What can't be exported is said, before anything is compiled.
#include <catch2/catch.hpp>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide::testing;
using Catch::Contains;

namespace {

/// Exports into a folder that must stay away; gives the message.
std::string refusal(std::vector<std::string> words) {
  const TemporaryFolder folder;
  words.insert(words.begin(), "export");
  words.insert(words.end(), {"--output", (folder / "exported").string()});
  const ProgramResult run = run_astatide(words, {{"ASTATIDE_NVRTC", (folder / "nowhere").string()}});
  INFO(run.out);
  CHECK(run.code == 2);
  CHECK_FALSE(std::filesystem::exists(folder / "exported"));
  return run.err;
}

}  // namespace

TEST_CASE("an export names a GPU, each once, and a folder") {
  CHECK_THAT(refusal({"attention", "--target", "cpu"}), Contains("the target is cpu") && Contains("sm_90a"));
  CHECK_THAT(refusal({"attention", "--schedule", "cpu/flash2"}), Contains("the target is cpu"));
  CHECK_THAT(refusal({"attention", "--target", "sm_80", "--target", "sm_80"}), Contains("sm_80 is given twice"));
  CHECK_THAT(refusal({"attention", "--target", "sm_99"}), Contains("no target 'sm_99'"));
  CHECK(run_astatide({"export", "attention"}).code == 2);
}

TEST_CASE("exported names are identifiers of C") {
  CHECK_THAT(refusal({"attention", "--name", "a b"}),
             Contains("the name a b") && Contains("exported code can't have it"));
  CHECK_THAT(refusal({"attention", "--name", "double"}), Contains("exported code can't have it"));
  CHECK_THAT(refusal({"attention", "--name", "clock_t"}), Contains("has a meaning in C"));
  CHECK_THAT(refusal({"attention", "--name", "astatide_x"}), Contains("names of the stub"));
}

TEST_CASE("an index that only a condition keeps inside is not exported") {
  const TemporaryFolder folder;
  write_bytes(folder / "shifted.yaml", R"(algorithm: shifted
extents: [B, H, S, D]
inputs: {Q: [B, H, S, D], K: [B, H, S, D], V: [B, H, S, D], bias: [S]}
define:
  - S0[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) + select(i >= j, bias[i - j], 0)
  - P[b,h,i,j] = softmax(j, S0[b,h,i,j])
  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])
outputs: [O]
sizes: {B: 1, H: 2, S: 64, D: 64}
)");
  CHECK_THAT(refusal({(folder / "shifted.yaml").string(), "--schedule", "simt/flash2"}),
             Contains("shifted.yaml:5:") && Contains("at index i-j") && Contains("a condition keeps it inside"));
}

TEST_CASE("without NVRTC an export says what was searched") {
  const TemporaryFolder folder;
  const ProgramResult run = run_astatide(
      {"export", "attention", "--output", (folder / "exported").string()},
      {{"ASTATIDE_NVRTC", (folder / "nowhere").string()}, {"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  CHECK(run.code == 3);
  CHECK_THAT(run.err, Contains("no NVRTC") && Contains("nowhere"));
}
