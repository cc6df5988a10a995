#include "compiler/tune/space.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "compiler/schedule/schedule_tree.h"
#include "compiler/tune/space_state.h"

namespace astatide {
namespace {

constexpr std::uint64_t kMostPoints = std::uint64_t{1} << 40;

void print_tree(const YamlNode& node, std::string& out) {
  if (node.is_map()) {
    out += "{";
    for (std::size_t n = 0; n < node.items.size(); ++n) {
      out += node.keys[n].value + ":";
      print_tree(node.items[n], out);
      out += ",";
    }
    out += "}";
  } else if (node.is_sequence()) {
    out += "[";
    for (const YamlNode& item : node.items) print_tree(item, out), out += ",";
    out += "]";
  } else {
    out += node.value;
  }
}

void collect_places(const YamlNode& node, const std::string& prefix, std::vector<std::string>& out) {
  if (!node.is_map()) {
    out.push_back(prefix);
    return;
  }
  for (std::size_t n = 0; n < node.items.size(); ++n)
    collect_places(node.items[n], (prefix.empty() ? "" : prefix + ".") + node.keys[n].value, out);
}

const YamlNode* item_of(const YamlNode& map, const std::string& key) {
  for (std::size_t n = 0; n < map.items.size(); ++n)
    if (map.is_map() && map.keys[n].value == key) return &map.items[n];
  return nullptr;
}

const YamlNode* node_at(const YamlNode& tree, const std::string& place) {
  const std::size_t dot = place.find('.');
  const YamlNode* item = item_of(tree, place.substr(0, dot));
  return dot == std::string::npos || item == nullptr ? item : node_at(*item, place.substr(dot + 1));
}

/// A number or a fraction; of rfactor's [j.s, 16] the number of parts.
std::optional<double> number_of(const YamlNode& node) {
  if (node.is_sequence()) return node.items.size() == 2 ? number_of(node.items[1]) : std::nullopt;
  if (!node.is_scalar()) return std::nullopt;
  const auto parse = [](std::string_view text) -> std::optional<double> {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return static_cast<double>(value);
  };
  const std::string_view text = node.value;
  const std::size_t bar = text.find('/');
  if (bar == std::string_view::npos) return parse(text);
  const auto part = parse(text.substr(0, bar)), whole = parse(text.substr(bar + 1));
  if (!part || !whole || *whole == 0) return std::nullopt;
  return *part / *whole;
}

}  // namespace

bool ends_place(const std::string& whole, const std::string& place) {
  return whole == place || whole.ends_with("." + place);
}

std::vector<std::string> places_in(const YamlNode& tree) {
  std::vector<std::string> out;
  collect_places(tree, "", out);
  return out;
}

std::optional<double> number_at(const YamlNode& tree, const std::string& place) {
  const YamlNode* node = node_at(tree, place);
  if (node == nullptr) {
    std::vector<std::string> found;
    for (const std::string& whole : places_in(tree))
      if (ends_place(whole, place)) found.push_back(whole);
    if (found.size() == 1) node = node_at(tree, found.front());
  }
  return node == nullptr ? std::nullopt : number_of(*node);
}

void add_part(YamlNode& tree, const YamlNode& part) {
  for (std::size_t n = 0; n < part.items.size(); ++n) {
    const auto same = std::find_if(tree.keys.begin(), tree.keys.end(),
                                   [&](const YamlNode& key) { return key.value == part.keys[n].value; });
    if (same == tree.keys.end()) {
      tree.keys.push_back(part.keys[n]);
      tree.items.push_back(part.items[n]);
    } else if (YamlNode& item = tree.items[static_cast<std::size_t>(same - tree.keys.begin())];
               item.is_map() && part.items[n].is_map()) {
      add_part(item, part.items[n]);
    }
  }
}

YamlNode tree_at(const ScheduleSpace::State& space, const SpacePoint& point) {
  YamlNode tree = space.base;
  for (std::size_t axis = 0; axis < point.size(); ++axis) {
    const SpaceChoice& choice = space.choices[axis];
    if (choice.path.empty()) continue;
    YamlNode* node = &tree;
    for (const std::size_t item : choice.path) node = &node->items[item];
    *node = choice.alternatives[point[axis]];
  }
  // Numbers of items hold until something is added.
  for (std::size_t axis = 0; axis < point.size(); ++axis)
    if (space.choices[axis].path.empty()) add_part(tree, space.choices[axis].alternatives[point[axis]]);
  return tree;
}

const std::string& ScheduleSpace::file() const { return state_->file; }
const std::vector<SpaceAxis>& ScheduleSpace::axes() const { return state_->axes; }

std::uint64_t ScheduleSpace::points() const {
  std::uint64_t count = 1;
  for (const SpaceAxis& axis : axes()) {
    count *= axis.values.size();
    if (count > kMostPoints)
      throw UserError(axis.where, "the space has more than 2^40 points", {"fewer values, or fewer of these lists"});
  }
  return count;
}

SpacePoint ScheduleSpace::point_at(std::uint64_t index) const {
  SpacePoint point(axes().size());
  for (std::size_t n = axes().size(); n-- > 0;) {
    point[n] = index % axes()[n].values.size();
    index /= axes()[n].values.size();
  }
  if (index != 0) throw InternalError("no such point of the space " + state_->file);
  return point;
}

std::uint64_t ScheduleSpace::index_of(const SpacePoint& point) const {
  std::uint64_t index = 0;
  for (std::size_t n = 0; n < axes().size(); ++n) index = index * axes()[n].values.size() + point[n];
  return index;
}

std::vector<SpacePoint> ScheduleSpace::neighbours(const SpacePoint& point) const {
  std::vector<SpacePoint> out;
  for (std::size_t n = 0; n < axes().size(); ++n)
    for (std::size_t value = 0; value < axes()[n].values.size(); ++value) {
      const std::size_t step = value > point[n] ? value - point[n] : point[n] - value;
      if (step == 0 || (axes()[n].ordered && step > 1)) continue;
      out.push_back(point);
      out.back()[n] = value;
    }
  return out;
}

std::string ScheduleSpace::why_not(const SpacePoint& point) const {
  if (state_->conditions.empty()) return "";
  const YamlNode tree = tree_at(*state_, point);
  for (const SpaceCondition& condition : state_->conditions) {
    std::map<std::string, double> values;
    for (const auto& [variable, place] : condition.names)
      if (const auto number = number_at(tree, place)) values.emplace(variable, *number);
    if (values.size() == condition.names.size() && evaluate_real(condition.expr, values) == 0)
      return "where " + condition.text;
  }
  return "";
}

Schedule ScheduleSpace::schedule_at(const SpacePoint& point) const {
  Diagnostics errors;
  Schedule schedule = parse_schedule_tree(tree_at(*state_, point), state_->file, state_->name, errors);
  errors.throw_if_any();
  return schedule;
}

std::string ScheduleSpace::describe(const SpacePoint& point) const {
  std::string text;
  for (std::size_t n = 0; n < axes().size(); ++n)
    text += (text.empty() ? "" : ", ") + axes()[n].name + "=" + axes()[n].values[point[n]];
  return text;
}

std::string ScheduleSpace::text() const {
  std::string out;
  print_tree(state_->base, out);
  for (std::size_t n = 0; n < axes().size(); ++n) {
    out += "\n" + axes()[n].name + "=";
    for (const YamlNode& alternative : state_->choices[n].alternatives) print_tree(alternative, out), out += "|";
  }
  for (const SpaceCondition& condition : state_->conditions) out += "\nwhere " + condition.text;
  return out;
}

std::vector<std::pair<std::string, std::int64_t>> ScheduleSpace::largest_tiles() const {
  std::map<std::string, std::int64_t> largest;
  const auto look = [&](const YamlNode& tree) {
    for (const std::string& place : places_in(tree)) {
      const std::size_t dot = place.rfind('.');
      if (dot == std::string::npos || !ends_place(place.substr(0, dot), "tile")) continue;
      std::int64_t& entry = largest[place.substr(dot + 1)];
      entry = std::max(entry, static_cast<std::int64_t>(number_at(tree, place).value_or(0)));
    }
  };
  // A tile depends on one axis alone.
  SpacePoint point(axes().size(), 0);
  look(tree_at(*state_, point));
  for (std::size_t n = 0; n < axes().size(); ++n) {
    for (std::size_t value = 1; value < axes()[n].values.size(); ++value) {
      point[n] = value;
      look(tree_at(*state_, point));
    }
    point[n] = 0;
  }
  return {largest.begin(), largest.end()};
}

}  // namespace astatide
