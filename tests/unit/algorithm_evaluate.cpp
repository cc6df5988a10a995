// The evaluator against the meaning of algorithms, written down once more as a walk over the tree of each element.
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "compiler/algorithm/evaluate.h"
#include "compiler/support/match.h"
#include "tests/support/case_data.h"
#include "tests/support/infinity.h"
#include "tests/support/random_algorithm.h"

namespace astatide::testing {
namespace {

/// An element, or nothing where it is absent.
using MaybeNumber = std::optional<double>;

class Walker {
 public:
  Walker(const Algorithm& algorithm, const Arguments& arguments) : algorithm_(algorithm), arguments_(arguments) {
    for (const auto& [name, value] : resolve_scalars(algorithm, arguments.extents, arguments.scalars))
      names_[name] = value;
    for (const auto& [name, value] : arguments.extents) names_[name] = static_cast<double>(value);
    Diagnostics errors;
    for (const auto& [axis, extent] : infer_axis_extents(algorithm, errors))
      lengths_[axis] = evaluate_integer(extent, arguments.extents);
  }

  std::map<std::string, DoubleTensor> evaluate() {
    std::map<std::string, DoubleTensor> out;
    for (const Func& func : algorithm_.define) {
      std::vector<std::int64_t> shape;
      for (const std::string& axis : func.indices) shape.push_back(lengths_.at(axis));
      std::vector<MaybeNumber> elements;
      DoubleTensor values = make_tensor(shape, [&](const std::vector<std::int64_t>& at) {
        for (std::size_t k = 0; k < at.size(); ++k) names_[func.indices[k]] = static_cast<double>(at[k]);
        const MaybeNumber predicate = func.where_predicate ? walk(*func.where_predicate) : MaybeNumber(1);
        elements.push_back(predicate && *predicate != 0 ? walk(func.value) : std::nullopt);
        return elements.back().value_or(0);
      });
      for (const std::string& axis : func.indices) names_.erase(axis);
      out[func.name] = values;
      defined_[func.name] = {shape, elements};
    }
    return out;
  }

 private:
  struct Defined {
    std::vector<std::int64_t> shape;
    std::vector<MaybeNumber> elements;
  };

  MaybeNumber walk(const Expr& e) {
    return match(
        e.node(), [](const Number& n) { return MaybeNumber(n.value); },
        [](const Integer& i) { return MaybeNumber(static_cast<double>(i.value)); },
        [&](const Variable& v) { return MaybeNumber(names_.at(v.name)); }, [&](const Call& c) { return walk_call(c); },
        [&](const Read& r) { return walk_read(r); }, [&](const Reduce& r) { return walk_reduce(r); });
  }

  MaybeNumber walk_call(const Call& c) {
    const MaybeNumber first = walk(c.args[0]);
    if (!first) return std::nullopt;
    if (c.op == Op::select) return walk(c.args[*first != 0 ? 1 : 2]);
    if (c.op == Op::logical_and && *first == 0) return 0.0;
    if (c.op == Op::logical_or && *first != 0) return 1.0;
    double args[3] = {*first, 0, 0};
    for (std::size_t k = 1; k < c.args.size(); ++k) {
      const MaybeNumber next = walk(c.args[k]);
      if (!next) return std::nullopt;
      args[k] = *next;
    }
    return apply(c.op, args);
  }

  MaybeNumber walk_read(const Read& r) {
    std::vector<std::int64_t> at;
    for (const Expr& index : r.indices) at.push_back(std::llround(walk(index).value()));
    if (const auto input = arguments_.inputs.find(r.tensor); input != arguments_.inputs.end())
      return element(input->second, at);
    const Defined& defined = defined_.at(r.tensor);
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (at[k] < 0 || at[k] >= defined.shape[k]) throw std::runtime_error(r.tensor + " is read out of range");
      offset = offset * defined.shape[k] + at[k];
    }
    return defined.elements[static_cast<std::size_t>(offset)];
  }

  MaybeNumber walk_reduce(const Reduce& r) {
    const bool keeps = r.op == Reduction::softmax;
    const double outside = names_.contains(r.axis) ? names_.at(r.axis) : 0;
    std::vector<double> row;
    for (std::int64_t at = 0; at < lengths_.at(r.axis); ++at) {
      names_[r.axis] = static_cast<double>(at);
      if (const MaybeNumber x = walk(r.body.front())) row.push_back(*x);
    }
    names_[r.axis] = outside;
    double sum = 0;
    double least = kInfinity;
    double most = -kInfinity;
    for (const double x : row) {
      sum += x;
      const double low[2] = {least, x};
      const double high[2] = {most, x};
      least = apply(Op::min, low);
      most = apply(Op::max, high);
    }
    if (r.op == Reduction::sum) return sum;
    if (r.op == Reduction::min) return least;
    if (r.op == Reduction::max) return most;
    const double reference = most == -kInfinity ? 0 : most;
    double total = 0;
    for (const double x : row) total += std::exp(x - reference);
    if (!keeps) return reference + std::log(total);
    const MaybeNumber own = walk(r.body.front());
    if (!own) return std::nullopt;
    return total == 0 ? 0 : std::exp(*own - reference) / total;
  }

  const Algorithm& algorithm_;
  const Arguments& arguments_;
  std::map<std::string, double> names_;
  std::map<std::string, std::int64_t> lengths_;
  std::map<std::string, Defined> defined_;
};

bool agree(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

}  // namespace

TEST_CASE("The evaluator agrees with a walk over the tree of each element") {
  int compared = 0;
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    const Algorithm algorithm = random_algorithm(seed);
    const Arguments arguments = random_arguments(algorithm, seed);
    INFO("seed " << seed << "\n" << print_algorithm(algorithm));
    const auto expected = Walker(algorithm, arguments).evaluate();
    const auto actual = evaluate(algorithm, arguments);
    for (const auto& [name, tensor] : actual) {
      REQUIRE(tensor.shape == expected.at(name).shape);
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        const double wanted = expected.at(name).values[i];
        if (!agree(tensor.values[i], wanted))
          FAIL(name << " element " << i << ": " << tensor.values[i] << ", expected " << wanted);
        ++compared;
      }
    }
  }
  CHECK(compared > 10000);
}

TEST_CASE("Rows longer than a register and many rows in threads agree with the walk too") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const Sizes extents{{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 2}, {"Sk", 270}, {"D", 2}, {"Dv", 260}};
  const Arguments arguments = gaussian_arguments(algorithm, extents, 3);
  const auto expected = Walker(algorithm, arguments).evaluate();
  const auto actual = evaluate(algorithm, arguments);
  for (const char* name : {"O", "L"})
    for (std::size_t i = 0; i < actual.at(name).values.size(); ++i)
      if (!agree(actual.at(name).values[i], expected.at(name).values[i])) FAIL(name << " element " << i);
}

}  // namespace astatide::testing
