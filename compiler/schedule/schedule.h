#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/schedule/target.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/scalar_type.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// Where a tile or a tensor lives.
enum class Space : std::uint8_t { global, shared, register_file };
std::string_view name_of(Space space);

/// The instructions that compute a product of tiles: multiply-adds, or those of tensor cores.
enum class Family : std::uint8_t { unset, fma, mma_sync, wgmma };
std::string_view name_of(Family family);

/// How a tile gets from global to shared memory, or from registers to global memory: by the threads that hold it, or
/// asynchronously.
enum class CopyPath : std::uint8_t { vector, cp_async, tma };
std::string_view name_of(CopyPath path);

/// The order in which blocks that stay take output tiles: that of the grid, or those of the longest loops first.
enum class TileOrder : std::uint8_t { linear, longest_first };
std::string_view name_of(TileOrder order);

/// Who merges the states of parts: a kernel of its own, or of the blocks that make them the last one to end.
enum class MergeBy : std::uint8_t { kernel, last_block };
std::string_view name_of(MergeBy by);

/// Loops are named after the axis: "i" is the axis itself (an untiled axis, or one grid step each), "i.o" the loop over
/// its tiles, "i.s" the loop over its parts.
using LoopName = std::string;

using AxisNumbers = std::vector<std::pair<std::string, std::int64_t>>;  // {i: 64, j: 64}, in the order written

/// A part of a whole, 1/2, as written.
struct Fraction {
  std::int64_t part = 0, whole = 1;
  friend bool operator==(const Fraction&, const Fraction&) = default;
};
std::string to_string(const Fraction& fraction);

/// A reduced axis in parts, which a loop runs over, as written: {j: [j.s, 16]}, so many; {j: [j.s, {split_size:
/// 1024}]}, so many elements each; {j: [j.s, auto]}, as many as a launch finds to fill the machine. With two more
/// entries, {j: [j.s, auto, j.w, 8]}, the tiles of a block's part are dealt in turn to so many teams of its threads.
struct AxisParts {
  std::string axis;
  LoopName loop;
  std::int64_t parts = 0;  // 0: as many as follow
  std::int64_t size = 0;   // 0: as it follows
  LoopName team_loop{};    // empty: all threads of a block work on its part together
  std::int64_t teams = 1;
  bool is_automatic() const { return parts == 0 && size == 0; }
  friend bool operator==(const AxisParts&, const AxisParts&) = default;
};

/// {r: [g, i]}: an axis and those that it is made of, or becomes, in the order written.
using AxisLists = std::vector<std::pair<std::string, std::vector<std::string>>>;

using DirectiveValue = std::variant<bool, std::int64_t, std::string, std::vector<std::string>,
                                    std::vector<std::int64_t>, AxisNumbers, Fraction, AxisParts, AxisLists>;

enum class DirectiveKind : std::uint8_t {
  split,          // of a root definition: an axis of the rows in two, {axis: [outer, inner]}
  fuse,           // of a root definition: axes of the rows in one, {fused: [fastest, ..]}
  tile,           // of a root definition: {axis: size}; axes not named are whole
  reorder,        // of a root definition: its loops, outermost first
  descending,     // of a root definition: loops that run from the last tile to the first
  rfactor,        // of a root definition: the reduced axis in parts, each reduced by blocks of its own
  merge,          // beside rfactor: who merges the states of the parts
  gpu_blocks,     // of a root definition: loops spread over the blocks of the grid, fastest first
  cluster,        // of a root definition: neighbouring blocks that share what they copy
  parallel,       // the same for the CPU: loops spread over cores
  threads,        // of a root definition: [rows, columns] of the threads of a block, or of each of its teams
  compute_at,     // of a definition: the loop of its consumer at which its tile is computed
  compute_root,   // of a definition: a kernel of its own, the whole in global memory
  store_in,       // of a definition or a staged input: shared or register (global with compute_root), or both
  stage_at,       // of an input: the loop at which its tile is copied
  ring_buffer,    // of a staged input: number of slots
  copy,           // of a staged input or an output: how its tile is copied
  mma,            // of a definition that holds a product: the instructions that compute the products of its kernel
  tf32,           // beside mma: tensor cores take f32, rounded to tf32
  vectorize,      // of a staged input: elements a load; of a root definition on the CPU: lanes
  unroll,         // of a definition: {axis: factor}
  align_storage,  // of a definition or staged input in shared memory: {axis: multiple}, pads the extent of the axis in
                  // storage
  persistent,     // of a root definition: blocks stay and take one tile after the other
  mask_map,       // of a root definition: its conditions are computed once to find tiles without an element
  overlap,        // of a definition that holds a product: the next tile's product runs behind this tile's last one
  exp2,           // of a definition that holds exponentials: the part that multiply-adds compute
};

struct Directive {
  DirectiveKind kind;
  DirectiveValue value;
  Location where;
};

/// The directives of one name: a definition or an input of the algorithm. Typed accessors give what is written, or the
/// default.
struct Placement {
  std::string name;
  std::vector<Directive> directives;
  Location where;

  const Directive* find(DirectiveKind kind) const;
  AxisLists split() const;
  AxisLists fuse() const;
  std::optional<std::int64_t> tile_of(const std::string& axis) const;
  AxisNumbers tile() const;
  /// As written, or the loops of blocks(), slowest first, then the other tiled loops in the order of tile().
  std::vector<LoopName> reorder() const;
  std::vector<LoopName> descending() const;
  std::optional<AxisParts> rfactor() const;
  /// Teams of threads of a block, each with a part of the reduced axis.
  int teams() const;      // default 1
  MergeBy merge() const;  // default kernel
  /// gpu_blocks or parallel, whichever is written.
  std::vector<LoopName> blocks() const;
  int cluster() const;  // default 1
  std::optional<std::pair<int, int>> threads() const;
  std::optional<TileOrder> persistent() const;
  std::optional<LoopName> compute_at() const;
  bool compute_root() const;
  /// Of a list the first place.
  std::optional<Space> store_in() const;
  /// store_in: [shared, register]: read once from shared memory, and then held in registers.
  bool held_in_registers() const;
  std::optional<LoopName> stage_at() const;
  int ring_buffer() const;  // default 1
  CopyPath copy() const;    // default vector
  Family mma() const;       // default unset
  bool tf32() const;
  std::optional<int> vectorize() const;
  std::optional<int> unroll_of(const std::string& axis) const;
  std::optional<int> align_storage_of(const std::string& axis) const;
  /// The part of the weights' columns that stands before the wait for the delayed product.
  std::optional<Fraction> overlap() const;
  /// The part of the exponentials that a polynomial computes.
  std::optional<Fraction> exp2() const;
};

enum class RewriteMode : std::uint8_t { none, online };

/// When the references of the streaming form move. plain: with every tile. lazy: when they fall behind by more than
/// 2^grow. optimistic: tiles that no predicate cuts are first computed without looking for new references, and again
/// where their sums pass 2^over.
enum class RescaleMode : std::uint8_t { plain, lazy, optimistic };
std::string_view name_of(RescaleMode mode);

struct Rescale {
  RescaleMode mode = RescaleMode::plain;
  std::optional<int> grow, over;  // log2; left out: by the type that weights are rounded to

  friend bool operator==(const Rescale&, const Rescale&) = default;
};

/// The lengths of an axis from `least` to `most`, both included.
struct LengthRange {
  static constexpr std::int64_t kUnlimited = INT64_MAX;
  std::string axis;
  std::int64_t least = 0, most = kUnlimited;
  friend bool operator==(const LengthRange&, const LengthRange&) = default;
};

/// What a schedule is meant for: of those that serve a request, dispatch picks the one of the lowest rank.
struct Serves {
  std::vector<ScalarType> dtypes;    // f32, f16, bf16; empty: each
  std::vector<LengthRange> lengths;  // of other axes: any
  int rank = 0;
  friend bool operator==(const Serves&, const Serves&) = default;
};

/// How to compute. The same value comes from YAML (parse_schedule) and from the C++ API (ScheduleBuilder).
struct Schedule {
  std::string name;  // file name without folder and extension, or as given to the builder; not part of equality
  std::string target = "sm_80";
  RewriteMode rewrite = RewriteMode::online;
  Rescale rescale;  // of RewriteMode::online
  /// Largest run-time value of an extent, {Sk: 1024}: launches beyond it are refused.
  std::vector<std::pair<std::string, std::int64_t>> bound;
  /// Extents that are compiled in, beside those of axes that tiles cover whole: launches with another value are
  /// refused.
  std::vector<std::string> known;
  /// For dispatch alone; nothing is compiled from it. Without it dispatch does not look at the schedule.
  std::optional<Serves> serves;
  /// A demand: a row's bits depend on its own elements alone, not on how many other rows a launch has or where it runs.
  bool deterministic = false;
  /// Functions may be computed by instructions of the target that approximate them (approximations.h).
  bool fast_math = false;
  /// Kernels may start before those in front of them have ended, and wait before they touch memory.
  bool dependent_launch = false;
  /// {producer: 1, consumer: 2}: a warpgroup that copies, and those that compute. Empty: all threads do both.
  AxisNumbers warps;
  /// Of warps: consumers take turns at the tensor cores.
  bool alternate = false;
  std::vector<Placement> placements;       // in the order written
  std::map<std::string, Location> places;  // of top-level keys
  Location where;

  const Placement* find(const std::string& name) const;
  std::optional<std::int64_t> bound_of(const std::string& extent) const;
  /// Warpgroups of a role; 0 where the schedule names no roles.
  int warpgroups_of(const std::string& role) const;
  /// Threads that compute a root definition, as rows and columns: those that it names, or the consumers' warps.
  std::optional<std::pair<int, int>> threads_of(const Placement& placement) const;
};

/// Equal up to places and name.
bool equal(const Schedule& a, const Schedule& b);

/// The schedule without what it says of names that the algorithm has not.
Schedule without_foreign_names(Schedule schedule, const Algorithm& algorithm);

/// Reads a schedule from YAML text; `file` is used in messages. Knows nothing of the algorithm. Throws UserError with
/// all problems.
Schedule parse_schedule(const std::string& text, const std::string& file);
/// YAML that parses to an equal schedule.
std::string print_schedule(const Schedule& schedule);
/// What a schedule says, one by one and as YAML: {"O", "tile", "{i: 64, j: 64}"}; no owner: of the top level.
struct PrintedDirective {
  std::string owner, key, value;
};
std::vector<PrintedDirective> print_directives(const Schedule& schedule);
/// The C++ text that builds an equal schedule.
std::string print_schedule_as_cpp(const Schedule& schedule);

/// Refuses a schedule that is illegal for this algorithm on this target: unknown names and axes, placements inside
/// loops that their consumers don't have (with the legal ones), sizes that hardware can't do, directives that would
/// have no effect. `sizes` holds the extents known at compile time (those of axes that no loop tiles, and any others).
/// `input_type` is the type of inputs that name none; without it the limits that depend on it are checked for the
/// narrowest. Throws UserError with all problems.
void check_legal(const Schedule& schedule, const Algorithm& algorithm, const Target& target,
                 const std::map<std::string, std::int64_t>& sizes, std::optional<ScalarType> input_type = std::nullopt);

class PlacementBuilder {
 public:
  explicit PlacementBuilder(std::string name) { placement_.name = std::move(name); }
  PlacementBuilder& split(AxisLists axes);
  PlacementBuilder& fuse(AxisLists axes);
  PlacementBuilder& tile(AxisNumbers sizes);
  PlacementBuilder& reorder(std::vector<LoopName> loops);
  PlacementBuilder& descending(std::vector<LoopName> loops);
  PlacementBuilder& rfactor(std::string axis, LoopName loop, std::int64_t parts);
  PlacementBuilder& rfactor(AxisParts parts);
  PlacementBuilder& merge(MergeBy by);
  PlacementBuilder& gpu_blocks(std::vector<LoopName> loops);
  PlacementBuilder& cluster(int blocks);
  PlacementBuilder& parallel(std::vector<LoopName> loops);
  PlacementBuilder& threads(int rows, int columns);
  PlacementBuilder& persistent(TileOrder order);
  PlacementBuilder& mask_map();
  PlacementBuilder& compute_at(LoopName loop);
  PlacementBuilder& compute_root();
  PlacementBuilder& store_in(Space space);
  PlacementBuilder& store_in(const std::vector<Space>& spaces);
  PlacementBuilder& stage_at(LoopName loop);
  PlacementBuilder& ring_buffer(int slots);
  PlacementBuilder& copy(CopyPath path);
  PlacementBuilder& mma(Family family);
  PlacementBuilder& tf32();
  PlacementBuilder& vectorize(int elements);
  PlacementBuilder& unroll(AxisNumbers factors);
  PlacementBuilder& align_storage(AxisNumbers multiples);
  PlacementBuilder& overlap(int cover_part, int cover_whole);
  PlacementBuilder& exp2(int polynomial_part, int polynomial_whole);
  const Placement& placement() const { return placement_; }

 private:
  PlacementBuilder& set(DirectiveKind kind, DirectiveValue value);
  Placement placement_;
};

/// Schedule s = ScheduleBuilder("sm_80").rewrite(RewriteMode::online)
///                  .place(PlacementBuilder("O").tile({{"i", 64}, {"j", 64}}).gpu_blocks({"i.o", "h", "b"}).threads(16,
///                  16)) .place(PlacementBuilder("K").stage_at("j.o").store_in(Space::shared)).build();
class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(std::string target) { schedule_.target = std::move(target); }
  ScheduleBuilder& name(std::string name);
  ScheduleBuilder& rewrite(RewriteMode mode);
  ScheduleBuilder& rescale(RescaleMode mode, std::optional<int> grow = std::nullopt,
                           std::optional<int> over = std::nullopt);
  ScheduleBuilder& bound(const std::string& extent, std::int64_t value);
  ScheduleBuilder& known(std::vector<std::string> extents);
  ScheduleBuilder& serves(Serves what);
  ScheduleBuilder& deterministic();
  ScheduleBuilder& fast_math();
  ScheduleBuilder& dependent_launch();
  ScheduleBuilder& warps(int producer, int consumer, bool alternate = false);
  ScheduleBuilder& place(const PlacementBuilder& placement);
  Schedule build() const { return schedule_; }

 private:
  Schedule schedule_;
};

}  // namespace astatide
