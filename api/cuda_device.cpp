#include "api/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <tuple>

#include "api/clock.h"
#include "api/cuda_launch.h"
#include "compiler/support/embedded.h"
#include "compiler/tile/parameters.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"

namespace astatide {
namespace {

class CudaCode : public DeviceCode {
 public:
  CudaCode(cuda::Source source, runtime::CompileRequest request, int ordinal,
           std::shared_ptr<runtime::KernelCache> cache)
      : kernels_(std::move(source.kernels)),
        request_(std::move(request)),
        ordinal_(ordinal),
        cache_(std::move(cache)) {}

  std::int64_t resident_blocks(std::size_t n) const override {
    const runtime::Context context = launch_context();
    const cuda::Source::KernelInfo& kernel = kernels_[n];
    return resident_in(context, n, module_in(context)->function(kernel.name), shape_of(kernel, 1));
  }
  bool uses_host_memory() const override { return false; }
  void copy_to_host(const void* source, std::span<std::byte> destination, void* stream) const override {
    const runtime::Context context = launch_context();
    const runtime::ScopedCurrent scope(context);
    const runtime::Stream order = runtime::Stream::borrow(context, static_cast<runtime::StreamHandle>(stream));
    if (order.is_capturing())
      throw UserError("check_indices reads what the stream has computed, and this one is captured into a graph",
                      {"a launch with check_indices outside the graph"});
    runtime::copy_to_host(reinterpret_cast<runtime::DevicePointer>(source), destination, order);
  }
  void check_pointer(const std::string& tensor, const void* pointer) const override {
    const int owner = runtime::driver().device_of(reinterpret_cast<runtime::DevicePointer>(pointer), tensor);
    if (owner == ordinal_) return;
    throw UserError(
        fmt::format("{} lies in the memory of cuda:{}, the kernel was built for cuda:{}", tensor, owner, ordinal_));
  }

  std::unique_ptr<BoundLaunch> bind(std::vector<KernelLaunch> launches, std::int64_t workspace_bytes) const override {
    const runtime::Context context = launch_context();
    const std::shared_ptr<const runtime::Module> module = module_in(context);
    std::vector<CudaLaunch::Kernel> kernels;
    for (KernelLaunch& launch : launches) {
      const cuda::Source::KernelInfo& kernel = kernels_[launch.kernel];
      CudaLaunch::Kernel& own = kernels.emplace_back();
      own.function = &module->function(kernel.name);
      own.shape = shape_of(kernel, launch.tiles);
      own.arguments = std::move(launch.arguments);
      const bool persistent =
          std::any_of(own.arguments.begin(), own.arguments.end(),
                      [](const ArgumentValue& argument) { return argument.kind == tile::Parameter::Kind::counter; });
      if (persistent) {
        const std::int64_t resident = resident_in(context, launch.kernel, *own.function, own.shape);
        own.shape.grid.x = astatide_persistent_blocks(own.shape.grid.x, resident, kernel.cluster);
      }
    }
    return std::make_unique<CudaLaunch>(context, is_primary(context), module, std::move(kernels), workspace_bytes,
                                        memory_);
  }

 private:
  static runtime::LaunchShape shape_of(const cuda::Source::KernelInfo& kernel, std::int64_t blocks) {
    return {{blocks, 1, 1}, {kernel.threads, 1, 1}, kernel.shared_bytes, kernel.dependent};
  }

  /// The caller's context where it is one of this device, else the device's primary one. The primary context is
  /// retained also where the caller has it current: loaded modules must not outlive it.
  runtime::Context launch_context() const {
    const runtime::Driver& cuda = runtime::driver();
    runtime::ContextHandle current = nullptr;
    cuda.check(cuda.api().ctx_get_current(&current), "ask for the current context");
    const std::lock_guard lock(mutex_);
    if (!primary_) primary_ = runtime::Context::primary(ordinal_);
    if (current == nullptr || current == primary_->handle()) return *primary_;
    const runtime::Context callers = runtime::Context::borrow(current);
    return callers.device().ordinal == ordinal_ ? callers : *primary_;
  }

  std::shared_ptr<const runtime::Module> module_in(const runtime::Context& context) const {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const runtime::Module>& module = modules_[context.id()];
    if (!module) {
      const runtime::OutsideCapture outside;
      module = cache_->load(context, request_).first;
    }
    return module;
  }

  bool is_primary(const runtime::Context& context) const {
    const std::lock_guard lock(mutex_);
    return primary_ && primary_->handle() == context.handle();
  }

  /// How many blocks of a kernel the device holds at once. The driver is asked once for each context and size.
  std::int64_t resident_in(const runtime::Context& context, std::size_t kernel, const runtime::KernelFunction& function,
                           const runtime::LaunchShape& shape) const {
    const std::lock_guard lock(mutex_);
    std::optional<std::int64_t>& blocks = resident_[{context.id(), kernel, shape.shared_bytes}];
    if (!blocks) blocks = runtime::resident_blocks(function, shape, context);
    return *blocks;
  }

  std::vector<cuda::Source::KernelInfo> kernels_;
  runtime::CompileRequest request_;
  int ordinal_;
  std::shared_ptr<runtime::KernelCache> cache_;
  mutable CudaMemory memory_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::optional<runtime::Context> primary_;
  mutable std::map<std::uint64_t, std::shared_ptr<const runtime::Module>> modules_;
  mutable std::map<std::tuple<std::uint64_t, std::size_t, std::int64_t>, std::optional<std::int64_t>> resident_;
};

}  // namespace

Target target_of_cuda_device(int ordinal) {
  const runtime::DeviceFacts& device = runtime::driver().device(ordinal);
  const int capability = 10 * device.major + device.minor;
  const Target* known = target_of_device(capability);
  if (known == nullptr) {
    throw MachineError(fmt::format("cuda:{} ({}) has compute capability {}.{}, which no target covers", ordinal,
                                   device.name, device.major, device.minor),
                       {"compute capabilities from 8.0 on are covered"});
  }
  Target target = *known;
  if (known->compute_capability != capability) target.name = device.target();
  target.compute_capability = capability;
  // What the driver says comes before the table: a slice of a device has less.
  target.shared_memory_per_block = device.shared_bytes_per_block_optin;
  return target;
}

runtime::CompileRequest compile_request(const cuda::Source& source, const std::string& name,
                                        const std::string& architecture, runtime::BinaryKind output) {
  runtime::CompileRequest request;
  request.name = name + ".cu";
  request.source = source.text;
  request.target = architecture;
  request.output = output;
  for (const EmbeddedFile& header : embedded_device_headers())
    request.headers.push_back({std::string(header.name), std::string(header.text)});
  return request;
}

std::shared_ptr<const DeviceCode> compile_for_cuda(const tile::Program& program, const Target& target, int ordinal,
                                                   std::shared_ptr<runtime::KernelCache> cache,
                                                   runtime::BuildNotes notes, BuildReport& report) {
  const auto lowering = Clock::now();
  cuda::Source source = cuda::emit(program);
  notes.lower_ms = report.lower_ms += milliseconds_since(lowering);
  report.source = source.text;
  runtime::CompileRequest request = compile_request(source, program.name, target.name, runtime::BinaryKind::cubin);
  const auto compiling = Clock::now();
  const auto [artifact, origin] = cache->compile(request, notes);
  report.compile_ms = milliseconds_since(compiling);
  report.cache = name_of(origin);
  report.log = artifact->binary.log;
  return std::make_shared<CudaCode>(std::move(source), std::move(request), ordinal, std::move(cache));
}

}  // namespace astatide
