// Builds that are made ahead: several at once, each once, with all that fails reported together.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "runtime/driver.h"
#include "tests/support/case_run.h"
#include "tests/support/messages.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using nlohmann::json;

#if ASTATIDE_WITH_CPU

namespace {

PrepareRequest request_of(std::int64_t head_dim, std::int64_t length = 64) {
  PrepareRequest request;
  request.sizes = {{"B", 1}, {"Hq", 2}, {"Hkv", 2}, {"Sq", length}, {"Sk", length}, {"D", head_dim}, {"Dv", head_dim}};
  return request;
}

}  // namespace

TEST_CASE("what is prepared is built once for each code, and later builds find it in memory") {
  TemporaryFolder folder;
  EngineOptions options;
  options.cache_directory = (folder / "cache").string();
  options.threads = 1;
  Engine engine(options);
  std::vector<PrepareProgress> seen;
  PrepareOptions prepare;
  prepare.threads = 3;
  prepare.progress = [&](const PrepareProgress& progress) { seen.push_back(progress); };
  // Of the lengths the code does not depend.
  const auto prepared =
      engine.prepare(causal_attention(), {request_of(8), request_of(16), request_of(8, 200), request_of(24)}, prepare);
  REQUIRE(prepared.size() == 4);
  CHECK(prepared[0].target == "cpu");
  CHECK(prepared[0].cache == "none");
  CHECK(prepared[2].cache == "memory");
  CHECK(prepared[2].schedule == prepared[0].schedule);
  REQUIRE(seen.size() == 3);
  for (std::size_t n = 0; n < seen.size(); ++n) {
    CHECK(seen[n].done == n + 1);
    CHECK(seen[n].total == 3);
    CHECK(contains(seen[n].what, "for cpu under " + prepared[0].schedule));
  }
  CHECK(engine.counters().compiles == 3);

  const Executable built =
      engine.build(causal_attention(), {Device::cpu(), ScalarType::f32, request_of(16, 3000).sizes, {}});
  CHECK(built.report().cache == "memory");
  CHECK(engine.counters().compiles == 3);
  CHECK(engine.counters().memory_hits == 1);

  Engine other(options);
  CHECK(other.prepare(causal_attention(), {request_of(8)})[0].cache == "disk");
  CHECK(other.counters().compiles == 0);
  CHECK(other.counters().disk_hits == 1);
}

TEST_CASE("all that fails is one error that names the shapes, and the others are built") {
  EngineOptions options;
  options.use_disk_cache = false;
  Engine engine(options);
  PrepareRequest unknown = request_of(8);
  unknown.sizes["Heads"] = 3;
  PrepareRequest wide = request_of(32);
  wide.dtype = ScalarType::i32;
  // Fails in the compiler, not before it.
  PrepareRequest unfit = request_of(40);
  unfit.schedule = NamedSchedule{"sm90/flash3", load_schedule("sm90/flash3")};
  std::string message;
  std::size_t failed = 0;
  PrepareOptions prepare;
  prepare.progress = [&](const PrepareProgress& progress) { failed += progress.cache == "failed" ? 1 : 0; };
  try {
    engine.prepare(causal_attention(), {unknown, request_of(8), wide, unfit}, prepare);
  } catch (const UserError& error) {
    message = error.what();
  }
  INFO(message);
  CHECK(contains(message, "Heads=3"));
  CHECK(contains(message, "the algorithm has no extent Heads"));
  CHECK(contains(message, "i32, B=1,D=32"));
  CHECK(contains(message, "D=40"));
  CHECK(failed == 1);
  CHECK(engine.build(causal_attention(), {Device::cpu(), ScalarType::f32, request_of(8).sizes, {}}).report().cache ==
        "memory");
}

TEST_CASE("what the callback throws ends the preparation and passes") {
  EngineOptions options;
  options.use_disk_cache = false;
  Engine engine(options);
  PrepareOptions prepare;
  prepare.threads = 1;
  prepare.progress = [](const PrepareProgress&) { throw std::runtime_error("enough"); };
  CHECK_THROWS_WITH(engine.prepare(causal_attention(), {request_of(8), request_of(16)}, prepare), "enough");
  CHECK(engine.counters().compiles == 1);
}

TEST_CASE("astatide prepare fills the cache for shapes of options and files, and runs find what it built") {
  TemporaryFolder folder;
  const std::map<std::string, std::string> environment = {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}};
  write_bytes(folder / "shapes.txt", "# of a model\nD=16, Dv=16\n\nD=8,Dv=8,Sk=77 # again\n");
  const std::vector<std::string> words = {"prepare", "causal_gqa", "--device", "cpu",
                                          "--shape", "D=8,Dv=8",   "--shapes", (folder / "shapes.txt").string()};
  const ProgramResult first = run_astatide(words, environment);
  INFO(first.out << first.err);
  REQUIRE(first.code == 0);
  CHECK(contains(first.out, "3 shapes, 2 compiled, 0 from disk, 0 from memory"));
  CHECK(contains(first.err, "[2/2] causal_gqa for cpu under"));

  std::vector<std::string> again = words;
  again.push_back("--json");
  const json out = json::parse(run_astatide(again, environment).out);
  CHECK(out.at("counters").at("compiles") == 0);
  CHECK(out.at("counters").at("disk_hits") == 2);
  REQUIRE(out.at("prepared").size() == 3);
  CHECK(out.at("prepared")[2].at("cache") == "memory");
  CHECK(out.at("prepared")[2].at("shape").at("Sk") == 77);

  const json run = json::parse(
      run_astatide({"run", "causal_gqa", "--device", "cpu", "--shape", "B=1,Hq=2,Hkv=1,Sq=5,Sk=9,D=16,Dv=16", "--json"},
                   environment)
          .out);
  CHECK(run.at("counters").at("compiles") == 0);
  CHECK(run.at("counters").at("disk_hits") == 1);
  CHECK(run.at("counters").at("launches").get<int>() >= 2);
}

TEST_CASE("astatide prepare refuses what it can't read") {
  TemporaryFolder folder;
  write_bytes(folder / "empty.txt", "# nothing\n");
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"prepare", "attention"});
    const ProgramResult result = run_astatide(words);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK(contains(refusal({"--shapes", (folder / "empty.txt").string()}), "holds no shape"));
  CHECK(contains(refusal({"--shapes", (folder / "none.txt").string()}), "can't be read"));
  CHECK(contains(refusal({"--target", "sm_90b"}), "no target 'sm_90b'"));
  CHECK(contains(refusal({"--target", "sm_90a", "--device", "cuda"}), "one of the two"));
  CHECK(contains(refusal({"--threads", "x"}), "--threads"));
}

#endif
