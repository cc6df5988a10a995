#include <fmt/format.h>

#include "api/clock.h"
#include "api/cuda_device.h"
#include "api/engine_state.h"
#include "api/sim_device.h"
#include "runtime/environment.h"

namespace astatide {
namespace {

runtime::DiskCache open_disk_cache(const EngineOptions& options) {
  if (!options.use_disk_cache) return runtime::DiskCache(std::filesystem::path());
  runtime::Environment environment = runtime::read_environment();
  if (options.cache_limit) environment.cache_limit = options.cache_limit;
  if (!options.cache_directory.empty()) return runtime::DiskCache(options.cache_directory, environment.cache_limit);
  return runtime::DiskCache::from_environment(environment);
}

/// What is simulated where neither schedule nor caller says.
constexpr const char* kSimulatedTarget = "sm_90a";

std::string tuning_store(const EngineOptions& options, const runtime::DiskCache& disk) {
  if (!options.tuning_store.empty()) return options.tuning_store;
  return default_tuning_store(disk.root().string());
}

void check_dtype(ScalarType dtype) {
  if (dtype == ScalarType::f32 || dtype == ScalarType::f16 || dtype == ScalarType::bf16) return;
  throw UserError(fmt::format("{} is no type to compute with, wanted is f32, f16 or bf16", name_of(dtype)));
}

void check_sizes(const Algorithm& algorithm, const BuildOptions& options) {
  Diagnostics errors;
  for (const auto& [name, value] : options.sizes) {
    if (algorithm.find_extent(name) == nullptr) {
      errors.error({}, fmt::format("the algorithm has no extent {}", name));
    } else if (value < 0 || value > kLargestExtent) {
      errors.error({}, fmt::format("{} is {}, extents are 0 to {}", name, value, kLargestExtent));
    }
  }
  errors.throw_if_any();
}

}  // namespace

std::string key_of(const Recipe& recipe, const Target& target, const BuildOptions& options) {
  std::string key = print_algorithm(recipe.algorithm);
  // Fields are separated by a byte that no printed value holds.
  const auto add = [&key](const std::string& field) { (key += '\0') += field; };
  add(recipe.how);
  add(target.name);
  add(std::to_string(target.shared_memory_per_block));
  add(options.device.kind == Device::Kind::sim ? "sim" : std::to_string(options.device.ordinal));
  add(std::string(name_of(options.dtype)));
  for (const auto& [name, value] : recipe.known) add(fmt::format("{}={}", name, value));
  return key;
}

Engine::State::State(const EngineOptions& options)
    : kernels(std::make_shared<runtime::KernelCache>(open_disk_cache(options))),
      // The disk of the kernel cache, kept alive with it.
      cpu(options.threads, std::shared_ptr<runtime::DiskCache>(kernels, &kernels->disk()), counters),
      tuned(tuning_store(options, kernels->disk()), options.threads) {}

NamedSchedule Engine::State::choose(const Algorithm& algorithm, const BuildOptions& options, const Target& target) {
  check_dtype(options.dtype);
  check_algorithm(algorithm);
  const DispatchRequest request{target, options.dtype, options.sizes};
  if (std::optional<NamedSchedule> found = tuned.find(algorithm, options.device, request)) return *std::move(found);
  return dispatch(algorithm, shipped_candidates(), request);
}

Recipe Engine::State::recipe_of(const Algorithm& algorithm, const Schedule& schedule, const BuildOptions& options) {
  check_dtype(options.dtype);
  check_algorithm(algorithm);
  check_sizes(algorithm, options);
  return {algorithm,
          print_schedule(schedule),
          known_extents(algorithm, schedule, options.sizes),
          [algorithm, schedule](const CompileOptions& with, const TraceHook& trace) {
            return compile(algorithm, schedule, with, trace);
          },
          {},
          directives_of(schedule)};
}

Engine::State::Built Engine::State::build(const Recipe& recipe, const BuildOptions& request, const Target& target) {
  const auto start = Clock::now();
  auto compiled = std::make_shared<Compiled>();
  auto state = std::make_shared<Executable::State>();
  const Algorithm& algorithm = compiled->algorithm = recipe.algorithm;
  compiled->target = target;
  compiled->program = recipe.compile({compiled->target, request.sizes, request.dtype}, request.trace);
  compiled->declared = declared_tensors(algorithm);
  compiled->groups = find_axis_groups(algorithm);
  compiled->reads = find_read_sites(algorithm);
  compiled->parts_of = recipe.parts_of;
  compiled->plan = plan_launch(compiled->program);
  state->report.target = target.name;
  state->report.lower_ms = milliseconds_since(start);
  const runtime::BuildNotes notes{print_algorithm(algorithm), recipe.how, state->report.lower_ms};
  switch (request.device.kind) {
    case Device::Kind::cuda:
      compiled->code =
          compile_for_cuda(compiled->program, target, request.device.ordinal, kernels, notes, state->report);
      break;
    case Device::Kind::cpu:
      compiled->code = cpu.compile(compiled->program, notes, state->report);
      break;
    case Device::Kind::sim:
      compiled->code = make_simulated_code();
      compiled->simulated = true;
      compiled->directives = recipe.directives;
      state->report.source = tile::print(compiled->program);
      state->report.cache = name_of(runtime::CacheOrigin::none);
      break;
  }
  state->compiled = std::move(compiled);
  return state;
}

Executable Engine::State::find_or_build(const Recipe& recipe, const BuildOptions& options) {
  const Target target = target_of(options.device);
  if (options.trace) return Executable(build(recipe, options, target));
  const std::string key = key_of(recipe, target, options);
  std::promise<Built> promise;
  std::shared_future<Built> others;
  {
    const std::lock_guard lock(mutex);
    const auto [entry, added] = built.try_emplace(key);
    if (added) {
      entry->second = promise.get_future().share();
    } else {
      others = entry->second;
    }
  }
  if (others.valid()) {
    auto again = std::make_shared<Executable::State>(*others.get());
    ++counters->memory_hits;
    again->report.cache = name_of(runtime::CacheOrigin::memory);
    again->report.lower_ms = again->report.compile_ms = 0;
    return Executable(std::move(again));
  }
  try {
    Built own = build(recipe, options, target);
    promise.set_value(own);
    return Executable(std::move(own));
  } catch (...) {
    {
      // A failure isn't kept: what the machine lacked may be there the next time.
      const std::lock_guard lock(mutex);
      built.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

Target target_of(const Device& device) {
  if (device.kind == Device::Kind::cuda) return target_of_cuda_device(device.ordinal);
  if (device.kind == Device::Kind::cpu) return *find_target("cpu");
  const std::string name = device.target.empty() ? kSimulatedTarget : device.target;
  const Target* target = find_target(name);
  if (!target || !target->is_cuda()) throw UserError(fmt::format("no GPU to simulate is named {}", name));
  return *target;
}

std::optional<Device> find_gpu() {
  try {
    target_of(Device::cuda(0));
    return Device::cuda(0);
  } catch (const MachineError&) {
    return std::nullopt;
  }
}

Engine::Engine(EngineOptions options) : state_(std::make_unique<State>(options)) {}
Engine::~Engine() = default;

Executable Engine::build(const Algorithm& algorithm, const Schedule& schedule, const BuildOptions& request) {
  BuildOptions options = request;
  if (options.device.kind == Device::Kind::sim && options.device.target.empty())
    options.device.target = schedule.target;
  return state_->find_or_build(State::recipe_of(algorithm, schedule, options), options);
}

Executable Engine::build_merge(const Algorithm& algorithm, const BuildOptions& options,
                               std::optional<ScalarType> parts_type) {
  check_dtype(options.dtype);
  if (parts_type) check_dtype(*parts_type);
  check_algorithm(algorithm);
  const Merge merge = derive_merge(algorithm, parts_type);
  BuildOptions own = options;
  // What made the parts has extents that the merge has not, such as that of keys.
  std::erase_if(own.sizes, [&](const auto& size) {
    return algorithm.find_extent(size.first) != nullptr && merge.algorithm.find_extent(size.first) == nullptr;
  });
  check_sizes(merge.algorithm, own);
  return state_->find_or_build(
      {merge.algorithm, "merge", known_extents(merge, own.sizes),
       [&](const CompileOptions& with, const TraceHook& trace) { return compile_merge(merge, with, trace); },
       merge.parts_of},
      own);
}

Executable Engine::build(const Algorithm& algorithm, const BuildOptions& options) {
  return build(algorithm, choose(algorithm, options).schedule, options);
}

NamedSchedule Engine::choose(const Algorithm& algorithm, const BuildOptions& options) {
  return state_->choose(algorithm, options, target_of(options.device));
}

Counters Engine::counters() const {
  const runtime::Counters& cuda = state_->kernels->counters();
  const runtime::Counters& own = *state_->counters;
  return {cuda.compiles + own.compiles, cuda.disk_hits + own.disk_hits, cuda.memory_hits + own.memory_hits,
          cuda.launches + own.launches};
}

std::vector<std::string> Engine::take_warnings() {
  std::vector<std::string> warnings = state_->kernels->disk().take_warnings();
  for (std::string& warning : state_->tuned.take_warnings()) warnings.push_back(std::move(warning));
  return warnings;
}

}  // namespace astatide
