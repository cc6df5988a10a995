// What a kernel reads of tensors and stores to them: tiles over its loops' coordinates.

#include <algorithm>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"
#include "compiler/tile/cluster.h"
#include "compiler/tile/lower_elements.h"

namespace astatide::tile {

Coordinate KernelBuilder::coordinate(const std::string& axis) {
  const NestLoop* loop = nest.over(axis);
  if (!loop) return {axis, Expr(0), std::nullopt};
  Coordinate out{axis, loop->origin(), lowering.end_of(axis)};
  const std::optional<Expr> present = axis == nest.row ? loops_have_elements() : std::nullopt;
  if (present) out.limit = astatide::select(*present, *out.limit, Expr(0));
  // A loop over the reduced axis that runs once does so for no element, too.
  const bool steps = loop->step == 1 && !present && !(loop->grid && lowering.is_ragged(axis));
  const bool whole = axis == nest.column || nest.cut.contains(axis);
  if (whole ? covers_exactly(axis) : steps) out.limit.reset();
  return out;
}

/// Blocks are started for the longest of the items: whether loops over ragged axes other than those of tiles are at one
/// of this item's elements. Nothing where there are no such loops.
std::optional<Expr> KernelBuilder::loops_have_elements() const {
  std::optional<Expr> out;
  for (const NestLoop& loop : nest.loops) {
    if (!loop.grid || !lowering.is_ragged(loop.axis) || loop.axis == nest.row || loop.axis == nest.column) continue;
    const Expr inside = less(variable(loop.var), lowering.length_of(loop.axis));
    out = out ? logical_and(*out, inside) : inside;
  }
  return out;
}

/// The same of the whole tile, for all blocks of a cluster together.
std::optional<Expr> KernelBuilder::tile_has_elements() const {
  std::optional<Expr> out = loops_have_elements();
  const NestLoop* rows = nest.over(nest.row);
  if (!rows || !rows->grid || !lowering.is_ragged(nest.row)) return out;
  const Expr step =
      kernel.cluster && kernel.cluster->var == rows->var ? tiles_of(*kernel.cluster).low : variable(rows->var);
  const Expr inside = less(step * Expr(rows->step), lowering.length_of(nest.row));
  return out ? logical_and(*out, inside) : inside;
}

std::vector<std::string> KernelBuilder::tile_axes(const std::vector<std::string>& axes) const {
  std::vector<std::string> out{nest.row};
  for (const std::string& axis : axes)
    if (nest.is_tile_axis(axis) && axis != nest.row) out.push_back(axis);
  return out;
}

View KernelBuilder::view(const Read& read, const std::vector<std::string>& axes) {
  View out{read.tensor, read.indices, {}, 0};
  // e + 0, by which an algorithm reads fewer elements than a dimension has, is the axis itself to a copy.
  for (Expr& index : out.indices)
    if (const Expr plain = collect_terms(index); plain.as<Variable>()) index = plain;
  for (const std::string& axis : axes) out.at.push_back(coordinate(axis));
  return out;
}

View KernelBuilder::view(const std::string& tensor, const std::vector<std::string>& axes) {
  Read read{tensor, {}};
  for (const std::string& axis : axes) read.indices.push_back(variable(axis));
  return view(read, tile_axes(axes));
}

View KernelBuilder::view(const RowValue& output) {
  View out = output.stored_at.empty() ? view(output.name, output.indices)
                                      : view(Read{output.name, output.stored_at}, tile_axes(output.indices));
  // An output without a cut axis is stored with that axis' first part.
  for (const auto& [axis, size] : nest.cut) {
    if (contains(output.indices, axis)) continue;
    Coordinate& row = out.at.front();
    const Expr end = row.limit ? *row.limit : nest.over(row.axis) ? lowering.end_of(row.axis) : Expr(1);
    row.limit = astatide::select(equal(variable(nest.over(axis)->var), Expr(0)), end, Expr(0));
  }
  return out;
}

View KernelBuilder::operand(const Expr& e, const std::string& rows, const std::string& other, const std::string& of,
                            const Location& where) {
  const auto* read = e.as<Read>();
  if (!read)
    throw UserError(where,
                    of + ": contribution does not factor into tiles that can be copied: " + to_string(e) +
                        " is no element of an input, so the product can't be one of tiles",
                    {"give the input itself as the factor"});
  Read placed = *read;
  const std::string& foreign = rows == nest.row ? nest.column : nest.row;
  for (Expr& index : placed.indices) {
    if (!free_variables(index).contains(foreign)) continue;
    if (foreign == nest.column || nest.rows != 1)
      throw UserError(where,
                      of + ": contribution does not factor into a (" + nest.row + "," + nest.column + ") and a (" +
                          nest.column + "," + other + ") tile: " + to_string(e) + " varies with " + foreign,
                      {"tile another axis of the rows"});
    index = substitute(index, {{foreign, coordinate(foreign).origin}});
  }
  operands_.insert(read->tensor);
  View out = view(placed, {rows, other});
  // The contracted axis has a limit even where a tile covers it: it says how long the axis is.
  for (Coordinate& coordinate : out.at)
    if (!coordinate.limit && !nest.over(coordinate.axis) && coordinate.axis != nest.row)
      coordinate.limit = lowering.end_of(coordinate.axis);
  return out;
}

// What memory holds there is nobody's: padding of shorter items, slots of a page that no position has yet. Its indices
// may lead nowhere, and a NaN in it would come through a product with weights of 0.
View KernelBuilder::visible_operand(const Expr& e, const std::string& rows, const std::string& other,
                                    const std::string& of, const Location& where, const std::vector<Expr>& predicates) {
  View out = operand(e, rows, other, of, where);
  const auto along =
      std::find_if(out.at.begin(), out.at.end(), [&](const Coordinate& coordinate) { return coordinate.axis == rows; });
  const std::string& across = rows == nest.row ? nest.column : nest.row;
  const std::map<std::string, Bounds> all{{across, {Expr(0), lowering.length_of(across) - 1}}};
  // The axis' own length comes first.
  std::vector<Expr> ends;
  if (along->limit) ends.push_back(*along->limit);
  for (const Expr& predicate : conjuncts(predicates))
    for (const Expr& inequality : as_inequalities(renamed(predicate), lowering.program, kernel)) {
      const auto end = end_along(rows, inequality, all);
      if (end && !is_never_negative(collect_terms(*end - lowering.length_of(rows))) && !contains(ends, *end))
        ends.push_back(*end);
    }
  along->limit = extreme(ends, Op::min);
  return out;
}

}  // namespace astatide::tile
