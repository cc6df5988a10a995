// What becomes of candidates: those that crash, hang, answer wrongly, or are merely slow.
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "api/measurer_process.h"
#include "api/paired.h"
#include "api/tune.h"
#include "tests/support/fake_measurer.h"
#include "tests/support/messages.h"
#include "tests/support/run_program.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

const std::map<std::string, std::int64_t> kTunedShape{{"B", 1},   {"Hq", 2}, {"Hkv", 2}, {"Sq", 40},
                                                      {"Sk", 50}, {"D", 16}, {"Dv", 16}};

/// Tiles of i of 8 to 48 rows.
ScheduleSpace tiny_space() {
  return SpaceBuilder(load_schedule("cpu/flash2"))
      .vary("O.tile.i", {"8", "16", "32", "40", "48"})
      .vary("O.tile.j", {"32"})
      .build();
}

/// Kernels are compiled once for all tests here.
const TemporaryFolder& shared_cache() {
  static const TemporaryFolder folder;
  return folder;
}

TuneOptions options_with(const std::string& measurer, SearchKind search = SearchKind::exhaustive) {
  TuneOptions options;
  options.device = Device::cpu();
  options.sizes = kTunedShape;
  options.search = search;
  options.rounds = 5;
  options.timeout_seconds = 20;
  options.measurer = {measurer};
  options.engine.cache_directory = (shared_cache() / "cache").string();
  options.engine.threads = 2;
  return options;
}

std::map<std::string, std::string> failures_of(const TuneResult& result) {
  std::map<std::string, std::string> out;
  for (const TunedPoint& point : result.points)
    if (!point.failure.empty()) out[point.what] = point.failure + ": " + point.message;
  return out;
}

std::string tune_refusal(const ScheduleSpace& space, const TuneOptions& options) {
  try {
    tune(load_algorithm("attention"), space, options);
    return "no error";
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("T01: candidates that crash, trap, exit, hang, babble or are wrong cost themselves alone") {
  const TemporaryFolder folder;
  const std::string measurer = write_fake_measurer(folder.path(), "measurer", R"(
    *"i: 8,"*) kill -SEGV $$;;
    *"i: 16,"*) exit 7;;
    *"i: 40,"*) sleep 100;;
    *"i: 48,"*) echo '{"failure": "wrong", "message": "O: error 1 of at most 0.1"}'; continue;;)");
  TuneOptions options = options_with(measurer);
  options.timeout_seconds = 0.5;
  const auto start = std::chrono::steady_clock::now();
  const TuneResult result = tune(load_algorithm("attention"), tiny_space(), options);
  CHECK(result.points[result.winner].what == "O.tile.i=32");
  CHECK_FALSE(result.runner_up.has_value());
  auto failures = failures_of(result);
  CHECK(failures.size() == 4);
  CHECK_THAT(failures["O.tile.i=8"], Contains("crash: the process that measured it ended: signal 11"));
  CHECK(failures["O.tile.i=16"] == "crash: the process that measured it ended: exit code 7");
  CHECK(failures["O.tile.i=40"] == "timeout: no answer after 0.5 seconds; the process was killed");
  CHECK(failures["O.tile.i=48"] == "wrong: O: error 1 of at most 0.1");
  // T03: what hangs costs its limit, not its time.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("T03: a process that hangs is gone, with what it started, before the next job begins") {
  const TemporaryFolder folder;
  const std::string left = (folder / "left").string();
  const std::string measurer =
      write_fake_measurer(folder.path(), "measurer", "*\"slow\"*) sleep 100 & echo $! > " + left + "; wait;;\n");
  MeasurerProcess process({measurer});
  MeasureJob job;
  job.schedule = "slow {i: 8,";
  CHECK(process.ask(job, 0.5, {}).failure == "timeout");
  const int started = std::stoi(read_bytes(left));
  bool gone = false;
  // A process that is killed is reaped by init.
  for (int n = 0; n < 200 && !gone; ++n) {
    const std::string state = read_bytes("/proc/" + std::to_string(started) + "/stat");
    gone = state.empty() || contains(state, ") Z");
    if (!gone) ::usleep(10000);
  }
  CHECK(gone);
  job.schedule = "tile: {i: 30, j: 8}";
  CHECK(process.ask(job, 20, {}).samples_ms == std::vector<double>(5, 1.2));
}

TEST_CASE("a measurer that is asked to stop, or that is none, says so") {
  const TemporaryFolder folder;
  MeasurerProcess slow({write_fake_measurer(folder.path(), "measurer", "*) sleep 100;;")});
  CHECK(slow.ask({}, 100, [] { return true; }).failure == "stopped");
  MeasurerProcess none({(folder / "nothing").string()});
  CHECK_THROWS_AS(none.ask({}, 1, {}), MachineError);
  write_bytes(folder / "babble", "#!/bin/sh\nread line; echo hello\n");
  std::filesystem::permissions(folder / "babble", std::filesystem::perms::owner_all);
  MeasurerProcess babble({(folder / "babble").string()});
  CHECK_THAT(babble.ask({}, 20, {}).message, Contains("what is no answer"));
}

TEST_CASE("T05, T07: the fastest wins whatever spills, ties go to the first, and others' times are told") {
  const TemporaryFolder folder;
  const TuneResult result =
      tune(load_algorithm("attention"), tiny_space(), options_with(write_fake_measurer(folder.path(), "m")));
  REQUIRE(result.points.size() == 5);
  const TunedPoint& winner = result.points[result.winner];
  CHECK(winner.what == "O.tile.i=32");
  CHECK(winner.spill_bytes == 64);
  CHECK(winner.registers == 168);
  CHECK(result.points[*result.runner_up].what == "O.tile.i=40");
  CHECK(result.ratio == Approx(1.0 / 1.8));
  CHECK(result.confidence == Approx(1 - 1.0 / 32));
  const std::string text = tuned_schedule_text(load_algorithm("attention"), options_with(""), result);
  CHECK_THAT(text,
             Contains("# Runner-up: O.tile.i=40") && Contains("1.0000 ms in the middle, 1.0000 to 1.0000; a formula."));
  CHECK(equal(parse_schedule(text, "t.yaml"), result.best));
  // 16 and 48 rows take equally long: the one that was measured first stays.
  TuneOptions tied = options_with(write_fake_measurer(folder.path(), "m"), SearchKind::exhaustive);
  const ScheduleSpace two =
      SpaceBuilder(load_schedule("cpu/flash2")).vary("O.tile.i", {"48", "16"}).vary("O.tile.j", {"32"}).build();
  for (int run = 0; run < 2; ++run) {
    const TuneResult tie = tune(load_algorithm("attention"), two, tied);
    CHECK(tie.points[tie.winner].what == "O.tile.i=48");
    CHECK_FALSE(tie.points[1].better);
  }
}

TEST_CASE("every search finds the best of few points, and stays within points") {
  const TemporaryFolder folder;
  const std::string measurer = write_fake_measurer(folder.path(), "m");
  for (const SearchKind kind : {SearchKind::model, SearchKind::random}) {
    const TuneResult result = tune(load_algorithm("attention"), tiny_space(), options_with(measurer, kind));
    CHECK(result.points[result.winner].what == "O.tile.i=32");
  }
  TuneOptions few = options_with(measurer);
  few.points = 2;
  CHECK(tune(load_algorithm("attention"), tiny_space(), few).points.size() == 2);
}

TEST_CASE("a search that is asked to end keeps what it found") {
  const TemporaryFolder folder;
  TuneOptions options = options_with(write_fake_measurer(folder.path(), "m"));
  std::size_t measured = 0;
  options.progress = [&](const TuneProgress& progress) { measured = progress.measured; };
  options.stop = [&] { return measured >= 2; };
  options.journal = (folder / "journal").string();
  const TuneResult result = tune(load_algorithm("attention"), tiny_space(), options);
  CHECK(result.interrupted);
  CHECK(result.points.size() == 2);
  CHECK(result.points[result.winner].what == "O.tile.i=16");
  // It has not ended: to begin anew would lose it.
  CHECK_THAT(tune_refusal(tiny_space(), options), Contains("the journal is of a search that has not ended"));
}

TEST_CASE("a journal goes on where it ended, but for a line that was cut short, and with no other search") {
  const TemporaryFolder folder;
  TuneOptions options = options_with(write_fake_measurer(folder.path(), "m"));
  options.journal = (folder / "journal").string();
  options.points = 3;
  tune(load_algorithm("attention"), tiny_space(), options);
  const std::string whole = read_bytes(folder / "journal");
  const auto asked = [&] { return read_bytes(folder / "asked").size() / 2; };
  const std::size_t before = asked();
  // Without its end, and with half of a line.
  write_bytes(folder / "journal", whole.substr(0, whole.find("{\"end\"") - 40));
  options.points = 5;
  options.resume = true;
  const TuneResult result = tune(load_algorithm("attention"), tiny_space(), options);
  CHECK(result.points.size() == 5);
  CHECK(result.points[1].resumed);
  CHECK_FALSE(result.points[2].resumed);
  CHECK(result.points[result.winner].what == "O.tile.i=32");
  CHECK_THAT(result.warnings.at(0), Contains("the last line was cut short"));
  CHECK(asked() - before == 3 + 1);  // and winner against runner-up
  options.seed = 4;
  CHECK_THAT(tune_refusal(tiny_space(), options),
             Contains("the journal is of another search: seed is 0 there, 4 here"));
  write_bytes(folder / "journal", "{\"astatide_tune\":1}\nnonsense\n{}\n");
  CHECK_THAT(tune_refusal(tiny_space(), options), Contains(":2:1: error: the line is none of a journal of tune"));
}

TEST_CASE("a space of which nothing is legal, and options that can't work, are refused with what to try") {
  const TemporaryFolder folder;
  TuneOptions options = options_with(write_fake_measurer(folder.path(), "m"));
  const ScheduleSpace gone = SpaceBuilder(load_schedule("cpu/flash2")).vary("S.compute_at", {"k.o", "l.o"}).build();
  CHECK_THAT(tune_refusal(gone, options),
             Contains("no point of the space is legal for attention on cpu") && Contains("1 points:"));
  options.rounds = 2;
  CHECK_THAT(tune_refusal(tiny_space(), options), Contains("2 rounds can't show what is faster"));
  options = options_with((folder / "nothing").string());
  CHECK_THAT(tune_refusal(tiny_space(), options), Contains("can't be started to measure"));
}

TEST_CASE("paired rounds say what is faster, and how sure it is") {
  const PairedTimes faster = compare_paired({1, 1, 1, 1, 1}, {2, 2, 2, 2, 4});
  CHECK(faster.ratio == 0.5);
  CHECK(faster.confidence == Approx(1 - 1.0 / 32));
  CHECK(compare_paired({1, 1, 1}, {1, 1, 1}).confidence == 0);
  // One round that is far off changes neither.
  const PairedTimes noisy = compare_paired({1, 1, 1, 1, 1, 1, 1, 1, 90}, {2, 2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(noisy.ratio == 0.5);
  CHECK(noisy.confidence == Approx(1 - 10.0 / 512));
  CHECK(compare_paired({2, 1, 2, 1}, {1, 2, 1, 2}).confidence < 0.5);
}
