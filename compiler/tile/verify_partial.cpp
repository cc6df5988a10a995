#include <cmath>
#include <map>
#include <optional>
#include <variant>

#include "compiler/support/match.h"
#include "compiler/tile/verify_flow.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

struct Whole {
  friend bool operator==(const Whole&, const Whole&) = default;
};
/// One number everywhere: whole, and a share as well where it is the unit of the operation.
struct Constant {
  double value;
  friend bool operator==(const Constant&, const Constant&) = default;
};
/// Each lane holds a share.
struct Share {
  Reduction op;
  friend bool operator==(const Share&, const Share&) = default;
};
/// A share on one path and whole on another.
struct Mixed {
  friend bool operator==(const Mixed&, const Mixed&) = default;
};
using Holding = std::variant<Whole, Constant, Share, Mixed>;

bool is_share(const Holding& holding) { return std::holds_alternative<Share>(holding); }
bool is_share(const Holding& holding, Reduction op) { return holding == Holding(Share{op}); }
bool is_unit(const Holding& holding, Reduction op) { return holding == Holding(Constant{unit_of(op)}); }
bool is_whole(const Holding& holding) {
  return std::holds_alternative<Whole>(holding) || std::holds_alternative<Constant>(holding);
}

Holding join_holdings(const Holding& a, const Holding& b) {
  if (a == b) return a;
  if (is_whole(a) && is_whole(b)) return Whole{};
  const auto* share = std::get_if<Share>(is_share(a) ? &a : &b);
  const Holding& other = is_share(a) ? b : a;
  return share && is_unit(other, share->op) ? Holding(*share) : Holding(Mixed{});
}

using Holdings = std::map<TileName, Holding>;

class Partial : public Flow<Holdings> {
 public:
  explicit Partial(const Verified& v) : v_(v) {}

 protected:
  void visit(const Stmt& stmt, Holdings& state) override {
    if (const auto* s = std::get_if<Fill>(&stmt.node))
      state[s->dst] = std::isnan(s->value) ? Holding(Whole{}) : Constant{s->value};
    if (const auto* s = std::get_if<Map>(&stmt.node)) {
      for (const Expr& predicate : s->where_predicates) whole(stmt, predicate, state);
      Holding value = holding_of(stmt, s->value, state);
      if (s->absent) value = join_holdings(value, Constant{*s->absent});
      if (s->columns && state.contains(s->dst)) value = join_holdings(value, state.at(s->dst));
      state[s->dst] = value;
    }
    if (const auto* s = std::get_if<RowReduce>(&stmt.node)) {
      whole(stmt, s->src, state);
      if (s->accumulate && !is_share(of(s->dst, state), s->op) && !is_unit(of(s->dst, state), s->op))
        v_.fail(stmt, s->dst + " is no share of a " + std::string(name_of(s->op)) + ", so no share can be added to it");
      state[s->dst] = Share{s->op};
    }
    if (const auto* s = std::get_if<AllReduce>(&stmt.node)) {
      const Holding holding = of(s->tile, state);
      if (!is_share(holding, s->op) && !is_unit(holding, s->op) && (s->op == Reduction::sum || !is_whole(holding)))
        v_.fail(stmt, s->tile + " is no share of a " + std::string(name_of(s->op)));
      state[s->tile] = Whole{};
    }
    if (const auto* s = std::get_if<Mma>(&stmt.node)) visit_mma(stmt, *s, state);
    if (const auto* s = std::get_if<Copy>(&stmt.node)) visit_copy(stmt, *s, state);
  }

  void join(const Stmt&, Holdings& into, const Holdings& other) override {
    for (const auto& [tile, holding] : other) {
      const auto [entry, added] = into.emplace(tile, holding);
      if (!added) entry->second = join_holdings(entry->second, holding);
    }
  }

 private:
  /// A tile that nothing has written is the care of another rule.
  static Holding of(const TileName& tile, const Holdings& state) {
    const auto found = state.find(tile);
    return found == state.end() ? Holding(Whole{}) : found->second;
  }

  void whole(const Stmt& stmt, const TileName& tile, const Holdings& state) const {
    const Holding holding = of(tile, state);
    if (const auto* share = std::get_if<Share>(&holding))
      v_.fail(stmt, tile + " is read whole, but each lane holds a share of its " + std::string(name_of(share->op)));
    if (std::holds_alternative<Mixed>(holding)) v_.fail(stmt, tile + " is whole on one path and a share on another");
  }

  void whole(const Stmt& stmt, const Expr& e, const Holdings& state) const {
    for (const std::string& name : free_variables(e))
      if (v_.kernel.find(name)) whole(stmt, name, state);
  }

  void visit_mma(const Stmt& stmt, const Mma& s, Holdings& state) const {
    for (const Operand* operand : {&s.lhs, &s.rhs})
      if (const auto* tile = std::get_if<TileName>(operand)) whole(stmt, *tile, state);
    if (s.accumulate) whole(stmt, s.dst, state);
    state[s.dst] = Whole{};
  }

  void visit_copy(const Stmt& stmt, const Copy& s, Holdings& state) const {
    Holding from = Whole{};
    if (const auto* tile = std::get_if<TileName>(&s.src)) from = of(*tile, state);
    if (const auto* tile = std::get_if<TileName>(&s.dst)) {
      // A load into a tile of shares gives the value to one lane, the unit to the others.
      const std::optional<Reduction> partial = v_.kernel.find(*tile)->partial;
      const bool loads = !std::holds_alternative<TileName>(s.src);
      state[*tile] = loads && partial ? Holding(Share{*partial}) : from;
    } else if (const auto* tile = std::get_if<TileName>(&s.src)) {
      whole(stmt, *tile, state);
    }
  }

  Holding holding_of(const Stmt& stmt, const Expr& e, const Holdings& state) const {
    if (const auto* n = e.as<Number>()) return Constant{n->value};
    if (const auto* i = e.as<Integer>()) return Constant{static_cast<double>(i->value)};
    if (const auto* variable = e.as<Variable>()) {
      if (!v_.kernel.find(variable->name)) return Whole{};
      const Holding holding = of(variable->name, state);
      if (std::holds_alternative<Mixed>(holding)) whole(stmt, variable->name, state);
      return holding;
    }
    if (const auto* c = e.as<Call>())
      if (const auto holding = holding_of_call(stmt, *c, state)) return *holding;
    whole(stmt, e, state);
    return Whole{};
  }

  /// None where shares have no meaning in the operation.
  std::optional<Holding> holding_of_call(const Stmt& stmt, const Call& c, const Holdings& state) const {
    const auto arg = [&](std::size_t i) { return holding_of(stmt, c.args[i], state); };
    switch (c.op) {
      case Op::add:
      case Op::sub:
        return accumulated(arg(0), arg(1), Reduction::sum);
      case Op::max:
        return accumulated(arg(0), arg(1), Reduction::max);
      case Op::min:
        return accumulated(arg(0), arg(1), Reduction::min);
      case Op::mul:
      case Op::absorb:
        return scaled(arg(0), arg(1));
      case Op::div:
        if (!is_whole(arg(1))) return std::nullopt;
        return scaled(arg(0), arg(1));
      case Op::neg:
        if (is_share(arg(0), Reduction::sum)) return arg(0);
        return std::nullopt;
      case Op::select: {
        whole(stmt, c.args[0], state);
        const Holding either = join_holdings(arg(1), arg(2));
        if (std::holds_alternative<Mixed>(either)) return std::nullopt;
        return either;
      }
      default:
        return std::nullopt;
    }
  }

  static std::optional<Holding> accumulated(const Holding& a, const Holding& b, Reduction op) {
    if (is_whole(a) && is_whole(b)) return Whole{};
    const bool a_fits = is_share(a, op) || is_unit(a, op);
    const bool b_fits = is_share(b, op) || is_unit(b, op);
    if (a_fits && b_fits) return Share{op};
    return std::nullopt;
  }

  static std::optional<Holding> scaled(const Holding& a, const Holding& b) {
    if (is_unit(a, Reduction::sum) || is_unit(b, Reduction::sum)) return Constant{0};
    if (is_whole(a) && is_whole(b)) return Whole{};
    if ((is_share(a, Reduction::sum) && is_whole(b)) || (is_whole(a) && is_share(b, Reduction::sum)))
      return Share{Reduction::sum};
    return std::nullopt;
  }

  const Verified& v_;
};

}  // namespace

void verify_partial_tiles(const Verified& v) {
  // Without threads there are no lanes that share a value.
  if (!v.is_past("close_shares") || v.kernel.threads() == 0) return;
  Holdings state;
  Partial(v).run(v.kernel.body, state);
}

}  // namespace astatide::tile
