#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/driver_api.h"

namespace astatide::runtime {

/// What the driver says about one device. Sizes in bytes.
struct DeviceFacts {
  int ordinal = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  int shared_bytes_per_block = 0;        // without opting in
  int shared_bytes_per_block_optin = 0;  // the most that a kernel may ask for
  int shared_bytes_per_multiprocessor = 0;
  int registers_per_block = 0;
  int registers_per_multiprocessor = 0;
  int threads_per_block = 0;
  int threads_per_multiprocessor = 0;
  int l2_bytes = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;

  /// "sm_90", without a suffix.
  std::string target() const { return "sm_" + std::to_string(major) + std::to_string(minor); }
};

/// The CUDA driver of this machine: its function table and its devices.
class Driver {
 public:
  /// Loads the library at `path` and asks it for its devices. Throws MachineError when the library is missing, too old
  /// or a stub, or when it has 0 devices.
  static Driver load(const std::string& path);

  const DriverApi& api() const { return api_; }
  /// 1000 * major + 10 * minor, as cuDriverGetVersion.
  int version() const { return version_; }
  const std::string& library_path() const { return library_path_; }
  const std::vector<DeviceFacts>& devices() const { return devices_; }
  /// Throws UserError when there is no such device.
  const DeviceFacts& device(int ordinal) const;

  /// Does nothing on success. Else throws with the driver's name and text for the error: MachineError when the machine
  /// is the cause (memory, driver, hardware), InternalError when our call or our kernel is. `what` names the act in
  /// pieces: check(result, "launch ", name).
  template <class... What>
  void check(DriverResult result, const What&... what) const {
    if (result == DriverResult::success) return;
    std::ostringstream act;
    (act << ... << what);
    fail(result, act.str());
  }

  /// The ordinal of the device that `pointer` belongs to; UserError, naming `what`, when the driver doesn't know it.
  int device_of(DevicePointer pointer, std::string_view what) const;

 private:
  [[noreturn]] void fail(DriverResult result, const std::string& act) const;
  DeviceFacts ask_device(int ordinal) const;

  DriverApi api_;
  int version_ = 0;
  std::string library_path_;
  std::vector<DeviceFacts> devices_;
};

/// The driver of this process, loaded on the first call: ASTATIDE_LIBCUDA, or libcuda.so.1. Throws MachineError as
/// Driver::load does, and tries again on the next call then.
const Driver& driver();

}  // namespace astatide::runtime
