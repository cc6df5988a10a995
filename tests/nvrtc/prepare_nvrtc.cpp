// Kernels that are compiled ahead for a device that this machine has not.
#include <catch2/catch.hpp>
#include <filesystem>

#include "api/astatide.h"
#include "runtime/nvrtc.h"
#include "tests/support/messages.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// Why there is no NVRTC; empty where there is one.
std::string missing_nvrtc() {
  try {
    runtime::nvrtc();
    return {};
  } catch (const MachineError& error) {
    return error.what();
  }
}

std::vector<PrepareRequest> requests() {
  PrepareRequest request;
  request.dtype = ScalarType::bf16;
  request.schedule = NamedSchedule{"simt/flash2", load_schedule("simt/flash2")};
  std::vector<PrepareRequest> out;
  for (const std::int64_t head_dim : {32, 64}) {
    request.sizes = {{"D", head_dim}, {"Dv", head_dim}};
    out.push_back(request);
  }
  return out;
}

}  // namespace

TEST_CASE("kernels for a target are compiled into the cache without a device, several at once, and once") {
  if (const std::string missing = missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing);
  TemporaryFolder folder;
  EngineOptions options;
  options.cache_directory = (folder / "cache").string();
  PrepareOptions prepare;
  prepare.target = "sm_90a";
  prepare.threads = 2;
  const Algorithm algorithm = load_algorithm("causal_gqa");
  {
    Engine engine(options);
    for (const Prepared& prepared : engine.prepare(algorithm, requests(), prepare)) {
      CHECK(prepared.target == "sm_90a");
      CHECK(prepared.cache == "none");
      CHECK(prepared.compile_ms > 0);
    }
    CHECK(engine.counters().compiles == 2);
  }
  Engine engine(options);
  for (const Prepared& prepared : engine.prepare(algorithm, requests(), prepare)) CHECK(prepared.cache == "disk");
  CHECK(engine.counters().compiles == 0);
  CHECK(engine.counters().disk_hits == 2);
}

TEST_CASE("to prepare for a target is refused where nothing would keep the kernels") {
  if (const std::string missing = missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing);
  EngineOptions options;
  options.cache_directory = "/proc/astatide";
  PrepareOptions prepare;
  prepare.target = "sm_80";
  std::string message;
  try {
    Engine(options).prepare(load_algorithm("causal_gqa"), {requests()[0]}, prepare);
  } catch (const MachineError& error) {
    message = error.what();
  }
  CHECK(contains(message, "nothing keeps them"));
  CHECK(contains(message, "/proc/astatide"));
}
