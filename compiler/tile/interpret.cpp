#include "compiler/tile/interpret.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret_machine.h"

namespace astatide::tile {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Of one tensor: the interpreter is for small problems.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;

std::string print_shape(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t extent : shape) out += (out.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + out + "]";
}

DoubleTensor make_tensor(const Tensor& tensor, const std::map<std::string, std::int64_t>& extents) {
  DoubleTensor out;
  std::int64_t count = 1;
  for (const Expr& dim : tensor.dims) {
    out.shape.push_back(evaluate_integer(dim, extents));
    if (out.shape.back() < 0 || __builtin_mul_overflow(count, out.shape.back(), &count) || count > kMaxElements)
      throw UserError(tensor.name + " is too large to interpret: " + print_shape(out.shape));
  }
  out.values.assign(static_cast<std::size_t>(count), tensor.role == Tensor::Role::counters ? 0 : kNan);
  return out;
}

std::map<std::string, DoubleTensor> make_tensors(const Program& program, const Arguments& arguments,
                                                 const std::map<std::string, std::int64_t>& extents,
                                                 const InterpretOptions& options) {
  std::map<std::string, DoubleTensor> out;
  for (const Tensor& tensor : program.tensors) {
    DoubleTensor made = make_tensor(tensor, extents);
    if (tensor.role == Tensor::Role::input) {
      const auto given = arguments.inputs.find(tensor.name);
      if (given == arguments.inputs.end()) throw UserError("no value is given for input " + tensor.name);
      if (given->second.shape != made.shape || given->second.values.size() != made.values.size())
        throw UserError("input " + tensor.name + " is " + print_shape(given->second.shape) + ", not " +
                        print_shape(made.shape));
      made.values = given->second.values;
      if (options.round_storage)
        for (double& value : made.values) value = round_to(tensor.type, value);
    }
    out.emplace(tensor.name, std::move(made));
  }
  return out;
}

/// The next launch finds them as this one did.
void check_counters(const Program& program, const Kernel& kernel, const std::map<std::string, DoubleTensor>& tensors) {
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role != Tensor::Role::counters) continue;
    const std::vector<double>& values = tensors.at(tensor.name).values;
    if (std::any_of(values.begin(), values.end(), [](double value) { return value != 0; }))
      throw InternalError("kernel " + kernel.name + " has ended and left counters of " + tensor.name + " above 0");
  }
}

}  // namespace

std::map<std::string, DoubleTensor> run_kernels(const Program& program, const std::map<std::string, double>& scalars,
                                                const Arguments& arguments, const InterpretOptions& options,
                                                const KernelRunner& run) {
  std::map<std::string, std::int64_t> extents = arguments.extents;
  for (const auto& [name, value] : program.known) {
    const auto [entry, added] = extents.emplace(name, value);
    if (!added && entry->second != value)
      throw UserError("the program is for " + name + " = " + std::to_string(value) + ", not " +
                      std::to_string(entry->second));
  }
  if (program.parts && !extents.contains(program.parts->extent))
    extents[program.parts->extent] = program.parts->choose(extents, options.resident_blocks);
  for (const std::string& name : program.extents)
    if (!extents.contains(name)) throw UserError("no value is given for extent " + name);
  for (const std::string& name : program.scalars)
    if (!scalars.contains(name)) throw UserError("no value is given for scalar " + name);

  std::map<std::string, DoubleTensor> tensors = make_tensors(program, arguments, extents, options);
  for (const Kernel& kernel : program.kernels) {
    run(kernel, extents, tensors);
    check_counters(program, kernel, tensors);
  }

  std::map<std::string, DoubleTensor> outputs;
  for (const Tensor& tensor : program.tensors)
    if (tensor.role == Tensor::Role::output || tensor.updated)
      outputs.emplace(tensor.name, std::move(tensors.at(tensor.name)));
  return outputs;
}

namespace {

std::map<std::string, DoubleTensor> run_sequentially(const Program& program,
                                                     const std::map<std::string, double>& scalars,
                                                     const Arguments& arguments, const InterpretOptions& options) {
  return run_kernels(program, scalars, arguments, options,
                     [&](const Kernel& kernel, const auto& extents, auto& tensors) {
                       Machine(program, kernel, extents, scalars, tensors, options).run();
                     });
}

}  // namespace

std::map<std::string, DoubleTensor> interpret(const Program& program, const Algorithm& algorithm,
                                              const Arguments& arguments) {
  return run_sequentially(program, resolve_scalars(algorithm, arguments.extents, arguments.scalars), arguments, {});
}

std::map<std::string, DoubleTensor> interpret(const Program& program, const Arguments& arguments,
                                              const InterpretOptions& options) {
  return run_sequentially(program, arguments.scalars, arguments, options);
}

}  // namespace astatide::tile
