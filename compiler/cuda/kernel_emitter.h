#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/cuda/expr_text.h"
#include "compiler/cuda/fragment.h"
#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"
#include "compiler/tile/synchronization.h"

namespace astatide::cuda {

/// Lines of source with indentation.
class SourceText {
 public:
  void line(const std::string& text);
  /// An unrolled loop `for (int VAR = 0; VAR < COUNT; ++VAR) {`; `unroll` 0: fully.
  void open_unrolled(const std::string& var, int count) { open_unrolled(var, 0, count); }
  void open_unrolled(const std::string& var, int begin, int end);
  void open(const std::string& head);  // "head {"
  void close();
  void append(const SourceText& other) { text_ += other.text_; }
  const std::string& text() const { return text_; }

  int indent = 0;

 private:
  std::string text_;
};

/// The element of a tile's row and column that a loop stands at: offsets in the tile, as texts.
struct Element {
  std::string row, column;            // offsets in the tile; column is empty for tiles of rows
  std::string held_row, held_column;  // indices into the thread's fragment
};

struct ColumnWindow;  // of emit_map.cpp

/// The name of a kernel's function in emitted source.
std::string function_name(const tile::Kernel& kernel);

/// Emits one kernel. The statements of a family each have a file of their own; all share the names, the loops over a
/// fragment's elements, and the access to an element of a tile wherever it lives.
class KernelEmitter {
 public:
  KernelEmitter(const tile::Program& program, const tile::Kernel& kernel);

  std::string emit();
  /// The device functions that the kernel calls and that depend on its tiles, by name.
  const std::map<std::string, std::string>& functions() const { return functions_; }

 private:
  // emit_kernel.cpp: signature, storage, the walk over output tiles
  std::string signature() const;
  void emit_thread(SourceText& out) const;
  void emit_thread_of_team(SourceText& out) const;
  /// How many tiles there are along an axis, as a factor or divisor.
  std::string count_text(const tile::TileAxis& axis) const;
  /// The product of these, from axis number `first` on.
  std::string counts_text(std::size_t first) const;
  /// Declares the tile axes' variables of the tile with this number.
  void emit_tile_axes(SourceText& out, const std::string& number) const;
  void emit_group(SourceText& out, const std::string& block) const;
  /// The variable of an axis, or of the cluster's place along its axis.
  const std::string& step_name(std::size_t axis) const;
  void emit_shared(SourceText& out) const;
  void emit_block_tensors(SourceText& out, const std::string& pool) const;
  void emit_registers(SourceText& out) const;
  std::string describe(const tile::Mem& mem) const;

  /// The statements for one tile.
  void emit_body();
  /// A block up to the end of its last loop, and what stands behind.
  static std::pair<tile::Block, tile::Block> parted_behind_loops(const tile::Block& block);

  // emit_statements.cpp: dispatch, control flow
  void emit_block(const tile::Block& block);
  /// Whether a statement only sets the sum of the product behind it to 0, in a branch that the product can do without.
  bool starts_sum(const tile::Block& block, std::size_t n);
  void emit_statement(const tile::Stmt& stmt);
  void emit(const tile::For& loop);
  using LoopsOfBatch = std::vector<const tile::For*>;
  /// The loops from a statement on that run alike, iterations in batches.
  static LoopsOfBatch batched_loops(const tile::Block& block, std::size_t n);
  void emit_batches(const LoopsOfBatch& loops);
  void emit_batch(const LoopsOfBatch& loops, const std::string& next, const std::string& end, int size);
  void emit(const tile::If& branch);
  void emit_branch(const std::string& head, const tile::If& branch);
  void emit(const tile::Let& let);
  void note(const tile::Let& let);  // the name is an integer from here on

  // emit_map.cpp
  void emit(const tile::Fill& fill);
  void emit(const tile::Map& map);
  /// Condition that multiply-adds compute the exponentials of an element that a thread holds, known when the loops over
  /// the elements are unrolled.
  std::string polynomial_text(const tile::Map& map, const tile::Mem& dst, const tile::ThreadGrid& grid,
                              const Element& at) const;
  ColumnWindow window_of(const tile::Map& map, const tile::Mem& dst) const;
  /// Inside the loop over a tile's rows: the first and the last visible of the columns that a thread holds, and the
  /// condition on a held column.
  std::string emit_window(const ColumnWindow& window, const tile::Mem& dst, const tile::ThreadGrid& grid,
                          const Element& row);
  void emit(const tile::Vote& vote);

  // emit_store.cpp: to global memory
  void emit_store(const tile::View& view, const tile::Mem& src);
  void emit_store_elements(const tile::View& view, const tile::Mem& src);
  /// Rows one after the other, `vector` columns a store.
  void emit_store_rows(const tile::View& view, const tile::Mem& src, std::size_t dim, int vector);
  void emit_store_quads(const tile::View& view, const tile::Mem& src, std::size_t dim);

  // emit_reduce.cpp
  void emit(const tile::RowReduce& reduce);
  void emit(const tile::AllReduce& reduce);

  // emit_copy.cpp: global memory; emit_tile_copy.cpp: tile to tile and strips
  void emit(const tile::Copy& copy);
  void emit_load_vectors(const tile::View& view, const tile::Mem& dst, int vector);
  void emit_load(const tile::View& view, const tile::Mem& dst);
  /// Where a load into registers may read, as a condition; empty: everywhere. Declares the coordinates.
  std::string limits_of_load(const tile::View& view, const tile::Mem& dst, const Element& at);
  void emit_load_quads(const tile::View& view, const tile::Mem& dst);
  void emit_move(const tile::CopyOperand& dst, const tile::CopyOperand& src);

  // emit_fma.cpp
  void emit(const tile::Mma& mma);
  void emit_fma_along_rows(const tile::Mma& mma, const std::string& accumulator, const Fragment& fragment,
                           int contracted);
  void emit_fma_across(const tile::Mma& mma, const std::string& accumulator, const Fragment& fragment, int contracted);

  // emit_mma_sync.cpp
  void emit_mma_sync(const tile::Mma& mma);
  /// dst, a left operand in registers, becomes src, in shared memory.
  void emit_ldmatrix(const tile::Mem& dst, const tile::Mem& src, const tile::SyncOps& behind);
  /// dst, 16 bits in panels, becomes src, f32 in an accumulator's registers.
  void emit_stmatrix(const tile::Mem& dst, const tile::Mem& src);
  /// Address of what a lane reads first of a left operand in shared memory, or writes first of an accumulator.
  std::string left_place(const tile::Mem& tile, const std::string& thread, const std::string& lane, bool write);
  /// dst, 16 bits in registers, becomes src, f32 in registers.
  void emit_narrow(const tile::Mem& dst, const tile::Mem& src);

  // emit_wgmma.cpp
  void emit_wgmma(const tile::Mma& mma);
  /// Keeps uses of what a product holds in registers behind the wait for it.
  void pin_product(const tile::Mma& mma);

  // emit_stage.cpp: tiles of a tensor's own type, 16 bytes at a time
  void emit_stage(const tile::View& view, const tile::Mem& dst, bool asynchronous);
  void emit_stage_rows(const tile::View& view, const tile::Mem& dst, std::size_t row_dim, std::size_t column_dim,
                       int vector, bool asynchronous);

  // emit_sync.cpp: what statements wait for, and rings
  void emit(const tile::SyncOps& ops);
  void emit(const tile::SyncOp& op, const std::string& comment = "");
  /// One instruction, whoever runs it.
  std::string instruction_text(const tile::SyncOp& op) const;
  /// The condition that a thread runs it, empty for all.
  std::string by_text(const tile::SyncOp& op) const;
  std::string slot_barrier(const std::string& ring, bool full, const std::string& slot) const;
  /// Where this side of a ring stands: its slot, or the phase of the slot's barriers.
  const std::string& slot_of(const tile::SyncOp& op) const;
  const std::string& phase_of(const tile::SyncOp& op) const;
  std::string next_slot_text(const tile::SyncOp& op) const;
  void emit(const tile::Await& await);
  void emit(const tile::Acquire& acquire);
  void emit(const tile::Arrive& arrive);
  void emit_start(SourceText& out) const;

  // emit_roles.cpp: producers and consumers
  void emit(const tile::Role& role);
  void emit(const tile::Reserve& reserve);
  /// A walk over the tiles of a persistent kernel: of the thread that deals them out, whatever else it does for one,
  /// and of those that take them.
  void emit_dealt_tiles(const tile::Block& body);
  void emit_taken_tiles(const tile::Block& body, bool one_thread);
  /// Where the producer passes on the place of the next tile along an axis.
  std::string place_of_tile(std::size_t axis) const;
  tile::Block outside_roles() const;
  bool has_roles() const { return sync_.has_roles(); }

  // emit_cluster.cpp: which tile a block of a cluster has, and how blocks tell each other
  void claim_cluster_names();
  /// The number of the first output tile of a block, or of its cluster.
  std::string first_step() const;
  /// The place along the first axis of the block of this rank.
  std::string place_in_cluster(const std::string& rank) const;
  /// Declares the first axis' variable, and for who stores whether the block's place is that of a tile.
  void emit_tile_of_place(SourceText& out, bool stores) const;
  /// Passes the places of a tile along the axes on to all blocks; `place` gives that along the first as it is or -1.
  void emit_published_places(const std::function<std::string(std::size_t axis, const std::string& of_first)>& place);
  // emit_tma.cpp: boxes of a tensor, and the slots from which they are stored
  /// Where a tile lies in its tensor, in the order of a tensor map.
  struct TmaPlace {
    std::string column, row, others;
    std::optional<tile::PackedRows> packed{};
  };
  /// Arguments of a copy that begins so many columns and rows behind the place.
  std::string tma_coordinates(const TmaPlace& place, int columns, const std::string& rows = "") const;
  TmaPlace tma_place(const tile::View& view, const tile::Mem& tile) const;
  /// Of a tile whose rows lie in pages: `line` for each panel of each box, between the tables' elements and the end of
  /// a block; `place` is that in the tile's slot.
  void emit_paged(const tile::View& view, const tile::Mem& dst, const tile::TiledView& form,
                  const std::function<std::string(const std::string& place, const std::string& coordinates)>& line);
  void emit_tma_prefetch(const tile::View& view, const tile::Mem& dst);
  void emit_tma_load(const tile::View& view, const tile::Mem& dst, bool multicast);
  void emit_tma_store(const tile::View& view, const tile::Mem& src, const tile::SyncOps& behind);
  /// Rows beyond a limit that TMA knows nothing of become 0; `behind` where there are any.
  void emit_rows_beyond(const tile::Coordinate& rows, const tile::Mem& tile, const tile::SyncOps& behind);

  // tiles.cpp: what a tile is in the emitted text
  const tile::Mem& mem(const tile::TileName& name) const;
  /// The grid that deals out the elements of a statement over these tiles: that of a register tile of two axes, if
  /// there is one.
  tile::ThreadGrid grid_for(const std::vector<const tile::Mem*>& tiles) const;
  /// Opens the loops over the held elements of a tile, or of a part of its columns; close_element() ends them. `guard`
  /// skips elements beyond the tile's extents.
  /// `in_row` emits what stands between the two loops.
  Element open_element(const tile::Mem& shape, const tile::ThreadGrid& grid, bool guard,
                       const std::optional<tile::Columns>& columns = std::nullopt,
                       const std::function<void(const Element& row)>& in_row = {});
  /// Opens the loop over the held columns, or those of a part; where threads hold different shares of the part, gives
  /// the condition that a column lies in it.
  std::string open_columns(const FragmentAxis& axis, const std::string& column,
                           const std::optional<tile::Columns>& columns);
  void close_element();
  /// A thread's place in a grid of so many columns: that of the kernel, or of what stands behind an arrival.
  bool is_own(const tile::ThreadGrid& grid) const;
  const std::string& row_in(const tile::ThreadGrid& grid);
  const std::string& column_in(const tile::ThreadGrid& grid);
  const std::pair<std::string, std::string>& place_in(const tile::ThreadGrid& grid);
  /// The lvalue of a tile's element. A tile of rows is broadcast along the columns.
  std::string access(const tile::Mem& tile, const Element& at, bool write) const;
  /// Address of the first element of a shared tile, at its current slot.
  std::string base(const tile::Mem& tile, bool write) const;
  /// Address in shared memory of an element, 32 bits.
  std::string shared_place(const tile::Mem& tile, const std::string& row, const std::string& column, bool write);
  /// Condition that an element lies inside the tile's extents, empty when always.
  std::string inside(const tile::Mem& shape, const tile::ThreadGrid& grid, const Element& at) const;

  // views.cpp: elements of global tensors
  std::string tensor_type(const std::string& tensor) const;
  std::string stride(const std::string& tensor, std::size_t dim) const;
  /// Address of an element, given the texts of its indices.
  std::string address(const std::string& tensor, const std::vector<std::string>& indices) const;
  /// The same without the part of one dimension.
  std::string address_without(std::size_t dim, const tile::View& view) const;
  /// Address of a view's element, some dimensions left out. What no loop changes is computed in front of the body: the
  /// compiler does not move a division there.
  std::string address_from_base(const tile::View& view, const std::set<std::size_t>& without = {});
  /// Declares the coordinates of `at` for an element and gives the condition that all limits hold, empty when there is
  /// none.
  std::string declare_coordinates(const std::vector<tile::Coordinate>& at, const tile::Mem& shape,
                                  const Element& element);
  std::vector<std::string> index_texts(const tile::View& view) const;
  /// The flag that the rows of a tensor may be accessed in vectors along `dim`.
  std::string vector_flag(const std::string& tensor, std::size_t dim, int vector);
  /// The dimension of a view that runs along its tile's last axis, one by one, and that no other index uses.
  std::optional<std::size_t> contiguous_dim(const tile::View& view, const std::string& axis) const;
  /// The dimension along which rows of a tile lie one by one, from wherever on.
  static std::optional<std::size_t> row_dim_one_by_one(const tile::View& view, const std::string& axis);

  /// Names of loops, lets, extents and coordinates are integers, of scalars and tiles reals, of flags booleans.
  TextScope scope(const Element* element = nullptr) const;
  std::string fresh(const std::string& name) const;
  /// A name of the emitter's own, made unique once and then kept.
  std::string claim(const std::string& name);
  const std::string& claimed(const std::string& name) const { return own_names_.at(name); }
  /// A limit that the whole tile keeps, as far as known lengths show.
  bool always_within(const tile::Coordinate& coordinate, const tile::Mem& shape) const;

  const tile::Program& program_;
  const tile::Kernel& kernel_;
  SourceText out_;
  std::set<std::string> taken_;
  std::set<std::string> integers_;  // loop variables, lets, coordinates in scope
  std::set<std::string> non_negative_;
  std::set<std::string> flags_, votes_;              // those of votes among them
  std::map<std::string, std::string> own_names_;     // emitter's names that belong to a tensor or a tile
  std::vector<int> element_depth_;                   // braces opened by open_element
  std::map<std::string, std::string> vector_flags_;  // name to condition, declared in front of the body
  std::set<std::string> staged_flags_;               // those of tensors that are staged as they are
  std::map<std::string, std::string> bases_;         // declarations to names of addresses, in front of the body, too
  std::map<std::string, std::string> functions_;
  tile::Synchronization sync_;
  std::optional<Expr> sum_starts_;  // where the next wgmma leaves out what its sum held
  /// Of one role whose warps copy or multiply with instructions of sm_80: what is the same for a block lies in uniform
  /// registers, since fragments need the others.
  std::string only_where_;  // a condition of loads beside their own
  bool keeps_uniform_ = false;
  std::map<std::string, const tile::Mma*> wgmma_of_;                 // by token
  std::string thread_, row_, column_;                                // names of thread index and its coordinates
  std::map<int, std::pair<std::string, std::string>> other_places_;  // the same, by columns of the grid
  bool bases_in_front_ = true;  // addresses that no loop changes are computed in front of the body
  std::string held_row_, held_column_;
};

}  // namespace astatide::cuda
