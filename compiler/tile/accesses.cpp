#include "compiler/tile/accesses.h"

#include <algorithm>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/match.h"

namespace astatide::tile {
namespace {

class AccessCollector {
 public:
  explicit AccessCollector(const AccessTable& table) : kernel_(table.kernel()), flags_(table.flags()) {}
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
        [](const Await&) {}, [&](const Advance& s) { visit(s); }, [](const Reserve&) {},
        [&](const Acquire& s) { read(s.at); }, [](const Release&) {}, [](const Sync&) {}, [](const Turn&) {},
        // What it does to memory orders blocks; among the threads of one it is a sync.
        [&](const Arrive& s) {
          read(s.of);
          for (const Expr& index : s.indices) read(index);
          write({s.flag});
        });
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

  void read(const Expr& e, const std::vector<Coordinate>& at = {}, const Map* within = nullptr) {
    for (const std::string& name : free_variables(e)) {
      const bool bound = std::any_of(at.begin(), at.end(), [&](const Coordinate& c) { return c.axis == name; });
      if (bound) continue;
      if (const Mem* mem = kernel_.find(name)) {
        add(out.reads, within ? operand_of(*mem, *within) : Access{name});
      } else if (flags_.contains(name)) {
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
  const std::set<std::string>& flags_;
};

/// The tile that holds the storage which a chain of aliases leads to.
const Mem* storage_root(const Kernel& kernel, const Mem* mem) {
  for (std::size_t step = 0; step < kernel.mems.size() && !mem->alias.empty(); ++step) {
    const Mem* next = kernel.find(mem->alias);
    if (!next) break;
    mem = next;
  }
  return mem;
}

bool overlap(const Kernel& kernel, const Mem& a, const Mem& b) {
  if (a.space != b.space) return false;
  if (a.space == Space::shared && a.offset >= 0 && b.offset >= 0)
    return a.offset < b.offset + b.byte_count() && b.offset < a.offset + a.byte_count();
  return storage_root(kernel, &a) == storage_root(kernel, &b);
}

}  // namespace

AccessTable::AccessTable(const Kernel& kernel) : kernel_(kernel) {
  walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* s = std::get_if<Reserve>(&stmt.node)) {
      rings_.insert(s->tile);
      reserved_.insert(s->tile);
    }
    if (const auto* s = std::get_if<Acquire>(&stmt.node)) rings_.insert(s->tile);
    if (const auto* s = std::get_if<Release>(&stmt.node)) rings_.insert(s->tile);
    if (const std::string* flag = flag_of(stmt)) flags_.insert(*flag);
  });
  for (const Mem& mem : kernel.mems) {
    std::vector<TileName>& others = overlapping_[mem.name];
    for (const Mem& other : kernel.mems)
      if (&other != &mem && overlap(kernel, mem, other)) others.push_back(other.name);
  }
}

const Accesses& AccessTable::of(const Stmt& stmt) const {
  const auto found = known_.find(&stmt);
  if (found != known_.end()) return found->second;
  AccessCollector collector(*this);
  collector.visit(stmt);
  return known_.emplace(&stmt, std::move(collector.out)).first->second;
}

const std::vector<TileName>& AccessTable::overlapping(const TileName& tile) const {
  static const std::vector<TileName> kNone;
  const auto found = overlapping_.find(tile);
  return found == overlapping_.end() ? kNone : found->second;
}

namespace {

std::string filled(const TileName& ring) { return ring + " (slots to fill)"; }

void move_name(std::set<std::string>& names, const std::string& from, const std::string& to) {
  if (names.erase(from) > 0) names.insert(to);
}

}  // namespace

bool ThreadConflicts::is_shared(const Access& access) const {
  const Mem* mem = table_->kernel().find(access.name);
  return mem ? mem->space != Space::register_file : access.part == Access::Part::view;
}

std::vector<std::string> ThreadConflicts::storage_of(const Access& access, bool written) const {
  std::vector<std::string> out{written && table_->rings().contains(access.name) ? filled(access.name) : access.name};
  for (const TileName& other : table_->overlapping(access.name)) {
    out.push_back(other);
    if (table_->rings().contains(other)) out.push_back(filled(other));
  }
  return out;
}

std::string ThreadConflicts::conflict_before(const Stmt& stmt) const {
  const Accesses& accesses = table_->of(stmt);
  for (const Access& access : accesses.reads) {
    if (!is_shared(access)) continue;
    for (const std::string& name : storage_of(access, false))
      if (whole_written_.contains(name) || part_written_.contains(name))
        return name + " was written since the last sync";
  }
  for (const Access& access : accesses.writes) {
    if (!is_shared(access)) continue;
    const std::vector<std::string> names = storage_of(access, true);
    // Slots, and parts of one tile, that statements after one another write are apart.
    const bool apart = access.part != Access::Part::whole || table_->rings().contains(access.name);
    for (const std::string& name : names) {
      if (read_.contains(name)) return name + " was read since the last sync";
      if (apart && name == names.front()) {
        if (whole_written_.contains(name) && !table_->rings().contains(access.name))
          return name + " was written since the last sync";
      } else if (whole_written_.contains(name) || part_written_.contains(name)) {
        return name + " was written since the last sync";
      }
    }
  }
  return "";
}

void ThreadConflicts::run(const Stmt& stmt) {
  if (is_meeting(stmt)) {
    read_.clear();
    whole_written_.clear();
    part_written_.clear();
    return;
  }
  if (const auto* s = std::get_if<Acquire>(&stmt.node)) move_name(whole_written_, filled(s->tile), s->tile);
  if (const auto* s = std::get_if<Release>(&stmt.node)) move_name(read_, s->tile, filled(s->tile));
  const Accesses& accesses = table_->of(stmt);
  for (const Access& access : accesses.reads)
    if (is_shared(access)) read_.insert(storage_of(access, false).front());
  for (const Access& access : accesses.writes) {
    if (!is_shared(access)) continue;
    const bool whole = access.part == Access::Part::whole || table_->rings().contains(access.name);
    (whole ? whole_written_ : part_written_).insert(storage_of(access, true).front());
  }
}

void ThreadConflicts::join(const ThreadConflicts& other) {
  read_.insert(other.read_.begin(), other.read_.end());
  whole_written_.insert(other.whole_written_.begin(), other.whole_written_.end());
  part_written_.insert(other.part_written_.begin(), other.part_written_.end());
}

bool operator==(const ThreadConflicts& a, const ThreadConflicts& b) {
  return a.read_ == b.read_ && a.whole_written_ == b.whole_written_ && a.part_written_ == b.part_written_;
}

}  // namespace astatide::tile
