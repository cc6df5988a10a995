#include "compiler/tile/accesses.h"

#include <algorithm>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/match.h"

namespace astatide::tile {
namespace {

class AccessCollector {
 public:
  explicit AccessCollector(const Kernel& kernel) : kernel_(kernel) {}
  Accesses out;

  void visit(const Stmt& stmt) {
    match(
        stmt.node,
        [&](const For& s) {
          read(s.begin);
          read(s.end);
        },
        [&](const If& s) { read(s.condition); }, [](const Role&) {}, [&](const Let& s) { read(s.value); },
        [&](const Fill& s) { write({s.dst}); }, [&](const Map& s) { visit(s); },
        [&](const RowReduce& s) {
          add(out.reads, part_of(s.src, s.columns));
          if (s.accumulate) add(out.reads, {s.dst});
          write({s.dst});
        },
        [&](const AllReduce& s) {
          add(out.reads, {s.tile});
          write({s.tile});
        },
        [&](const Vote& s) {
          read(s.condition);
          write({s.flag});
        },
        [&](const Mma& s) {
          read(s.lhs);
          read(s.rhs);
          if (s.accumulate) add(out.reads, {s.dst});
          write({s.dst});
        },
        [&](const Copy& s) {
          read(s.src);
          write_operand(s.dst);
        },
        [](const Await&) {}, [&](const Advance& s) { visit(s); }, [](const Reserve&) {}, [](const Acquire&) {},
        [](const Release&) {}, [](const Sync&) {});
  }

 private:
  static void add(std::vector<Access>& list, Access access) {
    const bool known = std::any_of(list.begin(), list.end(), [&](const Access& other) {
      return other.name == access.name && other.part == access.part && other.columns == access.columns;
    });
    if (!known) list.push_back(std::move(access));
  }
  void write(Access access) { add(out.writes, std::move(access)); }

  static Access part_of(const TileName& tile, const std::optional<Columns>& columns) {
    return {tile, columns ? Access::Part::columns : Access::Part::whole, columns};
  }

  bool is_flag(const std::string& name) {
    if (!flags_) {
      flags_.emplace();
      walk(kernel_.body, [&](const Stmt& stmt) {
        if (const auto* vote = std::get_if<Vote>(&stmt.node)) flags_->insert(vote->flag);
      });
    }
    return flags_->contains(name);
  }

  void read(const Expr& e, const std::vector<Coordinate>& at = {}, const Map* within = nullptr) {
    for (const std::string& name : free_variables(e)) {
      const bool bound = std::any_of(at.begin(), at.end(), [&](const Coordinate& c) { return c.axis == name; });
      if (bound) continue;
      if (const Mem* mem = kernel_.find(name)) {
        add(out.reads, within ? operand_of(*mem, *within) : Access{name});
      } else if (is_flag(name)) {
        add(out.reads, {name});
      }
    }
    for (const std::string& tensor : tensors_read(e)) add(out.reads, {tensor, Access::Part::view, {}});
  }

  /// A map of some columns reads those of the tiles that have the axis.
  Access operand_of(const Mem& mem, const Map& map) const {
    const Mem* dst = kernel_.find(map.dst);
    const bool same_axis =
        dst && !dst->dims.empty() && !mem.dims.empty() && mem.dims.back().axis == dst->dims.back().axis;
    return part_of(mem.name, same_axis ? map.columns : std::nullopt);
  }

  void read(const std::vector<Coordinate>& at) {
    for (const Coordinate& coordinate : at) {
      read(coordinate.origin);
      if (coordinate.limit) read(*coordinate.limit);
    }
  }

  void read_places(const View& view) {
    for (const Expr& index : view.indices) read(index, view.at);
    read(view.at);
  }

  void read(const View& view) {
    read_places(view);
    add(out.reads, {view.tensor, Access::Part::view, {}});
  }

  void read(const Operand& operand) {
    match(
        operand, [&](const TileName& tile) { add(out.reads, {tile}); }, [&](const View& view) { read(view); });
  }

  void read(const CopyOperand& operand) {
    match(
        operand, [&](const TileName& tile) { add(out.reads, {tile}); }, [&](const View& view) { read(view); },
        [&](const Strip& strip) {
          read(strip.at);
          add(out.reads, {strip.tile, Access::Part::strip, {}});
        });
  }

  void write_operand(const CopyOperand& operand) {
    match(
        operand, [&](const TileName& tile) { write({tile}); },
        [&](const View& view) {
          read_places(view);
          write({view.tensor, Access::Part::view, {}});
        },
        [&](const Strip& strip) {
          read(strip.at);
          write({strip.tile, Access::Part::strip, {}});
        });
  }

  void visit(const Map& s) {
    read(s.value, s.at, &s);
    for (const Expr& predicate : s.where_predicates) read(predicate, s.at, &s);
    read(s.at);
    write(part_of(s.dst, s.columns));
  }

  void visit(const Advance& s) {
    std::map<std::string, Expr> made;
    for (const Advance::Update& update : s.updates) {
      made.emplace(new_value_name(update.tile), Expr(0));
      add(out.reads, {update.tile});
      add(out.reads, {update.candidate});
      write({update.tile});
    }
    for (const Advance::Move& move : s.moving) {
      add(out.reads, {move.tile});
      read(astatide::substitute(move.by, made));
      write({move.tile});
    }
  }

  const Kernel& kernel_;
  std::optional<std::set<std::string>> flags_;
};

const TileName* ring_tile(const Stmt& stmt) {
  if (const auto* s = std::get_if<Reserve>(&stmt.node)) return &s->tile;
  if (const auto* s = std::get_if<Acquire>(&stmt.node)) return &s->tile;
  if (const auto* s = std::get_if<Release>(&stmt.node)) return &s->tile;
  return nullptr;
}

}  // namespace

Accesses accesses_of(const Kernel& kernel, const Stmt& stmt) {
  AccessCollector collector(kernel);
  collector.visit(stmt);
  return collector.out;
}

std::set<TileName> ring_tiles(const Kernel& kernel) {
  std::set<TileName> out;
  walk(kernel.body, [&](const Stmt& stmt) {
    if (const TileName* tile = ring_tile(stmt)) out.insert(*tile);
  });
  return out;
}

std::vector<TileName> overlapping_tiles(const Kernel& kernel, const TileName& tile) {
  const Mem* mem = kernel.find(tile);
  std::vector<TileName> out;
  if (!mem) return out;
  const auto root_of = [&](const Mem* at) {
    for (std::size_t step = 0; step < kernel.mems.size() && !at->alias.empty(); ++step) {
      const Mem* next = kernel.find(at->alias);
      if (!next) break;
      at = next;
    }
    return at;
  };
  for (const Mem& other : kernel.mems) {
    if (&other == mem || other.space != mem->space) continue;
    const bool placed = mem->space == Space::shared && mem->offset >= 0 && other.offset >= 0;
    const bool overlap =
        placed ? mem->offset < other.offset + other.byte_count() && other.offset < mem->offset + mem->byte_count()
               : root_of(mem) == root_of(&other);
    if (overlap) out.push_back(other.name);
  }
  return out;
}

ThreadConflicts::ThreadConflicts(const Kernel& kernel) : kernel_(&kernel) {
  for (const TileName& tile : ring_tiles(kernel))
    if (const Mem* mem = kernel.find(tile)) rings_[tile].free.assign(static_cast<std::size_t>(mem->ring), false);
}

bool ThreadConflicts::is_shared(const Access& access) const {
  const Mem* mem = kernel_->find(access.name);
  return mem ? mem->space != Space::register_file : access.part == Access::Part::view;
}

std::vector<std::string> ThreadConflicts::storage_of(const std::string& name) const {
  std::vector<std::string> out{name};
  for (TileName& other : overlapping_tiles(*kernel_, name)) out.push_back(std::move(other));
  return out;
}

std::string ThreadConflicts::conflict_before(const Stmt& stmt) const {
  if (const auto* s = std::get_if<Reserve>(&stmt.node)) {
    const Ring& ring = rings_.at(s->tile);
    return !ring.free.empty() && ring.free.front() ? "the slot of " + s->tile + " was read since the last sync" : "";
  }
  const Accesses accesses = accesses_of(*kernel_, stmt);
  for (const Access& access : accesses.reads) {
    if (!is_shared(access)) continue;
    if (const auto ring = rings_.find(access.name); ring != rings_.end()) {
      if (!ring->second.full.empty() && ring->second.full.front())
        return "the slot of " + access.name + " was written since the last sync";
      continue;
    }
    for (const std::string& name : storage_of(access.name))
      if (whole_written_.contains(name) || part_written_.contains(name))
        return name + " was written since the last sync";
  }
  for (const Access& access : accesses.writes) {
    if (!is_shared(access) || rings_.contains(access.name)) continue;
    for (const std::string& name : storage_of(access.name)) {
      if (read_.contains(name)) return name + " was read since the last sync";
      // Parts of one tile that statements after one another write are apart.
      const bool apart = name == access.name && access.part != Access::Part::whole;
      if (whole_written_.contains(name) || (!apart && part_written_.contains(name)))
        return name + " was written since the last sync";
    }
  }
  return "";
}

void ThreadConflicts::run(const Stmt& stmt) {
  if (std::holds_alternative<Sync>(stmt.node)) {
    read_.clear();
    whole_written_.clear();
    part_written_.clear();
    for (auto& [tile, ring] : rings_) {
      ring.full.assign(ring.full.size(), false);
      ring.free.assign(ring.free.size(), false);
      ring.front_read = false;
    }
    return;
  }
  if (const auto* s = std::get_if<Reserve>(&stmt.node)) {
    Ring& ring = rings_.at(s->tile);
    if (!ring.free.empty()) ring.free.pop_front();
    ring.full.push_back(false);
    return;
  }
  if (const auto* s = std::get_if<Release>(&stmt.node)) {
    Ring& ring = rings_.at(s->tile);
    if (!ring.full.empty()) ring.full.pop_front();
    ring.free.push_back(ring.front_read);
    ring.front_read = false;
    return;
  }
  const Accesses accesses = accesses_of(*kernel_, stmt);
  for (const Access& access : accesses.reads) {
    if (!is_shared(access)) continue;
    const auto ring = rings_.find(access.name);
    if (ring != rings_.end()) {
      ring->second.front_read = true;
    } else {
      read_.insert(access.name);
    }
  }
  for (const Access& access : accesses.writes) {
    if (!is_shared(access)) continue;
    if (const auto ring = rings_.find(access.name); ring != rings_.end()) {
      if (!ring->second.full.empty()) ring->second.full.back() = true;
    } else {
      (access.part == Access::Part::whole ? whole_written_ : part_written_).insert(access.name);
    }
  }
}

void ThreadConflicts::join(const ThreadConflicts& other) {
  read_.insert(other.read_.begin(), other.read_.end());
  whole_written_.insert(other.whole_written_.begin(), other.whole_written_.end());
  part_written_.insert(other.part_written_.begin(), other.part_written_.end());
  const auto either = [](std::deque<bool>& a, const std::deque<bool>& b) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) a[i] = a[i] || b[i];
  };
  for (auto& [tile, ring] : rings_) {
    const Ring& theirs = other.rings_.at(tile);
    either(ring.full, theirs.full);
    either(ring.free, theirs.free);
    ring.front_read = ring.front_read || theirs.front_read;
  }
}

bool operator==(const ThreadConflicts& a, const ThreadConflicts& b) {
  return a.read_ == b.read_ && a.whole_written_ == b.whole_written_ && a.part_written_ == b.part_written_ &&
         a.rings_ == b.rings_;
}

}  // namespace astatide::tile
