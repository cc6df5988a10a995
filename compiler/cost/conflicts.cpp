#include "compiler/cost/conflicts.h"

#include <algorithm>
#include <array>
#include <set>

namespace astatide::cost {
namespace {

constexpr int kBanks = 32, kBankBytes = 4, kWarpLanes = 32, kMatrixRows = 8, kVectorBytes = 16;

/// Bytes from a row to the next.
std::int64_t pitch_of(const tile::Mem& mem) {
  if (mem.dims.empty()) return 0;
  const auto* rows = std::get_if<tile::Rows>(&mem.layout);
  const int columns = rows && rows->pitch != 0 ? rows->pitch : mem.dims.back().extent;
  return std::int64_t{columns} * size_in_bytes(mem.type);
}

bool in_panels(const tile::Mem& mem) { return std::holds_alternative<tile::Panels>(mem.layout); }

}  // namespace

double bank_conflicts(const std::vector<std::int64_t>& addresses, int bytes) {
  // Lanes go in groups that ask for 128 bytes together: 32 of 4 bytes, 8 of 16.
  const std::size_t group = std::max<std::size_t>(1, kBanks * kBankBytes / std::max(bytes, kBankBytes));
  double rounds = 0, least = 0;
  for (std::size_t first = 0; first < addresses.size(); first += group) {
    std::array<std::set<std::int64_t>, kBanks> words;
    std::set<std::int64_t> all;
    for (std::size_t lane = first; lane < std::min(addresses.size(), first + group); ++lane)
      for (int at = 0; at < std::max(bytes, 1); at += kBankBytes) {
        const std::int64_t word = (addresses[lane] + at) / kBankBytes;
        words[static_cast<std::size_t>(word % kBanks)].insert(word);
        all.insert(word);
      }
    std::size_t most = 1;
    for (const auto& bank : words) most = std::max(most, bank.size());
    rounds += static_cast<double>(most);
    least += static_cast<double>((all.size() + kBanks - 1) / kBanks);
  }
  return least > 0 ? rounds / least : 1;
}

double matrix_conflicts(const tile::Mem& mem) {
  if (in_panels(mem)) return 1;
  std::vector<std::int64_t> addresses;
  for (int row = 0; row < kMatrixRows; ++row) addresses.push_back(row * pitch_of(mem));
  return bank_conflicts(addresses, kVectorBytes);
}

double element_conflicts(const tile::Mem& mem, const tile::ThreadGrid& grid) {
  if (in_panels(mem) || mem.dims.size() < 2) return 1;
  const int bytes = size_in_bytes(mem.type) * std::max(1, grid.column_vector);
  std::vector<std::int64_t> addresses;
  for (int lane = 0; lane < kWarpLanes; ++lane)
    addresses.push_back(lane / grid.columns * pitch_of(mem) + std::int64_t{lane % grid.columns} * bytes);
  return bank_conflicts(addresses, bytes);
}

double operand_conflicts(const tile::Mem& mem, const tile::ThreadGrid& grid, bool by_rows) {
  if (in_panels(mem) || mem.dims.size() < 2) return 1;
  std::vector<std::int64_t> addresses;
  for (int lane = 0; lane < kWarpLanes; ++lane)
    addresses.push_back(by_rows ? lane / grid.columns * pitch_of(mem)
                                : std::int64_t{lane % grid.columns} * kVectorBytes);
  return bank_conflicts(addresses, kVectorBytes);
}

}  // namespace astatide::cost
