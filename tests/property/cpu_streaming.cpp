#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/support/cpu_runner.h"
#include "tests/support/infinity.h"
#include "tests/support/streaming_program.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

struct Shape {
  std::int64_t B, H, Sq, Sk;
};

std::vector<double> gaussian(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

struct Inputs {
  HostArray Q, K, V;
};

Inputs dense_inputs(const StreamingSizes& sizes, const Shape& s, unsigned seed) {
  const auto make = [&](std::int64_t rows, std::int64_t width, unsigned n) {
    return HostArray::of(sizes.type, {s.B, s.H, rows, width}, gaussian(s.B * s.H * rows * width, seed + n));
  };
  return {make(s.Sq, sizes.head_dim, 1), make(s.Sk, sizes.head_dim, 2), make(s.Sk, sizes.value_dim, 3)};
}

struct Computed {
  HostArray O, L;
};

Computed run(CpuProgram& program, const StreamingSizes& sizes, const Shape& s, Inputs& in,
             runtime::CpuWorkers& workers) {
  Computed out{HostArray::poisoned(sizes.type, {s.B, s.H, s.Sq, sizes.value_dim}),
               HostArray::poisoned(ScalarType::f32, {s.B, s.H, s.Sq})};
  const auto c = static_cast<float>(std::log2(std::exp(1.0)) / std::sqrt(sizes.head_dim));
  program.run({{"Q", &in.Q}, {"K", &in.K}, {"V", &in.V}, {"O", &out.O}, {"L", &out.L}},
              {{"B", s.B}, {"H", s.H}, {"Sq", s.Sq}, {"Sk", s.Sk}}, {{"c", c}}, workers);
  return out;
}

// Straight from the formula, in double precision; the first output that is too far off, or empty.
std::string first_difference(const StreamingSizes& sizes, const Shape& s, const Inputs& in, const Computed& out) {
  const double limit = sizes.type == ScalarType::f32 ? 1e-5 : sizes.type == ScalarType::f16 ? 2e-3 : 1.6e-2;
  const double scale = 1 / std::sqrt(sizes.head_dim);
  const std::vector<double> Q = in.Q.values(), K = in.K.values(), V = in.V.values();
  double largest = 0;
  for (double v : V) largest = std::max(largest, std::abs(v));
  std::vector<double> weights(static_cast<std::size_t>(s.Sk));
  for (std::int64_t b = 0; b < s.B; ++b) {
    for (std::int64_t h = 0; h < s.H; ++h) {
      const double* keys = K.data() + (b * s.H + h) * s.Sk * sizes.head_dim;
      const double* values = V.data() + (b * s.H + h) * s.Sk * sizes.value_dim;
      for (std::int64_t i = 0; i < s.Sq; ++i) {
        const double* query = Q.data() + ((b * s.H + h) * s.Sq + i) * sizes.head_dim;
        const std::int64_t visible = sizes.causal ? std::clamp<std::int64_t>(i + s.Sk - s.Sq + 1, 0, s.Sk) : s.Sk;
        double maximum = -kInfinity, sum = 0;
        for (std::int64_t j = 0; j < visible; ++j) {
          double& score = weights[static_cast<std::size_t>(j)] = 0;
          for (std::int64_t d = 0; d < sizes.head_dim; ++d) score += query[d] * keys[j * sizes.head_dim + d];
          score *= scale;
          maximum = std::max(maximum, score);
        }
        for (std::int64_t j = 0; j < visible; ++j)
          sum += weights[static_cast<std::size_t>(j)] = std::exp(weights[static_cast<std::size_t>(j)] - maximum);
        const auto where = [&](const std::string& name, double got, double want) {
          return name + "[" + std::to_string(b) + "," + std::to_string(h) + "," + std::to_string(i) + "] is " +
                 std::to_string(got) + ", not " + std::to_string(want);
        };
        const double L = visible == 0 ? -kInfinity : maximum + std::log(sum), got_L = out.L.get({b, h, i});
        if (visible == 0 ? got_L != L : !(std::abs(got_L - L) <= 1e-5 * std::max(1.0, std::abs(L))))
          return where("L", got_L, L);
        for (std::int64_t e = 0; e < sizes.value_dim; ++e) {
          double want = 0;
          for (std::int64_t j = 0; j < visible; ++j)
            want += weights[static_cast<std::size_t>(j)] / sum * values[j * sizes.value_dim + e];
          const double got = out.O.get({b, h, i, e});
          if (visible == 0 ? got != 0 : !(std::abs(got - want) <= limit * largest)) return where("O", got, want);
        }
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("One pass and three kernels agree with the formula, for ragged, tiny and empty shapes of each type") {
  runtime::CpuWorkers workers;
  const std::vector<Shape> shapes = {{2, 2, 130, 257}, {1, 1, 1, 1},  {1, 3, 5, 130}, {1, 2, 70, 3}, {1, 1, 64, 64},
                                     {1, 2, 65, 63},   {1, 1, 33, 0}, {0, 2, 16, 16}, {2, 1, 0, 40}, {1, 1, 40, 17}};
  std::vector<StreamingSizes> variants;
  for (ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16}) {
    variants.push_back({64, 64, 64, 64, type, false});
    variants.push_back({16, 48, 72, 40, type, true});
  }
  variants.push_back({5, 7, 3, 1, ScalarType::f32, true});
  variants.push_back({1, 32, 64, 64, ScalarType::f32, false});
  for (const StreamingSizes& sizes : variants) {
    for (const bool one_pass : {true, false}) {
      CpuProgram program(one_pass ? streaming_program(sizes) : three_kernel_program(sizes), cpu::detect_host());
      for (const Shape& s : shapes) {
        INFO("tiles " << sizes.rows << "x" << sizes.columns << " D " << sizes.head_dim << " Dv " << sizes.value_dim
                      << " " << name_of(sizes.type) << (sizes.causal ? " causal" : "")
                      << (one_pass ? ", one pass" : ", three kernels") << ": B " << s.B << " H " << s.H << " Sq "
                      << s.Sq << " Sk " << s.Sk << ", seed 11");
        Inputs in = dense_inputs(sizes, s, 11);
        const Computed out = run(program, sizes, s, in, workers);
        CHECK(first_difference(sizes, s, in, out) == "");
      }
    }
  }
}

TEST_CASE("Poorer hosts keep the numerics") {
  runtime::CpuWorkers workers;
  const Shape s{1, 2, 70, 131};
  for (const cpu::CpuHost& host : hosts_to_test()) {
    for (ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16}) {
      const StreamingSizes sizes{32, 32, 40, 24, type, true};
      CpuProgram program(streaming_program(sizes), host);
      Inputs in = dense_inputs(sizes, s, 5);
      INFO(host.cpu << " " << name_of(type));
      CHECK(first_difference(sizes, s, in, run(program, sizes, s, in, workers)) == "");
    }
  }
}

TEST_CASE("The number of threads does not change a bit") {
  const StreamingSizes sizes{16, 32, 64, 64, ScalarType::f32, true};
  const Shape s{2, 3, 200, 300};
  CpuProgram program(streaming_program(sizes), cpu::detect_host());
  Inputs in = dense_inputs(sizes, s, 23);
  runtime::CpuWorkers one(1);
  const Computed expected = run(program, sizes, s, in, one);
  for (int threads : {2, 3, 7}) {
    runtime::CpuWorkers workers(threads);
    const Computed out = run(program, sizes, s, in, workers);
    CHECK(out.O.bytes == expected.O.bytes);
    CHECK(out.L.bytes == expected.L.bytes);
  }
}

TEST_CASE("Strides do not change a bit: slices of one packed tensor, broadcast heads, columns that lie apart") {
  runtime::CpuWorkers workers;
  const Shape s{2, 3, 45, 45};
  for (ScalarType type : {ScalarType::f32, ScalarType::bf16}) {
    const StreamingSizes sizes{16, 32, 40, 40, type, false};
    CpuProgram program(streaming_program(sizes), cpu::detect_host());
    Inputs dense = dense_inputs(sizes, s, 31);
    const Computed expected = run(program, sizes, s, dense, workers);
    const std::int64_t D = sizes.head_dim;
    const auto restrided = [&](const std::vector<std::int64_t>& strides) {
      const auto again = [&](const HostArray& array) {
        return HostArray::of(type, array.shape, array.values(), strides);
      };
      return Inputs{again(dense.Q), again(dense.K), again(dense.V)};
    };
    // (B, S, 3, H, D), one of the three; (B, D, H, S); every second element, backwards along S.
    const std::vector<std::vector<std::int64_t>> layouts = {
        {45 * 3 * 3 * D, D, 3 * 3 * D, 1}, {D * 3 * 45, 45, 1, 3 * 45}, {3 * 45 * D * 2, 45 * D * 2, -2 * D, 2}};
    for (const auto& strides : layouts) {
      Inputs in = restrided(strides);
      CHECK(run(program, sizes, s, in, workers).O.bytes == expected.O.bytes);
    }

    // All heads read the keys and values of one.
    Inputs shared = dense, copied = dense;
    for (HostArray* array : {&shared.K, &shared.V}) array->strides[1] = 0;
    copied.K = HostArray::of(type, shared.K.shape, shared.K.values());
    copied.V = HostArray::of(type, shared.V.shape, shared.V.values());
    CHECK(run(program, sizes, s, shared, workers).O.bytes == run(program, sizes, s, copied, workers).O.bytes);
  }
}

TEST_CASE("One visible key gives its value, however large the score") {
  runtime::CpuWorkers workers;
  const StreamingSizes sizes{16, 32, 128, 64, ScalarType::bf16, false};
  const Shape s{1, 4, 1, 1};
  CpuProgram program(streaming_program(sizes), cpu::detect_host());
  Inputs in = dense_inputs(sizes, s, 2);
  in.Q = HostArray::of(sizes.type, in.Q.shape, std::vector<double>(4 * 128, 64));
  in.K = HostArray::of(sizes.type, in.K.shape, std::vector<double>(4 * 128, -64));
  const Computed out = run(program, sizes, s, in, workers);
  CHECK(out.O.bytes == in.V.bytes);
  CHECK(out.L.get({0, 0, 0}) == Approx(-46340.950).margin(0.01));
}
