#include "api/tensors_in_order.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/contains.h"

namespace astatide {
namespace {

class Hash {
 public:
  void add(std::uint64_t value) { value_ = (value_ ^ value) * 0x9e3779b97f4a7c15 + (value_ >> 29); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace

TensorsInOrder::TensorsInOrder(const std::vector<DeclaredTensor>& declared,
                               const std::map<std::string, TensorView>& tensors) {
  if (declared.size() > kMost || tensors.size() != declared.size()) return;
  for (const DeclaredTensor& tensor : declared) {
    const auto view = tensors.find(tensor.name);
    if (view == tensors.end()) return;
    views_[count_] = &view->second;
    addresses_[count_++] = view->second.data;
  }
  complete_ = true;
}

bool TensorsInOrder::have_good_addresses() const {
  return std::all_of(views().begin(), views().end(), [](const TensorView* view) {
    const auto size = static_cast<std::uintptr_t>(size_in_bytes(view->dtype));
    return is_empty(*view) || (view->data != nullptr && reinterpret_cast<std::uintptr_t>(view->data) % size == 0);
  });
}

bool is_empty(const TensorView& view) { return contains(view.shape, 0); }

std::uint64_t bits_of(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint64_t hash_of(const TensorsInOrder& tensors, const LaunchArguments& arguments) {
  Hash hash;
  for (const TensorView* view : tensors.views()) {
    hash.add(static_cast<std::uint64_t>(view->dtype));
    for (const std::int64_t extent : view->shape) hash.add(static_cast<std::uint64_t>(extent));
    for (const std::int64_t stride : view->strides) hash.add(static_cast<std::uint64_t>(stride));
  }
  for (const auto& [name, value] : arguments.scalars) hash.add(bits_of(value));
  for (const auto& [name, value] : arguments.extents) hash.add(static_cast<std::uint64_t>(value));
  return hash.value();
}

}  // namespace astatide
