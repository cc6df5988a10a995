#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/algorithm/source_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide {

/// A value of a YAML file with its place. Maps keep the order of the file.
struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  /// Of a scalar; `quoted` where it stood in quotes or as a block, so that it is a string whatever it looks like.
  std::string value;
  bool quoted = false;
  Location where;
  /// Of a sequence; of a map, the value of each key.
  std::vector<YamlNode> items;
  std::vector<YamlNode> keys;

  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_sequence() const { return kind == Kind::sequence; }
  bool is_map() const { return kind == Kind::map; }
};

/// "a list", "a map", "text", "a number", "nothing": for "expected .., found ..".
std::string describe(const YamlNode& node);

/// One YAML document of a file that may come from someone else: bounded in size and depth, without anchors, aliases and
/// tags, every key once.
class YamlDocument {
 public:
  /// Throws UserError where the text is no YAML or goes over a bound. Repeated keys are collected in `errors`.
  YamlDocument(const std::string& text, const std::string& file, Diagnostics& errors);

  const YamlNode& root() const { return root_; }
  /// The text of a scalar, with the place in the file of each of its characters.
  SourceText source_of(const YamlNode& scalar) const;
  /// The text of a line, counted from 1.
  std::string line(int number) const;

 private:
  Location place(int line, int column) const;

  std::string file_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
  YamlNode root_;
};

}  // namespace astatide
