#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/tile/accesses.h"
#include "compiler/tile/ir.h"

// The rules that a tile program keeps after every pass, one function each. A rule throws InternalError through
// Verified::fail.

namespace astatide::tile {

/// What is being verified: a kernel of a program, after a pass.
struct Verified {
  const Program& program;
  const Kernel& kernel;
  std::string_view pass;
  const AccessTable& accesses;

  /// Whether this pass, or one after it in the table, has just run.
  bool is_past(std::string_view other) const;
  [[noreturn]] void fail(const Stmt* stmt, const std::string& message) const;
  [[noreturn]] void fail(const Stmt& stmt, const std::string& message) const { fail(&stmt, message); }
  [[noreturn]] void fail(const std::string& message) const { fail(nullptr, message); }
};

// Names.

/// Tensors, extents, scalars, tiles, loop variables, lets, flags and tokens have one name each; nothing in scope is
/// shadowed, by a coordinate either.
void verify_declarations(const Verified& v);
/// Every name in an expression is in scope, and of a kind that may stand there: tiles and flags not in indices.
void verify_references(const Verified& v);
/// Views and reads are of declared tensors with the right number of indices; inputs are not written; indices read
/// integers only; a stage is at a loop or a tile axis.
void verify_tensors(const Verified& v);
/// A scratch tensor is written before it is read, and every output is written somewhere. Takes all kernels.
void verify_tensor_order(const std::vector<Verified>& kernels);

// Shapes.

/// Extents, rings and alignments of tiles are positive, axes are distinct, only shared tiles have rings.
void verify_tiles(const Verified& v);
/// A product sums over one axis; all extents agree.
void verify_products(const Verified& v);
/// Operands of a map, a vote or a move have no axis that the result lacks; predicates come with an absent value; what
/// is to be a polynomial holds an exponential.
void verify_element_shapes(const Verified& v);
/// A reduction's result has some of its source's axes.
void verify_reductions(const Verified& v);
/// A copy has a whole tile on one side, and both sides have the same axes and extents.
void verify_copies(const Verified& v);
/// Columns lie within the last axis.
void verify_columns(const Verified& v);

// Order.

/// A tile or a flag is read only after a write on every path. A write in a loop that may run zero times counts inside
/// it; one under a condition counts under the same condition. Storage that two tiles share holds the last one written.
void verify_assignment(const Verified& v);
/// From close_shares on, a tile of which each lane holds a share is accumulated by its own operation, scaled by a
/// whole value or voted on, and nothing else before it is made whole.
void verify_partial_tiles(const Verified& v);
/// A token is awaited on every path, in the iteration that started it, and nothing conflicts with what is open.
void verify_tokens(const Verified& v);
/// As many slots are held and filled at the end of every loop body, if and kernel as at its start; a slot is written
/// when reserved and read when acquired.
void verify_rings(const Verified& v);
/// Under a condition of a warp only what a warp can do alone: no sync, turn, ring statement, role or wgmma.
void verify_uniformity(const Verified& v);
/// No register tile is used in two roles; warpgroups that run loops of their own never meet.
void verify_roles(const Verified& v);
/// A cluster is along the first tile axis. Its blocks make the same copies to all of them, each as often as the others,
/// of tiles whose rows they can share; a tile's slots are filled by such copies or by others.
void verify_cluster(const Verified& v);
/// Teams have one loop, in the kernel's body, whose tiles nothing else touches. From insert_barriers on they meet by
/// themselves in it, once more in front of what they leave for the others, and all behind it.
void verify_teams(const Verified& v);
/// Takes and passes alternate on every path of a role of several warpgroups, and where there are any every wgmma stands
/// in a turn. What a turn waits for does not wait for another's: no ring is acquired in it behind its own release. From
/// take_turns on no request for turns is left.
void verify_turns(const Verified& v);
/// From insert_barriers on, where a block has threads, a sync stands between two statements that conflict in shared or
/// global memory.
void verify_syncs(const Verified& v);

// Decisions that are made once a pass has run.

/// relax_rescale: no advance is left.
void verify_no_advance(const Verified& v);
/// overlap: no overlap is left to do.
void verify_overlapped(const Verified& v);
/// stage_tiles: no stage is left.
void verify_staged(const Verified& v);
/// stage_outputs: tma stores slots of tiles in shared memory, which are free once it has read them.
void verify_stored(const Verified& v);
/// hold_operands: no operand is left to hold; until then each is a tile in shared memory.
void verify_held(const Verified& v);
/// infer_layouts, where a block has threads: each product reads tiles and has a family, tensor cores read tiles of one
/// type, of f32 only as tf32 by mma_sync; each tile has a layout of its space, what tma copies lies in panels, and
/// register tiles of one statement lie in the same threads.
void verify_layouts(const Verified& v);
/// plan_memory: shared tiles have aligned places within the shared memory that the kernel asks for; an alias fits.
void verify_memory_plan(const Verified& v);
/// plan_memory: named barriers are apart and below 16, a phase of a slot's barriers ends with what arrives there, and
/// producers and consumers do not wait for each other for ever, whatever their loops' lengths.
void verify_synchronization(const Verified& v);

/// The names of the pass table, in order, "lower" first.
const std::vector<std::string_view>& verified_passes();

}  // namespace astatide::tile
