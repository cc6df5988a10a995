#pragma once

#ifdef ASTATIDE_WITH_CPU

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/cpu/emit.h"
#include "compiler/tile/ir.h"
#include "runtime/orc.h"
#include "runtime/orc_launch.h"

namespace astatide::testing {

/// This machine, and poorer ones of its family whose code it runs too: without 512-bit vectors, without any vectors
/// beyond the least.
std::vector<cpu::CpuHost> hosts_to_test();

void* allocate_guarded(std::size_t bytes);
void free_guarded(void* memory, std::size_t bytes);

/// Memory with pages on both sides that nobody may touch, its end against the second: a read or a write beyond the end
/// ends the process.
template <class T>
struct GuardedAllocator {
  using value_type = T;
  GuardedAllocator() = default;
  template <class U>
  GuardedAllocator(const GuardedAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_guarded(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) { free_guarded(memory, count * sizeof(T)); }
  friend bool operator==(const GuardedAllocator&, const GuardedAllocator&) { return true; }
};
using GuardedBytes = std::vector<std::byte, GuardedAllocator<std::byte>>;

/// A tensor that a test owns: bytes in the element type, element strides.
struct HostArray {
  ScalarType type = ScalarType::f32;
  std::vector<std::int64_t> shape, strides;
  GuardedBytes bytes;
  std::int64_t first = 0;  // index of element (0, ..)

  /// Dense and row-major, every byte 0xff: a NaN in every floating type.
  static HostArray poisoned(ScalarType type, std::vector<std::int64_t> shape);
  static HostArray zeros(ScalarType type, std::vector<std::int64_t> shape);
  /// Rounded from doubles, row-major over the shape whatever the strides.
  static HostArray of(ScalarType type, std::vector<std::int64_t> shape, const std::vector<double>& values,
                      std::vector<std::int64_t> strides = {});
  std::vector<double> values() const;
  void set(const std::vector<std::int64_t>& at, double value);
  double get(const std::vector<std::int64_t>& at) const;
  void* data() { return bytes.data() + first * size_in_bytes(type); }
  std::int64_t count() const;

 private:
  std::int64_t offset_of(const std::vector<std::int64_t>& at) const;
};

/// A tile program compiled for a host and run by workers.
class CpuProgram {
 public:
  CpuProgram(const tile::Program& program, const cpu::CpuHost& host);

  /// Scratch tensors are made here, filled with NaN.
  void run(std::map<std::string, HostArray*> tensors, const std::map<std::string, std::int64_t>& extents,
           const std::map<std::string, float>& scalars, runtime::CpuWorkers& workers);

  const cpu::CpuModule& module() const { return module_; }
  double emit_seconds = 0, compile_seconds = 0, load_seconds = 0;

 private:
  tile::Program program_;
  cpu::CpuModule module_;
  std::unique_ptr<runtime::OrcModule> code_;
};

}  // namespace astatide::testing

#endif
