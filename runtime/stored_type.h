#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/byte_source.h"
#include "runtime/host_tensor.h"

namespace astatide::runtime {

/// How a file stores an element, and the type that it becomes in memory: another one only for integers that ScalarType
/// lacks.
struct StoredType {
  ScalarType becomes = ScalarType::f32;
  int bytes = 4;
  bool is_signed = true;  // of an integer that is widened
  bool big_endian = false;

  bool is_widened() const { return bytes != size_in_bytes(becomes); }
};

/// A type by the name that a file format has for it.
struct KnownType {
  std::string_view name;
  ScalarType becomes;
  int bytes;
  bool is_signed;
};

/// NumPy's own limit (NPY_MAXDIMS of NumPy 2).
constexpr std::size_t kMostAxes = 64;

/// Reads `count` elements from byte `offset` on, in the machine's byte order. The caller has checked that the file
/// holds them.
std::shared_ptr<std::vector<std::byte>> read_elements(const ByteSource& source, std::uint64_t offset,
                                                      std::int64_t count, const StoredType& stored);

}  // namespace astatide::runtime
