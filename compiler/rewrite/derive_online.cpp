#include <algorithm>

#include "compiler/rewrite/derivation.h"
#include "compiler/rewrite/expression_limit.h"

namespace astatide {

namespace {

constexpr std::size_t kMaxSlotsInAll = 64;

bool stands_in_exponent(const std::string& name, const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& node) {
    if (node.is_call(Op::exp) || node.is_call(Op::exp2)) found = found || free_variables(node).contains(name);
  });
  return found;
}

/// An exponential that is constant along the axis is a number like any other.
bool varies_as_exponential(const Derivation& derivation, const Expr& e) {
  return (e.is_call(Op::exp) || e.is_call(Op::exp2)) && derivation.varies_along(free_variables(e));
}

bool has_varying_exponential(const Derivation& derivation, const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& node) { found = found || varies_as_exponential(derivation, node); });
  return found;
}

/// Gives the exponents of an element names of their own, so that a maximum can be taken of them: W = exp(x) where p
/// becomes exp(W_exponent) with W_exponent = x where p.
Expr with_named_exponents(Derivation& derivation, const Element& element) {
  Expr value = element.value;
  if (element.product) {
    Element product = element;
    product.name = derivation.fresh.fresh(element.name + "_product");
    product.value = variable(product.name);
    product.where_predicates.clear();
    derivation.cascade.elements.push_back(product);
    value = substitute(value, {{element.name, variable(product.name)}});
  }
  return transform(value, [&](const Expr& e) {
    if (!varies_as_exponential(derivation, e)) return e;
    Element exponent;
    exponent.name = derivation.fresh.fresh(element.name + "_exponent");
    exponent.indices = element.indices;
    exponent.value = e.as<Call>()->args[0];
    exponent.where_predicates = element.where_predicates;
    exponent.where = element.where;
    derivation.cascade.elements.push_back(exponent);
    return with_children(e, {variable(exponent.name)});
  });
}

/// A definition that is itself maximised, masked or a product stays a name that the algebra does not look into: its
/// bound is known by that name. Others are looked into where that can matter, which is where they hold an exponential
/// that varies along the axis and may need a reference. What is looked into is multiplied out, and differences lose
/// digits.
void inline_elements(Derivation& derivation) {
  const std::vector<Element> elements = derivation.cascade.elements;
  for (const Element& element : elements) {
    const bool maximised = std::any_of(
        derivation.cascade.stages.begin(), derivation.cascade.stages.end(),
        [&](const Stage& stage) { return stage.op != Reduction::sum && stage.term == variable(element.name); });
    if (maximised) continue;
    const bool opaque = element.product || !element.where_predicates.empty();
    Expr value = substitute(element.value, derivation.inlined_elements);
    check_expression_size(value, "'" + element.name + "'", element.where);
    if (!has_varying_exponential(derivation, value)) continue;
    if (opaque) {
      Element with_inlined = element;
      with_inlined.value = value;
      value = with_named_exponents(derivation, with_inlined);
    }
    derivation.inlined_elements.insert_or_assign(element.name, value);
  }
}

/// Minima under exponentials become maxima: exp(m - a) has the maximum of -a for its reference.
Cascade with_maxima_as_references(const Cascade& cascade) {
  Cascade result = cascade;
  for (std::size_t i = 0; i < result.stages.size(); ++i) {
    Stage& stage = result.stages[i];
    const auto reads = [&](const Stage& other) { return stands_in_exponent(stage.name, other.term); };
    if (stage.op != Reduction::min || std::none_of(result.stages.begin(), result.stages.end(), reads)) continue;
    stage.op = Reduction::max;
    stage.term = -stage.term;
    const std::map<std::string, Expr> negated{{stage.name, -variable(stage.name)}};
    for (std::size_t k = i + 1; k < result.stages.size(); ++k) {
      result.stages[k].term = substitute(result.stages[k].term, negated);
    }
    for (RowValue& value : result.values) value.value = substitute(value.value, negated);
  }
  return result;
}

void check_order(const Cascade& cascade) {
  for (std::size_t i = 0; i < cascade.stages.size(); ++i) {
    const Stage& stage = cascade.stages[i];
    const std::set<std::string> names = free_variables(stage.term);
    for (std::size_t k = i; k < cascade.stages.size(); ++k) {
      if (!names.contains(cascade.stages[k].name)) continue;
      throw UserError(stage.where, "stage '" + stage.name + "': uses '" + cascade.stages[k].name +
                                       "' before it is defined (reductions must be listed in dependency order and must "
                                       "not be recursive)");
    }
  }
}

void check_outputs(const Derivation& derivation) {
  for (const RowValue& value : derivation.cascade.values) {
    if (!value.output || !derivation.varies_along(free_variables(value.value))) continue;
    throw UserError(value.where,
                    "output '" + value.name + "' varies along the reduction axis through " +
                        names_along(derivation, value.value) +
                        "; it cannot be produced by a streaming pass (write it with a second pass from the saved LSE)",
                    {"rewrite: none computes it"});
  }
}

void derive_stage(Derivation& derivation, const Stage& stage, bool takes_name) {
  try {
    if (stage.op == Reduction::sum) {
      derive_sum(derivation, stage, takes_name);
    } else {
      derive_extremum(derivation, stage, takes_name);
    }
  } catch (const ExpansionTooLarge& problem) {
    throw UserError(stage.where, "stage '" + stage.name + "': its term can't be taken apart: " + problem.what(),
                    {"schedule it without the streaming form (rewrite: none)"});
  }
}

}  // namespace

std::string new_value_name(const std::string& slot) { return slot + "_new"; }

Recurrence derive_online(const Cascade& original, const DeriveOptions& options) {
  check_order(original);
  // A copy of its own: elements join that of the derivation.
  const Cascade cascade = with_maxima_as_references(original);
  Derivation derivation(cascade, options);
  check_outputs(derivation);
  inline_elements(derivation);
  for (const Stage& stage : cascade.stages) {
    const bool takes_name = std::none_of(cascade.values.begin(), cascade.values.end(), [&](const RowValue& value) {
      return value.output && value.name == stage.name;
    });
    derive_stage(derivation, stage, takes_name);
    if (derivation.slots.size() > kMaxSlotsInAll) {
      throw UserError(stage.where, "stage '" + stage.name + "': with it the streaming form carries " +
                                       std::to_string(derivation.slots.size()) + " values a row, more than the limit " +
                                       std::to_string(kMaxSlotsInAll));
    }
  }
  return write_recurrence(derivation);
}

}  // namespace astatide
