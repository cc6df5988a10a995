#include "tests/support/fake_cuda/cubin.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace fake {
namespace {

constexpr std::string_view kInfo = ".nv.info.";
constexpr unsigned kCudaMachine = 190;
constexpr unsigned char kNewFlags = 8;  // the version of the ABI from which on the architecture stands a byte higher

template <class T>
T read(const unsigned char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// Attributes of a kernel: a byte of form, one of kind, and a value of two bytes, or that many bytes behind it (form
/// 4). Of kind 0x17 is a parameter: an index, its number, its offset, and flags with its size from bit 18 on.
std::vector<std::size_t> parameters_in(const unsigned char* bytes, std::size_t size) {
  constexpr unsigned char kSized = 4, kParameter = 0x17;
  std::vector<std::size_t> parameters;
  for (std::size_t at = 0; at + 4 <= size;) {
    const std::size_t length = bytes[at] == kSized ? read<std::uint16_t>(bytes + at + 2) : 0;
    if (bytes[at] == kSized && bytes[at + 1] == kParameter && length == 12 && at + 16 <= size) {
      const auto number = read<std::uint16_t>(bytes + at + 8);
      if (parameters.size() <= number) parameters.resize(number + std::size_t{1});
      parameters[number] = read<std::uint32_t>(bytes + at + 12) >> 18;
    }
    at += 4 + length;
  }
  return parameters;
}

}  // namespace

std::optional<Cubin> read_cubin(const void* image) {
  const auto* const bytes = static_cast<const unsigned char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) return std::nullopt;
  const auto header = read<Elf64_Ehdr>(bytes);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kCudaMachine) return std::nullopt;
  Cubin out;
  out.capability = static_cast<int>(header.e_ident[EI_ABIVERSION] >= kNewFlags ? header.e_flags >> 8 & 0xffff
                                                                               : header.e_flags & 0xff);
  const auto section = [&](std::size_t n) { return read<Elf64_Shdr>(bytes + header.e_shoff + n * header.e_shentsize); };
  const auto* const names = reinterpret_cast<const char*>(bytes + section(header.e_shstrndx).sh_offset);
  for (std::size_t n = 0; n < header.e_shnum; ++n) {
    const Elf64_Shdr own = section(n);
    const std::string_view name = names + own.sh_name;
    if (name.starts_with(kInfo))
      out.kernels.push_back(
          {std::string(name.substr(kInfo.size())), parameters_in(bytes + own.sh_offset, own.sh_size)});
  }
  return out;
}

}  // namespace fake
