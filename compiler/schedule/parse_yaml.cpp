#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include "compiler/algorithm/names.h"
#include "compiler/algorithm/yaml_document.h"
#include "compiler/schedule/directives.h"
#include "compiler/schedule/schedule_tree.h"

namespace astatide {
namespace {

std::vector<std::string> suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest_name(word, candidates);
  if (!near.empty()) return {"did you mean " + near + "?"};
  return {"known are " + join(candidates)};
}

class Parser {
 public:
  explicit Parser(Diagnostics& errors) : errors_(errors) {}

  Schedule parse(const YamlNode& root) {
    schedule_.where = root.where;
    if (root.kind == YamlNode::Kind::null) {
      errors_.error(root.where, "the file is empty, wanted is a schedule: a map of names to directives");
    } else if (root.kind != YamlNode::Kind::map) {
      errors_.error(root.where, describe(root) + ", wanted is a schedule: a map of names to directives");
    } else {
      for_each_entry(root, [&](const std::string& key, const YamlNode& at, const YamlNode& value) {
        parse_entry(key, at, value);
      });
    }
    return std::move(schedule_);
  }

 private:
  template <class F>
  static void for_each_entry(const YamlNode& map, F f) {
    for (std::size_t n = 0; n < map.items.size(); ++n) f(map.keys[n].value, map.keys[n], map.items[n]);
  }

  void wrong_type(const YamlNode& value, const std::string& key, const std::string& wanted) {
    errors_.error(value.where, quoted(key) + ": " + describe(value) + ", wanted is " + wanted);
  }

  void parse_entry(const std::string& key, const YamlNode& at, const YamlNode& value) {
    const DirectiveInfo* info = find_directive(key);
    if (info != nullptr && (info->sites & kTopLevel) != 0) {
      if (info->form == ValueForm::extent_numbers) return parse_numbers(value, *info, schedule_.bound);
      if (info->form == ValueForm::role_numbers) return parse_warps(value, *info);
      schedule_.places[key] = value.where;
      if (info->form == ValueForm::extents) {
        if (const auto names = parse_list(value, *info)) schedule_.known = std::get<std::vector<std::string>>(*names);
        return;
      }
      if (info->form == ValueForm::service) return parse_serves(value, *info);
      if (info->form == ValueForm::flag)
        return parse_flag(value, key,
                          key == "fast_math"       ? schedule_.fast_math
                          : key == "deterministic" ? schedule_.deterministic
                                                   : schedule_.dependent_launch);
      return info->form == ValueForm::target ? parse_target(value) : parse_rewrite(value);
    }
    if (info != nullptr) {
      errors_.error(at.where, key + " is no key of the top level, it belongs to " + describe_sites(info->sites),
                    {"NAME: {" + key + ": ...}"});
      return;
    }
    if (value.kind != YamlNode::Kind::map) {
      std::vector<std::string> notes = suggestion(key, directive_keys(kTopLevel));
      errors_.error(
          at.where,
          "'" + quoted(key) + "' is no key of the top level, and " + describe(value) + " is no map of directives",
          notes);
      return;
    }
    parse_placement(key, at, value);
  }

  void parse_numbers(const YamlNode& value, const DirectiveInfo& info, AxisNumbers& into) {
    auto numbers = axis_numbers(value, std::string(info.key), describe_form(info.form));
    if (!numbers) return;
    into = std::move(*numbers);
    schedule_.places[std::string(info.key)] = value.where;
  }

  /// {producer: 1, consumer: 2, alternate: true}
  void parse_warps(const YamlNode& value, const DirectiveInfo& info) {
    YamlNode roles = value;
    roles.keys.clear(), roles.items.clear();
    if (value.is_map())
      for_each_entry(value, [&](const std::string& key, const YamlNode& at, const YamlNode& item) {
        if (key == "alternate") {
          schedule_.places["alternate"] = item.where;
          return parse_flag(item, key, schedule_.alternate);
        }
        if (boolean(item) && key != "producer" && key != "consumer") {
          errors_.error(at.where, "unknown key '" + quoted(key) + "' of warps",
                        suggestion(key, {"producer", "consumer", "alternate"}));
          return;
        }
        roles.keys.push_back(at);
        roles.items.push_back(item);
      });
    parse_numbers(roles, info, schedule_.warps);
  }

  /// {dtype: [f16, bf16], lengths: {i: [1, 16], d: 128}, rank: 2}
  void parse_serves(const YamlNode& value, const DirectiveInfo& info) {
    if (!value.is_map() || value.items.empty())
      return wrong_type(value, std::string(info.key), describe_form(info.form));
    Serves serves;
    for_each_entry(value, [&](const std::string& key, const YamlNode& at, const YamlNode& item) {
      if (key == "dtype") return parse_types(item, serves.dtypes);
      if (key == "lengths") return parse_lengths(item, serves.lengths);
      if (key != "rank") {
        errors_.error(at.where, "unknown key '" + quoted(key) + "' of serves",
                      suggestion(key, {"dtype", "lengths", "rank"}));
      } else if (const auto rank = integer(item)) {
        serves.rank = saturated(*rank);
      } else {
        wrong_type(item, key, "an integer");
      }
    });
    schedule_.serves = std::move(serves);
  }

  void parse_types(const YamlNode& value, std::vector<ScalarType>& into) {
    if (value.kind != YamlNode::Kind::sequence || value.items.empty())
      return wrong_type(value, "dtype", "a list of types, such as [f16, bf16]");
    for (const YamlNode& item : value.items) {
      const auto type = item.is_scalar() ? parse_scalar_type(item.value) : std::nullopt;
      if (type) {
        into.push_back(*type);
      } else {
        errors_.error(item.where, "dtype: " + describe(item) + " is no type",
                      suggestion(item.value, {"f32", "f16", "bf16"}));
      }
    }
  }

  void parse_lengths(const YamlNode& value, std::vector<LengthRange>& into) {
    if (!value.is_map() || value.items.empty())
      return wrong_type(value, "lengths", "a map of axes to ranges, such as {i: [1, 16], d: 128}");
    for_each_entry(value, [&](const std::string& axis, const YamlNode&, const YamlNode& item) {
      const bool pair = item.kind == YamlNode::Kind::sequence && item.items.size() == 2;
      const YamlNode& last = pair ? item.items[1] : item;
      const auto least = integer(pair ? item.items[0] : item);
      const auto most = pair && last.is_scalar() && last.value == "inf" ? LengthRange::kUnlimited : integer(last);
      if (least && most) {
        into.push_back({axis, *least, *most});
      } else {
        wrong_type(item, axis, "a length or the least and the most, such as 128, [1, 16] or [1024, inf]");
      }
    });
  }

  void parse_flag(const YamlNode& value, const std::string& key, bool& into) {
    const std::optional<bool> flag = boolean(value);
    if (!flag) return wrong_type(value, key, describe_form(ValueForm::flag));
    if (!*flag) errors_.error(value.where, key + ": false would have no effect", {"leave the key out"});
    into = *flag;
  }

  void parse_target(const YamlNode& value) {
    if (value.is_scalar()) {
      schedule_.target = value.value;
    } else {
      wrong_type(value, "target", describe_form(ValueForm::target));
    }
  }

  void parse_rewrite(const YamlNode& value) {
    if (value.is_scalar() && value.value == "none") {
      schedule_.rewrite = RewriteMode::none;
    } else if (value.is_scalar() && value.value == "online") {
      schedule_.rewrite = RewriteMode::online;
    } else if (value.is_scalar()) {
      errors_.error(value.where, "unknown rewrite '" + quoted(value.value) + "'",
                    suggestion(value.value, {"none", "online"}));
    } else if (value.kind == YamlNode::Kind::map) {
      parse_rewrite_options(value);
    } else {
      wrong_type(value, "rewrite", describe_form(ValueForm::rewrite));
    }
  }

  /// {online: {rescale: lazy, grow: 30}}
  void parse_rewrite_options(const YamlNode& value) {
    if (value.items.empty()) wrong_type(value, "rewrite", describe_form(ValueForm::rewrite));
    for_each_entry(value, [&](const std::string& mode, const YamlNode& at, const YamlNode& options) {
      if (mode != "online") {
        const std::string why = mode == "none" ? "none takes no options" : "unknown rewrite '" + quoted(mode) + "'";
        errors_.error(at.where, why, suggestion(mode, {"none", "online"}));
        return;
      }
      if (options.kind != YamlNode::Kind::map || options.items.empty())
        return wrong_type(options, mode, "{rescale: lazy}");
      for_each_entry(options, [&](const std::string& key, const YamlNode& where, const YamlNode& option) {
        if (key == "rescale") {
          parse_rescale(option);
        } else if (key == "grow" || key == "over") {
          if (const auto number = integer(option)) {
            (key == "grow" ? schedule_.rescale.grow : schedule_.rescale.over) = saturated(*number);
            schedule_.places[key] = option.where;
          } else {
            wrong_type(option, key, "an integer");
          }
        } else {
          errors_.error(where.where, "unknown key '" + quoted(key) + "' of online",
                        suggestion(key, {"rescale", "grow", "over"}));
        }
      });
    });
  }

  void parse_rescale(const YamlNode& word) {
    const std::vector<std::string> modes{"plain", "lazy", "optimistic"};
    if (!word.is_scalar()) return wrong_type(word, "rescale", join(modes));
    for (const RescaleMode mode : {RescaleMode::plain, RescaleMode::lazy, RescaleMode::optimistic}) {
      if (word.value != name_of(mode)) continue;
      schedule_.rescale.mode = mode;
      schedule_.places["rescale"] = word.where;
      return;
    }
    errors_.error(word.where, "unknown rescale '" + quoted(word.value) + "'", suggestion(word.value, modes));
  }

  /// An int; what it can't hold is out of every range that is checked.
  static int saturated(std::int64_t number) {
    return static_cast<int>(
        std::clamp<std::int64_t>(number, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
  }

  void parse_placement(const std::string& name, const YamlNode& at, const YamlNode& value) {
    Placement placement;
    placement.name = name;
    placement.where = at.where;
    bool understood = true;
    for_each_entry(value, [&](const std::string& key, const YamlNode& key_at, const YamlNode& directive) {
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
        if (const auto flag = boolean(value)) return *flag;
        break;
      case ValueForm::integer:
        if (const auto number = integer(value)) return *number;
        break;
      case ValueForm::spaces:
        if (!value.is_scalar()) return parse_list(value, info);
        return value.value;
      case ValueForm::loop:
      case ValueForm::word:
        if (value.is_scalar()) return value.value;
        break;
      case ValueForm::integer_pair:
      case ValueForm::loops:
        return parse_list(value, info);
      case ValueForm::axis_numbers:
        if (auto numbers = axis_numbers(value, key, describe_form(info.form))) return std::move(*numbers);
        return std::nullopt;
      case ValueForm::axis_parts:
        return parse_axis_parts(value, info);
      case ValueForm::axis_lists:
        return parse_axis_lists(value, info);
      case ValueForm::part:
        return parse_part(value, info);
      default:
        throw InternalError("a directive with the value of a top-level key");
    }
    wrong_type(value, key, describe_value(info));
    return std::nullopt;
  }

  std::optional<DirectiveValue> parse_list(const YamlNode& value, const DirectiveInfo& info) {
    if (value.kind != YamlNode::Kind::sequence) {
      wrong_type(value, std::string(info.key), describe_form(info.form));
      return std::nullopt;
    }
    const bool of_names = info.form != ValueForm::integer_pair;
    std::vector<std::string> names;
    std::vector<std::int64_t> numbers;
    bool right = true;
    for (const YamlNode& item : value.items) {
      const auto number = integer(item);
      if (of_names ? item.is_scalar() : number.has_value()) {
        names.push_back(item.value);
        numbers.push_back(number.value_or(0));
      } else {
        wrong_type(item, std::string(info.key), describe_form(info.form));
        right = false;
      }
    }
    if (!right) return std::nullopt;
    if (of_names) return DirectiveValue(std::move(names));
    return DirectiveValue(std::move(numbers));
  }

  /// {j: [j.s, 16]}, {j: [j.s, auto, j.w, 8]}
  std::optional<DirectiveValue> parse_axis_parts(const YamlNode& value, const DirectiveInfo& info) {
    const std::string key(info.key);
    const YamlNode* pair = value.kind == YamlNode::Kind::map && !value.items.empty() ? &value.items[0] : nullptr;
    const bool in_pairs = pair != nullptr && pair->kind == YamlNode::Kind::sequence &&
                          (pair->items.size() == 2 || pair->items.size() == 4);
    if (!in_pairs || !pair->items[0].is_scalar() || !pair->items[pair->items.size() - 2].is_scalar()) {
      wrong_type(value, key, describe_value(info));
      return std::nullopt;
    }
    if (value.items.size() > 1) {
      errors_.error(value.keys[1].where, key + ": " + quoted(value.keys[1].value) + " is one entry too many",
                    {"what there is: the one axis that is reduced, in parts"});
      return std::nullopt;
    }
    AxisParts parts{value.keys[0].value, pair->items[0].value};
    if (pair->items.size() == 4) {
      const auto teams = integer(pair->items[3]);
      if (!teams) {
        errors_.error(pair->items[3].where,
                      key + ": " + describe(pair->items[3]) + ", wanted is the number of teams of a block",
                      {"{j: [j.s, auto, j.w, 8]}: eight teams of the threads that threads says"});
        return std::nullopt;
      }
      parts.team_loop = pair->items[2].value;
      parts.teams = *teams;
    }
    const YamlNode& how = pair->items[1];
    if (how.is_scalar() && how.value == "auto") return parts;
    const YamlNode* size = how.kind == YamlNode::Kind::map && how.keys.size() == 1 ? &how.items[0] : nullptr;
    const auto number = integer(size != nullptr ? *size : how);
    // 0 stands for what is not written.
    if (number && *number != 0 && size == nullptr) {
      parts.parts = *number;
    } else if (number && *number != 0 && how.keys[0].value == "split_size") {
      parts.size = *number;
    } else {
      errors_.error(
          how.where, key + ": " + describe(how) + ", wanted is the number of parts",
          {std::to_string(info.least) + " to " + std::to_string(info.most) + ", fixed when the kernel is compiled",
           "auto: as many as fill the machine, chosen by each launch",
           "{split_size: 1024}: as many as there are 1024 elements"});
      return std::nullopt;
    }
    return parts;
  }

  /// {r: [g, i]}
  std::optional<DirectiveValue> parse_axis_lists(const YamlNode& value, const DirectiveInfo& info) {
    AxisLists lists;
    bool right = value.kind == YamlNode::Kind::map;
    if (!right) wrong_type(value, std::string(info.key), describe_value(info));
    for (std::size_t n = 0; right && n < value.items.size(); ++n) {
      auto list = parse_list(value.items[n], info);
      right = list.has_value();
      if (right) lists.emplace_back(value.keys[n].value, std::get<std::vector<std::string>>(std::move(*list)));
    }
    return right ? std::optional<DirectiveValue>(std::move(lists)) : std::nullopt;
  }

  /// {cover: 1/2}
  std::optional<DirectiveValue> parse_part(const YamlNode& value, const DirectiveInfo& info) {
    if (value.kind != YamlNode::Kind::map || value.items.empty()) {
      wrong_type(value, std::string(info.key), describe_value(info));
      return std::nullopt;
    }
    const std::string wanted(info.words[0]);
    std::optional<DirectiveValue> out;
    for_each_entry(value, [&](const std::string& key, const YamlNode& at, const YamlNode& part) {
      if (key != wanted) {
        errors_.error(at.where, "unknown key '" + quoted(key) + "' of " + std::string(info.key),
                      suggestion(key, {wanted}));
      } else if (const auto number = fraction(part)) {
        out = *number;
      } else {
        wrong_type(part, key, "a part of the " + std::string(info.words[1]) + ", such as 1/2");
      }
    });
    return out;
  }

  static std::optional<bool> boolean(const YamlNode& value) {
    if (!value.is_scalar() || value.quoted || (value.value != "true" && value.value != "false")) return std::nullopt;
    return value.value == "true";
  }

  /// 1/2, or a whole number.
  static std::optional<Fraction> fraction(const YamlNode& value) {
    if (const auto whole = integer(value)) return Fraction{*whole, 1};
    if (!value.is_scalar() || value.quoted) return std::nullopt;
    const std::size_t bar = value.value.find('/');
    if (bar == std::string::npos) return std::nullopt;
    YamlNode part = value, whole = value;
    part.value = value.value.substr(0, bar);
    whole.value = value.value.substr(bar + 1);
    const auto above = integer(part), below = integer(whole);
    if (!above || !below) return std::nullopt;
    return Fraction{*above, *below};
  }

  std::optional<AxisNumbers> axis_numbers(const YamlNode& value, const std::string& key, const std::string& wanted) {
    if (value.kind != YamlNode::Kind::map) {
      wrong_type(value, key, wanted);
      return std::nullopt;
    }
    AxisNumbers numbers;
    bool right = true;
    for_each_entry(value, [&](const std::string& axis, const YamlNode&, const YamlNode& item) {
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
    if (!value.is_scalar() || value.quoted) return std::nullopt;
    const std::string& text = value.value;
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

Schedule parse_schedule_tree(const YamlNode& root, const std::string& file, const std::string& name,
                             Diagnostics& errors) {
  Schedule schedule = Parser(errors).parse(root);
  schedule.name = name;
  schedule.where = {file, 0, 0, ""};  // what is said of the whole has no line
  check_schedule_values(schedule, errors);
  return schedule;
}

Schedule parse_schedule(const std::string& text, const std::string& file) {
  Diagnostics errors;
  Schedule schedule = parse_schedule_tree(YamlDocument(text, file, errors).root(), file,
                                          std::filesystem::path(file).stem().string(), errors);
  errors.throw_if_any();
  return schedule;
}

}  // namespace astatide
