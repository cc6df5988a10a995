#include <algorithm>

#include "compiler/schedule/approximations.h"
#include "compiler/schedule/legality.h"

// Which units compute exponentials, and what may approximate functions.

namespace astatide {
namespace {

/// What a definition along the cascade's axis computes, or null.
const Expr* defined_value(const Cascade& cascade, const std::string& name) {
  for (const Element& element : cascade.elements)
    if (element.name == name) return &element.value;
  for (const RowValue& value : cascade.values)
    if (value.name == name) return &value.value;
  return nullptr;
}

/// Whether an exponential is computed in the tile of a definition: in itself, or in what is computed where it is read.
bool computes_exponential(const LegalityCheck& check, const std::string& name) {
  const Expr* value = defined_value(check.cascade, name);
  if (value == nullptr) return false;
  if (has_exponential(*value)) return true;
  const std::set<std::string> read = free_variables(*value);
  return std::any_of(read.begin(), read.end(), [&](const std::string& other) {
    return other != name && check.role_of(other) == NameRole::inlined && computes_exponential(check, other);
  });
}

void check_exponential(LegalityCheck& check, const Placement& placement, const Directive& directive) {
  const auto error = [&](const std::string& message, std::vector<std::string> notes) {
    check.errors.error(directive.where, "exp2 of " + placement.name + ": " + message, std::move(notes));
  };
  if (placement.exp2()->part == 0)
    error("polynomial " + to_string(*placement.exp2()) + " would have no effect: the unit computes all as it is",
          {"polynomial: 1/4", "leave it out"});
  if (computes_exponential(check, placement.name)) return;
  std::string others;
  for (const Placement& other : check.schedule.placements)
    if (check.role_of(other.name) != NameRole::input && computes_exponential(check, other.name))
      others += (others.empty() ? "" : ", ") + other.name;
  error(placement.name + " computes no exponential, so it would have no effect",
        {others.empty() ? "leave it out" : "exponentials are computed by " + others});
}

bool computes(const Algorithm& algorithm, Op op) {
  return std::any_of(algorithm.define.begin(), algorithm.define.end(), [&](const Func& func) {
    bool found = false;
    visit(func.value, [&](const Expr& e) { found = found || e.is_call(op); });
    return found;
  });
}

void check_fast_math(LegalityCheck& check) {
  if (!check.schedule.fast_math) return;
  const std::span<const Approximation> known = approximations_of(check.least);
  std::string functions;
  for (const Approximation& one : known) {
    if (computes(check.algorithm, one.op)) return;
    functions += (functions.empty() ? "" : ", ") + std::string(info(one.op).name);
  }
  if (known.empty())
    check.errors.error(check.place_of_key("fast_math"),
                       "fast_math: " + check.least.name +
                           " computes every function as exactly as f32 holds it, so it " + "would have no effect",
                       {"leave it out"});
  else
    check.errors.error(check.place_of_key("fast_math"),
                       "fast_math: " + check.algorithm.name + " has no function that " + check.least.name +
                           " approximates, so it would have no effect",
                       {"approximated are: " + functions, "leave it out"});
}

}  // namespace

void check_exponentials(LegalityCheck& check) {
  check_fast_math(check);
  for (const Placement& placement : check.schedule.placements) {
    const Directive* directive = placement.find(DirectiveKind::exp2);
    const NameRole role = check.role_of(placement.name);
    const bool inside = (role == NameRole::element || role == NameRole::weight) && !check.is_root(placement.name);
    if (directive != nullptr && inside && check.least.is_cuda()) check_exponential(check, placement, *directive);
  }
}

}  // namespace astatide
