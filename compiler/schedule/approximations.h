#pragma once

#include <span>

#include "compiler/algorithm/expr.h"
#include "compiler/schedule/target.h"

namespace astatide {

/// An instruction that computes a function less exactly than f32 holds it, which takes `fast_math: true`.
struct Approximation {
  Op op;
  std::string_view instruction;
  int error_bits;  // results are off by up to 2^-error_bits of themselves
};

/// Those of a target; none of the CPU.
std::span<const Approximation> approximations_of(const Target& target);
/// The rounding of a result that is off by as much: to the nearest of so many bits.
double approximated(double exact, const Approximation& approximation);

}  // namespace astatide
