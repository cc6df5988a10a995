#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/tile/interpret.h"
#include "compiler/tile/ir.h"

// What the files of the interpreter share: the state that a kernel runs on, and the compilation of its statements into
// closures over that state. Names are resolved once, when a kernel is compiled.

namespace astatide::tile {

/// The nearest value of a type, as a double; integers as they are.
double round_to(ScalarType type, double value);

class Machine;
using Action = std::function<void()>;

class ElementCounter;

/// Who runs the statements of a kernel for some of its threads at a time: where those find a tile, which elements of a
/// statement are theirs, and who hears of each access. Without one a statement runs for all threads at once.
class Share {
 public:
  virtual ~Share() = default;
  /// How many times the storage holds a tile: slots, for each block or thread that has its own.
  virtual std::size_t copies(const Mem& mem) const = 0;
  /// Which of them a statement reads or writes.
  virtual std::size_t copy_of(std::size_t tile, bool write) const = 0;
  /// Of the tile that a statement goes through.
  virtual bool holds(const ElementCounter& element) const = 0;
  virtual bool holds_row(int row) const = 0;
  virtual void on_read(std::size_t tile, std::size_t position) = 0;
  virtual void on_write(std::size_t tile, std::size_t position) = 0;
  virtual void on_load(std::size_t tensor, std::size_t position) = 0;
  virtual void on_store(std::size_t tensor, std::size_t position) = 0;
  /// Whether a store to global memory happens at all.
  virtual bool stores() const = 0;
};

/// A tile's storage: all slots of its ring, with a flag for every element that holds a value.
struct TileState {
  const Mem* mem = nullptr;
  std::size_t size = 0;  // elements of one slot
  std::vector<double> values;
  std::vector<char> written;

  // Position in the ring, for tiles that reserve, acquire or release name.
  bool explicit_ring = false;
  bool reserves = false;                                  // else each write takes the next slot
  std::int64_t reserved = 0, acquired = 0, released = 0;  // slots so far

  /// Tiles that share storage with this one. Where both have one shape and start together, element by element.
  struct Overlap {
    std::size_t tile;
    bool element_by_element;
  };
  std::vector<Overlap> overlaps;
};

struct TensorState {
  const Tensor* tensor = nullptr;
  DoubleTensor* data = nullptr;
  std::vector<std::int64_t> strides;
};

/// The element at which an expression is evaluated.
struct ElementPlace {
  const double* coordinates = nullptr;
  const std::size_t* offsets = nullptr;  // of each operand tile, its slot included
  bool beyond = false;                   // past a limit: reads give 0
};

/// What a statement is about to write: everything is read before anything is written.
struct Pending {
  std::vector<std::size_t> positions;
  std::vector<double> values;

  void clear() {
    positions.clear();
    values.clear();
  }
  void add(std::size_t position, double value) {
    positions.push_back(position);
    values.push_back(value);
  }
};

/// An expression with all names resolved, in postfix order.
class Tape {
 public:
  double run(const Machine& machine, const ElementPlace& place = {}) const;
  bool uses_elements() const { return uses_elements_; }
  /// The coordinate that the expression is, or -1.
  int sole_coordinate() const { return sole_coordinate_; }

 private:
  friend class TapeCompiler;
  enum class Kind : std::uint8_t {
    constant,
    slot,
    coordinate,
    tile,
    unary,
    binary,
    read,
    search,
    jump,
    jump_if_zero,
    jump_unless_zero
  };
  struct Step {
    Kind kind;
    Op op = Op::add;
    std::uint32_t index = 0;  // slot, coordinate, operand, tensor, or the step to jump to
    std::uint32_t count = 0;  // indices of a read or a search; for a tile the tile itself
    double value = 0;
  };
  static double read_tensor(const Machine& machine, const Step& step, const double* indices);

  std::vector<Step> steps_;
  std::size_t depth_ = 0;
  bool uses_elements_ = false;
  int sole_coordinate_ = -1;
};

/// Compiles the expressions of one statement, which share their operand tiles and coordinates.
class TapeCompiler {
 public:
  explicit TapeCompiler(const Machine& machine, std::vector<Coordinate> at = {})
      : machine_(machine), at_(std::move(at)) {}
  Tape compile(const Expr& e);
  /// Tiles that the expressions read, in the order of ElementPlace::offsets.
  const std::vector<std::size_t>& operands() const { return operands_; }
  /// Another tile under a name, for the new values of an advance.
  void rename(const std::string& name, std::size_t tile) { renamed_[name] = tile; }

 private:
  void emit(Tape& tape, const Expr& e, std::size_t depth);
  void emit_call(Tape& tape, const Call& c, std::size_t depth);
  void emit_variable(Tape& tape, const std::string& name);

  const Machine& machine_;
  std::vector<Coordinate> at_;
  std::vector<std::size_t> operands_;
  std::map<std::string, std::size_t> renamed_;
};

/// Runs one kernel: compiles it when made, then runs the body once for each output tile.
class Machine {
 public:
  Machine(const Program& program, const Kernel& kernel, const std::map<std::string, std::int64_t>& extents,
          const std::map<std::string, double>& scalars, std::map<std::string, DoubleTensor>& tensors,
          const InterpretOptions& options, Share* share = nullptr);
  /// The whole kernel, tile after tile.
  void run();
  /// Whether the tile at the variables of the axes is one that the kernel computes.
  bool tile_exists() const { return !exists_ || exists_->run(*this) != 0; }
  /// One statement with no block in it, for the threads of the share.
  Action instruction(const Stmt& stmt);

  [[noreturn]] void fail(const std::string& message) const;

  // Names.
  const std::size_t* find_tile(const std::string& name) const;
  std::size_t tile_of(const std::string& name) const;
  const std::size_t* find_slot(const std::string& name) const;
  std::size_t tensor_of(const std::string& name) const;

  // State.
  double slot(std::size_t index) const { return slots_[index]; }
  void set_slot(std::size_t index, double value) { slots_[index] = value; }
  const std::string& slot_name(std::size_t index) const { return slot_names_[index]; }
  const TileState& tile(std::size_t index) const { return tiles_[index]; }
  const TensorState& tensor(std::size_t index) const { return tensors_[index]; }
  std::size_t tile_count() const { return tiles_.size(); }
  /// Values of all names that are no tiles; a share has a set for each of its threads.
  std::vector<double>& variables() { return slots_; }
  Share* share() const { return share_; }
  bool holds(const ElementCounter& element) const { return !share_ || share_->holds(element); }
  std::int64_t integer(const Tape& tape) const;
  /// Position in the tile's storage of the slot that a reader sees, or that a writer fills.
  std::size_t read_base(std::size_t tile) const;
  std::size_t write_base(std::size_t tile);
  std::vector<std::size_t> read_bases(const std::vector<std::size_t>& tiles) const;
  double read_element(std::size_t tile, std::size_t position) const {
    if (share_)
      share_->on_read(tile, position);
    else if (!tiles_[tile].written[position])
      unwritten(tile);
    return tiles_[tile].values[position];
  }
  /// Writes all at once, after everything has been read; what shares the storage loses its value.
  void commit(std::size_t tile, const Pending& pending);
  double rounded(ScalarType type, double value) const;
  std::size_t add_hidden_tile(const Mem& mem);

 private:
  Action compile(const Stmt& stmt);
  std::vector<Action> compile(const Block& block);
  // interpret_elements.cpp
  Action compile_map(const Map& s);
  Action compile_row_reduce(const RowReduce& s);
  Action compile_vote(const Vote& s);
  Action compile_advance(const Advance& s);
  // interpret_copy.cpp
  Action compile_mma(const Mma& s);
  Action compile_copy(const Copy& s);
  Action compile_arrive(const Arrive& s);

  Action compile_acquire(const Acquire& s);
  Action compile_for(const For& s);
  Action compile_if(const If& s);
  Action compile_ring(const TileName& name, int kind);
  void add_slot(const std::string& name, double value);
  void add_overlaps();
  void reserve(std::size_t tile);
  void start_tile();
  void finish_tile() const;
  [[noreturn]] void unwritten(std::size_t tile) const;

  const Program& program_;
  const Kernel& kernel_;
  const InterpretOptions& options_;
  Share* share_;
  std::vector<TileState> tiles_;
  std::map<std::string, std::size_t> tile_index_;
  std::deque<Mem> hidden_;  // declarations of tiles that the interpreter made
  std::vector<TensorState> tensors_;
  std::map<std::string, std::size_t> tensor_index_;
  std::vector<double> slots_;  // NaN: not set
  std::vector<std::string> slot_names_;
  std::map<std::string, std::size_t> slot_index_;
  std::optional<Tape> exists_;
  std::vector<Action> body_;
  const Stmt* current_ = nullptr;
};

/// Runs the kernels of a program one after the other, each by `run`, over tensors made for the arguments. Returns the
/// outputs.
using KernelRunner = std::function<void(const Kernel& kernel, const std::map<std::string, std::int64_t>& extents,
                                        std::map<std::string, DoubleTensor>& tensors)>;
std::map<std::string, DoubleTensor> run_kernels(const Program& program, const std::map<std::string, double>& scalars,
                                                const Arguments& arguments, const InterpretOptions& options,
                                                const KernelRunner& run);

/// For each of `dims`, the stride of that axis in a tile; 0 where the tile has no such axis.
std::vector<std::size_t> strides_along(const std::vector<Dim>& dims, const std::vector<Dim>& tile_dims);

/// Counts through all elements of `dims`, the last axis fastest.
class ElementCounter {
 public:
  explicit ElementCounter(const std::vector<Dim>& dims, const std::optional<Columns>& columns = {});
  bool done() const { return done_; }
  void next();
  /// Position along an axis.
  int operator[](std::size_t axis) const { return at_[axis]; }
  std::size_t offset(const std::vector<std::size_t>& strides) const {
    std::size_t out = 0;
    for (std::size_t i = 0; i < axes_; ++i) out += static_cast<std::size_t>(at_[i]) * strides[i];
    return out;
  }

 private:
  static constexpr std::size_t kMaxAxes = 4;
  using Positions = std::array<int, kMaxAxes>;

  std::size_t axes_;
  Positions begin_{}, end_{}, at_{};
  bool done_ = false;
};

/// Coordinates of a statement, compiled: where each starts and ends, and the axis of a tile that each runs along.
class CoordinateRange {
 public:
  CoordinateRange(const Machine& machine, const std::vector<Coordinate>& at, const std::vector<Dim>& dims);
  /// Evaluates origins and limits, once each time that the statement runs.
  void start(const Machine& machine);
  /// Moves to an element of `dims`; false where a coordinate is beyond its limit.
  bool place(const ElementCounter& element);
  const std::vector<double>& values() const { return values_; }

 private:
  struct Entry {
    Tape origin;
    std::optional<Tape> limit;
    int axis;  // in dims; -1: none, the coordinate is its origin
    double first = 0, past = 0;
  };
  std::vector<Entry> entries_;
  std::vector<double> values_;
};

}  // namespace astatide::tile
