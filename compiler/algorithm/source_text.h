#pragma once

#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/names.h"
#include "compiler/support/diagnostic.h"

namespace astatide {

/// Text of a file's value, and where each of its characters stands in the file: a value in quotes or folded over
/// several lines isn't what the file shows.
class SourceText {
 public:
  struct Place {
    int line = 0;
    int column = 0;
  };

  /// Text that stands in one piece on the line of `start`.
  SourceText(std::string text, Location start) : text_(std::move(text)), start_(std::move(start)) {}
  /// `places` holds one for each character and one for the end.
  SourceText(std::string text, Location start, std::vector<Place> places)
      : text_(std::move(text)), start_(std::move(start)), places_(std::move(places)) {}

  const std::string& text() const { return text_; }
  const Location& start() const { return start_; }
  /// Line and column of a character; `text` of the location only where it is on the first line.
  Location at(std::size_t offset) const {
    Location where = start_;
    if (!places_.empty()) {
      const Place& place = places_[std::min(offset, places_.size() - 1)];
      where.line = place.line;
      where.column = place.column;
      if (where.line != start_.line) where.text.clear();
    } else if (where.column > 0) {
      where.column += static_cast<int>(offset);
    }
    return where;
  }

 private:
  std::string text_;
  Location start_;
  std::vector<Place> places_;
};

/// Bounds on what a file can make of us: deeper or longer is refused.
constexpr int kDeepestExpression = 200;
constexpr std::size_t kLongestExpression = 64 * 1024;
constexpr std::size_t kLongestFile = 1024 * 1024;

/// parse_expr and parse_definition among known names, and "INPUT[places] = expr where predicate".
Expr parse_expr(const SourceText& source, const NameKinds& names, bool in_index);
Func parse_definition(const SourceText& source, const NameKinds& names);
Func parse_update(const SourceText& source, const NameKinds& names);

}  // namespace astatide
