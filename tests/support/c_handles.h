// Handles of the C interface that destroy themselves, for tests; what fails throws the error's text.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/astatide_c.h"
#include "runtime/host_tensor.h"

namespace astatide::testing {

struct DestroyC {
  void operator()(AstatideAlgorithm* handle) const { astatide_algorithm_destroy(handle); }
  void operator()(AstatideSchedule* handle) const { astatide_schedule_destroy(handle); }
  void operator()(AstatideEngine* handle) const { astatide_engine_destroy(handle); }
  void operator()(AstatideExecutable* handle) const { astatide_executable_destroy(handle); }
};
template <class Handle>
using CHandle = std::unique_ptr<Handle, DestroyC>;
using CExecutable = CHandle<AstatideExecutable>;

/// The text of an error, which is destroyed.
inline std::string taken_text(AstatideError* error) {
  const std::string text = astatide_error_text(error);
  astatide_error_destroy(error);
  return text;
}

/// What a call stores, or its error as an exception.
template <class Handle, class Call>
CHandle<Handle> made(const Call& call) {
  Handle* handle = nullptr;
  AstatideError* error = nullptr;
  if (call(&handle, &error) != ASTATIDE_STATUS_OK) throw std::runtime_error(taken_text(error));
  return CHandle<Handle>(handle);
}

template <class Handle>
CHandle<Handle> load_c(const char* name) {
  return made<Handle>([&](Handle** out, AstatideError** error) {
    if constexpr (std::is_same_v<Handle, AstatideAlgorithm>)
      return astatide_algorithm_load(name, out, error);
    else
      return astatide_schedule_load(name, out, error);
  });
}

template <class Handle>
CHandle<Handle> parse_c(const std::string& text, const char* file) {
  return made<Handle>([&](Handle** out, AstatideError** error) {
    if constexpr (std::is_same_v<Handle, AstatideAlgorithm>)
      return astatide_algorithm_parse(text.c_str(), file, out, error);
    else
      return astatide_schedule_parse(text.c_str(), file, out, error);
  });
}

/// An engine without a cache on disk.
class CEngine {
 public:
  CEngine() {
    AstatideEngineOptions options{};
    options.struct_size = sizeof options;
    options.without_disk_cache = 1;
    engine_ = made<AstatideEngine>(
        [&](AstatideEngine** out, AstatideError** error) { return astatide_engine_create(&options, out, error); });
  }
  AstatideEngine* get() const { return engine_.get(); }

  CExecutable build(const CHandle<AstatideAlgorithm>& algorithm, const CHandle<AstatideSchedule>& schedule,
                    DLDevice device, DLDataType dtype, const std::vector<AstatideSize>& sizes) const {
    const AstatideBuildOptions options{sizeof options, device, dtype, sizes.data(), sizes.size()};
    return made<AstatideExecutable>([&](AstatideExecutable** out, AstatideError** error) {
      return astatide_engine_build(engine_.get(), algorithm.get(), schedule.get(), &options, out, error);
    });
  }
  CExecutable build_merge(const CHandle<AstatideAlgorithm>& algorithm, DLDevice device, DLDataType dtype,
                          const std::vector<AstatideSize>& sizes) const {
    const AstatideBuildOptions options{sizeof options, device, dtype, sizes.data(), sizes.size()};
    return made<AstatideExecutable>([&](AstatideExecutable** out, AstatideError** error) {
      return astatide_engine_build_merge(engine_.get(), algorithm.get(), &options, nullptr, out, error);
    });
  }

 private:
  CHandle<AstatideEngine> engine_;
};

inline DLDataType dl_type(ScalarType type) {
  const auto bits = static_cast<std::uint8_t>(8 * size_in_bytes(type));
  if (type == ScalarType::bf16) return {kDLBfloat, bits, 1};
  return {static_cast<std::uint8_t>(is_floating(type) ? kDLFloat : kDLInt), bits, 1};
}

/// Tensors as a launch takes them.
class CTensors {
 public:
  CTensors() = default;
  /// In host memory; the tensors live elsewhere, and longer.
  explicit CTensors(std::map<std::string, runtime::HostTensor>& tensors) {
    for (auto& [name, tensor] : tensors) add(name, tensor.data->data(), {kDLCPU, 0}, tensor.dtype, tensor.shape);
  }
  CTensors(const CTensors&) = delete;

  void add(const std::string& name, void* data, DLDevice device, ScalarType type, std::vector<std::int64_t> shape) {
    Kept& kept = kept_.emplace_back(Kept{name, std::move(shape), {}});
    kept.tensor = {data,    device, static_cast<std::int32_t>(kept.shape.size()), dl_type(type), kept.shape.data(),
                   nullptr, 0};
    named_.push_back({kept.name.c_str(), &kept.tensor, nullptr});
  }
  DLTensor& last() { return kept_.back().tensor; }

  AstatideLaunch launch() const {
    AstatideLaunch launch{};
    launch.struct_size = sizeof launch;
    launch.tensors = named_.data();
    launch.tensor_count = named_.size();
    return launch;
  }

 private:
  struct Kept {
    std::string name;
    std::vector<std::int64_t> shape;
    DLTensor tensor;
  };
  std::list<Kept> kept_;
  std::vector<AstatideTensor> named_;
};

}  // namespace astatide::testing
