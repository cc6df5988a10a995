#include <algorithm>
#include <map>
#include <set>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

using Names = std::set<std::string>;

Names tokens_of(const Kernel& kernel) {
  Names out;
  walk(kernel.body, [&](const Stmt& stmt) {
    const auto* mma = std::get_if<Mma>(&stmt.node);
    const auto* copy = std::get_if<Copy>(&stmt.node);
    if (mma && !mma->token.empty()) out.insert(mma->token);
    if (copy && !copy->token.empty()) out.insert(copy->token);
  });
  return out;
}

/// Calls f on every list of coordinates of a statement.
template <class F>
void each_coordinates(const Stmt& stmt, F f) {
  const auto operand = [&](const auto& value) {
    match(
        value, [](const TileName&) {}, [&](const auto& place) { f(place.at); });
  };
  if (const auto* s = std::get_if<Map>(&stmt.node)) f(s->at);
  if (const auto* s = std::get_if<Mma>(&stmt.node)) {
    operand(s->lhs);
    operand(s->rhs);
  }
  if (const auto* s = std::get_if<Copy>(&stmt.node)) {
    operand(s->dst);
    operand(s->src);
  }
}

/// Calls f(stmt, scope) with the loop variables and lets that a statement may speak of.
void walk_scopes(const Block& block, Names scope, const std::function<void(const Stmt&, const Names&)>& f) {
  for (const Stmt& stmt : block) {
    f(stmt, scope);
    if (const Block* body = nested_block(stmt)) {
      Names inner = scope;
      if (const auto* loop = std::get_if<For>(&stmt.node)) inner.insert(loop->var);
      walk_scopes(*body, std::move(inner), f);
    }
    if (const auto* let = std::get_if<Let>(&stmt.node)) scope.insert(let->name);
  }
}

Names tile_variables(const Kernel& kernel) {
  Names out;
  for (const TileAxis& axis : kernel.tiles) out.insert(axis.var);
  return out;
}

class Declarations {
 public:
  explicit Declarations(const Verified& v) : v_(v) {}
  void declare(const std::string& name, const char* kind) {
    if (name.empty()) v_.fail(std::string("a ") + kind + " has no name");
    const auto [entry, added] = kinds_.emplace(name, kind);
    if (!added) v_.fail(name + " is a " + kind + ", and a " + entry->second + " too");
  }
  /// The kind of what has this name; nullptr: nothing.
  const char* find(const std::string& name) const {
    const auto found = kinds_.find(name);
    return found == kinds_.end() ? nullptr : found->second;
  }

 private:
  const Verified& v_;
  std::map<std::string, const char*> kinds_;
};

Names extents_of(const Program& program) {
  Names out(program.extents.begin(), program.extents.end());
  for (const auto& [name, value] : program.known) out.insert(name);
  return out;
}

}  // namespace

void verify_declarations(const Verified& v) {
  Declarations names(v);
  for (const std::string& extent : extents_of(v.program)) names.declare(extent, "extent");
  for (const std::string& scalar : v.program.scalars) names.declare(scalar, "scalar");
  for (const Tensor& tensor : v.program.tensors) names.declare(tensor.name, "tensor");
  for (const Mem& mem : v.kernel.mems) names.declare(mem.name, "tile");
  for (const TileAxis& axis : v.kernel.tiles) names.declare(axis.var, "tile axis");
  for (const std::string& flag : v.accesses.flags()) names.declare(flag, "flag");
  for (const std::string& token : tokens_of(v.kernel)) names.declare(token, "token");
  for (const Kernel& other : v.program.kernels)
    if (&other != &v.kernel && other.name == v.kernel.name) v.fail("two kernels have this name");

  walk_scopes(v.kernel.body, {}, [&](const Stmt& stmt, const Names& scope) {
    const auto check = [&](const std::string& name, const char* kind) {
      if (name.empty()) v.fail(stmt, std::string("a ") + kind + " has no name");
      if (const char* other = names.find(name)) v.fail(stmt, name + " is a " + kind + ", and a " + other + " too");
      if (scope.contains(name)) v.fail(stmt, std::string("a ") + kind + " shadows " + name);
    };
    if (const auto* loop = std::get_if<For>(&stmt.node)) check(loop->var, "loop variable");
    if (const auto* let = std::get_if<Let>(&stmt.node)) check(let->name, "let");
    each_coordinates(stmt, [&](const std::vector<Coordinate>& at) {
      Names seen;
      for (const Coordinate& coordinate : at) {
        check(coordinate.axis, "coordinate");
        if (!seen.insert(coordinate.axis).second) v.fail(stmt, "coordinate " + coordinate.axis + " is given twice");
      }
    });
  });
}

namespace {

/// Where a statement's expression stands, which says what it may speak of.
struct Allowed {
  const Names& integers;  // extents, tile axes, loop variables, lets
  const Names& scalars;
  const Names& tiles;
  const Names& flags;
};

class References {
 public:
  References(const Verified& v, const Stmt& stmt, const Allowed& allowed) : v_(v), stmt_(stmt), allowed_(allowed) {}

  void check() const {
    match(
        stmt_.node,
        [&](const For& s) {
          integer(s.begin, {});
          integer(s.end, {});
        },
        [&](const If& s) {
          const Expr tested = s.condition.is_call(Op::logical_not) ? negation(s.condition) : s.condition;
          if (tested.as<Variable>() && allowed_.flags.contains(tested.as<Variable>()->name)) return;
          integer(s.condition, {});
        },
        [](const Role&) {},
        [&](const Let& s) {
          integer(s.value, {});
          if (s.own) integer(*s.own, {{v_.kernel.warpgroup, Expr(0), {}}});
        },
        [&](const Fill& s) { tile(s.dst); },
        [&](const Map& s) {
          tile(s.dst);
          element(s.value, s.at, {});
          for (const Expr& predicate : s.where_predicates) element(predicate, s.at, {});
          places(s.at);
        },
        [&](const RowReduce& s) {
          tile(s.dst);
          tile(s.src);
        },
        [&](const AllReduce& s) { tile(s.tile); }, [&](const Vote& s) { element(s.condition, {}, {}); },
        [&](const Mma& s) {
          tile(s.dst);
          operand(s.lhs);
          operand(s.rhs);
        },
        [&](const Copy& s) {
          operand(s.dst);
          operand(s.src);
        },
        [](const Await&) {}, [&](const Advance& s) { advance(s); },
        [&](const Reserve& s) {
          tile(s.tile);
          if (s.ahead) view(*s.ahead);
        },
        [&](const Acquire& s) {
          tile(s.tile);
          places(s.at);
        },
        [&](const Release& s) { tile(s.tile); }, [](const Sync&) {}, [](const Turn&) {},
        [&](const Arrive& s) {
          integer(s.of, {});
          for (const Expr& index : s.indices) integer(index, {});
        });
  }

 private:
  void tile(const TileName& name) const {
    if (!allowed_.tiles.contains(name)) v_.fail(stmt_, "no tile is named " + name);
  }

  static bool is_coordinate(const std::string& name, const std::vector<Coordinate>& at) {
    return std::any_of(at.begin(), at.end(), [&](const Coordinate& c) { return c.axis == name; });
  }

  void no_reduction(const Expr& e) const {
    visit(e, [&](const Expr& node) {
      if (node.as<Reduce>()) v_.fail(stmt_, "a reduction stands in an expression: " + to_string(node));
    });
  }

  void integer(const Expr& e, const std::vector<Coordinate>& at) const {
    no_reduction(e);
    for (const std::string& name : free_variables(e)) {
      if (is_coordinate(name, at) || allowed_.integers.contains(name)) continue;
      const bool known =
          allowed_.tiles.contains(name) || allowed_.scalars.contains(name) || allowed_.flags.contains(name);
      v_.fail(stmt_,
              known ? name + " is no integer, but stands in " + to_string(e) : "nothing in scope is named " + name);
    }
  }

  void element(const Expr& e, const std::vector<Coordinate>& at, const Names& extra) const {
    no_reduction(e);
    for (const std::string& name : free_variables(e))
      if (!is_coordinate(name, at) && !allowed_.integers.contains(name) && !allowed_.scalars.contains(name) &&
          !allowed_.tiles.contains(name) && !allowed_.flags.contains(name) && !extra.contains(name))
        v_.fail(stmt_, "nothing in scope is named " + name);
  }

  void places(const std::vector<Coordinate>& at) const {
    for (const Coordinate& coordinate : at) {
      integer(coordinate.origin, {});
      if (coordinate.limit) integer(*coordinate.limit, {});
    }
  }

  void view(const View& value) const {
    for (const Expr& index : value.indices) integer(index, value.at);
    places(value.at);
  }
  void operand(const Operand& value) const {
    match(
        value, [&](const TileName& name) { tile(name); }, [&](const View& place) { view(place); });
  }
  void operand(const CopyOperand& value) const {
    match(
        value, [&](const TileName& name) { tile(name); }, [&](const View& place) { view(place); },
        [&](const Strip& strip) {
          tile(strip.tile);
          places(strip.at);
        });
  }

  void advance(const Advance& s) const {
    Names made;
    for (const Advance::Update& update : s.updates) {
      tile(update.tile);
      tile(update.candidate);
      made.insert(new_value_name(update.tile));
    }
    for (const Advance::Move& move : s.moving) {
      tile(move.tile);
      element(move.by, {}, made);
    }
    if (!s.slack) return;
    element(s.slack->growth, {}, made);
    for (const TileName& witness : s.slack->witnesses) tile(witness);
  }

  const Verified& v_;
  const Stmt& stmt_;
  const Allowed& allowed_;
};

}  // namespace

void verify_references(const Verified& v) {
  Names extents = extents_of(v.program);
  for (const Tensor& tensor : v.program.tensors)
    for (const Expr& dim : tensor.dims)
      for (const std::string& name : free_variables(dim))
        if (!extents.contains(name)) v.fail("the shape of " + tensor.name + " reads " + name + ", which is no extent");
  for (const TileAxis& axis : v.kernel.tiles)
    for (const std::string& name : free_variables(axis.count))
      if (!extents.contains(name)) v.fail("the count of " + axis.var + " reads " + name + ", which is no extent");

  if (v.kernel.exists)
    for (const std::string& name : free_variables(*v.kernel.exists))
      if (!extents.contains(name) && !tile_variables(v.kernel).contains(name))
        v.fail("whether a tile exists depends on " + name + ", which is neither an extent nor a tile axis");
  if (v.kernel.exists && v.kernel.cluster) v.fail("tiles of a cluster are all there, and one is to be left out");

  if (v.kernel.tile_group)
    for (const std::string& name : free_variables(*v.kernel.tile_group))
      if (!extents.contains(name)) v.fail("groups of tiles read " + name + ", which is no extent");

  Names tiles;
  for (const Mem& mem : v.kernel.mems) tiles.insert(mem.name);
  for (const Mem& mem : v.kernel.mems)
    if (!mem.alias.empty() && !tiles.contains(mem.alias))
      v.fail(mem.name + " is an alias of " + mem.alias + ", no tile");
  const Names scalars(v.program.scalars.begin(), v.program.scalars.end());
  const Names& flags = v.accesses.flags();
  const Names outer = tile_variables(v.kernel);
  walk_scopes(v.kernel.body, {}, [&](const Stmt& stmt, const Names& scope) {
    Names integers = scope;
    integers.insert(extents.begin(), extents.end());
    integers.insert(outer.begin(), outer.end());
    const Allowed allowed{integers, scalars, tiles, flags};
    References(v, stmt, allowed).check();
  });
}

namespace {

void verify_element_access(const Verified& v, const Stmt* stmt, const std::string& name, std::size_t indices) {
  const Tensor* tensor = v.program.find_tensor(name);
  if (!tensor) v.fail(stmt, "no tensor is named " + name);
  if (tensor->dims.size() != indices)
    v.fail(stmt, name + " has " + std::to_string(tensor->dims.size()) + " dimensions, not " + std::to_string(indices));
}

void verify_reads(const Verified& v, const Stmt* stmt, const Expr& e, bool integer) {
  visit(e, [&](const Expr& node) {
    const auto* read = node.as<Read>();
    if (!read) return;
    verify_element_access(v, stmt, read->tensor, read->indices.size());
    if (integer && is_floating(v.program.find_tensor(read->tensor)->type))
      v.fail(stmt, "an index reads " + read->tensor + ", which holds no integers");
    for (const Expr& index : read->indices) verify_reads(v, stmt, index, true);
  });
}

const View* view_of(const Operand& operand) { return std::get_if<View>(&operand); }
const View* view_of(const CopyOperand& operand) { return std::get_if<View>(&operand); }

}  // namespace

void verify_tensors(const Verified& v) {
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const auto* map = std::get_if<Map>(&stmt.node);
    const bool elements = map || std::holds_alternative<Vote>(stmt.node) || std::holds_alternative<Advance>(stmt.node);
    for (const Expr& e : expressions_of(stmt)) verify_reads(v, &stmt, e, !elements);
    if (map) {
      for (const Coordinate& coordinate : map->at) verify_reads(v, &stmt, coordinate.origin, true);
    }
    const auto check = [&](const View* view) {
      if (view) verify_element_access(v, &stmt, view->tensor, view->indices.size());
    };
    if (const auto* mma = std::get_if<Mma>(&stmt.node)) {
      check(view_of(mma->lhs));
      check(view_of(mma->rhs));
    }
    if (const auto* arrive = std::get_if<Arrive>(&stmt.node)) {
      verify_element_access(v, &stmt, arrive->counters, arrive->indices.size());
      if (v.program.find_tensor(arrive->counters)->role != Tensor::Role::counters)
        v.fail(stmt, arrive->counters + " holds no counters");
      for (const std::string& tensor : arrive->stores)
        if (!v.program.find_tensor(tensor)) v.fail(stmt, "no tensor is named " + tensor);
    }
    if (const auto* copy = std::get_if<Copy>(&stmt.node)) {
      check(view_of(copy->src));
      check(view_of(copy->dst));
      for (const View* view : {view_of(copy->src), view_of(copy->dst)})
        if (view && v.program.find_tensor(view->tensor)->role == Tensor::Role::counters)
          v.fail(stmt, "counters " + view->tensor + " are copied");
      if (const View* view = view_of(copy->dst); view &&
                                                 v.program.find_tensor(view->tensor)->role == Tensor::Role::input &&
                                                 !v.program.find_tensor(view->tensor)->updated)
        v.fail(stmt, "input " + view->tensor + " is written");
    }
  });

  Names loops = tile_variables(v.kernel);
  walk(v.kernel.body, [&](const Stmt& stmt) {
    if (const auto* loop = std::get_if<For>(&stmt.node)) loops.insert(loop->var);
  });
  if (v.kernel.overlap && !v.kernel.find(v.kernel.overlap->product))
    v.fail("an overlap is of " + v.kernel.overlap->product + ", which is no tile");
  for (const Staging& staging : v.kernel.stagings) {
    if (!v.program.find_tensor(staging.tensor)) v.fail("a stage is of " + staging.tensor + ", which is no tensor");
    if (!loops.contains(staging.at))
      v.fail("the stage of " + staging.tensor + " is at " + staging.at + ", which is no loop or tile axis");
  }
}

namespace {

/// Inputs among those that kernels update which this one stores into, or reads.
Names updated_inputs(const Verified& v, bool stored) {
  Names out;
  const auto add = [&](const std::string& name) {
    const Tensor* tensor = v.program.find_tensor(name);
    if (tensor && tensor->updated) out.insert(name);
  };
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const Accesses& accesses = v.accesses.of(stmt);
    for (const Access& access : stored ? accesses.writes : accesses.reads) add(access.name);
  });
  if (!stored)
    for (const Staging& staging : v.kernel.stagings) add(staging.tensor);
  return out;
}

}  // namespace

void verify_tensor_order(const std::vector<Verified>& kernels) {
  if (kernels.empty()) return;
  const Program& program = kernels.front().program;
  Names written, read;
  for (const Verified& v : kernels) {
    // Kernels see what those before them have stored, and read inputs on paths that see nothing else.
    for (const std::string& name : updated_inputs(v, true)) {
      if (updated_inputs(v, false).contains(name)) v.fail("input " + name + " is read and updated by one kernel");
      if (read.contains(name)) v.fail("input " + name + " is updated behind a kernel that reads it");
    }
    read.merge(updated_inputs(v, false));
    walk(v.kernel.body, [&](const Stmt& stmt) {
      const Accesses& accesses = v.accesses.of(stmt);
      for (const Access& access : accesses.reads) {
        if (access.part != Access::Part::view || written.contains(access.name)) continue;
        if (program.find_tensor(access.name)->role != Tensor::Role::input)
          v.fail(stmt, access.name + " is read, but nothing before has written it");
      }
      for (const Access& access : accesses.writes) written.insert(access.name);
    });
  }
  for (const Tensor& tensor : program.tensors)
    if (tensor.role == Tensor::Role::output && !written.contains(tensor.name))
      kernels.back().fail("output " + tensor.name + " is written by no kernel");
}

}  // namespace astatide::tile
