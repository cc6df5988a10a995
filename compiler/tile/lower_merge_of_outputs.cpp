#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/lower_merge.h"

namespace astatide::tile {
namespace {

void check_tiles(const Recurrence& recurrence) {
  for (const Slot& slot : recurrence.slots)
    if (slot.extra.size() > 1)
      throw UserError(slot.where, slot.name + " has the axes " + slot.extra[0] + " and " + slot.extra[1] +
                                      " beyond the rows, a tile has one");
}

}  // namespace

Program lower_merge_of_outputs(const astatide::Merge& merge, const LowerOptions& options) {
  const Recurrence& recurrence = merge.recurrence;
  check_tiles(recurrence);
  Schedule schedule;
  schedule.target = options.target.name;
  Lowering lowering(merge.algorithm, schedule, options, recurrence.axis, recurrence.rows, recurrence.axis_extents,
                    recurrence.values);
  lowering.parts_axis = lowering.add_axis("part", variable(merge.count));
  StoredStates stored{merge.states, {}};
  for (const RowValue& value : recurrence.values) {
    StoredPart part{
        {merge.parts_of.at(value.name), {variable(lowering.parts_axis)}}, value.indices, value.name + "_part"};
    std::vector<Expr> at = value.stored_at;
    if (at.empty())
      for (const std::string& axis : value.indices) at.push_back(variable(axis));
    part.read.indices.insert(part.read.indices.end(), at.begin(), at.end());
    stored.parts.emplace(value.name, std::move(part));
  }
  // Of the parts their loop alone: how many there are is an extent.
  const Placement placement =
      PlacementBuilder(recurrence.values.front().name).rfactor(recurrence.axis, recurrence.axis + ".s", 1).placement();
  lowering.program.kernels.push_back(
      lower_merge(lowering, recurrence, references_of_moves(recurrence), placement, stored, merge.algorithm.name));
  return std::move(lowering.program);
}

}  // namespace astatide::tile
