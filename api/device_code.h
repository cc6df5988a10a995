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

/// A tensor as a tensor map describes it (runtime/tensor_map.h).
struct MappedTensor {
  std::string name;
  std::uint64_t address = 0;
  ScalarType type = ScalarType::f16;
  std::vector<std::uint64_t> extents;
  std::vector<std::int64_t> strides;
  std::vector<std::uint32_t> box;
  bool stored = false;
};

/// One parameter of a kernel (tile::parameters_of): an address, a stride or an extent, or the bits of an f32; of a
/// tensor map what it describes, of counters how many there are.
struct ArgumentValue {
  tile::Parameter::Kind kind = tile::Parameter::Kind::pointer;
  std::uint64_t word = 0;
  std::shared_ptr<const MappedTensor> mapped = nullptr;
};

/// A kernel of a program, ready to run: `tiles` blocks or calls, 1 or more.
struct KernelLaunch {
  std::size_t kernel = 0;
  std::int64_t tiles = 0;
  std::vector<ArgumentValue> arguments;
};

/// Scratch memory that is one launch's own until the lease dies.
struct ScratchLease {
  void* memory = nullptr;
  std::shared_ptr<void> hold;
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
  /// Memory of this size, aligned to kScratchAlignment, for kernels that are put into `stream` while the lease lives.
  virtual ScratchLease scratch(std::int64_t bytes, void* stream) const = 0;
  /// Runs the kernels one after the other in the order of the stream.
  virtual void launch(const std::vector<KernelLaunch>& launches, void* stream) const = 0;
};

}  // namespace astatide
