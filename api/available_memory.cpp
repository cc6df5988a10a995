#include "api/available_memory.h"

#include <fmt/format.h>

#include <fstream>

#include "compiler/support/diagnostic.h"

namespace astatide {

void require_memory(std::int64_t bytes, const std::string& what) {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::int64_t kib = 0;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key != "MemAvailable:") continue;
    if (bytes / 1024 > kib)
      throw MachineError(fmt::format("{} need {} bytes of memory, {} are left", what, bytes, kib * 1024));
    return;
  }
}

}  // namespace astatide
