// The command `merge`: parts that `run` has written, merged and checked.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/tensor_file.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

ProgramResult run_in(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.end(), {"--device", "cpu"});
  return run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
}

/// Outputs of attention over so many keys, in a file.
std::string make_part(const TemporaryFolder& folder, const std::string& keys, const std::string& file) {
  const std::string path = (folder / file).string();
  const ProgramResult result = run_in(folder, {"run", "attention", "--shape", "B=1,Hq=2,Hkv=2,Sq=5,D=8,Dv=8,Sk=" + keys,
                                               "--seed", keys, "--repeat", "1", "--output", path});
  INFO(result.err);
  REQUIRE(result.code == 0);
  return path;
}

}  // namespace

TEST_CASE("merge joins the files of runs, in any mixture of forms, and checks itself") {
  const TemporaryFolder folder;
  const std::string a = make_part(folder, "30", "a.safetensors"), b = make_part(folder, "7", "b.safetensors"),
                    none = make_part(folder, "0", "none.safetensors"),
                    results = (folder / "results.safetensors").string(), o = (folder / "o.npy").string(),
                    l = (folder / "l.npy").string();
  const ProgramResult result =
      run_in(folder, {"merge", "attention", "--part", a, "--part", b, "--part", none, "--output", results, "--output",
                      "O=" + o, "--output", "L=" + l, "--check", "--json"});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
  const json out = json::parse(result.out);
  CHECK(out.at("ok") == true);
  CHECK(out.at("schedule") == "merge");
  CHECK(out.at("shape").at("parts") == 3);
  CHECK(out.at("outputs").at("O").at("ok") == true);
  CHECK(out.at("outputs").at("L").at("ok") == true);

  // What is merged is a part again; alone, in another type, it stays what it is.
  const ProgramResult again =
      run_in(folder, {"merge", "attention", "--part", "O=" + o + ",L=" + l, "--dtype", "bf16", "--check"});
  INFO(again.out << again.err);
  CHECK(again.code == 0);
  CHECK_THAT(again.out, Contains("attention with merge on cpu, bf16"));
}

TEST_CASE("merge says what is wrong with its parts") {
  const TemporaryFolder folder;
  const std::string a = make_part(folder, "30", "a.safetensors"), o = (folder / "o.npy").string();
  REQUIRE(run_in(folder, {"merge", "attention", "--part", a, "--output", "O=" + o}).code == 0);
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "merge");
    const ProgramResult result = run_in(folder, words);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(refusal({"attention"}), Contains("--part: error: there is no part to merge"));
  CHECK_THAT(refusal({"attention", "--part", "O=" + o}),
             Contains("part 0 (O=") && Contains("has no L") && Contains("takes O, L of every part"));
  CHECK_THAT(refusal({"attention", "--part", a, "--part", "O=" + o + ",L=" + o}),
             Contains("L of part 1 is [1, 2, 5, 8], that of part 0 is [1, 2, 5]"));
  CHECK_THAT(refusal({"sink", "--part", a}), Contains("sink is read where parts are merged, and is not given"));
  CHECK_THAT(refusal({"sink", "--part", a, "--input", "Q=" + o}), Contains("no tensor Q"));
  CHECK_THAT(refusal({"linear_attention", "--part", a}), Contains("parts can't be merged from O"));
  const ProgramResult schedule =
      run_astatide({"emit", "attention", "--merge", "--schedule", "simt/flash2", "--stage", "online"});
  CHECK(schedule.code == 2);
  CHECK_THAT(schedule.err, Contains("the kernel that merges parts has no schedule"));
}

TEST_CASE("emit --merge prints the merging kernel at each stage") {
  const auto text = [](const std::string& stage) {
    const ProgramResult result = run_astatide({"emit", "attention", "--merge", "--stage", stage});
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  CHECK_THAT(text("algorithm"), Contains("m[b,h,i] = max_part L_parts[part,b,h,i]\n"));
  CHECK_THAT(text("online"), Contains("state of a part, from its outputs\n  m = L\n  l = 1\n  O_acc[e] = O\n"));
  CHECK_THAT(text("tile"), Contains("for part in 0 .. parts serial"));
  CHECK_THAT(text("passes"), Contains("# after plan_memory"));
  CHECK_THAT(text("cuda"), Contains("attention_merge"));
  CHECK_THAT(text("llvm"), Contains("define"));
}
