// Local search that a model guides: what is predicted to be fast is measured first, and what is measured corrects the
// predictions of what is like it.
#include <algorithm>
#include <cmath>

#include "compiler/support/diagnostic.h"
#include "compiler/tune/search_state.h"

namespace astatide {
namespace {

/// Points that are drawn at first, and whenever the open ones run out.
constexpr std::size_t kPool = 384;
/// Draws that find nothing new before points are taken in order.
constexpr int kMostMisses = 64;
/// Measurements that hold a correction back, as if so many had agreed with the prediction.
constexpr double kShrink = 1;
constexpr int kRounds = 8;

std::size_t distance(const SpacePoint& a, const SpacePoint& b) {
  std::size_t axes = 0;
  for (std::size_t n = 0; n < a.size(); ++n) axes += a[n] != b[n] ? 1 : 0;
  return axes;
}

}  // namespace

Correction::Correction(const ScheduleSpace& space) {
  for (const SpaceAxis& axis : space.axes()) effects_.emplace_back(axis.values.size(), 0.0);
}

void Correction::fit(const std::vector<std::pair<SpacePoint, double>>& ratios) {
  if (ratios.empty()) return;
  mean_ = 0;
  for (auto& effects : effects_) std::fill(effects.begin(), effects.end(), 0.0);
  for (const auto& [point, ratio] : ratios) mean_ += ratio / static_cast<double>(ratios.size());
  // One axis after the other takes what the others leave.
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t axis = 0; axis < effects_.size(); ++axis) {
      std::vector<double> sums(effects_[axis].size(), 0.0), counts(effects_[axis].size(), kShrink);
      for (const auto& [point, ratio] : ratios) {
        sums[point[axis]] += ratio - of(point) + effects_[axis][point[axis]];
        counts[point[axis]] += 1;
      }
      for (std::size_t value = 0; value < sums.size(); ++value) effects_[axis][value] = sums[value] / counts[value];
    }
}

double Correction::of(const SpacePoint& point) const {
  double sum = mean_;
  for (std::size_t axis = 0; axis < point.size(); ++axis) sum += effects_[axis][point[axis]];
  return sum;
}

double Search::State::score(Index index) const {
  return std::log(std::max(known.at(index).seconds, 1e-30)) + correction.of(space.point_at(index));
}

std::vector<Search::State::Index> Search::State::by_score(std::vector<Index> indices) const {
  std::vector<std::pair<double, Index>> scored;
  for (const Index index : indices) scored.emplace_back(score(index), index);
  std::sort(scored.begin(), scored.end());
  for (std::size_t n = 0; n < scored.size(); ++n) indices[n] = scored[n].second;
  return indices;
}

bool Search::State::draw_pool(std::size_t wanted) {
  std::vector<SpacePoint> drawn;
  std::set<Index> fresh;
  const auto take = [&](Index index) {
    if (known.contains(index) || !fresh.insert(index).second) return false;
    drawn.push_back(space.point_at(index));
    return true;
  };
  // Those that break conditions cost little: the pool is of those that keep them.
  std::size_t kept = 0;
  int misses = 0;
  while (kept < wanted && misses < kMostMisses) {
    if (take(random.draw(total))) {
      misses = 0;
      kept += space.why_not(drawn.back()).empty() ? 1 : 0;
    } else {
      ++misses;
    }
  }
  for (; kept < wanted && cursor < total; ++cursor)
    if (take(cursor)) kept += space.why_not(drawn.back()).empty() ? 1 : 0;
  look_at(drawn);
  return kept > 0;
}

std::optional<Search::State::Index> Search::State::nth_best(std::size_t n) const {
  std::vector<std::pair<double, Index>> order_;
  for (const auto& [index, seconds] : measured) order_.emplace_back(seconds, index);
  if (n >= order_.size()) return std::nullopt;
  std::nth_element(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(n), order_.end());
  return order_[n].second;
}

std::vector<Search::State::Index> Search::State::open_around(Index center) {
  const std::vector<SpacePoint> near = space.neighbours(space.point_at(center));
  look_at(near);
  std::set<Index> open;
  for (const SpacePoint& point : near)
    if (is_open(space.index_of(point))) open.insert(space.index_of(point));
  if (open.empty()) {
    // Where a condition ties two values, both have to change at once.
    std::vector<SpacePoint> further;
    for (const SpacePoint& point : near)
      for (SpacePoint& second : space.neighbours(point)) further.push_back(std::move(second));
    look_at(further);
    for (const SpacePoint& point : further)
      if (is_open(space.index_of(point))) open.insert(space.index_of(point));
  }
  return by_score({open.begin(), open.end()});
}

std::vector<SpacePoint> Search::State::next_by_model(std::size_t most) {
  if (known.empty()) draw_pool(kPool);
  std::vector<std::pair<SpacePoint, double>> ratios;
  for (const auto& [index, seconds] : measured)
    ratios.emplace_back(space.point_at(index), seconds - std::log(std::max(known.at(index).seconds, 1e-30)));
  correction.fit(ratios);

  std::vector<SpacePoint> out;
  const auto take = [&](Index index, std::size_t apart) {
    const SpacePoint point = space.point_at(index);
    for (const SpacePoint& other : out)
      if (distance(point, other) < apart) return;
    if (is_open(index)) out.push_back(point);
  };
  const auto take_some = [&](const std::vector<Index>& from, std::size_t until, std::size_t apart) {
    for (const Index index : from)
      if (out.size() < until) take(index, apart);
  };

  // Half go around the best, a quarter around another good one, and the rest wherever the corrected model says.
  if (const auto best = nth_best(0)) {
    take_some(open_around(*best), (most + 1) / 2, 1);
    if (const auto other = nth_best(1 + random.draw(5))) take_some(open_around(*other), most - most / 4, 1);
  }
  const auto all_open = [&] {
    std::vector<Index> open;
    for (const auto& [index, answer] : known)
      if (is_open(index)) open.push_back(index);
    return by_score(std::move(open));
  };
  std::vector<Index> open = all_open();
  while (open.size() < most && draw_pool(kPool)) open = all_open();
  // A restart: one of each batch that nothing speaks for.
  if (most > 3 && !open.empty() && !measured.empty()) take(open[random.draw(open.size())], 1);
  // At first far from each other, so that the correction learns of all values.
  if (measured.empty()) take_some(open, most, 2);
  take_some(open, most, 1);
  return out;
}

}  // namespace astatide
