#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/astatide.h"

namespace CLI {
class App;
}

namespace astatide::tools {

/// What `run`, `emit` and `explain` have in common, as it stands on the command line.
struct RequestWords {
  std::string algorithm;
  std::string schedule;
  std::string dtype;
  std::vector<std::string> shapes;
};
/// ALG, --shape and --dtype.
void add_algorithm_options(CLI::App& command, RequestWords& words);
/// The same, and --schedule.
void add_request_options(CLI::App& command, RequestWords& words);

/// --input and --scalar, of commands that think up what is not given.
void add_input_options(CLI::App& command, std::vector<std::string>& inputs, std::vector<std::string>& scalars);

/// "B=2,Hq=8"
std::string extents_text(const std::map<std::string, std::int64_t>& extents);
/// "B=2,Hq=8" into `values`; a name given twice, a value that is no number or is under `least` are errors at `flag`.
void parse_shape(const std::string& text, const Algorithm& algorithm, std::map<std::string, std::int64_t>& values);
/// "scale=0.1"; the values are finite.
void parse_scalars(const std::string& text, const Algorithm& algorithm, std::map<std::string, double>& values);
/// f32, f16 or bf16.
ScalarType parse_dtype(const std::string& text);
/// A number without sign, for `flag`, from `least` to `most`.
std::int64_t parse_number(const std::string& text, const std::string& flag, std::int64_t least, std::int64_t most);
/// A target's facts; throws UserError with near names.
Target parse_target(const std::string& name);

/// The value of --shape, or the sizes of the algorithm's file for what it does not name. Throws UserError where an
/// extent is left without a value.
std::map<std::string, std::int64_t> sizes_of(const Algorithm& algorithm, const std::vector<std::string>& shapes);

/// The schedule that the words name, or the shipped one that serves the request.
NamedSchedule choose_schedule(const RequestWords& words, const Algorithm& algorithm, const DispatchRequest& request);
/// "simt/flash1,own.yaml", each once.
std::vector<NamedSchedule> load_schedules(const std::string& names);
/// What `emit`, `explain` and `dispatch` know without a device: --shape, --dtype, and --target. Without a target the
/// least GPU that schedules are shipped for.
DispatchRequest request_of(const RequestWords& words, const Algorithm& algorithm, const std::string& target);

/// A number that is the whole text.
template <class T>
std::optional<T> number_of(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "did you mean X?", or what there is.
std::vector<std::string> suggestion(const std::string& word, const std::vector<std::string>& known);

}  // namespace astatide::tools
