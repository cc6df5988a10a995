#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/algorithm/expr.h"

namespace astatide {

/// What the names and the reads of an expression stand for.
struct Bindings {
  std::map<std::string, double> variables;
  std::function<double(const Read& read, const std::vector<double>& indices)> read;
};

/// Value of an expression without reductions, in double precision. Only the chosen side of a select is evaluated.
/// Throws InternalError on an unbound name.
double value_of(const Expr& e, const Bindings& bindings);

/// Bindings in which every name and every read has a value of its own, drawn from its structure and `seed`: for probes
/// that ask whether two expressions can differ. Values lie in [low, high].
class RandomBindings {
 public:
  RandomBindings(unsigned seed, double low, double high) : seed_(seed), low_(low), high_(high) {}

  void set(const std::string& name, double value) { fixed_[name] = value; }
  double operator()(const Expr& e) const;

 private:
  double draw(const std::string& key) const;

  unsigned seed_;
  double low_, high_;
  std::map<std::string, double> fixed_;
};

}  // namespace astatide
