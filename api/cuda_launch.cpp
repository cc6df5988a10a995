#include "api/cuda_launch.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using Kind = tile::Parameter::Kind;

constexpr std::size_t kDealingWords = ASTATIDE_DEALING_WORDS;

runtime::ArgumentWord settled_word(const ArgumentValue& argument) {
  switch (argument.kind) {
    case Kind::stride:
      return runtime::ArgumentWord::i64(static_cast<std::int64_t>(argument.word));
    case Kind::extent:
      return runtime::ArgumentWord::i32(static_cast<std::int32_t>(argument.word));
    case Kind::scalar: {
      const auto bits = static_cast<std::uint32_t>(argument.word);
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return runtime::ArgumentWord::f32(value);
    }
    case Kind::pointer:
    case Kind::counter:
    case Kind::arrivals:
    case Kind::tensor_map:
      return runtime::ArgumentWord::pointer(0);  // each launch has its own
  }
  throw InternalError("a parameter of no kind");
}

bool is_empty(const MappedTensor& tensor) { return contains(tensor.extents, 0); }

runtime::TensorMap tensor_map(const MappedTensor& tensor, std::uint64_t address) {
  return runtime::encode_tensor_map({tensor.name, address, tensor.type == ScalarType::bf16, tensor.extents,
                                     tensor.strides, tensor.box, tensor.stored});
}

/// A map has no empty tensors, and a kernel may copy a tile of one, all of whose elements are absent: one zero, and
/// zeros outside. Of an empty output no kernel has a tile.
runtime::TensorMap map_of_zero(MappedTensor tensor, runtime::DevicePointer zero) {
  std::fill(tensor.extents.begin(), tensor.extents.end(), 1);
  std::fill(tensor.strides.begin(), tensor.strides.end(), 1);
  return tensor_map(tensor, zero);
}

}  // namespace

const runtime::TensorMap& MapsByAddress::at(std::uint64_t address) {
  if (entries_.empty()) entries_.resize(kEntries);
  // Fibonacci hashing: the upper bits depend on all of the address.
  static_assert(kEntries == std::size_t{1} << 7);
  Entry& entry = entries_[(address * 0x9e3779b97f4a7c15) >> (64 - 7)];
  if (entry.address != address) {
    entry.map = tensor_map(*tensor_, address);
    entry.address = address;
  }
  return entry.map;
}

CudaLaunch::CudaLaunch(const runtime::Context& context, bool primary, std::shared_ptr<const runtime::Module> module,
                       std::vector<Kernel> kernels, std::int64_t workspace_bytes, CudaMemory& memory)
    : context_(context),
      primary_(primary),
      module_(std::move(module)),
      workspace_bytes_(workspace_bytes),
      memory_(memory) {
  const runtime::ScopedCurrent scope(context_);
  std::size_t empty = 0;
  for (const Kernel& kernel : kernels)
    for (const ArgumentValue& argument : kernel.arguments)
      if (argument.mapped && is_empty(*argument.mapped)) ++empty;
  maps_of_zero_.reserve(empty);  // which stay in their places then
  for (Kernel& kernel : kernels) {
    Ready& ready = kernels_.emplace_back();
    for (const ArgumentValue& argument : kernel.arguments) ready.words.push_back(settled_word(argument));
    for (std::size_t n = 0; n < kernel.arguments.size(); ++n) {
      const ArgumentValue& argument = kernel.arguments[n];
      ready.parameters.push_back(ready.words[n].address());
      if (argument.kind == Kind::counter) counter_words_ = std::max(counter_words_, kDealingWords);
      // Behind those that deal out tiles.
      if (argument.kind == Kind::arrivals)
        counter_words_ = std::max(counter_words_, kDealingWords + static_cast<std::size_t>(argument.word));
      if (argument.kind != Kind::tensor_map) continue;
      if (is_empty(*argument.mapped))
        ready.parameters[n] =
            maps_of_zero_.emplace_back(map_of_zero(*argument.mapped, memory_.zero(context_))).bytes.data();
      else
        ready.maps.push_back({n, MapsByAddress(argument.mapped)});
    }
    ready.kernel = std::move(kernel);
  }
}

bool CudaLaunch::fits() const {
  const runtime::DriverApi& api = runtime::driver().api();
  runtime::ContextHandle current = nullptr;
  runtime::driver().check(api.ctx_get_current(&current), "ask for the current context");
  if (primary_) {
    if (current == nullptr || current == context_.handle()) return true;
    // A context of another device; one of this device would be the launch's.
    int ordinal = 0;
    runtime::driver().check(api.ctx_get_device(&ordinal), "ask the current context for its device");
    return ordinal != context_.device().ordinal;
  }
  // The driver may give the handle of a context that was destroyed to another.
  return current == context_.handle() && runtime::Context::id_of(current) == context_.id();
}

const CudaLaunch::OfStream& CudaLaunch::of_stream(const runtime::Stream& stream) {
  for (const OfStream& known : streams_)
    if (known.known && known.handle == stream.handle()) return known;
  OfStream& own = streams_[next_stream_];
  next_stream_ = (next_stream_ + 1) % streams_.size();
  own = {false, stream.handle(), 0, nullptr};
  // Words that were given stay where they are, whatever later launches ask for.
  if (counter_words_ > 0) own.words = memory_.words(context_).take(stream, counter_words_);
  if (workspace_bytes_ > 0) own.scratch = memory_.scratch(stream);
  own.known = true;
  return own;
}

void CudaLaunch::fill(Ready& ready, std::span<void* const> tensors, void* workspace, runtime::DevicePointer counters) {
  const std::vector<ArgumentValue>& arguments = ready.kernel.arguments;
  for (std::size_t n = 0; n < arguments.size(); ++n) {
    if (arguments[n].is_address())
      ready.words[n] = runtime::ArgumentWord::pointer(arguments[n].address(tensors, workspace));
    if (arguments[n].kind == Kind::counter) ready.words[n] = runtime::ArgumentWord::pointer(counters);
    if (arguments[n].kind == Kind::arrivals)
      ready.words[n] = runtime::ArgumentWord::pointer(counters + kDealingWords * sizeof(std::uint32_t));
  }
  for (Ready::Map& map : ready.maps)
    ready.parameters[map.argument] = map.maps.at(arguments[map.argument].address(tensors, workspace)).bytes.data();
}

void CudaLaunch::launch(std::span<void* const> tensors, void* workspace, void* stream) {
  // Maps are described in a context, too, and a thread of the caller may have none.
  const runtime::ScopedCurrent scope(context_);
  const runtime::Stream order = runtime::Stream::borrow(context_, static_cast<runtime::StreamHandle>(stream));
  const bool lends = workspace_bytes_ > 0 && workspace == nullptr;
  runtime::DevicePointer counters = 0;
  std::unique_lock<std::mutex> hold;
  if (lends || counter_words_ > 0) {
    const auto bytes = static_cast<std::size_t>(workspace_bytes_);
    if (order.is_capturing()) {
      if (counter_words_ > 0) counters = memory_.words(context_).take(order, counter_words_);
      if (lends) workspace = memory_.captured_scratch(context_, bytes);
    } else {
      const OfStream& own = of_stream(order);
      counters = own.words;
      if (lends) {
        hold = std::unique_lock(own.scratch->mutex);
        workspace = own.scratch->memory(order, bytes);
      }
    }
  }
  // What can be refused is refused before any kernel runs.
  for (Ready& ready : kernels_) fill(ready, tensors, workspace, counters);
  for (const Ready& ready : kernels_)
    runtime::launch(*ready.kernel.function, ready.kernel.shape, order, std::span<const void* const>(ready.parameters));
}

}  // namespace astatide
