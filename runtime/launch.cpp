#include "runtime/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {
namespace {

// CUDA C++ Programming Guide, "Technical specifications per compute capability": the same for all that are supported.
constexpr Extent3 kMostBlocks = {2147483647, 65535, 65535};
constexpr Extent3 kMostThreads = {1024, 1024, 64};

void check_extent(Diagnostics& problems, std::string_view kernel, std::string_view what, std::int64_t value,
                  std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  problems.error({}, fmt::format("{}: {} is {}, the device allows {} to {}", kernel, what, value, least, most));
}

}  // namespace

void check_launch_shape(const LaunchShape& shape, const DeviceFacts& device, std::string_view kernel,
                        int static_shared_bytes) {
  Diagnostics problems;
  check_extent(problems, kernel, "grid x", shape.grid.x, 0, kMostBlocks.x);
  check_extent(problems, kernel, "grid y", shape.grid.y, 0, kMostBlocks.y);
  check_extent(problems, kernel, "grid z", shape.grid.z, 0, kMostBlocks.z);
  check_extent(problems, kernel, "block x", shape.block.x, 1, kMostThreads.x);
  check_extent(problems, kernel, "block y", shape.block.y, 1, kMostThreads.y);
  check_extent(problems, kernel, "block z", shape.block.z, 1, kMostThreads.z);
  if (problems.empty()) {
    const std::int64_t threads = shape.block.x * shape.block.y * shape.block.z;
    check_extent(problems, kernel, "the number of threads of a block", threads, 1, device.threads_per_block);
  }
  const std::int64_t most_shared = device.shared_bytes_per_block_optin - static_shared_bytes;
  if (shape.shared_bytes < 0 || shape.shared_bytes > most_shared) {
    problems.error(
        {},
        fmt::format("{}: {} bytes of dynamic and {} of static shared memory are needed, cuda:{} ({}) has {} a block",
                    kernel, shape.shared_bytes, static_shared_bytes, device.ordinal, device.name,
                    device.shared_bytes_per_block_optin));
  }
  problems.throw_if_any();
}

std::int64_t resident_blocks(const KernelFunction& function, const LaunchShape& shape, const Context& context) {
  const ScopedCurrent scope(context);
  allow_shared_bytes(function, static_cast<unsigned>(shape.shared_bytes));
  const std::int64_t threads = shape.block.x * shape.block.y * shape.block.z;
  int blocks = 0;
  driver().check(driver().api().occupancy_max_active_blocks(&blocks, function.handle(), static_cast<int>(threads),
                                                            static_cast<std::size_t>(shape.shared_bytes)),
                 "ask how many blocks of ", function.name(), " a multiprocessor holds");
  return std::max<std::int64_t>(1, std::int64_t{blocks} * context.device().multiprocessors);
}

void launch(const KernelFunction& function, const LaunchShape& shape, const Stream& stream,
            std::span<const ArgumentWord> arguments) {
  std::vector<const void*> addresses;
  addresses.reserve(arguments.size());
  for (const ArgumentWord& argument : arguments) addresses.push_back(argument.address());
  launch(function, shape, stream, addresses);
}

void launch(const KernelFunction& function, const LaunchShape& shape, const Stream& stream,
            std::span<const void* const> parameters) {
  const Context& context = stream.context();
  check_launch_shape(shape, context.device(), function.name(), function.static_shared_bytes());
  const std::int64_t threads = shape.block.x * shape.block.y * shape.block.z;
  if (threads > function.most_threads()) {
    throw InternalError(fmt::format("{} was compiled for blocks of at most {} threads and is launched with {}",
                                    function.name(), function.most_threads(), threads));
  }
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;

  const ScopedCurrent scope(context);
  allow_shared_bytes(function, static_cast<unsigned>(shape.shared_bytes));
  const auto u = [](std::int64_t value) { return static_cast<unsigned>(value); };
  // The driver only reads the parameters; their C type is not const.
  void** addresses = const_cast<void**>(parameters.data());
  const auto start = [&] {
    const DriverApi& api = driver().api();
    // Without the attribute the kernel starts later, and computes the same.
    if (!shape.dependent || api.launch_kernel_ex == nullptr)
      return api.launch_kernel(function.handle(), u(shape.grid.x), u(shape.grid.y), u(shape.grid.z), u(shape.block.x),
                               u(shape.block.y), u(shape.block.z), u(shape.shared_bytes), stream.handle(), addresses,
                               nullptr);
    LaunchAttribute early{kProgrammaticStreamSerialization, {1}};
    const LaunchConfig config{
        u(shape.grid.x),  u(shape.grid.y),       u(shape.grid.z), u(shape.block.x), u(shape.block.y),
        u(shape.block.z), u(shape.shared_bytes), stream.handle(), &early,           1};
    return api.launch_kernel_ex(&config, function.handle(), addresses, nullptr);
  };
  stream.check(start(), "launch ", function.name(), " with ", shape.grid.x, "x", shape.grid.y, "x", shape.grid.z,
               " blocks of ", threads, " threads");
  if (function.counters() != nullptr) ++function.counters()->launches;
}

}  // namespace astatide::runtime
