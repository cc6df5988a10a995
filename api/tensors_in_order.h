#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "api/shapes.h"

namespace astatide {

/// The tensors of a launch in the order of their declarations, found without an allocation.
class TensorsInOrder {
 public:
  /// Of more tensors none is found here, and their launches are settled each time.
  static constexpr std::size_t kMost = 32;

  TensorsInOrder(const std::vector<DeclaredTensor>& declared, const std::map<std::string, TensorView>& tensors);

  /// Whether there are just those that are declared.
  bool complete() const { return complete_; }
  std::span<const TensorView* const> views() const { return {views_.data(), count_}; }
  std::span<void* const> addresses() const { return {addresses_.data(), count_}; }
  /// Whether each tensor that is not empty has memory, aligned to its elements.
  bool have_good_addresses() const;

 private:
  std::array<const TensorView*, kMost> views_{};
  std::array<void*, kMost> addresses_{};
  std::size_t count_ = 0;
  bool complete_ = false;
};

bool is_empty(const TensorView& view);
std::uint64_t bits_of(double value);

/// A number that is the same for arguments which differ in memory and stream alone, and hardly for others.
std::uint64_t hash_of(const TensorsInOrder& tensors, const LaunchArguments& arguments);

}  // namespace astatide
