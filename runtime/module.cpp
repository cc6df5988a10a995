#include "runtime/module.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "compiler/support/diagnostic.h"
#include "runtime/stub/astatide_launch_rules.h"

namespace astatide::runtime {
void check_runs_on(const DeviceFacts& device, BinaryKind kind, std::string_view target) {
  std::string_view digits = target.substr(target.find('_') + 1);
  int built = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), built);
  if (error != std::errc()) throw InternalError(fmt::format("a binary built for '{}'", target));
  const std::string_view suffix(end, static_cast<std::size_t>(digits.data() + digits.size() - end));
  const int major = built / 10, minor = built % 10;

  bool runs = kind == BinaryKind::cubin ? device.major == major && device.minor >= minor
                                        : device.major * 10 + device.minor >= built;
  if (suffix == "a") runs = device.major == major && device.minor == minor;
  if (suffix == "f") runs = device.major == major && device.minor >= minor;
  if (runs) return;
  throw MachineError(fmt::format("code built for {} can't run on cuda:{} ({}), whose compute capability is {}.{}",
                                 target, device.ordinal, device.name, device.major, device.minor),
                     {fmt::format("build for {}", device.target())});
}

Module::Module(const Context& context, const CompiledBinary& binary, const std::string& name,
               std::shared_ptr<Counters> counters)
    : context_(context), name_(name), counters_(std::move(counters)) {
  check_runs_on(context.device(), binary.kind, binary.target);
  const Driver& cuda = driver();
  const ScopedCurrent scope(context_);
  std::array<char, 8192> log{};
  std::array<JitOption, 2> options = {JitOption::error_log_buffer, JitOption::error_log_buffer_size_bytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  // PTX is read up to its terminating zero, which std::string keeps behind its last byte.
  const DriverResult result =
      cuda.api().module_load_data_ex(&handle_, binary.bytes.c_str(), 2, options.data(), values.data());
  const char* separator = log[0] != '\0' ? ": " : "";
  cuda.check(result, "load ", name, " built for ", binary.target, separator, log.data());
}

Module::~Module() {
  if (handle_ != nullptr) release_in(context_, [&] { driver().api().module_unload(handle_); });
}

const KernelFunction& Module::function(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<KernelFunction>& slot = functions_[name];
  if (slot) return *slot;
  const Driver& cuda = driver();
  const ScopedCurrent scope(context_);
  auto function = std::make_unique<KernelFunction>();
  function->name_ = name;
  function->counters_ = counters_;
  cuda.check(cuda.api().module_get_function(&function->handle_, handle_, name.c_str()), "find the kernel ", name,
             " in ", name_);
  const auto ask = [&](FunctionAttribute attribute) {
    int value = 0;
    cuda.check(cuda.api().func_get_attribute(&value, attribute, function->handle_), "ask the kernel ", name,
               " for attribute ", static_cast<int>(attribute));
    return value;
  };
  function->static_shared_bytes_ = ask(FunctionAttribute::shared_size_bytes);
  function->registers_ = ask(FunctionAttribute::num_regs);
  function->local_bytes_ = ask(FunctionAttribute::local_size_bytes);
  function->most_threads_ = ask(FunctionAttribute::max_threads_per_block);
  slot = std::move(function);
  return *slot;
}

void allow_shared_bytes(const KernelFunction& function, unsigned bytes) {
  if (bytes + static_cast<unsigned>(function.static_shared_bytes_) <= ASTATIDE_SHARED_BYTES_WITHOUT_ASKING) return;
  if (bytes <= function.allowed_shared_bytes_.load(std::memory_order_acquire)) return;
  const Driver& cuda = driver();
  cuda.check(cuda.api().func_set_attribute(function.handle_, FunctionAttribute::max_dynamic_shared_size_bytes,
                                           static_cast<int>(bytes)),
             "allow the kernel ", function.name_, " ", bytes, " bytes of shared memory");
  function.allowed_shared_bytes_.store(bytes, std::memory_order_release);
}

}  // namespace astatide::runtime
