#include "tests/support/fake_launch.h"

#include <cstdlib>

#include "runtime/nvrtc.h"

namespace astatide::testing {

void use_fake_driver() { ::setenv("ASTATIDE_LIBCUDA", ASTATIDE_BINARY_DIR "/fake_cuda/libcuda.so.1", 1); }

std::string missing_nvrtc() {
  try {
    runtime::nvrtc();
    return {};
  } catch (const MachineError& error) {
    return error.what();
  }
}

LaunchArguments fake_arguments(const Executable& executable, const std::map<std::string, std::int64_t>& extents,
                               std::uint64_t number) {
  // Where the fake driver has its memory.
  constexpr std::uint64_t kFirst = 0x7f0000000000, kStep = std::uint64_t{1} << 30;
  LaunchArguments arguments;
  arguments.extents = extents;
  std::vector<std::string> names = executable.algorithm().outputs;
  for (const Input& input : executable.algorithm().inputs) names.push_back(input.name);
  for (std::size_t n = 0; n < names.size(); ++n) {
    TensorView view = describe_tensor(executable, names[n], extents);
    view.data = reinterpret_cast<void*>(kFirst + (number * 16 + n) * kStep);
    arguments.tensors[names[n]] = view;
  }
  return arguments;
}

}  // namespace astatide::testing
