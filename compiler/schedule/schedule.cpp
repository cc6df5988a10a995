#include "compiler/schedule/schedule.h"

#include <algorithm>

namespace astatide {
namespace {

template <class T>
const T* value_of(const Placement& placement, DirectiveKind kind) {
  const Directive* directive = placement.find(kind);
  return directive == nullptr ? nullptr : std::get_if<T>(&directive->value);
}

/// The one of `values` that is written.
template <class Enum>
std::optional<Enum> word_of(const Placement& placement, DirectiveKind kind, std::initializer_list<Enum> values) {
  if (const auto* word = value_of<std::string>(placement, kind))
    for (const Enum value : values)
      if (*word == name_of(value)) return value;
  return std::nullopt;
}

bool flag_of(const Placement& placement, DirectiveKind kind) {
  const auto* flag = value_of<bool>(placement, kind);
  return flag != nullptr && *flag;
}

std::optional<int> number_of(const Placement& placement, DirectiveKind kind, const std::string& axis) {
  if (const auto* numbers = value_of<AxisNumbers>(placement, kind))
    for (const auto& [name, number] : *numbers)
      if (name == axis) return static_cast<int>(number);
  return std::nullopt;
}

std::optional<LoopName> loop_of(const Placement& placement, DirectiveKind kind) {
  const auto* loop = value_of<std::string>(placement, kind);
  return loop == nullptr ? std::nullopt : std::optional<LoopName>(*loop);
}

std::optional<Fraction> fraction_of(const Placement& placement, DirectiveKind kind) {
  const auto* part = value_of<Fraction>(placement, kind);
  return part == nullptr ? std::nullopt : std::optional(*part);
}

bool same_directives(const Placement& a, const Placement& b) {
  return a.name == b.name &&
         std::equal(a.directives.begin(), a.directives.end(), b.directives.begin(), b.directives.end(),
                    [](const Directive& x, const Directive& y) { return x.kind == y.kind && x.value == y.value; });
}

}  // namespace

std::string_view name_of(Space space) {
  switch (space) {
    case Space::global:
      return "global";
    case Space::shared:
      return "shared";
    case Space::register_file:
      return "register";
  }
  throw InternalError("space without a name");
}

std::string_view name_of(Family family) {
  switch (family) {
    case Family::unset:
      return "unset";
    case Family::fma:
      return "fma";
    case Family::mma_sync:
      return "mma_sync";
    case Family::wgmma:
      return "wgmma";
  }
  throw InternalError("family without a name");
}

std::string_view name_of(CopyPath path) {
  switch (path) {
    case CopyPath::vector:
      return "vector";
    case CopyPath::cp_async:
      return "cp_async";
    case CopyPath::tma:
      return "tma";
  }
  throw InternalError("copy path without a name");
}

std::string_view name_of(TileOrder order) {
  switch (order) {
    case TileOrder::linear:
      return "linear";
    case TileOrder::longest_first:
      return "longest_first";
  }
  throw InternalError("order of tiles without a name");
}

std::string_view name_of(MergeBy by) {
  switch (by) {
    case MergeBy::kernel:
      return "kernel";
    case MergeBy::last_block:
      return "last_block";
  }
  throw InternalError("merge without a name");
}

std::string to_string(const Fraction& fraction) {
  return std::to_string(fraction.part) + "/" + std::to_string(fraction.whole);
}

std::string_view name_of(RescaleMode mode) {
  switch (mode) {
    case RescaleMode::plain:
      return "plain";
    case RescaleMode::lazy:
      return "lazy";
    case RescaleMode::optimistic:
      return "optimistic";
  }
  throw InternalError("rescale without a name");
}

const Directive* Placement::find(DirectiveKind kind) const {
  const auto found =
      std::find_if(directives.begin(), directives.end(), [&](const Directive& d) { return d.kind == kind; });
  return found == directives.end() ? nullptr : &*found;
}

AxisLists Placement::split() const {
  const auto* lists = value_of<AxisLists>(*this, DirectiveKind::split);
  return lists == nullptr ? AxisLists{} : *lists;
}

AxisLists Placement::fuse() const {
  const auto* lists = value_of<AxisLists>(*this, DirectiveKind::fuse);
  return lists == nullptr ? AxisLists{} : *lists;
}

std::optional<std::int64_t> Placement::tile_of(const std::string& axis) const {
  for (const auto& [name, size] : tile())
    if (name == axis) return size;
  return std::nullopt;
}

AxisNumbers Placement::tile() const {
  const auto* sizes = value_of<AxisNumbers>(*this, DirectiveKind::tile);
  return sizes == nullptr ? AxisNumbers{} : *sizes;
}

std::vector<LoopName> Placement::reorder() const {
  if (const auto* loops = value_of<std::vector<std::string>>(*this, DirectiveKind::reorder)) return *loops;
  std::vector<LoopName> order = blocks();
  std::reverse(order.begin(), order.end());
  for (const auto& [axis, size] : tile())
    if (std::find(order.begin(), order.end(), axis + ".o") == order.end()) order.push_back(axis + ".o");
  return order;
}

std::vector<LoopName> Placement::descending() const {
  const auto* loops = value_of<std::vector<std::string>>(*this, DirectiveKind::descending);
  return loops == nullptr ? std::vector<LoopName>{} : *loops;
}

std::optional<AxisParts> Placement::rfactor() const {
  const auto* parts = value_of<AxisParts>(*this, DirectiveKind::rfactor);
  return parts == nullptr ? std::nullopt : std::optional(*parts);
}

int Placement::teams() const {
  const auto parts = rfactor();
  return parts ? static_cast<int>(parts->teams) : 1;
}

MergeBy Placement::merge() const {
  return word_of(*this, DirectiveKind::merge, {MergeBy::last_block}).value_or(MergeBy::kernel);
}

std::vector<LoopName> Placement::blocks() const {
  for (const DirectiveKind kind : {DirectiveKind::gpu_blocks, DirectiveKind::parallel})
    if (const auto* loops = value_of<std::vector<std::string>>(*this, kind)) return *loops;
  return {};
}

int Placement::cluster() const {
  const auto* blocks = value_of<std::int64_t>(*this, DirectiveKind::cluster);
  return blocks == nullptr ? 1 : static_cast<int>(*blocks);
}

std::optional<std::pair<int, int>> Placement::threads() const {
  const auto* numbers = value_of<std::vector<std::int64_t>>(*this, DirectiveKind::threads);
  if (numbers == nullptr || numbers->size() != 2) return std::nullopt;
  return std::pair{static_cast<int>((*numbers)[0]), static_cast<int>((*numbers)[1])};
}

std::optional<TileOrder> Placement::persistent() const {
  return word_of(*this, DirectiveKind::persistent, {TileOrder::linear, TileOrder::longest_first});
}

std::optional<LoopName> Placement::compute_at() const { return loop_of(*this, DirectiveKind::compute_at); }

bool Placement::compute_root() const { return flag_of(*this, DirectiveKind::compute_root); }

std::optional<Space> Placement::store_in() const {
  if (held_in_registers()) return Space::shared;
  return word_of(*this, DirectiveKind::store_in, {Space::global, Space::shared, Space::register_file});
}

bool Placement::held_in_registers() const {
  return value_of<std::vector<std::string>>(*this, DirectiveKind::store_in) != nullptr;
}

std::optional<LoopName> Placement::stage_at() const { return loop_of(*this, DirectiveKind::stage_at); }

int Placement::ring_buffer() const {
  const auto* slots = value_of<std::int64_t>(*this, DirectiveKind::ring_buffer);
  return slots == nullptr ? 1 : static_cast<int>(*slots);
}

CopyPath Placement::copy() const {
  return word_of(*this, DirectiveKind::copy, {CopyPath::cp_async, CopyPath::tma}).value_or(CopyPath::vector);
}

Family Placement::mma() const {
  return word_of(*this, DirectiveKind::mma, {Family::fma, Family::mma_sync, Family::wgmma}).value_or(Family::unset);
}

bool Placement::tf32() const { return flag_of(*this, DirectiveKind::tf32); }

std::optional<int> Placement::vectorize() const {
  const auto* elements = value_of<std::int64_t>(*this, DirectiveKind::vectorize);
  return elements == nullptr ? std::nullopt : std::optional<int>(static_cast<int>(*elements));
}

std::optional<int> Placement::unroll_of(const std::string& axis) const {
  return number_of(*this, DirectiveKind::unroll, axis);
}

std::optional<int> Placement::align_storage_of(const std::string& axis) const {
  return number_of(*this, DirectiveKind::align_storage, axis);
}

std::optional<Fraction> Placement::overlap() const { return fraction_of(*this, DirectiveKind::overlap); }

std::optional<Fraction> Placement::exp2() const { return fraction_of(*this, DirectiveKind::exp2); }

const Placement* Schedule::find(const std::string& wanted) const {
  const auto found =
      std::find_if(placements.begin(), placements.end(), [&](const Placement& p) { return p.name == wanted; });
  return found == placements.end() ? nullptr : &*found;
}

std::optional<std::int64_t> Schedule::bound_of(const std::string& extent) const {
  for (const auto& [bounded, value] : bound)
    if (bounded == extent) return value;
  return std::nullopt;
}

int Schedule::warpgroups_of(const std::string& role) const {
  for (const auto& [name, count] : warps)
    if (name == role) return static_cast<int>(count);
  return 0;
}

std::optional<std::pair<int, int>> Schedule::threads_of(const Placement& placement) const {
  constexpr int kRows = 32, kColumns = 4;  // of a warpgroup over an accumulator
  const int consumers = warpgroups_of("consumer");
  if (consumers > 0 && !placement.threads()) return std::pair{consumers * kRows, kColumns};
  return placement.threads();
}

bool equal(const Schedule& a, const Schedule& b) {
  return a.target == b.target && a.rewrite == b.rewrite && a.rescale == b.rescale && a.bound == b.bound &&
         a.known == b.known && a.serves == b.serves && a.deterministic == b.deterministic &&
         a.fast_math == b.fast_math && a.dependent_launch == b.dependent_launch && a.warps == b.warps &&
         a.alternate == b.alternate &&
         std::equal(a.placements.begin(), a.placements.end(), b.placements.begin(), b.placements.end(),
                    same_directives);
}

Schedule without_foreign_names(Schedule schedule, const Algorithm& algorithm) {
  std::erase_if(schedule.placements, [&](const Placement& placement) {
    return algorithm.find_input(placement.name) == nullptr && algorithm.find_func(placement.name) == nullptr;
  });
  return schedule;
}

}  // namespace astatide
