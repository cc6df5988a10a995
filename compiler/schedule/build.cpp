#include "compiler/schedule/schedule.h"

namespace astatide {

PlacementBuilder& PlacementBuilder::set(DirectiveKind kind, DirectiveValue value) {
  placement_.directives.push_back({kind, std::move(value), {}});
  return *this;
}

PlacementBuilder& PlacementBuilder::split(AxisLists axes) { return set(DirectiveKind::split, std::move(axes)); }
PlacementBuilder& PlacementBuilder::fuse(AxisLists axes) { return set(DirectiveKind::fuse, std::move(axes)); }
PlacementBuilder& PlacementBuilder::tile(AxisNumbers sizes) { return set(DirectiveKind::tile, std::move(sizes)); }
PlacementBuilder& PlacementBuilder::reorder(std::vector<LoopName> loops) {
  return set(DirectiveKind::reorder, std::move(loops));
}
PlacementBuilder& PlacementBuilder::descending(std::vector<LoopName> loops) {
  return set(DirectiveKind::descending, std::move(loops));
}
PlacementBuilder& PlacementBuilder::rfactor(std::string axis, LoopName loop, std::int64_t parts) {
  return rfactor(AxisParts{std::move(axis), std::move(loop), parts});
}
PlacementBuilder& PlacementBuilder::rfactor(AxisParts parts) { return set(DirectiveKind::rfactor, std::move(parts)); }
PlacementBuilder& PlacementBuilder::merge(MergeBy by) { return set(DirectiveKind::merge, std::string(name_of(by))); }
PlacementBuilder& PlacementBuilder::gpu_blocks(std::vector<LoopName> loops) {
  return set(DirectiveKind::gpu_blocks, std::move(loops));
}
PlacementBuilder& PlacementBuilder::cluster(int blocks) { return set(DirectiveKind::cluster, std::int64_t{blocks}); }
PlacementBuilder& PlacementBuilder::parallel(std::vector<LoopName> loops) {
  return set(DirectiveKind::parallel, std::move(loops));
}
PlacementBuilder& PlacementBuilder::threads(int rows, int columns) {
  return set(DirectiveKind::threads, std::vector<std::int64_t>{rows, columns});
}
PlacementBuilder& PlacementBuilder::persistent(TileOrder order) {
  return set(DirectiveKind::persistent, std::string(name_of(order)));
}
PlacementBuilder& PlacementBuilder::mask_map() { return set(DirectiveKind::mask_map, true); }
PlacementBuilder& PlacementBuilder::compute_at(LoopName loop) {
  return set(DirectiveKind::compute_at, std::move(loop));
}
PlacementBuilder& PlacementBuilder::compute_root() { return set(DirectiveKind::compute_root, true); }
PlacementBuilder& PlacementBuilder::store_in(Space space) {
  return set(DirectiveKind::store_in, std::string(name_of(space)));
}
PlacementBuilder& PlacementBuilder::store_in(const std::vector<Space>& spaces) {
  std::vector<std::string> words;
  for (const Space space : spaces) words.emplace_back(name_of(space));
  return set(DirectiveKind::store_in, std::move(words));
}
PlacementBuilder& PlacementBuilder::stage_at(LoopName loop) { return set(DirectiveKind::stage_at, std::move(loop)); }
PlacementBuilder& PlacementBuilder::ring_buffer(int slots) {
  return set(DirectiveKind::ring_buffer, std::int64_t{slots});
}
PlacementBuilder& PlacementBuilder::copy(CopyPath path) { return set(DirectiveKind::copy, std::string(name_of(path))); }
PlacementBuilder& PlacementBuilder::mma(Family family) { return set(DirectiveKind::mma, std::string(name_of(family))); }
PlacementBuilder& PlacementBuilder::tf32() { return set(DirectiveKind::tf32, true); }
PlacementBuilder& PlacementBuilder::vectorize(int elements) {
  return set(DirectiveKind::vectorize, std::int64_t{elements});
}
PlacementBuilder& PlacementBuilder::unroll(AxisNumbers factors) {
  return set(DirectiveKind::unroll, std::move(factors));
}
PlacementBuilder& PlacementBuilder::align_storage(AxisNumbers multiples) {
  return set(DirectiveKind::align_storage, std::move(multiples));
}
PlacementBuilder& PlacementBuilder::overlap(int cover_part, int cover_whole) {
  return set(DirectiveKind::overlap, Fraction{cover_part, cover_whole});
}
PlacementBuilder& PlacementBuilder::exp2(int polynomial_part, int polynomial_whole) {
  return set(DirectiveKind::exp2, Fraction{polynomial_part, polynomial_whole});
}

ScheduleBuilder& ScheduleBuilder::name(std::string name) {
  schedule_.name = std::move(name);
  return *this;
}

ScheduleBuilder& ScheduleBuilder::rewrite(RewriteMode mode) {
  schedule_.rewrite = mode;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::rescale(RescaleMode mode, std::optional<int> grow, std::optional<int> over) {
  schedule_.rescale = {mode, grow, over};
  return *this;
}

ScheduleBuilder& ScheduleBuilder::bound(const std::string& extent, std::int64_t value) {
  schedule_.bound.emplace_back(extent, value);
  return *this;
}

ScheduleBuilder& ScheduleBuilder::known(std::vector<std::string> extents) {
  schedule_.known = std::move(extents);
  return *this;
}

ScheduleBuilder& ScheduleBuilder::serves(Serves what) {
  schedule_.serves = std::move(what);
  return *this;
}

ScheduleBuilder& ScheduleBuilder::deterministic() {
  schedule_.deterministic = true;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::dependent_launch() {
  schedule_.dependent_launch = true;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::fast_math() {
  schedule_.fast_math = true;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::warps(int producer, int consumer, bool alternate) {
  schedule_.warps = {{"producer", producer}, {"consumer", consumer}};
  schedule_.alternate = alternate;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::place(const PlacementBuilder& placement) {
  schedule_.placements.push_back(placement.placement());
  return *this;
}

}  // namespace astatide
