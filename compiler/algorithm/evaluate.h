#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// A dense row-major tensor of doubles, for the evaluator.
struct DoubleTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// Values for one evaluation: every extent, the scalars that differ from their defaults, every input.
struct Arguments {
  std::map<std::string, std::int64_t> extents;
  std::map<std::string, double> scalars;
  std::map<std::string, DoubleTensor> inputs;
};

/// f32: every operation and every step of a sum is rounded to f32, each definition by itself as it is written. That is
/// the plain computation whose error the numerics contract compares a kernel's with; integers stay exact.
enum class Precision : std::uint8_t { f64, f32 };

/// What else a computation rounds. Results of operations, before they are used, and definitions, element by element,
/// before others read them; `row` counts the rows of the definition's last axis.
struct Roundings {
  using Function = std::function<double(double)>;
  using ElementFunction = std::function<double(double value, std::int64_t row)>;
  std::map<std::string, ElementFunction> definitions;  // and what updates store, by the input
  std::map<Op, Function> operations;
};

/// Evaluates the outputs of any algorithm, and what updates make of inputs, by the inputs' names, in double precision,
/// straight from its meaning: the oracle of all tests. An output element that is absent (its own predicate is false) is
/// 0. Reductions over nothing give their unit. Slow: time and memory grow with the product of all extents; throws
/// UserError where a definition has more than 2^31 elements.
std::map<std::string, DoubleTensor> evaluate(const Algorithm& algorithm, const Arguments& arguments,
                                             Precision precision = Precision::f64, const Roundings& rounded = {});

/// Scalars with defaults filled in. Throws UserError where one is missing or not finite.
std::map<std::string, double> resolve_scalars(const Algorithm& algorithm,
                                              const std::map<std::string, std::int64_t>& extents,
                                              const std::map<std::string, double>& given);

}  // namespace astatide
