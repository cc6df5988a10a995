#include "runtime/tensor_file.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "compiler/support/diagnostic.h"

// Any bytes are a tensor or a UserError, in either format; what was read is written and read again as the same.

namespace {

using namespace astatide;
using namespace astatide::runtime;

template <class Act>
void allow_user_errors(const Act& act) {
  try {
    act();
  } catch (const UserError&) {
  }
}

// Bit by bit: a NaN differs from itself.
void require_equal(const HostTensor& a, const HostTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || *dense_copy(a, a.dtype).data != *dense_copy(b, b.dtype).data)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  allow_user_errors([&] {
    const HostTensor tensor = parse_npy(bytes, "input");
    require_equal(tensor, parse_npy(print_npy(tensor), "printed"));
  });
  allow_user_errors([&] {
    const SafetensorsFile file = parse_safetensors(bytes, "input");
    const SafetensorsFile again = parse_safetensors(print_safetensors(file), "printed");
    if (again.metadata != file.metadata || again.tensors.size() != file.tensors.size()) std::abort();
    for (const NamedTensor& named : file.tensors) {
      for (const NamedTensor& other : again.tensors) {
        if (other.name == named.name) require_equal(named.tensor, other.tensor);
      }
    }
  });
  return 0;
}
