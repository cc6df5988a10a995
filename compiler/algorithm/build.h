#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/algorithm/algorithm.h"

namespace astatide {

// The fluent form of an algorithm. It builds the same value as a file does:
//
//   AlgorithmBuilder a("attention");
//   auto [B, H, Sq, Sk, D, Dv] = ...; a.extents({"B", "H", "Sq", "Sk", "D", "Dv"});
//   a.scalar("scale", 1 / sqrt(D));                                        // scalars and inputs before the lines that
//   use them a.input("Q", {"B", "H", "Sq", "D"}); a.define("S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale"); //
//   as text, or as expressions: a.define("A", {"b", "h", "i", "j"}, read("S", {b, h, i, j})).where(less_equal(j, i + Sk
//   - Sq)); Algorithm value = a.outputs({"O", "L"}).build();                       // checked
class AlgorithmBuilder {
 public:
  explicit AlgorithmBuilder(std::string name);

  AlgorithmBuilder& extents(const std::vector<std::string>& names);
  AlgorithmBuilder& scalar(const std::string& name, std::optional<Expr> default_value = std::nullopt);
  AlgorithmBuilder& input(const std::string& name, std::vector<Expr> dims,
                          std::optional<ScalarType> dtype = std::nullopt);
  AlgorithmBuilder& input(const std::string& name, const std::vector<std::string>& dims,
                          std::optional<ScalarType> dtype = std::nullopt);
  /// A definition as a line of an algorithm file. Throws UserError where it does not parse.
  AlgorithmBuilder& define(const std::string& line);
  AlgorithmBuilder& define(const std::string& name, const std::vector<std::string>& indices, Expr value,
                           std::optional<Expr> where = std::nullopt);
  AlgorithmBuilder& outputs(const std::vector<std::string>& names);
  AlgorithmBuilder& size(const std::string& extent, std::int64_t value);
  AlgorithmBuilder& axis(const std::string& name, Expr extent);

  /// The checked value. Throws UserError with all problems.
  Algorithm build() const;

 private:
  Algorithm algorithm_;
};

}  // namespace astatide
