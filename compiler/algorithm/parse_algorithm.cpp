#include <algorithm>
#include <charconv>

#include "compiler/algorithm/algorithm_keys.h"
#include "compiler/algorithm/check.h"
#include "compiler/algorithm/names.h"
#include "compiler/algorithm/source_text.h"
#include "compiler/algorithm/yaml_document.h"

namespace astatide {
namespace {

class AlgorithmReader {
 public:
  AlgorithmReader(const YamlDocument& document, Diagnostics& errors) : document_(document), errors_(errors) {}

  Algorithm read() {
    const YamlNode& root = document_.root();
    algorithm_.where = root.where;
    if (!root.is_map()) {
      declared_ = false;
      errors_.error(root.where,
                    "an algorithm file is a map that starts with 'algorithm: NAME', found " + describe(root));
      return algorithm_;
    }
    for (const YamlNode& key : root.keys)
      if (!find_algorithm_key(key.value)) unknown_key(key, algorithm_key_names());
    for (const AlgorithmKeyInfo& key : algorithm_keys()) {
      const YamlNode* value = find(root, key.name);
      const std::size_t before = errors_.size();
      if (value) {
        read_section(key.key, *value);
      } else if (key.required && !meant_.contains(std::string(key.name))) {
        errors_.error(root.where, "'" + std::string(key.name) + "' is missing", {lower_first(key.meaning)});
      }
      if (errors_.size() > before || meant_.contains(std::string(key.name))) mark_incomplete(key.key);
    }
    return std::move(algorithm_);
  }

  /// Whether every name is known that later lines may use.
  bool declared() const { return declared_; }
  const Known& known() const { return known_; }

 private:
  void mark_incomplete(AlgorithmKey key) {
    switch (key) {
      case AlgorithmKey::extents:
      case AlgorithmKey::scalars:
      case AlgorithmKey::inputs:
      case AlgorithmKey::axes:
        declared_ = false;
        break;
      case AlgorithmKey::outputs:
        known_.outputs = false;
        break;
      case AlgorithmKey::sizes:
        known_.sizes = false;
        break;
      case AlgorithmKey::algorithm:
        known_.name = false;
        break;
      case AlgorithmKey::updates:
        known_.updates = false;
        break;
      case AlgorithmKey::define:
        break;
    }
  }

  static const YamlNode* find(const YamlNode& map, std::string_view name) {
    for (std::size_t i = 0; i < map.keys.size(); ++i)
      if (map.keys[i].value == name) return &map.items[i];
    return nullptr;
  }

  static std::string lower_first(std::string_view sentence) {
    std::string out(sentence.substr(0, sentence.size() - 1));
    if (out[0] >= 'A' && out[0] <= 'Z') out[0] = static_cast<char>(out[0] - 'A' + 'a');
    return out;
  }

  void unknown_key(const YamlNode& key, const std::vector<std::string>& known) {
    const std::string nearest = nearest_name(key.value, known);
    std::string all;
    for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
    meant_.insert(nearest);
    errors_.error(key.where, "unknown key '" + quoted(key.value) + "'",
                  {nearest.empty() ? "the keys are " + all : "did you mean " + nearest + "?"});
  }

  /// Every name is looked up among all others, so that their number is bounded.
  bool few_enough(const YamlNode& node, const std::string& what) {
    constexpr std::size_t kMost = 256;
    const std::size_t count = node.items.size();
    if (count <= kMost) return true;
    errors_.error(node.where, std::to_string(count) + " " + what + ", the limit is " + std::to_string(kMost));
    declared_ = false;
    return false;
  }

  bool expect(bool right, const YamlNode& node, const std::string& expected) {
    if (!right) errors_.error(node.where, expected + " expected, found " + describe(node));
    return right;
  }

  void take(const UserError& problem) {
    for (const Diagnostic& d : problem.diagnostics()) errors_.error(d.where, d.message, d.notes);
  }

  std::optional<Expr> read_expr(const YamlNode& node, bool in_index, const std::string& expected) {
    if (!expect(node.is_scalar(), node, expected)) return std::nullopt;
    try {
      return parse_expr(document_.source_of(node), name_kinds(algorithm_), in_index);
    } catch (const UserError& problem) {
      take(problem);
      return std::nullopt;
    }
  }

  void read_section(AlgorithmKey key, const YamlNode& node) {
    switch (key) {
      case AlgorithmKey::algorithm:
        return read_name(node);
      case AlgorithmKey::extents:
        return read_extents(node);
      case AlgorithmKey::scalars:
        return read_scalars(node);
      case AlgorithmKey::inputs:
        return read_inputs(node);
      case AlgorithmKey::axes:
        return read_axes(node);
      case AlgorithmKey::updates:
        return read_updates(node);
      case AlgorithmKey::define:
        return read_definitions(node);
      case AlgorithmKey::outputs:
        return read_outputs(node);
      case AlgorithmKey::sizes:
        return read_sizes(node);
    }
  }

  void read_name(const YamlNode& node) {
    if (!expect(node.is_scalar(), node, "the name of the algorithm")) return;
    algorithm_.name = node.value;
    algorithm_.where = node.where;
  }

  void read_extents(const YamlNode& node) {
    if (!expect(node.is_sequence(), node, "a list of extents, such as [B, H, Sq, Sk, D],") ||
        !few_enough(node, "extents"))
      return;
    for (const YamlNode& item : node.items)
      if (expect(item.is_scalar(), item, "the name of an extent"))
        algorithm_.extents.push_back({item.value, item.where});
  }

  void read_scalars(const YamlNode& node) {
    if (!expect(node.is_map(), node, "a map of scalars, such as {scale: 1/sqrt(D)},") || !few_enough(node, "scalars"))
      return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      Scalar scalar{node.keys[i].value, std::nullopt, node.keys[i].where};
      const YamlNode& value = node.items[i];
      if (value.kind != YamlNode::Kind::null)
        scalar.default_value = read_expr(value, false, "an expression over extents, or nothing,");
      algorithm_.scalars.push_back(std::move(scalar));
    }
  }

  void read_inputs(const YamlNode& node) {
    if (!expect(node.is_map(), node, "a map of inputs, such as {Q: [B, H, Sq, D]},") || !few_enough(node, "inputs"))
      return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) read_input(node.keys[i], node.items[i]);
  }

  void read_input(const YamlNode& name, const YamlNode& node) {
    Input input{name.value, {}, std::nullopt, name.where};
    const YamlNode* dims = &node;
    if (node.is_map()) {
      for (const YamlNode& key : node.keys)
        if (key.value != "dims" && key.value != "dtype" && key.value != "monotone")
          unknown_key(key, {"dims", "dtype", "monotone"});
      dims = find(node, "dims");
      if (!dims)
        errors_.error(node.where, "'dims' of " + quoted(name.value) + " is missing", {"write {dims: [..], dtype: ..}"});
      if (const YamlNode* dtype = find(node, "dtype")) input.dtype = read_dtype(*dtype);
      if (const YamlNode* monotone = find(node, "monotone")) input.monotone = read_truth(*monotone);
    }
    if (dims) input.dims = read_dims(*dims, name.value);
    algorithm_.inputs.push_back(std::move(input));
  }

  std::vector<Expr> read_dims(const YamlNode& node, const std::string& of) {
    std::vector<Expr> dims;
    if (expect(node.is_sequence(), node, "the dimensions of " + quoted(of) + ", such as [B, H, Sq, D],"))
      for (const YamlNode& dim : node.items)
        if (auto e = read_expr(dim, true, "an extent or an expression over extents")) dims.push_back(std::move(*e));
    return dims;
  }

  bool read_truth(const YamlNode& node) {
    const bool right = node.is_scalar() && !node.quoted && (node.value == "true" || node.value == "false");
    return expect(right, node, "true or false") && node.value == "true";
  }

  std::optional<ScalarType> read_dtype(const YamlNode& node) {
    const auto type = node.is_scalar() ? parse_scalar_type(node.value) : std::nullopt;
    if (!type)
      errors_.error(node.where, "a data type expected, found " + describe(node),
                    {"f32, f16, bf16, f64, i32, i64, u8 or bool"});
    return type;
  }

  void read_axes(const YamlNode& node) {
    if (!expect(node.is_map(), node, "a map of axes, such as {j: Sk},") || !few_enough(node, "axes")) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i)
      if (auto e = read_expr(node.items[i], true, "an extent or an expression over extents")) {
        add_axis(algorithm_, node.keys[i].value, *e);
        known_.axes.insert_or_assign(node.keys[i].value, node.keys[i].where);
      }
  }

  void read_updates(const YamlNode& node) {
    if (!expect(node.is_sequence(), node, "a list of updates, each INPUT[places] = expression,") ||
        !few_enough(node, "updates"))
      return;
    const NameKinds names = name_kinds(algorithm_);
    for (const YamlNode& item : node.items) {
      if (item.is_map()) {
        errors_.error(item.where, "an update expected, found a map", {"put the line in double quotes"});
        continue;
      }
      if (!expect(item.is_scalar(), item, "an update, INPUT[places] = expression,")) continue;
      try {
        algorithm_.updates.push_back(parse_update(document_.source_of(item), names));
      } catch (const UserError& problem) {
        take(problem);
      }
    }
  }

  void read_definitions(const YamlNode& node) {
    if (!expect(node.is_sequence(), node, "a list of definitions, each NAME[axes] = expression,") ||
        !few_enough(node, "definitions"))
      return;
    const NameKinds names = name_kinds(algorithm_);
    for (const YamlNode& item : node.items) {
      if (item.is_map()) {
        // `- S[b]: ..` or a condition with ': ' in it.
        errors_.error(item.where, "a definition expected, found a map", {"put the line in double quotes"});
        known_.unread.insert(
            item.keys.empty() ? "" : item.keys.front().value.substr(0, item.keys.front().value.find_first_of("[ =")));
        continue;
      }
      if (!expect(item.is_scalar(), item, "a definition, NAME[axes] = expression,")) continue;
      try {
        algorithm_.define.push_back(parse_definition(document_.source_of(item), names));
      } catch (const UserError& problem) {
        take(problem);
        known_.unread.insert(item.value.substr(0, item.value.find_first_of("[ =")));
      }
    }
  }

  /// A list of names, or a map in which those with places of their own have dimensions.
  void read_outputs(const YamlNode& node) {
    if (!expect(node.is_sequence() || node.is_map(), node, "a list of outputs, such as [O, L],") ||
        !few_enough(node, "outputs"))
      return;
    for (std::size_t i = 0; node.is_map() && i < node.keys.size(); ++i)
      if (node.items[i].kind != YamlNode::Kind::null)
        algorithm_.output_dims[node.keys[i].value] = read_dims(node.items[i], node.keys[i].value);
    for (const YamlNode& item : node.is_map() ? node.keys : node.items) {
      if (!expect(item.is_scalar(), item, "the name of a definition")) continue;
      const bool known = algorithm_.find_func(item.value) || known_.unread.contains(item.value);
      if (!known) {
        std::vector<std::string> names(known_.unread.begin(), known_.unread.end());
        for (const Func& func : algorithm_.define) names.push_back(func.name);
        const std::string nearest = nearest_name(item.value, names);
        errors_.error(
            item.where, "output '" + quoted(item.value) + "' is not defined",
            nearest.empty() ? std::vector<std::string>{} : std::vector<std::string>{"did you mean " + nearest + "?"});
      }
      if (std::count(algorithm_.outputs.begin(), algorithm_.outputs.end(), item.value) > 0)
        errors_.error(item.where, "output '" + quoted(item.value) + "' is named twice");
      else if (known)
        algorithm_.outputs.push_back(item.value);
    }
  }

  void read_sizes(const YamlNode& node) {
    if (!expect(node.is_map(), node, "a map of sizes, such as {B: 2, Sq: 512},") || !few_enough(node, "sizes")) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& value = node.items[i];
      std::int64_t size = 0;
      const char* end = value.value.data() + value.value.size();
      const auto result = std::from_chars(value.value.data(), end, size);
      const bool number = value.is_scalar() && !value.quoted && result.ec == std::errc() && result.ptr == end;
      if (result.ec == std::errc::result_out_of_range) {
        errors_.error(value.where, "the size " + quoted(value.value) + " does not fit in 64 bits");
      } else if (expect(number, value, "the size of " + quoted(node.keys[i].value) + ", a whole number,")) {
        if (size < 0)
          errors_.error(value.where,
                        "the size of " + quoted(node.keys[i].value) + " is " + value.value + ", the least is 0");
        else if (declared_ && !algorithm_.find_extent(node.keys[i].value))
          unknown_extent(node.keys[i]);
        else
          algorithm_.sizes[node.keys[i].value] = size;
      }
    }
  }

  void unknown_extent(const YamlNode& key) {
    std::vector<std::string> names;
    for (const Extent& extent : algorithm_.extents) names.push_back(extent.name);
    const std::string nearest = nearest_name(key.value, names);
    errors_.error(
        key.where, "'" + quoted(key.value) + "' is no extent",
        nearest.empty() ? std::vector<std::string>{} : std::vector<std::string>{"did you mean " + nearest + "?"});
  }

  const YamlDocument& document_;
  Diagnostics& errors_;
  Algorithm algorithm_;
  Known known_;
  bool declared_ = true;
  /// Keys that unknown ones are near to.
  std::set<std::string> meant_;
};

}  // namespace

Algorithm parse_algorithm(const std::string& text, const std::string& file) {
  Diagnostics found;
  const YamlDocument document(text, file, found);
  AlgorithmReader reader(document, found);
  Algorithm algorithm = reader.read();
  if (reader.declared()) check_into(algorithm, reader.known(), found);
  Diagnostics errors;
  for (const Diagnostic& d : found.problems()) {
    if (errors.size() >= kMostProblems) break;
    Location where = d.where;
    if (where.text.empty()) where.text = document.line(where.line);
    errors.error(where, d.message, d.notes);
  }
  errors.throw_if_any();
  return algorithm;
}

}  // namespace astatide
