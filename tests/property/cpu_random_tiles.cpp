#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "compiler/tile/interpret.h"
#include "tests/support/cpu_runner.h"
#include "tests/support/infinity.h"
#include "tests/support/tile_statements.h"

// Random tile programs over small integers, whose sums and products are exact in f32: what the code for a host computes
// must equal what the interpreter computes, bit for bit.

using namespace astatide;
using namespace astatide::testing;
using namespace astatide::testing::statements;

namespace {

class RandomTiles {
 public:
  explicit RandomTiles(unsigned seed) : random_(seed) {}

  bool chance(int percent) { return pick(1, 100) <= percent; }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  template <class T>
  T one_of(std::vector<T> values) {
    return values[static_cast<std::size_t>(pick(0, static_cast<int>(values.size()) - 1))];
  }
  int tile_extent() { return one_of<int>({1, 2, 3, 4, 8, 13, 16, 17, 32, 40}); }
  ScalarType float_type() { return one_of<ScalarType>({ScalarType::f32, ScalarType::f16, ScalarType::bf16}); }

  // C[h,i,j] = reduction and maps over A[h,i,k] * B[h,j,k], R[h,i] = sums of rows: each step in one of several ways.
  tile::Program program() {
    m_ = tile_extent();
    n_ = tile_extent();
    k_ = tile_extent();
    tile::Program p;
    p.name = "random_tiles";
    p.extents = {"H", "M", "N", "K"};
    p.scalars = {"two"};
    const Expr H = variable("H"), M = variable("M"), N = variable("N"), K = variable("K");
    p.tensors = {{"A", float_type(), {H, M, K}, tile::Tensor::Role::input},
                 {"B", float_type(), {H, N, K}, tile::Tensor::Role::input},
                 {"X",
                  one_of<ScalarType>({ScalarType::i32, ScalarType::f32, ScalarType::u8, ScalarType::i64}),
                  {M, N},
                  tile::Tensor::Role::input},
                 {"C", float_type(), {H, M, N}, tile::Tensor::Role::output},
                 {"R", ScalarType::f32, {H, M}, tile::Tensor::Role::output}};
    p.kernels = {kernel()};
    return p;
  }

  HostArray input(const tile::Tensor& tensor, const std::map<std::string, std::int64_t>& sizes) {
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    for (const Expr& dim : tensor.dims) {
      shape.push_back(evaluate_integer(dim, sizes));
      count *= shape.back();
    }
    std::vector<double> values;
    for (std::int64_t e = 0; e < count; ++e) values.push_back(pick(is_floating(tensor.type) ? -3 : 0, 3));
    return HostArray::of(tensor.type, shape, values, strides(shape));
  }
  HostArray output(const tile::Tensor& tensor, const std::map<std::string, std::int64_t>& sizes) {
    HostArray array = input(tensor, sizes);
    std::fill(array.bytes.begin(), array.bytes.end(), std::byte{0xff});
    return array;
  }

 private:
  // Dense in a random order of axes, now and then with room between rows.
  std::vector<std::int64_t> strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::size_t> order(shape.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    if (chance(40)) std::shuffle(order.begin(), order.end(), random_);
    std::vector<std::int64_t> result(shape.size());
    std::int64_t stride = chance(20) ? 2 : 1;
    for (std::size_t d = order.size(); d-- > 0;) {
      result[order[d]] = stride;
      stride = stride * std::max<std::int64_t>(shape[order[d]], 1) + (chance(30) ? 5 : 0);
    }
    return result;
  }

  std::vector<tile::Dim> dims(tile::Dim a, tile::Dim b) {
    return chance(50) ? std::vector<tile::Dim>{a, b} : std::vector<tile::Dim>{b, a};
  }
  tile::Coordinate row() const { return {"i", variable("i_o") * Expr(m_), variable("M")}; }
  tile::Coordinate column() const { return {"j", variable("j_o") * Expr(n_), variable("N")}; }
  tile::View view(const std::string& tensor, std::vector<Expr> indices, std::vector<tile::Coordinate> at,
                  double absent = 0) const {
    return {tensor, std::move(indices), std::move(at), absent};
  }

  Expr some_expression(const std::string& tile) {
    const Expr x = variable(tile), i = variable("i"), j = variable("j"), read_x = read("X", {i, j});
    switch (pick(0, 9)) {
      case 0:
        return x + variable("two");
      case 1:
        return x * Expr(2.0) - read_x;
      case 2:
        return max(x, min(i, j));
      case 3:
        return select(less(i, j + Expr(2)), x, -x);
      case 4:
        return select(less(Expr(2), j), read("X", {i, j - Expr(3)}), x);
      case 5:
        return x + mod(i * Expr(5) - j * Expr(3), Expr(7)) * Expr(1.0);
      case 6:
        return x - floor_div(j - i, Expr(4)) + floor_div(i, Expr(3));
      case 7:
        return call(Op::abs, {x}) + variable("i_o");
      case 8:
        return absorb(x, read_x) + safe(x);
      default:
        return select(logical_and(less(Expr(0), read_x), less(x, Expr(3.0))), x * x, Expr(1.0));
    }
  }

  tile::Map random_map(const std::string& dst, const std::string& src) {
    tile::Map s = map(dst, some_expression(src));
    s.at = {row(), column()};
    if (chance(50)) {
      s.absent = one_of<double>({0, 1, -kInfinity});
      if (chance(50)) s.where_predicates.push_back(less_equal(variable("j"), variable("i") + Expr(pick(-2, 9))));
      if (chance(30)) s.where_predicates.push_back(less(Expr(0), read("X", {variable("i"), variable("j")})));
    }
    if (dst == src && chance(30)) {
      const int last = s.dst == "S" ? s_dims_.back().extent : 0;
      s.columns = tile::Columns{pick(0, last - 1), last};
      if (chance(50)) s.columns->end = pick(s.columns->begin + 1, last);
    }
    return s;
  }

  tile::Kernel kernel() {
    tile::Kernel kernel;
    kernel.name = "random_tiles";
    kernel.tiles = {{"i_o", ceil_div(variable("M"), Expr(m_))}, {"h", variable("H")}};
    if (chance(50)) std::swap(kernel.tiles[0], kernel.tiles[1]);
    if (chance(30)) kernel.vector_lanes = one_of<int>({1, 2, 8, 32});
    const tile::Dim i{"i", m_}, j{"j", n_}, k{"k", k_};
    s_dims_ = dims(i, j);
    const int strip_length = (pick(1, 3) * n_) + (chance(30) ? 1 : 0);
    strip_tiles_ = strip_length / n_;
    kernel.mems = {mem("A_s", dims(i, k), Space::shared, float_type()),
                   mem("B_s", dims(j, k), Space::shared),
                   mem("S", s_dims_),
                   mem("P", dims(i, j)),
                   mem("strip", dims(i, {"j", strip_length}), Space::shared),
                   mem("r", {i}),
                   mem("t", {i}),
                   mem("u", {j})};
    const bool ring = chance(30);
    if (ring) kernel.mems[1].ring = pick(1, 3);

    const Expr h = variable("h"), vi = variable("i"), vj = variable("j"), vk = variable("k");
    tile::Block step;
    const auto load_b = [&] {
      return stmt(copy("B_s", view("B", {h, vj, vk}, {column(), {"k", variable("k_o") * Expr(k_), variable("K")}})));
    };
    tile::Block inner = {
        stmt(copy("A_s", view("A", {h, vi, vk}, {row(), {"k", variable("k_o") * Expr(k_), variable("K")}}))), load_b()};
    if (ring) inner.push_back(stmt(tile::Acquire{"B_s"}));
    inner.push_back(stmt(product("S", chance(50) ? "A_s" : "B_s", "", true)));
    auto& mma = std::get<tile::Mma>(inner.back().node);
    mma.rhs = std::get<tile::TileName>(mma.lhs) == "A_s" ? "B_s" : "A_s";
    if (chance(30)) mma.unroll = pick(1, 5);
    if (ring) inner.push_back(stmt(tile::Release{"B_s"}));
    step.push_back(stmt(fill("S", 0)));
    step.push_back(stmt(tile::For{"k_o", Expr(0), ceil_div(variable("K"), Expr(k_)),
                                  chance(20) ? tile::For::Kind::unrolled : tile::For::Kind::serial, chance(30),
                                  std::move(inner), ""}));
    for (int n = pick(0, 2); n > 0; --n) step.push_back(stmt(random_map("S", "S")));
    step.push_back(stmt(random_map("P", "S")));
    if (chance(50)) {
      step.push_back(stmt(tile::Vote{"any", less(Expr(static_cast<double>(pick(0, 30))), variable("P"))}));
      step.push_back(
          stmt(tile::If{variable("any"), tile::If::Uniform::block, false, {stmt(map("P", -variable("P")))}}));
    }
    const Reduction op = one_of<Reduction>({Reduction::sum, Reduction::max, Reduction::min});
    // Sums of infinities of both signs have no value.
    tile::Map finite = map("S", select(less(call(Op::abs, {variable("P")}), Expr(1e6)), variable("P"), Expr(-7.0)));
    step.push_back(stmt(finite));
    step.push_back(stmt(reduce("u", op, "S")));
    step.push_back(stmt(map("P", variable("P") + variable("u"))));
    step.push_back(stmt(reduce("t", op, "S")));
    std::get<tile::RowReduce>(step.back().node).accumulate = true;
    if (chance(50) && s_dims_.back().axis == "j") {
      tile::RowReduce part = reduce("t", op, "S");
      part.accumulate = true;
      part.columns = tile::Columns{0, pick(1, s_dims_.back().extent)};
      step.push_back(stmt(part));
    }
    step.push_back(stmt(map("r", variable("r") + variable("t"))));
    // Through a strip, and out of it at another place.
    const auto in_strip = [&](Expr origin, std::optional<Expr> limit) {
      return tile::Strip{"strip", {{"j", std::move(origin), std::move(limit)}}, 5};
    };
    const Expr slot = mod(variable("j_o"), Expr(strip_tiles_)) * Expr(n_);
    step.push_back(stmt(copy(in_strip(slot, std::nullopt), "P")));
    step.push_back(
        stmt(copy("P", in_strip(slot, chance(50) ? std::optional<Expr>(slot + Expr(pick(0, n_))) : std::nullopt))));
    step.push_back(stmt(copy(view("C", {h, vi, vj}, {row(), column()}), "P")));

    kernel.body = {stmt(fill("r", 1)), stmt(fill("t", 0)),
                   stmt(tile::For{"j_o", Expr(0), ceil_div(variable("N"), Expr(n_)), tile::For::Kind::serial,
                                  chance(30), std::move(step), ""}),
                   stmt(copy(view("R", {h, vi}, {row()}), "r"))};
    return kernel;
  }

  std::mt19937 random_;
  int m_ = 1, n_ = 1, k_ = 1, strip_tiles_ = 1;
  std::vector<tile::Dim> s_dims_;
};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

TEST_CASE("Random tile programs compute what the interpreter computes, on each host") {
  const std::vector<cpu::CpuHost> hosts = hosts_to_test();
  runtime::CpuWorkers workers;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    RandomTiles random(seed);
    const tile::Program program = random.program();
    const std::map<std::string, std::int64_t> sizes = {
        {"H", random.pick(1, 2)}, {"M", random.pick(0, 40)}, {"N", random.pick(0, 60)}, {"K", random.pick(0, 40)}};
    INFO("seed " << seed << "\n" << tile::print(program));
    Arguments arguments;
    arguments.extents = sizes;
    arguments.scalars = {{"two", 2}};
    std::map<std::string, HostArray> inputs;
    for (const tile::Tensor& tensor : program.tensors) {
      if (tensor.role != tile::Tensor::Role::input) continue;
      HostArray& array = inputs[tensor.name] = random.input(tensor, sizes);
      arguments.inputs[tensor.name] = {array.shape, array.values()};
    }
    tile::InterpretOptions options;
    options.round_storage = true;
    const auto expected = tile::interpret(program, arguments, options);
    // The narrow hosts take turns: code for them is long.
    for (const cpu::CpuHost& host : {hosts[0], hosts[seed % hosts.size()]}) {
      std::map<std::string, HostArray> outputs;
      std::map<std::string, HostArray*> tensors;
      for (const tile::Tensor& tensor : program.tensors)
        if (tensor.role == tile::Tensor::Role::output) outputs[tensor.name] = random.output(tensor, sizes);
      for (auto& [name, array] : inputs) tensors[name] = &array;
      for (auto& [name, array] : outputs) tensors[name] = &array;
      CpuProgram(program, host).run(tensors, sizes, {{"two", 2.0f}}, workers);
      for (const auto& [name, values] : expected) {
        const std::vector<double> got = outputs.at(name).values();
        for (std::size_t e = 0; e < got.size(); ++e) {
          INFO(host.cpu << ": " << name << "[" << e << "] is " << got[e] << ", not " << values.values[e]);
          if (!same(got[e], values.values[e])) FAIL();
        }
      }
    }
  }
  CHECK(true);
}
