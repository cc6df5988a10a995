#pragma once

#include "compiler/rewrite/derivation.h"

namespace astatide {

struct WrittenTerm {
  Expr term;
  std::optional<Expr> factor;
};

/// Writes the terms of sums over named weights: one weight for each different exponential, and one for each different
/// left factor of a product. A weight takes the name of the definition that it replaces, up to factors that are
/// constant along the row.
class WeightWriter {
 public:
  explicit WeightWriter(Derivation& derivation);

  WrittenTerm term_of(const Carried& slot);
  std::vector<Weight> take() { return std::move(weights_); }

 private:
  /// A definition that varies along the axis, as far as a weight can replace it.
  struct Definition {
    std::string name;
    SplitTerm split;
    Location where;
  };

  void find_definitions();
  std::string exponential_weight(const Carried& slot);
  std::string left_factor(const Carried& slot, const Expr& term, const Monomial& along);
  std::string add(const Expr& value, const Monomial& along, const Carried& slot, const std::string& fallback);
  std::string name_for(const Monomial& along, const Carried& slot, std::vector<std::string>& replaced) const;

  Derivation& derivation_;
  std::vector<Definition> definitions_;
  std::vector<Weight> weights_;
  std::set<std::string> taken_;
};

}  // namespace astatide
