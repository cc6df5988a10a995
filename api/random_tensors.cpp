#include "api/random_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "runtime/thread_pool.h"

namespace astatide {
namespace {

/// Normal numbers by Box and Muller from splitmix64: the same on every machine, which std::normal_distribution does not
/// promise. Each tensor has its own stream.
class NormalNumbers {
 public:
  NormalNumbers(std::uint64_t seed, const std::string& name) : state_(seed) {
    for (const char letter : name) state_ = next() ^ static_cast<unsigned char>(letter);
  }

  /// As if so many numbers had been drawn: an even one, since normal ones come in pairs.
  void skip(std::uint64_t numbers) { state_ += numbers * kStep; }

  std::uint64_t next() {
    std::uint64_t z = state_ += kStep;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;

  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  std::uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// Elements in the order of memory, one number of the stream each, whatever threads there are.
void fill_random(runtime::HostTensor& tensor, const std::string& name, std::uint64_t seed) {
  const bool is_flag = tensor.dtype == ScalarType::boolean || tensor.dtype == ScalarType::u8;
  if (!is_flag && !is_floating(tensor.dtype))
    throw UserError({"--input", 0, 0, {}},
                    fmt::format("{} is {}, and random indices mean nothing", name, name_of(tensor.dtype)),
                    {fmt::format("give it: --input {}=FILE.npy", name)});
  constexpr std::int64_t kPart = std::int64_t{1} << 16;
  const std::int64_t count = runtime::checked_element_count(tensor.shape, size_in_bytes(tensor.dtype), name);
  // No more threads than parts.
  runtime::ThreadPool pool(0, static_cast<int>(std::clamp<std::int64_t>((count + kPart - 1) / kPart, 1, 1024)));
  pool.for_each_range(count, kPart, [&](int, std::int64_t begin, std::int64_t end) {
    NormalNumbers numbers(seed, name);
    numbers.skip(static_cast<std::uint64_t>(begin));
    for (std::int64_t n = begin; n < end; ++n)
      runtime::store_element(tensor.dtype, tensor.origin() + n * size_in_bytes(tensor.dtype),
                             is_flag ? static_cast<double>(numbers.next() >> 63) : numbers.normal());
  });
}

runtime::HostTensor allocate(const Executable& executable, const std::string& name,
                             const std::map<std::string, std::int64_t>& extents) {
  const TensorView wanted = describe_tensor(executable, name, extents);
  return runtime::zeros(wanted.dtype, wanted.shape);
}

}  // namespace

runtime::HostTensor random_tensor(const Executable& executable, const std::string& name,
                                  const std::map<std::string, std::int64_t>& extents, std::uint64_t seed) {
  const TensorView wanted = describe_tensor(executable, name, extents);
  return random_tensor(name, wanted.dtype, wanted.shape, seed);
}

runtime::HostTensor random_tensor(const std::string& name, ScalarType dtype, std::vector<std::int64_t> shape,
                                  std::uint64_t seed) {
  runtime::HostTensor tensor = runtime::zeros(dtype, std::move(shape));
  fill_random(tensor, name, seed);
  return tensor;
}

HostTensors prepare_outputs(const Executable& executable, const std::map<std::string, std::int64_t>& extents) {
  HostTensors outputs;
  for (const std::string& name : executable.algorithm().outputs) {
    runtime::HostTensor tensor = allocate(executable, name, extents);
    std::fill(tensor.data->begin(), tensor.data->end(), std::byte{0xff});
    outputs.emplace(name, std::move(tensor));
  }
  return outputs;
}

HostTensors prepare_updated(const Algorithm& algorithm, const HostTensors& inputs) {
  HostTensors out;
  for (const auto& [name, tensor] : inputs) {
    if (!algorithm.updates_input(name)) continue;
    runtime::HostTensor copy = tensor;
    if (tensor.data) copy.data = std::make_shared<std::vector<std::byte>>(*tensor.data);
    out.emplace(name, std::move(copy));
  }
  return out;
}

TensorView view_of(const runtime::HostTensor& tensor) {
  return {tensor.data ? tensor.origin() : nullptr, tensor.dtype, tensor.shape, tensor.strides};
}

LaunchArguments launch_arguments(const HostTensors& inputs, const HostTensors& outputs,
                                 const std::map<std::string, double>& scalars,
                                 const std::map<std::string, std::int64_t>& extents) {
  LaunchArguments arguments;
  arguments.scalars = scalars;
  arguments.extents = extents;
  for (const HostTensors* tensors : {&inputs, &outputs})
    for (const auto& [name, tensor] : *tensors) arguments.tensors[name] = view_of(tensor);
  return arguments;
}

}  // namespace astatide
