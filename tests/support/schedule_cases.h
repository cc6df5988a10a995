// What the tests of schedules share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/embedded.h"
#include "tests/support/case_data.h"
#include "tests/support/paths.h"

namespace astatide::testing {

inline std::string shipped_schedule(const std::string& name) {
  return text_of(source_path("schedules/" + name + ".yaml"));
}

inline std::vector<std::string> shipped_schedule_names() {
  return {"simt/standard", "simt/fused_row",  "simt/flash1",   "simt/flash2",   "simt/flash2_shared_s",
          "simt/decode",   "simt/decode_gqa", "cpu/standard",  "cpu/fused_row", "cpu/flash1",
          "cpu/flash2",    "cpu/decode",      "cpu/decode_gqa"};
}

/// All that are shipped whose products are by tensor cores: for inputs of 16 bits, some for f32 too.
inline std::vector<std::string> tensor_core_schedule_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_schedules())
    if (file.text.find("mma: ") != std::string_view::npos)
      names.emplace_back(file.name.substr(0, file.name.rfind(".yaml")));
  return names;
}

/// Whether a schedule of tensor cores takes inputs of f32, rounded to tf32.
inline bool takes_f32(const std::string& schedule) { return schedule.ends_with("_tf32"); }

/// Whether a schedule is for few queries: it keeps states of parts of the keys for each, or packs heads into a tile.
inline bool for_few_queries(const std::string& schedule) {
  return schedule.find("/decode") != std::string::npos || schedule.ends_with("_gqa");
}

/// Query heads for each head of keys, where any number will do: TMA copies whole groups that divide a tile.
inline std::int64_t group_of(const std::string& schedule) {
  return schedule.starts_with("sm90/") && schedule.ends_with("_gqa") ? 4 : 3;
}

/// The head size that a schedule of tensor cores is for.
inline std::int64_t head_size_of(const std::string& schedule) {
  if (schedule.ends_with("_d64")) return 64;
  if (schedule.ends_with("wide") || schedule.ends_with("wide_gqa")) return 320;
  return schedule.ends_with("_d256") ? 256 : 128;
}

/// "accepted", or why the compiler refuses.
inline std::string outcome_of_compile(const Algorithm& algorithm, const Schedule& schedule, ScalarType type) {
  try {
    compile(algorithm, schedule, {*find_target(schedule.target), algorithm.sizes, type});
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

/// What parse_schedule says of a text: all problems, or "no error".
inline std::string parse_refusal(const std::string& text) {
  try {
    parse_schedule(text, "s.yaml");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

/// The text with its only occurrence of `from` replaced.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos)
    throw InternalError("'" + from + "' does not occur once");
  return text.replace(at, from.size(), to);
}

/// One request to check_legal: causal attention with grouped heads unless a test says otherwise.
struct Request {
  std::string schedule;  // YAML
  std::string algorithm = "causal_gqa";
  std::map<std::string, std::int64_t> sizes = {{"D", 64}, {"Dv", 64}};
  std::optional<ScalarType> type = ScalarType::f32;
  std::optional<Target> target = std::nullopt;  // none: the schedule's own

  void check() const {
    const Schedule value = parse_schedule(schedule, "s.yaml");
    check_legal(value, example_algorithm(algorithm), target ? *target : *find_target(value.target), sizes, type);
  }
  /// The problems, or nothing where the schedule is legal.
  std::vector<Diagnostic> problems() const {
    try {
      check();
    } catch (const UserError& error) {
      return error.diagnostics();
    }
    return {};
  }
  /// All of them as they are printed.
  std::string message() const {
    std::string out;
    for (const Diagnostic& problem : problems()) out += format_diagnostic(problem) + "\n";
    return out;
  }
};

}  // namespace astatide::testing
