#pragma once

#include <variant>

#include "compiler/support/visibility.h"

// How a tile lies in shared memory, and how it is dealt out to the registers of threads.

namespace ASTATIDE_PUBLIC astatide {
namespace tile {

/// Row-major in memory, the last axis contiguous; `pitch` elements from row to row (0: dense).
struct Rows {
  int pitch = 0;
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// Panels of 128 bytes of columns, all rows of one before the next. Inside a panel's row a chunk of 16 bytes lies at
/// its number xor the row's, modulo 8, so that a column of chunks of 8 rows lies in all banks: what TMA writes and
/// wgmma reads as the 128-byte swizzle (PTX ISA, shared memory matrix layout).
struct Panels {
  friend bool operator==(const Panels&, const Panels&) = default;
};

/// A fragment in registers of rows x columns threads, dealt out in vectors: thread (y, x) holds the elements (r, c)
/// with (r / row_vector) % rows == y and (c / column_vector) % columns == x. Which thread holds what is data; see
/// cuda/fragment.h. With a row_unit above 1 the rows are dealt out in units of so many: thread y holds row y % row_unit
/// of the units that y / row_unit holds. The accumulators of tensor cores (mma.m16n8k16, wgmma.m64nNk16) are units of 8
/// rows in vectors of 2, over 4 columns of threads in vectors of 2.
struct ThreadGrid {
  int rows = 1, columns = 1;
  int row_vector = 1, column_vector = 1;
  int row_unit = 1;
  friend bool operator==(const ThreadGrid&, const ThreadGrid&) = default;
};

/// One number for each row of a fragment, held by every thread that holds an element of that row.
struct RowsOf {
  ThreadGrid grid;
  friend bool operator==(const RowsOf&, const RowsOf&) = default;
};

using Layout = std::variant<std::monostate, Rows, Panels, ThreadGrid, RowsOf>;  // monostate: not chosen yet

}  // namespace tile
}  // namespace astatide
