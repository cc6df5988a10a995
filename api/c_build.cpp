#include <fmt/format.h>

#include "api/c_calls.h"
#include "api/c_dlpack.h"
#include "api/c_handles.h"
#include "astatide/version.h"

using namespace astatide;

namespace {

/// Stores a new handle: what its caller passed was looked at before.
template <class Handle, class... Values>
void store(Handle** out, Values&&... values) {
  *out = new Handle{std::forward<Values>(values)...};
}

struct Request {
  BuildOptions options;
  Algorithm algorithm;
};

Request request_of(const AstatideAlgorithm* algorithm, const AstatideBuildOptions* given) {
  const AstatideBuildOptions& own = needed_struct(given, "options");
  return {{device_of(own.device), dtype_of(own.dtype, "the options"), sizes_of(own.sizes, own.size_count, "sizes"), {}},
          needed(algorithm, "algorithm").value};
}

template <class Names, class NameOf>
const char* name_at(const Names& names, size_t n, const NameOf& name_of) {
  return n < names.size() ? name_of(names[n]).c_str() : nullptr;
}

}  // namespace

const char* astatide_version(void) { return ASTATIDE_VERSION; }

AstatideStatus astatide_algorithm_load(const char* path_or_name, AstatideAlgorithm** algorithm, AstatideError** error) {
  return guarded(error, [&] {
    needed(algorithm, "algorithm");
    store(algorithm, load_algorithm(needed_text(path_or_name, "path_or_name")));
  });
}

AstatideStatus astatide_schedule_load(const char* path_or_name, AstatideSchedule** schedule, AstatideError** error) {
  return guarded(error, [&] {
    needed(schedule, "schedule");
    store(schedule, load_schedule(needed_text(path_or_name, "path_or_name")));
  });
}

AstatideStatus astatide_algorithm_parse(const char* text, const char* file, AstatideAlgorithm** algorithm,
                                        AstatideError** error) {
  return guarded(error, [&] {
    needed(algorithm, "algorithm");
    store(algorithm, parse_algorithm(needed_text(text, "text"), needed_text(file, "file")));
  });
}

AstatideStatus astatide_schedule_parse(const char* text, const char* file, AstatideSchedule** schedule,
                                       AstatideError** error) {
  return guarded(error, [&] {
    needed(schedule, "schedule");
    store(schedule, parse_schedule(needed_text(text, "text"), needed_text(file, "file")));
  });
}

void astatide_algorithm_destroy(AstatideAlgorithm* algorithm) { delete algorithm; }
void astatide_schedule_destroy(AstatideSchedule* schedule) { delete schedule; }

const char* astatide_algorithm_name(const AstatideAlgorithm* algorithm, int which, size_t n) {
  if (algorithm == nullptr) return nullptr;
  const Algorithm& own = algorithm->value;
  const auto name_of = [](const auto& named) -> const std::string& { return named.name; };
  switch (which) {
    case ASTATIDE_NAMES_INPUTS:
      return name_at(own.inputs, n, name_of);
    case ASTATIDE_NAMES_OUTPUTS:
      return name_at(own.outputs, n, [](const std::string& name) -> const std::string& { return name; });
    case ASTATIDE_NAMES_EXTENTS:
      return name_at(own.extents, n, name_of);
    case ASTATIDE_NAMES_SCALARS:
      return name_at(own.scalars, n, name_of);
    default:
      return nullptr;
  }
}

AstatideStatus astatide_engine_create(const AstatideEngineOptions* options, AstatideEngine** engine,
                                      AstatideError** error) {
  return guarded(error, [&] {
    needed(engine, "engine");
    EngineOptions own;
    if (options != nullptr) {
      const AstatideEngineOptions& given = needed_struct(options, "options");
      if (given.cache_directory != nullptr) own.cache_directory = given.cache_directory;
      own.use_disk_cache = given.without_disk_cache == 0;
      own.threads = given.threads;
      if (own.threads < 0) throw UserError(fmt::format("threads is {}, the least is 0, for all cores", own.threads));
    }
    *engine = new AstatideEngine{Engine(std::move(own))};
  });
}

void astatide_engine_destroy(AstatideEngine* engine) { delete engine; }

AstatideStatus astatide_engine_counters(const AstatideEngine* engine, AstatideCounters* counters,
                                        AstatideError** error) {
  return guarded(error, [&] {
    AstatideCounters& out = needed_struct(counters, "counters");
    const Counters own = needed(engine, "engine").value.counters();
    out = {sizeof out, own.compiles, own.disk_hits, own.memory_hits, own.launches};
  });
}

AstatideStatus astatide_engine_take_warnings(AstatideEngine* engine, void (*each)(void* user, const char* warning),
                                             void* user, AstatideError** error) {
  return guarded(error, [&] {
    needed(each, "each");
    for (const std::string& warning : needed(engine, "engine").value.take_warnings()) each(user, warning.c_str());
  });
}

AstatideStatus astatide_engine_build(AstatideEngine* engine, const AstatideAlgorithm* algorithm,
                                     const AstatideSchedule* schedule, const AstatideBuildOptions* options,
                                     AstatideExecutable** executable, AstatideError** error) {
  return guarded(error, [&] {
    needed(executable, "executable");
    Engine& own = needed(engine, "engine").value;
    const Request request = request_of(algorithm, options);
    store(executable,
          schedule == nullptr ? own.build(request.algorithm, request.options)
                              : own.build(request.algorithm, schedule->value, request.options),
          request.options.device);
  });
}

AstatideStatus astatide_engine_build_merge(AstatideEngine* engine, const AstatideAlgorithm* algorithm,
                                           const AstatideBuildOptions* options, const DLDataType* parts_dtype,
                                           AstatideExecutable** executable, AstatideError** error) {
  return guarded(error, [&] {
    needed(executable, "executable");
    Engine& own = needed(engine, "engine").value;
    const Request request = request_of(algorithm, options);
    std::optional<ScalarType> parts;
    if (parts_dtype != nullptr) parts = dtype_of(*parts_dtype, "the parts");
    store(executable, own.build_merge(request.algorithm, request.options, parts), request.options.device);
  });
}

void astatide_executable_destroy(AstatideExecutable* executable) { delete executable; }

AstatideStatus astatide_executable_report(const AstatideExecutable* executable, AstatideReport* report,
                                          AstatideError** error) {
  return guarded(error, [&] {
    AstatideReport& out = needed_struct(report, "report");
    const BuildReport& own = needed(executable, "executable").value.report();
    out = {sizeof out,      own.target.c_str(), own.cache.c_str(), own.source.c_str(),
           own.log.c_str(), own.lower_ms,       own.compile_ms};
  });
}
