// The process that measures: what it checks before a time counts.
#include <catch2/catch.hpp>

#include "api/measure.h"
#include "tests/support/messages.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

MeasureJob small_job(const TemporaryFolder& folder) {
  MeasureJob job;
  job.algorithm = print_algorithm(load_algorithm("attention"));
  job.schedule = print_schedule(load_schedule("cpu/flash2"));
  job.extents = {{"B", 1}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 40}, {"Sk", 300}, {"D", 16}, {"Dv", 16}};
  job.check_extents = {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 20}, {"Sk", 259}, {"D", 16}, {"Dv", 16}};
  job.cache_directory = (folder / "cache").string();
  job.rounds = 5;
  job.threads = 2;
  return job;
}

/// Launches with `change`d arguments where the problem has so many keys.
LaunchCandidate wrongly(std::int64_t keys, const std::function<void(LaunchArguments&)>& change) {
  return [=](const Executable& executable, const LaunchArguments& arguments) {
    LaunchArguments own = arguments;
    if (arguments.extents.at("Sk") == keys) change(own);
    executable.launch(own);
  };
}

}  // namespace

TEST_CASE("a candidate is timed in turn with the best so far, after it was found right") {
  const TemporaryFolder folder;
  MeasureJob job = small_job(folder);
  job.against = print_schedule(load_schedule("cpu/flash2"));
  Measurer measurer;
  const auto answer =
      std::get<MeasureAnswer>(parse_measure_line(to_line(measurer.measure(parse_measure_job(to_line(job))))));
  INFO(answer.message);
  REQUIRE(answer.failure.empty());
  CHECK(answer.samples_ms.size() == 5);
  CHECK(answer.against_ms.size() == 5);
  for (const double ms : answer.samples_ms) CHECK(ms > 0);
  CHECK_FALSE(answer.method.empty());
  job.schedule = "target: cpu\nO: {tile: {i: 8}, parallel: [nowhere]}\n";
  CHECK(measurer.measure(job).failure == "refused");
}

TEST_CASE("T04: a candidate that leaves out the last tile of keys, or half of the rows, is wrong however fast it is") {
  const TemporaryFolder folder;
  MeasureJob job = small_job(folder);
  Measurer right;
  REQUIRE(right.measure(job).failure.empty());
  Measurer no_last_tile(wrongly(259, [](LaunchArguments& own) {
    own.extents["Sk"] = 256;
    for (const char* name : {"K", "V"}) own.tensors[name].shape[2] = 256;
  }));
  CHECK_THAT(no_last_tile.measure(job).message, Contains("error") && Contains("of at most"));
  const auto half = [](LaunchArguments& own) {
    for (const char* name : {"Q", "O", "L"}) own.tensors[name].shape[2] /= 2;
    own.extents["Sq"] /= 2;
  };
  Measurer half_of_small(wrongly(259, half));
  CHECK_THAT(half_of_small.measure(job).message, Contains("not written"));
  // Right on the small problem, and not on the whole: what the candidate before it wrote is no answer of it.
  MeasureAnswer first, second;
  int launches = 0;
  Measurer half_of_whole([&](const Executable& executable, const LaunchArguments& arguments) {
    LaunchArguments own = arguments;
    if (arguments.extents.at("Sk") == 300 && launches > 0) half(own);
    executable.launch(own);
  });
  first = half_of_whole.measure(job);
  launches = 1;
  second = half_of_whole.measure(job);
  CHECK(first.failure.empty());
  CHECK(second.failure == "wrong");
  CHECK_THAT(second.message, Contains("is NaN or was not written"));
}

TEST_CASE("the small problem keeps tiles with a rest, pairs of heads and batches, and what tiles cover whole") {
  const Algorithm algorithm = load_algorithm("causal_gqa");
  const std::map<std::string, std::int64_t> extents{{"B", 7},      {"Hq", 32}, {"Hkv", 8}, {"Sq", 9000},
                                                    {"Sk", 16384}, {"D", 128}, {"Dv", 64}};
  CHECK(small_extents(algorithm, load_schedule("cpu/flash2"), extents, {{"i", 8}, {"j", 16}}) ==
        std::map<std::string, std::int64_t>{
            {"B", 2}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 19}, {"Sk", 35}, {"D", 128}, {"Dv", 64}});
  // Never more than there is.
  CHECK(
      small_extents(algorithm, load_schedule("cpu/flash2"),
                    {{"B", 1}, {"Hq", 4}, {"Hkv", 1}, {"Sq", 1}, {"Sk", 9}, {"D", 8}, {"Dv", 8}},
                    {{"i", 8}, {"j", 16}}) ==
      std::map<std::string, std::int64_t>{{"B", 1}, {"Hq", 4}, {"Hkv", 1}, {"Sq", 1}, {"Sk", 9}, {"D", 8}, {"Dv", 8}});
}

TEST_CASE("lines between the processes that are none are refused") {
  CHECK_THROWS_AS(parse_measure_job("{}"), UserError);
  CHECK_THROWS_AS(parse_measure_line("hello"), UserError);
  CHECK_THROWS_AS(parse_measure_line("{\"samples_ms\": \"many\"}"), UserError);
  CHECK_THROWS_AS(parse_measure_line("{\"turn\": \"mine\"}"), UserError);
}

TEST_CASE("schedules are measured together, each against the evaluator and against the first") {
  const TemporaryFolder folder;
  MeasureJob job = small_job(folder);
  const std::string flash2 = print_schedule(load_schedule("cpu/flash2")),
                    standard = print_schedule(load_schedule("cpu/standard"));
  Measurer right;
  job.together = {"target: cpu\nO: {tile: {i: 8}, parallel: [nowhere]}\n", flash2, standard};
  std::vector<std::size_t> turns;
  const std::vector<MeasureAnswer> answers =
      right.measure_together(parse_measure_job(to_line(job)), [&](MeasureTurn turn) { turns.push_back(turn.schedule); })
          .answers;
  REQUIRE(answers.size() == 3);
  // One that is refused is only built; the others are built, checked twice, run once, and then in each round.
  for (std::size_t n = 0; n < 3; ++n) CHECK(std::count(turns.begin(), turns.end(), n) == (n == 0 ? 1 : 3 + 1 + 5));
  CHECK(answers[0].failure == "refused");
  for (const std::size_t n : {1U, 2U}) {
    INFO(answers[n].message);
    CHECK(answers[n].failure.empty());
    CHECK(answers[n].samples_ms.size() == 5);
  }
  // The evaluator does not see what is wrong at the whole lengths alone; the first schedule does.
  Measurer wrong([&](const Executable& executable, const LaunchArguments& arguments) {
    LaunchArguments own = arguments;
    if (executable.program().kernels.size() > 1 && own.extents.at("Sk") == 300) {
      own.extents["Sk"] = 299;
      for (const char* name : {"K", "V"}) own.tensors[name].shape[2] = 299;
    }
    executable.launch(own);
  });
  job.together = {flash2, standard};
  const std::vector<MeasureAnswer> other = wrong.measure_together(job).answers;
  CHECK(other[0].failure.empty());
  CHECK(other[0].samples_ms.size() == 5);
  CHECK(other[1].failure == "wrong");
  CHECK_THAT(other[1].message, Contains("from the first schedule's"));
}

TEST_CASE("a schedule that faults, even in the last round, costs itself: the others are measured together without it") {
  const TemporaryFolder folder;
  MeasureJob job = small_job(folder);
  const std::string standard = print_schedule(load_schedule("cpu/standard"));
  job.together = {standard, job.schedule, job.schedule};
  int rounds = 0;
  Measurer measurer([&](const Executable& executable, const LaunchArguments& arguments) {
    if (executable.program().kernels.size() > 1 && ++rounds > 10) throw InternalError("the device has faulted");
    executable.launch(arguments);
  });
  std::vector<std::size_t> asked;
  const std::vector<MeasureAnswer> answers = measure_without_broken(job, [&](const MeasureJob& own) {
    asked.push_back(own.together.size());
    return measurer.measure_together(own);
  });
  CHECK(asked == std::vector<std::size_t>{3, 2});
  CHECK(answers[0].failure == "crash");
  CHECK_THAT(answers[0].message, Contains("the device has faulted"));
  for (const std::size_t n : {1U, 2U}) CHECK(answers[n].samples_ms.size() == 5);
}
