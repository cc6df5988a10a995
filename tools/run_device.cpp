#include "tools/run_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "api/cpu_device.h"
#include "compiler/algorithm/names.h"
#include "runtime/buffer.h"
#include "runtime/driver.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

constexpr double kSecondsOfTiming = 1;
constexpr int kMostRepetitions = 10;

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

Measured run_on_cpu(const Executable& executable, const LaunchArguments& arguments, int repetitions) {
  const double first = seconds_of([&] { executable.launch(arguments); });
  std::vector<double> samples;
  for (int n = choose_repetitions(repetitions, first); n > 0; --n)
    samples.push_back(1e3 * seconds_of([&] { executable.launch(arguments); }));
  return measured(runtime::summarize_samples(std::move(samples)));
}

Measured run_on_cuda(const Executable& executable, int ordinal, const HostTensors& inputs, HostTensors& outputs,
                     LaunchArguments arguments, int repetitions) {
  const runtime::Context context = runtime::Context::primary(ordinal);
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream stream = runtime::Stream::create(context);
  std::map<std::string, runtime::DeviceBuffer> buffers;
  const auto put = [&](const std::string& name, const runtime::HostTensor& tensor) {
    runtime::DeviceBuffer buffer(context, tensor.data->size());
    buffer.copy_from_host(*tensor.data, stream);
    // Zero bytes have no address; an empty tensor needs none.
    arguments.tensors[name].data =
        buffer.size() == 0 ? nullptr : reinterpret_cast<void*>(buffer.pointer() + tensor.offset);
    buffers.emplace(name, std::move(buffer));
  };
  for (const auto& [name, tensor] : inputs) put(name, tensor);
  for (const auto& [name, tensor] : outputs) put(name, tensor);
  arguments.stream = stream.handle();

  const double first = seconds_of([&] {
    executable.launch(arguments);
    stream.synchronize();
  });
  for (auto& [name, tensor] : outputs) buffers.at(name).copy_to_host(*tensor.data, stream);
  runtime::TimingOptions options;
  options.warmup = 1;
  options.repetitions = choose_repetitions(repetitions, first);
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

Measured run_on_device(const Executable& executable, const Device& device, const HostTensors& inputs,
                       HostTensors& outputs, const std::map<std::string, double>& scalars,
                       const std::map<std::string, std::int64_t>& extents, int repetitions) {
  LaunchArguments arguments = launch_arguments(inputs, outputs, scalars, extents);
  if (device.kind == Device::Kind::cuda)
    return run_on_cuda(executable, device.ordinal, inputs, outputs, std::move(arguments), repetitions);
  // A simulation takes its own time, not the GPU's.
  if (device.kind == Device::Kind::sim) {
    const double once = 1e3 * seconds_of([&] { executable.launch(arguments); });
    return measured(runtime::summarize_samples({once}));
  }
  return run_on_cpu(executable, arguments, repetitions);
}

}  // namespace astatide::tools
