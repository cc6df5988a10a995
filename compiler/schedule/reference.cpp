#include <utility>

#include "compiler/schedule/directives.h"

// The views of the table of directives that people and their editors read.

namespace astatide {
namespace {

// ---------------------------------------------------------------- Markdown

std::string code_block(std::string_view text) { return "```\n" + std::string(text) + "\n```\n"; }

std::string range_of(const DirectiveInfo& info) {
  if (info.most <= info.least || info.form == ValueForm::part || info.form == ValueForm::axis_lists) return "";
  std::string out = "; each number ";
  if (info.form == ValueForm::integer) out = "; ";
  out += std::to_string(info.least) + " to " + std::to_string(info.most);
  return info.power_of_two ? out + ", a power of two" : out;
}

// ---------------------------------------------------------------- JSON

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

using JsonEntries = std::vector<std::pair<std::string, std::string>>;  // key, JSON text

std::string json_object(const JsonEntries& entries) {
  std::string out = "{";
  for (const auto& [key, value] : entries)
    out += (out.size() == 1 ? "\n  " : ",\n  ") + json_string(key) + ": " + indented(value);
  return out + "\n}";
}

std::string json_array(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + value;
  return "[" + out + "]";
}

std::string reference_to(const std::string& definition) {
  return json_object({{"$ref", json_string("#/definitions/" + definition)}});
}

JsonEntries number_schema(const DirectiveInfo& info) {
  return {{"type", json_string("integer")},
          {"minimum", std::to_string(info.least)},
          {"maximum", std::to_string(info.most)}};
}

JsonEntries integer_schema(const DirectiveInfo& info) {
  if (!info.power_of_two) return number_schema(info);
  std::vector<std::string> powers;
  for (std::int64_t n = info.least; n <= info.most; n *= 2) powers.push_back(std::to_string(n));
  return {{"enum", json_array(powers)}};
}

/// What a schema is of: a schedule, or a space, in which a value may be a choice.
enum class Of { schedule, space };

/// A value that is no list, or alternatives of it.
JsonEntries scalar_choice(const JsonEntries& value, Of of) {
  if (of == Of::schedule) return value;
  const std::string one = json_object(value);
  return {
      {"anyOf", json_array({one, json_object({{"type", json_string("array")}, {"minItems", "1"}, {"items", one}})})}};
}

/// The same of a number, which may be a range as well.
JsonEntries number_choice(const JsonEntries& value, Of of) {
  if (of == Of::schedule) return value;
  return scalar_choice({{"anyOf", json_array({json_object(value), reference_to("range")})}}, of);
}

/// A value that is a list, or may be one: alternatives are a list in which a list is.
JsonEntries list_choice(const JsonEntries& value, Of of) {
  if (of == Of::schedule) return value;
  const std::string several = json_object({{"type", json_string("array")},
                                           {"minItems", "1"},
                                           {"items", json_object(value)},
                                           {"contains", json_object({{"type", json_string("array")}})}});
  return {{"anyOf", json_array({json_object(value), several})}};
}

/// A mapping whose values are choices themselves, or alternatives of the whole.
JsonEntries map_choice(const JsonEntries& varied, const JsonEntries& value, Of of) {
  if (of == Of::schedule) return value;
  const std::string several =
      json_object({{"type", json_string("array")}, {"minItems", "1"}, {"items", json_object(value)}});
  return {{"anyOf", json_array({json_object(varied), several})}};
}

JsonEntries rewrite_of(Of of) {
  const JsonEntries power = number_choice(
      {{"type", json_string("integer")}, {"minimum", "0"}, {"maximum", std::to_string(kMostRescale)}}, of);
  std::vector<std::string> modes;
  for (const RescaleMode mode : {RescaleMode::plain, RescaleMode::lazy, RescaleMode::optimistic})
    modes.push_back(json_string(name_of(mode)));
  const std::string options = json_object(
      {{"type", json_string("object")},
       {"additionalProperties", "false"},
       {"minProperties", "1"},
       {"properties", json_object({{"rescale", json_object(scalar_choice({{"enum", json_array(modes)}}, of))},
                                   {"grow", json_object(power)},
                                   {"over", json_object(power)}})}});
  const std::string mapping = json_object({{"type", json_string("object")},
                                           {"additionalProperties", "false"},
                                           {"minProperties", "1"},
                                           {"properties", json_object({{"online", options}})}});
  const std::string words = json_object({{"enum", json_array({json_string("none"), json_string("online")})}});
  return {{"oneOf", json_array({words, mapping})}};
}

JsonEntries target_schema() {
  std::vector<std::string> names;
  for (const Target& target : known_targets()) names.push_back(json_string(target.name));
  return {{"enum", json_array(names)}};
}

JsonEntries part_of(const DirectiveInfo& info, Of of) {
  const std::string fraction =
      json_object({{"type", json_string("string")}, {"pattern", json_string("^[0-9]{1,2}/[1-9][0-9]?$")}});
  const std::string whole = json_object({{"enum", json_array({"0", "1"})}});
  return {{"type", json_string("object")},
          {"additionalProperties", "false"},
          {"minProperties", "1"},
          {"properties", json_object({{std::string(info.words[0]),
                                       json_object(scalar_choice({{"oneOf", json_array({fraction, whole})}}, of))}})}};
}

JsonEntries service_schema(const DirectiveInfo& info) {
  std::vector<std::string> types;
  for (const ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16})
    types.push_back(json_string(name_of(type)));
  const std::string dtype = json_object({{"type", json_string("array")},
                                         {"minItems", "1"},
                                         {"uniqueItems", "true"},
                                         {"items", json_object({{"enum", json_array(types)}})}});
  const std::string length = json_object(number_schema(info));
  const std::string last = json_object({{"oneOf", json_array({length, json_object({{"const", json_string("inf")}})})}});
  const std::string range = json_object(
      {{"type", json_string("array")}, {"minItems", "2"}, {"maxItems", "2"}, {"items", json_array({length, last})}});
  const std::string lengths =
      json_object({{"type", json_string("object")},
                   {"minProperties", "1"},
                   {"propertyNames", reference_to("name")},
                   {"additionalProperties", json_object({{"oneOf", json_array({length, range})}})}});
  const std::string rank =
      json_object({{"type", json_string("integer")}, {"minimum", "0"}, {"maximum", std::to_string(kMostRank)}});
  return {{"type", json_string("object")},
          {"additionalProperties", "false"},
          {"minProperties", "1"},
          {"properties", json_object({{"dtype", dtype}, {"lengths", lengths}, {"rank", rank}})}};
}

JsonEntries roles_of(const DirectiveInfo& info, Of of) {
  const JsonEntries producer = {{"enum", json_array({"1"})}};
  const JsonEntries alternate = {{"enum", json_array({"true"})}};
  return {{"type", json_string("object")},
          {"additionalProperties", "false"},
          {"required", json_array({json_string("producer"), json_string("consumer")})},
          {"properties", json_object({{"producer", json_object(scalar_choice(producer, of))},
                                      {"consumer", json_object(number_choice(number_schema(info), of))},
                                      {"alternate", json_object(scalar_choice(alternate, of))}})}};
}

/// A mapping from names to values.
JsonEntries by_name(const JsonEntries& value, const JsonEntries& more = {}) {
  JsonEntries out = {{"type", json_string("object")}, {"minProperties", "1"}};
  out.insert(out.end(), more.begin(), more.end());
  out.emplace_back("propertyNames", reference_to("name"));
  out.emplace_back("additionalProperties", json_object(value));
  return out;
}

JsonEntries value_of(const DirectiveInfo& info, Of of) {
  switch (info.form) {
    case ValueForm::flag:
      return scalar_choice({{"enum", json_array({"true"})}}, of);
    case ValueForm::integer:
      return number_choice(integer_schema(info), of);
    case ValueForm::integer_pair:
      return list_choice({{"type", json_string("array")},
                          {"minItems", "2"},
                          {"maxItems", "2"},
                          {"items", json_object(number_schema(info))}},
                         of);
    case ValueForm::loop:
      return scalar_choice({{"allOf", json_array({reference_to("loop")})}}, of);
    case ValueForm::loops:
      return list_choice(
          {{"type", json_string("array")}, {"minItems", "1"}, {"uniqueItems", "true"}, {"items", reference_to("loop")}},
          of);
    case ValueForm::axis_numbers:
      return map_choice(by_name(number_choice(number_schema(info), of)), by_name(number_schema(info)), of);
    case ValueForm::extents:
      return {
          {"type", json_string("array")}, {"minItems", "1"}, {"uniqueItems", "true"}, {"items", reference_to("name")}};
    case ValueForm::extent_numbers:
      return by_name(number_schema(info));
    case ValueForm::axis_parts: {
      const std::string size =
          json_object({{"type", json_string("integer")}, {"minimum", "1"}, {"maximum", std::to_string(kMostPartSize)}});
      const std::string sized = json_object({{"type", json_string("object")},
                                             {"required", json_array({json_string("split_size")})},
                                             {"additionalProperties", "false"},
                                             {"properties", json_object({{"split_size", size}})}});
      const std::string chosen = json_object({{"enum", json_array({json_string("auto")})}});
      const std::string how = json_object({{"oneOf", json_array({json_object(number_schema(info)), chosen, sized})}});
      const auto list_of = [](const std::vector<std::string>& items) {
        const std::string count = std::to_string(items.size());
        return json_object(
            {{"type", json_string("array")}, {"minItems", count}, {"maxItems", count}, {"items", json_array(items)}});
      };
      const std::string teams =
          json_object({{"type", json_string("integer")}, {"minimum", "2"}, {"maximum", std::to_string(kMostTeams)}});
      const JsonEntries parts = {
          {"oneOf",
           json_array({list_of({reference_to("loop"),
                                json_object(number_choice(
                                    {{"oneOf", json_array({json_object(number_schema(info)), chosen, sized})}}, of))}),
                       list_of({reference_to("loop"), how, reference_to("loop"), teams})})}};
      return by_name(parts, {{"maxProperties", "1"}});
    }
    case ValueForm::axis_lists: {
      const JsonEntries axes = {{"type", json_string("array")},
                                {"minItems", std::to_string(info.least)},
                                {"maxItems", std::to_string(info.most)},
                                {"uniqueItems", "true"},
                                {"items", reference_to("name")}};
      return by_name(list_choice(axes, of));
    }
    case ValueForm::role_numbers:
      return map_choice(roles_of(info, of), roles_of(info, Of::schedule), of);
    case ValueForm::spaces: {
      const std::string both = json_array({json_string("shared"), json_string("register")});
      return list_choice(
          {{"enum", json_array({json_string("global"), json_string("shared"), json_string("register"), both})}}, of);
    }
    case ValueForm::word: {
      std::vector<std::string> words;
      for (const std::string_view word : info.words) words.push_back(json_string(word));
      return scalar_choice({{"enum", json_array(words)}}, of);
    }
    case ValueForm::part:
      return map_choice(part_of(info, of), part_of(info, Of::schedule), of);
    case ValueForm::target:
      return target_schema();
    case ValueForm::rewrite:
      return map_choice(rewrite_of(of), rewrite_of(Of::schedule), of);
    case ValueForm::service:
      return service_schema(info);
  }
  throw InternalError("value form without a schema");
}

std::string property_schema(const DirectiveInfo& info, Of of) {
  JsonEntries entries = {{"description", json_string(info.doc)}};
  for (auto& entry : value_of(info, of)) entries.push_back(std::move(entry));
  return json_object(entries);
}

/// `more`: keys that no directive has.
std::string properties_schema(bool top_level, Of of, const JsonEntries& more = {}) {
  JsonEntries properties;
  for (const DirectiveInfo& info : directive_table())
    if (((info.sites & kTopLevel) != 0) == top_level)
      properties.emplace_back(std::string(info.key), property_schema(info, of));
  properties.insert(properties.end(), more.begin(), more.end());
  return json_object(properties);
}

std::string placement_schema(Of of) {
  return json_object({{"type", json_string("object")},
                      {"minProperties", "1"},
                      {"additionalProperties", "false"},
                      {"properties", properties_schema(false, of)}});
}

std::string text_schema(const std::string& pattern) {
  return json_object({{"type", json_string("string")}, {"pattern", json_string(pattern)}});
}

const std::string kNamePattern = "^[A-Za-z_][A-Za-z0-9_]*$";
const std::string kLoopPattern = "^[A-Za-z_][A-Za-z0-9_]*(\\.[oisw])?$";

}  // namespace

std::string directive_reference_markdown() {
  std::string out;
  for (const DirectiveInfo& info : directive_table()) {
    out += "### `" + std::string(info.key) + "`\n\n";
    out += std::string(info.doc) + "\n\n";
    out += "Of " + describe_sites(info.sites) + "; value: " + describe_value(info) + range_of(info) + ".\n\n";
    out += "`" + std::string(info.example) + "`\n\nbefore\n" + code_block(info.before);
    out += "after\n" + code_block(info.after) + "\n";
  }
  return out;
}

std::string schedule_json_schema() {
  return json_object({{"$schema", json_string("http://json-schema.org/draft-07/schema#")},
                      {"title", json_string("Schedule of Astatide")},
                      {"description", json_string("How to compute an algorithm: see schedules/README.md.")},
                      {"type", json_string("object")},
                      {"propertyNames", reference_to("name")},
                      {"properties", properties_schema(true, Of::schedule)},
                      {"additionalProperties", reference_to("placement")},
                      {"definitions", json_object({{"name", text_schema(kNamePattern)},
                                                   {"loop", text_schema(kLoopPattern)},
                                                   {"placement", placement_schema(Of::schedule)}})}}) +
         "\n";
}

std::string space_json_schema() {
  // In braces YAML ends a value at a comma, so a semicolon says the same there.
  const std::string range = text_schema("^range *\\( *[0-9]{1,15} *[,;] *[0-9]{1,15} *[,;] *0*[1-9][0-9]{0,14} *\\)$");
  const std::string part = json_object({{"type", json_string("object")},
                                        {"propertyNames", reference_to("name")},
                                        {"properties", properties_schema(true, Of::schedule)},
                                        {"additionalProperties", reference_to("placement")}});
  const std::string none = json_object({{"type", json_string("null")}});
  const JsonEntries variants = by_name({{"oneOf", json_array({reference_to("part"), none})}});
  const std::string condition = json_object({{"type", json_string("string")}, {"pattern", json_string(".")}});
  const std::string conditions = json_object({{"type", json_string("array")}, {"minItems", "1"}, {"items", condition}});
  const JsonEntries own = {
      {"choose", json_object(by_name(variants))},
      {"where", json_object({{"oneOf", json_array({condition, conditions})}})},
  };
  return json_object(
             {{"$schema", json_string("http://json-schema.org/draft-07/schema#")},
              {"title", json_string("Space of schedules of Astatide")},
              {"description", json_string("A schedule in which values may be alternatives, for `astatide tune`: "
                                          "see schedules/README.md.")},
              {"type", json_string("object")},
              {"propertyNames", reference_to("name")},
              {"properties", properties_schema(true, Of::space, own)},
              {"additionalProperties", reference_to("varied_placement")},
              {"definitions", json_object({{"name", text_schema(kNamePattern)},
                                           {"loop", text_schema(kLoopPattern)},
                                           {"range", range},
                                           {"part", part},
                                           {"placement", placement_schema(Of::schedule)},
                                           {"varied_placement", placement_schema(Of::space)}})}}) +
         "\n";
}

}  // namespace astatide
