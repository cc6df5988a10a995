// Predictions beside what a GPU measures.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/gpu/require_gpu.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

const std::vector<std::string> kWords{
    "explain", "attention", "--schedule", "sm80/flash2_d64",
    "--dtype", "bf16",      "--shape",    "B=4,Hq=16,Hkv=16,Sq=1024,Sk=1024,D=64,Dv=64",
    "--json"};

std::vector<std::string> words_with(const std::string& word) {
  std::vector<std::string> words = kWords;
  words.push_back(word);
  return words;
}

}  // namespace

TEST_CASE("explain --measure puts the time that a GPU takes beside the one predicted") {
  ASTATIDE_NEED_GPU();
  const ProgramResult result = run_astatide(words_with("--measure"));
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out)["predicted"];
  REQUIRE(json.contains("measured"));
  CHECK(json["measured"]["median_ms"].get<double>() > 0);
  CHECK(!json["measured"]["device"].get<std::string>().empty());
  // The order of magnitude, whatever the GPU is.
  CHECK(std::abs(json["measured"]["error"].get<double>()) < 3);
}

TEST_CASE("explain --counters says what is missing where there is no ncu") {
  ASTATIDE_NEED_GPU();
  const ProgramResult result = run_astatide(words_with("--counters"), {{"PATH", "/nowhere"}});
  INFO(result.out << result.err);
  CHECK(result.code == 3);
  CHECK(result.out.find("no ncu") != std::string::npos);
}

TEST_CASE("explain --counters reads what ncu counts of each kernel") {
  ASTATIDE_NEED_GPU();
  const TemporaryFolder folder;
  // What stands for ncu: it takes the same options, and writes where it is told to.
  write_bytes(folder / "ncu",
              "#!/bin/sh\nwhile [ \"$1\" != --log-file ]; do shift; done\ncat > \"$2\" <<'END'\n"
              "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\"\n\"\",\"\",\"ns\",\"byte\"\n"
              "\"0\",\"attention\",\"5,000\",\"1,024\"\nEND\n");
  std::filesystem::permissions(folder / "ncu", std::filesystem::perms::owner_all);
  const ProgramResult result =
      run_astatide(words_with("--counters"), {{"PATH", folder.path().string() + ":/usr/bin:/bin"}});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json counters = nlohmann::json::parse(result.out)["predicted"]["counters"];
  REQUIRE(counters.size() == 1);
  CHECK(counters[0]["name"] == "attention");
  CHECK(counters[0]["ms"].get<double>() == Approx(5e-3));
  CHECK(counters[0]["memory_read"] == 1024);
}
