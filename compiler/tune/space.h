#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// A choice that a space leaves open: "O.tile.i" with the values 64, 128 and 192, or the name of a `choose`.
struct SpaceAxis {
  std::string name;
  std::vector<std::string> values;  // as they are written, or the names of variants
  bool ordered = false;             // numbers that ascend or descend: neighbours are next to each other
  Location where;
};

/// The number of the value on each axis.
using SpacePoint = std::vector<std::size_t>;

/// Schedules that differ in some values. Parsed from a schedule file with alternatives, or made by SpaceBuilder.
///
///   space     = a schedule, in which a value may be a list of values, and a number range(first, last, step)
///   "choose"  = {NAME: {VARIANT: a part of a schedule, ..}, ..}
///   "where"   = a condition, or a list of conditions, over values by their places: O.tile.i, tile.i, warps.consumer
///
/// What is a list without alternatives ([i.o, h, b]) has lists of lists for alternatives.
class ScheduleSpace {
 public:
  const std::string& file() const;
  const std::vector<SpaceAxis>& axes() const;

  /// All combinations, whatever conditions and hardware say of them.
  std::uint64_t points() const;
  /// The last axis varies fastest.
  SpacePoint point_at(std::uint64_t index) const;
  std::uint64_t index_of(const SpacePoint& point) const;

  /// Points that differ on one axis: by one step where its values are ordered, else by any.
  std::vector<SpacePoint> neighbours(const SpacePoint& point) const;

  /// The condition that the point breaks; empty where it keeps all. Conditions that speak of what a point has not
  /// are not asked.
  std::string why_not(const SpacePoint& point) const;

  /// Throws UserError, with places in the space's file, where the combination is no schedule.
  Schedule schedule_at(const SpacePoint& point) const;

  /// "O.tile.i=128, ring=deep"
  std::string describe(const SpacePoint& point) const;

  /// Equal texts are equal spaces: axes, values, conditions and what does not vary.
  std::string text() const;

  /// The largest tile that some point has of each tiled axis.
  std::vector<std::pair<std::string, std::int64_t>> largest_tiles() const;

  struct State;
  explicit ScheduleSpace(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

/// Throws UserError with all problems: alternatives that are no values of their directive, conditions over names that
/// no point has, more than 2^40 points, and no choice at all.
ScheduleSpace parse_space(const std::string& text, const std::string& file);

/// ScheduleSpace space = SpaceBuilder(schedule).vary("O.tile.i", {"64", "128"}).where("O.tile.i <= 128").build();
/// Values are YAML: "64", "shared", "[b, h, i.o, j.o]".
class SpaceBuilder {
 public:
  explicit SpaceBuilder(const Schedule& base);
  /// A value of the schedule, or one that it lacks, by its place.
  SpaceBuilder& vary(const std::string& place, const std::vector<std::string>& values);
  /// Parts of schedules of which each point has one: {{"deep", "K: {ring_buffer: 3}"}, ..}.
  SpaceBuilder& choose(const std::string& name, const std::vector<std::pair<std::string, std::string>>& variants);
  SpaceBuilder& where(const std::string& condition);
  ScheduleSpace build() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace astatide
