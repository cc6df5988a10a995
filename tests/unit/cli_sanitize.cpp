// `astatide sanitize` and `run --device sim`.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/run_program.h"

namespace astatide::testing {
namespace {

const std::vector<std::string> kSmall{"--dtype", "f16", "--shape", "B=1,Hq=1,Hkv=1,Sq=20,Sk=50,D=16,Dv=16"};

ProgramResult sanitize(std::vector<std::string> words) {
  words.insert(words.begin(), {"sanitize", "causal_gqa"});
  words.insert(words.end(), kSmall.begin(), kSmall.end());
  return run_astatide(words);
}

}  // namespace

TEST_CASE("sanitize says how many orders were tried, and that nothing was found") {
  const ProgramResult text = sanitize({"--schedule", "sm80/flash2", "--seeds", "3"});
  INFO(text.out << text.err);
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::Contains("causal_gqa with sm80/flash2, simulated sm_80, f16"));
  CHECK_THAT(text.out, Catch::Contains("3 orders, "));
  CHECK_THAT(text.out, Catch::Contains("no race, no deadlock, no wild access"));

  const ProgramResult json = sanitize({"--schedule", "sm90/flash3", "--seeds", "2", "--json"});
  INFO(json.out << json.err);
  CHECK(json.code == 0);
  const nlohmann::json result = nlohmann::json::parse(json.out);
  CHECK(result["ok"] == true);
  CHECK(result["orders"] == 2);
  CHECK(result["waits"].get<int>() > 50);
  CHECK(result["target"] == "sm_90a");
  CHECK(result["outputs"]["O"]["ok"] == true);
  CHECK(!result.contains("fault"));
}

TEST_CASE("run simulates a GPU where it is asked to") {
  std::vector<std::string> words{"run", "attention", "--schedule", "sm80/flash2", "--device", "sim", "--check"};
  words.insert(words.end(), kSmall.begin(), kSmall.end());
  const ProgramResult result = run_astatide(words);
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Catch::Contains("attention with sm80/flash2 on sim, f16"));
}

TEST_CASE("sanitize refuses what can't be simulated") {
  const auto refusal = [](const std::vector<std::string>& words) {
    const ProgramResult result = sanitize(words);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(refusal({"--schedule", "cpu/flash2"}), Catch::Contains("no GPU to simulate is named cpu"));
  CHECK_THAT(refusal({"--schedule", "sm80/flash2", "--seeds", "0"}), Catch::Contains("--seeds"));
  CHECK_THAT(refusal({"--schedule", "sm80/flash2", "--resident", "65"}), Catch::Contains("--resident"));
  CHECK_THAT(refusal({"--schedule", "sm80/flash2", "--preemptions", "9"}), Catch::Contains("--preemptions"));
  CHECK_THAT(refusal({"--schedule", "sm90/flash3", "--target", "sm_80"}), Catch::Contains("sm_90a"));
}

}  // namespace astatide::testing
