#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/algorithm/expr.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/scalar_type.h"
#include "compiler/support/visibility.h"
#include "compiler/tile/layout.h"

// What statements of a tile program read and write; ir.h has the grammar.

namespace ASTATIDE_PUBLIC astatide {
namespace tile {

using TileName = std::string;

// ---------------------------------------------------------------- storage

struct Dim {
  std::string axis;
  int extent = 0;  // of one tile

  friend bool operator==(const Dim&, const Dim&) = default;
};

/// A tile in shared memory or in registers.
struct Mem {
  TileName name;
  ScalarType type = ScalarType::f32;
  std::vector<Dim> dims;
  Space space = Space::register_file;
  int ring = 1;
  Layout layout;
  /// Each lane holds a share; set between row_reduce and all_reduce.
  std::optional<Reduction> partial;
  /// Shares the storage of this tile, whose value is dead by then; set by plan_memory.
  TileName alias;
  /// Multiples that a schedule asks for (align_storage), by axis.
  AxisNumbers align;
  /// Byte offset in shared memory, -1 until plan_memory.
  std::int64_t offset = -1;

  int extent_of(const std::string& axis) const;  // 1 where the tile has no such axis
  bool has_axis(const std::string& axis) const;
  std::int64_t element_count() const;
  /// Of the storage: all slots of the ring, rows as long as the pitch.
  std::int64_t byte_count() const;

  friend bool operator==(const Mem&, const Mem&) = default;
};
/// Columns of a tile in panels, those of its last panel that it does not use included.
int panel_columns(const Mem& mem);

struct Tensor {
  /// Counters are integers that are 0 when a kernel starts, and when it has ended; only arrivals touch them. What is of
  /// a block lies in its shared memory, its first dimension counts teams, and its others are numbers.
  enum class Role : std::uint8_t { input, output, scratch, counters, block };
  std::string name;
  ScalarType type = ScalarType::f32;
  std::vector<Expr> dims;  // over extents, outermost first
  Role role = Role::input;
  bool monotone = false;     // along the last dimension no element is less than the one before it
  bool updated = false;      // an input that kernels store into, all of them before the first that reads it
  std::int64_t offset = -1;  // of a block, in bytes: in the memory of each team; set by plan_memory

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// ---------------------------------------------------------------- operands

/// The global coordinates that a tile axis runs over: origin, origin + 1, ... Elements at or beyond `limit` are absent.
struct Coordinate {
  std::string axis;
  Expr origin;
  std::optional<Expr> limit;

  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};

/// A tile of a tensor in global memory: element (axis coordinates) of the tile is tensor[indices], indices being
/// expressions over the coordinates, loop variables, lets and extents. As a source an element beyond a limit is
/// `absent`; as a destination it is not stored.
struct View {
  std::string tensor;
  std::vector<Expr> indices;
  std::vector<Coordinate> at;
  double absent = 0;

  friend bool operator==(const View&, const View&) = default;
};

using Operand = std::variant<TileName, View>;

/// The slice of a tile in shared memory that an i.o-wide strip holds for one j tile: TILE[axis = origin ..].
/// Strips are tiles with one axis as long as a `bound`; a copy between a tile and a strip names the origin in it.
struct Strip {
  TileName tile;
  std::vector<Coordinate> at;
  double absent = 0;

  friend bool operator==(const Strip&, const Strip&) = default;
};

using CopyOperand = std::variant<TileName, View, Strip>;

using astatide::Family;
enum class Via : std::uint8_t { unset, vector, cp_async, tma, ldmatrix, load, store };
using astatide::name_of;
std::string_view name_of(Via via);

/// Columns a..b of a tile's last axis, where a statement works on a part.
struct Columns {
  int begin = 0, end = 0;
  friend bool operator==(const Columns&, const Columns&) = default;
};

}  // namespace tile
}  // namespace astatide
