#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>

#include "api/executable_state.h"
#include "compiler/support/contains.h"
#include "compiler/tile/parameters.h"
#include "runtime/host_tensor.h"

namespace astatide {
namespace {

std::uint64_t word_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// A scratch tensor's place in the workspace.
struct Place {
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;
};

struct Workspace {
  std::map<std::string, Place> places;
  std::map<std::string, std::int64_t> counters;  // how many, by tensor: they lie with the device, not here
  std::int64_t bytes = 0;
};

Workspace plan_workspace(const tile::Program& program, const Extents& extents) {
  Workspace out;
  for (const tile::Tensor& tensor : program.tensors) {
    const bool counters = tensor.role == tile::Tensor::Role::counters;
    if (tensor.role != tile::Tensor::Role::scratch && !counters) continue;
    const std::vector<std::int64_t> shape = evaluate_shape(tensor.dims, extents);
    const int size = size_in_bytes(tensor.type);
    const std::int64_t count = runtime::checked_element_count(shape, size, "scratch tensor " + tensor.name);
    if (counters) {
      out.places[tensor.name] = {0, runtime::dense_strides(shape)};
      out.counters[tensor.name] = count;
      continue;
    }
    out.places[tensor.name] = {out.bytes, runtime::dense_strides(shape)};
    std::int64_t end = 0;
    if (__builtin_add_overflow(out.bytes, count * size, &end) ||
        __builtin_add_overflow(end, kScratchAlignment - 1, &end))
      throw UserError(fmt::format("the scratch tensors of {} need more than 2^63 bytes", program.name));
    out.bytes = end / kScratchAlignment * kScratchAlignment;
  }
  return out;
}

/// Refuses what a kernel can't read or write: no memory, a misaligned address, rows of an output on top of each other,
/// offsets that leave 64 bits.
void check_memory(const DeclaredTensor& declared, const TensorView& view, Diagnostics& errors) {
  const std::string& name = declared.name;
  if (view.strides.size() != view.shape.size()) {
    errors.error({}, fmt::format("{} has {} strides and {} dimensions", name, view.strides.size(), view.shape.size()));
    return;
  }
  const int size = size_in_bytes(view.dtype);
  if (std::any_of(view.shape.begin(), view.shape.end(), [](std::int64_t extent) { return extent <= 0; })) return;
  std::int64_t reach = 0;
  for (std::size_t n = 0; n < view.shape.size(); ++n) {
    std::int64_t step = 0;
    std::int64_t stride = 0;
    // A stride of 2^63 bytes backwards has no positive counterpart.
    if (view.strides[n] == INT64_MIN || __builtin_mul_overflow(view.strides[n], std::int64_t{size}, &stride) ||
        __builtin_mul_overflow(stride < 0 ? -stride : stride, view.shape[n] - 1, &step) ||
        __builtin_add_overflow(reach, step, &reach)) {
      errors.error(
          {}, fmt::format("{} with stride {} of dimension {} reaches past 2^63 bytes", name, view.strides[n], n + 1));
      return;
    }
    if (declared.output && view.strides[n] == 0 && view.shape[n] > 1)
      errors.error({},
                   fmt::format("{} is an output and has stride 0 over the {} elements of dimension {}", name,
                               view.shape[n], n + 1),
                   {"only inputs may be broadcast"});
  }
  if (view.data == nullptr) {
    errors.error({}, fmt::format("{} has no memory", name));
  } else if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(size) != 0) {
    errors.error(
        {}, fmt::format("the address of {} is no multiple of {}, the size of {}", name, size, name_of(view.dtype)));
  }
}

void check_types(const Compiled& compiled, const std::map<std::string, TensorView>& tensors, Diagnostics& errors) {
  for (const DeclaredTensor& declared : compiled.declared) {
    const auto view = tensors.find(declared.name);
    const tile::Tensor* tensor = compiled.program.find_tensor(declared.name);
    if (view == tensors.end()) {
      errors.error({}, fmt::format("{} {} is missing", declared.output ? "output" : "input", describe(declared)));
    } else if (tensor != nullptr && tensor->type != view->second.dtype) {
      errors.error({}, fmt::format("{} is {}, the kernel was built for {}", declared.name, name_of(view->second.dtype),
                                   name_of(tensor->type)));
    }
  }
}

void check_known(const tile::Program& program, const Extents& extents, Diagnostics& errors) {
  for (const auto& [name, value] : program.known) {
    const auto given = extents.find(name);
    if (given == extents.end() || given->second == value) continue;
    errors.error({}, fmt::format("{} is {}, the kernel was built for {}", name, given->second, value),
                 {"no loop tiles this extent, so another value needs another build"});
  }
  for (const auto& [name, most] : program.bounds) {
    const auto given = extents.find(name);
    if (given == extents.end() || given->second <= most) continue;
    errors.error({}, fmt::format("{} is {}, the schedule bounds it by {}", name, given->second, most),
                 {fmt::format("bound: {{{}: {}}} in the schedule, where it fits", name, given->second)});
  }
}

void check_multiples(const tile::Program& program, const Extents& extents, Diagnostics& errors) {
  for (const Multiple& multiple : program.multiples) {
    const std::int64_t value = evaluate_integer(multiple.value, extents), of = evaluate_integer(multiple.of, extents);
    // Of no elements there are no groups.
    if (value == 0 || (of > 0 && value % of == 0)) continue;
    errors.error({},
                 fmt::format("{} is {}, which {} = {} does not divide, and the schedule splits it so",
                             to_string(multiple.value), value, to_string(multiple.of), of),
                 {"a schedule without split"});
  }
}

/// Inputs of integers that indices read, as far as the host may look at them.
struct IndexData {
  HostIntegers views;
  std::list<std::vector<std::byte>> copies;
};

IndexData index_data(const Compiled& compiled, const LaunchArguments& arguments) {
  IndexData out;
  const bool on_host = compiled.code->uses_host_memory();
  if (!on_host && !arguments.check_indices) return out;
  for (const std::string& name : index_inputs(compiled.reads)) {
    TensorView view = arguments.tensors.at(name);
    if (!on_host && !contains(view.shape, 0)) {
      compiled.code->check_pointer(name, view.data);
      std::int64_t before = 0, behind = 1;  // elements, of which the address is one
      for (std::size_t n = 0; n < view.shape.size(); ++n)
        (view.strides[n] < 0 ? before : behind) += view.strides[n] * (view.shape[n] - 1);
      const std::int64_t size = size_in_bytes(view.dtype);
      std::vector<std::byte>& copy = out.copies.emplace_back(static_cast<std::size_t>((behind - before) * size));
      compiled.code->copy_to_host(static_cast<const std::byte*>(view.data) + before * size, copy, arguments.stream);
      view.data = copy.data() - before * size;
    }
    out.views[name] = std::move(view);
  }
  return out;
}

/// Extents of a launch, everything about shapes and memory checked.
Extents checked_extents(const Compiled& compiled, const LaunchArguments& arguments) {
  Diagnostics errors;
  check_types(compiled, arguments.tensors, errors);
  Extents extents = solve_extents(compiled.declared, arguments.tensors, arguments.extents, errors);
  // What no shape shows may be what the build fixed.
  for (const auto& [name, value] : compiled.program.known) extents.try_emplace(name, value);
  errors.throw_if_any();
  check_extents(compiled.algorithm, extents, errors);
  errors.throw_if_any();
  check_known(compiled.program, extents, errors);
  check_multiples(compiled.program, extents, errors);
  check_axis_groups(compiled.groups, extents, errors);
  for (const DeclaredTensor& declared : compiled.declared) {
    const TensorView& view = arguments.tensors.at(declared.name);
    check_memory(declared, view, errors);
    if (view.shape != evaluate_shape(declared.dims, extents))
      errors.error({}, fmt::format("{} has the shape [{}], {} is [{}]", declared.name, fmt::join(view.shape, ", "),
                                   describe(declared), fmt::join(evaluate_shape(declared.dims, extents), ", ")));
  }
  errors.throw_if_any();
  const IndexData data = index_data(compiled, arguments);
  check_reads(compiled.reads, extents, data.views, errors,
              arguments.check_indices ? PlacesChecked::all : PlacesChecked::few);
  errors.throw_if_any();
  return extents;
}

std::map<std::string, float> checked_scalars(const Algorithm& algorithm, const Extents& extents,
                                             const std::map<std::string, double>& given) {
  std::map<std::string, float> scalars;
  for (const auto& [name, value] : resolve_scalars(algorithm, extents, given)) {
    scalars[name] = static_cast<float>(value);
    if (!std::isfinite(scalars[name]))
      throw UserError(fmt::format("scalar {} is {}, which f32 does not hold", name, value));
  }
  return scalars;
}

/// Blocks of a kernel; throws UserError where they are more than the grid holds.
std::int64_t count_tiles(const tile::Kernel& kernel, const Extents& extents, const Target& target) {
  std::int64_t product = 1;
  std::string factors;
  bool overflow = false;
  for (const tile::TileAxis& axis : kernel.tiles) {
    std::int64_t count = std::max<std::int64_t>(0, evaluate_integer(kernel.steps_along(axis), extents));
    if (kernel.cluster && kernel.cluster->var == axis.var) count *= kernel.cluster->blocks;
    factors += fmt::format("{}{} = {}", factors.empty() ? "" : ", ", axis.var, count);
    if (count == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(product, count, &product);
  }
  if (overflow || product > target.blocks_per_grid)
    throw UserError(
        fmt::format("kernel {} needs {} blocks, {} allows {}", kernel.name,
                    overflow ? "more than 2^63" : std::to_string(product), target.name, target.blocks_per_grid),
        {"blocks along each axis: " + factors});
  return product;
}

/// The same with the extent that launches choose, where there is one.
void choose_parts(const Compiled& compiled, Extents& extents) {
  if (const auto& parts = compiled.program.parts)
    extents[parts->extent] = parts->choose(extents, compiled.code->resident_blocks(0));
}

/// What the words of a kernel's arguments are made from.
struct Bindings {
  const std::map<std::string, TensorView>& tensors;
  const Workspace& workspace;
  std::byte* scratch;
  const Extents& extents;
  const std::map<std::string, float>& scalars;
};

/// Of a copy's rows those along the faster dimension, where they are packed.
std::uint32_t rows_of_run(const tile::Parameter& parameter, const Extents& extents) {
  const std::int64_t length = evaluate_integer(parameter.packed->length, extents);
  if (length >= 1 && parameter.rows % length == 0) return static_cast<std::uint32_t>(length);
  throw UserError(fmt::format("tma copies {} rows of {} at a time, which {} = {} does not divide, so they are no box",
                              parameter.rows, parameter.name, print_expr(parameter.packed->length, {}, true), length),
                  {fmt::format("a schedule that copies {} by cp_async or vector takes any number", parameter.name)});
}

/// Dimensions in the order of the kernel's coordinates: columns, rows, then the others, innermost first.
std::shared_ptr<const MappedTensor> mapped_tensor(const tile::Parameter& parameter, const TensorView& view,
                                                  const Extents& extents) {
  constexpr std::uint32_t kPanel = 64;
  auto mapped = std::make_shared<MappedTensor>();
  mapped->name = parameter.name;
  mapped->address = reinterpret_cast<std::uintptr_t>(view.data);
  mapped->type = view.dtype;
  mapped->stored = parameter.stored;
  std::vector<std::size_t> order{static_cast<std::size_t>(parameter.inner)};
  if (parameter.packed) order.push_back(static_cast<std::size_t>(parameter.packed->fast_dim));
  order.push_back(static_cast<std::size_t>(parameter.dim));
  for (std::size_t dim = view.shape.size(); dim-- > 0;)
    if (std::find(order.begin(), order.end(), dim) == order.end()) order.push_back(dim);
  for (const std::size_t dim : order) {
    mapped->extents.push_back(static_cast<std::uint64_t>(view.shape[dim]));
    mapped->strides.push_back(view.strides[dim]);
    mapped->box.push_back(1);
  }
  mapped->box[0] = kPanel;
  mapped->box[1] = parameter.packed ? rows_of_run(parameter, extents) : static_cast<std::uint32_t>(parameter.rows);
  if (parameter.packed) mapped->box[2] = static_cast<std::uint32_t>(parameter.rows) / mapped->box[1];
  return mapped;
}

ArgumentValue argument_of(const tile::Parameter& parameter, const Bindings& bound) {
  using Kind = tile::Parameter::Kind;
  const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
  const auto place = bound.workspace.places.find(parameter.name);
  const bool is_scratch = place != bound.workspace.places.end();
  const auto dim = static_cast<std::size_t>(parameter.dim);
  switch (parameter.kind) {
    case Kind::pointer:
      return {parameter.kind, is_scratch ? reinterpret_cast<std::uintptr_t>(bound.scratch + place->second.offset)
                                         : reinterpret_cast<std::uintptr_t>(bound.tensors.at(parameter.name).data)};
    case Kind::stride:
      return {parameter.kind,
              bits(is_scratch ? place->second.strides[dim] : bound.tensors.at(parameter.name).strides[dim])};
    case Kind::extent:
      return {parameter.kind, bits(bound.extents.at(parameter.name))};
    case Kind::scalar:
      return {parameter.kind, word_of(bound.scalars.at(parameter.name))};
    case Kind::tensor_map:
      return {parameter.kind, 0, mapped_tensor(parameter, bound.tensors.at(parameter.name), bound.extents)};
    case Kind::arrivals:
      return {parameter.kind, bits(bound.workspace.counters.at(parameter.name))};  // the device's
    case Kind::counter:
      return {parameter.kind};  // the device's
  }
  throw InternalError("a parameter of no kind");
}

bool is_empty(const TensorView& view) { return std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end(); }

}  // namespace

void Executable::launch(const LaunchArguments& arguments) const {
  const Compiled& compiled = *state_->compiled;
  const tile::Program& program = compiled.program;
  Extents extents = checked_extents(compiled, arguments);
  choose_parts(compiled, extents);
  const std::map<std::string, float> scalars = checked_scalars(compiled.algorithm, extents, arguments.scalars);
  const bool nothing_to_write =
      std::all_of(compiled.declared.begin(), compiled.declared.end(), [&](const DeclaredTensor& declared) {
        return !declared.output || is_empty(arguments.tensors.at(declared.name));
      });
  if (nothing_to_write) return;
  const Workspace workspace = plan_workspace(program, extents);

  std::vector<KernelLaunch> launches;
  for (std::size_t n = 0; n < program.kernels.size(); ++n)
    launches.push_back({n, count_tiles(program.kernels[n], extents, compiled.target), {}});
  for (const DeclaredTensor& declared : compiled.declared) {
    const TensorView& view = arguments.tensors.at(declared.name);
    if (!is_empty(view)) compiled.code->check_pointer(declared.name, view.data);
  }

  ScratchLease lease{arguments.workspace, {}};
  if (workspace.bytes > 0 && arguments.workspace == nullptr)
    lease = compiled.code->scratch(workspace.bytes, arguments.stream);
  const Bindings bound{arguments.tensors, workspace, static_cast<std::byte*>(lease.memory), extents, scalars};
  std::erase_if(launches, [](const KernelLaunch& launch) { return launch.tiles == 0; });
  for (KernelLaunch& launch : launches)
    for (const tile::Parameter& parameter : compiled.parameters[launch.kernel])
      launch.arguments.push_back(argument_of(parameter, bound));
  compiled.code->launch(launches, arguments.stream);
}

std::int64_t Executable::workspace_bytes(const std::map<std::string, std::int64_t>& extents) const {
  Extents all = extents;
  for (const auto& [name, value] : state_->compiled->program.known) all.try_emplace(name, value);
  Diagnostics errors;
  check_extents(state_->compiled->algorithm, all, errors);
  errors.throw_if_any();
  choose_parts(*state_->compiled, all);
  return plan_workspace(state_->compiled->program, all).bytes;
}

const Algorithm& Executable::algorithm() const { return state_->compiled->algorithm; }
const tile::Program& Executable::program() const { return state_->compiled->program; }
const std::map<std::string, std::string>& Executable::parts_of() const { return state_->compiled->parts_of; }
const BuildReport& Executable::report() const { return state_->report; }

std::map<std::string, std::int64_t> extents_of(const Algorithm& algorithm,
                                               const std::map<std::string, TensorView>& tensors) {
  Diagnostics errors;
  Extents extents = solve_extents(declared_tensors(algorithm), tensors, {}, errors);
  errors.throw_if_any();
  return extents;
}

TensorView describe_tensor(const Executable& executable, const std::string& name,
                           const std::map<std::string, std::int64_t>& extents) {
  const tile::Tensor* tensor = executable.program().find_tensor(name);
  if (tensor == nullptr || tensor->role == tile::Tensor::Role::scratch || tensor->role == tile::Tensor::Role::counters)
    throw UserError(fmt::format("the algorithm has no tensor {}", name));
  Extents all = extents;
  for (const auto& [known, value] : executable.program().known) all.try_emplace(known, value);
  Diagnostics errors;
  check_extents(executable.algorithm(), all, errors);
  errors.throw_if_any();
  TensorView view;
  view.dtype = tensor->type;
  view.shape = evaluate_shape(tensor->dims, all);
  runtime::checked_element_count(view.shape, size_in_bytes(view.dtype), name);
  view.strides = runtime::dense_strides(view.shape);
  return view;
}

}  // namespace astatide
