#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

// Formulas that only algorithms are written with; see expr.h for the others.
Expr exp2(const Expr& a);
Expr sqrt(const Expr& a);
Expr tanh(const Expr& a);
Expr sigmoid(const Expr& a);
Expr abs(const Expr& a);
/// Reductions over a named axis.
Expr sum(const std::string& axis, const Expr& body);
Expr max(const std::string& axis, const Expr& body);
Expr min(const std::string& axis, const Expr& body);
Expr softmax(const std::string& axis, const Expr& body);
Expr logsumexp(const std::string& axis, const Expr& body);

// The fluent form of an algorithm. It builds the same value as a file does:
//
//   AlgorithmBuilder a("attention");
//   a.extents({"B", "H", "Sq", "Sk", "D"});
//   a.scalar("scale", 1 / sqrt(variable("D")));
//   a.input("Q", {"B", "H", "Sq", "D"}).input("K", {"B", "H", "Sk", "D"}).input("V", {"B", "H", "Sk", "D"});
//   // A definition as a line of a file, or as a formula:
//   a.define("S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale");
//   a.define("A", {"b", "h", "i", "j"}, read("S", {b, h, i, j}), less_equal(j, i + Sk - Sq));
//   Algorithm value = a.outputs({"O", "L"}).build();  // checked
//
// Extents, scalars and inputs come before the lines that use them: what `/` and `max` mean depends on them.
class AlgorithmBuilder {
 public:
  explicit AlgorithmBuilder(std::string name);

  AlgorithmBuilder& extents(const std::vector<std::string>& names);
  AlgorithmBuilder& scalar(const std::string& name, std::optional<Expr> default_value = std::nullopt);
  AlgorithmBuilder& input(const std::string& name, std::vector<Expr> dims,
                          std::optional<ScalarType> dtype = std::nullopt);
  AlgorithmBuilder& input(const std::string& name, const std::vector<std::string>& dims,
                          std::optional<ScalarType> dtype = std::nullopt);
  /// For literals: {"B", "H"} would else be the two ends of a range as well.
  AlgorithmBuilder& input(const std::string& name, std::initializer_list<const char*> dims,
                          std::optional<ScalarType> dtype = std::nullopt);
  /// A definition as a line of an algorithm file. Throws UserError where it does not parse.
  AlgorithmBuilder& define(const std::string& line);
  AlgorithmBuilder& define(const std::string& name, const std::vector<std::string>& indices, Expr value,
                           std::optional<Expr> where = std::nullopt);
  /// An update as a line of an algorithm file, or as a formula: the places in the input, one a dimension. Its axes are
  /// the names in them that are no extents or scalars.
  AlgorithmBuilder& update(const std::string& line);
  AlgorithmBuilder& update(const std::string& input, std::vector<Expr> places, Expr value,
                           std::optional<Expr> where = std::nullopt);
  AlgorithmBuilder& outputs(const std::vector<std::string>& names);
  /// One that is stored at places of its own, with the dimensions of its tensor.
  AlgorithmBuilder& output(const std::string& name, const std::vector<std::string>& dims);
  /// Promises of an input of integers declared before that none is less than the one before it in the last dimension.
  AlgorithmBuilder& monotone(const std::string& input);
  AlgorithmBuilder& size(const std::string& extent, std::int64_t value);
  /// An axis with its extent, or a ragged one: less_equal(length, extent).
  AlgorithmBuilder& axis(const std::string& name, const Expr& extent);

  /// The checked value. Throws UserError with all problems.
  Algorithm build() const;

 private:
  std::vector<Expr> parsed_dims(const std::string& name, const std::vector<std::string>& dims) const;

  Algorithm algorithm_;
};

}  // namespace astatide
