#include "runtime/stored_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace astatide::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read and written as little endian");

void swap_bytes(std::span<std::byte> bytes, int size) {
  for (std::size_t at = 0; at + static_cast<std::size_t>(size) <= bytes.size(); at += static_cast<std::size_t>(size)) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at) + size);
  }
}

std::int64_t load_integer(const std::byte* from, const StoredType& stored) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<std::size_t>(stored.bytes));
  const int unused = 64 - 8 * stored.bytes;
  return stored.is_signed ? static_cast<std::int64_t>(bits << unused) >> unused : static_cast<std::int64_t>(bits);
}

}  // namespace

std::shared_ptr<std::vector<std::byte>> read_elements(const ByteSource& source, std::uint64_t offset,
                                                      std::int64_t count, const StoredType& stored) {
  const auto n = static_cast<std::size_t>(count);
  const auto size = static_cast<std::size_t>(stored.bytes);
  const auto wide = static_cast<std::size_t>(size_in_bytes(stored.becomes));
  std::shared_ptr<std::vector<std::byte>> data;
  try {
    data = std::make_shared<std::vector<std::byte>>(n * wide);
  } catch (const std::exception&) {  // std::bad_alloc, std::length_error
    throw MachineError(fmt::format("{}: {} bytes of memory for a tensor can't be had", source.name(), n * wide));
  }
  // Narrow elements go to the end of the memory and are widened from the front: no place is written before it is read.
  const std::span<std::byte> narrow = std::span(*data).subspan(n * (wide - size));
  source.read(offset, narrow);
  if (stored.big_endian && size > 1) swap_bytes(narrow, stored.bytes);
  if (stored.is_widened()) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t value = load_integer(narrow.data() + i * size, stored);
      std::memcpy(data->data() + i * wide, &value, wide);
    }
  }
  if (stored.becomes == ScalarType::boolean) {
    // Any byte but 0 is true; kernels compare with 1.
    for (std::byte& value : *data) value = value != std::byte{0} ? std::byte{1} : std::byte{0};
  }
  return data;
}

}  // namespace astatide::runtime
