#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "compiler/support/half.h"
#include "tests/support/cpu_runner.h"
#include "tests/support/infinity.h"
#include "tests/support/tile_statements.h"

using namespace astatide;
using namespace astatide::testing;
using namespace astatide::testing::statements;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Y[k] = f(X[k], Z[k]), computed on a host's vectors.
class Elementwise {
 public:
  Elementwise(const cpu::CpuHost& host, const Expr& f, ScalarType in = ScalarType::f32,
              ScalarType out = ScalarType::f32)
      : in_(in), out_(out), program_(build(f), host), workers_(1) {}

  std::vector<double> operator()(const std::vector<double>& x, const std::vector<double>& z = {}) {
    const auto n = static_cast<std::int64_t>(x.size());
    HostArray X = HostArray::of(in_, {n}, x), Z = HostArray::of(in_, {n}, z.empty() ? x : z);
    HostArray Y = HostArray::poisoned(out_, {n});
    program_.run({{"X", &X}, {"Z", &Z}, {"Y", &Y}}, {{"N", n}}, {}, workers_);
    bits_ = Y.bytes;
    return Y.values();
  }
  const GuardedBytes& bits() const { return bits_; }

 private:
  tile::Program build(const Expr& f) const {
    constexpr int kTile = 1000;  // no multiple of a vector
    tile::Program p;
    p.name = "elementwise";
    p.extents = {"N"};
    const Expr n = variable("N");
    p.tensors = {{"X", in_, {n}, tile::Tensor::Role::input},
                 {"Z", in_, {n}, tile::Tensor::Role::input},
                 {"Y", out_, {n}, tile::Tensor::Role::output}};
    tile::Kernel k;
    k.name = "elementwise";
    k.tiles = {{"k_o", ceil_div(n, Expr(kTile))}};
    for (const char* name : {"x", "z", "y"}) k.mems.push_back(mem(name, {{"k", kTile}}));
    const auto view = [&](const char* tensor) {
      return tile::View{tensor, {variable("k")}, {{"k", variable("k_o") * Expr(kTile), n}}, 0};
    };
    k.body = {stmt(copy("x", view("X"))), stmt(copy("z", view("Z"))), stmt(map("y", f)), stmt(copy(view("Y"), "y"))};
    p.kernels = {k};
    return p;
  }

  ScalarType in_, out_;
  CpuProgram program_;
  runtime::CpuWorkers workers_;
  GuardedBytes bits_;
};

Expr unary(Op op) { return call(op, {variable("x")}); }

double distance_in_ulp(float got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  const float nearest = static_cast<float>(want);
  if (got == nearest) return 0;
  if (std::isinf(got) || std::isinf(nearest)) {
    // Of two neighbours at the end of the range one is infinity.
    const float finite = std::isinf(got) ? nearest : got;
    return std::abs(finite) == std::numeric_limits<float>::max() ? 1 : 1e9;
  }
  const int exponent = std::max(std::ilogb(nearest == 0 ? std::numeric_limits<float>::denorm_min() : nearest), -126);
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / std::ldexp(1.0L, exponent - 23));
}

std::vector<double> every_kind_of_float(double low, double high) {
  std::mt19937 random(7);
  std::vector<double> x;
  for (int n = 0; n < 60000; ++n) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) x.push_back(value);
  }
  std::uniform_real_distribution<double> inside(low, high);
  for (int n = 0; n < 60000; ++n) x.push_back(static_cast<float>(inside(random)));
  for (int n = -150; n <= 130; ++n) x.push_back(n);
  for (double special : {0.0, -0.0, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38})
    x.push_back(static_cast<float>(special));
  for (float infinite : {kInfinity, -kInfinity}) x.push_back(infinite);
  x.push_back(kNan);
  return x;
}

struct Function {
  Op op;
  long double (*exact)(long double);
  double low, high;  // where most points lie
  double limit;      // in ulp
};

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

const Function kFunctions[] = {
    {Op::exp2, [](long double x) { return std::exp2(x); }, -152, 130, 2},
    {Op::exp, [](long double x) { return std::exp(x); }, -106, 90, 2},
    {Op::log, [](long double x) { return std::log(x); }, 0, 3, 2},
    {Op::log2, [](long double x) { return std::log2(x); }, 0, 3, 2},
    {Op::tanh, [](long double x) { return std::tanh(x); }, -10, 10, 2},
    {Op::sigmoid, sigmoid, -105, 20, 3},
    {Op::sqrt, [](long double x) { return std::sqrt(x); }, 0, 100, 0.5},
    {Op::abs, [](long double x) { return std::abs(x); }, -1, 1, 0},
    {Op::neg, [](long double x) { return -x; }, -1, 1, 0},
};

}  // namespace

TEST_CASE("Elementary functions stay within their error over the whole range of f32, on each host") {
  for (const cpu::CpuHost& host : hosts_to_test()) {
    for (const Function& f : kFunctions) {
      const std::vector<double> x = every_kind_of_float(f.low, f.high);
      const std::vector<double> y = Elementwise(host, unary(f.op))(x);
      double worst = 0, at = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        const double error = distance_in_ulp(static_cast<float>(y[k]), f.exact(static_cast<long double>(x[k])));
        if (error > worst) worst = error, at = x[k];
      }
      INFO(host.cpu << ": " << info(f.op).name << "(" << at << ") is off by " << worst << " ulp");
      CHECK(worst <= f.limit);
    }
  }
}

TEST_CASE("Elementary functions are exact where the numerics of a row depend on it") {
  for (const cpu::CpuHost& host : hosts_to_test()) {
    INFO(host.cpu);
    std::vector<double> integers, powers;
    for (int n = -149; n <= 127; ++n) {
      integers.push_back(n);
      powers.push_back(std::ldexp(1.0, n));
    }
    CHECK(Elementwise(host, unary(Op::exp2))(integers) == powers);
    CHECK(Elementwise(host, unary(Op::log2))(powers) == integers);
    CHECK(Elementwise(host, unary(Op::exp2))({-kInfinity, 0, kInfinity}) == std::vector<double>{0, 1, kInfinity});
    CHECK(Elementwise(host, unary(Op::exp))({-kInfinity, 0, kInfinity}) == std::vector<double>{0, 1, kInfinity});
    CHECK(Elementwise(host, unary(Op::log))({0, 1, kInfinity}) == std::vector<double>{-kInfinity, 0, kInfinity});
    CHECK(Elementwise(host, unary(Op::safe))({-kInfinity, 2, kInfinity}) == std::vector<double>{0, 2, kInfinity});
    const Expr absorbed = call(Op::absorb, {variable("x"), variable("z")});
    CHECK(Elementwise(host, absorbed)({0, 0, 2}, {kInfinity, kNan, 3}) == std::vector<double>{0, 0, 6});
  }
}

TEST_CASE("A product and a difference are rounded one by one, so that equal terms cancel exactly") {
  const Expr difference = variable("x") * variable("z") - variable("z") * variable("x");
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 1e4);
  std::vector<double> x, z;
  for (int n = 0; n < 1000; ++n) x.push_back(normal(random)), z.push_back(normal(random));
  for (const cpu::CpuHost& host : hosts_to_test())
    CHECK(Elementwise(host, difference)(x, z) == std::vector<double>(x.size(), 0));
}

TEST_CASE("Maximum and minimum pass a NaN on from either side") {
  for (const cpu::CpuHost& host : hosts_to_test()) {
    for (Op op : {Op::max, Op::min}) {
      const Expr f = call(op, {variable("x"), variable("z")});
      const std::vector<double> y = Elementwise(host, f)({kNan, 1, 1, -kInfinity}, {1, kNan, 2, 5});
      CHECK(std::isnan(y[0]));
      CHECK(std::isnan(y[1]));
      CHECK(y[2] == (op == Op::max ? 2 : 1));
      CHECK(y[3] == (op == Op::max ? 5 : -kInfinity));
    }
  }
}

TEST_CASE("Conversions from and to 16-bit floats have the bits of half.h for every pattern") {
  for (const cpu::CpuHost& host : hosts_to_test()) {
    for (ScalarType type : {ScalarType::f16, ScalarType::bf16}) {
      INFO(host.cpu << " " << name_of(type));
      std::vector<double> patterns;
      for (std::uint32_t bits = 0; bits < 65536; ++bits)
        patterns.push_back(type == ScalarType::f16 ? f16_to_f32(static_cast<std::uint16_t>(bits))
                                                   : bf16_to_f32(static_cast<std::uint16_t>(bits)));
      const std::vector<double> widened = Elementwise(host, variable("x"), type, ScalarType::f32)(patterns);
      std::size_t different = 0;
      for (std::size_t k = 0; k < patterns.size(); ++k)
        different += widened[k] != patterns[k] && !(std::isnan(widened[k]) && std::isnan(patterns[k]));
      CHECK(different == 0);

      // Each value, the ties between neighbours, and a little beside them.
      std::vector<double> values;
      for (double value : patterns) {
        if (!std::isfinite(value)) continue;
        const float step = std::max(std::abs(static_cast<float>(value)) * 0x1p-12f, 0x1p-149f);
        for (float offset : {0.0f, step, -step, 1.001f * step, type == ScalarType::f16 ? 0x1p-25f : 0x1p-134f})
          values.push_back(static_cast<float>(value) + offset);
      }
      for (double value : {65519.99, 65520.0, 3.4e38, 3.3961776e38}) values.push_back(static_cast<float>(value));
      values.push_back(kInfinity);
      Elementwise narrow(host, variable("x"), ScalarType::f32, type);
      narrow(values);
      different = 0;
      for (std::size_t k = 0; k < values.size(); ++k) {
        std::uint16_t got = 0;
        std::memcpy(&got, narrow.bits().data() + 2 * k, 2);
        const auto value = static_cast<float>(values[k]);
        different += got != (type == ScalarType::f16 ? f32_to_f16(value) : f32_to_bf16(value));
      }
      CHECK(different == 0);
      CHECK(std::isnan(narrow({kNan})[0]));
    }
  }
}
