#include "compiler/tune/search.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/diagnostic.h"
#include "compiler/tune/search_state.h"

namespace astatide {
namespace {

/// Points that are looked at together.
constexpr std::size_t kChunk = 64;
/// A random order of more points than this is drawn, not shuffled.
constexpr std::uint64_t kMostShuffled = std::uint64_t{1} << 22;

}  // namespace

std::string_view name_of(SearchKind kind) {
  switch (kind) {
    case SearchKind::model:
      return "model";
    case SearchKind::exhaustive:
      return "exhaustive";
    case SearchKind::random:
      return "random";
  }
  throw InternalError("a kind of search without a name");
}

std::optional<SearchKind> parse_search_kind(std::string_view word) {
  for (const SearchKind kind : {SearchKind::model, SearchKind::exhaustive, SearchKind::random})
    if (word == name_of(kind)) return kind;
  return std::nullopt;
}

std::uint64_t SearchRandom::draw(std::uint64_t below) {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (z ^ (z >> 31)) % below;
}

Search::Search(const ScheduleSpace& space, SearchKind kind, std::uint64_t seed, AskPoints ask)
    : state_(std::make_unique<State>(space, kind, seed, std::move(ask))) {
  if (kind != SearchKind::random) return;
  if (state_->total > kMostShuffled)
    throw UserError({space.file(), 0, 0, ""},
                    "a random search takes a space of at most " + std::to_string(kMostShuffled) + " points, this has " +
                        std::to_string(state_->total),
                    {"search by model, or fewer values"});
  for (std::uint64_t n = 0; n < state_->total; ++n) state_->order.push_back(n);
  for (std::uint64_t n = state_->total; n > 1; --n)
    std::swap(state_->order[n - 1], state_->order[state_->random.draw(n)]);
}

Search::~Search() = default;

std::vector<SpacePoint> Search::next(std::size_t most) {
  std::vector<SpacePoint> out =
      state_->kind == SearchKind::model ? state_->next_by_model(most) : state_->next_in_order(most);
  for (const SpacePoint& point : out) state_->proposed.insert(state_->space.index_of(point));
  return out;
}

void Search::tell(const SpacePoint& point, std::optional<double> seconds) {
  if (seconds && *seconds > 0) state_->measured[state_->space.index_of(point)] = std::log(*seconds);
}

Search::Counts Search::counts() const { return state_->counts; }
std::map<std::string, std::uint64_t> Search::reasons() const { return state_->reasons; }
double Search::predicted(const SpacePoint& point) const {
  return state_->known.at(state_->space.index_of(point)).seconds;
}

void Search::State::look_at(const std::vector<SpacePoint>& points) {
  std::vector<SpacePoint> unknown;
  for (const SpacePoint& point : points) {
    const Index index = space.index_of(point);
    if (known.contains(index)) continue;
    const std::string broken = space.why_not(point);
    known[index] = {broken, 0};
    if (broken.empty()) {
      unknown.push_back(point);
    } else {
      ++reasons[broken];
    }
  }
  if (unknown.empty()) return;
  const std::vector<SearchAnswer> answers = ask(unknown);
  if (answers.size() != unknown.size()) throw InternalError("points without an answer");
  for (std::size_t n = 0; n < unknown.size(); ++n) {
    ++counts.asked;
    if (!answers[n].why_not.empty()) ++counts.illegal, ++reasons[answers[n].why_not];
    known[space.index_of(unknown[n])] = answers[n];
  }
}

bool Search::State::is_open(Index index) const {
  const auto found = known.find(index);
  return found != known.end() && found->second.why_not.empty() && !proposed.contains(index);
}

std::vector<SpacePoint> Search::State::next_in_order(std::size_t most) {
  std::vector<SpacePoint> out;
  while (out.size() < most && cursor < total) {
    // No more than are wanted are looked at for long: a search that ends early has not paid for the rest.
    std::vector<SpacePoint> chunk;
    for (; chunk.size() < std::min(kChunk, most - out.size()) && cursor < total; ++cursor)
      chunk.push_back(space.point_at(order.empty() ? cursor : order[cursor]));
    look_at(chunk);
    for (SpacePoint& point : chunk)
      if (is_open(space.index_of(point))) out.push_back(std::move(point));
  }
  return out;
}

}  // namespace astatide
