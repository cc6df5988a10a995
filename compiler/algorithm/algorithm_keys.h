#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace astatide {

/// The keys of an algorithm file, in the order in which they are read and printed.
enum class AlgorithmKey { algorithm, extents, scalars, inputs, axes, updates, define, outputs, sizes };

struct AlgorithmKeyInfo {
  AlgorithmKey key;
  std::string_view name;
  bool required;
  /// What stands behind the key, for messages and people's editors.
  std::string_view meaning;
  /// Its JSON Schema, without the description.
  std::string_view schema;
};

/// One table for the reader, the printer and the JSON Schema.
std::span<const AlgorithmKeyInfo> algorithm_keys();
const AlgorithmKeyInfo& info(AlgorithmKey key);
std::optional<AlgorithmKey> find_algorithm_key(std::string_view name);
std::vector<std::string> algorithm_key_names();

}  // namespace astatide
