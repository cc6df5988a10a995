#include "compiler/schedule/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>

#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kDeepest = 8;
constexpr std::size_t kMostValues = 10000;
constexpr std::size_t kShown = 200;

class Lines {
 public:
  Lines(const std::string& text, std::string file) : file_(std::move(file)) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      // Every value keeps its line: a long one is kept by its start only, which is what a message shows.
      lines_.push_back(line.substr(0, kShown));
    }
  }

  Location at(const YAML::Mark& mark) const {
    if (mark.is_null()) return {file_, 0, 0, ""};
    const auto line = static_cast<std::size_t>(mark.line);
    return {file_, mark.line + 1, mark.column + 1, line < lines_.size() ? lines_[line] : ""};
  }

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Lines& lines) : lines_(lines) {}

  YamlNode root;
  bool started = false;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started) throw UserError(lines_.at(mark), "a second document, one is wanted");
    started = true;
    root.where = lines_.at(mark);
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, "", YamlNode::Kind::null); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    // yaml-cpp tags a plain scalar "?" and a quoted one "!".
    const bool plain = tag == "?" || tag.empty();
    add(mark, anchor, plain || tag == "!" ? "" : tag, plain ? YamlNode::Kind::plain : YamlNode::Kind::quoted).text =
        value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(add(mark, anchor, tag == "?" || tag == "!" ? "" : tag, YamlNode::Kind::sequence));
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(add(mark, anchor, tag == "?" || tag == "!" ? "" : tag, YamlNode::Kind::mapping));
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Open {
    YamlNode* node;
    bool key_is_next = true;
  };

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    throw UserError(lines_.at(mark), "anchors and aliases are not allowed", {"write the value out"});
  }

  YamlNode& add(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag, YamlNode::Kind kind) {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    if (!tag.empty()) throw UserError(lines_.at(mark), "tags are not allowed: " + quoted(tag));
    if (++count_ > kMostValues)
      throw UserError(lines_.at(mark), "more than " + std::to_string(kMostValues) + " values");
    YamlNode* node = nullptr;
    if (open_.empty()) {
      node = &root;
    } else if (open_.back().node->kind == YamlNode::Kind::sequence) {
      node = &open_.back().node->items.emplace_back();
    } else {
      auto& entries = open_.back().node->entries;
      node = open_.back().key_is_next ? &entries.emplace_back().first : &entries.back().second;
      open_.back().key_is_next = !open_.back().key_is_next;
    }
    node->kind = kind;
    node->where = lines_.at(mark);
    return *node;
  }

  void open(YamlNode& node) {
    if (open_.size() >= kDeepest)
      throw UserError(node.where, "nesting deeper than " + std::to_string(kDeepest) + " levels");
    open_.push_back({&node});
  }

  const Lines& lines_;
  // Pointers into a node stay valid while it is open: only the innermost open node grows.
  std::vector<Open> open_;
  std::size_t count_ = 0;
};

void check_text(const std::string& text, const std::string& file) {
  if (text.size() > kMostBytes)
    throw UserError(Location{file, 0, 0, ""},
                    std::to_string(text.size()) + " bytes, at most " + std::to_string(kMostBytes) + " are allowed");
  int line = 1;
  int column = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 32 && c != '\n' && c != '\r' && c != '\t') || byte == 127)
      throw UserError(Location{file, line, column, ""}, "a control character (byte " + std::to_string(int{byte}) + ")");
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
}

}  // namespace

std::string YamlNode::describe() const {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::plain:
      return quoted(text);
    case Kind::quoted:
      return "the string '" + quoted(text) + "'";
    case Kind::sequence:
      return "a list";
    case Kind::mapping:
      return "a mapping";
  }
  throw InternalError("YAML node without a kind");
}

YamlNode read_yaml(const std::string& text, const std::string& file) {
  check_text(text, file);
  const Lines lines(text, file);
  TreeBuilder builder(lines);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& problem) {
    throw UserError(lines.at(problem.mark), "not YAML: " + problem.msg);
  }
  return std::move(builder.root);
}

}  // namespace astatide
