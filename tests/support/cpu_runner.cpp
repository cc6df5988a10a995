#include "tests/support/cpu_runner.h"
#include "compiler/tile/parameters.h"

#ifdef ASTATIDE_WITH_CPU

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <new>

#include "compiler/support/diagnostic.h"
#include "compiler/support/half.h"

namespace astatide::testing {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class F>
void for_each_index(const std::vector<std::int64_t>& shape, F&& f) {
  for (std::int64_t extent : shape)
    if (extent == 0) return;
  std::vector<std::int64_t> at(shape.size(), 0);
  for (;;) {
    f(at);
    std::size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void save(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace

std::vector<cpu::CpuHost> hosts_to_test() {
  const cpu::CpuHost native = cpu::detect_host();
  std::vector<cpu::CpuHost> hosts = {native};
  if (native.triple.starts_with("x86_64")) {
    if (native.gather) hosts.push_back(cpu::describe_host(native.triple, "haswell", ""));
    hosts.push_back(cpu::describe_host(native.triple, "x86-64", ""));
  }
  return hosts;
}

namespace {

struct Pages {
  std::size_t page, inner;  // bytes of a page, and of all pages between the guards
  explicit Pages(std::size_t bytes) : page(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    inner = (bytes + page - 1) / page * page;
  }
};

}  // namespace

void* allocate_guarded(std::size_t bytes) {
  const Pages pages(bytes);
  void* all = mmap(nullptr, pages.inner + 2 * pages.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  std::byte* inner = static_cast<std::byte*>(all) + pages.page;
  if (pages.inner > 0 && mprotect(inner, pages.inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  return inner + pages.inner - bytes;
}

void free_guarded(void* memory, std::size_t bytes) {
  const Pages pages(bytes);
  munmap(static_cast<std::byte*>(memory) + bytes - pages.inner - pages.page, pages.inner + 2 * pages.page);
}

std::int64_t HostArray::count() const {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return n;
}

HostArray HostArray::poisoned(ScalarType type, std::vector<std::int64_t> shape) {
  HostArray array;
  array.type = type;
  array.shape = std::move(shape);
  array.strides.assign(array.shape.size(), 1);
  for (std::size_t d = array.shape.size(); d-- > 1;) array.strides[d - 1] = array.strides[d] * array.shape[d];
  array.bytes.assign(static_cast<std::size_t>(array.count() * size_in_bytes(type)), std::byte{0xff});
  return array;
}

HostArray HostArray::zeros(ScalarType type, std::vector<std::int64_t> shape) {
  HostArray array = poisoned(type, std::move(shape));
  std::fill(array.bytes.data(), array.bytes.data() + array.count() * size_in_bytes(type), std::byte{0});
  return array;
}

HostArray HostArray::of(ScalarType type, std::vector<std::int64_t> shape, const std::vector<double>& values,
                        std::vector<std::int64_t> strides) {
  HostArray array = poisoned(type, std::move(shape));
  if (!strides.empty()) {
    array.strides = std::move(strides);
    std::int64_t low = 0, high = 0;
    for (std::size_t d = 0; d < array.shape.size(); ++d) {
      const std::int64_t reach = (array.shape[d] - 1) * array.strides[d];
      (reach < 0 ? low : high) += reach;
    }
    array.first = -low;
    array.bytes.assign(static_cast<std::size_t>((high - low + 1) * size_in_bytes(type)), std::byte{0xff});
  }
  std::size_t next = 0;
  for_each_index(array.shape, [&](const auto& at) { array.set(at, values.at(next++)); });
  return array;
}

std::int64_t HostArray::offset_of(const std::vector<std::int64_t>& at) const {
  std::int64_t offset = first;
  for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset * size_in_bytes(type);
}

void HostArray::set(const std::vector<std::int64_t>& at, double value) {
  std::byte* to = bytes.data() + offset_of(at);
  switch (type) {
    case ScalarType::f32:
      return save(to, static_cast<float>(value));
    case ScalarType::f64:
      return save(to, value);
    case ScalarType::f16:
      return save(to, f64_to_f16(value));
    case ScalarType::bf16:
      return save(to, f64_to_bf16(value));
    case ScalarType::i32:
      return save(to, static_cast<std::int32_t>(value));
    case ScalarType::i64:
      return save(to, static_cast<std::int64_t>(value));
    case ScalarType::u8:
    case ScalarType::boolean:
      return save(to, static_cast<std::uint8_t>(value));
  }
}

double HostArray::get(const std::vector<std::int64_t>& at) const {
  const std::byte* from = bytes.data() + offset_of(at);
  switch (type) {
    case ScalarType::f32:
      return load<float>(from);
    case ScalarType::f64:
      return load<double>(from);
    case ScalarType::f16:
      return f16_to_f32(load<std::uint16_t>(from));
    case ScalarType::bf16:
      return bf16_to_f32(load<std::uint16_t>(from));
    case ScalarType::i32:
      return load<std::int32_t>(from);
    case ScalarType::i64:
      return static_cast<double>(load<std::int64_t>(from));
    case ScalarType::u8:
    case ScalarType::boolean:
      return load<std::uint8_t>(from);
  }
  return 0;
}

std::vector<double> HostArray::values() const {
  std::vector<double> result;
  for_each_index(shape, [&](const auto& at) { result.push_back(get(at)); });
  return result;
}

CpuProgram::CpuProgram(const tile::Program& program, const cpu::CpuHost& host) : program_(program) {
  auto start = std::chrono::steady_clock::now();
  module_ = cpu::emit_llvm(program_, host);
  emit_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const std::string object = runtime::compile_object({module_.name, module_.bitcode, host.cpu, host.features});
  compile_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  code_ = std::make_unique<runtime::OrcModule>(module_.name, object);
  for (const cpu::CpuKernel& kernel : module_.kernels) code_->function(kernel.symbol);
  load_seconds = seconds_since(start);
}

void CpuProgram::run(std::map<std::string, HostArray*> tensors, const std::map<std::string, std::int64_t>& extents,
                     const std::map<std::string, float>& scalars, runtime::CpuWorkers& workers) {
  std::map<std::string, std::int64_t> sizes = extents;
  sizes.insert(program_.known.begin(), program_.known.end());
  if (program_.parts) sizes[program_.parts->extent] = program_.parts->choose(sizes, workers.threads());
  std::map<std::string, HostArray> scratch;
  for (const tile::Tensor& tensor : program_.tensors) {
    const bool counters = tensor.role == tile::Tensor::Role::counters;
    if (tensor.role != tile::Tensor::Role::scratch && !counters) continue;
    std::vector<std::int64_t> shape;
    for (const Expr& dim : tensor.dims) shape.push_back(evaluate_integer(dim, sizes));
    scratch[tensor.name] = counters ? HostArray::zeros(tensor.type, shape) : HostArray::poisoned(tensor.type, shape);
    tensors[tensor.name] = &scratch[tensor.name];
  }
  for (const cpu::CpuKernel& kernel : module_.kernels) {
    std::vector<std::uint64_t> args;
    for (const tile::Parameter& p : kernel.parameters) {
      switch (p.kind) {
        case tile::Parameter::Kind::arrivals:
        case tile::Parameter::Kind::pointer:
          args.push_back(reinterpret_cast<std::uintptr_t>(tensors.at(p.name)->data()));
          break;
        case tile::Parameter::Kind::stride:
          args.push_back(static_cast<std::uint64_t>(tensors.at(p.name)->strides.at(static_cast<std::size_t>(p.dim))));
          break;
        case tile::Parameter::Kind::extent:
          args.push_back(static_cast<std::uint64_t>(sizes.at(p.name)));
          break;
        case tile::Parameter::Kind::scalar:
          args.push_back(std::bit_cast<std::uint32_t>(scalars.at(p.name)));
          break;
        case tile::Parameter::Kind::tensor_map:
        case tile::Parameter::Kind::counter:
          throw InternalError("parameter " + p.name + " is one of GPUs");
      }
    }
    std::int64_t tiles = 1;
    for (const tile::TileAxis& axis : kernel.tiles) tiles *= evaluate_integer(axis.count, sizes);
    workers.launch(code_->function(kernel.symbol), args, tiles, kernel.workspace_bytes);
  }
}

}  // namespace astatide::testing

#endif
