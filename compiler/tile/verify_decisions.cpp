#include <string>

#include "compiler/support/match.h"
#include "compiler/tile/bounds.h"
#include "compiler/tile/parameters.h"
#include "compiler/tile/thread_grid.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

// Vectors of 16 bytes are loaded from and stored to any tile.
constexpr std::int64_t kPlaceAlignment = 16;

bool same_rows(const ThreadGrid& a, const ThreadGrid& b) {
  return a.rows == b.rows && a.columns == b.columns && a.row_vector == b.row_vector && a.row_unit == b.row_unit;
}

void verify_layout(const Verified& v, const Stmt& stmt, const Mem& mem) {
  const bool rows = std::holds_alternative<Rows>(mem.layout) || std::holds_alternative<Panels>(mem.layout);
  if (std::holds_alternative<std::monostate>(mem.layout)) v.fail(stmt, mem.name + " has no layout");
  if (rows != (mem.space == Space::shared))
    v.fail(stmt, mem.name + " is in " + std::string(name_of(mem.space)) + ", its layout is of another space");
  if (const auto* shared = std::get_if<Rows>(&mem.layout); shared && shared->pitch != 0 && !mem.dims.empty())
    if (shared->pitch < mem.dims.back().extent)
      v.fail(stmt, "the rows of " + mem.name + " overlap: pitch " + std::to_string(shared->pitch) + " for " +
                       std::to_string(mem.dims.back().extent) + " elements");
}

/// Element by element, so that each thread must hold the same rows and columns of all tiles.
void verify_same_threads(const Verified& v, const Stmt& stmt, const Mem& dst, const Mem& src) {
  const ThreadGrid* a = find_grid(dst);
  const ThreadGrid* b = find_grid(src);
  if (!a || !b) return;
  const bool both_whole =
      std::holds_alternative<ThreadGrid>(dst.layout) && std::holds_alternative<ThreadGrid>(src.layout);
  const bool widens = std::holds_alternative<RowsOf>(dst.layout) && std::holds_alternative<ThreadGrid>(src.layout);
  // Rows are those of a fragment's first axis.
  const bool other_axis = !dst.dims.empty() && !src.dims.empty() && dst.dims[0].axis != src.dims[0].axis;
  if (!same_rows(*a, *b) || (both_whole && *a != *b) || widens || other_axis)
    v.fail(stmt, dst.name + " and " + src.name + " lie in other threads");
}

/// f32 becomes tf32 only where a product says so.
void verify_types(const Verified& v, const Stmt& stmt, const Mma& product) {
  if (!on_tensor_cores(product)) {
    if (product.tf32) v.fail(stmt, "tf32 is of tensor cores");
    return;
  }
  const ScalarType left = v.kernel.find(std::get<TileName>(product.lhs))->type;
  const ScalarType right = v.kernel.find(std::get<TileName>(product.rhs))->type;
  if (left != right)
    v.fail(stmt, "the operands are " + std::string(name_of(left)) + " and " + std::string(name_of(right)));
  if (product.tf32 && product.by != Family::mma_sync) v.fail(stmt, "tf32 is of mma_sync");
  if (product.tf32 != (left == ScalarType::f32))
    v.fail(stmt, "the operands are " + std::string(name_of(left)) +
                     (product.tf32 ? ", tf32 is made of f32" : ", which is no tf32"));
}

/// Tensor cores' operands are read 16 bytes at a time.
void verify_rows(const Verified& v, const Stmt& stmt, const Mma& product) {
  if (!on_tensor_cores(product)) return;
  for (const Operand* operand : {&product.lhs, &product.rhs}) {
    const Mem& mem = *v.kernel.find(std::get<TileName>(*operand));
    const auto* rows = std::get_if<Rows>(&mem.layout);
    if (rows && rows->pitch * size_in_bytes(mem.type) % kPlaceAlignment != 0)
      v.fail(stmt, "rows of " + mem.name + " are " + std::to_string(rows->pitch * size_in_bytes(mem.type)) +
                       " bytes apart, an instruction reads " + std::to_string(kPlaceAlignment) + " at a time");
  }
}

}  // namespace

void verify_no_advance(const Verified& v) {
  if (!v.is_past("relax_rescale")) return;
  walk(v.kernel.body, [&](const Stmt& stmt) {
    if (std::holds_alternative<Advance>(stmt.node)) v.fail(stmt, "an advance is left");
  });
}

void verify_staged(const Verified& v) {
  if (!v.is_past("stage_tiles")) return;
  if (!v.kernel.stagings.empty()) v.fail("the stage of " + v.kernel.stagings.front().tensor + " is left");
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    const auto* name = copy ? std::get_if<TileName>(&copy->dst) : nullptr;
    if (!name || copy->via != Via::tma) {
      if (copy && copy->boxes != 1) v.fail(stmt, "only tma copies tiles in boxes");
      return;
    }
    const Mem& tile = *v.kernel.find(*name);
    const auto form = tiled_view(std::get<View>(copy->src), tile);
    if (!form) v.fail(stmt, "the view has no form that tma copies");
    const int rows = tile.dims[0].extent, box = form->rows_of_box(rows);
    if (rows != copy->boxes * box)
      v.fail(stmt, std::to_string(rows) + " rows are not " + std::to_string(copy->boxes) + " boxes of " +
                       std::to_string(box));
    if (form->paged && (copy->multicast || form->paged->length % box != 0 ||
                        !is_multiple(std::get<View>(copy->src).at.front().origin, box)))
      v.fail(stmt, "a box has rows of two pages");
  });
}

void verify_stored(const Verified& v) {
  if (!v.is_past("stage_outputs")) return;
  walk(v.kernel.body, [&](const Stmt& stmt) {
    if (!view_stored_by_tma(stmt)) return;
    const TileName& tile = std::get<TileName>(std::get<Copy>(stmt.node).src);
    if (!v.accesses.reserved().contains(tile)) v.fail(stmt, "tma stores " + tile + ", of which no slot is reserved");
  });
}

void verify_held(const Verified& v) {
  for (const TileName& tile : v.kernel.holds) {
    if (v.is_past("hold_operands")) v.fail(tile + " is left to hold");
    const Mem* mem = v.kernel.find(tile);
    if (!mem || mem->space != Space::shared) v.fail(tile + " is to be held, and is no tile in shared memory");
  }
}

void verify_overlapped(const Verified& v) {
  if (!v.is_past("overlap")) return;
  if (v.kernel.overlap) v.fail("the overlap of " + v.kernel.overlap->product + " is left");
}

void verify_layouts(const Verified& v) {
  if (!v.is_past("infer_layouts") || v.kernel.threads() == 0) return;
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const Accesses& accesses = v.accesses.of(stmt);
    for (const auto* list : {&accesses.reads, &accesses.writes})
      for (const Access& access : *list)
        if (const Mem* mem = v.kernel.find(access.name)) verify_layout(v, stmt, *mem);
    if (const auto* s = std::get_if<Mma>(&stmt.node)) {
      if (s->by == Family::unset) v.fail(stmt, "no family computes this product");
      if (std::holds_alternative<View>(s->lhs) || std::holds_alternative<View>(s->rhs))
        v.fail(stmt, "an operand is in global memory");
      // Multiply-adds can leave their result in shared memory; tensor cores have their accumulator in registers.
      if (s->by != Family::fma && v.kernel.find(s->dst)->space != Space::register_file)
        v.fail(stmt, s->dst + " is not in registers");
      verify_types(v, stmt, *s);
      verify_rows(v, stmt, *s);
    }
    if (const auto* s = std::get_if<Copy>(&stmt.node); s && s->via == Via::tma)
      for (const CopyOperand* side : {&s->dst, &s->src})
        if (const auto* tile = std::get_if<TileName>(side))
          if (!std::holds_alternative<Panels>(v.kernel.find(*tile)->layout))
            v.fail(stmt, "tma copies whole panels, and " + *tile + " does not lie in panels");
    if (const auto* s = std::get_if<Map>(&stmt.node))
      for (const Access& access : accesses.reads)
        if (const Mem* mem = v.kernel.find(access.name)) verify_same_threads(v, stmt, *v.kernel.find(s->dst), *mem);
    if (const auto* s = std::get_if<RowReduce>(&stmt.node)) {
      const ThreadGrid* dst = find_grid(*v.kernel.find(s->dst));
      const ThreadGrid* src = find_grid(*v.kernel.find(s->src));
      if (dst && src && !same_rows(*dst, *src)) v.fail(stmt, s->dst + " and " + s->src + " lie in other threads");
    }
  });
}

void verify_memory_plan(const Verified& v) {
  for (const Mem& mem : v.kernel.mems) {
    if (mem.alias.empty()) continue;
    const Mem& other = *v.kernel.find(mem.alias);
    if (other.space != mem.space) v.fail(mem.name + " and its alias " + other.name + " are in different memories");
    if (mem.byte_count() > other.byte_count())
      v.fail(mem.name + " has " + std::to_string(mem.byte_count()) + " bytes, its alias " + other.name + " " +
             std::to_string(other.byte_count()));
  }
  if (!v.is_past("plan_memory") || v.kernel.threads() == 0) return;
  if (v.kernel.shared_bytes < 0) v.fail("no shared memory is asked for");
  for (const Mem& mem : v.kernel.mems) {
    if (mem.space != Space::shared) continue;
    const Mem& place = mem.offset < 0 && !mem.alias.empty() ? *v.kernel.find(mem.alias) : mem;
    if (place.offset < 0) v.fail(mem.name + " has no place in shared memory");
    if (place.offset % kPlaceAlignment != 0)
      v.fail(mem.name + " lies at " + std::to_string(place.offset) + ", which is no multiple of " +
             std::to_string(kPlaceAlignment));
    const std::int64_t bytes = v.kernel.teams > 1 ? v.kernel.team_bytes : v.kernel.shared_bytes;
    if (place.offset + mem.byte_count() > bytes)
      v.fail(mem.name + " ends at " + std::to_string(place.offset + mem.byte_count()) + ", the kernel asks for " +
             std::to_string(bytes) + " bytes");
  }
}

}  // namespace astatide::tile
