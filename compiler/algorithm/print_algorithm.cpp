#include <algorithm>

#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/algorithm_keys.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

template <class Items, class Print>
std::string join(const Items& items, const std::string& separator, const Print& print) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : separator) + print(item);
  return out;
}

std::string self(const std::string& name) { return name; }

/// An expression as a value inside { } or [ ], where , : [ ] { } # and a leading - or % mean something to YAML.
std::string in_flow(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_+*/(). -").find(c) != std::string_view::npos;
  });
  const bool starts_plain = !text.empty() && text[0] != '-' && text[0] != '*' && text[0] != ' ';
  return plain && starts_plain ? text : "\"" + text + "\"";
}

std::string print_dims(const std::vector<Expr>& dims) {
  return "[" + join(dims, ", ", [](const Expr& dim) { return in_flow(print_expr(dim, {}, true)); }) + "]";
}

std::string print_input(const Input& input) {
  const std::string dims = print_dims(input.dims);
  if (!input.dtype && !input.monotone) return input.name + ": " + dims;
  return input.name + ": {dims: " + dims +
         (input.dtype ? ", dtype: " + std::string(name_of(*input.dtype)) : std::string()) +
         (input.monotone ? ", monotone: true}" : "}");
}

std::string print_definition(const Func& func, const NameKinds& names) {
  const std::string places = func.stored.empty()
                                 ? join(func.indices, ",", self)
                                 : join(func.stored, ", ", [&](const Expr& e) { return print_expr(e, names, true); });
  std::string out = func.name + "[" + places + "] = " + print_expr(func.value, names);
  if (func.where_predicate) out += " where " + print_expr(*func.where_predicate, names);
  return out;
}

/// {a: b, c: d} on one line, or one entry a line where that is too long to read.
std::string print_map(const std::string& key, const std::vector<std::string>& entries) {
  constexpr std::size_t kWidth = 110;
  const std::string flow = join(entries, ", ", self);
  if (key.size() + flow.size() + 4 <= kWidth) return key + ": {" + flow + "}\n";
  return key + ":\n  " + join(entries, "\n  ", self) + "\n";
}

/// A list of definitions, or of updates.
std::string print_lines(const std::string& key, const std::vector<Func>& lines, const NameKinds& names) {
  std::string out = key + ":\n";
  for (const Func& func : lines) out += "  - " + print_definition(func, names) + "\n";
  return out;
}

std::string print_section(AlgorithmKey key, const Algorithm& a) {
  const std::string name(info(key).name);
  const NameKinds names = name_kinds(a);
  std::vector<std::string> entries;
  switch (key) {
    case AlgorithmKey::algorithm:
      return name + ": " + a.name + "\n";
    case AlgorithmKey::extents:
      return name + ": [" + join(a.extents, ", ", [](const Extent& e) { return e.name; }) + "]\n";
    case AlgorithmKey::scalars:
      for (const Scalar& s : a.scalars)
        entries.push_back(s.name + ": " + (s.default_value ? in_flow(print_expr(*s.default_value, names)) : "null"));
      return entries.empty() ? "" : print_map(name, entries);
    case AlgorithmKey::inputs:
      for (const Input& input : a.inputs) entries.push_back(print_input(input));
      return print_map(name, entries);
    case AlgorithmKey::axes:
      for (const auto& [axis, extent] : a.axes) {
        const auto length = a.lengths.find(axis);
        const Expr e = length == a.lengths.end() ? extent : less_equal(length->second, extent);
        entries.push_back(axis + ": " + in_flow(print_expr(e, names, true)));
      }
      return entries.empty() ? "" : print_map(name, entries);
    case AlgorithmKey::updates:
      return a.updates.empty() ? "" : print_lines(name, a.updates, names);
    case AlgorithmKey::define:
      return print_lines(name, a.define, names);
    case AlgorithmKey::outputs:
      if (a.output_dims.empty()) return name + ": [" + join(a.outputs, ", ", self) + "]\n";
      for (const std::string& output : a.outputs) {
        const auto dims = a.output_dims.find(output);
        entries.push_back(output + ": " + (dims == a.output_dims.end() ? "null" : print_dims(dims->second)));
      }
      return print_map(name, entries);
    case AlgorithmKey::sizes:
      // In the order of the extents, which reads better than that of the alphabet.
      for (const Extent& extent : a.extents)
        if (const auto size = a.sizes.find(extent.name); size != a.sizes.end())
          entries.push_back(extent.name + ": " + std::to_string(size->second));
      return entries.empty() ? "" : print_map(name, entries);
  }
  return {};
}

}  // namespace

std::string print_algorithm(const Algorithm& algorithm) {
  std::string out;
  for (const AlgorithmKeyInfo& key : algorithm_keys()) out += print_section(key.key, algorithm);
  return out;
}

}  // namespace astatide
