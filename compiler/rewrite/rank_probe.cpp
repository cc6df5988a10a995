#include "compiler/rewrite/rank_probe.h"

#include <array>
#include <cmath>
#include <utility>

#include "compiler/rewrite/derivation.h"
#include "compiler/rewrite/value_of.h"

namespace astatide {

namespace {

constexpr int kSamples = 10;
using Matrix = std::array<std::array<double, kSamples>, kSamples>;

/// The same expression with the i-th sample of everything along the axis, the k-th of every slot.
double sample(const Derivation& derivation, const Expr& f, int i, int k) {
  const Expr marked = transform(f, [&](const Expr& node) {
    if (const auto* v = node.as<Variable>()) {
      const std::set<std::string> name{v->name};
      if (derivation.is_slot(v->name)) return variable(v->name + "#" + std::to_string(k));
      if (derivation.varies_along(name)) return variable(v->name + "#" + std::to_string(i));
    }
    return node;
  });
  return RandomBindings(7, 0.2, 2.0)(marked);
}

int rank_of(Matrix a) {
  double largest = 0;
  for (int rank = 0; rank < kSamples; ++rank) {
    int row = rank, column = rank;
    for (int i = rank; i < kSamples; ++i) {
      for (int k = rank; k < kSamples; ++k) {
        if (std::abs(a[i][k]) > std::abs(a[row][column])) row = i, column = k;
      }
    }
    const double pivot = std::abs(a[row][column]);
    if (rank == 0) largest = pivot;
    if (!(pivot > 1e-9 * largest)) return rank;
    std::swap(a[rank], a[row]);
    for (auto& line : a) std::swap(line[rank], line[column]);
    for (int i = rank + 1; i < kSamples; ++i) {
      const double factor = a[i][rank] / a[rank][rank];
      for (int k = rank; k < kSamples; ++k) a[i][k] -= factor * a[rank][k];
    }
  }
  return kSamples;
}

}  // namespace

int probe_rank(const Derivation& derivation, const Expr& f) {
  Matrix samples{};
  for (int i = 0; i < kSamples; ++i) {
    for (int k = 0; k < kSamples; ++k) samples[i][k] = sample(derivation, f, i, k);
  }
  return rank_of(samples);
}

}  // namespace astatide
