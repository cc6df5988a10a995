#pragma once

#include <array>
#include <memory>
#include <vector>

#include "api/cuda_memory.h"
#include "api/device_code.h"
#include "runtime/launch.h"
#include "runtime/tensor_map.h"

namespace astatide {

/// The tensor maps of one parameter, by the address that they were made for: the rest of what they say is settled.
class MapsByAddress {
 public:
  explicit MapsByAddress(std::shared_ptr<const MappedTensor> tensor) : tensor_(std::move(tensor)) {}
  /// Valid until the next call. Throws UserError where TMA can't copy from the address.
  const runtime::TensorMap& at(std::uint64_t address);

 private:
  /// As many layers as share an executable, without one taking the place of another too often.
  static constexpr std::size_t kEntries = 128;
  struct Entry {
    std::uint64_t address = 0;  // 0: none
    runtime::TensorMap map;
  };
  std::shared_ptr<const MappedTensor> tensor_;
  std::vector<Entry> entries_;
};

/// Kernels of a program in one context.
class CudaLaunch : public BoundLaunch {
 public:
  struct Kernel {
    const runtime::KernelFunction* function = nullptr;
    runtime::LaunchShape shape;
    std::vector<ArgumentValue> arguments;
  };

  /// `primary`: the context is the device's primary one, which serves where none of the device is current. The module
  /// holds the functions.
  CudaLaunch(const runtime::Context& context, bool primary, std::shared_ptr<const runtime::Module> module,
             std::vector<Kernel> kernels, std::int64_t workspace_bytes, CudaMemory& memory);

  bool fits() const override;
  void launch(std::span<void* const> tensors, void* workspace, void* stream) override;

 private:
  /// A kernel with room for its parameters.
  struct Ready {
    Kernel kernel;
    std::vector<runtime::ArgumentWord> words;  // one an argument
    std::vector<const void*> parameters;
    struct Map {
      std::size_t argument;
      MapsByAddress maps;
    };
    std::vector<Map> maps;
  };
  /// What launches into one stream use, which is not asked for again.
  struct OfStream {
    bool known = false;
    runtime::StreamHandle handle = nullptr;
    runtime::DevicePointer words = 0;
    std::shared_ptr<StreamScratch> scratch;
  };

  const OfStream& of_stream(const runtime::Stream& stream);
  void fill(Ready& ready, std::span<void* const> tensors, void* workspace, runtime::DevicePointer counters);

  runtime::Context context_;
  bool primary_;
  std::shared_ptr<const runtime::Module> module_;
  std::int64_t workspace_bytes_;
  CudaMemory& memory_;
  std::size_t counter_words_ = 0;  // that the kernels have in common, 0 before and after each; 0: none
  std::vector<Ready> kernels_;
  std::vector<runtime::TensorMap> maps_of_zero_;
  std::array<OfStream, 4> streams_;
  std::size_t next_stream_ = 0;
};

}  // namespace astatide
