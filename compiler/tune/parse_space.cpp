#include <algorithm>
#include <filesystem>
#include <set>

#include "compiler/algorithm/names.h"
#include "compiler/schedule/directives.h"
#include "compiler/schedule/schedule_tree.h"
#include "compiler/support/characters.h"
#include "compiler/tune/space_state.h"

namespace astatide {
namespace {

constexpr std::size_t kMostValues = 4096;  // of one axis

/// What of a directive's value is a list without alternatives.
enum class Leaf { scalar, list };

class SpaceParser {
 public:
  SpaceParser(const std::string& file, const std::string& name, Diagnostics& errors) : errors_(errors) {
    state_->file = file;
    state_->name = name;
  }

  ScheduleSpace parse(const YamlNode& root) {
    state_->base = root;
    state_->base.keys.clear(), state_->base.items.clear();
    const YamlNode *choose = nullptr, *where = nullptr;
    if (!root.is_map())
      throw UserError(root.where, describe(root) + ", wanted is a space: a schedule with alternatives");
    for (std::size_t n = 0; n < root.items.size(); ++n) {
      const std::string& key = root.keys[n].value;
      if (key == "choose") {
        choose = &root.items[n];
      } else if (key == "where") {
        where = &root.items[n];
      } else {
        state_->base.keys.push_back(root.keys[n]);
        state_->base.items.push_back(root.items[n]);
      }
    }
    for (std::size_t n = 0; n < state_->base.items.size(); ++n) find_choices(n);
    if (choose != nullptr) parse_choose(*choose);
    if (where != nullptr) parse_where(*where);
    if (state_->axes.empty() && errors_.empty())
      errors_.error(
          root.where, "the space has one point: nothing in it is a list of values or a range",
          {"tile: {i: [64, 128]}", "choose: {ring: {two: {K: {ring_buffer: 2}}, three: {K: {ring_buffer: 3}}}}"});
    errors_.throw_if_any();
    ScheduleSpace space(state_);
    space.points();
    check_alternatives(space);
    return space;
  }

 private:
  using Path = std::vector<std::size_t>;

  YamlNode& at(const Path& path) {
    YamlNode* node = &state_->base;
    for (const std::size_t item : path) node = &node->items[item];
    return *node;
  }

  /// An entry of the top level: a directive of it, or the directives of a name.
  void find_choices(std::size_t entry) {
    const std::string& key = state_->base.keys[entry].value;
    if (const DirectiveInfo* info = find_directive(key)) return find_in_value(*info, {entry}, key);
    const YamlNode& directives = state_->base.items[entry];
    for (std::size_t n = 0; directives.is_map() && n < directives.items.size(); ++n)
      if (const DirectiveInfo* info = find_directive(directives.keys[n].value))
        find_in_value(*info, {entry, n}, key + "." + directives.keys[n].value);
  }

  void find_in_value(const DirectiveInfo& info, const Path& path, const std::string& name) {
    switch (info.form) {
      case ValueForm::target:
      case ValueForm::service:
      case ValueForm::extents:
      case ValueForm::extent_numbers:
        return;  // one for all points
      case ValueForm::flag:
      case ValueForm::integer:
      case ValueForm::loop:
      case ValueForm::word:
        return add_axis(path, name, Leaf::scalar);
      case ValueForm::integer_pair:
      case ValueForm::loops:
      case ValueForm::spaces:
        return add_axis(path, name, Leaf::list);
      case ValueForm::axis_numbers:
      case ValueForm::role_numbers:
      case ValueForm::rewrite:
      case ValueForm::part:
        return find_in_map(path, name, Leaf::scalar);
      case ValueForm::axis_lists:
        return find_in_map(path, name, Leaf::list);
      case ValueForm::axis_parts:
        for (std::size_t n = 0; at(path).is_map() && n < at(path).items.size(); ++n) {
          const YamlNode& pair = at(path).items[n];
          if (!pair.is_sequence() || pair.items.size() != 2) continue;
          Path inner = path;
          inner.insert(inner.end(), {n, 1});
          add_axis(inner, name + "." + at(path).keys[n].value, Leaf::scalar);
        }
        return;
    }
  }

  void find_in_map(const Path& path, const std::string& name, Leaf leaf) {
    if (!at(path).is_map()) return add_axis(path, name, leaf);
    for (std::size_t n = 0; n < at(path).items.size(); ++n) {
      Path inner = path;
      inner.push_back(n);
      find_in_map(inner, name + "." + at(path).keys[n].value, leaf);
    }
  }

  /// The value at `path` is an axis where it is a list of alternatives, or a range.
  void add_axis(const Path& path, const std::string& name, Leaf leaf) {
    const YamlNode& value = at(path);
    std::vector<YamlNode> alternatives;
    if (leaf == Leaf::scalar && value.is_scalar() && !value.quoted && value.value.starts_with("range")) {
      alternatives = range_of(value, name);
    } else if (value.is_sequence()) {
      const bool of_lists =
          std::any_of(value.items.begin(), value.items.end(), [](const auto& item) { return item.is_sequence(); });
      if (leaf == Leaf::list && !of_lists) return;
      for (const YamlNode& item : value.items) {
        if (leaf == Leaf::scalar && item.is_scalar() && !item.quoted && item.value.starts_with("range")) {
          for (YamlNode& number : range_of(item, name)) alternatives.push_back(std::move(number));
        } else {
          alternatives.push_back(item);
        }
      }
      if (alternatives.empty()) errors_.error(value.where, name + ": a list without alternatives");
    } else {
      return;
    }
    add_axis(name, value.where, path, std::move(alternatives));
  }

  void add_axis(const std::string& name, const Location& where, const Path& path, std::vector<YamlNode> alternatives) {
    if (alternatives.empty()) return;
    at(path) = alternatives.front();
    if (alternatives.size() == 1) return;
    SpaceAxis axis{name, {}, true, where};
    std::set<std::string> seen;
    std::vector<double> numbers;
    for (const YamlNode& value : alternatives) {
      axis.values.push_back(text_of(value));
      if (!seen.insert(axis.values.back()).second)
        errors_.error(value.where, name + ": " + quoted(axis.values.back()) + " is given twice");
      YamlNode map = value;
      map.kind = YamlNode::Kind::map;
      map.keys = {value}, map.items = {value};
      map.keys[0].value = "value";
      if (const auto number = number_at(map, "value"); number && value.is_scalar()) numbers.push_back(*number);
    }
    axis.ordered = numbers.size() == alternatives.size() &&
                   (std::is_sorted(numbers.begin(), numbers.end()) || std::is_sorted(numbers.rbegin(), numbers.rend()));
    if (alternatives.size() > kMostValues)
      errors_.error(where, name + " has " + std::to_string(alternatives.size()) + " values, the limit is " +
                               std::to_string(kMostValues));
    state_->axes.push_back(std::move(axis));
    state_->choices.push_back({path, std::move(alternatives)});
  }

  static std::string text_of(const YamlNode& value) {
    if (value.is_scalar()) return value.value;
    std::string text;
    for (std::size_t n = 0; n < value.items.size(); ++n)
      text += (n == 0 ? "" : ", ") + (value.is_map() ? value.keys[n].value + ": " : "") + text_of(value.items[n]);
    return value.is_map() ? "{" + text + "}" : "[" + text + "]";
  }

  /// range(32, 256, 16): 32, 48 .. 256. Commas have become semicolons.
  std::vector<YamlNode> range_of(const YamlNode& value, const std::string& name) {
    const std::string wrong = name + ": '" + quoted(with_commas(value.value)) + "' is no range";
    const std::vector<std::string> how{
        "range(first, last, step), such as range(32, 256, 16); last is one of the values where a step hits it"};
    std::vector<std::int64_t> numbers;
    std::string rest = value.value.substr(5);
    std::erase(rest, ' ');
    bool right = rest.size() > 2 && rest.front() == '(' && rest.back() == ')';
    if (right) {
      rest = rest.substr(1, rest.size() - 2) + ";";
      for (std::size_t begin = 0; right && begin < rest.size();) {
        const std::size_t end = rest.find(';', begin);
        const std::string digits = rest.substr(begin, end - begin);
        right = !digits.empty() && digits.size() < 16 && std::all_of(digits.begin(), digits.end(), is_digit);
        if (right) numbers.push_back(std::stoll(digits));
        begin = end + 1;
      }
    }
    if (!right || numbers.size() != 3 || numbers[2] == 0 || numbers[1] < numbers[0]) {
      errors_.error(value.where, wrong, how);
      return {};
    }
    if ((numbers[1] - numbers[0]) / numbers[2] >= static_cast<std::int64_t>(kMostValues)) {
      errors_.error(value.where, name + ": the range has " +
                                     std::to_string((numbers[1] - numbers[0]) / numbers[2] + 1) +
                                     " values, the limit is " + std::to_string(kMostValues));
      return {};
    }
    std::vector<YamlNode> out;
    for (std::int64_t number = numbers[0]; number <= numbers[1]; number += numbers[2]) {
      out.push_back(value);
      out.back().value = std::to_string(number);
    }
    return out;
  }

  static std::string with_commas(std::string text) {
    std::replace(text.begin(), text.end(), ';', ',');
    return text;
  }

  /// choose: {NAME: {VARIANT: {K: {ring_buffer: 3}}, ..}}
  void parse_choose(const YamlNode& choose) {
    const std::vector<std::string> how{"choose: {NAME: {VARIANT: {a part of a schedule}, OTHER: {..}}}"};
    if (!choose.is_map() || choose.items.empty()) {
      errors_.error(choose.where, "choose: " + describe(choose) + ", wanted are names with variants", how);
      return;
    }
    std::vector<std::pair<std::string, std::string>> taken;  // place, and what has a value there
    for (const std::string& place : places_in(state_->base)) taken.emplace_back(place, "");
    for (std::size_t n = 0; n < choose.items.size(); ++n) {
      const std::string& name = choose.keys[n].value;
      const YamlNode& variants = choose.items[n];
      if (!variants.is_map() || variants.items.empty()) {
        errors_.error(variants.where, "choose " + quoted(name) + ": " + describe(variants) + ", wanted are variants",
                      how);
        continue;
      }
      std::vector<std::pair<std::string, std::string>> own;
      SpaceAxis axis{name, {}, false, choose.keys[n].where};
      SpaceChoice choice;
      for (std::size_t v = 0; v < variants.items.size(); ++v) {
        YamlNode part = variants.items[v];
        const std::string& variant = variants.keys[v].value;
        if (part.kind == YamlNode::Kind::null) part.kind = YamlNode::Kind::map;  // adds nothing
        if (!part.is_map()) {
          errors_.error(part.where,
                        "variant " + quoted(variant) + " of " + quoted(name) + ": " + describe(part) +
                            ", wanted is a part of a schedule",
                        how);
          continue;
        }
        for (const std::string& place : places_in(part)) {
          if (part.items.empty()) continue;
          for (const auto& [other, owner] : taken)
            if (other == place || other.starts_with(place + ".") || place.starts_with(other + "."))
              errors_.error(variants.keys[v].where,
                            "variant " + quoted(variant) + " of " + quoted(name) + " says " + quoted(place) +
                                ", which " +
                                (owner.empty() ? "the schedule says, too" : "choose " + quoted(owner) + " says, too"),
                            {"a value has one place: leave it out there, or add it to these variants"});
          own.emplace_back(place, name);
        }
        axis.values.push_back(variant);
        choice.alternatives.push_back(std::move(part));
      }
      taken.insert(taken.end(), own.begin(), own.end());
      if (choice.alternatives.empty()) continue;
      state_->axes.push_back(std::move(axis));
      state_->choices.push_back(std::move(choice));
    }
  }

  void parse_where(const YamlNode& where) {
    std::vector<const YamlNode*> conditions;
    if (where.is_sequence()) {
      for (const YamlNode& item : where.items) conditions.push_back(&item);
    } else {
      conditions.push_back(&where);
    }
    std::set<std::string> places;
    for (const std::string& place : places_in(state_->base)) places.insert(place);
    for (const SpaceChoice& choice : state_->choices)
      for (const YamlNode& part : choice.alternatives)
        if (choice.path.empty())
          for (const std::string& place : places_in(part)) places.insert(place);
    for (const YamlNode* condition : conditions) {
      if (condition->is_scalar()) {
        parse_condition(*condition, places);
      } else {
        errors_.error(condition->where, "where: " + describe(*condition) + ", wanted is a condition",
                      {"where: tile.i * tile.j <= 32768"});
      }
    }
  }

  /// Names of the language hold no dots: O.tile.i is read as O_tile_i, each character where it stands.
  void parse_condition(const YamlNode& condition, const std::set<std::string>& places) {
    const std::string& text = condition.value;
    SpaceCondition out{text, 0, {}};
    std::string changed;
    std::vector<SourceText::Place> origin;
    const auto place_of = [&](std::size_t n) {
      return SourceText::Place{condition.where.line,
                               condition.where.column + static_cast<int>(n) + (condition.quoted ? 1 : 0)};
    };
    for (std::size_t n = 0; n < text.size();) {
      if (!is_letter(text[n])) {
        changed += text[n];
        origin.push_back(place_of(n++));
        continue;
      }
      const std::size_t begin = n;
      while (n < text.size() && (is_letter(text[n]) || is_digit(text[n]) || text[n] == '.')) ++n;
      const std::string place = text.substr(begin, n - begin);
      std::string variable = place;
      std::replace(variable.begin(), variable.end(), '.', '_');
      changed += variable;
      origin.insert(origin.end(), variable.size(), place_of(begin));
      if (n < text.size() && text[n] == '(') continue;
      if (place == "and" || place == "or" || place == "not") continue;
      check_place(place, condition, begin, places);
      if (std::any_of(out.names.begin(), out.names.end(),
                      [&](const auto& known) { return known.first == variable && known.second != place; }))
        errors_.error(condition.where, "where: " + quoted(place) + " and another place read as " + quoted(variable),
                      {"one of the two needs another name"});
      if (std::none_of(out.names.begin(), out.names.end(), [&](const auto& known) { return known.first == variable; }))
        out.names.emplace_back(variable, place);
    }
    origin.push_back(place_of(text.size()));
    try {
      out.expr = parse_expr(SourceText(changed, condition.where, origin), {}, false);
      if (errors_.empty()) state_->conditions.push_back(std::move(out));
    } catch (const UserError& error) {
      for (const Diagnostic& problem : error.diagnostics())
        errors_.error(problem.where, problem.message, problem.notes);
    }
  }

  void check_place(const std::string& place, const YamlNode& condition, std::size_t offset,
                   const std::set<std::string>& places) {
    std::vector<std::string> found, ends;
    for (const std::string& whole : places) {
      if (ends_place(whole, place)) found.push_back(whole);
      ends.push_back(whole);
      if (const std::size_t dot = whole.find('.'); dot != std::string::npos) ends.push_back(whole.substr(dot + 1));
    }
    if (found.size() == 1 || places.contains(place)) return;
    Location where = condition.where;
    where.column += static_cast<int>(offset) + (condition.quoted ? 1 : 0);
    if (found.empty()) {
      const std::string near = nearest_name(place, ends);
      errors_.error(where, "where: no value of the space is at " + quoted(place),
                    {near.empty() ? "a place is O.tile.i, tile.i, K.ring_buffer or warps.consumer"
                                  : "did you mean " + near + "?"});
    } else {
      errors_.error(where, "where: " + quoted(place) + " may be " + join(found, " or "), {"write the whole place"});
    }
  }

  /// Each alternative, beside the first of all others, is to make a schedule.
  void check_alternatives(const ScheduleSpace& space) {
    std::set<std::string> said;
    const auto check = [&](const SpacePoint& point) {
      Diagnostics found;
      parse_schedule_tree(tree_at(*state_, point), state_->file, state_->name, found);
      for (const Diagnostic& problem : found.problems())
        if (said.insert(format_diagnostic(problem)).second)
          errors_.error(problem.where, problem.message, problem.notes);
    };
    SpacePoint point(space.axes().size(), 0);
    check(point);
    for (std::size_t n = 0; n < point.size(); ++n) {
      for (std::size_t value = 1; value < space.axes()[n].values.size(); ++value) {
        point[n] = value;
        check(point);
      }
      point[n] = 0;
    }
    errors_.throw_if_any();
  }

  Diagnostics& errors_;
  std::shared_ptr<ScheduleSpace::State> state_ = std::make_shared<ScheduleSpace::State>();
};

/// The commas in range(..) as semicolons: for YAML, a comma ends a value of a map in braces.
std::string without_commas_in_ranges(std::string text) {
  for (std::size_t at = text.find("range("); at != std::string::npos; at = text.find("range(", at + 1))
    for (std::size_t n = at; n < text.size() && text[n] != ')' && text[n] != '\n'; ++n)
      if (text[n] == ',') text[n] = ';';
  return text;
}

/// Lines are shown as they are in the file.
class Lines {
 public:
  explicit Lines(const std::string& text) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      lines_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  void restore(Location& where) const {
    if (where.line > 0 && static_cast<std::size_t>(where.line) <= lines_.size() && !where.text.empty())
      where.text = lines_[static_cast<std::size_t>(where.line) - 1].substr(0, where.text.size());
  }
  void restore(YamlNode& node) const {
    restore(node.where);
    for (YamlNode& key : node.keys) restore(key);
    for (YamlNode& item : node.items) restore(item);
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace

ScheduleSpace read_space(const YamlNode& root, const std::string& file, const std::string& name, Diagnostics& errors) {
  return SpaceParser(file, name, errors).parse(root);
}

ScheduleSpace parse_space(const std::string& text, const std::string& file) {
  const Lines lines(text);
  try {
    Diagnostics errors;
    YamlNode root = YamlDocument(without_commas_in_ranges(text), file, errors).root();
    lines.restore(root);
    return read_space(root, file, std::filesystem::path(file).stem().string(), errors);
  } catch (const UserError& error) {
    std::vector<Diagnostic> problems = error.diagnostics();
    for (Diagnostic& problem : problems) lines.restore(problem.where);
    throw UserError(std::move(problems));
  }
}

}  // namespace astatide
