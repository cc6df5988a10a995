// What differs between two schedules: the C++ function and the command.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/compare.h"
#include "compiler/support/unified_diff.h"
#include "tests/support/messages.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

CompareOptions compare_for(const Algorithm& algorithm, const char* target, ScalarType dtype) {
  CompareOptions options;
  options.target = *find_target(target);
  options.dtype = dtype;
  options.sizes = algorithm.sizes;
  return options;
}

const ComparedValue& row_of(const ScheduleDifference& difference, ComparedValue::Section section,
                            const std::string& kernel, const std::string& what) {
  for (const ComparedValue& row : difference.values)
    if (row.section == section && row.kernel == kernel && row.what == what) return row;
  FAIL("no row " << kernel << ": " << what);
  throw InternalError("unreachable");
}

}  // namespace

TEST_CASE("a unified diff of lines says what diff -u says") {
  CHECK(unified_diff("a\nb\n", "a\nb\n", "x", "y").empty());
  CHECK(unified_diff("", "a\n", "x", "y") == "--- x\n+++ y\n@@ -0,0 +1 @@\n+a\n");
  CHECK(unified_diff("a\n", "", "x", "y") == "--- x\n+++ y\n@@ -1 +0,0 @@\n-a\n");
  CHECK(unified_diff("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nfive\n6\n", "x", "y") ==
        "--- x\n+++ y\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n");
  // Changes with more than six equal lines between them are two groups, with six they are one.
  std::string far = "a\n", near = "a\n";
  for (int n = 0; n < 7; ++n) far += "=\n";
  for (int n = 0; n < 6; ++n) near += "=\n";
  const auto groups = [](const std::string& equal) {
    const std::string diff = unified_diff(equal + "b\n", "A" + equal.substr(1) + "B\n", "x", "y");
    return std::pair(diff.find("@@ -1,4 +1,4 @@\n-a\n+A\n =\n =\n =\n@@ -6,4 +6,4 @@\n =\n =\n =\n-b\n+B\n"),
                     diff.find("@@ -1,8 +1,8 @@\n"));
  };
  CHECK(groups(far).first != std::string::npos);
  CHECK(groups(near).second != std::string::npos);
}

TEST_CASE("two schedules differ in directives, loops, tiles, traffic and time, and not from themselves") {
  const Algorithm algorithm = load_algorithm("causal_gqa");
  CompareOptions options = compare_for(algorithm, "sm_90a", ScalarType::bf16);
  options.source = true;
  const NamedSchedule old{"flash2", load_schedule("sm80/flash2")};
  NamedSchedule deeper{"deeper", old.schedule};
  for (Placement& placement : deeper.schedule.placements)
    if (placement.name == "K" || placement.name == "V")
      for (Directive& directive : placement.directives)
        if (directive.kind == DirectiveKind::ring_buffer) directive.value = std::get<std::int64_t>(directive.value) + 1;
  REQUIRE_FALSE(equal(old.schedule, deeper.schedule));

  const ScheduleDifference same = compare_schedules(algorithm, old, old, options);
  CHECK(same.directives.empty());
  CHECK(same.loops.empty());
  CHECK(same.source.empty());
  for (const ComparedValue& row : same.values) {
    INFO(row.kernel << ": " << row.what);
    CHECK_FALSE(row.differs());
    CHECK(row.first.index() != 0);
  }

  using Section = ComparedValue::Section;
  const ScheduleDifference difference = compare_schedules(algorithm, old, deeper, options);
  for (const DirectiveDifference& one : difference.directives) CHECK_THAT(one.place, Contains("ring_buffer"));
  CHECK_FALSE(difference.directives.empty());
  CHECK_THAT(difference.source, Catch::StartsWith("--- flash2\n+++ deeper\n@@ "));
  const ComparedValue& shared = row_of(difference, Section::storage, "causal_gqa", "shared memory");
  CHECK(std::get<double>(shared.second) > std::get<double>(shared.first));
  CHECK_FALSE(row_of(difference, Section::work, "", "operations").differs());

  // Kernels that only one of the two has stand without a value on the other side.
  const NamedSchedule standard{"standard", load_schedule("simt/standard")};
  const NamedSchedule fused{"fused", load_schedule("simt/flash2")};
  const ScheduleDifference other =
      compare_schedules(algorithm, standard, fused, compare_for(algorithm, "sm_90a", ScalarType::f32));
  CHECK(row_of(other, Section::storage, "", "kernels").first == ComparedValue::Value(3.0));
  CHECK(row_of(other, Section::storage, "", "kernels").second == ComparedValue::Value(1.0));
  const ComparedValue& scratch = row_of(other, Section::storage, "", "scratch");
  CHECK(std::get<double>(scratch.first) > std::get<double>(scratch.second));
  bool one_sided = false;
  for (const ComparedValue& row : other.values) one_sided = one_sided || row.second.index() == 0;
  CHECK(one_sided);
  CHECK_THAT(other.loops, Contains("\n-") && Contains("\n+"));
  CHECK(other.source.empty());
}

TEST_CASE("which of two schedules is illegal is said") {
  const Algorithm algorithm = load_algorithm("attention");
  const CompareOptions options = compare_for(algorithm, "sm_80", ScalarType::f16);
  const NamedSchedule old{"old", load_schedule("sm80/flash2")}, hopper{"hopper", load_schedule("sm90/flash3")};
  const auto said = [&](const NamedSchedule& first, const NamedSchedule& second) {
    return message_of<UserError>([&] { compare_schedules(algorithm, first, second, options); });
  };
  CHECK_THAT(said(hopper, old), Contains("the first schedule, hopper: "));
  CHECK_THAT(said(old, hopper), Contains("the second schedule, hopper: "));
}

TEST_CASE("diff compares, measures on the CPU in turn, and refuses what means nothing") {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> cache = {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}};
  const auto diff = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "diff");
    return run_astatide(words, cache);
  };
  const ProgramResult equal = diff({"simt/flash2", "simt/flash2"});
  CHECK(equal.code == 0);
  CHECK(equal.out == "- simt/flash2\n+ simt/flash2\nthe schedules are equal\n");
  const ProgramResult text = diff({"simt/flash2", "simt/flash1", "causal_gqa"});
  INFO(text.err);
  CHECK(text.code == 0);
  for (const char* part : {"causal_gqa for sm_80, f32, B=", "\ndirectives\n", "\n  O.reorder\n    - ",
                           "\nloops, as lowered\n--- ", "\nstorage\n", "\ntraffic\n", "\ntime\n", "all: predicted"})
    CHECK_THAT(text.out, Contains(part));
  CHECK_THAT(text.out, !Contains("\nsource"));

  const ProgramResult measured =
      diff({"cpu/flash2", "cpu/flash1", "attention", "--shape", "B=1,Hq=1,Hkv=1,Sq=40,Sk=50,D=16,Dv=16", "--measure",
            "--threads", "1", "--rounds", "5", "--source", "--json"});
  INFO(measured.out << measured.err);
  REQUIRE(measured.code == 0);
  const auto json = nlohmann::json::parse(measured.out);
  CHECK(json.at("ok") == true);
  CHECK(json.at("equal") == false);
  CHECK(json.at("measured").at("first_ms") > 0.0);
  CHECK(json.at("measured").at("ratio") > 0.0);
  CHECK_FALSE(json.at("source").get<std::string>().empty());
  for (const auto& [words, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"cpu/flash2", "simt/flash2", "attention"}, "one schedule is for cpu, the other for sm_80"},
           {{"cpu/flash2", "cpu/flash1", "--shape", "B=1"}, "without an algorithm schedules are compared as they are"},
           {{"cpu/flash2", "cpu/flash1", "attention", "--device", "cpu"}, "which nobody asks for"},
           {{"cpu/flash2", "cpu/flash1", "attention", "--measure", "--device", "cpu", "--target", "sm_80"},
            "the comparison is for sm_80"}}) {
    const ProgramResult refused = diff(words);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains(message));
  }
}

TEST_CASE("tools/README.md shows what diff says") {
  const std::string text = read_bytes(source_path("tools/README.md"));
  const std::size_t begin = text.find("```\n", text.find("\n## Two schedules\n")) + 4;
  const std::string shown = text.substr(begin, text.find("```", begin) - begin);
  const std::string said = run_astatide({"diff", "simt/flash2", "simt/flash1", "causal_gqa"}).out;
  std::size_t from = 0, lines = 0;
  for (std::size_t at = 0; at < shown.size(); at = shown.find('\n', at) + 1) {
    const std::string line = shown.substr(at, shown.find('\n', at) + 1 - at);
    if (line == "...\n") continue;
    INFO(line);
    const std::size_t found = said.find(line, from);
    REQUIRE(found != std::string::npos);
    from = found + line.size();
    ++lines;
  }
  CHECK(lines > 10);
}
