// The store of tuned schedules, and the engine that looks at it.
#include "runtime/tuning_store.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/tuned.h"
#include "tests/support/processes.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

using TunedSizes = std::map<std::string, std::int64_t>;

TunedSizes tuned_sizes(std::int64_t keys, std::int64_t width = 64) {
  return {{"B", 1}, {"Hq", 8}, {"Hkv", 8}, {"Sq", 1024}, {"Sk", keys}, {"D", width}, {"Dv", width}};
}

runtime::TunedEntry entry_for(const std::string& algorithm, const TunedSizes& sizes,
                              const std::string& schedule = "cpu/flash2", ScalarType dtype = ScalarType::f32) {
  runtime::TunedEntry entry =
      tuned_key(load_algorithm(algorithm), load_schedule(schedule), Device::cpu(), 2, dtype, sizes);
  entry.schedule = print_schedule(load_schedule(schedule));
  return entry;
}

}  // namespace

TEST_CASE("entries come back as they were kept, one for each key") {
  const TemporaryFolder folder;
  const runtime::TuningStore store(folder / "tuning.json");
  std::vector<std::string> warnings;
  CHECK(store.load(warnings).empty());
  runtime::TunedEntry entry = entry_for("attention", tuned_sizes(1024));
  entry.median_ms = 1.5;
  CHECK(store.keep(entry, warnings));
  entry.median_ms = 1.25;
  CHECK(store.keep(entry, warnings));
  CHECK(store.keep(entry_for("attention", tuned_sizes(4096)), warnings));
  const auto entries = store.load(warnings);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].median_ms == 1.25);
  CHECK(entries[0].same_key(entry));
  CHECK(entries[0].schedule == entry.schedule);
  CHECK(warnings.empty());
}

TEST_CASE("T02: what was tuned for another length, width, type, mask or group is not taken") {
  const runtime::TunedEntry entry = entry_for("attention", tuned_sizes(1024));
  CHECK(entry.same_key(entry_for("attention", tuned_sizes(1000))));
  CHECK_FALSE(entry.same_key(entry_for("attention", tuned_sizes(16384))));
  CHECK_FALSE(entry.same_key(entry_for("attention", tuned_sizes(1024, 128))));
  CHECK_FALSE(entry.same_key(entry_for("attention", tuned_sizes(1024), "cpu/flash2", ScalarType::f16)));
  CHECK_FALSE(entry.same_key(entry_for("causal_gqa", tuned_sizes(1024))));
  TunedSizes grouped = tuned_sizes(1024);
  grouped["Hkv"] = 1;
  CHECK_FALSE(entry.same_key(entry_for("attention", grouped)));
  runtime::TunedEntry elsewhere = entry;
  elsewhere.device = "another";
  CHECK_FALSE(entry.same_key(elsewhere));
  CHECK(runtime::length_bucket(1) == 0);
  CHECK(runtime::length_bucket(1024) == 10);
  CHECK(runtime::length_bucket(1025) == 11);
}

TEST_CASE("a file that is damaged or of another version is not used, and put aside before the next is written") {
  const TemporaryFolder folder;
  const runtime::TuningStore store(folder / "tuning.json");
  for (const char* text : {"{\"astatide_tuning\": 1, \"entr", "{\"astatide_tuning\": 99, \"entries\": []}", "[]"}) {
    write_bytes(folder / "tuning.json", text);
    std::vector<std::string> warnings;
    CHECK(store.load(warnings).empty());
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], Contains("are not used"));
    CHECK(store.keep(entry_for("attention", tuned_sizes(1024)), warnings));
    CHECK_THAT(warnings.at(1), Contains("was put aside as tuning.json.unreadable"));
    CHECK(store.load(warnings).size() == 1);
  }
  // The three that were put aside, and the last; no lock and nothing half-written.
  CHECK(count_items(folder.path()) == 4);
}

TEST_CASE("processes that keep at once lose nothing of each other") {
  const TemporaryFolder folder;
  std::vector<runtime::TunedEntry> entries;
  for (int n = 0; n < 6; ++n) entries.push_back(entry_for("attention", tuned_sizes(std::int64_t{1} << n)));
  CHECK(
      run_together(6, [&](int number) {
        std::vector<std::string> warnings;
        return runtime::TuningStore(folder / "tuning.json").keep(entries[static_cast<std::size_t>(number)], warnings) &&
               warnings.empty();
      }) == 6);
  std::vector<std::string> warnings;
  CHECK(runtime::TuningStore(folder / "tuning.json").load(warnings).size() == 6);
}

TEST_CASE("an engine takes what was tuned where no schedule is named, and says why where it can't") {
  const TemporaryFolder folder;
  EngineOptions options;
  options.cache_directory = (folder / "cache").string();
  options.threads = 2;
  Engine engine(options);
  const Algorithm algorithm = load_algorithm("attention");
  const BuildOptions build{Device::cpu(), ScalarType::f32, tuned_sizes(1024), {}};
  CHECK(engine.choose(algorithm, build).name == "cpu/flash2");
  std::vector<std::string> warnings;
  const runtime::TuningStore store(folder / "cache" / "tuning.json");
  REQUIRE(store.keep(entry_for("attention", tuned_sizes(1024), "cpu/flash1"), warnings));
  CHECK(engine.choose(algorithm, build).name == "tuned");
  CHECK(equal(engine.choose(algorithm, build).schedule, load_schedule("cpu/flash1")));
  // Lengths of another range, and another width, are not what was tuned.
  CHECK(engine.choose(algorithm, {Device::cpu(), ScalarType::f32, tuned_sizes(4096), {}}).name == "cpu/flash2");
  CHECK(engine.choose(algorithm, {Device::cpu(), ScalarType::f32, tuned_sizes(1024, 32), {}}).name == "cpu/flash2");
  CHECK(engine.take_warnings().empty());

  runtime::TunedEntry illegal = entry_for("attention", tuned_sizes(1024));
  illegal.schedule = "target: cpu\nO: {tile: {i: 8, j: 8}, parallel: [nowhere]}\n";
  REQUIRE(store.keep(illegal, warnings));
  CHECK(engine.choose(algorithm, build).name == "cpu/flash2");
  const std::vector<std::string> said = engine.take_warnings();
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Contains("the tuned schedule is not used"));
}

TEST_CASE("what another version has tuned is not used, and said once") {
  const TemporaryFolder folder;
  EngineOptions options;
  options.cache_directory = (folder / "cache").string();
  options.threads = 2;
  Engine engine(options);
  std::vector<std::string> warnings;
  runtime::TunedEntry old = entry_for("attention", tuned_sizes(1024), "cpu/flash1");
  old.version = "0.0.1";
  REQUIRE(runtime::TuningStore(folder / "cache" / "tuning.json").keep(old, warnings));
  const BuildOptions build{Device::cpu(), ScalarType::f32, tuned_sizes(1024), {}};
  for (int n = 0; n < 2; ++n) CHECK(engine.choose(load_algorithm("attention"), build).name == "cpu/flash2");
  const std::vector<std::string> said = engine.take_warnings();
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Contains("the tuned schedule is not used: version 0.0.1 has tuned it"));
}

TEST_CASE("entries say what they are for, and why they are not for what is asked") {
  const Algorithm algorithm = load_algorithm("attention");
  const auto why = [&](const runtime::TunedEntry& entry, const std::string& device = "") {
    TunedRequest request{std::nullopt, {target_of(Device::cpu()), ScalarType::f32, tuned_sizes(1024)}};
    if (!device.empty()) request.device = device;
    const auto asked = ask_tuned(algorithm, {entry}, request);
    return asked.empty() ? "not asked" : (asked[0].stale ? "stale: " : "") + asked[0].why_not;
  };
  const runtime::TunedEntry entry = entry_for("attention", tuned_sizes(1000));
  CHECK(why(entry).empty());
  CHECK(why(entry, entry.device).empty());
  CHECK(why(entry, "another") == "it was tuned on " + entry.device);
  CHECK_THAT(lengths_of(entry), Contains("D 64, Dv 64") && Contains("Sk 513 to 1024"));
  CHECK(why(entry_for("attention", tuned_sizes(4096))) == "Sk is 1024, it was tuned for 2049 to 4096");
  CHECK(why(entry_for("attention", tuned_sizes(1024, 32))) == "D is 64, it was tuned for 32");
  CHECK(why(entry_for("attention", tuned_sizes(1024), "cpu/flash2", ScalarType::bf16)) == "it was tuned for bf16");
  CHECK(why(entry_for("causal_gqa", tuned_sizes(1024))) == "not asked");
  runtime::TunedEntry other = entry;
  other.target = "sm_90a";
  CHECK(why(other) == "it was tuned for sm_90a");
  other = entry;
  other.algorithm_key = "0";
  CHECK(why(other) == "it was tuned for another text of the algorithm");
  other = entry;
  other.version = "";
  CHECK_THAT(why(other), Catch::StartsWith("stale: version ? has tuned it"));
  other.schedule = "target: cpu\nO: {tilek: {i: 8}}\n";
  CHECK_THAT(why(other), Catch::StartsWith("stale: "));
}

TEST_CASE("dispatch says what was tuned, when, and what would be taken without it") {
  const TemporaryFolder folder;
  const std::string store = (folder / "tuning.json").string();
  const auto dispatch = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"dispatch", "attention", "--shape", "B=1,Hq=8,Hkv=8,Sq=1024,Sk=1024,D=64,Dv=64"});
    return run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  };
  CHECK_THAT(dispatch({"--target", "cpu"}).out,
             Catch::StartsWith("attention on cpu, f32: cpu/flash2\n  it states that it serves {"));
  std::vector<std::string> warnings;
  runtime::TunedEntry entry = entry_for("attention", tuned_sizes(1024), "cpu/flash1");
  entry.date = "2026-11-30";
  entry.median_ms = 1.5;
  entry.runner_up = "O.tile.i=32";
  REQUIRE(runtime::TuningStore(store).keep(entry, warnings));
  REQUIRE(runtime::TuningStore(store).keep(entry_for("attention", tuned_sizes(4096)), warnings));
  const ProgramResult text = dispatch({"--target", "cpu", "--store", store});
  INFO(text.out << text.err);
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::StartsWith("attention on cpu, f32: tuned\n  it was tuned on 2026-11-30 on ") &&
                           Contains(": 1.5 ms; runner-up O.tile.i=32\n  without the store cpu/flash2\n") &&
                           Contains("Sk is 1024, it was tuned for 2049 to 4096") &&
                           Contains("picked without the store"));
  const auto json =
      nlohmann::json::parse(dispatch({"--device", "cpu", "--threads", "2", "--store", store, "--json"}).out);
  CHECK(json.at("schedule") == "tuned");
  CHECK(json.at("without_store") == "cpu/flash2");
  CHECK(json.at("tuned").size() == 2);
  CHECK_THAT(dispatch({"--device", "cpu", "--threads", "3", "--store", store}).out,
             Catch::StartsWith("attention on cpu, f32: cpu/flash2") && Contains("it was tuned on "));
  entry.version = "0.0.1";
  REQUIRE(runtime::TuningStore(store).keep(entry, warnings));
  CHECK_THAT(dispatch({"--target", "cpu", "--store", store}).out,
             Catch::StartsWith("attention on cpu, f32: cpu/flash2") && Contains("skipped: version 0.0.1 has tuned it"));
  CHECK_THAT(dispatch({"--target", "cpu", "--no-store", "--store", store}).err, Contains("--store names one"));
  CHECK_THAT(dispatch({"--target", "cpu", "--device", "cpu"}).err, Contains("a device says its target itself"));
}
