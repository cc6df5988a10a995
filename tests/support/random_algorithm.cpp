#include "tests/support/random_algorithm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>
#include <utility>

#include "tests/support/case_data.h"

namespace astatide::testing {
namespace {

constexpr int kExtents = 3;
/// Axes i, j, k of definitions and r, s, t of reductions run over the extents E0, E1, E2.
constexpr std::array<const char*, kExtents> kAxes{"i", "j", "k"};
constexpr std::array<const char*, kExtents> kReductionAxes{"r", "s", "t"};

std::string extent_name(int i) { return "E" + std::to_string(i); }

struct RandomTensor {
  std::string name;
  std::vector<int> extents;
};

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  Algorithm generate() {
    for (const char* name : {"x", "y"}) reals_.push_back({name, random_dims()});
    integers_.push_back({"n", random_dims()});
    booleans_.push_back({"m", random_dims()});
    algorithm_.name = "random";
    const int definitions = below(4) + 1;
    for (int d = 0; d < definitions; ++d) add_definition("F" + std::to_string(d));
    declare_what_is_used();
    return algorithm_;
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }

  std::vector<int> random_dims() {
    std::vector<int> dims(static_cast<std::size_t>(below(3) + 1));
    for (int& dim : dims) dim = below(kExtents);
    return dims;
  }

  int extent_of(const std::string& axis) const {
    for (int i = 0; i < kExtents; ++i)
      if (axis == kAxes[static_cast<std::size_t>(i)] || axis == kReductionAxes[static_cast<std::size_t>(i)]) return i;
    return 0;
  }

  void add_definition(const std::string& name) {
    Func func;
    func.name = name;
    std::vector<int> order{0, 1, 2};
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(static_cast<std::size_t>(below(kExtents + 1)));
    axes_.clear();
    for (const int i : order) axes_.emplace_back(kAxes[static_cast<std::size_t>(i)]);
    func.indices = axes_;
    func.value = real(4);
    if (chance(40)) func.where_predicate = condition(3);
    algorithm_.define.push_back(func);
    reals_.push_back({name, order});
  }

  /// An index into a dimension, never outside of it.
  Expr index(int extent) {
    std::vector<Expr> fitting;
    for (const std::string& axis : axes_)
      if (extent_of(axis) == extent) fitting.push_back(variable(axis));
    if (!fitting.empty() && chance(80))
      return fitting[static_cast<std::size_t>(below(static_cast<int>(fitting.size())))];
    // Indices of reads in an index stay small, or expressions would grow without bound.
    const int depth = in_index_ > 0 ? 0 : 2;
    ++in_index_;
    const Expr e = call(Op::mod, {integer(depth), variable(extent_name(extent))});
    --in_index_;
    return e;
  }

  Expr read_of(const std::vector<RandomTensor>& tensors) {
    const RandomTensor& tensor = tensors[static_cast<std::size_t>(below(static_cast<int>(tensors.size())))];
    std::vector<Expr> indices;
    for (const int extent : tensor.extents) indices.push_back(index(extent));
    const Expr element = read(tensor.name, indices);
    if (tensor.extents.empty() || !chance(15)) return element;
    // One index that may fall outside, with a guard that keeps it from being read there.
    const int length = tensor.extents.front();
    const Expr shifted = call(Op::sub, {indices.front(), Expr(1 + below(2))});
    indices.front() = shifted;
    const Expr inside = call(
        Op::logical_and, {call(Op::ge, {shifted, Expr(0)}), call(Op::lt, {shifted, variable(extent_name(length))})});
    return call(Op::select, {inside, read(tensor.name, indices), element});
  }

  Expr integer_leaf() {
    switch (below(4)) {
      case 0:
        if (!axes_.empty()) return variable(axes_[static_cast<std::size_t>(below(static_cast<int>(axes_.size())))]);
        [[fallthrough]];
      case 1:
        return variable(extent_name(below(kExtents)));
      default:
        return Expr(below(9) - 3);
    }
  }

  Expr integer(int depth) {
    if (depth == 0) return integer_leaf();
    switch (below(10)) {
      case 0:
        return call(Op::add, {integer(depth - 1), integer(depth - 1)});
      case 1:
        return call(Op::sub, {integer(depth - 1), integer(depth - 1)});
      case 2:
        return call(Op::mul, {integer(depth - 1), integer(depth - 1)});
      case 3:
        return call(Op::floor_div, {integer(depth - 1), Expr(below(4) + 1)});
      case 4:
        return call(Op::mod, {integer(depth - 1), Expr(below(4) + 1)});
      case 5:
        return call(chance(50) ? Op::min : Op::max, {integer(depth - 1), integer(depth - 1)});
      case 6:
        return call(chance(50) ? Op::neg : Op::abs, {integer(depth - 1)});
      case 7:
        return call(Op::select, {condition(depth - 1), integer(depth - 1), integer(depth - 1)});
      case 8:
        return read_of(integers_);
      default:
        return integer_leaf();
    }
  }

  Expr condition(int depth) {
    constexpr std::array kComparisons{Op::lt, Op::le, Op::gt, Op::ge};
    const Op comparison = kComparisons[static_cast<std::size_t>(below(4))];
    if (depth == 0) return call(comparison, {integer_leaf(), integer_leaf()});
    switch (below(7)) {
      case 0:
        return call(Op::logical_and, {condition(depth - 1), condition(depth - 1)});
      case 1:
        return call(Op::logical_or, {condition(depth - 1), condition(depth - 1)});
      case 2:
        return call(Op::logical_not, {condition(depth - 1)});
      case 3:
        return call(chance(50) ? Op::eq : Op::ne, {integer(depth - 1), integer(depth - 1)});
      case 4:
        return read_of(booleans_);
      case 5:
        // An index reads integers and booleans only.
        if (in_index_ > 0) return condition(depth - 1);
        return call(comparison, {real_without_reductions(depth - 1), integer(depth - 1)});
      default:
        return call(comparison, {integer(depth - 1), integer(depth - 1)});
    }
  }

  /// A real without reductions, which can't stand in a condition of `where` or in an index.
  Expr real_without_reductions(int depth) {
    ++no_reductions_;
    const Expr e = real(depth);
    --no_reductions_;
    return e;
  }

  Expr number() {
    constexpr std::array kNumbers{0.5, 2.0, -1.25, 1e-3, 3.0, -0.1, 1e20, 0.30000000000000004};
    return Expr(kNumbers[static_cast<std::size_t>(below(6 + (chance(5) ? 2 : 0)))]);
  }

  Expr real_leaf() {
    switch (below(5)) {
      case 0:
        return number();
      case 1:
        return variable(chance(50) ? "scale" : "cap");
      case 2:
        return integer_leaf();
      default:
        return read_of(reals_);
    }
  }

  Expr real(int depth) {
    if (depth == 0) return real_leaf();
    constexpr std::array kFunctions{Op::tanh, Op::sigmoid, Op::abs, Op::neg, Op::exp,
                                    Op::exp2, Op::sqrt,    Op::log, Op::log2};
    switch (below(12)) {
      case 0:
        return call(Op::add, {real(depth - 1), real(depth - 1)});
      case 1:
        return call(Op::sub, {real(depth - 1), real(depth - 1)});
      case 2:
        return call(Op::mul, {real(depth - 1), real(depth - 1)});
      case 3:
        return call(Op::div, {real(depth - 1), real(depth - 1)});
      case 4:
        return call(chance(50) ? Op::min : Op::max, {real(depth - 1), real(depth - 1)});
      case 5:
        return call(kFunctions[static_cast<std::size_t>(below(kFunctions.size()))], {real(depth - 1)});
      case 6:
        return call(Op::select, {condition(depth - 1), real(depth - 1), real(depth - 1)});
      case 7:
        return integer(depth - 1);
      case 8:
      case 9:
      case 10:
        return reduction(depth - 1);
      default:
        return real_leaf();
    }
  }

  Expr depending_on(const std::string& axis, int depth) {
    Expr body = real(depth);
    if (!free_variables(body).contains(axis)) body = call(Op::add, {body, call(Op::mul, {variable(axis), Expr(0.25)})});
    return body;
  }

  Expr reduction(int depth) {
    if (no_reductions_ > 0) return real(depth);
    if (!axes_.empty() && chance(25)) {
      const std::string axis = axes_[static_cast<std::size_t>(below(static_cast<int>(axes_.size())))];
      return reduce(Reduction::softmax, axis, depending_on(axis, depth));
    }
    std::vector<std::string> unused;
    for (const char* axis : kReductionAxes)
      if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) unused.emplace_back(axis);
    if (unused.empty()) return real(depth);
    const std::string axis = unused[static_cast<std::size_t>(below(static_cast<int>(unused.size())))];
    constexpr std::array kReductions{Reduction::sum, Reduction::sum, Reduction::max, Reduction::min,
                                     Reduction::logsumexp};
    axes_.push_back(axis);
    const Expr body = depending_on(axis, depth);
    axes_.pop_back();
    return reduce(kReductions[static_cast<std::size_t>(below(kReductions.size()))], axis, body);
  }

  void declare_what_is_used() {
    std::set<std::string> names;
    std::set<std::string> tensors;
    std::set<std::string> axes;
    const auto look = [&](const Expr& e) {
      if (const auto* v = e.as<Variable>()) names.insert(v->name);
      if (const auto* r = e.as<Read>()) tensors.insert(r->tensor);
      if (const auto* r = e.as<Reduce>()) axes.insert(r->axis);
    };
    for (const Func& func : algorithm_.define) {
      axes.insert(func.indices.begin(), func.indices.end());
      visit(func.value, look);
      if (func.where_predicate) visit(*func.where_predicate, look);
      // A sum over anything may read what no output needs.
      algorithm_.outputs.push_back(func.name);
    }
    for (int i = 0; i < kExtents; ++i) algorithm_.extents.push_back({extent_name(i), {}});
    if (names.contains("scale"))
      algorithm_.scalars.push_back({"scale", call(Op::div, {Expr(1), call(Op::sqrt, {variable("E1")})}), {}});
    if (names.contains("cap")) algorithm_.scalars.push_back({"cap", std::nullopt, {}});
    const auto declare = [&](const std::vector<RandomTensor>& of_kind, std::optional<ScalarType> dtype) {
      for (const RandomTensor& tensor : of_kind) {
        if (!tensors.contains(tensor.name) || tensor.name[0] == 'F') continue;
        std::vector<Expr> dims;
        for (const int extent : tensor.extents) dims.push_back(variable(extent_name(extent)));
        algorithm_.inputs.push_back({tensor.name, dims, dtype, {}});
      }
    };
    declare(reals_, std::nullopt);
    declare(integers_, ScalarType::i32);
    declare(booleans_, ScalarType::boolean);
    for (const std::string& axis : axes) algorithm_.axes.emplace(axis, variable(extent_name(extent_of(axis))));
    use_all_extents(names, axes);
    if (chance(50))
      for (const Extent& extent : algorithm_.extents) algorithm_.sizes[extent.name] = below(100);
  }

  /// An extent that nothing uses would be refused.
  void use_all_extents(std::set<std::string> names, const std::set<std::string>& axes) {
    for (const std::string& axis : axes) names.insert(extent_name(extent_of(axis)));
    for (const Input& input : algorithm_.inputs)
      for (const Expr& dim : input.dims) names.insert(dim.as<Variable>()->name);
    if (names.contains("scale")) names.insert("E1");
    std::erase_if(algorithm_.extents, [&](const Extent& extent) { return !names.contains(extent.name); });
    if (algorithm_.extents.empty()) {
      algorithm_.extents.push_back({"E0", {}});
      algorithm_.define.front().value = call(Op::add, {algorithm_.define.front().value, variable("E0")});
    }
  }

  std::mt19937 random_;
  Algorithm algorithm_;
  std::vector<RandomTensor> reals_;
  std::vector<RandomTensor> integers_;
  std::vector<RandomTensor> booleans_;
  std::vector<std::string> axes_;
  int no_reductions_ = 0;
  int in_index_ = 0;
};

}  // namespace

Algorithm random_algorithm(std::uint32_t seed) { return Generator(seed).generate(); }

Arguments random_arguments(const Algorithm& algorithm, std::uint32_t seed) {
  std::mt19937 random(seed);
  Sizes extents;
  for (const Extent& extent : algorithm.extents)
    extents[extent.name] = std::uniform_int_distribution<int>(1, 5)(random);
  Arguments arguments = gaussian_arguments(algorithm, extents, seed);
  for (const Input& input : algorithm.inputs) {
    if (!input.dtype || is_floating(*input.dtype)) continue;
    const int least = *input.dtype == ScalarType::boolean ? 0 : -4;
    const int most = *input.dtype == ScalarType::boolean ? 1 : 9;
    arguments.inputs[input.name] = make_tensor(shape_of_input(algorithm, input.name, extents), [&](const auto&) {
      return static_cast<double>(std::uniform_int_distribution<int>(least, most)(random));
    });
  }
  for (const Scalar& scalar : algorithm.scalars)
    if (!scalar.default_value) arguments.scalars[scalar.name] = 0.75;
  return arguments;
}

bool all_finite(const std::map<std::string, DoubleTensor>& tensors) {
  for (const auto& [name, tensor] : tensors)
    for (const double value : tensor.values)
      if (!std::isfinite(value)) return false;
  return true;
}

}  // namespace astatide::testing
