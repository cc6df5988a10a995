#include <charconv>
#include <filesystem>

#include "compiler/algorithm/names.h"
#include "compiler/schedule/directives.h"
#include "compiler/schedule/schedule.h"
#include "compiler/schedule/yaml_tree.h"

namespace astatide {
namespace {

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::vector<std::string> suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest_name(word, candidates);
  if (!near.empty()) return {"did you mean " + near + "?"};
  return {"known are " + listed(candidates)};
}

class Parser {
 public:
  explicit Parser(Diagnostics& errors) : errors_(errors) {}

  Schedule parse(const YamlNode& root) {
    schedule_.where = root.where;
    if (root.kind == YamlNode::Kind::null) {
      errors_.error(root.where, "the file is empty, wanted is a schedule: a mapping of names to directives");
    } else if (root.kind != YamlNode::Kind::mapping) {
      errors_.error(root.where, root.describe() + ", wanted is a schedule: a mapping of names to directives");
    } else {
      for_each_entry(root, "", [&](const std::string& key, const YamlNode& at, const YamlNode& value) {
        parse_entry(key, at, value);
      });
    }
    return std::move(schedule_);
  }

 private:
  /// Calls `f` with each key that is a word, once: keys of another kind and repeated ones are reported.
  template <class F>
  void for_each_entry(const YamlNode& mapping, const std::string& of, F f) {
    std::map<std::string, Location> seen;
    for (const auto& [key, value] : mapping.entries) {
      if (!key.is_scalar()) {
        errors_.error(key.where, key.describe() + " as a key, wanted is a name");
        continue;
      }
      const auto [first, is_new] = seen.emplace(key.text, key.where);
      if (!is_new) {
        errors_.error(key.where, quoted(key.text) + of + " is given twice",
                      {"first in line " + std::to_string(first->second.line)});
        continue;
      }
      f(key.text, key, value);
    }
  }

  void wrong_type(const YamlNode& value, const std::string& key, const std::string& wanted) {
    errors_.error(value.where, quoted(key) + ": " + value.describe() + ", wanted is " + wanted);
  }

  void parse_entry(const std::string& key, const YamlNode& at, const YamlNode& value) {
    const DirectiveInfo* info = find_directive(key);
    if (info != nullptr && (info->sites & kTopLevel) != 0) {
      if (info->form == ValueForm::extent_numbers) return parse_bound(value, *info);
      schedule_.places[key] = value.where;
      return info->form == ValueForm::target ? parse_target(value) : parse_rewrite(value);
    }
    if (info != nullptr) {
      errors_.error(at.where, key + " is no key of the top level, it belongs to " + describe_sites(info->sites),
                    {"NAME: {" + key + ": ...}"});
      return;
    }
    if (value.kind != YamlNode::Kind::mapping) {
      std::vector<std::string> notes = suggestion(key, directive_keys(kTopLevel));
      errors_.error(
          at.where,
          "'" + quoted(key) + "' is no key of the top level, and " + value.describe() + " is no mapping of directives",
          notes);
      return;
    }
    parse_placement(key, at, value);
  }

  void parse_bound(const YamlNode& value, const DirectiveInfo& info) {
    auto numbers = axis_numbers(value, std::string(info.key), describe_form(info.form));
    if (!numbers) return;
    schedule_.bound = std::move(*numbers);
    schedule_.places["bound"] = value.where;
  }

  void parse_target(const YamlNode& value) {
    if (value.is_scalar()) {
      schedule_.target = value.text;
    } else {
      wrong_type(value, "target", describe_form(ValueForm::target));
    }
  }

  void parse_rewrite(const YamlNode& value) {
    if (value.is_scalar() && value.text == "none") {
      schedule_.rewrite = RewriteMode::none;
    } else if (value.is_scalar() && value.text == "online") {
      schedule_.rewrite = RewriteMode::online;
    } else if (value.is_scalar()) {
      errors_.error(value.where, "unknown rewrite '" + quoted(value.text) + "'",
                    suggestion(value.text, {"none", "online"}));
    } else if (value.kind == YamlNode::Kind::mapping) {
      parse_rewrite_options(value);
    } else {
      wrong_type(value, "rewrite", describe_form(ValueForm::rewrite));
    }
  }

  /// {online: {rescale: plain}}
  void parse_rewrite_options(const YamlNode& value) {
    if (value.entries.empty()) wrong_type(value, "rewrite", describe_form(ValueForm::rewrite));
    for_each_entry(value, " in rewrite", [&](const std::string& mode, const YamlNode& at, const YamlNode& options) {
      if (mode != "online") {
        const std::string why = mode == "none" ? "none takes no options" : "unknown rewrite '" + quoted(mode) + "'";
        errors_.error(at.where, why, suggestion(mode, {"none", "online"}));
        return;
      }
      if (options.kind != YamlNode::Kind::mapping || options.entries.empty())
        return wrong_type(options, mode, "{rescale: plain}");
      for_each_entry(options, " in online", [&](const std::string& key, const YamlNode& where, const YamlNode& word) {
        if (key != "rescale") {
          errors_.error(where.where, "unknown key '" + quoted(key) + "' of online", suggestion(key, {"rescale"}));
        } else if (!word.is_scalar()) {
          wrong_type(word, key, "plain");
        } else if (word.text == "lazy" || word.text == "optimistic") {
          errors_.error(word.where, "rescale: " + word.text + " is refused: no instruction family here has it yet",
                        {"rescale: plain"});
        } else if (word.text != "plain") {
          errors_.error(word.where, "unknown rescale '" + quoted(word.text) + "'", suggestion(word.text, {"plain"}));
        }
      });
    });
  }

  void parse_placement(const std::string& name, const YamlNode& at, const YamlNode& value) {
    Placement placement;
    placement.name = name;
    placement.where = at.where;
    bool understood = true;
    for_each_entry(value, " of " + quoted(name),
                   [&](const std::string& key, const YamlNode& key_at, const YamlNode& directive) {
                     const DirectiveInfo* info = find_directive(key);
                     if (info == nullptr) {
                       errors_.error(key_at.where, "unknown directive '" + quoted(key) + "' of " + quoted(name),
                                     suggestion(key, directive_keys(~static_cast<unsigned>(kTopLevel))));
                     } else if (!info->kind) {
                       errors_.error(key_at.where, key + " is a key of the top level, not of " + quoted(name));
                     } else if (auto parsed = parse_value(directive, *info)) {
                       placement.directives.push_back({*info->kind, std::move(*parsed), directive.where});
                       return;
                     }
                     understood = false;
                   });
    // A name without any directive is refused by check_schedule_values; here it would be a second report of one fault.
    if (understood || !placement.directives.empty()) schedule_.placements.push_back(std::move(placement));
  }

  std::optional<DirectiveValue> parse_value(const YamlNode& value, const DirectiveInfo& info) {
    const std::string key(info.key);
    switch (info.form) {
      case ValueForm::flag:
        if (value.kind == YamlNode::Kind::plain && (value.text == "true" || value.text == "false"))
          return value.text == "true";
        break;
      case ValueForm::integer:
        if (const auto number = integer(value)) return *number;
        break;
      case ValueForm::loop:
      case ValueForm::space:
        if (value.is_scalar()) return value.text;
        break;
      case ValueForm::integer_pair:
      case ValueForm::loops:
        return parse_list(value, info);
      case ValueForm::axis_numbers:
        if (auto numbers = axis_numbers(value, key, describe_form(info.form))) return std::move(*numbers);
        return std::nullopt;
      default:
        throw InternalError("a directive with the value of a top-level key");
    }
    wrong_type(value, key, describe_form(info.form));
    return std::nullopt;
  }

  std::optional<DirectiveValue> parse_list(const YamlNode& value, const DirectiveInfo& info) {
    if (value.kind != YamlNode::Kind::sequence) {
      wrong_type(value, std::string(info.key), describe_form(info.form));
      return std::nullopt;
    }
    std::vector<std::string> names;
    std::vector<std::int64_t> numbers;
    bool right = true;
    for (const YamlNode& item : value.items) {
      const auto number = integer(item);
      if (info.form == ValueForm::loops ? item.is_scalar() : number.has_value()) {
        names.push_back(item.text);
        numbers.push_back(number.value_or(0));
      } else {
        wrong_type(item, std::string(info.key), describe_form(info.form));
        right = false;
      }
    }
    if (!right) return std::nullopt;
    if (info.form == ValueForm::loops) return DirectiveValue(std::move(names));
    return DirectiveValue(std::move(numbers));
  }

  std::optional<AxisNumbers> axis_numbers(const YamlNode& value, const std::string& key, const std::string& wanted) {
    if (value.kind != YamlNode::Kind::mapping) {
      wrong_type(value, key, wanted);
      return std::nullopt;
    }
    AxisNumbers numbers;
    bool right = true;
    for_each_entry(value, " in " + key, [&](const std::string& axis, const YamlNode&, const YamlNode& item) {
      const auto number = integer(item);
      if (number) {
        numbers.emplace_back(axis, *number);
      } else {
        wrong_type(item, axis, "an integer");
        right = false;
      }
    });
    return right ? std::optional(std::move(numbers)) : std::nullopt;
  }

  /// Decimal digits, perhaps with a sign, written without quotes; no leading zero, which YAML 1.1 takes for octal.
  static std::optional<std::int64_t> integer(const YamlNode& value) {
    if (value.kind != YamlNode::Kind::plain) return std::nullopt;
    const std::string& text = value.text;
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (std::to_string(number) != text) return std::nullopt;
    return number;
  }

  Diagnostics& errors_;
  Schedule schedule_;
};

}  // namespace

Schedule parse_schedule(const std::string& text, const std::string& file) {
  Diagnostics errors;
  Schedule schedule = Parser(errors).parse(read_yaml(text, file));
  schedule.name = std::filesystem::path(file).stem().string();
  schedule.where.file = file;
  check_schedule_values(schedule, errors);
  errors.throw_if_any();
  return schedule;
}

}  // namespace astatide
