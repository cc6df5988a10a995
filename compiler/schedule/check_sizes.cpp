#include <algorithm>

#include "compiler/schedule/budget.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// Sizes against the target: whole axes, shared memory and registers. What the tiles alone need; padding and what else a
// kernel keeps is counted when its memory is planned.

namespace astatide {
namespace {

constexpr std::int64_t kLargestWholeAxis = 1024;

bool check_whole_axes(LegalityCheck& check) {
  bool right = true;
  const auto& cascade = check.cascade;
  for (const auto& [axis, expr] : cascade.axis_extents) {
    if (axis == cascade.axis || contains(cascade.rows, axis)) continue;
    if (check.main_nest() != nullptr && contains(check.main_nest()->cut, axis)) continue;
    const auto extent = check.extent_of(axis);
    if (!extent) continue;
    if (*extent >= 1 && *extent <= kLargestWholeAxis) continue;
    right = false;
    check.errors.error(check.schedule.where, "the axis " + axis + " is whole in a tile, and its extent " +
                                                 to_string(expr) + " is " + std::to_string(*extent) +
                                                 ", allowed are 1 to " + std::to_string(kLargestWholeAxis));
  }
  return right;
}

ScalarType type_of_input(const LegalityCheck& check, const std::string& name) {
  // Without a type named or requested, the narrowest floating type: what does not fit then fits with none.
  const ScalarType requested = check.input_type.value_or(ScalarType::f16);
  const Input* input = check.algorithm.find_input(name);
  return input == nullptr ? requested : input->dtype.value_or(requested);
}

/// Extent of an axis in a tile of this kernel: its tile, one step (left out), or the whole axis. None where that is
/// unknown.
std::optional<std::int64_t> extent_in_tile(const LegalityCheck& check, const LoopNest& nest, const std::string& axis) {
  if (const auto tile = nest.placement->tile_of(axis)) return *tile;
  return contains(nest.axes, axis) ? std::optional<std::int64_t>(1) : check.extent_of(axis);
}

std::int64_t aligned(const Placement* placement, const std::string& axis, std::int64_t extent) {
  const auto multiple = placement == nullptr ? std::nullopt : placement->align_storage_of(axis);
  if (!multiple || *multiple < 1) return extent;
  const std::int64_t rest = extent % *multiple;
  return rest == 0 || extent > INT64_MAX - *multiple ? extent : extent + *multiple - rest;
}

class BudgetFinder {
 public:
  BudgetFinder(const LegalityCheck& check, const LoopNest& nest) : check_(check), nest_(nest) {
    budget_.root = nest.root;
    const Directive* tile = nest.placement->find(DirectiveKind::tile);
    budget_.where = tile == nullptr ? nest.placement->where : tile->where;
    budget_.tile = nest.placement->tile();
  }

  /// None where an extent that is needed is not known.
  std::optional<Budget> find() {
    for (const Operand& operand : check_.operands) add_operand(operand);
    for (const Placement& placement : check_.schedule.placements) add_definition(placement);
    add_output();
    return known_ ? std::optional(std::move(budget_)) : std::nullopt;
  }

 private:
  void add(BudgetBuffer buffer, const Placement* placement, const std::vector<std::string>& axes,
           std::optional<std::int64_t> row = std::nullopt) {
    for (const std::string& axis : axes) {
      const bool whole_row = row && axis == nest_.axis;
      const auto extent = whole_row ? row : extent_in_tile(check_, nest_, axis);
      if (!extent) {
        known_ = false;
        return;
      }
      if (*extent > 1 || nest_.placement->tile_of(axis))
        buffer.dims.emplace_back(axis, aligned(placement, axis, *extent));
    }
    budget_.buffers.push_back(std::move(buffer));
  }

  void add_operand(const Operand& operand) {
    const Placement* placement = check_.schedule.find(operand.name);
    if (placement == nullptr || !placement->stage_at() || !check_.is_in(operand.name, nest_)) return;
    std::vector<std::string> axes;
    for (const std::string& axis : operand.axes)
      if (check_.cascade.axis_extents.count(axis) > 0 && contains(nest_.axes, axis)) axes.push_back(axis);
    for (const std::string& axis : operand.axes)
      if (check_.cascade.axis_extents.count(axis) > 0 && !contains(nest_.axes, axis)) axes.push_back(axis);
    BudgetBuffer buffer;
    buffer.name = operand.name;
    buffer.type = type_of_input(check_, operand.name);
    buffer.slots = placement->ring_buffer();
    buffer.teams = nest_.placement->teams();
    add(std::move(buffer), placement, axes);
  }

  void add_definition(const Placement& placement) {
    const NameRole role = check_.role_of(placement.name);
    if (role != NameRole::element && role != NameRole::weight) return;
    BudgetBuffer buffer;
    buffer.name = placement.name;
    const auto at = placement.compute_at();
    // A factor of a product is rounded to the type of the other factor; everything else stays in f32.
    if (check_.is_factor(placement.name)) buffer.type = type_of_input(check_, "");
    if (at && placement.store_in() == Space::shared && check_.is_in(placement.name, nest_)) {
      std::optional<std::int64_t> row;
      if (nest_.position(*at) < nest_.position(nest_.axis_loop()) && nest_.reduces) {
        row = bounded_row();
        if (!row) return;
      }
      buffer.teams = nest_.placement->teams();
      add(std::move(buffer), &placement, check_.axes_of(placement.name), row);
    } else if (placement.compute_root() && check_.is_factor(placement.name) && check_.is_root(placement.name) &&
               &nest_ == check_.main_nest() && check_.least.is_cuda()) {
      add(std::move(buffer), nullptr, check_.axes_of(placement.name));
    }
  }

  /// The tile from which TMA stores.
  void add_output() {
    if (nest_.placement->copy() != CopyPath::tma || !check_.target.is_cuda()) return;
    BudgetBuffer buffer;
    buffer.name = nest_.root;
    buffer.type = type_of_input(check_, "");
    add(std::move(buffer), nullptr, check_.axes_of(nest_.root));
  }

  /// The bound of the axis in whole tiles.
  std::optional<std::int64_t> bounded_row() {
    const auto bound = check_.bound_of_axis(nest_.axis);
    if (!bound || *bound < 1) return std::nullopt;
    const std::int64_t step = std::max<std::int64_t>(1, nest_.placement->tile_of(nest_.axis).value_or(1));
    const std::int64_t rest = *bound % step;
    budget_.row_axis = nest_.axis;
    budget_.row_extent = to_string(check_.cascade.axis_extents.at(nest_.axis));
    return rest == 0 ? *bound : *bound - rest + step;
  }

  const LegalityCheck& check_;
  const LoopNest& nest_;
  Budget budget_;
  bool known_ = true;
};

/// Accumulators and tiles in registers: what each thread holds at the least.
void check_registers(LegalityCheck& check, const LoopNest& nest) {
  const auto threads = check.schedule.threads_of(*nest.placement);
  if (!threads || check.target.registers_per_thread <= 0 || threads->first < 1 || threads->second < 1) return;
  const auto share = [&](std::int64_t rows, std::int64_t columns) {
    return (rows + threads->first - 1) / threads->first * ((columns + threads->second - 1) / threads->second);
  };
  const std::int64_t rows = nest.tile_rows();
  const std::int64_t columns = nest.placement->tile_of(nest.axis).value_or(1);

  std::int64_t registers = 0;
  std::vector<std::string> parts;
  const auto add = [&](const std::string& name, std::int64_t width, ScalarType type = ScalarType::f32) {
    const std::int64_t count = share(rows, width) * size_in_bytes(type) / 4;
    registers += count;
    parts.push_back(name + " " + std::to_string(rows) + "x" + std::to_string(width) + " = " + std::to_string(count));
  };
  if (&nest == check.main_nest()) {
    for (const Stage& stage : check.cascade.stages) {
      std::int64_t width = 1;
      for (const std::string& axis : stage.extra) {
        const auto extent = check.extent_of(axis);
        if (!extent) return;
        width *= std::clamp<std::int64_t>(nest.columns_of(axis, *extent), 1, kLargestWholeAxis);
        width = std::min(width, kLargestWholeAxis * kLargestWholeAxis);
      }
      if (!stage.extra.empty()) add(stage.name, width);
    }
  }
  for (const Element& element : check.cascade.elements) {
    if (!element.product) continue;
    const Placement* placement = check.schedule.find(element.name);
    const bool in_registers =
        placement == nullptr || placement->store_in().value_or(Space::register_file) != Space::shared;
    if (in_registers && check.is_in(element.name, nest)) add(element.name, columns);
  }
  for (const Operand& operand : check.operands) {
    const Placement* placement = check.schedule.find(operand.name);
    if (placement == nullptr || !placement->held_in_registers() || !check.is_in(operand.name, nest)) continue;
    for (const std::string& axis : operand.axes) {
      if (contains(nest.axes, axis) || !check.cascade.axis_extents.contains(axis)) continue;
      if (const auto extent = check.extent_of(axis))
        add(operand.name, std::clamp<std::int64_t>(*extent, 1, kLargestWholeAxis), type_of_input(check, operand.name));
    }
  }
  const std::int64_t count =
      std::int64_t{threads->first} * threads->second + 128 * check.schedule.warpgroups_of("producer");
  const std::int64_t limit = std::min<std::int64_t>(check.target.registers_per_thread,
                                                    check.target.registers_per_sm / std::max<std::int64_t>(count, 1));
  if (registers <= limit) return;
  const Directive* directive = nest.placement->find(DirectiveKind::threads);
  check.errors.error(directive ? directive->where : check.place_of_key("warps"),
                     "tiles of " + nest.root + " need " + std::to_string(registers) + " registers a thread, " +
                         check.target.name + " has " + std::to_string(limit) + " for each of " + std::to_string(count) +
                         " threads",
                     {join(parts, "; "), "smaller tiles or other threads would fit"});
}

/// Extents within the schedule's bounds; beyond them, how far the bound could be raised.
void check_within_bounds(LegalityCheck& check) {
  for (const auto& [extent, bound] : check.schedule.bound) {
    const auto size = check.sizes.find(extent);
    if (size == check.sizes.end() || size->second <= bound) continue;
    std::string largest;
    for (const LoopNest& nest : check.nests) {
      if (!nest.consistent || check.target.shared_memory_per_block <= 0) continue;
      const auto budget = BudgetFinder(check, nest).find();
      if (!budget || budget->row_extent != extent) continue;
      largest = "the largest " + extent + " whose row fits " + check.target.name + " beside these tiles is " +
                std::to_string(largest_row(*budget, check.target));
    }
    check.errors.error(
        check.place_of_key("bound"),
        extent + " is " + std::to_string(size->second) + ", the schedule is bound to " + std::to_string(bound),
        {largest.empty() ? "bound: {" + extent + ": " + std::to_string(size->second) + "}" : largest});
  }
}

/// Lengths that a split relies on.
void check_multiples(LegalityCheck& check) {
  for (const Multiple& multiple : check.cascade.multiples) {
    std::set<std::string> names = free_variables(multiple.value);
    names.merge(free_variables(multiple.of));
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return !check.sizes.contains(name); }))
      continue;
    const std::int64_t value = evaluate_integer(multiple.value, check.sizes);
    const std::int64_t of = evaluate_integer(multiple.of, check.sizes);
    if (value == 0 || (of > 0 && value % of == 0)) continue;
    check.errors.error(multiple.where,
                       "split: " + to_string(multiple.value) + " is " + std::to_string(value) + ", which " +
                           to_string(multiple.of) + " = " + std::to_string(of) + " does not divide",
                       {"leave split out"});
  }
}

}  // namespace

void check_sizes(LegalityCheck& check) {
  check_multiples(check);
  check_within_bounds(check);
  if (!check_whole_axes(check)) return;
  for (const LoopNest& nest : check.nests) {
    if (!nest.consistent) continue;
    if (const auto budget = BudgetFinder(check, nest).find())
      check_budget(*budget, check.schedule, check.target, check.errors);
    check_registers(check, nest);
  }
}

}  // namespace astatide
