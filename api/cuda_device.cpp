#include "api/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <tuple>

#include "api/clock.h"
#include "compiler/support/contains.h"
#include "compiler/support/embedded.h"
#include "compiler/tile/parameters.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "runtime/launch_words.h"
#include "runtime/tensor_map.h"

namespace astatide {
namespace {

runtime::ArgumentWord argument_word(const ArgumentValue& argument) {
  using Kind = tile::Parameter::Kind;
  switch (argument.kind) {
    case Kind::pointer:
    case Kind::counter:
    case Kind::arrivals:
      return runtime::ArgumentWord::pointer(argument.word);
    case Kind::stride:
      return runtime::ArgumentWord::i64(static_cast<std::int64_t>(argument.word));
    case Kind::extent:
      return runtime::ArgumentWord::i32(static_cast<std::int32_t>(argument.word));
    case Kind::tensor_map:
      break;  // no word
    case Kind::scalar: {
      const auto bits = static_cast<std::uint32_t>(argument.word);
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return runtime::ArgumentWord::f32(value);
    }
  }
  throw InternalError("a parameter of no kind");
}

bool is_empty(const MappedTensor& tensor) { return contains(tensor.extents, 0); }

runtime::TensorMap tensor_map(const MappedTensor& tensor) {
  return runtime::encode_tensor_map({tensor.name, tensor.address, tensor.type == ScalarType::bf16, tensor.extents,
                                     tensor.strides, tensor.box, tensor.stored});
}

/// A map has no empty tensors, and a kernel may copy a tile of one, all of whose elements are absent: one zero, and
/// zeros outside. Of an empty output no kernel has a tile.
runtime::TensorMap map_of_zero(MappedTensor tensor, runtime::DevicePointer zero) {
  tensor.address = zero;
  std::fill(tensor.extents.begin(), tensor.extents.end(), 1);
  std::fill(tensor.strides.begin(), tensor.strides.end(), 1);
  return tensor_map(tensor);
}

constexpr std::size_t kDealingWords = ASTATIDE_DEALING_WORDS;

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

  ScratchLease scratch(std::int64_t bytes, void* stream) const override {
    const runtime::Context context = launch_context();
    const auto wanted = static_cast<std::size_t>(bytes);
    const runtime::Stream order = runtime::Stream::borrow(context, static_cast<runtime::StreamHandle>(stream));
    if (order.is_capturing()) return captured_scratch(context, wanted);
    const std::shared_ptr<Scratch> scratch = scratch_of(context, stream);
    // The lock is held until the launch has put all its kernels into the stream: what comes later in the stream may use
    // the same memory.
    auto lock = std::make_shared<std::unique_lock<std::mutex>>(scratch->mutex);
    if (!scratch->buffer || scratch->buffer->size() < wanted) {
      order.synchronize();
      scratch->buffer.reset();
      scratch->buffer.emplace(context, wanted);
    }
    struct Hold {
      std::shared_ptr<Scratch> scratch;
      std::shared_ptr<std::unique_lock<std::mutex>> lock;  // released before the mutex dies
    };
    return {reinterpret_cast<void*>(scratch->buffer->pointer()),
            std::make_shared<Hold>(Hold{scratch, std::move(lock)})};
  }

  void launch(const std::vector<KernelLaunch>& launches, void* stream) const override {
    const runtime::Context context = launch_context();
    const runtime::Stream order = runtime::Stream::borrow(context, static_cast<runtime::StreamHandle>(stream));
    const std::shared_ptr<const runtime::Module> module = module_in(context);
    for (const KernelLaunch& launch : launches) {
      const cuda::Source::KernelInfo& kernel = kernels_[launch.kernel];
      const runtime::KernelFunction& function = module->function(kernel.name);
      runtime::LaunchShape shape = shape_of(kernel, launch.tiles);
      // Lists, so that what is in them stays in its place.
      std::list<runtime::ArgumentWord> words;
      std::list<runtime::TensorMap> maps;
      std::vector<const void*> parameters;
      for (ArgumentValue argument : launch.arguments) {
        if (argument.kind == tile::Parameter::Kind::arrivals) {
          // Behind those that deal out tiles.
          const auto count = kDealingWords + static_cast<std::size_t>(argument.word);
          argument.word = words_in(context).take(order, count) + kDealingWords * sizeof(std::uint32_t);
        }
        if (argument.kind == tile::Parameter::Kind::counter) {
          argument.word = words_in(context).take(order, kDealingWords);
          const std::int64_t resident = resident_in(context, launch.kernel, function, shape);
          shape.grid.x = astatide_persistent_blocks(shape.grid.x, resident, kernel.cluster);
        }
        if (const MappedTensor* mapped = argument.mapped.get())
          parameters.push_back(
              maps.emplace_back(is_empty(*mapped) ? map_of_zero(*mapped, zero_in(context)) : tensor_map(*mapped))
                  .bytes.data());
        else
          parameters.push_back(words.emplace_back(argument_word(argument)).address());
      }
      runtime::launch(function, shape, order, std::span<const void* const>(parameters));
    }
  }

 private:
  static runtime::LaunchShape shape_of(const cuda::Source::KernelInfo& kernel, std::int64_t blocks) {
    return {{blocks, 1, 1}, {kernel.threads, 1, 1}, kernel.shared_bytes};
  }

  /// A graph may run beside the stream that it was captured in, and beside other graphs: its memory is its own, and
  /// lives as long as this does.
  ScratchLease captured_scratch(const runtime::Context& context, std::size_t bytes) const {
    const runtime::OutsideCapture outside;
    const std::lock_guard lock(mutex_);
    const runtime::DeviceBuffer& buffer = captured_.emplace_back(context, bytes);
    return {reinterpret_cast<void*>(buffer.pointer()), nullptr};
  }

  struct Scratch {
    std::mutex mutex;
    std::optional<runtime::DeviceBuffer> buffer;
  };

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

  /// Where an element 0 lies in device memory, as long as this lives.
  runtime::DevicePointer zero_in(const runtime::Context& context) const {
    const std::lock_guard lock(mutex_);
    std::optional<runtime::DeviceBuffer>& buffer = zeros_[context.id()];
    if (!buffer) buffer = runtime::DeviceBuffer::of_zeros(context, kScratchAlignment);
    return buffer->pointer();
  }

  runtime::LaunchWords& words_in(const runtime::Context& context) const {
    const std::lock_guard lock(mutex_);
    return counters_.try_emplace(context.id(), context).first->second;
  }

  /// How many blocks of a kernel the device holds at once. The driver is asked once for each context and size.
  std::int64_t resident_in(const runtime::Context& context, std::size_t kernel, const runtime::KernelFunction& function,
                           const runtime::LaunchShape& shape) const {
    const std::lock_guard lock(mutex_);
    std::optional<std::int64_t>& blocks = resident_[{context.id(), kernel, shape.shared_bytes}];
    if (!blocks) blocks = runtime::resident_blocks(function, shape, context);
    return *blocks;
  }

  std::shared_ptr<Scratch> scratch_of(const runtime::Context& context, void* stream) const {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Scratch>& scratch = scratch_[{context.id(), stream}];
    if (!scratch) scratch = std::make_shared<Scratch>();
    return scratch;
  }

  std::vector<cuda::Source::KernelInfo> kernels_;
  runtime::CompileRequest request_;
  int ordinal_;
  std::shared_ptr<runtime::KernelCache> cache_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::optional<runtime::Context> primary_;
  mutable std::map<std::uint64_t, std::shared_ptr<const runtime::Module>> modules_;
  mutable std::map<std::pair<std::uint64_t, void*>, std::shared_ptr<Scratch>> scratch_;
  mutable std::list<runtime::DeviceBuffer> captured_;  // scratch of launches in graphs
  mutable std::map<std::uint64_t, std::optional<runtime::DeviceBuffer>> zeros_;
  mutable std::map<std::uint64_t, runtime::LaunchWords> counters_;
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
