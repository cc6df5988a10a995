#include <algorithm>
#include <set>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/match.h"
#include "compiler/tile/ir.h"

namespace astatide::tile {
namespace {

class Collector {
 public:
  Effects effects;

  void visit(const Stmt& stmt) {
    match(
        stmt.node,
        [&](const For& s) {
          read(s.begin);
          read(s.end);
          nested(s.body, s.var);
        },
        [&](const If& s) {
          read(s.condition);
          nested(s.body);
        },
        [&](const Role& s) { nested(s.body); },
        [&](const Let& s) {
          read(s.value);
          if (s.own) read(*s.own);
          write(s.name);
        },
        [&](const Fill& s) { write(s.dst); },
        [&](const Map& s) {
          read_at(s.value, s.at);
          for (const Expr& predicate : s.where_predicates) read_at(predicate, s.at);
          read(s.at);
          write(s.dst);
        },
        [&](const RowReduce& s) {
          read(s.src);
          if (s.accumulate) read(s.dst);
          write(s.dst);
        },
        [&](const AllReduce& s) { read_and_write(s.tile); },
        [&](const Vote& s) {
          read(s.condition);
          write(s.flag);
        },
        [&](const Mma& s) {
          read(s.lhs);
          read(s.rhs);
          if (s.accumulate) read(s.dst);
          write(s.dst);
          if (!s.token.empty()) write(s.token);
        },
        [&](const Copy& s) {
          read(s.src);
          write(s.dst);
          if (!s.token.empty()) write(s.token);
        },
        [&](const Await& s) { read_and_write(s.token); }, [&](const Advance& s) { visit(s); },
        // The state of the ring goes by the tile's name: a slot is taken and given back around what uses it.
        [&](const Reserve& s) {
          read_and_write(s.tile);
          if (s.ahead) read_places(*s.ahead);
        },
        [&](const Acquire& s) {
          read_and_write(s.tile);
          read(s.at);
        },
        [&](const Release& s) { read_and_write(s.tile); }, [](const Sync&) {}, [](const Turn&) {},
        [&](const Arrive& s) {
          read(s.of);
          for (const Expr& index : s.indices) read(index);
          read_and_write(s.counters);
          for (const std::string& tensor : s.stores) read_and_write(tensor);
          write(s.flag);
        });
  }

 private:
  static void add(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  void read(const std::string& name) { add(effects.reads, name); }
  void write(const std::string& name) { add(effects.writes, name); }
  void read_and_write(const std::string& name) {
    read(name);
    write(name);
  }

  void read(const Expr& e) {
    for (const std::string& name : free_variables(e)) read(name);
    for (const std::string& tensor : tensors_read(e)) read(tensor);
  }

  /// Coordinates are bound by the statement itself.
  void read_at(const Expr& e, const std::vector<Coordinate>& at) {
    for (const std::string& name : free_variables(e)) {
      const bool bound = std::any_of(at.begin(), at.end(), [&](const Coordinate& c) { return c.axis == name; });
      if (!bound) read(name);
    }
    for (const std::string& tensor : tensors_read(e)) read(tensor);
  }

  void read(const std::vector<Coordinate>& at) {
    for (const Coordinate& coordinate : at) {
      read(coordinate.origin);
      if (coordinate.limit) read(*coordinate.limit);
    }
  }

  void read_places(const View& view) {
    for (const Expr& index : view.indices) read_at(index, view.at);
    read(view.at);
  }

  void read(const Operand& operand) {
    match(
        operand, [&](const TileName& tile) { read(tile); },
        [&](const View& view) {
          read_places(view);
          read(view.tensor);
        });
  }

  void read(const CopyOperand& operand) {
    match(
        operand, [&](const TileName& tile) { read(tile); },
        [&](const View& view) {
          read_places(view);
          read(view.tensor);
        },
        [&](const Strip& strip) {
          read(strip.at);
          read(strip.tile);
        });
  }

  void write(const CopyOperand& operand) {
    match(
        operand, [&](const TileName& tile) { write(tile); },
        [&](const View& view) {
          read_places(view);
          write(view.tensor);
        },
        [&](const Strip& strip) {
          read(strip.at);
          write(strip.tile);
        });
  }

  void visit(const Advance& s) {
    std::set<std::string> made;
    for (const Advance::Update& update : s.updates) {
      made.insert(new_value_name(update.tile));
      read(update.candidate);
      read_and_write(update.tile);
    }
    for (const Advance::Move& move : s.moving) {
      for (const std::string& name : free_variables(move.by))
        if (!made.contains(name)) read(name);
      read_and_write(move.tile);
    }
  }

  void nested(const Block& body, const std::string& bound = {}) {
    Collector inner;
    for (const Stmt& stmt : body) inner.visit(stmt);
    for (const std::string& name : inner.effects.reads)
      if (name != bound) read(name);
    for (const std::string& name : inner.effects.writes) write(name);
  }
};

bool intersect(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& name) { return std::find(b.begin(), b.end(), name) != b.end(); });
}

bool holds_sync(const Stmt& stmt) {
  bool found = false;
  walk({stmt}, [&](const Stmt& s) { found = found || is_meeting(s) || std::holds_alternative<Turn>(s.node); });
  return found;
}

}  // namespace

Effects effects_of(const Stmt& stmt) {
  Collector collector;
  collector.visit(stmt);
  return collector.effects;
}

bool keeps_condition(const If& branch) {
  const std::set<std::string> tested = free_variables(branch.condition);
  return std::none_of(branch.body.begin(), branch.body.end(), [&](const Stmt& stmt) {
    const std::vector<std::string> writes = effects_of(stmt).writes;
    return std::any_of(writes.begin(), writes.end(), [&](const std::string& name) { return tested.contains(name); });
  });
}

bool conflict(const Stmt& a, const Stmt& b) {
  // What a sync or a turn orders is not written in it.
  if (holds_sync(a) || holds_sync(b)) return true;
  const Effects x = effects_of(a);
  const Effects y = effects_of(b);
  return intersect(x.writes, y.writes) || intersect(x.writes, y.reads) || intersect(x.reads, y.writes);
}

}  // namespace astatide::tile
