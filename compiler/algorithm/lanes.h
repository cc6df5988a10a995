#pragma once

#include "compiler/algorithm/expr.h"

namespace astatide {

/// A register as an operand: a value for each lane, or one for all.
struct Lanes {
  const double* values;
  bool vector;

  double operator[](int lane) const { return vector ? values[lane] : values[0]; }
};

/// out[lane] = op(args[lane]) for `count` lanes, as `apply` has it.
void apply_lanes(Op op, const Lanes* args, int count, double* out);

/// Sum of a[lane] * b[lane] over vectors.
double dot_lanes(const double* a, const double* b, int count);
/// Sum of a vector; lanes whose `present` is 0 are left out, null: none is.
double sum_lanes(const double* a, const double* present, int count);

}  // namespace astatide
