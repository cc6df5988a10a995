#include "api/tuned.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "api/device_name.h"
#include "astatide/version.h"
#include "compiler/support/contains.h"
#include "runtime/sha256.h"

namespace astatide {
namespace {

std::string key_of_algorithm(Algorithm algorithm) {
  algorithm.sizes.clear();
  return runtime::sha256_hex(print_algorithm(algorithm));
}

}  // namespace

runtime::TunedEntry tuned_key(const Algorithm& algorithm, const Schedule& schedule, const Device& device, int threads,
                              ScalarType dtype, const std::map<std::string, std::int64_t>& sizes) {
  runtime::TunedEntry entry;
  const DeviceName name = name_of_device(device, threads);
  entry.algorithm = algorithm.name;
  entry.algorithm_key = key_of_algorithm(algorithm);
  entry.dtype = name_of(dtype);
  entry.device = name.name;
  entry.driver = name.driver;
  entry.target = target_of(device).name;
  entry.known = known_extents(algorithm, schedule, sizes);
  entry.extents = sizes;
  for (const auto& [extent, value] : entry.known) entry.extents.erase(extent);
  entry.version = ASTATIDE_VERSION;
  return entry;
}

std::string default_tuning_store(const std::string& cache_root) {
  return cache_root.empty() ? "" : cache_root + "/tuning.json";
}

void TunedSchedules::read_if_changed() {
  struct stat status {};
  if (::stat(store_.path().c_str(), &status) != 0) {
    entries_.clear();
    read_.clear();
    return;
  }
  const std::string now =
      fmt::format("{} {} {} {}", status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  if (now == read_) return;
  std::vector<std::string> warnings;
  entries_ = store_.load(warnings);
  read_ = now;
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
}

std::optional<NamedSchedule> TunedSchedules::find(const Algorithm& algorithm, const Device& device, ScalarType dtype,
                                                  const std::map<std::string, std::int64_t>& sizes) {
  if (store_.path().empty() || device.kind == Device::Kind::sim) return std::nullopt;
  const std::lock_guard lock(mutex_);
  read_if_changed();
  if (entries_.empty()) return std::nullopt;
  const std::string key = key_of_algorithm(algorithm);
  for (const runtime::TunedEntry& entry : entries_) {
    if (entry.algorithm_key != key || entry.dtype != name_of(dtype)) continue;
    try {
      Schedule schedule = parse_schedule(entry.schedule, store_.path().string());
      if (!entry.same_key(tuned_key(algorithm, schedule, device, threads_, dtype, sizes))) continue;
      schedule.serves.reset();
      schedule.name = "tuned";
      return NamedSchedule{"tuned", std::move(schedule)};
    } catch (const MachineError&) {
      throw;
    } catch (const UserError& error) {
      warnings_.push_back(fmt::format("a tuned schedule in {} is not used: {}", store_.path().string(),
                                      error.diagnostics().front().message));
    }
  }
  return std::nullopt;
}

void TunedSchedules::warn(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (contains(warned_, message)) return;
  warned_.push_back(message);
  warnings_.push_back(message);
}

std::vector<std::string> TunedSchedules::take_warnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace astatide
