#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/algorithm/expr.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/scalar_type.h"
#include "compiler/support/visibility.h"
#include "compiler/tile/operands.h"

// The tile program: kernels over tile axes, memory declarations, loops, and instructions on whole tiles. Blocks are
// printed by indentation.
//
// clang-format off
//   program  = "program" NAME fact* tensor* kernel+              in launch order; scratch tensors join them
//   fact     = "extents" NAME,* | "parts" NAME "of" KERNEL "for" int "blocks each, at most" int | "known" (NAME "=" N),* | "bound" (NAME "<=" N),* | "scalars" NAME,* | "approximate" FUNCTION,*
//   tensor   = ("input" | "output" | "scratch" | "counters" | "block") NAME ":" TYPE "[" int,* "]" ["monotone"] ["updated"] ["offset" N]
//   kernel   = "kernel" NAME "tiles" "(" (VAR ":" int ["descending"]),* ")" ["groups" int] ["where" expr] ["persistent" ORDER] ["cluster" VAR N] ["threads" N "x" N ["teams" N]] ["producers" N] ["warpgroup" VAR] ["alternate"] ["mask_map"] ["of" "masks"] ["lanes" N] ["shared" N] ["blocks" N] stage* [overlap] hold* mem* block
//   stage    = "stage" TENSOR "at" VAR "in" SPACE ["ring" N] ["width" N] ["via" VIA] ["align" AXIS N] ["held"]   until stage_tiles
//   overlap  = "overlap" T "cover" N "/" N                                                     until overlap
//   hold     = "hold" T                                                                        from stage_tiles until hold_operands
//   mem      = NAME ":" TYPE "[" (AXIS ":" N),* "]" "in" SPACE ["ring" N] ["layout" LAYOUT] ["partial" OP]
//              ["alias" NAME] ["align" AXIS N] ["offset" N]
//   LAYOUT   = rows [pitch N] | panels | thread_grid<RxC, r x c [by N]> | rows of thread_grid<..>
//   block    = stmt*
//   stmt     = "for" VAR "in" int ".." int ["descending"] (serial ["unroll" N ["padded"]] | unrolled | once | teams) block
//            | "if" int "uniform" (warp | block) ["cold"] block
//            | "role" NAME "x" N ["registers" N] block
//            | "let" VAR "=" int ["own" int] ["dealt"]
//            | instr
//   instr    = "fill" T "=" scalar
//            | "map" T ["cols" a..b] "=" expr ["polynomial" N "/" N] ["where" expr and ..] ["absent" scalar] ["at" coord,*]
//            | "row_reduce" T ("=" | "op=") OP T' ["cols" a..b]
//            | "all_reduce" T OP                                   share of a lane -> whole
//            | "vote" FLAG "= any" expr
//            | "mma" D ("=" | "+=") operand "*" operand ["by" fma | mma_sync ["tf32"] | wgmma] ["unroll" N] ["->" TOKEN]
//            | "copy" operand "<-" operand "via" (vector | cp_async | tma | ldmatrix | load | store) ["width" N] ["boxes" N] ["multicast"] ["->" TOKEN]
//            | "await" TOKEN ["open" N]
//            | "advance" (R "to" OP "(" R "," C ")"),+ [slack] "moving" (T "by" expr),*       only until relax_rescale
//            | "reserve" T ["ahead" view] | "acquire" T ["open" N] ["at" coord,*] | "release" T ["apart"]   one slot of a ring
//            | "sync" ["team"]                                     all threads of the role, or of the team
//            | "turn" (take | pass)                                at the tensor cores, among the warpgroups of the role
//            | "arrive" FLAG "= last of" int "at" TENSOR "[" int,* "]" "for" TENSOR,+     of blocks, with their stores
//   slack    = "lazy" expr ">" N ["optimistic" T,+ "> 2^" N]
//   operand  = T | view | strip
//   view     = TENSOR "[" expr,* "]" ["at" coord,*] ["absent" scalar]     in an mma between parentheses
//   strip    = T "at" coord,* ["absent" scalar]
//   coord    = AXIS "=" int ["<" int]                              coordinate of a tile axis: origin + offset, and its limit
//   int      = integer expression over loop variables, lets and extents, reads of tensors of integers, and
//              "count_below" "(" TENSOR "[" int,* "]" "," int "," int ")"         a search in a monotone one
// clang-format on
//
// Meaning: a tile is a value with named axes; a statement reads and writes whole tiles. Two statements conflict if one
// writes what the other reads or writes: every pass is legal by that one relation and by the affine analysis of
// `where`. The program names tiles, recurrences and hardware units, nothing else. A name stands for one thing in a
// kernel: a tile, a tensor, an extent, a scalar, a loop variable, a let, a flag or a token; coordinates are named after
// the axes of tiles and belong to the statement that declares them.

namespace ASTATIDE_PUBLIC astatide {
namespace tile {

// ---------------------------------------------------------------- statements

struct Stmt;
using Block = std::vector<Stmt>;

/// `once` is a peeled iteration: it runs with var = begin, whatever the end is. `teams`: the threads of a block are as
/// many teams, each of which runs one iteration, beside the others. Its tiles are each team's own, and no iteration
/// reads what another has written. Such a loop stands in the body of a kernel, from 0 to Kernel::teams; behind it the
/// threads of all teams are those of one block.
struct For {
  enum class Kind : std::uint8_t { serial, unrolled, once, teams };
  std::string var;
  Expr begin, end;
  Kind kind = Kind::serial;
  bool descending = false;
  Block body;
  std::string note;  // "full", "partial": for people
  /// Of a serial loop on GPUs: iterations whose loads are under way together. None reads what another writes to memory.
  int unroll = 1;
  bool padded = false;  // an iteration on absent elements changes nothing, so that there may be more of them

  /// A thread comes through the body once.
  bool passes_once() const { return kind == Kind::once || kind == Kind::teams; }

  friend bool operator==(const For&, const For&) = default;
};

struct If {
  enum class Uniform : std::uint8_t { warp, block };
  Expr condition;  // a flag of a vote, that one is down, or an integer predicate
  Uniform uniform = Uniform::block;
  bool cold = false;
  Block body;

  friend bool operator==(const If&, const If&) = default;
};

struct Role {
  std::string name;
  int count = 1;
  int registers = 0;
  Block body;

  friend bool operator==(const Role&, const Role&) = default;
};

/// With `own` a warpgroup may take that instead, over its number (Kernel::warpgroup): the value is for all rows of a
/// tile, this for those of the warpgroup. What is dealt comes with the places of a tile: who deals tiles out computes
/// it, the others read it.
struct Let {
  std::string name;
  Expr value;
  std::optional<Expr> own{};
  bool dealt = false;

  friend bool operator==(const Let&, const Let&) = default;
};

/// NaN: anything, and nothing reads it; what a tile holds may stay.
struct Fill {
  TileName dst;
  double value = 0;

  friend bool operator==(const Fill&, const Fill&) = default;
};

/// dst = value, element by element. Variables of `value` are tiles (a tile with fewer axes is broadcast), coordinates
/// of `at`, loop variables, lets, extents and scalars; reads are of global tensors and happen only at coordinates
/// within their limits (0 elsewhere). Where a predicate is false, or a coordinate is beyond its limit, the element is
/// `absent`; a map with predicates has one set.
struct Map {
  TileName dst;
  std::optional<Columns> columns;
  Expr value;
  std::vector<Expr> where_predicates;
  std::optional<double> absent;
  std::vector<Coordinate> at;
  /// Of the elements that a thread holds: the part whose powers of two are computed by multiply-adds instead of the
  /// special-function unit. The value is the same up to rounding.
  std::optional<Fraction> polynomial{};

  friend bool operator==(const Map&, const Map&) = default;
};

/// dst = op over the axes of src that dst has not; with `accumulate`, dst = op(dst, that). Leaves dst partial until
/// all_reduce.
struct RowReduce {
  TileName dst;
  Reduction op = Reduction::sum;
  TileName src;
  bool accumulate = false;
  std::optional<Columns> columns;

  friend bool operator==(const RowReduce&, const RowReduce&) = default;
};
struct AllReduce {
  TileName tile;
  Reduction op = Reduction::sum;

  friend bool operator==(const AllReduce&, const AllReduce&) = default;
};
struct Vote {
  std::string flag;
  Expr condition;

  friend bool operator==(const Vote&, const Vote&) = default;
};

/// dst (+)= lhs * rhs, summed over the one axis that both have and dst has not.
struct Mma {
  TileName dst;
  bool accumulate = false;
  Operand lhs, rhs;
  Family by = Family::unset;
  std::string token;
  int unroll = 0;     // of the contracted axis; 0: the emitter's choice
  bool tf32 = false;  // operands are f32, and rounded to tf32 where they are read

  friend bool operator==(const Mma&, const Mma&) = default;
};

/// With `multicast` the blocks of a cluster copy the same tile: each a share of the rows, into the tiles of all.
/// By tma into a view: the copy has been made when the kernel has ended. By tma into a tile whose rows lie in pages
/// (parameters.h): so many boxes, one for each page that the tile has rows of.
struct Copy {
  CopyOperand dst, src;
  Via via = Via::unset;
  std::string token;
  int vector = 0;
  bool multicast = false;
  int boxes = 1;

  friend bool operator==(const Copy&, const Copy&) = default;
};
/// Products of wgmma and copies by cp.async end in the order in which they began: a wait for one is a wait until at
/// most as many of its kind are open as began behind it. Set by plan_memory.
struct Await {
  std::string token;
  int open = 0;

  friend bool operator==(const Await&, const Await&) = default;
};

/// For all updates at once: new = op(tile, candidate); then every moved tile becomes its expression, over old values
/// (by name) and new ones (new_value_name of rewrite/recurrence.h); then the updated tiles become new.
struct Advance {
  struct Update {
    TileName tile;
    Reduction op = Reduction::max;
    TileName candidate;
    friend bool operator==(const Update&, const Update&) = default;
  };
  struct Move {
    TileName tile;
    Expr by;
    friend bool operator==(const Move&, const Move&) = default;
  };
  /// Any value may stand in for the updated tiles as long as what moves with them does, so they need not follow their
  /// candidates at once. A number may bound how far they fall behind.
  struct Slack {
    Expr growth;   // log2 of what the largest term gains where they stay; over old values and new ones
    int grow = 0;  // they may stay up to here
    /// Where not empty they may also be tried as they are, before any candidate is known: for each update the tile of
    /// the sum of this iteration's nonnegative terms, none of which is above the sum. Good up to 2^over.
    std::vector<TileName> witnesses;
    int over = 0;
    friend bool operator==(const Slack&, const Slack&) = default;
  };
  std::vector<Update> updates;
  std::vector<Move> moving;
  std::optional<Slack> slack;

  friend bool operator==(const Advance&, const Advance&) = default;
};

/// A slot of a ring: reserve waits for a free one, which the copy after it fills; acquire waits until the oldest is
/// full, release frees it: at once, or, where a copy by tma reads it, when that has. A tile is read in its oldest slot
/// that is acquired. Where no reserve names a tile, as with one role that fills and reads, each copy into it takes the
/// next slot.
struct Reserve {
  TileName tile;
  /// What will be copied, where the wait is long: asked for in front of it, from memory into the L2 cache.
  std::optional<View> ahead{};

  friend bool operator==(const Reserve&, const Reserve&) = default;
};
struct Acquire {
  TileName tile;
  /// Of what a copy by tma brought: elements beyond these limits are 0 from here on.
  std::vector<Coordinate> at{};
  /// Groups of copies by cp_async that were begun behind the one that fills this slot, and may still be under way.
  int open = 0;

  friend bool operator==(const Acquire&, const Acquire&) = default;
};
struct Release {
  TileName tile;
  /// Lanes of a warp may still wait for the slot when the first of them comes here: nothing has brought them together
  /// since the acquire.
  bool apart = false;

  friend bool operator==(const Release&, const Release&) = default;
};
struct Sync {
  bool team = false;  // in a loop of teams: of each by itself

  friend bool operator==(const Sync&, const Sync&) = default;
};
/// Turns go round among the warpgroups of a role: the first begins, and each waits in `take` until the one before it
/// has passed its own. All take equally many.
struct Turn {
  enum class Do : std::uint8_t { take, pass };
  Do what = Do::take;

  friend bool operator==(const Turn&, const Turn&) = default;
};

/// A block arrives at an element of the counters, once; `of` blocks do. The flag is up in the one that comes last,
/// which sees what any of them has stored to the tensors of `stores` in front of its arrival; it sets the element back
/// to 0. All threads of a role come here, as to a sync.
struct Arrive {
  std::string flag;
  Expr of;
  std::string counters;
  std::vector<Expr> indices;
  std::vector<std::string> stores;

  friend bool operator==(const Arrive&, const Arrive&) = default;
};

struct Stmt {
  std::variant<For, If, Role, Let, Fill, Map, RowReduce, AllReduce, Vote, Mma, Copy, Await, Advance, Reserve, Acquire,
               Release, Sync, Turn, Arrive>
      node;

  friend bool operator==(const Stmt&, const Stmt&) = default;
};

// ---------------------------------------------------------------- kernels

/// A request to copy a tensor's tiles at a loop; consumed by stage_tiles.
struct Staging {
  std::string tensor;
  std::string at;  // a loop variable, or the innermost tile axis: the top of the kernel's body
  Space space = Space::shared;
  int ring = 1;
  int vector = 0;  // elements a load; 0: the widest that fits
  AxisNumbers align;
  Via via = Via::vector;
  bool held = false;  // read from its space once, into registers
  Location where{};   // of what says how it is copied

  friend bool operator==(const Staging&, const Staging&) = default;
};

/// A request to run the last product of a tile behind the product of the next one; consumed by overlap.
struct Overlap {
  TileName product;  // the destination of the product that runs ahead
  Fraction cover;    // of the columns of the map that the delayed product reads, before the wait for that
  Location where;

  friend bool operator==(const Overlap&, const Overlap&) = default;
};

/// One step of the grid along an axis: the variable takes 0 .. count-1, or the same downwards.
struct TileAxis {
  std::string var;
  Expr count;
  bool descending = false;

  friend bool operator==(const TileAxis&, const TileAxis&) = default;
};

/// Blocks of so many neighbouring tiles of an axis, from a multiple of that number on, which write into each other's
/// shared memory. At the end of the axis some may have no tile.
struct Cluster {
  std::string var;  // of the first tile axis
  int blocks = 2;
  Location where;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// How many tiles the producer of a persistent kernel may be ahead.
inline constexpr int kTileSlots = 2;

struct Kernel {
  std::string name;
  std::vector<TileAxis> tiles;  // fastest varying first
  /// Persistent blocks take the tiles of the axes after the first in groups, alike in size and of so many at most: all
  /// of a group at one place of the first axis, then at the next. Not given: one after the other.
  std::optional<Expr> tile_group;
  /// Tiles of which it does not hold store nothing, and are left out. Over the variables of the axes.
  std::optional<Expr> exists;
  int thread_rows = 0, thread_columns = 0;  // that compute, of each team; 0: not given (CPU)
  int teams = 1;
  int producers = 0;       // warpgroups beside them that copy
  std::string warpgroup;   // in lets the number of one that computes; empty: no let speaks of it
  bool alternate = false;  // a request to take turns at the tensor cores; consumed by take_turns
  int vector_lanes = 0;    // CPU; 0: the host's width
  /// A request to find tiles without an element by computing the conditions, and who asks; consumed by map_masks.
  std::optional<Location> mask_map;
  /// What it computes depends on inputs of conditions alone: a launch may take what an earlier one has left.
  bool maps_masks = false;
  /// Blocks take one tile after the other, as a counter deals them out, instead of one each; order_tiles leaves linear.
  std::optional<TileOrder> persistent;
  std::optional<Cluster> cluster;
  bool dependent = false;  // may start before those in front have ended; waits for them before it touches memory
  std::vector<Staging> stagings;
  std::optional<Overlap> overlap;
  /// Requests to read left operands of products from shared memory once, into registers; consumed by hold_operands.
  std::vector<TileName> holds;
  std::vector<Mem> mems;
  Block body;                      // for one output tile
  std::int64_t shared_bytes = -1;  // set by plan_memory
  std::int64_t team_bytes = 0;     // of which each team has so many, one behind the other; set by plan_memory
  int blocks = 1;                  // that a multiprocessor is to hold at once; set by plan_memory
  std::int64_t barriers = -1;      // place of the barriers of rings that roles share; set by plan_memory

  /// Those of a team that compute, and all of a block.
  int threads() const { return thread_rows * thread_columns; }
  int block_threads() const { return threads() * teams + 128 * producers; }
  int warpgroups() const { return threads() / 128; }  // that compute
  /// Numbers that say which tile is next: its places along the axes, then the lets that are dealt.
  std::size_t tile_numbers() const;
  /// Of persistent blocks with roles: whether a thread of its own deals tiles out, which those of a cluster need, and
  /// those that searches in tensors tell. Else the producer does it before it copies.
  bool deals_apart() const;
  int cluster_blocks() const { return cluster ? cluster->blocks : 1; }
  /// Tiles along an axis, or, along that of a cluster, clusters.
  Expr steps_along(const TileAxis& axis) const;
  const Mem* find(const TileName& name) const;
  Mem* find(const TileName& name);

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// An extent that each launch chooses: so many parts of a loop that `blocks` blocks of each are as many as the machine
/// holds at once, at least 1 and at most `most`.
struct ChosenParts {
  std::string extent;
  Expr blocks, most;   // over the extents that are given
  std::string kernel;  // whose blocks they are

  /// `resident`: blocks of the kernel that the machine holds at once.
  std::int64_t choose(const std::map<std::string, std::int64_t>& extents, std::int64_t resident) const;

  friend bool operator==(const ChosenParts&, const ChosenParts&) = default;
};

struct Program {
  std::string name;
  std::vector<std::string> extents;  // run-time extents, in the algorithm's order, then those chosen
  std::optional<ChosenParts> parts;
  std::map<std::string, std::int64_t> known;   // extents that are fixed at compile time (D, Dv)
  std::map<std::string, std::int64_t> bounds;  // largest run-time value that a launch may have
  std::vector<Multiple> multiples;             // what its rows rely on
  std::vector<std::string> scalars;
  std::vector<Op> approximate;  // functions of elements that an instruction of the target approximates
  std::vector<Tensor> tensors;
  std::vector<Kernel> kernels;

  const Tensor* find_tensor(const std::string& name) const;
  /// The place of a kernel in the order of launches.
  std::size_t number_of(const std::string& kernel) const;

  friend bool operator==(const Program&, const Program&) = default;
};

// ---------------------------------------------------------------- analyses (ir.cpp)

/// Names of tiles, flags, tensors, lets and tokens that a statement reads and writes, nested blocks included. A view
/// counts as its tensor.
struct Effects {
  std::vector<std::string> reads, writes;
};
Effects effects_of(const Stmt& stmt);
bool conflict(const Stmt& a, const Stmt& b);
/// Whether a branch changes nothing that its own condition reads.
bool keeps_condition(const If& branch);

/// The block of a for, an if or a role; nullptr for an instruction.
const Block* nested_block(const Stmt& stmt);
Block* nested_block(Stmt& stmt);
/// The loop of a kernel's teams; null where it has none.
const For* find_teams(const Kernel& kernel);
/// What each team does, or the block where it is not made of teams.
const Block& team_body(const Kernel& kernel);
Block& team_body(Kernel& kernel);
/// Calls f on every statement, outer before inner.
void walk(const Block& block, const std::function<void(const Stmt&)>& f);
/// Rebuilds inside out: f gets each block after the blocks nested in it.
Block transform_blocks(const Block& block, const std::function<Block(Block)>& f);
/// Replaces variables in every expression and origin of a block (loop variables, lets).
Block substitute(const Block& block, const std::map<std::string, Expr>& values);
/// Every expression of a statement itself, nested blocks not included.
std::vector<Expr> expressions_of(const Stmt& stmt);
std::size_t statement_count(const Program& program);
/// Whether a product, or any in a block, is computed by tensor cores.
bool on_tensor_cores(const Mma& mma);
bool on_tensor_cores(const Block& block);
/// Whether any product stands in a block.
bool has_products(const Block& block);
/// Whether all threads of a role meet at a statement.
bool is_meeting(const Stmt& stmt);
/// The flag that a statement raises or lowers: a vote of lanes, or an arrival of blocks; null for others.
const std::string* flag_of(const Stmt& stmt);
/// Whether warpgroups take turns in a block.
bool has_turns(const Block& block);

/// Axes of a tile, or those that a view speaks of.
std::vector<std::string> axes_of(const Kernel& kernel, const Operand& operand);
/// The axis that a product sums over, with its extent: that of an operand tile, or from a view's origin to its limit.
/// Throws InternalError where there is not exactly one such axis, or nothing says its extent.
Dim contraction_of(const Program& program, const Kernel& kernel, const Mma& mma);

/// The program as text, in the grammar above.
std::string print(const Program& program);
std::string print(const Kernel& kernel);
std::string print(const Stmt& stmt, int indent = 0);
/// The first line of a statement, as printed.
std::string head_of(const Stmt& stmt);

/// Checks the rules that the header states and verify_rules.h lists; throws InternalError naming the pass, the kernel
/// and the statement.
void verify(const Program& program, std::string_view after_pass);
/// The same for a program that was verified after the pass before, and that this one has left equal.
void verify_unchanged(const Program& program, std::string_view after_pass);

}  // namespace tile
}  // namespace astatide
