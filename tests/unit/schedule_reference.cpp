#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "api/tune.h"
#include "compiler/algorithm/yaml_document.h"
#include "compiler/schedule/directives.h"
#include "compiler/tune/space.h"
#include "tests/support/schedule_cases.h"

namespace astatide {
namespace {

using testing::source_path;
using testing::text_of;

/// Compares a file of the tree with what the compiler gives, or writes it with UPDATE_GOLDENS=1.
void require_file(const std::filesystem::path& path, const std::string& wanted) {
  const char* update = std::getenv("UPDATE_GOLDENS");
  if (update != nullptr && std::string(update) == "1") std::ofstream(path, std::ios::binary) << wanted;
  REQUIRE(text_of(path) == wanted);
}

/// The part of schedules/README.md between "<!-- NAME: begin -->" and "<!-- NAME: end -->" is `text`.
void require_part_of_readme(const std::string& name, const std::string& text) {
  const std::filesystem::path path = source_path("schedules/README.md");
  const std::string readme = text_of(path);
  const std::string begin_mark = "<!-- " + name + ": begin -->\n";
  const std::size_t begin = readme.find(begin_mark);
  const std::size_t end = readme.find("<!-- " + name + ": end -->");
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  require_file(path, readme.substr(0, begin) + begin_mark + text + readme.substr(end));
}

TEST_CASE("schedules/README.md shows every key of the table, before and after") {
  require_part_of_readme("directives", "\n" + directive_reference_markdown());
}

TEST_CASE("schedules/README.md shows a shipped schedule as it is") {
  require_part_of_readme("flash2", "```yaml\n" + testing::shipped_schedule("simt/flash2") + "```\n");
}

TEST_CASE("schedules/schema.json is the table's schema") {
  require_file(source_path("schedules/schema.json"), schedule_json_schema());
}

/// As much of JSON Schema as the file uses.
bool conforms(const nlohmann::json& value, const nlohmann::json& schema, const nlohmann::json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const std::string prefix = "#/definitions/";
    const std::string name = schema["$ref"].get<std::string>().substr(prefix.size());
    return conforms(value, root["definitions"][name], root);
  }
  if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return false;
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("oneOf")) {
    int fitting = 0;
    for (const auto& option : schema["oneOf"]) fitting += conforms(value, option, root) ? 1 : 0;
    if (fitting != 1) return false;
  }
  if (schema.contains("anyOf") && std::none_of(schema["anyOf"].begin(), schema["anyOf"].end(),
                                               [&](const auto& option) { return conforms(value, option, root); }))
    return false;
  if (schema.contains("allOf"))
    for (const auto& part : schema["allOf"])
      if (!conforms(value, part, root)) return false;
  if (schema.contains("type")) {
    const std::string type = schema["type"];
    const bool fits = (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
                      (type == "integer" && value.is_number_integer()) || (type == "string" && value.is_string()) ||
                      (type == "null" && value.is_null());
    if (!fits) return false;
  }
  if (value.is_number_integer() && schema.contains("minimum") && value < schema["minimum"]) return false;
  if (value.is_number_integer() && schema.contains("maximum") && value > schema["maximum"]) return false;
  if (value.is_string() && schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>())))
    return false;
  if (value.is_array()) {
    if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
    if (schema.contains("contains") && std::none_of(value.begin(), value.end(), [&](const auto& item) {
          return conforms(item, schema["contains"], root);
        }))
      return false;
    for (std::size_t n = 0; schema.contains("items") && n < value.size(); ++n) {
      const auto& items = schema["items"];
      if (!conforms(value[n], items.is_array() ? items[n] : items, root)) return false;
    }
  }
  if (value.is_object()) {
    if (schema.contains("minProperties") && value.size() < schema["minProperties"]) return false;
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
    for (const auto& [key, item] : value.items()) {
      const bool known = schema.contains("properties") && schema["properties"].contains(key);
      if (known && !conforms(item, schema["properties"][key], root)) return false;
      if (!known && schema.contains("additionalProperties") && !conforms(item, schema["additionalProperties"], root))
        return false;
    }
  }
  return true;
}

nlohmann::json to_json(const Schedule& schedule) {
  const auto numbers = [](const AxisNumbers& entries) {
    nlohmann::json out = nlohmann::json::object();
    for (const auto& [name, number] : entries) out[name] = number;
    return out;
  };
  nlohmann::json out = {{"target", schedule.target},
                        {"rewrite", schedule.rewrite == RewriteMode::online ? "online" : "none"}};
  if (!schedule.bound.empty()) out["bound"] = numbers(schedule.bound);
  if (!schedule.warps.empty()) out["warps"] = numbers(schedule.warps);
  if (schedule.alternate) out["warps"]["alternate"] = true;
  for (const Placement& placement : schedule.placements) {
    nlohmann::json directives;
    for (const Directive& directive : placement.directives) {
      nlohmann::json& value = directives[std::string(directive_info(directive.kind).key)];
      if (const auto* entries = std::get_if<AxisNumbers>(&directive.value)) {
        value = numbers(*entries);
      } else if (const auto* part = std::get_if<Fraction>(&directive.value)) {
        value[std::string(directive_info(directive.kind).words[0])] = to_string(*part);
      } else if (const auto* lists = std::get_if<AxisLists>(&directive.value)) {
        for (const auto& [axis, names] : *lists) value[axis] = names;
      } else if (const auto* parts = std::get_if<AxisParts>(&directive.value)) {
        nlohmann::json how = parts->parts;
        if (parts->is_automatic()) how = "auto";
        if (parts->size != 0) how = {{"split_size", parts->size}};
        value[parts->axis] = {parts->loop, how};
        if (!parts->team_loop.empty()) {
          value[parts->axis].push_back(parts->team_loop);
          value[parts->axis].push_back(parts->teams);
        }
      } else {
        std::visit(
            [&](const auto& plain) {
              if constexpr (std::is_assignable_v<nlohmann::json&, decltype(plain)>) value = plain;
            },
            directive.value);
      }
    }
    out[placement.name] = directives;
  }
  return out;
}

TEST_CASE("every shipped schedule conforms to the schema, and faults do not") {
  const nlohmann::json schema = nlohmann::json::parse(schedule_json_schema());
  for (const std::string& name : testing::shipped_schedule_names()) {
    INFO(name);
    const nlohmann::json value = to_json(parse_schedule(testing::shipped_schedule(name), name));
    CHECK(conforms(value, schema, schema));
  }
  for (const char* text :
       {"S: {compute_at: j.o, overlap: {cover: 1/2}}\n", "O: {rfactor: {j: [j.s, {split_size: 64}, j.w, 8]}}\n",
        "warps: {producer: 1, consumer: 2, alternate: true}\n"
        "P: {compute_at: j.o, exp2: {polynomial: 1/4}}\n"})
    CHECK(conforms(to_json(parse_schedule(text, "s.yaml")), schema, schema));
  for (const std::string text : {R"({"target": "sm_81"})",
                                 R"({"rewrite": "fast"})",
                                 R"({"rewrite": {"online": {"rescale": "fast"}}})",
                                 R"({"rewrite": {"online": {"rescale": "lazy", "grow": 97}}})",
                                 R"({"bound": {"Sk": 0}})",
                                 R"({"O": {}})",
                                 R"({"O": {"tilek": {"i": 64}}})",
                                 R"({"O": {"tile": {"i": "64"}}})",
                                 R"({"O": {"threads": [16]}})",
                                 R"({"K": {"ring_buffer": 9}})",
                                 R"({"O": {"rfactor": {"j": ["j.s", 4, "j.w"]}}})",
                                 R"({"O": {"rfactor": {"j": ["j.s", 4, "j.w", 33]}}})",
                                 R"({"K": {"vectorize": 3}})",
                                 R"({"K": {"store_in": "texture"}})",
                                 R"({"S": {"overlap": {"cover": 2}}})",
                                 R"({"S": {"overlap": {"cover": "half"}}})",
                                 R"({"S": {"overlap": {}}})",
                                 R"({"P": {"exp2": {"cover": "1/2"}}})",
                                 R"({"warps": {"producer": 1, "consumer": 2, "alternate": false}})",
                                 R"({"P": {"compute_root": false}})",
                                 R"({"P": 3})",
                                 R"({"O": {"rfactor": {"j": ["j.s", 1]}}})",
                                 R"({"O": {"rfactor": {"j": [8, "j.s"]}}})",
                                 R"({"O": {"rfactor": {"j": ["j.s", 8], "i": ["i.s", 8]}}})"}) {
    INFO(text);
    CHECK_FALSE(conforms(nlohmann::json::parse(text), schema, schema));
  }
}

TEST_CASE("schedules/space_schema.json is the table's schema of spaces") {
  require_file(source_path("schedules/space_schema.json"), space_json_schema());
}

/// What an editor sees, which knows YAML and nothing of ours.
nlohmann::json json_of(const YamlNode& node) {
  if (node.is_map()) {
    nlohmann::json out = nlohmann::json::object();
    for (std::size_t n = 0; n < node.items.size(); ++n) out[node.keys[n].value] = json_of(node.items[n]);
    return out;
  }
  if (node.is_sequence()) {
    nlohmann::json out = nlohmann::json::array();
    for (const YamlNode& item : node.items) out.push_back(json_of(item));
    return out;
  }
  if (!node.is_scalar()) return nullptr;
  if (node.quoted) return node.value;
  if (node.value == "true" || node.value == "false") return node.value == "true";
  const nlohmann::json number = nlohmann::json::parse(node.value, nullptr, false);
  return number.is_number() ? number : nlohmann::json(node.value);
}

bool is_space(const std::string& text) {
  static const nlohmann::json schema = nlohmann::json::parse(space_json_schema());
  Diagnostics errors;
  const nlohmann::json value = json_of(YamlDocument(text, "space.yaml", errors).root());
  errors.throw_if_any();
  return conforms(value, schema, schema);
}

TEST_CASE("every shipped space and schedule conforms to the schema of spaces, and faults do not") {
  for (const std::string& name : shipped_spaces()) {
    INFO(name);
    CHECK(is_space(text_of(source_path("schedules/spaces/" + name + ".yaml"))));
  }
  for (const std::string& name : testing::shipped_schedule_names()) {
    INFO(name);
    CHECK(is_space(testing::shipped_schedule(name)));
  }
  // What the schema takes and what the parser of spaces takes is the same.
  const std::string base = "target: sm_90a\nO: {tile: {i: 64, j: 64}}\nV: {ring_buffer: [1, 2]}\n";
  for (const auto& [fits, more] : std::vector<std::pair<bool, std::string>>{
           {true, "K: {ring_buffer: range(1; 3; 1)}\n"},
           {true, "K: {ring_buffer: [1, range(3; 4; 1)], store_in: [[shared, register], shared]}\n"},
           {true, "K: {store_in: [shared, register]}\n"},
           {true, "S: {mma: [wgmma, mma_sync], unroll: {j: [2, 4]}, overlap: {cover: [1/2, 1]}}\n"},
           {true, "P: {unroll: [{j: 2}, {j: 4}]}\n"},
           {true, "rewrite: [online, {online: {rescale: lazy}}]\n"},
           {true, "rewrite: {online: {rescale: [lazy, optimistic], grow: range(4; 8; 2)}}\n"},
           {true, "warps: {producer: 1, consumer: [1, 2]}\n"},
           {true, "choose: {ring: {two: {K: {ring_buffer: 2}}, none: {}}}\nwhere: tile.i <= 64\n"},
           {true, "where: [tile.i <= 64, tile.j <= 64]\n"},
           {false, "bound: {Sk: [64, 128]}\n"},
           {false, "K: {ring_buffer: range(1; 3)}\n"},
           {false, "K: {ring_buffer: [1, 9]}\n"},
           {false, "K: {ring_bufer: [1, 2]}\n"},
           {false, "K: {ring_buffer: []}\n"},
           {false, "K: {store_in: [shared, global]}\n"},
           {false, "S: {mma: [wgmma, mma]}\n"},
           {false, "S: {mma: range(1; 2; 1)}\n"},
           {false, "choose: {ring: {two: 2, three: {}}}\n"},
           {false, "choose: {ring: {}}\n"},
           {false, "choose: {ring: {two: {K: {ring_buffer: [2, 3]}}, none: {}}}\n"},
           {false, "where: {tile: 64}\n"}}) {
    INFO(more);
    CHECK(is_space(base + more) == fits);
    if (fits) {
      CHECK_NOTHROW(parse_space(base + more, "space.yaml"));
    } else {
      CHECK_THROWS_AS(parse_space(base + more, "space.yaml"), UserError);
    }
  }
}

TEST_CASE("every kind of directive has one row in the table, and every key another name") {
  std::set<std::string_view> keys;
  for (const DirectiveInfo& info : directive_table()) {
    INFO(info.key);
    CHECK(keys.insert(info.key).second);
    CHECK_FALSE(info.doc.empty());
    CHECK_FALSE(info.example.empty());
    CHECK_FALSE(info.before.empty());
    CHECK_FALSE(info.after.empty());
    CHECK(info.before != info.after);
    CHECK(((info.sites & kTopLevel) != 0) == !info.kind.has_value());
    if (info.kind) CHECK(&directive_info(*info.kind) == &info);
  }
  const auto last = DirectiveKind::exp2;
  for (int kind = 0; kind <= static_cast<int>(last); ++kind)
    CHECK_NOTHROW(directive_info(static_cast<DirectiveKind>(kind)));
}

TEST_CASE("the example of every key is read as a schedule") {
  for (const DirectiveInfo& info : directive_table()) {
    INFO(info.example);
    CHECK_NOTHROW(parse_schedule(std::string(info.example) + "\n", "example"));
  }
}

}  // namespace
}  // namespace astatide
