#include "compiler/algorithm/evaluate.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#include "compiler/algorithm/names.h"
#include "compiler/algorithm/tape_machine.h"

namespace astatide {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
/// Below this much work starting threads costs more than it gains.
constexpr double kWorkForThreads = 2e6;

/// A definition's elements.
struct Evaluated {
  std::unique_ptr<double[]> values;
  std::unique_ptr<std::uint8_t[]> present;
  std::int64_t size = 0;
};

std::string print_shape(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t length : shape) out += (out.empty() ? "" : ", ") + std::to_string(length);
  return "[" + out + "]";
}

/// The product of lengths, or kMostElements + 1 where it is more than that.
std::int64_t count_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape)
    if (length == 0) return 0;
  for (const std::int64_t length : shape) {
    if (count > kMostElements / length) return kMostElements + 1;
    count *= length;
  }
  return count;
}

double physical_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

std::vector<std::int64_t> evaluate_shape(const std::vector<Expr>& dims,
                                         const std::map<std::string, std::int64_t>& extents, const std::string& name) {
  std::vector<std::int64_t> shape;
  for (const Expr& dim : dims) {
    shape.push_back(evaluate_integer(dim, extents));
    if (shape.back() < 0)
      throw UserError("a dimension of " + name + " is " + print_expr(dim, {}, true) + " = " +
                      std::to_string(shape.back()) + ", the least is 0");
  }
  return shape;
}

class Evaluator {
 public:
  Evaluator(const Algorithm& algorithm, const Arguments& arguments, Precision precision, const Roundings& rounded)
      : algorithm_(algorithm),
        plain_(with_lengths_as_predicates(algorithm)),
        arguments_(arguments),
        precision_(precision),
        rounded_(rounded) {
    check_extents();
    for (const auto& [name, value] : resolve_scalars(algorithm, arguments.extents, arguments.scalars))
      context_.values[name] = value;
    for (const auto& [name, value] : arguments.extents) context_.values[name] = static_cast<double>(value);
    Diagnostics errors;
    for (const auto& [axis, extent] : infer_axis_extents(plain_, errors))
      context_.axis_extents[axis] = evaluate_shape({extent}, arguments.extents, "axis " + axis).front();
    errors.throw_if_any();
    context_.tensors = &tensors_;
    add_inputs();
  }

  std::map<std::string, DoubleTensor> evaluate() {
    std::map<std::string, DoubleTensor> outputs;
    for (const Func& func : plain_.updates) update(func);
    for (std::size_t i = 0; i < plain_.define.size(); ++i) {
      const Func& func = plain_.define[i];
      evaluate_definition(func);
      if (std::count(algorithm_.outputs.begin(), algorithm_.outputs.end(), func.name) > 0) {
        const Evaluated& value = evaluated_.at(func.name);
        if (const Func& written = algorithm_.define[i]; !written.stored.empty())
          outputs[func.name] = stored(written, value);
        else
          outputs[func.name] = {tensors_.back().shape, {value.values.get(), value.values.get() + value.size}};
      }
      forget_after(i);
    }
    outputs.merge(updated_);
    return outputs;
  }

 private:
  void check_extents() const {
    for (const Extent& extent : algorithm_.extents) {
      const auto found = arguments_.extents.find(extent.name);
      if (found == arguments_.extents.end()) throw UserError("extent " + extent.name + " has no value");
      if (found->second < 0)
        throw UserError("extent " + extent.name + " is " + std::to_string(found->second) + ", the least is 0");
    }
    for (const auto& [name, value] : arguments_.extents)
      if (!algorithm_.find_extent(name)) throw UserError("'" + quoted(name) + "' is no extent of " + algorithm_.name);
    for (const auto& [name, value] : arguments_.inputs)
      if (!algorithm_.find_input(name)) throw UserError("'" + quoted(name) + "' is no input of " + algorithm_.name);
  }

  void add_inputs() {
    for (const Input& input : algorithm_.inputs) {
      const auto shape = evaluate_shape(input.dims, arguments_.extents, input.name);
      const auto given = arguments_.inputs.find(input.name);
      if (given == arguments_.inputs.end())
        throw UserError("input " + input.name + " is missing", {"its shape is " + print_shape(shape)});
      const DoubleTensor& tensor = given->second;
      if (tensor.shape != shape)
        throw UserError("input " + input.name + " has the shape " + print_shape(tensor.shape) + ", the extents say " +
                        print_shape(shape));
      if (static_cast<std::int64_t>(tensor.values.size()) != count_elements(shape))
        throw UserError("input " + input.name + " holds " + std::to_string(tensor.values.size()) +
                        " elements, its shape " + print_shape(shape) + " has " + std::to_string(count_elements(shape)));
      tensors_.push_back({input.name, shape, tensor.values.data(), nullptr});
    }
  }

  void evaluate_definition(const Func& func) {
    const CompiledDefinition compiled = compile_definition(func, context_);
    const std::int64_t size = count_elements(compiled.shape);
    if (size > kMostElements)
      throw UserError(func.where, func.name + " has the shape " + print_shape(compiled.shape) +
                                      ", the evaluator holds at most 2147483648 elements of a definition");
    const bool may_be_absent = compiled.tape.present != kNone;
    const double bytes = static_cast<double>(size) * (may_be_absent ? 9 : 8);
    if (bytes > 0.75 * physical_memory())
      throw MachineError(func.where, "evaluating " + func.name + " in double precision takes " +
                                         std::to_string(static_cast<std::int64_t>(bytes)) + " bytes, the machine has " +
                                         std::to_string(static_cast<std::int64_t>(physical_memory())));
    Evaluated value;
    value.size = size;
    // Not cleared first: every element is written once, and pages are touched by the thread that fills them.
    value.values.reset(new double[static_cast<std::size_t>(size)]);
    if (may_be_absent) value.present.reset(new std::uint8_t[static_cast<std::size_t>(size)]);
    if (size > 0) run_rows(compiled, value);
    if (const auto rounding = rounded_.definitions.find(func.name); rounding != rounded_.definitions.end()) {
      const std::int64_t columns = compiled.shape.empty() ? 1 : compiled.shape.back();
      for (std::int64_t n = 0; n < size; ++n) value.values[n] = rounding->second(value.values[n], n / columns);
    }
    tensors_.push_back({func.name, compiled.shape, value.values.get(), value.present.get()});
    evaluated_[func.name] = std::move(value);
  }

  /// The tensor of an output that lies at places of its own: NaN, which stands for what memory holds, where no element
  /// is stored.
  DoubleTensor stored(const Func& func, const Evaluated& value) {
    DoubleTensor out;
    out.shape = evaluate_shape(algorithm_.output_dims.at(func.name), arguments_.extents, func.name);
    const std::int64_t size = count_elements(out.shape);
    if (size > kMostElements)
      throw UserError(func.where, func.name + " has the shape " + print_shape(out.shape) +
                                      ", the evaluator holds at most 2147483648 elements of an output");
    out.values.assign(static_cast<std::size_t>(size), std::numeric_limits<double>::quiet_NaN());
    // What is absent in an output is stored as 0.
    store(func, value, false, within_lengths(algorithm_, func.indices), out);
    return out;
  }

  void update(const Func& func) {
    DoubleTensor& out = updated_.try_emplace(func.name, arguments_.inputs.at(func.name)).first->second;
    Func elements = func;
    elements.name = "what is stored into " + func.name;  // no name of an algorithm
    evaluate_definition(elements);
    Evaluated& value = evaluated_.at(elements.name);
    if (const auto rounding = rounded_.definitions.find(func.name); rounding != rounded_.definitions.end())
      for (std::int64_t n = 0; n < value.size; ++n) value.values[n] = rounding->second(value.values[n], 0);
    store(func, value, true, func.where_predicate, out);
    forget(elements.name);
    for (TapeTensor& tensor : tensors_)
      if (tensor.name == func.name) tensor.values = out.values.data();
  }

  /// Puts elements at their places, those that `predicate` has and, with `only_present`, that are not absent.
  void store(const Func& func, const Evaluated& value, bool only_present, const std::optional<Expr>& predicate,
             DoubleTensor& out) {
    std::vector<std::string> places;
    for (std::size_t dim = 0; dim < func.stored.size(); ++dim) {
      places.push_back(func.name + " at dimension " + std::to_string(dim + 1));
      evaluate_definition({places.back(), func.indices, func.stored[dim], predicate, func.where});
    }
    std::vector<bool> taken(out.values.size(), false);
    for (std::int64_t n = 0; n < value.size; ++n) {
      std::size_t offset = 0;
      bool present = !only_present || !value.present || value.present[n];
      for (std::size_t dim = 0; dim < places.size() && present; ++dim) {
        const Evaluated& place = evaluated_.at(places[dim]);
        present = !place.present || place.present[n];
        if (!present) break;
        const double at = place.values[n];
        if (!(at >= 0 && at < static_cast<double>(out.shape[dim])))
          throw UserError(func.where, func.name + " is stored at index " + to_string(Expr(at)) + " of dimension " +
                                          std::to_string(dim + 1) + ", whose length is " +
                                          std::to_string(out.shape[dim]));
        offset = offset * static_cast<std::size_t>(out.shape[dim]) + static_cast<std::size_t>(at);
      }
      if (!present) continue;
      if (taken[offset])
        throw UserError(func.where, func.name + " has two elements at one place of its tensor",
                        {only_present ? "which of them it would hold is not said: a condition can leave one out"
                                      : "offsets and lengths of items must not overlap"});
      taken[offset] = true;
      out.values[offset] = value.values[n];
    }
    for (const std::string& place : places) forget(place);
  }

  void forget(const std::string& name) {
    std::erase_if(tensors_, [&](const TapeTensor& tensor) { return tensor.name == name; });
    evaluated_.erase(name);
  }

  void run_rows(const CompiledDefinition& compiled, Evaluated& value) const {
    const std::int64_t length = compiled.shape.empty() ? 1 : compiled.shape.back();
    const std::int64_t rows = value.size / length;
    std::atomic<std::int64_t> next{0};
    const std::int64_t block = std::clamp<std::int64_t>(rows / 64, 1, 64);
    std::exception_ptr failure;
    std::mutex mutex;
    const auto work = [&] {
      try {
        TapeMachine machine(compiled, tensors_, precision_, rounded_.operations);
        for (std::int64_t begin = next.fetch_add(block); begin < rows; begin = next.fetch_add(block))
          for (std::int64_t row = begin; row < std::min(begin + block, rows); ++row)
            machine.run_row(row, value.values.get() + row * length,
                            value.present ? value.present.get() + row * length : nullptr);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = rows;
      }
    };
    const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
    const std::int64_t wanted = compiled.work < kWorkForThreads ? 1 : std::min(cores, rows / block);
    std::vector<std::thread> helpers;
    for (std::int64_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
  }

  /// Gives back what no later definition reads.
  void forget_after(std::size_t done) {
    std::set<std::string> needed;
    for (std::size_t i = done + 1; i < plain_.define.size(); ++i) {
      needed.merge(tensors_read(plain_.define[i].value));
      if (plain_.define[i].where_predicate) needed.merge(tensors_read(*plain_.define[i].where_predicate));
    }
    std::erase_if(tensors_, [&](const TapeTensor& tensor) {
      return evaluated_.contains(tensor.name) && !needed.contains(tensor.name);
    });
    std::erase_if(evaluated_, [&](const auto& entry) { return !needed.contains(entry.first); });
  }

  const Algorithm& algorithm_;
  const Algorithm plain_;  // without ragged axes
  const Arguments& arguments_;
  const Precision precision_;
  const Roundings& rounded_;
  TapeContext context_;
  std::vector<TapeTensor> tensors_;
  std::map<std::string, Evaluated> evaluated_;
  std::map<std::string, DoubleTensor> updated_;  // inputs, as updates leave them
};

}  // namespace

std::map<std::string, DoubleTensor> evaluate(const Algorithm& algorithm, const Arguments& arguments,
                                             Precision precision, const Roundings& rounded) {
  return Evaluator(algorithm, arguments, precision, rounded).evaluate();
}

std::map<std::string, double> resolve_scalars(const Algorithm& algorithm,
                                              const std::map<std::string, std::int64_t>& extents,
                                              const std::map<std::string, double>& given) {
  for (const auto& [name, value] : given)
    if (!algorithm.find_scalar(name)) {
      std::vector<std::string> names;
      for (const Scalar& scalar : algorithm.scalars) names.push_back(scalar.name);
      const std::string nearest = nearest_name(name, names);
      throw UserError(
          "'" + quoted(name) + "' is no scalar of " + algorithm.name,
          nearest.empty() ? std::vector<std::string>{} : std::vector<std::string>{"did you mean " + nearest + "?"});
    }
  std::map<std::string, double> known;
  for (const auto& [name, value] : extents) known[name] = static_cast<double>(value);
  std::map<std::string, double> out;
  for (const Scalar& scalar : algorithm.scalars) {
    const auto value = given.find(scalar.name);
    if (value == given.end() && !scalar.default_value)
      throw UserError(scalar.where, "scalar " + scalar.name + " has no default and no value was given");
    const double result = value != given.end() ? value->second : evaluate_real(*scalar.default_value, known);
    if (!std::isfinite(result))
      throw UserError(
          scalar.where, "scalar " + scalar.name + " is " + to_string(Expr(result)) + ", which is not finite",
          value == given.end() ? std::vector<std::string>{"its default is " + to_string(*scalar.default_value)}
                               : std::vector<std::string>{});
    out[scalar.name] = known[scalar.name] = result;
  }
  return out;
}

}  // namespace astatide
