#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "api/astatide.h"
#include "api/cpu_device.h"
#include "api/executable_state.h"
#include "api/tuned.h"
#include "runtime/kernel_cache.h"

namespace astatide {

/// What is compiled, and how.
struct Recipe {
  Algorithm algorithm;
  std::string how;  // schedule
  Extents known;    // extents that the code relies on
  std::function<tile::Program(const CompileOptions& options, const TraceHook& trace)> compile;
  std::map<std::string, std::string> parts_of{};
  std::map<std::string, std::string> directives{};  // where the schedule speaks of what
};

/// Everything that the code depends on, as text.
std::string key_of(const Recipe& recipe, const Target& target, const BuildOptions& options);

struct Engine::State {
  using Built = std::shared_ptr<const Executable::State>;

  explicit State(const EngineOptions& options);

  /// Throws UserError where the request is none that any target could build.
  static Recipe recipe_of(const Algorithm& algorithm, const Schedule& schedule, const BuildOptions& options);

  /// What Engine::choose does.
  NamedSchedule choose(const Algorithm& algorithm, const BuildOptions& options, const Target& target);

  /// Compiles for a target. Needs no device; what comes of it runs where there is one.
  Built build(const Recipe& recipe, const BuildOptions& request, const Target& target);

  /// The same, or what an equal request has built.
  Executable find_or_build(const Recipe& recipe, const BuildOptions& options);

  /// Of the CPU backend and of what is kept here.
  std::shared_ptr<runtime::Counters> counters = std::make_shared<runtime::Counters>();
  std::shared_ptr<runtime::KernelCache> kernels;
  CpuDevice cpu;
  TunedSchedules tuned;
  std::mutex mutex;  // guards the map; not held while something is compiled
  std::map<std::string, std::shared_future<Built>> built;
};

}  // namespace astatide
