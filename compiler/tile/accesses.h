#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

// Which tiles and tensors an instruction touches, and whether its threads must meet before it may run: the verifier's
// own account, apart from that of the passes which it checks.

namespace astatide::tile {

/// One tile or tensor that an instruction reads or writes.
struct Access {
  enum class Part : std::uint8_t { whole, columns, strip, view };
  std::string name;
  Part part = Part::whole;
  std::optional<Columns> columns = {};  // of the tile's last axis
};

struct Accesses {
  std::vector<Access> reads, writes;
};

/// Of an instruction, or of what a for, an if or a let evaluates itself; nested blocks not included. Flags of votes are
/// among the names, loop variables, lets, extents and scalars are not. Statements of a ring touch nothing.
Accesses accesses_of(const Kernel& kernel, const Stmt& stmt);

/// Tiles whose slots are reserved, acquired or released.
std::set<TileName> ring_tiles(const Kernel& kernel);
/// Those of them that a reserve names. Into another a copy takes the next slot by itself.
std::set<TileName> reserved_tiles(const Kernel& kernel);

/// What the threads of a block have touched in shared and in global memory since they last met. Two statements that
/// conflict there need a sync between them. Registers belong to one thread, and what a statement does to a tile by
/// itself is the emitter's care.
///
/// A ring is two things: the slot that is read, and the slots that are filled. Acquire turns what was written into the
/// slot to read, release turns the slot that was read into one to fill.
class ThreadConflicts {
 public:
  explicit ThreadConflicts(const Kernel& kernel);

  /// Why an instruction (or a loop's bounds) may not run before a sync; empty where it may.
  std::string conflict_before(const Stmt& stmt) const;
  /// Records that it ran; a sync forgets everything.
  void run(const Stmt& stmt);
  /// What may have happened on either of two paths.
  void join(const ThreadConflicts& other);
  friend bool operator==(const ThreadConflicts& a, const ThreadConflicts& b);

 private:
  using Names = std::set<std::string>;
  /// Under what names a statement's access counts: those with the same storage, the access's own first.
  std::vector<std::string> storage_of(const Access& access, bool written) const;
  bool is_shared(const Access& access) const;

  const Kernel* kernel_;
  std::set<TileName> rings_;
  Names read_, whole_written_, part_written_;
};

/// Tiles that share bytes or registers with this one: through alias, or, once placed, through their offsets.
std::vector<TileName> overlapping_tiles(const Kernel& kernel, const TileName& tile);

}  // namespace astatide::tile
