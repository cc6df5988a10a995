#include "tools/request.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <cmath>

#include "compiler/algorithm/names.h"

namespace astatide::tools {
namespace {

struct NamedValue {
  std::string name;
  std::string value;
};

/// "A=1,B=2" in pieces.
std::vector<NamedValue> split_values(const std::string& text, const Location& where) {
  std::vector<NamedValue> out;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string piece = text.substr(begin, end - begin);
    const std::size_t equals = piece.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == piece.size())
      throw UserError(where, fmt::format("'{}' is not of the form NAME=NUMBER", quoted(piece)));
    out.push_back({piece.substr(0, equals), piece.substr(equals + 1)});
    begin = end + 1;
  }
  return out;
}

}  // namespace

std::vector<std::string> suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest_name(word, known);
  if (!near.empty()) return {fmt::format("did you mean {}?", near)};
  return {fmt::format("known are {}", fmt::join(known, ", "))};
}

void add_algorithm_options(CLI::App& command, RequestWords& words) {
  command.add_option("ALG", words.algorithm, "algorithm file, or the name of a shipped one")->required();
  command
      .add_option("--shape", words.shapes,
                  "extents, such as B=2,Hq=8; what is not named has the size that the file gives")
      ->type_name("NAME=N,..")
      ->allow_extra_args(false);
  command.add_option("--dtype", words.dtype, "type of inputs and outputs: f32, f16 or bf16");
}

void add_request_options(CLI::App& command, RequestWords& words) {
  add_algorithm_options(command, words);
  command.add_option("--schedule", words.schedule,
                     "schedule file, or the name of a shipped one; without it the shipped one that serves the shape "
                     "and type (astatide dispatch)");
}

void add_input_options(CLI::App& command, std::vector<std::string>& inputs, std::vector<std::string>& scalars) {
  command.add_option("--input", inputs, "Q=q.npy, Q=layer.safetensors or all.safetensors; others are random")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command.add_option("--scalar", scalars, "scalars that differ from their defaults, such as scale=0.1")
      ->type_name("NAME=X,..")
      ->allow_extra_args(false);
}

std::string extents_text(const std::map<std::string, std::int64_t>& extents) {
  std::string text;
  for (const auto& [name, value] : extents) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

void parse_shape(const std::string& text, const Algorithm& algorithm, std::map<std::string, std::int64_t>& values) {
  const Location where{"--shape", 0, 0, {}};
  Diagnostics errors;
  for (const NamedValue& part : split_values(text, where)) {
    if (algorithm.find_extent(part.name) == nullptr) {
      std::vector<std::string> known;
      for (const Extent& extent : algorithm.extents) known.push_back(extent.name);
      errors.error(where, fmt::format("the algorithm {} has no extent '{}'", algorithm.name, quoted(part.name)),
                   suggestion(part.name, known));
      continue;
    }
    const auto value = number_of<std::int64_t>(part.value);
    if (!value || *value < 0) {
      errors.error(where, fmt::format("{} is '{}', wanted is a whole number from 0 on", part.name, quoted(part.value)));
    } else if (!values.try_emplace(part.name, *value).second) {
      errors.error(where, fmt::format("{} is given twice", part.name));
    }
  }
  errors.throw_if_any();
}

void parse_scalars(const std::string& text, const Algorithm& algorithm, std::map<std::string, double>& values) {
  const Location where{"--scalar", 0, 0, {}};
  Diagnostics errors;
  for (const NamedValue& part : split_values(text, where)) {
    if (algorithm.find_scalar(part.name) == nullptr) {
      std::vector<std::string> known;
      for (const Scalar& scalar : algorithm.scalars) known.push_back(scalar.name);
      errors.error(where, fmt::format("the algorithm {} has no scalar '{}'", algorithm.name, quoted(part.name)),
                   known.empty() ? std::vector<std::string>{} : suggestion(part.name, known));
      continue;
    }
    const auto value = number_of<double>(part.value);
    if (!value || !std::isfinite(*value)) {
      errors.error(where, fmt::format("{} is '{}', wanted is a finite number", part.name, quoted(part.value)));
    } else if (!values.try_emplace(part.name, *value).second) {
      errors.error(where, fmt::format("{} is given twice", part.name));
    }
  }
  errors.throw_if_any();
}

ScalarType parse_dtype(const std::string& text) {
  const auto type = parse_scalar_type(text);
  if (type == ScalarType::f32 || type == ScalarType::f16 || type == ScalarType::bf16) return *type;
  throw UserError({"--dtype", 0, 0, {}}, fmt::format("no type '{}' to compute with", quoted(text)),
                  suggestion(text, {"f32", "f16", "bf16"}));
}

std::int64_t parse_number(const std::string& text, const std::string& flag, std::int64_t least, std::int64_t most) {
  const auto value = number_of<std::int64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  throw UserError({flag, 0, 0, {}},
                  fmt::format("'{}', wanted is a whole number from {} to {}", quoted(text), least, most));
}

Target parse_target(const std::string& name) {
  if (const Target* target = find_target(name)) return *target;
  std::vector<std::string> known;
  for (const Target& target : known_targets()) known.push_back(target.name);
  throw UserError({"--target", 0, 0, {}}, fmt::format("no target '{}'", quoted(name)), suggestion(name, known));
}

std::map<std::string, std::int64_t> sizes_of(const Algorithm& algorithm, const std::vector<std::string>& shapes) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& text : shapes) parse_shape(text, algorithm, sizes);
  for (const auto& [name, value] : algorithm.sizes) sizes.try_emplace(name, value);
  Diagnostics errors;
  for (const Extent& extent : algorithm.extents)
    if (!sizes.contains(extent.name))
      errors.error({"--shape", 0, 0, {}}, fmt::format("nothing says how large {} is", extent.name),
                   {fmt::format("neither --shape {}=N nor `sizes` of {} names it", extent.name, algorithm.name)});
  errors.throw_if_any();
  return sizes;
}

DispatchRequest request_of(const RequestWords& words, const Algorithm& algorithm, const std::string& target) {
  DispatchRequest request;
  request.target = parse_target(target.empty() ? "sm_80" : target);
  request.sizes = sizes_of(algorithm, words.shapes);
  if (!words.dtype.empty()) request.dtype = parse_dtype(words.dtype);
  return request;
}

NamedSchedule choose_schedule(const RequestWords& words, const Algorithm& algorithm, const DispatchRequest& request) {
  if (!words.schedule.empty()) return {words.schedule, load_schedule(words.schedule)};
  return dispatch(algorithm, shipped_candidates(), request);
}

std::vector<NamedSchedule> load_schedules(const std::string& names) {
  const Location where{"--schedules", 0, 0, {}};
  std::vector<NamedSchedule> out;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (name.empty()) throw UserError(where, fmt::format("'{}' names an empty schedule", quoted(names)));
    for (const NamedSchedule& other : out)
      if (other.name == name) throw UserError(where, fmt::format("{} is named twice", quoted(name)));
    out.push_back({name, load_schedule(name)});
    begin = end + 1;
  }
  return out;
}

}  // namespace astatide::tools
