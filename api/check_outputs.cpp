#include "api/check_outputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include "api/shapes.h"
#include "compiler/algorithm/factors.h"
#include "compiler/support/half.h"

namespace astatide {
namespace {

constexpr double kElevenBits = 2e-3;

/// Absolute limits of the numerics contract, for values of order 1.
double absolute_limit(ScalarType type) {
  switch (type) {
    case ScalarType::f16:
      return kElevenBits;
    case ScalarType::bf16:
      return 1.6e-2;
    default:
      return 1e-5;
  }
}

double rounded(double value, ScalarType type) {
  std::byte bytes[8] = {};
  runtime::store_element(type, bytes, value);
  return runtime::load_element(type, bytes);
}

double tf32_of(double value) { return round_to_tf32(static_cast<float>(value)); }

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

/// Inputs that an output reads other than through an exponential or a maximum, roughly: all of them bound its scale.
double largest_input(const Arguments& arguments) {
  double largest = 0;
  for (const auto& [name, tensor] : arguments.inputs) largest = std::max(largest, largest_magnitude(tensor.values));
  return largest;
}

bool takes_logarithms(const Algorithm& algorithm) {
  bool found = false;
  for (const Func& func : algorithm.define)
    visit(func.value, [&](const Expr& e) { found = found || e.is_call(Op::log) || e.is_call(Op::log2); });
  return found;
}

bool has_nan(const std::map<std::string, DoubleTensor>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [](const auto& output) {
    const std::vector<double>& values = output.second.values;
    return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  });
}

/// Logarithms of 0 are finite, so that x * log(x) is 0 where x is too small for its type: its limit, which kernels
/// compute too (absorb).
Roundings with_finite_logarithms(Roundings rounded) {
  for (const Op op : {Op::log, Op::log2}) {
    const auto found = rounded.operations.find(op);
    const Roundings::Function before = found == rounded.operations.end() ? nullptr : found->second;
    rounded.operations[op] = [before](double exact) {
      const double value = before ? before(exact) : exact;
      return value == -std::numeric_limits<double>::infinity() ? std::log(std::numeric_limits<double>::denorm_min())
                                                               : value;
    };
  }
  return rounded;
}

/// `limits` may be null.
OutputCheck compare(const std::string& name, const runtime::HostTensor& output, const DoubleTensor& oracle,
                    const DoubleTensor* limits, const DoubleTensor& plain, double absolute, double input_scale) {
  OutputCheck check;
  check.name = name;
  const std::vector<double> values = runtime::to_doubles(output);
  for (std::size_t n = 0; n < values.size(); ++n) {
    double exact = oracle.values[n];
    if (limits && std::isnan(exact) && !std::isnan(values[n])) exact = limits->values[n];
    if (!std::isfinite(exact)) {
      const bool same = std::isnan(exact) ? std::isnan(values[n]) : values[n] == exact;
      if (!same) ++check.wrong_nonfinite;
      continue;
    }
    if (!std::isfinite(values[n])) {
      // Too large for the output's type is no fault of the kernel.
      if (values[n] != rounded(exact, output.dtype)) ++check.wrong_nonfinite;
      continue;
    }
    check.max_abs_error = std::max(check.max_abs_error, std::fabs(values[n] - exact));
    const double simple = rounded(plain.values[n], output.dtype);
    if (std::isfinite(simple)) check.plain_error = std::max(check.plain_error, std::fabs(simple - exact));
  }
  const double largest = largest_magnitude(oracle.values);
  // 1e-6 and the absolute limits hold for values of order 1; a type's spacing grows with them.
  const double scale = std::max(1.0, largest);
  // A result may be rounded to fewer bits than what it is made of.
  absolute = std::max(absolute, absolute_limit(output.dtype));
  check.relative_error = largest > 0 ? check.max_abs_error / largest : 0;
  check.limit = std::min(2 * check.plain_error + 1e-6 * scale, absolute * std::max(scale, input_scale));
  return check;
}

/// An algorithm that only updates its inputs; `value` takes the place of what it stores.
Algorithm updates_of(Algorithm algorithm, const std::optional<Expr>& value = std::nullopt) {
  Diagnostics ignored;  // a checked algorithm has none
  algorithm.axes = infer_axis_extents(algorithm, ignored);
  algorithm.define.clear();
  algorithm.outputs.clear();
  algorithm.output_dims.clear();
  for (Func& update : algorithm.updates)
    if (value) update.value = *value;
  return algorithm;
}

/// 1 for each element that an update stores, else 0.
std::map<std::string, DoubleTensor> stored_elements(const Algorithm& algorithm, Arguments arguments) {
  for (auto& [name, tensor] : arguments.inputs)
    if (algorithm.updates_input(name)) std::fill(tensor.values.begin(), tensor.values.end(), 0);
  return evaluate(updates_of(algorithm, Expr(1)), arguments);
}

std::int64_t count_changed(const runtime::HostTensor& before, const runtime::HostTensor& after,
                           const std::vector<double>& stored) {
  const auto bytes = static_cast<std::size_t>(size_in_bytes(before.dtype));
  std::vector<const std::byte*> places;
  runtime::for_each_element(before.origin(), before.dtype, before.shape, before.strides,
                            [&](const std::byte* at) { places.push_back(at); });
  std::int64_t changed = 0;
  std::size_t n = 0;
  runtime::for_each_element(after.origin(), after.dtype, after.shape, after.strides, [&](const std::byte* at) {
    if (stored[n] == 0 && std::memcmp(at, places[n], bytes) != 0) ++changed;
    ++n;
  });
  return changed;
}

/// What updates store has the type of the input when something reads it.
void round_updates(const Algorithm& algorithm, const std::map<std::string, runtime::HostTensor>& inputs,
                   Roundings& rounded_there) {
  for (const Func& update : algorithm.updates)
    rounded_there.definitions[update.name] = [type = inputs.at(update.name).dtype](double value, std::int64_t) {
      return rounded(value, type);
    };
}

/// 1 at first, then any number from 1/2 to 1, one for each row.
double factor_of_row(std::int64_t row, int attempt) {
  if (attempt == 0) return 1;
  const double turns = 0.618033988749895 * (static_cast<double>(row) + 0.1 * attempt);
  return 0.5 + 0.5 * (turns - std::floor(turns));
}

/// Definitions that a sum multiplies with an input of 16 bits: a product's operands have one type, so the plain
/// computation rounds them to that of the input. With `tf32` the same of f32. Weights that are divided by their sum may
/// have any factor common to a row when they are rounded: that of `attempt`.
std::map<std::string, Roundings::ElementFunction> rounded_operands(
    const Algorithm& algorithm, const std::map<std::string, runtime::HostTensor>& inputs, bool tf32, int attempt) {
  std::map<std::string, Roundings::ElementFunction> out;
  const auto add = [&](const Expr& definition, const Expr& input) {
    const auto* read = definition.as<Read>();
    const auto* other = input.as<Read>();
    if (!read || !other || !algorithm.find_func(read->tensor)) return;
    const auto found = inputs.find(other->tensor);
    if (found == inputs.end() || !is_floating(found->second.dtype)) return;
    const ScalarType type = found->second.dtype;
    if (size_in_bytes(type) == 2)
      out[read->tensor] = [type, attempt](double value, std::int64_t row) {
        const double scale = factor_of_row(row, attempt);
        return rounded(value * scale, type) / scale;
      };
    if (tf32 && type == ScalarType::f32)
      out[read->tensor] = [attempt](double value, std::int64_t row) {
        const double scale = factor_of_row(row, attempt);
        return tf32_of(value * scale) / scale;
      };
  };
  for (const Func& func : algorithm.define)
    visit(func.value, [&](const Expr& e) {
      const auto* reduction = e.as<Reduce>();
      if (!reduction || reduction->op != Reduction::sum) return;
      const std::vector<Expr> factors = factors_of(reduction->body[0]);
      for (const Expr& definition : factors)
        for (const Expr& input : factors) add(definition, input);
    });
  return out;
}

/// Rounds the f32 inputs that sums read: factors of products, roughly.
Arguments with_tf32_factors(const Algorithm& algorithm, Arguments arguments,
                            const std::map<std::string, runtime::HostTensor>& inputs) {
  std::set<std::string> summed;
  for (const Func& func : algorithm.define)
    visit(func.value, [&](const Expr& e) {
      const auto* reduction = e.as<Reduce>();
      if (reduction && reduction->op == Reduction::sum) summed.merge(tensors_read(reduction->body[0]));
    });
  for (auto& [name, tensor] : arguments.inputs)
    if (summed.contains(name) && inputs.at(name).dtype == ScalarType::f32)
      std::transform(tensor.values.begin(), tensor.values.end(), tensor.values.begin(), tf32_of);
  return arguments;
}

/// Operations that the evaluator spends on all definitions.
double work_of(const Algorithm& algorithm, const Extents& extents) {
  Diagnostics ignored;  // a checked algorithm has none
  const std::map<std::string, Expr> axes = infer_axis_extents(algorithm, ignored);
  const auto size_of = [&](const std::string& axis) {
    const auto found = axes.find(axis);
    return found == axes.end()
               ? 1.0
               : static_cast<double>(std::max<std::int64_t>(1, evaluate_integer(found->second, extents)));
  };
  double work = 0;
  for (const Func& func : algorithm.define) {
    double elements = 1;
    for (const std::string& index : func.indices) elements *= size_of(index);
    double each = 1;
    visit(func.value, [&](const Expr& e) {
      if (const auto* reduction = e.as<Reduce>()) each += size_of(reduction->axis) * reduction->body[0].tree_size();
    });
    work += elements * each;
  }
  return work;
}

}  // namespace

Allowance allowance_of(const Schedule& schedule, const Device& device) {
  Allowance out;
  if (device.kind == Device::Kind::cpu) return out;
  out.tf32 = std::any_of(schedule.placements.begin(), schedule.placements.end(),
                         [](const Placement& placement) { return placement.tf32(); });
  const Target* target = find_target(schedule.target);
  if (!schedule.fast_math || target == nullptr) return out;
  const auto functions = approximations_of(*target);
  out.functions.assign(functions.begin(), functions.end());
  return out;
}

double estimate_check_seconds(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents) {
  // Measured on server cores of 2022: each does some 3.5e9 of these a second, both precisions together.
  return work_of(algorithm, extents) / (3.5e9 * std::max(1U, std::thread::hardware_concurrency()));
}

double absolute_limit(ScalarType narrowest, const Allowance& allowance) {
  if (!allowance.functions.empty()) return std::numeric_limits<double>::infinity();
  return std::max(absolute_limit(narrowest), allowance.tf32 ? kElevenBits : 0);
}

OutputOracle::OutputOracle(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                           const std::map<std::string, double>& scalars,
                           const std::map<std::string, runtime::HostTensor>& inputs, const Allowance& allowance) {
  Arguments arguments;
  arguments.extents = extents;
  arguments.scalars = scalars;
  ScalarType narrowest = ScalarType::f32;
  for (const auto& [name, tensor] : inputs) {
    arguments.inputs[name] = {tensor.shape, runtime::to_doubles(tensor)};
    if (is_floating(tensor.dtype) && absolute_limit(tensor.dtype) > absolute_limit(narrowest)) narrowest = tensor.dtype;
  }
  // The kernel is given its scalars in f32, so the oracle is too.
  for (auto& [name, value] : arguments.scalars) value = static_cast<float>(value);
  Roundings stored_as;
  round_updates(algorithm, inputs, stored_as);
  exact_ = evaluate(algorithm, arguments, Precision::f64, stored_as);
  if (!algorithm.updates.empty()) {
    stored_ = stored_elements(algorithm, arguments);
    for (auto& [name, tensor] : evaluate(updates_of(algorithm), arguments)) {
      exact_[name] = std::move(tensor);
      before_.emplace(name, inputs.at(name));
    }
  }
  const bool has_limits = takes_logarithms(algorithm);
  if (has_limits && has_nan(exact_))
    limits_ = evaluate(algorithm, arguments, Precision::f64, with_finite_logarithms(stored_as));
  absolute_limit_ = absolute_limit(narrowest, allowance);
  input_scale_ = largest_input(arguments);
  if (allowance.tf32) arguments = with_tf32_factors(algorithm, std::move(arguments), inputs);
  plain_ = [algorithm, inputs, allowance, has_limits, factors = std::move(arguments)](const PlainWay& way) {
    Roundings rounded{rounded_operands(algorithm, inputs, allowance.tf32, way.attempt), {}};
    round_updates(algorithm, inputs, rounded);
    for (const Approximation& one : allowance.functions)
      rounded.operations[one.op] = [one, bias = way.bias](double exact) {
        return bias == 0 ? approximated(exact, one) : exact * (1 + bias * std::ldexp(1.0, -one.error_bits));
      };
    auto outputs = evaluate(algorithm, factors, Precision::f32, rounded);
    if (!has_limits || !has_nan(outputs)) return outputs;
    // A NaN would say nothing of what rounding costs there. Kernels take logarithms of weights in f32, which those of
    // 16 bits are made of, so f32 alone is what they may lose.
    Roundings finite{{}, rounded.operations};
    round_updates(algorithm, inputs, finite);
    const auto limits = evaluate(algorithm, factors, Precision::f32, with_finite_logarithms(std::move(finite)));
    for (auto& [name, output] : outputs)
      for (std::size_t n = 0; n < output.values.size(); ++n)
        if (std::isnan(output.values[n])) output.values[n] = limits.at(name).values[n];
    return outputs;
  };
  plain_as_written_ = plain_({});
  // How one computation rounds its few largest weights is luck, and the weights of each row of a kernel have another
  // factor. A unit that approximates may be off one way where rounding is off both ways and evens out.
  other_ways_ = {{1, 0}, {2, 0}, {3, 0}};
  if (!allowance.functions.empty()) other_ways_.insert(other_ways_.end(), {{0, 1}, {0, -1}});
}

std::vector<OutputCheck> OutputOracle::check(const std::map<std::string, runtime::HostTensor>& outputs) const {
  std::vector<OutputCheck> checks;
  const auto compared = [&](const std::string& name, const std::map<std::string, DoubleTensor>& plain) {
    const auto limits = limits_.find(name);
    return compare(name, outputs.at(name), exact_.at(name), limits == limits_.end() ? nullptr : &limits->second,
                   plain.at(name), absolute_limit_, input_scale_);
  };
  for (const auto& [name, output] : outputs) {
    checks.push_back(compared(name, plain_as_written_));
    if (const auto before = before_.find(name); before != before_.end())
      checks.back().changed = count_changed(before->second, output, stored_.at(name).values);
  }
  // Before a kernel is blamed.
  for (const PlainWay& way : other_ways_) {
    const auto blamed = [](const OutputCheck& check) {
      return check.wrong_nonfinite == 0 && check.changed == 0 && !check.ok();
    };
    if (std::none_of(checks.begin(), checks.end(), blamed)) break;
    const std::map<std::string, DoubleTensor> plain = plain_(way);
    for (OutputCheck& check : checks) {
      const OutputCheck other = compared(check.name, plain);
      if (other.limit > check.limit) check.limit = other.limit, check.plain_error = other.plain_error;
    }
  }
  return checks;
}

std::vector<OutputCheck> check_outputs(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                                       const std::map<std::string, double>& scalars,
                                       const std::map<std::string, runtime::HostTensor>& inputs,
                                       const std::map<std::string, runtime::HostTensor>& outputs,
                                       const Allowance& allowance) {
  return OutputOracle(algorithm, extents, scalars, inputs, allowance).check(outputs);
}

}  // namespace astatide
