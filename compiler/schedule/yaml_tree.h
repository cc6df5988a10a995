#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/support/diagnostic.h"

namespace astatide {

/// A YAML document as written: every value with its place, duplicate keys kept, no alias followed, no type guessed.
struct YamlNode {
  enum class Kind : std::uint8_t { null, plain, quoted, sequence, mapping };
  Kind kind = Kind::null;
  std::string text;  // of a scalar
  std::vector<YamlNode> items;
  std::vector<std::pair<YamlNode, YamlNode>> entries;
  Location where;

  bool is_scalar() const { return kind == Kind::plain || kind == Kind::quoted; }
  /// "the string '64 '", "a list": for messages.
  std::string describe() const;
};

/// Reads one document. Refuses anchors, aliases, tags, a second document, more than 1 MiB of text, nesting beyond
/// 8 levels and more than 10000 values; throws UserError with the place.
YamlNode read_yaml(const std::string& text, const std::string& file);

}  // namespace astatide
