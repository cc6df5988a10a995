#include "compiler/schedule/budget.h"

#include <algorithm>

namespace astatide {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

std::string describe(const BudgetBuffer& buffer) {
  std::string shape;
  for (const auto& [axis, extent] : buffer.dims) shape += (shape.empty() ? "" : "x") + std::to_string(extent);
  const std::string slots = buffer.slots > 1 ? std::to_string(buffer.slots) + " slots of " : "";
  const std::string teams = buffer.teams > 1 ? std::to_string(buffer.teams) + " teams of " : "";
  return buffer.name + " " + teams + slots + shape + " " + std::string(name_of(buffer.type)) + " = " +
         std::to_string(buffer.bytes());
}

bool holds_row(const Budget& budget, const std::pair<std::string, std::int64_t>& dim) {
  if (dim.first != budget.row_axis) return false;
  return std::none_of(budget.tile.begin(), budget.tile.end(), [&](const auto& tile) { return tile == dim; });
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return plus(value, multiple - 1) / multiple * multiple;
}

/// What the kernel takes at the most when memory is planned: rows are padded to vectors of four, and one more to move
/// them to other banks, and buffers are aligned. What is proposed fits then, too.
std::int64_t padded_bytes(const Budget& budget) {
  constexpr std::int64_t kVector = 4;
  constexpr std::int64_t kAlignment = 128;
  std::int64_t sum = 0;
  for (BudgetBuffer buffer : budget.buffers) {
    if (!buffer.dims.empty()) buffer.dims.back().second = plus(round_up(buffer.dims.back().second, kVector), kVector);
    sum = plus(sum, round_up(buffer.bytes(), kAlignment));
  }
  return sum;
}

/// The budget with another size of one axis: of its tile, or of its whole row.
Budget resized(Budget budget, const std::string& axis, std::int64_t size, bool row) {
  for (BudgetBuffer& buffer : budget.buffers)
    for (auto& dim : buffer.dims)
      if (dim.first == axis && holds_row(budget, dim) == row) dim.second = size;
  return budget;
}

std::int64_t tile_of(const Budget& budget, const std::string& axis) {
  for (const auto& [name, size] : budget.tile)
    if (name == axis) return size;
  return 1;
}

std::vector<std::string> proposals(const Budget& budget, const Target& target) {
  const std::int64_t limit = target.shared_memory_per_block;
  std::vector<std::string> notes;
  const auto propose = [&](const std::string& text, const Budget& changed) {
    notes.push_back(text + " would fit (" + std::to_string(changed.bytes()) + ", and the padding of rows)");
  };
  int most_slots = 1;
  for (const BudgetBuffer& buffer : budget.buffers) most_slots = std::max(most_slots, buffer.slots);
  for (int slots = most_slots - 1; slots >= 1; --slots) {
    Budget fewer = budget;
    for (BudgetBuffer& buffer : fewer.buffers) buffer.slots = std::min(buffer.slots, slots);
    if (padded_bytes(fewer) > limit) continue;
    propose("ring_buffer: " + std::to_string(slots), fewer);
    break;
  }
  if (!budget.row_axis.empty()) {
    const std::int64_t row = largest_row(budget, target);
    if (row > 0) {
      propose("bound: {" + budget.row_extent + ": " + std::to_string(row) + "}, the largest,",
              resized(budget, budget.row_axis, row, true));
    } else {
      notes.push_back("no " + budget.row_extent + " fits beside these tiles");
    }
  }
  for (const auto& [axis, size] : budget.tile) {
    for (std::int64_t smaller = size / 2; smaller >= 1; smaller /= 2) {
      const Budget changed = resized(budget, axis, smaller, false);
      if (padded_bytes(changed) > limit) continue;
      propose("tile: {" + axis + ": " + std::to_string(smaller) + "}", changed);
      break;
    }
  }
  return notes;
}

Location place_of(const Budget& budget, const Schedule& schedule) {
  for (const BudgetBuffer& buffer : budget.buffers)
    if (const Placement* placement = schedule.find(buffer.name); placement != nullptr && buffer.slots > 1)
      if (const Directive* ring = placement->find(DirectiveKind::ring_buffer)) return ring->where;
  const auto bound = schedule.places.find("bound");
  return !budget.row_axis.empty() && bound != schedule.places.end() ? bound->second : budget.where;
}

}  // namespace

std::int64_t BudgetBuffer::bytes() const {
  std::int64_t product = times(times(slots, teams), size_in_bytes(type));
  for (const auto& [axis, extent] : dims) product = times(product, extent);
  return product;
}

std::int64_t Budget::bytes() const {
  std::int64_t sum = 0;
  for (const BudgetBuffer& buffer : buffers) sum = plus(sum, buffer.bytes());
  return sum;
}

std::int64_t largest_row(const Budget& budget, const Target& target) {
  const std::int64_t limit = target.shared_memory_per_block;
  const std::int64_t step = std::max<std::int64_t>(1, tile_of(budget, budget.row_axis));
  std::int64_t fits = 0;
  std::int64_t too_long = limit / step + 2;
  while (too_long - fits > 1) {
    const std::int64_t middle = fits + (too_long - fits) / 2;
    (padded_bytes(resized(budget, budget.row_axis, middle * step, true)) <= limit ? fits : too_long) = middle;
  }
  return fits * step;
}

void check_budget(const Budget& budget, const Schedule& schedule, const Target& target, Diagnostics& errors) {
  const std::int64_t limit = target.shared_memory_per_block;
  const std::int64_t needed = budget.bytes();
  if (limit <= 0 || needed <= limit) return;
  std::string buffers;
  for (const BudgetBuffer& buffer : budget.buffers) buffers += (buffers.empty() ? "" : "; ") + describe(buffer);
  std::vector<std::string> notes = {buffers};
  for (std::string& note : proposals(budget, target)) notes.push_back(std::move(note));
  const std::string memory = target.is_cuda() ? "shared memory" : "workspace of a core";
  errors.error(place_of(budget, schedule),
               "tiles of " + budget.root + " need " + std::to_string(needed) + " bytes of " + memory + ", " +
                   target.name + " has " + std::to_string(limit),
               std::move(notes));
}

}  // namespace astatide
