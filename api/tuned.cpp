#include "api/tuned.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "api/device_name.h"
#include "astatide/version.h"
#include "compiler/pipeline.h"
#include "compiler/support/contains.h"
#include "runtime/environment.h"
#include "runtime/kernel_cache.h"
#include "runtime/sha256.h"

namespace astatide {
namespace {

std::string key_of_algorithm(Algorithm algorithm) {
  algorithm.sizes.clear();
  return runtime::sha256_hex(print_algorithm(algorithm));
}

runtime::TunedEntry key_for(const Algorithm& algorithm, const Schedule& schedule, const DeviceName& device,
                            const DispatchRequest& what) {
  runtime::TunedEntry entry;
  entry.algorithm = algorithm.name;
  entry.algorithm_key = key_of_algorithm(algorithm);
  entry.dtype = name_of(what.dtype);
  entry.device = device.name;
  entry.driver = device.driver;
  entry.target = what.target.name;
  entry.known = known_extents(algorithm, schedule, what.sizes);
  entry.extents = what.sizes;
  for (const auto& [extent, value] : entry.known) entry.extents.erase(extent);
  entry.version = ASTATIDE_VERSION;
  return entry;
}

/// "513 to 1024": lengths that count as alike.
std::string range_around(std::int64_t length) {
  const int bucket = runtime::length_bucket(length);
  if (bucket == 0) return "0 to 1";
  const std::int64_t last = std::int64_t{1} << bucket;
  return last == 2 ? "2" : fmt::format("{} to {}", last / 2 + 1, last);
}

class TunedAsker {
 public:
  TunedAsker(const Algorithm& algorithm, const TunedRequest& request)
      : algorithm_(algorithm), request_(request), key_(key_of_algorithm(algorithm)) {}

  TunedCandidate ask(const runtime::TunedEntry& entry) const {
    TunedCandidate out{entry, {"tuned", {}}, other_request(entry), false};
    if (!out.why_not.empty()) return out;
    try {
      out.schedule.schedule = parse_schedule(entry.schedule, "tuned");
      out.schedule.schedule.serves.reset();
      out.schedule.schedule.name = "tuned";
      const runtime::TunedEntry wanted =
          key_for(algorithm_, out.schedule.schedule, {request_.device.value_or(entry.device), ""}, request_.what);
      out.why_not = other_lengths(entry, wanted);
      if (!out.why_not.empty()) return out;
      if (!entry.same_key(wanted)) throw InternalError("an entry for other lengths that no length tells");
      out.why_not = why_stale(out);
    } catch (const MachineError&) {
      throw;
    } catch (const UserError& error) {
      out.why_not = error.diagnostics().front().message;
    }
    out.stale = !out.why_not.empty();
    return out;
  }

 private:
  std::string other_request(const runtime::TunedEntry& entry) const {
    if (entry.algorithm_key != key_) return "it was tuned for another text of the algorithm";
    if (entry.dtype != name_of(request_.what.dtype)) return "it was tuned for " + entry.dtype;
    if (entry.target != request_.what.target.name) return "it was tuned for " + entry.target;
    if (request_.device && entry.device != *request_.device) return "it was tuned on " + entry.device;
    return "";
  }

  std::string other_lengths(const runtime::TunedEntry& entry, const runtime::TunedEntry& wanted) const {
    const auto differs = [&](const auto& tuned, const auto& asked, const auto& value_of,
                             const auto& text_of) -> std::string {
      for (const auto& [name, length] : tuned) {
        const auto other = asked.find(name);
        if (other == asked.end()) return "nothing says how large " + name + " is";
        if (value_of(length) != value_of(other->second))
          return fmt::format("{} is {}, it was tuned for {}", name, other->second, text_of(length));
      }
      for (const auto& [name, length] : asked)
        if (!tuned.contains(name)) return fmt::format("it was tuned without {}, which is {} here", name, length);
      return "";
    };
    const std::string known = differs(
        entry.known, wanted.known, [](std::int64_t n) { return n; }, [](std::int64_t n) { return std::to_string(n); });
    return known.empty() ? differs(entry.extents, wanted.extents, runtime::length_bucket, range_around) : known;
  }

  std::string why_stale(const TunedCandidate& candidate) const {
    if (candidate.entry.version != ASTATIDE_VERSION)
      return fmt::format("version {} has tuned it, this is " ASTATIDE_VERSION,
                         candidate.entry.version.empty() ? "?" : candidate.entry.version);
    NamedSchedule asked = candidate.schedule;
    asked.schedule.serves.emplace();
    return ask_schedules(algorithm_, {asked}, request_.what).front().why_not;
  }

  const Algorithm& algorithm_;
  const TunedRequest& request_;
  const std::string key_;
};

}  // namespace

runtime::TunedEntry tuned_key(const Algorithm& algorithm, const Schedule& schedule, const Device& device, int threads,
                              ScalarType dtype, const std::map<std::string, std::int64_t>& sizes) {
  return key_for(algorithm, schedule, name_of_device(device, threads), {target_of(device), dtype, sizes});
}

std::vector<TunedCandidate> ask_tuned(const Algorithm& algorithm, const std::vector<runtime::TunedEntry>& entries,
                                      const TunedRequest& request) {
  const TunedAsker asker(algorithm, request);
  std::vector<TunedCandidate> out;
  for (const runtime::TunedEntry& entry : entries)
    if (entry.algorithm == algorithm.name) out.push_back(asker.ask(entry));
  return out;
}

std::string lengths_of(const runtime::TunedEntry& entry) {
  std::vector<std::string> parts;
  for (const auto& [name, length] : entry.known) parts.push_back(fmt::format("{} {}", name, length));
  for (const auto& [name, length] : entry.extents) parts.push_back(fmt::format("{} {}", name, range_around(length)));
  return join(parts);
}

std::string default_tuning_store(const std::string& cache_root) {
  return cache_root.empty() ? "" : cache_root + "/tuning.json";
}

std::string tuning_store_of(const EngineOptions& options) {
  if (!options.tuning_store.empty()) return options.tuning_store;
  if (!options.use_disk_cache) return "";
  if (!options.cache_directory.empty()) return default_tuning_store(options.cache_directory);
  return default_tuning_store(runtime::DiskCache::from_environment(runtime::read_environment()).root().string());
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

std::optional<NamedSchedule> TunedSchedules::find(const Algorithm& algorithm, const Device& device,
                                                  const DispatchRequest& request) {
  if (store_.path().empty() || device.kind == Device::Kind::sim) return std::nullopt;
  std::vector<runtime::TunedEntry> entries;
  {
    const std::lock_guard lock(mutex_);
    read_if_changed();
    entries = entries_;
  }
  if (entries.empty()) return std::nullopt;
  for (TunedCandidate& candidate : ask_tuned(algorithm, entries, {name_of_device(device, threads_).name, request})) {
    if (candidate.why_not.empty()) return std::move(candidate.schedule);
    if (candidate.stale) warn(fmt::format("the tuned schedule is not used: {}", candidate.why_not));
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
