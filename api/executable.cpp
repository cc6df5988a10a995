#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <span>

#include "api/executable_state.h"
#include "api/sim_device.h"
#include "api/tensors_in_order.h"
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
    if (declared.is_written() && view.strides[n] == 0 && view.shape[n] > 1)
      errors.error({},
                   fmt::format("{} is {} and has stride 0 over the {} elements of dimension {}", name,
                               declared.output ? "an output" : "updated", view.shape[n], n + 1),
                   {"only inputs that are read alone may be broadcast"});
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
  known[LaunchPlan::kResident] = compiled.code->resident_blocks(chosen->kernel);
  extents[chosen->extent] = evaluate_integer(chosen->value, known);
}

/// What the words of a kernel's arguments are made from.
struct Bindings {
  const std::vector<TensorView>& views;  // in the order of `numbers`
  const std::map<std::string, std::size_t>& numbers;
  const Workspace& workspace;
  const Extents& extents;
  const std::map<std::string, float>& scalars;
};

/// Refuses a workspace of the caller that the launch can't use.
void check_workspace(const Compiled& compiled, const LaunchArguments& arguments, std::int64_t needed) {
  if (needed == 0 || arguments.workspace == nullptr) return;
  if (arguments.workspace_bytes && *arguments.workspace_bytes < needed)
    throw UserError(fmt::format("the workspace has {} bytes, {} are needed", *arguments.workspace_bytes, needed),
                    {"without a workspace of the caller the library keeps its own"});
  if (reinterpret_cast<std::uintptr_t>(arguments.workspace) % kScratchAlignment != 0)
    throw UserError(fmt::format("the workspace begins at {}, wanted is a multiple of {} bytes", arguments.workspace,
                                kScratchAlignment));
  compiled.code->check_pointer("the workspace", arguments.workspace);
}

std::shared_ptr<const MappedTensor> mapped_tensor(const tile::Parameter& parameter, const TensorView& view,
                                                  const Extents& extents) {
  const MapForm form = map_form(parameter, view.shape.size());
  auto mapped = std::make_shared<MappedTensor>();
  mapped->name = parameter.name;
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
  const auto number = [&] { return bound.numbers.at(parameter.name); };
  switch (parameter.kind) {
    case Kind::pointer:
      if (is_scratch) return {parameter.kind, bits(place->second.offset)};
      return {parameter.kind, 0, number()};
    case Kind::stride:
      return {parameter.kind, bits(is_scratch ? place->second.strides[dim] : bound.views[number()].strides[dim])};
    case Kind::extent:
      return {parameter.kind, bits(bound.extents.at(parameter.name))};
    case Kind::scalar:
      return {parameter.kind, word_of(bound.scalars.at(parameter.name))};
    case Kind::tensor_map:
      return {parameter.kind, 0, number(), mapped_tensor(parameter, bound.views[number()], bound.extents)};
    case Kind::arrivals:
      return {parameter.kind, bits(bound.workspace.counters.at(parameter.name))};  // the device's
    case Kind::counter:
      return {parameter.kind};  // the device's
  }
  throw InternalError("a parameter of no kind");
}

/// Kernels for these shapes, strides and scalars.
void bind_kernels(const Compiled& compiled, const Extents& extents, const std::map<std::string, float>& scalars,
                  SettledLaunch& out) {
  const Workspace workspace = place_tensors(compiled, extents);
  std::map<std::string, std::size_t> numbers;
  for (std::size_t n = 0; n < compiled.declared.size(); ++n) numbers[compiled.declared[n].name] = n;
  const Bindings bound{out.views, numbers, workspace, extents, scalars};
  std::vector<KernelLaunch> launches;
  for (std::size_t n = 0; n < compiled.program.kernels.size(); ++n) {
    if (out.has_mask_map && compiled.program.kernels[n].maps_masks) continue;
    const KernelPlan& plan = compiled.plan.kernels[n];
    const std::int64_t tiles = count_tiles(compiled.program.kernels[n].name, plan, extents, compiled.target);
    if (tiles == 0) continue;
    KernelLaunch& launch = launches.emplace_back(KernelLaunch{n, tiles, {}});
    for (const tile::Parameter& parameter : plan.parameters) launch.arguments.push_back(argument_of(parameter, bound));
  }
  out.workspace_bytes = workspace.bytes;
  out.kernels = compiled.code->bind(std::move(launches), workspace.bytes);
}

bool is_same_but_for_memory(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

bool are_same(const SettledLaunch& settled, const TensorsInOrder& tensors, const LaunchArguments& arguments) {
  for (std::size_t n = 0; n < settled.views.size(); ++n)
    if (!is_same_but_for_memory(settled.views[n], *tensors.views()[n])) return false;
  const auto same_number = [](const auto& a, const auto& b) {
    return a.first == b.first && bits_of(a.second) == bits_of(b.second);
  };
  return arguments.mask_map_is_current == settled.has_mask_map && arguments.extents == settled.given &&
         std::equal(arguments.scalars.begin(), arguments.scalars.end(), settled.scalars.begin(), settled.scalars.end(),
                    same_number);
}

/// Whether indices read tensors that the host has: they are looked at for each launch.
bool reads_host_data(const Compiled& compiled) {
  return compiled.code->uses_host_memory() && !compiled.reads.integers.empty();
}

void check_data(const Compiled& compiled, const Extents& extents, const LaunchArguments& arguments) {
  Diagnostics errors;
  const IndexData data = index_data(compiled, arguments);
  check_reads(compiled.reads, extents, data.views, errors);
  errors.throw_if_any();
}

/// Refuses to take a map of masks from an earlier launch where there is none, or its memory is not the caller's.
void check_mask_map(const Compiled& compiled, const LaunchArguments& arguments) {
  if (!arguments.mask_map_is_current) return;
  const std::vector<tile::Kernel>& kernels = compiled.program.kernels;
  if (std::none_of(kernels.begin(), kernels.end(), [](const tile::Kernel& kernel) { return kernel.maps_masks; }))
    throw UserError(fmt::format("mask_map_is_current: {} makes no map of masks", compiled.program.name),
                    {"mask_map: true in the schedule"});
  if (arguments.workspace == nullptr)
    throw UserError("mask_map_is_current: the map lies in the workspace, and none is given",
                    {"the workspace of the launch that made it"});
}

/// Checks everything, and settles what does not depend on addresses.
std::unique_ptr<SettledLaunch> settle(const Compiled& compiled, const LaunchArguments& arguments) {
  check_mask_map(compiled, arguments);
  auto out = std::make_unique<SettledLaunch>();
  out->extents = checked_extents(compiled, arguments);
  Extents chosen = out->extents;
  choose_parts(compiled, chosen);
  const std::map<std::string, float> scalars = checked_scalars(compiled.algorithm, chosen, arguments.scalars);
  out->scalars = arguments.scalars;
  out->given = arguments.extents;
  out->has_mask_map = arguments.mask_map_is_current;
  bool writes = false;
  for (const DeclaredTensor& declared : compiled.declared) {
    out->views.push_back(arguments.tensors.at(declared.name));
    out->views.back().data = nullptr;
    writes = writes || (declared.is_written() && !is_empty(out->views.back()));
  }
  if (writes) bind_kernels(compiled, chosen, scalars, *out);
  return out;
}

void run(const Compiled& compiled, SettledLaunch& settled, std::span<void* const> addresses,
         const LaunchArguments& arguments) {
  if (!settled.kernels) return;
  check_mask_map(compiled, arguments);
  check_workspace(compiled, arguments, settled.workspace_bytes);
  for (std::size_t n = 0; n < addresses.size(); ++n)
    if (!is_empty(settled.views[n])) compiled.code->check_pointer(compiled.declared[n].name, addresses[n]);
  settled.kernels->launch(addresses, arguments.workspace, arguments.stream);
}

}  // namespace

SimulationReport simulate(const Executable& executable, const LaunchArguments& arguments,
                          const SimulationOptions& options) {
  const Compiled& compiled = *executable.state().compiled;
  if (!compiled.simulated)
    throw UserError(fmt::format("the executable was built for {}, not to be simulated", compiled.target.name),
                    {"a build for Device::sim()"});
  const Extents extents = checked_extents(compiled, arguments);
  return simulate_launch(compiled, arguments, extents, checked_scalars(compiled.algorithm, extents, arguments.scalars),
                         options);
}

void Executable::launch(const LaunchArguments& arguments) const {
  const Compiled& compiled = *state_->compiled;
  if (compiled.simulated) {
    const SimulationReport report = simulate(*this, arguments);
    if (report.fault) throw InternalError(to_text(*report.fault));
    return;
  }
  const TensorsInOrder tensors(compiled.declared, arguments.tensors);
  const std::uint64_t hash = tensors.complete() ? hash_of(tensors, arguments) : 0;
  if (tensors.complete() && !arguments.check_indices && tensors.have_good_addresses()) {
    const auto loan = compiled.settled.find(hash, [&](const SettledLaunch& settled) {
      return are_same(settled, tensors, arguments) && (!settled.kernels || settled.kernels->fits());
    });
    if (loan) {
      if (reads_host_data(compiled)) check_data(compiled, loan->extents, arguments);
      return run(compiled, *loan, tensors.addresses(), arguments);
    }
  }
  std::unique_ptr<SettledLaunch> settled = settle(compiled, arguments);
  std::vector<void*> addresses;
  for (const DeclaredTensor& declared : compiled.declared)
    addresses.push_back(arguments.tensors.at(declared.name).data);
  run(compiled, *settled, addresses, arguments);
  if (tensors.complete()) compiled.settled.keep(hash, std::move(settled));
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
