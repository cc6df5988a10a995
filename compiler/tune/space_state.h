#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/algorithm/yaml_document.h"
#include "compiler/tune/space.h"

namespace astatide {

/// What an axis changes in the tree of the schedule: a value of it, or a part that is added to it.
struct SpaceChoice {
  std::vector<std::size_t> path;  // numbers of items, from the root on; empty: an alternative is added
  std::vector<YamlNode> alternatives;
};

/// A condition of `where`, and the places that its variables stand for: O.tile.i for O_tile_i.
struct SpaceCondition {
  std::string text;
  Expr expr;
  std::vector<std::pair<std::string, std::string>> names;
};

struct ScheduleSpace::State {
  std::string file, name;
  YamlNode base;
  std::vector<SpaceAxis> axes;
  std::vector<SpaceChoice> choices;  // of each axis
  std::vector<SpaceCondition> conditions;
};

/// The tree of a point: values put in, parts added.
YamlNode tree_at(const ScheduleSpace::State& space, const SpacePoint& point);

/// Adds the entries of `part` to a map, level by level; an entry that is there already stays.
void add_part(YamlNode& tree, const YamlNode& part);

/// The number at a place such as O.tile.i, or at the end of one (tile.i) where one place alone ends so.
std::optional<double> number_at(const YamlNode& tree, const std::string& place);

/// Places of all values of a tree: "O.tile.i".
std::vector<std::string> places_in(const YamlNode& tree);

/// Whether `place` is `whole` or what it ends with.
bool ends_place(const std::string& whole, const std::string& place);

/// Reads a tree; `file` and `name` are those of the space.
ScheduleSpace read_space(const YamlNode& root, const std::string& file, const std::string& name, Diagnostics& errors);

}  // namespace astatide
