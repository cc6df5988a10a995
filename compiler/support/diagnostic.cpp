#include "compiler/support/diagnostic.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace astatide {
namespace {

std::string join_messages(const std::vector<Diagnostic>& diagnostics) {
  std::string out;
  for (const Diagnostic& d : diagnostics) {
    if (!out.empty()) out += '\n';
    out += format_diagnostic(d);
  }
  return out;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

/// Insertions, deletions, substitutions, and two neighbours that changed places, the commonest slip of all.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin()).first -
                                  a.begin());
}

}  // namespace

std::string format_location(const Location& where) {
  std::string out = where.file;
  if (where.line > 0) out += (out.empty() ? "line " : ":") + std::to_string(where.line);
  if (where.line > 0 && where.column > 0) out += ":" + std::to_string(where.column);
  return out;
}

std::string format_diagnostic(const Diagnostic& diagnostic, std::string_view severity) {
  std::string out = format_location(diagnostic.where);
  if (!out.empty()) out += ": ";
  out += std::string(severity) + ": " + diagnostic.message;
  const Location& where = diagnostic.where;
  if (!where.text.empty()) {
    // A very long line (one from a hostile file) is shown by its start only.
    constexpr std::size_t kShown = 160;
    out += "\n    " + where.text.substr(0, kShown);
    if (where.column > 0 && static_cast<std::size_t>(where.column) <= kShown)
      out += "\n    " + std::string(static_cast<std::size_t>(where.column) - 1, ' ') + "^";
  }
  for (const std::string& note : diagnostic.notes) out += "\nnote: " + note;
  return out;
}

UserError::UserError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join_messages(diagnostics)), diagnostics_(std::move(diagnostics)) {}

UserError::UserError(Location where, std::string message, std::vector<std::string> notes)
    : UserError(std::vector<Diagnostic>{{std::move(where), std::move(message), std::move(notes)}}) {}

UserError::UserError(std::string message, std::vector<std::string> notes)
    : UserError(Location{}, std::move(message), std::move(notes)) {}

Diagnostic& Diagnostics::error(Location where, std::string message, std::vector<std::string> notes) {
  return problems_.emplace_back(Diagnostic{std::move(where), std::move(message), std::move(notes)});
}

void Diagnostics::throw_if_any() const {
  if (problems_.empty()) return;
  std::vector<Diagnostic> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.where.file, a.where.line, a.where.column) < std::tie(b.where.file, b.where.line, b.where.column);
  });
  throw UserError(std::move(sorted));
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  // Bounds the work that a hostile file can ask for.
  constexpr std::size_t kLongestWord = 64;
  constexpr std::size_t kMostCandidates = 256;
  if (word.size() > kLongestWord) return {};
  for (const std::string& candidate : candidates)
    if (equal_ignoring_case(word, candidate)) return candidate;
  // Any other letter is one change away from a letter: no help.
  if (word.size() < 2) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMostCandidates); ++i) {
    const std::string& candidate = candidates[i];
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance > best_distance || (distance == best_distance && best.empty())) continue;
    // Of equally near ones that which begins alike.
    if (distance == best_distance && common_prefix(word, candidate) <= common_prefix(word, best)) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string join(const std::vector<std::string>& words, const std::string& between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

}  // namespace astatide
