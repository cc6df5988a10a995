#include "api/device_name.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "runtime/driver.h"
#include "runtime/environment.h"

namespace astatide {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find(": ");
    if (begin != std::string::npos) return line.substr(begin + 2);
  }
  return "CPU";
}

}  // namespace

DeviceName name_of_device(const Device& device, int threads) {
  if (device.kind == Device::Kind::cuda) {
    const runtime::Driver& driver = runtime::driver();
    return {driver.device(device.ordinal).name,
            fmt::format("{}.{}", driver.version() / 1000, driver.version() % 1000 / 10)};
  }
  if (device.kind == Device::Kind::sim) throw UserError("a simulated GPU takes no time that says anything");
  if (threads == 0) threads = runtime::read_environment().threads;
  if (threads == 0) threads = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  return {fmt::format("{}, {} threads", cpu_model(), threads), ""};
}

}  // namespace astatide
