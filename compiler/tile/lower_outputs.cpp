#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/tile/lower_elements.h"

namespace astatide::tile {

void KernelBuilder::add_output(Block& block, const RowValue& value) {
  const std::vector<std::string> axes = tile_axes(value.indices);
  if (axes.size() > 2)
    throw UserError(value.where,
                    value.name + " has the axes " + axes[1] + " and " + axes[2] + " beyond the rows, a tile has one");
  const Expr finished = renamed(value.value);
  check_size(finished, value.where);
  TileName tile;
  const auto* v = finished.as<Variable>();
  const Mem* held = v ? kernel.find(v->name) : nullptr;
  // As it is, unless the output repeats it along an axis of its own.
  const bool fits = held && held->dims.size() == axes.size() &&
                    std::equal(axes.begin(), axes.end(), held->dims.begin(),
                               [](const std::string& axis, const Dim& dim) { return axis == dim.axis; });
  if (fits && value.where_predicates.empty()) {
    tile = held->name;
  } else {
    tile = declare(value.name + "_tile", axes);
    block.push_back({map(tile, value.value, value.where_predicates, 0)});
  }
  const Placement* placement = lowering.schedule.find(value.name);
  const bool by_tma = placement && placement->copy() == CopyPath::tma && lowering.is_cuda();
  const bool ragged = std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return lowering.is_ragged(axis); });
  if (by_tma && (ragged || !value.stored.empty()))
    throw UserError(placement->find(DirectiveKind::copy)->where,
                    "copy of " + value.name +
                        ": tma stores whole tiles, and behind the last row of an item lie rows of " + value.name +
                        " that are not its own",
                    {"leave it out"});
  block.push_back({Copy{output_view(value), tile, by_tma ? Via::tma : Via::store, {}, 0}});
}

View KernelBuilder::output_view(const RowValue& value) {
  if (value.stored.empty()) return view(value.name, value.indices);
  return view(Read{value.name, value.stored}, tile_axes(value.indices));
}

}  // namespace astatide::tile
