#include <utility>

#include "compiler/schedule/directives.h"

// The two views of the table of directives that people and their editors read.

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

std::string numbers_by_name(const DirectiveInfo& info) {
  return json_object({{"type", json_string("integer")},
                      {"minimum", std::to_string(info.least)},
                      {"maximum", std::to_string(info.most)}});
}

JsonEntries integer_schema(const DirectiveInfo& info) {
  if (!info.power_of_two)
    return {{"type", json_string("integer")},
            {"minimum", std::to_string(info.least)},
            {"maximum", std::to_string(info.most)}};
  std::vector<std::string> powers;
  for (std::int64_t n = info.least; n <= info.most; n *= 2) powers.push_back(std::to_string(n));
  return {{"enum", json_array(powers)}};
}

JsonEntries rewrite_schema() {
  const JsonEntries power = {
      {"type", json_string("integer")}, {"minimum", "0"}, {"maximum", std::to_string(kMostRescale)}};
  std::vector<std::string> modes;
  for (const RescaleMode mode : {RescaleMode::plain, RescaleMode::lazy, RescaleMode::optimistic})
    modes.push_back(json_string(name_of(mode)));
  const std::string options =
      json_object({{"type", json_string("object")},
                   {"additionalProperties", "false"},
                   {"minProperties", "1"},
                   {"properties", json_object({{"rescale", json_object({{"enum", json_array(modes)}})},
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

JsonEntries part_schema(const DirectiveInfo& info) {
  const std::string fraction =
      json_object({{"type", json_string("string")}, {"pattern", json_string("^[0-9]{1,2}/[1-9][0-9]?$")}});
  const std::string whole = json_object({{"enum", json_array({"0", "1"})}});
  return {{"type", json_string("object")},
          {"additionalProperties", "false"},
          {"minProperties", "1"},
          {"properties",
           json_object({{std::string(info.words[0]), json_object({{"oneOf", json_array({fraction, whole})}})}})}};
}

JsonEntries service_schema(const DirectiveInfo& info) {
  std::vector<std::string> types;
  for (const ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16})
    types.push_back(json_string(name_of(type)));
  const std::string dtype = json_object({{"type", json_string("array")},
                                         {"minItems", "1"},
                                         {"uniqueItems", "true"},
                                         {"items", json_object({{"enum", json_array(types)}})}});
  const std::string length = numbers_by_name(info);
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

JsonEntries value_schema(const DirectiveInfo& info) {
  switch (info.form) {
    case ValueForm::flag:
      return {{"enum", json_array({"true"})}};
    case ValueForm::integer:
      return integer_schema(info);
    case ValueForm::integer_pair:
      return {{"type", json_string("array")}, {"minItems", "2"}, {"maxItems", "2"}, {"items", numbers_by_name(info)}};
    case ValueForm::loop:
      return {{"allOf", json_array({reference_to("loop")})}};
    case ValueForm::loops:
      return {
          {"type", json_string("array")}, {"minItems", "1"}, {"uniqueItems", "true"}, {"items", reference_to("loop")}};
    case ValueForm::axis_numbers:
    case ValueForm::extent_numbers:
      return {{"type", json_string("object")},
              {"minProperties", "1"},
              {"propertyNames", reference_to("name")},
              {"additionalProperties", numbers_by_name(info)}};
    case ValueForm::axis_parts: {
      const std::string size =
          json_object({{"type", json_string("integer")}, {"minimum", "1"}, {"maximum", std::to_string(kMostPartSize)}});
      const std::string sized = json_object({{"type", json_string("object")},
                                             {"required", json_array({json_string("split_size")})},
                                             {"additionalProperties", "false"},
                                             {"properties", json_object({{"split_size", size}})}});
      const std::string chosen = json_object({{"enum", json_array({json_string("auto")})}});
      const std::string how = json_object({{"oneOf", json_array({numbers_by_name(info), chosen, sized})}});
      const auto list_of = [](const std::vector<std::string>& items) {
        const std::string count = std::to_string(items.size());
        return json_object(
            {{"type", json_string("array")}, {"minItems", count}, {"maxItems", count}, {"items", json_array(items)}});
      };
      const std::string teams =
          json_object({{"type", json_string("integer")}, {"minimum", "2"}, {"maximum", std::to_string(kMostTeams)}});
      const std::string parts =
          json_object({{"oneOf", json_array({list_of({reference_to("loop"), how}),
                                             list_of({reference_to("loop"), how, reference_to("loop"), teams})})}});
      return {{"type", json_string("object")},
              {"minProperties", "1"},
              {"maxProperties", "1"},
              {"propertyNames", reference_to("name")},
              {"additionalProperties", parts}};
    }
    case ValueForm::axis_lists: {
      const std::string axes = json_object({{"type", json_string("array")},
                                            {"minItems", std::to_string(info.least)},
                                            {"maxItems", std::to_string(info.most)},
                                            {"uniqueItems", "true"},
                                            {"items", reference_to("name")}});
      return {{"type", json_string("object")},
              {"minProperties", "1"},
              {"propertyNames", reference_to("name")},
              {"additionalProperties", axes}};
    }
    case ValueForm::role_numbers: {
      const std::string producer = json_object({{"enum", json_array({"1"})}});
      const std::string alternate = json_object({{"enum", json_array({"true"})}});
      return {{"type", json_string("object")},
              {"additionalProperties", "false"},
              {"required", json_array({json_string("producer"), json_string("consumer")})},
              {"properties",
               json_object({{"producer", producer}, {"consumer", numbers_by_name(info)}, {"alternate", alternate}})}};
    }
    case ValueForm::spaces: {
      const std::string both = json_array({json_string("shared"), json_string("register")});
      return {{"enum", json_array({json_string("global"), json_string("shared"), json_string("register"), both})}};
    }
    case ValueForm::word: {
      std::vector<std::string> words;
      for (const std::string_view word : info.words) words.push_back(json_string(word));
      return {{"enum", json_array(words)}};
    }
    case ValueForm::part:
      return part_schema(info);
    case ValueForm::target:
      return target_schema();
    case ValueForm::rewrite:
      return rewrite_schema();
    case ValueForm::service:
      return service_schema(info);
  }
  throw InternalError("value form without a schema");
}

std::string property_schema(const DirectiveInfo& info) {
  JsonEntries entries = {{"description", json_string(info.doc)}};
  for (auto& entry : value_schema(info)) entries.push_back(std::move(entry));
  return json_object(entries);
}

std::string properties_schema(bool top_level) {
  JsonEntries properties;
  for (const DirectiveInfo& info : directive_table())
    if (((info.sites & kTopLevel) != 0) == top_level)
      properties.emplace_back(std::string(info.key), property_schema(info));
  return json_object(properties);
}

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
  const std::string name =
      json_object({{"type", json_string("string")}, {"pattern", json_string("^[A-Za-z_][A-Za-z0-9_]*$")}});
  const std::string loop =
      json_object({{"type", json_string("string")}, {"pattern", json_string("^[A-Za-z_][A-Za-z0-9_]*(\\.[oisw])?$")}});
  const std::string placement = json_object({{"type", json_string("object")},
                                             {"minProperties", "1"},
                                             {"additionalProperties", "false"},
                                             {"properties", properties_schema(false)}});
  return json_object({{"$schema", json_string("http://json-schema.org/draft-07/schema#")},
                      {"title", json_string("Schedule of Astatide")},
                      {"description", json_string("How to compute an algorithm: see schedules/README.md.")},
                      {"type", json_string("object")},
                      {"propertyNames", reference_to("name")},
                      {"properties", properties_schema(true)},
                      {"additionalProperties", reference_to("placement")},
                      {"definitions", json_object({{"name", name}, {"loop", loop}, {"placement", placement}})}}) +
         "\n";
}

}  // namespace astatide
