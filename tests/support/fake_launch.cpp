#include "tests/support/fake_launch.h"

#include <cstdlib>
#include <mutex>

#include "runtime/buffer.h"
#include "runtime/nvrtc.h"

namespace astatide::testing {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 28;

/// What was made for these numbers, made when it is first asked for. Lives as long as the process.
template <class T>
class ByNumber {
 public:
  template <class Make>
  const T& at(int device, std::uint64_t number, const Make& make) {
    const std::lock_guard lock(mutex_);
    const std::pair key(device, number);
    const auto found = all_.find(key);
    if (found != all_.end()) return found->second;
    return all_.emplace(key, make(runtime::Context::primary(device))).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, T> all_;
};

}  // namespace

void use_fake_driver() {
  ::setenv("ASTATIDE_LIBCUDA", ASTATIDE_BINARY_DIR "/fake_cuda/libcuda.so.1", 1);
  ::setenv("ASTATIDE_FAKE_DEVICES", "4", 1);
  ::setenv("ASTATIDE_FAKE_CAPABILITY", "90,90,90,80", 1);
}

std::string missing_nvrtc() {
  try {
    runtime::nvrtc();
    return {};
  } catch (const MachineError& error) {
    return error.what();
  }
}

void* fake_memory(int device, std::uint64_t number) {
  static ByNumber<runtime::DeviceBuffer> buffers;
  return reinterpret_cast<void*>(
      buffers.at(device, number, [](const runtime::Context& context) { return runtime::DeviceBuffer(context, kBytes); })
          .pointer());
}

void* fake_stream(int device, std::uint64_t number) {
  static ByNumber<runtime::Stream> streams;
  if (number == 0) return nullptr;
  return streams.at(device, number, [](const runtime::Context& context) { return runtime::Stream::create(context); })
      .handle();
}

LaunchArguments fake_arguments(const Executable& executable, const std::map<std::string, std::int64_t>& extents,
                               std::uint64_t number, int device) {
  LaunchArguments arguments;
  arguments.extents = extents;
  std::vector<std::string> names = executable.algorithm().outputs;
  for (const Input& input : executable.algorithm().inputs) names.push_back(input.name);
  for (std::size_t n = 0; n < names.size(); ++n) {
    TensorView view = describe_tensor(executable, names[n], extents);
    view.data = fake_memory(device, number * 16 + n);
    arguments.tensors[names[n]] = view;
  }
  return arguments;
}

}  // namespace astatide::testing
