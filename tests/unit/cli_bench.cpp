// The commands `bench` and `frontier`: what they measure, predict, write and refuse.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/frontier.h"
#include "api/measurer_process.h"
#include "tests/support/fake_measurer.h"
#include "tests/support/messages.h"
#include "tests/support/run_program.h"
#include "tests/support/svg.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

constexpr const char* kBenched = "B=1,Hq=2,Hkv=2,Sq=40,Sk=50,D=16,Dv=16";

ProgramResult run_bench(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", "attention", "--device", "cpu", "--threads", "2", "--repeat", "5"});
  return run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
}

std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("bench measures schedules in turns, and shows a refused one and peers beside them") {
  const TemporaryFolder folder;
  write_bytes(folder / "peers.csv",
              "# of others\nname,Sq,dtype,ms\nOne & all,40,f32,2\nElsewhere,41,,1\nHalf,,f16,1\n");
  // fused_row holds rows of at most 1024 keys.
  const ProgramResult result = run_bench(
      folder, {"--schedules", "cpu/flash2,simt/fused_row", "--shape", kBenched, "--shape",
               "B=1,Hq=1,Hkv=1,Sq=1,Sk=1100,D=16,Dv=16", "--json", "--peers", (folder / "peers.csv").string(), "--csv",
               (folder / "table.csv").string(), "--svg", (folder / "bars.svg").string(), "--value", "ms"});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("Elsewhere") && Contains("Half"));
  const auto json = nlohmann::json::parse(result.out);
  REQUIRE(json.at("shapes").size() == 2);
  const auto& small = json.at("shapes")[0];
  // Two products of 2 heads, 40 rows, 50 keys and 16 columns; Q and O have 2*40*16 elements, K and V 2*50*16, L 2*40.
  CHECK(small.at("flops") == 2 * 2 * 2 * 40 * 50 * 16);
  const double tensors = small.at("bytes");
  CHECK(tensors >= 4 * (2 * 2 * 40 * 16 + 2 * 2 * 50 * 16));
  CHECK(tensors <= 4 * (2 * 2 * 40 * 16 + 2 * 2 * 50 * 16 + 2 * 40));
  CHECK(small.at("check_shape") == small.at("shape"));
  REQUIRE(small.at("rows").size() == 2);
  for (const auto& row : small.at("rows")) {
    CHECK(row.at("ok") == true);
    CHECK(row.at("time_ms").at("samples").size() == 5);
    CHECK(row.at("tflops").get<double>() ==
          Approx(small.at("flops").get<double>() / row.at("time_ms").at("median").get<double>() / 1e9));
    CHECK(row.at("predicted_ms") > 0);
  }
  CHECK(small.at("rows")[0].at("ratio") == 1);
  REQUIRE(small.at("peers").size() == 1);
  CHECK(small.at("peers")[0].at("ms") == 2);
  const auto& refused = json.at("shapes")[1].at("rows")[1];
  CHECK(refused.at("failure") == "refused");
  CHECK_THAT(refused.at("message").get<std::string>(), Contains("1100") && Contains("1024"));
  CHECK(json.at("shapes")[1].at("rows")[0].at("ok") == true);

  const std::string csv = read_bytes(folder / "table.csv");
  CHECK(line_count(csv) == 1 + 4 + 1);
  CHECK_THAT(csv, Contains("One & all,peer,f32,1,16,16,2,2,50,40,2,,"));
  const Svg svg = parse_svg(read_bytes(folder / "bars.svg"));
  check_inside(svg);
  const std::vector<SvgElement> bars = svg.of_class("bar");
  REQUIRE(bars.size() == 4);
  // The peer's 2 ms and the time of the first are drawn to one measure.
  const double ms = small.at("rows")[0].at("time_ms").at("median");
  const SvgElement* peer = nullptr;
  for (const SvgElement& bar : bars)
    if (peer == nullptr || bar.number("height") > peer->number("height")) peer = &bar;
  CHECK(bars[0].number("height") == Approx(peer->number("height") * ms / std::max(2.0, ms)).margin(0.5));
  CHECK(svg.has_text("One &amp; all"));
}

TEST_CASE("bench says why nothing could be measured, and refuses words that mean nothing") {
  const TemporaryFolder folder;
  const std::string bad = "target: cpu\nO: {tile: {i: 8}, parallel: [nowhere]}\n";
  write_bytes(folder / "bad.yaml", bad);
  const ProgramResult none = run_bench(folder, {"--schedules", (folder / "bad.yaml").string(), "--shape", kBenched,
                                                "--svg", (folder / "bars.svg").string()});
  CHECK(none.code == 2);
  CHECK_THAT(none.out, Contains("refused: ") && Contains("does not name j"));
  check_inside(parse_svg(read_bytes(folder / "bars.svg")));
  CHECK_THAT(run_bench(folder, {"--schedules", "cpu/flash2,cpu/flash2"}).err, Contains("named twice"));
  CHECK_THAT(run_bench(folder, {"--schedules", "cpu/flash2", "--value", "tflop"}).err,
             Contains("did you mean tflops?"));
  CHECK_THAT(run_bench(folder, {"--schedules", "cpu/flash2", "--peers", (folder / "none.csv").string()}).err,
             Contains("can't be opened"));
  write_bytes(folder / "peers.csv", "name,Sx,ms\n");
  CHECK_THAT(run_bench(folder, {"--schedules", "cpu/flash2", "--peers", (folder / "peers.csv").string()}).err,
             Contains("peers.csv:1: error: no column 'Sx'"));
  write_bytes(folder / "peers.csv", "name,Sq,ms\na,1,0\nb,x,1\nc,1\n");
  CHECK_THAT(run_bench(folder, {"--schedules", "cpu/flash2", "--peers", (folder / "peers.csv").string()}).err,
             Contains(":2: error: ms is '0'") && Contains(":3: error: Sq is 'x'") && Contains(":4: error: 2 fields"));
  CHECK_THAT(run_astatide({"bench", "paged", "--schedules", "cpu/flash2", "--device", "cpu"}).err,
             Contains("random indices mean nothing"));
  CHECK_THAT(run_bench(folder, {"--schedules", "cpu/flash2", "--timeout", "0"}).err, Contains("--timeout"));
  BenchOptions options;
  options.shapes = {{}};
  const auto refusal = [&] {
    return message_of<UserError>([&] {
      bench(load_algorithm("attention"), {{"cpu/flash2", load_schedule("cpu/flash2")}}, options);
    });
  };
  CHECK_THAT(refusal(), Contains("nothing says how large B is"));
  options.device = Device::sim();
  CHECK_THAT(refusal(), Contains("a simulated GPU takes no time"));
  options.timeout_seconds = 3;
  CHECK_THAT(refusal(), Contains("only where a program is named that measures"));
  options.measurer = {"astatide"};
  options.timeout_seconds = 0;
  CHECK_THAT(refusal(), Contains("more than 0 seconds"));
}

TEST_CASE("schedules that fault, trap, exit, hang or babble cost their own rows of bench and frontier") {
  const TemporaryFolder folder;
  const std::string text = print_schedule(load_schedule("cpu/flash2"));
  const std::size_t tile = text.find("{i: ") + 4;
  std::string names;
  for (const char* rows : {"8", "32", "16", "40", "48"}) {
    const std::string path = (folder / (std::string("rows") + rows + ".yaml")).string();
    write_bytes(path, text.substr(0, tile) + rows + text.substr(text.find(',', tile)));
    names += (names.empty() ? "" : ",") + path;
  }
  const std::string measurer = write_fake_measurer(folder.path(), "measurer", R"(
    *"i: 8,"*) kill -SEGV $$;;
    *"i: 16,"*) sleep 100;;
    *"i: 48,"*) echo nonsense;;)");
  const ProgramResult result = run_bench(
      folder, {"--schedules", names, "--shape", kBenched, "--measurer", measurer, "--timeout", "1", "--json"});
  INFO(result.out << result.err);
  CHECK(result.code == 1);
  const auto rows = nlohmann::json::parse(result.out).at("shapes")[0].at("rows");
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].at("failure") == "crash");
  CHECK_THAT(rows[0].at("message").get<std::string>(), Contains("the process that measured it ended: signal 11"));
  CHECK(rows[2].at("failure") == "timeout");
  CHECK(rows[2].at("message") == "no answer after 1 seconds; the process was killed");
  CHECK(rows[4].at("failure") == "crash");
  CHECK_THAT(rows[4].at("message").get<std::string>(), Contains("what is no answer"));
  // Ratios are to the first that was measured.
  CHECK(rows[1].at("time_ms").at("samples") == std::vector<double>(5, 1.0));
  CHECK(rows[1].at("ratio") == 1);
  CHECK(rows[3].at("ratio").get<double>() == Approx(1.8));
  CHECK(read_bytes(folder / "asked").size() == 2 * 4);  // once more for each that broke its process

  const ProgramResult won = run_astatide({"frontier", "attention", "--device", "cpu", "--dtype", "f32", "--repeat", "5",
                                          "--shape", "B=1,Hq=1,Hkv=1,Sq=8,D=8,Dv=8", "--shapes", "Sk=64", "--schedules",
                                          names, "--measurer", measurer, "--timeout", "1", "--json"});
  INFO(won.out << won.err);
  CHECK(won.code == 0);
  const auto json = nlohmann::json::parse(won.out);
  CHECK_THAT(json.at("points")[0].at("winner").get<std::string>(), Contains("rows32.yaml"));
  CHECK(json.at("points")[0].at("ratio").get<double>() == Approx(1.8));
  CHECK_THAT(json.at("refused").dump(), Contains("timeout: no answer after 1 seconds"));
}

TEST_CASE("a process that answers another job than several schedules' was asked breaks the schedule of its turn") {
  const TemporaryFolder folder;
  const auto ask = [&](const std::string& name, const std::string& says) {
    write_bytes(folder / name, "#!/bin/sh\nread line; " + says + "\nread line");
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
    MeasurerProcess process({(folder / name).string()});
    MeasureJob job;
    job.together = {"a", "b"};
    job.rounds = 1;
    return process.ask_together(job, 20);
  };
  const auto broken = [&](const std::string& name, const std::string& says) {
    const MeasuredTogether out = ask(name, says);
    REQUIRE(out.broken.has_value());
    REQUIRE(out.answers.size() == 1);
    CHECK(out.answers[0].failure == "crash");
    return std::to_string(*out.broken) + ": " + out.answers[0].message;
  };
  const std::string first = R"(echo '{"turn":1}';)";
  const std::string answer = R"(echo '{"samples_ms":[1],"against_ms":[]}';)";
  const std::string fewer = R"(echo '{"samples_ms":[],"against_ms":[]}';)";
  CHECK(ask("right", first + answer + answer).answers.size() == 2);
  CHECK_THAT(broken("none", R"(echo '{"turn":2}';)"), Contains("0: ") && Contains("a turn of no schedule"));
  CHECK_THAT(broken("late", first + answer + first), Contains("1: ") && Contains("a turn of no schedule"));
  CHECK_THAT(broken("fewer", first + answer + fewer), Contains("1: ") && Contains("no times of all rounds"));
  CHECK_THAT(broken("fault", first + R"(echo '{"failure":"crash","message":"a fault"}';)"), Contains("1: a fault"));
}

TEST_CASE("frontier predicts who wins, counts what is not legal, and draws it") {
  const TemporaryFolder folder;
  const ProgramResult result = run_astatide(
      {"frontier", "attention", "--model", "--shape", "B=1,Hq=4,Hkv=4", "--shapes", "Sq=Sk=1024..2048 x2, D=Dv=64|128",
       "--schedules", "simt/fused_row,simt/flash2,sm90/flash3", "--json", "--svg", (folder / "grid.svg").string()});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json.at("measured") == false);
  REQUIRE(json.at("points").size() == 4);
  for (const auto& point : json.at("points")) {
    double least = 1e30;
    std::string winner;
    for (const auto& [name, ms] : point.at("ms").items())
      if (ms < least) least = ms, winner = name;
    CHECK(point.at("winner") == winner);
    CHECK(point.at("ratio").get<double>() ==
          Approx(point.at("ms").at(point.at("runner_up").get<std::string>()).get<double>() / least));
  }
  CHECK(json.at("points")[1].at("shape").at("Sk") == 2048);
  CHECK(json.at("points")[2].at("shape").at("D") == 128);
  CHECK_FALSE(json.at("points")[1].at("ms").contains("simt/fused_row"));
  std::size_t refused = 0;
  for (const auto& [reason, count] : json.at("refused").at("simt/fused_row").items())
    if (reason.find("bound to 1024") != std::string::npos) refused = count;
  CHECK(refused == 2);
  const Svg svg = parse_svg(read_bytes(folder / "grid.svg"));
  check_inside(svg);
  CHECK(svg.of_class("won").size() == 4);
  CHECK(svg.of_class("series").size() == 4);  // those with two points: two of the schedules, by two head sizes
  for (const char* label : {"1024", "2048", "D=Dv=64", "D=Dv=128", "sm90/flash3"}) CHECK(svg.has_text(label));
}

TEST_CASE("frontier measures on a device that is named") {
  const TemporaryFolder folder;
  const ProgramResult result = run_astatide(
      {"frontier", "attention", "--device", "cpu", "--threads", "2", "--dtype", "f32", "--repeat", "3", "--shape",
       "B=1,Hq=1,Hkv=1,Sq=8,D=8,Dv=8", "--shapes", "Sk=16|32", "--schedules", "cpu/flash2,cpu/standard", "--json"},
      {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json.at("measured") == true);
  for (const auto& point : json.at("points")) CHECK(point.at("ms").size() == 2);
}

TEST_CASE("axes of shapes have ranges, and what never ends or is unknown is refused") {
  const Algorithm algorithm = load_algorithm("attention");
  const auto axes = parse_shape_axes("Sq=Sk=512..5000 x2 | 6000, D = 64..192 +64", algorithm, "--shapes");
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].names == std::vector<std::string>{"Sq", "Sk"});
  CHECK(axes[0].values == std::vector<std::int64_t>{512, 1024, 2048, 4096, 6000});
  CHECK(axes[1].values == std::vector<std::int64_t>{64, 128, 192});
  const auto shapes = shapes_of(axes, {{"B", 3}});
  REQUIRE(shapes.size() == 15);
  CHECK(shapes[6] == std::map<std::string, std::int64_t>{{"B", 3}, {"Sq", 1024}, {"Sk", 1024}, {"D", 128}});
  const auto refusal = [&](const std::string& text) {
    return message_of<UserError>([&] { parse_shape_axes(text, algorithm, "--shapes"); });
  };
  CHECK_THAT(refusal("Sq=1..9 x1"), Contains("never ends"));
  CHECK_THAT(refusal("Sq=1..9"), Contains("does not say by what it goes on"));
  CHECK_THAT(refusal("Sq=9..1 x2"), Contains("holds nothing"));
  CHECK_THAT(refusal("Sq=1..5000 +1"), Contains("more than 1024"));
  CHECK_THAT(refusal("Sq=1..40 +1, Sk=1..40 +1"), Contains("1600 shapes"));
  CHECK_THAT(refusal("Sq=64, Sk=Sq=64"), Contains("Sq is given twice"));
  CHECK_THAT(refusal("Sy=64"), Contains("no extent 'Sy'"));
  CHECK_THAT(refusal("Sq"), Contains("NAME=VALUES"));
  CHECK_THAT(refusal("Sq=64|64"), Contains("twice"));
  CHECK_THAT(refusal("Sq=0"), Contains("no whole number from 1"));
  CHECK_THAT(refusal(""), Contains("NAME=VALUES"));
}

TEST_CASE("the schedules of a frontier are those that its target runs") {
  for (const NamedSchedule& named : frontier_schedules(*find_target("sm_80"))) CHECK(named.name.substr(0, 4) != "sm90");
  CHECK(frontier_schedules(*find_target("sm_90a")).size() == 12);
  CHECK(frontier_schedules(*find_target("cpu")).size() == 5);
}
