#include "compiler/algorithm/names.h"
#include "compiler/tune/space_state.h"

namespace astatide {

struct SpaceBuilder::State {
  std::string name;
  YamlNode root;
};

namespace {

constexpr const char* kFile = "space";

YamlNode tree_of(const std::string& text) {
  Diagnostics errors;
  YamlNode root = YamlDocument(text, kFile, errors).root();
  errors.throw_if_any();
  return root;
}

YamlNode node_of(YamlNode::Kind kind) {
  YamlNode node;
  node.kind = kind;
  node.where.file = kFile;
  return node;
}

YamlNode scalar(const std::string& text) {
  YamlNode node = node_of(YamlNode::Kind::scalar);
  node.value = text;
  return node;
}

/// The item of a key, made where there is none.
YamlNode& made_item(YamlNode& map, const std::string& key) {
  if (map.kind == YamlNode::Kind::null) map.kind = YamlNode::Kind::map;
  if (!map.is_map()) throw UserError("a space has no place for " + quoted(key) + ": it is in " + describe(map));
  for (std::size_t n = 0; n < map.keys.size(); ++n)
    if (map.keys[n].value == key) return map.items[n];
  map.keys.push_back(scalar(key));
  map.items.push_back(node_of(YamlNode::Kind::null));
  return map.items.back();
}

YamlNode& made_node(YamlNode& tree, const std::string& place) {
  const std::size_t dot = place.find('.');
  YamlNode& item = made_item(tree, place.substr(0, dot));
  return dot == std::string::npos ? item : made_node(item, place.substr(dot + 1));
}

}  // namespace

SpaceBuilder::SpaceBuilder(const Schedule& base)
    : state_(std::make_shared<State>(State{base.name, tree_of(print_schedule(base))})) {}

SpaceBuilder& SpaceBuilder::vary(const std::string& place, const std::vector<std::string>& values) {
  YamlNode& value = made_node(state_->root, place);
  YamlNode list = node_of(YamlNode::Kind::sequence);
  for (const std::string& text : values) list.items.push_back(tree_of(text));
  // [j.s, 16] of rfactor: it is the number of parts that varies.
  const bool parts = value.is_sequence() && value.items.size() == 2 && place.find(".rfactor.") != std::string::npos;
  (parts ? value.items[1] : value) = std::move(list);
  return *this;
}

SpaceBuilder& SpaceBuilder::choose(const std::string& name,
                                   const std::vector<std::pair<std::string, std::string>>& variants) {
  YamlNode& choice = made_item(made_item(state_->root, "choose"), name);
  for (const auto& [variant, part] : variants) made_item(choice, variant) = tree_of(part);
  return *this;
}

SpaceBuilder& SpaceBuilder::where(const std::string& condition) {
  YamlNode& conditions = made_item(state_->root, "where");
  conditions.kind = YamlNode::Kind::sequence;
  conditions.items.push_back(scalar(condition));
  return *this;
}

ScheduleSpace SpaceBuilder::build() const {
  Diagnostics errors;
  return read_space(state_->root, kFile, state_->name, errors);
}

}  // namespace astatide
