#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>

#include "api/executable_state.h"
#include "compiler/algorithm/names.h"
#include "compiler/support/contains.h"
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

Workspace place_tensors(const Compiled& compiled, const Extents& extents) {
  Workspace out;
  const auto place = [&](const tile::Tensor& tensor, std::int64_t& end) {
    const std::vector<std::int64_t> shape = evaluate_shape(tensor.dims, extents);
    Place& own = out.places[tensor.name];
    own.offset = end;
    own.strides.resize(shape.size());
    std::int64_t count = 0;
    if (!astatide_place_tensor(static_cast<int>(shape.size()), shape.data(), size_in_bytes(tensor.type),
                               own.strides.data(), &count, &end))
      throw UserError(
          fmt::format("scratch tensor {}: {} needs more than 2^63 bytes of them", tensor.name, compiled.program.name));
    return count;
  };
  for (const tile::Tensor& tensor : compiled.plan.scratch) place(tensor, out.bytes);
  for (const tile::Tensor& tensor : compiled.plan.counters) {
    std::int64_t own = 0;
    out.counters[tensor.name] = place(tensor, own);
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
    if (!astatide_add_reach(view.strides[n], size, view.shape[n], &reach)) {
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
    if (astatide_is_multiple(value, of)) continue;
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
std::int64_t count_tiles(const std::string& name, const KernelPlan& kernel, const Extents& extents,
                         const Target& target) {
  std::int64_t product = 1;
  std::string factors;
  bool overflow = false;
  for (const KernelPlan::Axis& axis : kernel.grid) {
    const std::int64_t count = evaluate_integer(axis.blocks, extents);
    factors += fmt::format("{}{} = {}", factors.empty() ? "" : ", ", axis.var, count);
    if (count == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(product, count, &product);
  }
  if (overflow || product > target.blocks_per_grid)
    throw UserError(
        fmt::format("kernel {} needs {} blocks, {} allows {}", name,
                    overflow ? "more than 2^63" : std::to_string(product), target.name, target.blocks_per_grid),
        {"blocks along each axis: " + factors});
  return product;
}

/// The same with the extent that launches choose, where there is one.
void choose_parts(const Compiled& compiled, Extents& extents) {
  const auto& chosen = compiled.plan.chosen;
  if (!chosen) return;
  Extents known = extents;
  known[LaunchPlan::kResident] = compiled.code->resident_blocks(0);
  extents[chosen->extent] = evaluate_integer(chosen->value, known);
}

/// What the words of a kernel's arguments are made from.
struct Bindings {
  const std::map<std::string, TensorView>& tensors;
  const Workspace& workspace;
  std::byte* scratch;
  const Extents& extents;
  const std::map<std::string, float>& scalars;
};

/// Refuses a workspace of the caller that the launch can't use.
void check_workspace(const LaunchArguments& arguments, std::int64_t needed) {
  if (needed == 0 || arguments.workspace == nullptr) return;
  if (arguments.workspace_bytes && *arguments.workspace_bytes < needed)
    throw UserError(fmt::format("the workspace has {} bytes, {} are needed", *arguments.workspace_bytes, needed),
                    {"without a workspace of the caller the library keeps its own"});
  if (reinterpret_cast<std::uintptr_t>(arguments.workspace) % kScratchAlignment != 0)
    throw UserError(fmt::format("the workspace begins at {}, wanted is a multiple of {} bytes", arguments.workspace,
                                kScratchAlignment));
}

std::shared_ptr<const MappedTensor> mapped_tensor(const tile::Parameter& parameter, const TensorView& view,
                                                  const Extents& extents) {
  const MapForm form = map_form(parameter, view.shape.size());
  auto mapped = std::make_shared<MappedTensor>();
  mapped->name = parameter.name;
  mapped->address = reinterpret_cast<std::uintptr_t>(view.data);
  mapped->type = view.dtype;
  mapped->stored = parameter.stored;
  for (const std::size_t dim : form.order) {
    mapped->extents.push_back(static_cast<std::uint64_t>(view.shape[dim]));
    mapped->strides.push_back(view.strides[dim]);
    mapped->box.push_back(1);
  }
  const std::int64_t run = form.run ? evaluate_integer(*form.run, extents) : 0;
  if (!astatide_box_of_rows(form.rows, form.run ? 1 : 0, run, mapped->box.data()))
    throw UserError(fmt::format("tma copies {} rows of {} at a time, which {} = {} does not divide, so they are no box",
                                form.rows, parameter.name, print_expr(*form.run, {}, true), run),
                    {fmt::format("a schedule that copies {} by cp_async or vector takes any number", parameter.name)});
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
  const Workspace workspace = place_tensors(compiled, extents);
  check_workspace(arguments, workspace.bytes);

  std::vector<KernelLaunch> launches;
  for (std::size_t n = 0; n < program.kernels.size(); ++n)
    launches.push_back(
        {n, count_tiles(program.kernels[n].name, compiled.plan.kernels[n], extents, compiled.target), {}});
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
    for (const tile::Parameter& parameter : compiled.plan.kernels[launch.kernel].parameters)
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
  return place_tensors(*state_->compiled, all).bytes;
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
