#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
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

/// What the statements of one kernel touch, each found out once. The kernel outlives it and stays as it is.
class AccessTable {
 public:
  explicit AccessTable(const Kernel& kernel);

  const Kernel& kernel() const { return kernel_; }
  /// Of an instruction, or of what a for, an if or a let evaluates itself; nested blocks not included. Flags of votes
  /// are among the names; loop variables, lets, extents and scalars are not. Statements of a ring touch nothing.
  const Accesses& of(const Stmt& stmt) const;
  /// Tiles that share bytes or registers with this one: through alias, or, once placed, through their offsets.
  const std::vector<TileName>& overlapping(const TileName& tile) const;
  /// Tiles whose slots are reserved, acquired or released.
  const std::set<TileName>& rings() const { return rings_; }
  /// Those of them that a reserve names. Into another a copy takes the next slot by itself.
  const std::set<TileName>& reserved() const { return reserved_; }
  const std::set<std::string>& flags() const { return flags_; }

 private:
  const Kernel& kernel_;
  std::set<TileName> rings_, reserved_;
  std::set<std::string> flags_;
  std::map<TileName, std::vector<TileName>> overlapping_;
  mutable std::unordered_map<const Stmt*, Accesses> known_;
};

/// What the threads of a block have touched in shared and in global memory since they last met. Two statements that
/// conflict there need a sync between them. Registers belong to one thread, and what a statement does to a tile by
/// itself is the emitter's care.
///
/// A ring is two things: the slot that is read, and the slots that are filled. Acquire turns what was written into the
/// slot to read, release turns the slot that was read into one to fill.
class ThreadConflicts {
 public:
  explicit ThreadConflicts(const AccessTable& table) : table_(&table) {}

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

  const AccessTable* table_;
  Names read_, whole_written_, part_written_;
};

}  // namespace astatide::tile
