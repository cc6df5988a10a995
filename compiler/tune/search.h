#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tune/space.h"

namespace ASTATIDE_PUBLIC astatide {

/// model: those that are predicted to be fast first, then the neighbours of what is measured to be fast, predictions
/// corrected by what was measured, with restarts elsewhere. exhaustive: all, in the order of their indices. random:
/// all, in an order that the seed chooses.
enum class SearchKind : std::uint8_t { model, exhaustive, random };
std::string_view name_of(SearchKind kind);
std::optional<SearchKind> parse_search_kind(std::string_view word);

/// What is known of a point before it is measured.
struct SearchAnswer {
  std::string why_not;  // empty: it may be measured
  double seconds = 0;   // predicted; only their ratios matter
};

/// Says of points that keep the conditions of the space what they are. Called with several at once, so that they can
/// be looked at by threads.
using AskPoints = std::function<std::vector<SearchAnswer>(const std::vector<SpacePoint>& points)>;

/// Proposes points of a space to measure, none twice and none that is not legal. Equal seeds, answers and times give
/// equal proposals.
class Search {
 public:
  Search(const ScheduleSpace& space, SearchKind kind, std::uint64_t seed, AskPoints ask);
  ~Search();

  /// At most so many, best first. Empty: there is none left.
  std::vector<SpacePoint> next(std::size_t most);
  /// Seconds that a proposed point took; nothing where it failed.
  void tell(const SpacePoint& point, std::optional<double> seconds);

  struct Counts {
    std::uint64_t asked = 0;    // points that keep the conditions, and were looked at
    std::uint64_t illegal = 0;  // of those: that can't be compiled for the target
  };
  Counts counts() const;
  /// Why points were left out, with how many each.
  std::map<std::string, std::uint64_t> reasons() const;
  /// The time that was predicted for a point that was proposed.
  double predicted(const SpacePoint& point) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace astatide
