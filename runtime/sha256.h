#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace astatide::runtime {

/// SHA-256 (FIPS 180-4) over what `update` was given. `hex` ends it: 64 lower-case digits.
class Sha256 {
 public:
  Sha256();
  Sha256& update(std::string_view bytes);
  std::string hex();

 private:
  void add_block(const unsigned char* block);

  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> pending_;
  std::size_t pending_size_ = 0;
  std::uint64_t total_bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace astatide::runtime
