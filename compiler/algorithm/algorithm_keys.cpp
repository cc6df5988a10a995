#include "compiler/algorithm/algorithm_keys.h"

#include <array>

#include "compiler/algorithm/algorithm.h"

namespace astatide {
namespace {

constexpr std::array kKeys{
    AlgorithmKeyInfo{AlgorithmKey::algorithm, "algorithm", true, "The name of the algorithm.",
                     R"("$ref": "#/$defs/name")"},
    AlgorithmKeyInfo{AlgorithmKey::extents, "extents", true,
                     "The lengths that shapes are made of: known when a kernel is launched.",
                     R"("type": "array", "items": {"$ref": "#/$defs/name"}, "minItems": 1, "uniqueItems": true)"},
    AlgorithmKeyInfo{
        AlgorithmKey::scalars, "scalars", false,
        "Run-time parameters in f32, each with its default: an expression over extents and earlier scalars, or "
        "nothing where the caller must give one.",
        R"("type": "object", "propertyNames": {"$ref": "#/$defs/name"}, )"
        R"("additionalProperties": {"type": ["string", "number", "null"]})"},
    AlgorithmKeyInfo{
        AlgorithmKey::inputs, "inputs", true,
        "The tensors that the caller gives: their dimensions, outermost first, the data type where it is not that of "
        "the request, and whether the integers in it never decrease along the last dimension.",
        R"("type": "object", "propertyNames": {"$ref": "#/$defs/name"}, )"
        R"("additionalProperties": {"oneOf": [{"$ref": "#/$defs/dims"}, {"type": "object", )"
        R"("properties": {"dims": {"$ref": "#/$defs/dims"}, "dtype": {"$ref": "#/$defs/dtype"}, )"
        R"("monotone": {"type": "boolean"}}, )"
        R"("required": ["dims"], "additionalProperties": false}]})"},
    AlgorithmKeyInfo{AlgorithmKey::axes, "axes", false,
                     "The extent of each axis that indexes no dimension by itself; of a ragged one its length too: "
                     "LENGTH <= EXTENT.",
                     R"("type": "object", "propertyNames": {"$ref": "#/$defs/name"}, )"
                     R"("additionalProperties": {"type": ["string", "integer"]})"},
    AlgorithmKeyInfo{AlgorithmKey::updates, "updates", false,
                     "What is stored into inputs before all definitions, in order: INPUT[places] = expression where "
                     "condition. Places are integers over axes, extents and inputs of integers; nothing is reduced.",
                     R"("type": "array", "items": {"type": "string"}, "minItems": 1)"},
    AlgorithmKeyInfo{AlgorithmKey::define, "define", true,
                     "Definitions, each of inputs and earlier ones: NAME[axes] = expression where condition.",
                     R"("type": "array", "items": {"type": "string"}, "minItems": 1)"},
    AlgorithmKeyInfo{AlgorithmKey::outputs, "outputs", true,
                     "The definitions that are results; a map gives dimensions to those with places of their own.",
                     R"("oneOf": [{"type": "array", "items": {"$ref": "#/$defs/name"}, "minItems": 1, )"
                     R"("uniqueItems": true}, {"type": "object", "propertyNames": {"$ref": "#/$defs/name"}, )"
                     R"("additionalProperties": {"oneOf": [{"$ref": "#/$defs/dims"}, {"type": "null"}]}, )"
                     R"("minProperties": 1}])"},
    AlgorithmKeyInfo{AlgorithmKey::sizes, "sizes", false, "A value for every extent, used when a request names none.",
                     R"("type": "object", "propertyNames": {"$ref": "#/$defs/name"}, )"
                     R"("additionalProperties": {"type": "integer", "minimum": 0})"},
};
static_assert([] {
  for (std::size_t i = 0; i < kKeys.size(); ++i)
    if (static_cast<std::size_t>(kKeys[i].key) != i) return false;
  return true;
}());

}  // namespace

std::span<const AlgorithmKeyInfo> algorithm_keys() { return kKeys; }

const AlgorithmKeyInfo& info(AlgorithmKey key) { return kKeys[static_cast<std::size_t>(key)]; }

std::optional<AlgorithmKey> find_algorithm_key(std::string_view name) {
  for (const AlgorithmKeyInfo& key : kKeys)
    if (key.name == name) return key.key;
  return std::nullopt;
}

std::vector<std::string> algorithm_key_names() {
  std::vector<std::string> names;
  for (const AlgorithmKeyInfo& key : kKeys) names.emplace_back(key.name);
  return names;
}

std::string algorithm_json_schema() {
  std::string properties;
  std::string required;
  for (const AlgorithmKeyInfo& key : kKeys) {
    if (!properties.empty()) properties += ",\n";
    properties += "    \"" + std::string(key.name) + "\": {\n      \"description\": \"" + std::string(key.meaning) +
                  "\",\n      " + std::string(key.schema) + "\n    }";
    if (key.required) required += (required.empty() ? "\"" : ", \"") + std::string(key.name) + "\"";
  }
  std::string dtypes;
  for (int i = 0; i <= static_cast<int>(ScalarType::boolean); ++i)
    dtypes += (i == 0 ? "\"" : ", \"") + std::string(name_of(static_cast<ScalarType>(i))) + "\"";
  return "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
         "  \"title\": \"Astatide algorithm\",\n"
         "  \"type\": \"object\",\n  \"properties\": {\n" +
         properties + "\n  },\n  \"required\": [" + required +
         "],\n  \"additionalProperties\": false,\n  \"$defs\": {\n"
         "    \"name\": {\"type\": \"string\", \"pattern\": \"^[A-Za-z_][A-Za-z0-9_]*$\", \"maxLength\": 64},\n"
         "    \"dims\": {\"type\": \"array\", \"items\": {\"type\": [\"string\", \"integer\"]}},\n"
         "    \"dtype\": {\"enum\": [" +
         dtypes + "]}\n  }\n}\n";
}

}  // namespace astatide
