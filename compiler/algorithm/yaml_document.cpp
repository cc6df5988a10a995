#include "compiler/algorithm/yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "compiler/algorithm/names.h"
#include "compiler/support/characters.h"

namespace astatide {
namespace {

constexpr std::size_t kDeepestNesting = 16;
constexpr std::size_t kMostValues = 65536;
// More is never shown; see format_diagnostic.
constexpr std::size_t kLongestShownLine = 240;

/// Builds YamlNodes from the events of yaml-cpp, whose own tree would expand aliases and drop repeated keys.
class TreeBuilder : public YAML::EventHandler {
 public:
  using Place = std::function<Location(const YAML::Mark&)>;
  TreeBuilder(Place place, Diagnostics& errors) : place_(std::move(place)), errors_(errors) {}

  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      throw UserError(place_(mark), "the file holds more than one document", {"remove what follows '---'"});
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(node(YamlNode::Kind::null, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    // yaml-cpp's tags of a scalar without one: ? plain, ! in quotes or a block.
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(mark);
    YamlNode scalar = node(YamlNode::Kind::scalar, mark);
    scalar.value = value;
    scalar.quoted = tag == "!";
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    std::set<std::string> seen;
    bool repeated = false;
  };

  YamlNode node(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode out;
    out.kind = kind;
    out.where = place_(mark);
    if (++values_ > kMostValues)
      throw UserError(out.where, "the file holds more than " + std::to_string(kMostValues) + " values");
    return out;
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor)
      throw UserError(place_(mark), "anchors and aliases are not read", {"write the value out where it is used"});
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark) const { throw UserError(place_(mark), "tags are not read"); }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(mark);
    if (stack_.size() >= kDeepestNesting)
      throw UserError(place_(mark), "lists and maps nest deeper than " + std::to_string(kDeepestNesting));
    stack_.push_back({node(kind, mark), {}, false});
  }

  void close() {
    YamlNode done = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(done));
  }

  void add(YamlNode value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = stack_.back();
    if (!parent.node.is_map()) {
      parent.node.items.push_back(std::move(value));
    } else if (parent.node.keys.size() == parent.node.items.size()) {
      if (!value.is_scalar()) throw UserError(value.where, "a key is a word, found " + describe(value));
      parent.repeated = !parent.seen.insert(value.value).second;
      if (parent.repeated) errors_.error(value.where, "'" + quoted(value.value) + "' is given twice");
      parent.node.keys.push_back(std::move(value));
    } else if (parent.repeated) {
      parent.node.keys.pop_back();
    } else {
      parent.node.items.push_back(std::move(value));
    }
  }

  Place place_;
  Diagnostics& errors_;
  std::vector<Open> stack_;
  YamlNode root_;
  std::size_t values_ = 0;
  int documents_ = 0;
};

/// Length of the escape sequence at a backslash of a text in double quotes.
std::size_t escape_length(char kind) {
  switch (kind) {
    case 'x':
      return 4;
    case 'u':
      return 6;
    case 'U':
      return 10;
    default:
      return 2;
  }
}

}  // namespace

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::sequence:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  return (node.quoted ? "the text \"" : "'") + quoted(node.value) + (node.quoted ? "\"" : "'");
}

YamlDocument::YamlDocument(const std::string& text, const std::string& file, Diagnostics& errors)
    : file_(file), text_(text) {
  if (text.size() > kLongestFile)
    throw UserError(Location{file, 0, 0, ""}, "the file has " + std::to_string(text.size()) + " bytes, the limit is " +
                                                  std::to_string(kLongestFile));
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n') line_starts_.push_back(i + 1);
    // yaml-cpp would guess another encoding from zero bytes.
    if (c < 32 && c != '\n' && c != '\r' && c != '\t')
      throw UserError(place(static_cast<int>(line_starts_.size()), static_cast<int>(i - line_starts_.back()) + 1),
                      "the file holds a control character, byte " + std::to_string(c));
  }
  const auto place_of = [this](const YAML::Mark& mark) { return place(mark.line + 1, mark.column + 1); };
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder(place_of, errors);
    while (parser.HandleNextDocument(builder)) {
    }
    root_ = builder.take_root();
    // Without a document there was no event to take a place from.
    if (root_.where.line == 0) root_.where = place(1, 1);
  } catch (const YAML::Exception& e) {
    throw UserError(place_of(e.mark), "not YAML: " + e.msg);
  }
}

Location YamlDocument::place(int line_number, int column) const {
  return Location{file_, line_number, column, line(line_number)};
}

std::string YamlDocument::line(int number) const {
  if (number < 1 || static_cast<std::size_t>(number) > line_starts_.size()) return {};
  const std::size_t start = line_starts_[static_cast<std::size_t>(number) - 1];
  const std::size_t end = std::min(text_.find('\n', start), text_.size());
  std::string out = text_.substr(start, std::min(end - start, kLongestShownLine));
  if (!out.empty() && out.back() == '\r') out.pop_back();
  return out;
}

SourceText YamlDocument::source_of(const YamlNode& scalar) const {
  int line_number = std::max(scalar.where.line, 1);
  std::size_t at =
      line_starts_[static_cast<std::size_t>(line_number) - 1] + static_cast<std::size_t>(scalar.where.column) - 1;
  const auto here = [&] {
    return SourceText::Place{line_number,
                             static_cast<int>(at - line_starts_[static_cast<std::size_t>(line_number) - 1]) + 1};
  };
  const auto step = [&](std::size_t count) {
    for (; count > 0 && at < text_.size(); --count)
      if (text_[at++] == '\n') ++line_number;
  };
  const auto here_or_end = [&] { return at < text_.size() ? text_[at] : '\0'; };
  const char opening = scalar.quoted ? here_or_end() : '\0';
  const bool block = opening == '|' || opening == '>';
  if (block) step(std::min(text_.find('\n', at), text_.size()) + 1 - at);
  if (opening == '"' || opening == '\'') step(1);
  std::vector<SourceText::Place> places;
  places.reserve(scalar.value.size() + 1);
  for (const char c : scalar.value) {
    // A line break has become a space; the spaces around it, or those that indent a block, are gone.
    const auto stands_for_space = [](char raw) { return raw == ' ' || raw == '\n' || raw == '\r'; };
    while (is_space(here_or_end()) && here_or_end() != c && !(c == ' ' && stands_for_space(here_or_end()))) step(1);
    places.push_back(here());
    if (opening == '"' && here_or_end() == '\\') {
      step(escape_length(at + 1 < text_.size() ? text_[at + 1] : '\0'));
    } else if (opening == '\'' && here_or_end() == '\'') {
      step(2);
    } else {
      step(1);
    }
  }
  places.push_back(here());
  return SourceText(scalar.value, scalar.where, std::move(places));
}

}  // namespace astatide
