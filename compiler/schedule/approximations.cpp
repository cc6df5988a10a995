#include "compiler/schedule/approximations.h"

#include <array>
#include <cmath>

namespace astatide {
namespace {

// PTX ISA, tanh: sm_75 and later, a relative error of at most 2^-11. Every CUDA target here has it.
constexpr std::array kOfCuda{Approximation{Op::tanh, "tanh.approx.f32", 11}};

}  // namespace

std::span<const Approximation> approximations_of(const Target& target) {
  if (!target.is_cuda()) return {};
  return kOfCuda;
}

double approximated(double exact, const Approximation& approximation) {
  if (exact == 0 || !std::isfinite(exact)) return exact;
  int exponent = 0;
  const double mantissa = std::frexp(exact, &exponent);
  // A half of the last place of n bits is between 2^-n and 2^-(n + 1) of the number.
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, approximation.error_bits)),
                    exponent - approximation.error_bits);
}

}  // namespace astatide
