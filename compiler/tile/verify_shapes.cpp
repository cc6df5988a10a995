#include <algorithm>
#include <set>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/parameters.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

std::string print_dims(const std::vector<Dim>& dims) {
  std::string out;
  for (const Dim& dim : dims) out += (out.empty() ? "" : ", ") + dim.axis + ": " + std::to_string(dim.extent);
  return "[" + out + "]";
}

bool is_within(const std::vector<Dim>& inner, const std::vector<Dim>& outer) {
  return std::all_of(inner.begin(), inner.end(), [&](const Dim& dim) { return contains(outer, dim); });
}

/// Tiles that an expression reads.
std::vector<const Mem*> tiles_in(const Kernel& kernel, const Expr& e) {
  std::vector<const Mem*> out;
  for (const std::string& name : free_variables(e))
    if (const Mem* mem = kernel.find(name)) out.push_back(mem);
  return out;
}

void verify_within(const Verified& v, const Stmt& stmt, const Mem& inner, const Mem& outer) {
  if (!is_within(inner.dims, outer.dims))
    v.fail(stmt, inner.name + " is " + print_dims(inner.dims) + ", which does not lie within " + outer.name + " " +
                     print_dims(outer.dims));
}

}  // namespace

void verify_tiles(const Verified& v) {
  for (const Mem& mem : v.kernel.mems) {
    std::set<std::string> axes;
    for (const Dim& dim : mem.dims) {
      if (dim.extent < 1) v.fail(mem.name + " has extent " + std::to_string(dim.extent) + " along " + dim.axis);
      if (!axes.insert(dim.axis).second) v.fail(mem.name + " has axis " + dim.axis + " twice");
    }
    for (const auto& [axis, multiple] : mem.align)
      if (!mem.has_axis(axis) || multiple < 1)
        v.fail(mem.name + " can't be aligned to " + std::to_string(multiple) + " along " + axis);
    if (mem.space == Space::global) v.fail(mem.name + " is in global memory, which holds tensors");
    if (mem.ring < 1 || (mem.ring > 1 && mem.space != Space::shared))
      v.fail(mem.name + " has a ring of " + std::to_string(mem.ring) + " in " + std::string(name_of(mem.space)));
    if (mem.partial) unit_of(*mem.partial);
  }
}

void verify_products(const Verified& v) {
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const auto* s = std::get_if<Mma>(&stmt.node);
    if (!s) return;
    const std::vector<Dim>& dst = v.kernel.find(s->dst)->dims;
    Dim contracted;
    try {
      contracted = contraction_of(v.program, v.kernel, *s);
    } catch (const InternalError& error) {
      v.fail(stmt, error.what());
    }
    std::set<std::string> covered;
    for (const Operand* operand : {&s->lhs, &s->rhs}) {
      for (const std::string& axis : axes_of(v.kernel, *operand)) {
        covered.insert(axis);
        const auto in_dst = std::find_if(dst.begin(), dst.end(), [&](const Dim& d) { return d.axis == axis; });
        if (axis != contracted.axis && in_dst == dst.end())
          v.fail(stmt, "axis " + axis + " of an operand is neither summed over nor one of " + s->dst);
        const auto* tile = std::get_if<TileName>(operand);
        const int expected = axis == contracted.axis ? contracted.extent : in_dst->extent;
        if (tile && v.kernel.find(*tile)->extent_of(axis) != expected)
          v.fail(stmt, *tile + " has extent " + std::to_string(v.kernel.find(*tile)->extent_of(axis)) + " along " +
                           axis + ", the product " + std::to_string(expected));
      }
    }
    for (const Dim& dim : dst)
      if (!covered.contains(dim.axis)) v.fail(stmt, "axis " + dim.axis + " of " + s->dst + " is of neither operand");
  });
}

void verify_element_shapes(const Verified& v) {
  walk(v.kernel.body, [&](const Stmt& stmt) {
    if (const auto* s = std::get_if<Map>(&stmt.node)) {
      const Mem& dst = *v.kernel.find(s->dst);
      for (const Mem* mem : tiles_in(v.kernel, s->value)) verify_within(v, stmt, *mem, dst);
      for (const Expr& predicate : s->where_predicates)
        for (const Mem* mem : tiles_in(v.kernel, predicate)) verify_within(v, stmt, *mem, dst);
      if (!s->where_predicates.empty() && !s->absent) v.fail(stmt, "predicates without an absent value");
      if (s->polynomial && !has_exponential(s->value)) v.fail(stmt, "a polynomial for no exponential");
    }
    if (const auto* s = std::get_if<Vote>(&stmt.node)) {
      const std::vector<const Mem*> mems = tiles_in(v.kernel, s->condition);
      const auto largest = std::max_element(mems.begin(), mems.end(),
                                            [](const Mem* a, const Mem* b) { return a->dims.size() < b->dims.size(); });
      for (const Mem* mem : mems) verify_within(v, stmt, *mem, **largest);
    }
    if (const auto* s = std::get_if<Advance>(&stmt.node)) {
      std::map<std::string, Expr> made;
      for (const Advance::Update& update : s->updates) {
        verify_within(v, stmt, *v.kernel.find(update.candidate), *v.kernel.find(update.tile));
        made.emplace(new_value_name(update.tile), variable(update.tile));
      }
      // A new value has the shape of the tile that it is for.
      for (const Advance::Move& move : s->moving)
        for (const Mem* mem : tiles_in(v.kernel, astatide::substitute(move.by, made)))
          verify_within(v, stmt, *mem, *v.kernel.find(move.tile));
    }
  });
}

void verify_reductions(const Verified& v) {
  walk(v.kernel.body, [&](const Stmt& stmt) {
    if (const auto* s = std::get_if<RowReduce>(&stmt.node)) {
      unit_of(s->op);
      const Mem& dst = *v.kernel.find(s->dst);
      const Mem& src = *v.kernel.find(s->src);
      verify_within(v, stmt, dst, src);
      if (dst.dims.size() == src.dims.size()) v.fail(stmt, "nothing is reduced");
    }
    if (const auto* s = std::get_if<AllReduce>(&stmt.node)) unit_of(s->op);
    if (const auto* s = std::get_if<Advance>(&stmt.node))
      for (const Advance::Update& update : s->updates) unit_of(update.op);
  });
}

void verify_copies(const Verified& v) {
  const std::set<TileName> by_tma = tiles_loaded_by_tma(v.kernel.body);
  walk(v.kernel.body, [&](const Stmt& stmt) {
    if (const auto* acquire = std::get_if<Acquire>(&stmt.node))
      for (const Coordinate& coordinate : acquire->at) {
        if (!v.kernel.find(acquire->tile)->has_axis(coordinate.axis))
          v.fail(stmt, acquire->tile + " has no axis " + coordinate.axis);
        if (!by_tma.contains(acquire->tile))
          v.fail(stmt, "the copies into " + acquire->tile + " have limits of their own");
      }
    const auto* s = std::get_if<Copy>(&stmt.node);
    if (!s) return;
    const auto* dst = std::get_if<TileName>(&s->dst);
    const auto* src = std::get_if<TileName>(&s->src);
    if (!dst && !src) v.fail(stmt, "no side is a whole tile");
    const Mem& tile = *v.kernel.find(dst ? *dst : *src);
    const auto covers = [&](const std::vector<Coordinate>& at, const std::string& other) {
      for (const Dim& dim : tile.dims) {
        const bool found = std::any_of(at.begin(), at.end(), [&](const Coordinate& c) { return c.axis == dim.axis; });
        if (!found && dim.extent != 1) v.fail(stmt, "axis " + dim.axis + " of " + tile.name + " is none of " + other);
      }
      for (const Coordinate& coordinate : at)
        if (!tile.has_axis(coordinate.axis)) v.fail(stmt, tile.name + " has no axis " + coordinate.axis);
    };
    for (const CopyOperand* operand : {&s->dst, &s->src}) {
      match(
          *operand,
          [&](const TileName& name) {
            const Mem& other = *v.kernel.find(name);
            if (!is_within(tile.dims, other.dims) || !is_within(other.dims, tile.dims))
              v.fail(stmt, tile.name + " is " + print_dims(tile.dims) + ", " + name + " " + print_dims(other.dims));
          },
          [&](const View& view) { covers(view.at, "the view's coordinates"); },
          [&](const Strip& strip) {
            const Mem& whole = *v.kernel.find(strip.tile);
            for (const Dim& dim : tile.dims) {
              const bool placed = std::any_of(strip.at.begin(), strip.at.end(),
                                              [&](const Coordinate& c) { return c.axis == dim.axis; });
              if (!whole.has_axis(dim.axis)) v.fail(stmt, strip.tile + " has no axis " + dim.axis);
              if (!placed && whole.extent_of(dim.axis) != dim.extent)
                v.fail(stmt, "no origin is given along " + dim.axis + ", where " + strip.tile + " has " +
                                 std::to_string(whole.extent_of(dim.axis)) + " and " + tile.name + " " +
                                 std::to_string(dim.extent));
            }
            for (const Dim& dim : whole.dims)
              if (!tile.has_axis(dim.axis)) v.fail(stmt, tile.name + " has no axis " + dim.axis);
          });
    }
  });
}

void verify_columns(const Verified& v) {
  const auto check = [&](const Stmt& stmt, const Columns& columns, const TileName& tile) {
    const Mem& mem = *v.kernel.find(tile);
    const int extent = mem.dims.empty() ? 0 : mem.dims.back().extent;
    if (columns.begin < 0 || columns.begin >= columns.end || columns.end > extent)
      v.fail(stmt, "columns " + std::to_string(columns.begin) + ".." + std::to_string(columns.end) + " of " + tile +
                       ", which has " + std::to_string(extent));
  };
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const auto* map = std::get_if<Map>(&stmt.node);
    const auto* reduction = std::get_if<RowReduce>(&stmt.node);
    if (map && map->columns) check(stmt, *map->columns, map->dst);
    if (reduction && reduction->columns) check(stmt, *reduction->columns, reduction->src);
  });
}

}  // namespace astatide::tile
