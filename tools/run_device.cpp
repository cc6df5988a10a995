#include "tools/run_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>

#include "api/cpu_device.h"
#include "api/launch_plan.h"
#include "compiler/algorithm/names.h"
#include "compiler/support/round_up.h"
#include "runtime/buffer.h"
#include "runtime/driver.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

constexpr double kSecondsOfTiming = 1;
constexpr int kMostRepetitions = 10;
// Of --rotate: copies hold so many times what the L2 cache does, and a graph has so many launches at least.
constexpr std::int64_t kCachesRotated = 4, kMostCopies = 64;
constexpr std::size_t kLeastLaunches = 24;

ChosenDevice cuda_device(int ordinal) {
  const runtime::DeviceFacts& facts = runtime::driver().device(ordinal);
  return {Device::cuda(ordinal), fmt::format("cuda:{}", ordinal), facts.name};
}

int choose_repetitions(int wanted, double first_seconds) {
  if (wanted > 0) return wanted;
  return std::clamp(static_cast<int>(kSecondsOfTiming / std::max(first_seconds, 1e-6)), 1, kMostRepetitions);
}

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Measured measured(const runtime::Timing& timing) {
  return {timing.median_ms, timing.min_ms, static_cast<int>(timing.samples_ms.size())};
}

Measured run_on_cpu(const Executable& executable, LaunchArguments arguments, int repetitions,
                    std::int64_t workspace_bytes) {
  std::unique_ptr<void, decltype(&std::free)> workspace(nullptr, std::free);
  if (workspace_bytes > 0) {
    const auto bytes = static_cast<std::size_t>(round_up(workspace_bytes, kScratchAlignment));
    workspace.reset(std::aligned_alloc(kScratchAlignment, bytes));
    if (!workspace) throw MachineError(fmt::format("no memory for a workspace of {} bytes", bytes));
    arguments.workspace = workspace.get();
  }
  const double first = seconds_of([&] { executable.launch(arguments); });
  arguments.mask_map_is_current = workspace_bytes > 0;
  std::vector<double> samples;
  for (int n = choose_repetitions(repetitions, first); n > 0; --n)
    samples.push_back(1e3 * seconds_of([&] { executable.launch(arguments); }));
  return measured(runtime::summarize_samples(std::move(samples)));
}

/// The tensors of a launch in device memory.
class DeviceTensors {
 public:
  DeviceTensors(const runtime::Context& context, const runtime::Stream& stream) : context_(context), stream_(stream) {}

  /// Its address.
  void* put(const std::string& name, const runtime::HostTensor& tensor) {
    runtime::DeviceBuffer buffer(context_, tensor.data->size());
    buffer.copy_from_host(*tensor.data, stream_);
    // Zero bytes have no address; an empty tensor needs none.
    void* const data = buffer.size() == 0 ? nullptr : reinterpret_cast<void*>(buffer.pointer() + tensor.offset);
    buffers_.emplace(name, std::move(buffer));
    return data;
  }
  void fetch(const std::string& name, runtime::HostTensor& into) const {
    buffers_.at(name).copy_to_host(*into.data, stream_);
  }

 private:
  const runtime::Context& context_;
  const runtime::Stream& stream_;
  std::map<std::string, runtime::DeviceBuffer> buffers_;
};

/// As often as copies of `inputs` are more than the L2 cache holds, and as launches that are worth a graph.
Measured time_rotated(const Executable& executable, const runtime::Context& context, const runtime::Stream& stream,
                      const HostTensors& inputs, const LaunchArguments& arguments,
                      const runtime::TimingOptions& options) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : inputs) bytes += static_cast<std::int64_t>(tensor.data->size());
  const std::int64_t cache = context.device().l2_bytes;
  const std::int64_t copies =
      std::clamp<std::int64_t>(kCachesRotated * cache / std::max<std::int64_t>(bytes, 1) + 1, 2, kMostCopies);
  std::vector<DeviceTensors> placed;
  while (std::ssize(placed) < copies) placed.emplace_back(context, stream);
  std::vector<LaunchArguments> of_copies(placed.size(), arguments);
  for (std::size_t n = 0; n < placed.size(); ++n)
    for (const auto& [name, tensor] : inputs) of_copies[n].tensors[name].data = placed[n].put(name, tensor);
  stream.synchronize();
  std::vector<std::function<void()>> launches;
  while (launches.size() < kLeastLaunches || launches.size() % placed.size() != 0) {
    const LaunchArguments& own = of_copies[launches.size() % placed.size()];
    launches.emplace_back([&executable, &own] { executable.launch(own); });
  }
  Measured out = measured(runtime::time_graph(stream, options, launches));
  out.launches = static_cast<int>(launches.size());
  out.copied = copies * bytes;
  out.cache_bytes = cache;
  return out;
}

Measured run_on_cuda(const Executable& executable, int ordinal, const HostTensors& inputs, HostTensors& outputs,
                     LaunchArguments arguments, const TimingWish& wish, std::int64_t workspace_bytes) {
  const runtime::Context context = runtime::Context::primary(ordinal);
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream stream = runtime::Stream::create(context);
  DeviceTensors tensors(context, stream);
  for (const auto& [name, tensor] : inputs)
    if (!outputs.contains(name)) arguments.tensors[name].data = tensors.put(name, tensor);
  for (const auto& [name, tensor] : outputs) arguments.tensors[name].data = tensors.put(name, tensor);
  arguments.stream = stream.handle();
  std::optional<runtime::DeviceBuffer> workspace;
  if (workspace_bytes > 0) {
    workspace.emplace(context, static_cast<std::size_t>(workspace_bytes));
    arguments.workspace = reinterpret_cast<void*>(workspace->pointer());
  }

  const double first = seconds_of([&] {
    executable.launch(arguments);
    stream.synchronize();
  });
  arguments.mask_map_is_current = wish.keep_mask_map;
  for (auto& [name, tensor] : outputs) tensors.fetch(name, tensor);
  runtime::TimingOptions options;
  options.warmup = 1;
  options.repetitions = choose_repetitions(wish.repetitions, first);
  options.flush_l2 = wish.caches == Caches::cold;
  if (wish.caches == Caches::rotated) return time_rotated(executable, context, stream, inputs, arguments, options);
  return measured(runtime::time_launches(stream, options, [&] { executable.launch(arguments); }));
}

}  // namespace

ChosenDevice choose_device(const std::string& word) {
  if (word == "cpu") return {Device::cpu(), "cpu", ""};
  if (word == "sim") return {Device::sim(), "sim", ""};
  if (word == "cuda") return cuda_device(0);
  if (word.starts_with("cuda:"))
    return cuda_device(static_cast<int>(parse_number(word.substr(5), "--device", 0, 1024)));
  if (word != "auto")
    throw UserError({"--device", 0, 0, {}}, fmt::format("no device '{}'", quoted(word)),
                    suggestion(word, {"auto", "cpu", "cuda", "cuda:0", "sim"}));
  try {
    return cuda_device(0);
  } catch (const MachineError&) {
    // No GPU here; where the CPU backend is missing too, that is the message to give.
    if (!has_cpu_backend()) throw;
    return {Device::cpu(), "cpu", ""};
  }
}

std::string_view name_of(Caches caches) {
  constexpr std::array<std::string_view, 3> kNames{"as_left", "cold", "rotated"};
  return kNames[static_cast<std::size_t>(caches)];
}

Measured run_on_device(const Executable& executable, const Device& device, const HostTensors& inputs,
                       HostTensors& outputs, const std::map<std::string, double>& scalars,
                       const std::map<std::string, std::int64_t>& extents, const TimingWish& wish) {
  LaunchArguments arguments = launch_arguments(inputs, outputs, scalars, extents);
  std::int64_t workspace_bytes = 0;
  if (wish.keep_mask_map) {
    const std::vector<tile::Kernel>& kernels = executable.program().kernels;
    const Location where{"--keep-mask-map", 0, 0, {}};
    if (std::none_of(kernels.begin(), kernels.end(), [](const tile::Kernel& kernel) { return kernel.maps_masks; }))
      throw UserError(where, "the schedule makes no map of masks", {"mask_map: true under the output"});
    if (device.kind == Device::Kind::sim) throw UserError(where, "a simulation is one launch, which makes the map");
    workspace_bytes = std::max<std::int64_t>(1, executable.workspace_bytes(extents));
  }
  // The launches of a graph run one after the other, and share what scratch memory they need.
  if (wish.caches == Caches::rotated && device.kind == Device::Kind::cuda)
    workspace_bytes = std::max(workspace_bytes, executable.workspace_bytes(extents));
  if (device.kind == Device::Kind::cuda) {
    Measured out =
        run_on_cuda(executable, device.ordinal, inputs, outputs, std::move(arguments), wish, workspace_bytes);
    out.caches = wish.caches;
    return out;
  }
  if (wish.caches != Caches::as_left)
    throw UserError({wish.caches == Caches::cold ? "--cold" : "--rotate", 0, 0, {}},
                    fmt::format("the L2 cache is a GPU's, and the launch is on {}",
                                device.kind == Device::Kind::sim ? "a simulated one" : "the CPU"),
                    {"--device cuda"});
  // A simulation takes its own time, not the GPU's.
  if (device.kind == Device::Kind::sim) {
    const double once = 1e3 * seconds_of([&] { executable.launch(arguments); });
    return measured(runtime::summarize_samples({once}));
  }
  return run_on_cpu(executable, std::move(arguments), wish.repetitions, workspace_bytes);
}

}  // namespace astatide::tools
