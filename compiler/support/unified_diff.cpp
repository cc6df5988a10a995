#include "compiler/support/unified_diff.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace astatide {
namespace {

constexpr std::size_t kAround = 3;                        // equal lines around those that differ
constexpr std::size_t kMostCells = std::size_t{1} << 27;  // of the table of common subsequences
using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    out.push_back(text.substr(0, text[end] == '\n' ? end : end + 1));
    text.remove_prefix(end + 1);
  }
  return out;
}

/// A line of the result: ' ' in both, '-' in the first, '+' in the second.
struct Edit {
  char kind = ' ';
  std::string_view line;
};

/// Of what is between a common beginning and a common end.
void add_middle(const Lines& first, const Lines& second, std::vector<Edit>& out) {
  const std::size_t rows = first.size(), columns = second.size();
  if (rows == 0 || columns == 0 || (rows + 1) > kMostCells / (columns + 1)) {
    for (const std::string_view line : first) out.push_back({'-', line});
    for (const std::string_view line : second) out.push_back({'+', line});
    return;
  }
  // longest[r, c]: lines that the rests from r and from c have in common, in order.
  std::vector<std::uint32_t> longest((rows + 1) * (columns + 1), 0);
  const auto at = [&](std::size_t r, std::size_t c) -> std::uint32_t& { return longest[r * (columns + 1) + c]; };
  for (std::size_t r = rows; r-- > 0;)
    for (std::size_t c = columns; c-- > 0;)
      at(r, c) = first[r] == second[c] ? at(r + 1, c + 1) + 1 : std::max(at(r + 1, c), at(r, c + 1));
  std::size_t r = 0, c = 0;
  while (r < rows || c < columns) {
    if (r < rows && c < columns && first[r] == second[c]) {
      out.push_back({' ', first[r]});
      ++r, ++c;
    } else if (c == columns || (r < rows && at(r + 1, c) >= at(r, c + 1))) {
      out.push_back({'-', first[r++]});
    } else {
      out.push_back({'+', second[c++]});
    }
  }
}

std::vector<Edit> edits_of(const Lines& first, const Lines& second) {
  std::size_t begin = 0, end = 0;
  const std::size_t shorter = std::min(first.size(), second.size());
  while (begin < shorter && first[begin] == second[begin]) ++begin;
  while (end < shorter - begin && first[first.size() - 1 - end] == second[second.size() - 1 - end]) ++end;
  const auto middle = [&](const Lines& lines) {
    return Lines(lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.end() - static_cast<std::ptrdiff_t>(end));
  };
  std::vector<Edit> out;
  for (std::size_t n = 0; n < begin; ++n) out.push_back({' ', first[n]});
  add_middle(middle(first), middle(second), out);
  for (std::size_t n = first.size() - end; n < first.size(); ++n) out.push_back({' ', first[n]});
  return out;
}

/// "12,7", or "12" of one line, or "11,0" of none behind line 11.
std::string range_of(std::size_t lines_before, std::size_t lines) {
  if (lines == 1) return std::to_string(lines_before + 1);
  return std::to_string(lines_before + (lines > 0 ? 1 : 0)) + "," + std::to_string(lines);
}

}  // namespace

std::string unified_diff(const std::string& first, const std::string& second, const std::string& first_name,
                         const std::string& second_name) {
  const std::vector<Edit> edits = edits_of(lines_of(first), lines_of(second));
  std::string out;
  std::size_t first_line = 0, second_line = 0;  // before edit n
  for (std::size_t n = 0; n < edits.size();) {
    // The next edit that is none of both, and the end of its group: where more than twice kAround lines are equal.
    std::size_t changed = n;
    while (changed < edits.size() && edits[changed].kind == ' ') ++changed;
    if (changed == edits.size()) break;
    const std::size_t begin = changed - std::min(changed - n, kAround);
    std::size_t last = changed;
    for (std::size_t k = changed; k < edits.size() && k - last <= 2 * kAround + 1; ++k)
      if (edits[k].kind != ' ') last = k;
    const std::size_t end = std::min(last + 1 + kAround, edits.size());
    first_line += begin - n, second_line += begin - n;
    std::string body;
    std::size_t of_first = 0, of_second = 0;
    for (std::size_t k = begin; k < end; ++k) {
      of_first += edits[k].kind != '+' ? 1 : 0;
      of_second += edits[k].kind != '-' ? 1 : 0;
      (body += edits[k].kind).append(edits[k].line) += '\n';
    }
    if (out.empty()) out = "--- " + first_name + "\n+++ " + second_name + "\n";
    out += "@@ -" + range_of(first_line, of_first) + " +" + range_of(second_line, of_second) + " @@\n" + body;
    first_line += of_first, second_line += of_second;
    n = end;
  }
  return out;
}

}  // namespace astatide
