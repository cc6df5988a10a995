#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/launch_plan.h"
#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"

namespace astatide {

/// A tensor as a tensor map describes it (runtime/tensor_map.h), but for its address.
struct MappedTensor {
  std::string name;
  ScalarType type = ScalarType::f16;
  std::vector<std::uint64_t> extents;
  std::vector<std::int64_t> strides;
  std::vector<std::uint32_t> box;
  bool stored = false;
};

/// One parameter of a kernel (tile::parameters_of). Of a pointer or a tensor map: the number of the tensor among those
/// of the launch, or kWorkspace and the place there. Else a word: a stride or an extent, or the bits of an f32; of
/// counters how many there are.
struct ArgumentValue {
  static constexpr std::size_t kWorkspace = SIZE_MAX;

  tile::Parameter::Kind kind = tile::Parameter::Kind::pointer;
  std::uint64_t word = 0;
  std::size_t tensor = kWorkspace;
  std::shared_ptr<const MappedTensor> mapped = nullptr;

  bool is_address() const { return kind == tile::Parameter::Kind::pointer; }
  std::uint64_t address(std::span<void* const> tensors, void* workspace) const {
    if (tensor != kWorkspace) return reinterpret_cast<std::uintptr_t>(tensors[tensor]);
    return reinterpret_cast<std::uintptr_t>(workspace) + word;
  }
};

/// A kernel of a program, ready to run but for addresses: `tiles` blocks or calls, 1 or more.
struct KernelLaunch {
  std::size_t kernel = 0;
  std::int64_t tiles = 0;
  std::vector<ArgumentValue> arguments;
};

/// Kernels that run one after the other, everything settled but addresses and the stream. For one thread at a time.
class BoundLaunch {
 public:
  virtual ~BoundLaunch() = default;

  /// Whether it was made for the context that is current. Allocates nothing and takes no lock.
  virtual bool fits() const = 0;
  /// Runs the kernels in the order of the stream. `workspace` null: memory of the device's own where they need any, a
  /// lock of the stream's then. Once warm (the same stream, addresses that were seen) this allocates nothing, and takes
  /// no other lock on a GPU; on the CPU that of the threads.
  virtual void launch(std::span<void* const> tensors, void* workspace, void* stream) = 0;
};

/// A program compiled for one kind of device. Thread-safe.
class DeviceCode {
 public:
  virtual ~DeviceCode() = default;

  /// Blocks of a kernel that the device runs at once.
  virtual std::int64_t resident_blocks(std::size_t kernel) const = 0;
  /// Whether tensors lie in memory that this process reads.
  virtual bool uses_host_memory() const = 0;
  /// Of memory that this process does not read: bytes from `source` on, once the work in `stream` is done.
  virtual void copy_to_host(const void* source, std::span<std::byte> destination, void* stream) const = 0;
  /// Throws UserError where `pointer` is no memory of the device that the code is for.
  virtual void check_pointer(const std::string& tensor, const void* pointer) const = 0;
  /// `workspace_bytes`: what the kernels need of memory aligned to kScratchAlignment. The code outlives what it gives.
  virtual std::unique_ptr<BoundLaunch> bind(std::vector<KernelLaunch> launches, std::int64_t workspace_bytes) const = 0;
};

}  // namespace astatide
