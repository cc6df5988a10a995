#include "compiler/algorithm/lanes.h"

#include <cmath>
#include <limits>

namespace astatide {
namespace {

template <class F>
void map_one(const F& f, const Lanes& a, int count, double* out) {
  for (int i = 0; i < count; ++i) out[i] = f(a.values[i]);
}

template <class F>
void map_two(const F& f, const Lanes& a, const Lanes& b, int count, double* out) {
  if (a.vector && b.vector) {
    for (int i = 0; i < count; ++i) out[i] = f(a.values[i], b.values[i]);
  } else if (a.vector) {
    const double y = b.values[0];
    for (int i = 0; i < count; ++i) out[i] = f(a.values[i], y);
  } else {
    const double x = a.values[0];
    const int step = b.vector ? 1 : 0;
    for (int i = 0; i < count; ++i) out[i] = f(x, b.values[i * step]);
  }
}

}  // namespace

void apply_lanes(Op op, const Lanes* args, int count, double* out) {
  const auto two = [&](const auto& f) { map_two(f, args[0], args[1], count, out); };
  const auto one = [&](const auto& f) { map_one(f, args[0], count, out); };
  switch (op) {
    // The operations that fill the inner loops, so that each is a loop of its own.
    case Op::add:
      return two([](double x, double y) { return x + y; });
    case Op::sub:
      return two([](double x, double y) { return x - y; });
    case Op::mul:
      return two([](double x, double y) { return x * y; });
    case Op::div:
      return two([](double x, double y) { return x / y; });
    case Op::lt:
      return two([](double x, double y) -> double { return x < y; });
    case Op::le:
      return two([](double x, double y) -> double { return x <= y; });
    case Op::gt:
      return two([](double x, double y) -> double { return x > y; });
    case Op::ge:
      return two([](double x, double y) -> double { return x >= y; });
    case Op::eq:
      return two([](double x, double y) -> double { return x == y; });
    case Op::ne:
      return two([](double x, double y) -> double { return x != y; });
    case Op::logical_and:
      return two([](double x, double y) -> double { return x != 0 && y != 0; });
    case Op::logical_not:
      return one([](double x) -> double { return x == 0; });
    case Op::neg:
      return one([](double x) { return -x; });
    case Op::exp:
      return one([](double x) { return std::exp(x); });
    case Op::exp2:
      return one([](double x) { return std::exp2(x); });
    case Op::tanh:
      return one([](double x) { return std::tanh(x); });
    case Op::select:
      for (int i = 0; i < count; ++i) out[i] = args[0][i] != 0 ? args[1][i] : args[2][i];
      return;
    default:
      break;
  }
  const int arity = info(op).arity;
  for (int i = 0; i < count; ++i) {
    double values[3] = {0, 0, 0};
    for (int k = 0; k < arity; ++k) values[k] = args[k][i];
    out[i] = apply(op, values);
  }
}

double dot_lanes(const double* a, const double* b, int count) {
  // Eight chains, so that the loop is a vector loop though addition does not associate.
  double sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  int i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < count; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double sum_lanes(const double* a, const double* present, int count) {
  double sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  if (present) {
    // Not a product with the mask: an absent lane may hold an infinity or a NaN.
    for (int i = 0; i < count; ++i) sums[i % 8] += present[i] != 0 ? a[i] : 0;
  } else {
    int i = 0;
    for (; i + 8 <= count; i += 8)
      for (int k = 0; k < 8; ++k) sums[k] += a[i + k];
    for (; i < count; ++i) sums[i % 8] += a[i];
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace astatide
