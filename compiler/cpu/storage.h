#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/cpu/emit.h"

namespace astatide::cpu {

/// Where a tile lies in a worker's workspace, and in which order of its axes. Floating-point tiles are held as f32 (a
/// narrower type rounds when it is written), i64 tiles as i64, all others as i32.
struct Storage {
  const tile::Mem* mem = nullptr;
  std::string vector_axis;                     // contiguous; empty for a tile with no axis
  int lanes = 1;                               // of a vector along it
  std::vector<int> order;                      // of mem->dims, outermost first, the vector axis last
  std::map<std::string, std::int64_t> stride;  // in elements, by axis
  std::int64_t slot_elements = 0;              // of one slot of a ring
  std::int64_t offset = 0;                     // in bytes
  int slots = 1;                               // that are told apart

  int element_bytes() const { return mem->type == ScalarType::i64 ? 8 : 4; }
  bool is_real() const { return is_floating(mem->type); }
  std::int64_t stride_of(const std::string& axis) const {
    const auto found = stride.find(axis);
    return found == stride.end() ? 0 : found->second;
  }
};

struct StoragePlan {
  std::map<std::string, Storage> tiles;
  std::int64_t pack_offset = 0;  // of room for the largest operand of a product, in bytes
  std::int64_t bytes = 0;
};

/// Chooses for each tile the axis along which its vectors run, so that products read their vectors as they lie and few
/// copies transpose. Throws UserError where the tiles pass kMaxWorkspaceBytes.
StoragePlan plan_storage(const tile::Kernel& kernel, const CpuHost& host);

inline constexpr std::int64_t kMaxWorkspaceBytes = std::int64_t{1} << 32;

/// The axes of a product, by their part in it.
struct ProductAxes {
  std::string contracted;
};
/// Throws InternalError where the operands have not one common axis that the result lacks.
ProductAxes axes_of(const tile::Mem& dst, const tile::Mem& lhs, const tile::Mem& rhs);

}  // namespace astatide::cpu
