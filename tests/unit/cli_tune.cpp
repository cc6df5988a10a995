// The command `tune`: end to end on the CPU, and with a measurer that says what tests want.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "tests/support/fake_measurer.h"
#include "tests/support/messages.h"
#include "tests/support/run_program.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

constexpr const char* kTunedSpace = R"(target: cpu
O: {tile: {i: [16, 32, 48], j: 32}, reorder: [b, h, i.o, j.o], parallel: [i.o, h, b]}
S: {compute_at: j.o, store_in: shared}
P: {compute_at: j.o, store_in: shared}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
)";
constexpr const char* kTunedWords = "B=1,Hq=2,Hkv=2,Sq=40,Sk=50,D=16,Dv=16";

ProgramResult run_tune(const TemporaryFolder& folder, std::vector<std::string> words) {
  write_bytes(folder / "space.yaml", kTunedSpace);
  words.insert(words.begin(), {"tune", "attention", "--space", (folder / "space.yaml").string(), "--shape", kTunedWords,
                               "--device", "cpu", "--search", "exhaustive", "--rounds", "5", "--threads", "2", "--json",
                               "--output", (folder / "best.yaml").string()});
  return run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
}

}  // namespace

TEST_CASE("tune measures on the CPU, writes the winner as a schedule, and run takes it") {
  const TemporaryFolder folder;
  const ProgramResult result = run_tune(folder, {});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json.at("points").size() == 3);
  for (const auto& point : json.at("points")) CHECK(point.at("ok") == true);
  CHECK(json.at("warnings").empty());
  const Schedule best = parse_schedule(read_bytes(folder / "best.yaml"), "best.yaml");
  CHECK("O.tile.i=" + std::to_string(*best.find("O")->tile_of("i")) == json.at("winner").at("point"));
  // T05: with what is stored, nothing is timed anew, and each process computes with the same kernel.
  std::string bits;
  for (int run = 0; run < 2; ++run) {
    const std::string file = (folder / "o.npy").string();
    const ProgramResult again = run_astatide({"run", "attention", "--shape", kTunedWords, "--device", "cpu",
                                              "--threads", "2", "--json", "--output", "O=" + file},
                                             {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
    INFO(again.out << again.err);
    REQUIRE(again.code == 0);
    CHECK(nlohmann::json::parse(again.out).at("schedule") == "tuned");
    CHECK(nlohmann::json::parse(again.out).at("compiles") == 0);
    CHECK((bits.empty() || bits == read_bytes(file)));
    bits = read_bytes(file);
  }
}

TEST_CASE("a search that was killed goes on where it was, and measures nothing twice") {
  const TemporaryFolder folder;
  // The second candidate kills the program that asks.
  const std::string killer =
      write_fake_measurer(folder.path(), "killer", "*\"i: 32,\"*) kill -KILL $PPID; sleep 100;;");
  CHECK(run_tune(folder, {"--measurer", killer, "--no-store"}).code == 128 + 9);
  const std::string measurer = write_fake_measurer(folder.path(), "measurer");
  const ProgramResult anew = run_tune(folder, {"--measurer", measurer, "--no-store"});
  CHECK(anew.code == 2);
  CHECK_THAT(anew.out, Contains("--resume goes on with it"));
  const ProgramResult result = run_tune(folder, {"--measurer", measurer, "--no-store", "--resume"});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  REQUIRE(json.at("points").size() == 3);
  CHECK(json.at("points")[0].at("resumed") == true);
  CHECK(json.at("points")[1].at("resumed") == false);
  CHECK(json.at("winner").at("point") == "O.tile.i=32");
  // Two of the killed run, two of the next, and the winner against the runner-up.
  CHECK(read_bytes(folder / "asked").size() / 2 == 5);
  CHECK_FALSE(std::filesystem::exists(folder / "cache" / "tuning.json"));
}

TEST_CASE("words of tune that mean nothing are refused") {
  const TemporaryFolder folder;
  CHECK_THAT(run_tune(folder, {"--points", "many"}).out, Contains("--points"));
  CHECK_THAT(run_astatide({"tune", "attention", "--space", "cpu_flash3"}).err, Contains("did you mean cpu_flash2?"));
  CHECK_THAT(run_astatide({"tune", "attention", "--space", "cpu_flash2", "--search", "modal", "--device", "cpu"}).err,
             Contains("did you mean model?"));
  CHECK_THAT(run_astatide({"tune", "paged", "--space", "cpu_flash2", "--device", "cpu"}).err,
             Contains("random indices mean nothing"));
}
