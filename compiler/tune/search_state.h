#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/tune/search.h"

namespace astatide {

/// Whole numbers by splitmix64: the same on every machine.
class SearchRandom {
 public:
  explicit SearchRandom(std::uint64_t seed) : state_(seed) {}
  /// 0 .. below - 1.
  std::uint64_t draw(std::uint64_t below);

 private:
  std::uint64_t state_;
};

/// What measurements say about predictions: the logarithm of their ratio, as a sum of one number for each value of each
/// axis.
class Correction {
 public:
  explicit Correction(const ScheduleSpace& space);
  void fit(const std::vector<std::pair<SpacePoint, double>>& ratios);
  double of(const SpacePoint& point) const;

 private:
  double mean_ = 0;
  std::vector<std::vector<double>> effects_;
};

struct Search::State {
  State(const ScheduleSpace& space_, SearchKind kind_, std::uint64_t seed, AskPoints ask_)
      : space(space_), kind(kind_), ask(std::move(ask_)), random(seed), correction(space_), total(space_.points()) {}

  using Index = std::uint64_t;

  /// Looks at those that nothing is known of yet.
  void look_at(const std::vector<SpacePoint>& points);
  bool is_open(Index index) const;  // legal and not proposed

  std::vector<SpacePoint> next_in_order(std::size_t most);
  std::vector<SpacePoint> next_by_model(std::size_t most);

  /// Draws points that keep the conditions and were not drawn, and looks at them; false: there are none.
  bool draw_pool(std::size_t wanted);
  double score(Index index) const;
  std::optional<Index> nth_best(std::size_t n) const;
  /// Open neighbours of a point, those two steps away where there are none, best first.
  std::vector<Index> open_around(Index center);
  std::vector<Index> by_score(std::vector<Index> indices) const;

  const ScheduleSpace space;
  const SearchKind kind;
  const AskPoints ask;
  SearchRandom random;
  Correction correction;
  const std::uint64_t total;
  std::map<Index, SearchAnswer> known;
  std::set<Index> proposed;
  std::map<Index, double> measured;  // logarithm of seconds
  Counts counts;
  std::map<std::string, std::uint64_t> reasons;
  Index cursor = 0;          // of what goes by order
  std::vector<Index> order;  // shuffled; empty where it is that of the indices
};

}  // namespace astatide
