#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/simulate.h"
#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/build.h"
#include "compiler/algorithm/evaluate.h"
#include "compiler/dispatch.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/visibility.h"

// Declare, schedule, compile, launch. Errors are UserError (with MachineError for what the machine lacks) and
// InternalError; the library never prints, never exits, and has no global state beside the loaded driver.
//
//   astatide::Engine engine;
//   astatide::Executable run = engine.build(algorithm, schedule, {.device = astatide::Device::cuda(0), .dtype =
//   ScalarType::bf16,
//                                                                .sizes = {{"D", 64}, {"Dv", 64}}});
//   run.launch({.tensors = {{"Q", q}, {"K", k}, {"V", v}, {"O", o}, {"L", l}}, .stream = stream});

namespace ASTATIDE_PUBLIC astatide {

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda, sim };
  Kind kind = Kind::cpu;
  int ordinal = 0;
  std::string target{};  // of a simulated GPU

  static Device cpu() { return {}; }
  static Device cuda(int ordinal = 0) { return {Kind::cuda, ordinal}; }
  /// A GPU that is simulated thread by thread, for small problems (simulate.h); without a target the schedule's own.
  static Device sim(std::string target = "") { return {Kind::sim, 0, std::move(target)}; }
  friend bool operator==(const Device&, const Device&) = default;
};

/// Memory of the caller: `data` lives on the executable's device. Strides in elements, one for each dimension; 0
/// broadcasts an input that is only read: outputs, and inputs that the algorithm updates, are written.
struct TensorView {
  void* data = nullptr;
  ScalarType dtype = ScalarType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

struct EngineOptions {
  /// Directory of the kernel cache; empty: ASTATIDE_CACHE_DIR, XDG_CACHE_HOME/astatide or ~/.cache/astatide.
  std::string cache_directory;
  bool use_disk_cache = true;
  int threads = 0;  // of the CPU backend; 0: ASTATIDE_THREADS, or all cores
  /// The most bytes that the cache holds before it lets go of what was used least recently; none: ASTATIDE_CACHE_LIMIT,
  /// or 1 GiB.
  std::optional<std::uint64_t> cache_limit{};
  /// File of the schedules that `tune` found, which are taken where none is named; empty: tuning.json in the directory
  /// of the kernel cache, if the disk is used.
  std::string tuning_store{};
};

struct BuildOptions {
  Device device;
  ScalarType dtype = ScalarType::f32;
  /// Extents that the schedule's tiles cover whole must be here (D, Dv); others are run-time values and may be left
  /// out.
  std::map<std::string, std::int64_t> sizes;
  /// Called for each stage of a compilation that is done; with a hook, what is kept in memory is not looked at.
  TraceHook trace;
};

struct LaunchArguments {
  /// Every input and every output by name. All tensors of one algorithm agree in their extents. Indices that are read
  /// from an input of integers must be inside the dimension that they index: checked on the CPU, the caller's promise
  /// on a GPU without `check_indices`.
  std::map<std::string, TensorView> tensors;
  /// Scalars that differ from their defaults.
  std::map<std::string, double> scalars;
  /// Extents that no shape shows, such as those that occur only in an expression. Others may be given and must agree.
  std::map<std::string, std::int64_t> extents;
  /// CUstream of the caller, null for the default stream of the current context; unused on the CPU.
  void* stream = nullptr;
  /// Device memory of workspace_bytes() for scratch tensors, which no other launch uses until this one is done; null:
  /// the executable keeps its own, one for each stream. Growing it waits for the stream, so a launch that is captured
  /// into a graph brings its own.
  void* workspace = nullptr;
  /// Of the workspace, where a launch is to refuse one that is too small.
  std::optional<std::int64_t> workspace_bytes = std::nullopt;
  /// Of a schedule with mask_map, with a workspace of the caller: it still holds the map that an earlier launch has
  /// made there for the same shapes, and what conditions read has not changed since, so no map is made.
  bool mask_map_is_current = false;
  /// Looks at every place of such indices, however many, before anything is launched: pages that a tensor has not got,
  /// items that are longer than their extent or less than nothing, inputs that are not as monotone as they say. On a
  /// GPU the inputs of integers are copied to the host for it, which waits for the stream.
  bool check_indices = false;
};

/// What an engine and what came out of it did so far: kernels that NVRTC or LLVM compiled, that the disk had, that
/// memory had, and kernels that were launched.
struct Counters {
  std::uint64_t compiles = 0, disk_hits = 0, memory_hits = 0, launches = 0;
};

/// A build to make ahead of its first use.
struct PrepareRequest {
  /// As in BuildOptions; without a schedule every extent that schedules give ranges of.
  std::map<std::string, std::int64_t> sizes;
  ScalarType dtype = ScalarType::f32;
  /// None: the one that `choose` gives for a device of this machine, else the shipped one that serves the target, the
  /// type and the sizes.
  std::optional<NamedSchedule> schedule;
};

struct PrepareProgress {
  std::size_t done = 0, total = 0;  // of the builds that differ
  std::string what;                 // "causal_gqa for sm_90a under sm90/flash3, bf16, B=1,D=64,.."
  std::string cache;                // as in BuildReport; "failed"
  double milliseconds = 0;
};

struct PrepareOptions {
  /// A device of this machine: the engine keeps what is built for it, and a later build() finds it in memory.
  Device device;
  /// Or the name of a target for machines with such a device ("sm_90a"): what is built goes to the cache on disk. Needs
  /// NVRTC, and neither driver nor device.
  std::string target;
  /// Builds at once; 0: as many as the process has processors.
  int threads = 0;
  /// Called after each build, from the thread that made it, one call at a time. What it throws ends the preparation.
  std::function<void(const PrepareProgress&)> progress;
};

/// What came of a request.
struct Prepared {
  std::string schedule;
  std::string target;
  std::string cache;  // as in BuildReport; "memory" where a request before it asks for the same code
  double lower_ms = 0, compile_ms = 0;
};

/// What one compilation gave: for people and for `explain`.
struct BuildReport {
  std::string target;     // "sm_90a", "cpu"
  std::string cache;      // "none", "disk" or "memory": where the code came from
  std::string source;     // CUDA source; empty on the CPU
  std::string log;        // of NVRTC and ptxas
  double compile_ms = 0;  // code generation: NVRTC or LLVM
  double lower_ms = 0;    // algorithm and schedule to source
};

/// A compiled algorithm under one schedule, for one device, dtype and set of known extents; any lengths. Thread-safe.
/// Copies share it.
class Executable {
 public:
  /// Puts the work into the stream and returns (CUDA), or computes (CPU). Throws UserError where shapes, dtypes or
  /// extents disagree, an extent is over a bound, a scalar is not finite, or a grid is over its limit, with the
  /// numbers; nothing is written then. On a simulated GPU an InternalError says what was found (simulate.h).
  void launch(const LaunchArguments& arguments) const;
  /// Bytes of scratch in device memory for these extents.
  std::int64_t workspace_bytes(const std::map<std::string, std::int64_t>& extents) const;
  const Algorithm& algorithm() const;
  const tile::Program& program() const;
  const BuildReport& report() const;

  /// Of a merge: the input that holds an output of all parts, by output. Empty for others.
  const std::map<std::string, std::string>& parts_of() const;

  struct State;
  explicit Executable(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// Compiles, and keeps what it compiled: in memory by everything that the code depends on, and on disk.
class Engine {
 public:
  explicit Engine(EngineOptions options = {});
  ~Engine();
  Executable build(const Algorithm& algorithm, const Schedule& schedule, const BuildOptions& options);
  /// The same under the schedule that `choose` gives. Later launches may have any lengths.
  Executable build(const Algorithm& algorithm, const BuildOptions& options);
  /// The schedule that `tune` found for the device, the type and sizes like these, if it compiles for them; else the
  /// shipped one that serves them: `dispatch` among shipped_candidates(). The sizes hold every extent that schedules
  /// give ranges of.
  NamedSchedule choose(const Algorithm& algorithm, const BuildOptions& options);
  /// What merges outputs of `algorithm` for parts of its axis (chunks of keys, a shared prefix, keys of other devices)
  /// into those of the whole; any number of parts, empty ones too. Its inputs are the outputs of all parts, part by
  /// part: merge_arguments names them. `options.dtype` is the type of the results, `parts_type` that of the parts
  /// (default: the same); one number a row is f32 in both. Merging is associative and commutative up to rounding; a
  /// part that holds no element changes nothing. Throws UserError where the outputs don't determine a part's state,
  /// with what stays open.
  Executable build_merge(const Algorithm& algorithm, const BuildOptions& options,
                         std::optional<ScalarType> parts_type = std::nullopt);
  /// Builds ahead, several at once; requests that need the same code share a build. All are tried: where some fail,
  /// what they said is thrown as one error with the shapes, when the others are done and kept. A target whose kernels
  /// the disk can't keep is a MachineError. The results are in the order of the requests.
  std::vector<Prepared> prepare(const Algorithm& algorithm, const std::vector<PrepareRequest>& requests,
                                const PrepareOptions& options = {});
  Counters counters() const;
  /// Warnings since the last call, each once: a cache directory that can't be used.
  std::vector<std::string> take_warnings();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Launch arguments that merge `parts`, outputs by name, into `outputs`. Nothing is copied: a part's tensor has the
/// strides of the others, and lies as far behind the one before it as that behind its own, like slices of one tensor.
/// Two lie so wherever they are. Throws UserError where more do not: merge those two by two. What finalize reads beside
/// (a sink) is added by the caller.
LaunchArguments merge_arguments(const Executable& merge, const std::vector<std::map<std::string, TensorView>>& parts,
                                const std::map<std::string, TensorView>& outputs);

/// A file, or the name of a shipped one ("attention", "simt/flash2"). Throws UserError with near names.
Algorithm load_algorithm(const std::string& path_or_name);
Schedule load_schedule(const std::string& path_or_name);

/// Extents that the shapes of tensors imply, some of the inputs and outputs; throws UserError where they disagree ("Sk
/// is 257 in K and 256 in V") or a tensor has another number of dimensions.
std::map<std::string, std::int64_t> extents_of(const Algorithm& algorithm,
                                               const std::map<std::string, TensorView>& tensors);

/// Shape and type of an input or output for these extents; inputs and outputs that name no type have `dtype`, outputs
/// that have no axis beyond the rows are f32. Throws UserError where an extent is missing or a product of extents is
/// over 2^63.
TensorView describe_tensor(const Executable& executable, const std::string& name,
                           const std::map<std::string, std::int64_t>& extents);

/// What schedules are checked against, and dispatched by. Throws MachineError where there is no such device.
Target target_of(const Device& device);
/// The first GPU of this machine; none without a driver, without a GPU, or where no target covers it.
std::optional<Device> find_gpu();

/// The shipped schedules, to dispatch among; schedules of one's own go in front of them.
const std::vector<NamedSchedule>& shipped_candidates();

/// Names of the shipped algorithms and schedules.
std::vector<std::string> shipped_algorithms();
std::vector<std::string> shipped_schedules();

}  // namespace astatide
