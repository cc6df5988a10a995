#include "runtime/driver.h"

#include <fmt/format.h>

#include <array>

#include "compiler/support/diagnostic.h"
#include "runtime/environment.h"
#include "runtime/shared_library.h"

namespace astatide::runtime {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

bool machine_is_the_cause(DriverResult result) {
  switch (result) {
    case DriverResult::out_of_memory:
    case DriverResult::deinitialized:
    case DriverResult::stub_library:
    case DriverResult::call_requires_newer_driver:
    case DriverResult::device_unavailable:
    case DriverResult::no_device:
    case DriverResult::device_not_licensed:
    case DriverResult::no_binary_for_gpu:
    case DriverResult::ecc_uncorrectable:
    case DriverResult::nvlink_uncorrectable:
    case DriverResult::jit_compiler_not_found:
    case DriverResult::unsupported_ptx_version:
    case DriverResult::jit_compilation_disabled:
    case DriverResult::operating_system:
    case DriverResult::launch_timeout:
    case DriverResult::not_permitted:
    case DriverResult::not_supported:
      return true;
    default:
      return result >= DriverResult::system_not_ready && result <= DriverResult::mps_max_connections_reached;
  }
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

Driver Driver::load(const std::string& path) {
  std::string reason;
  const std::optional<SharedLibrary> library = SharedLibrary::open(path, reason);
  if (!library) {
    throw MachineError(fmt::format("no CUDA driver: {} can't be loaded ({})", path, reason),
                       {"a GPU needs NVIDIA's driver, which brings libcuda.so.1; ASTATIDE_LIBCUDA names another file",
                        "--device cpu needs no driver"});
  }

  Driver driver;
  driver.library_path_ = path;
#define ASTATIDE_LOAD(function, name, parameters) \
  driver.api_.function = reinterpret_cast<decltype(DriverApi::function)>(library->symbol(name));
  ASTATIDE_DRIVER_FUNCTIONS(ASTATIDE_LOAD)
  ASTATIDE_OPTIONAL_DRIVER_FUNCTIONS(ASTATIDE_LOAD)
#undef ASTATIDE_LOAD
#define ASTATIDE_REQUIRE(function, name, parameters) \
  if (driver.api_.function == nullptr)               \
    throw MachineError(fmt::format("{} is no usable CUDA driver: it lacks {}", path, name));
  ASTATIDE_DRIVER_FUNCTIONS(ASTATIDE_REQUIRE)
#undef ASTATIDE_REQUIRE

  const DriverResult started = driver.api_.init(0);
  if (started == DriverResult::stub_library) {
    throw MachineError(fmt::format("no CUDA driver: {} is the toolkit's stub, made for linking only", path),
                       {"the driver's own libcuda.so.1 must come first on the loader's path"});
  }
  int count = 0;
  if (started != DriverResult::no_device) {
    driver.check(started, "start the CUDA driver ", path);
    driver.check(driver.api_.driver_get_version(&driver.version_), "ask for the driver's version");
    driver.check(driver.api_.device_get_count(&count), "count the devices");
  }
  if (count == 0) {
    throw MachineError(fmt::format("the CUDA driver {} has 0 devices", path),
                       {"CUDA_VISIBLE_DEVICES may hide them", "--device cpu needs no device"});
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) driver.devices_.push_back(driver.ask_device(ordinal));
  return driver;
}

DeviceFacts Driver::ask_device(int ordinal) const {
  DeviceFacts facts;
  facts.ordinal = ordinal;
  int device = 0;
  check(api_.device_get(&device, ordinal), "open device ", ordinal);
  std::array<char, 256> name{};
  check(api_.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device), "name device ", ordinal);
  facts.name = name.data();
  check(api_.device_total_mem(&facts.memory_bytes, device), "ask device ", ordinal, " for its memory");

  const auto ask = [&](DeviceAttribute attribute) {
    int value = 0;
    check(api_.device_get_attribute(&value, attribute, device), "ask device ", ordinal, " for attribute ",
          static_cast<int>(attribute));
    return value;
  };
  facts.major = ask(DeviceAttribute::compute_capability_major);
  facts.minor = ask(DeviceAttribute::compute_capability_minor);
  facts.multiprocessors = ask(DeviceAttribute::multiprocessor_count);
  facts.shared_bytes_per_block = ask(DeviceAttribute::max_shared_memory_per_block);
  facts.shared_bytes_per_block_optin = ask(DeviceAttribute::max_shared_memory_per_block_optin);
  facts.shared_bytes_per_multiprocessor = ask(DeviceAttribute::max_shared_memory_per_multiprocessor);
  facts.registers_per_block = ask(DeviceAttribute::max_registers_per_block);
  facts.registers_per_multiprocessor = ask(DeviceAttribute::max_registers_per_multiprocessor);
  facts.threads_per_block = ask(DeviceAttribute::max_threads_per_block);
  facts.threads_per_multiprocessor = ask(DeviceAttribute::max_threads_per_multiprocessor);
  facts.l2_bytes = ask(DeviceAttribute::l2_cache_size);
  facts.clock_khz = ask(DeviceAttribute::clock_rate_khz);
  facts.memory_clock_khz = ask(DeviceAttribute::memory_clock_rate_khz);
  facts.memory_bus_bits = ask(DeviceAttribute::global_memory_bus_width);
  return facts;
}

const DeviceFacts& Driver::device(int ordinal) const {
  if (ordinal < 0 || ordinal >= static_cast<int>(devices_.size())) {
    throw UserError(fmt::format("no device cuda:{}: this machine has {}", ordinal, devices_.size()),
                    {fmt::format("cuda:0 to cuda:{} exist", devices_.size() - 1)});
  }
  return devices_[static_cast<std::size_t>(ordinal)];
}

int Driver::device_of(DevicePointer pointer, std::string_view what) const {
  int ordinal = 0;
  if (api_.pointer_get_attribute(&ordinal, PointerAttribute::device_ordinal, pointer) != DriverResult::success) {
    throw UserError(fmt::format("{}: {:#x} is no device memory that the CUDA driver knows", what, pointer));
  }
  return ordinal;
}

void Driver::fail(DriverResult result, const std::string& act) const {
  const char* name = nullptr;
  const char* text = nullptr;
  // Both calls refuse numbers that are newer than the driver and leave the pointer null.
  api_.get_error_name(result, &name);
  api_.get_error_string(result, &text);
  std::string message = fmt::format("{}: {} ({}): {}", act, name ? name : "unknown error", static_cast<int>(result),
                                    text ? text : "the driver has no text for it");
  if (!machine_is_the_cause(result)) throw InternalError(message);
  std::vector<std::string> notes;
  if (version_ != 0) notes.push_back(fmt::format("the driver supports CUDA {}", version_text(version_)));
  throw MachineError(std::move(message), std::move(notes));
}

const Driver& driver() {
  // Never destroyed: a static object of the caller may hold kernels, and release them after everything here is gone.
  static const Driver* const loaded = new Driver(Driver::load(read_environment().libcuda.value_or(kDriverLibrary)));
  return *loaded;
}

}  // namespace astatide::runtime
