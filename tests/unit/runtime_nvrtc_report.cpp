#include <catch2/catch.hpp>
#include <cstdlib>

#include "runtime/kernel_cache.h"
#include "runtime/nvrtc.h"
#include "tests/support/messages.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::runtime;
using astatide::testing::contains;
using astatide::testing::message_of;

namespace {

const std::vector<int> kSupported = {75, 80, 86, 89, 90};
const NvrtcVersion kVersion = {12, 4};

}  // namespace

TEST_CASE("L12: a known target gives its own cubin or PTX; a newer one gives PTX of the newest that is known") {
  const auto choose = [](const char* target, BinaryKind wanted) {
    return choose_architecture(target, wanted, kSupported, kVersion);
  };
  CHECK(choose("sm_90a", BinaryKind::cubin).architecture == "sm_90a");
  CHECK(choose("sm_90a", BinaryKind::ptx).architecture == "compute_90a");
  CHECK(choose("sm_86", BinaryKind::cubin).kind == BinaryKind::cubin);
  const ArchitectureChoice newer = choose("sm_120", BinaryKind::cubin);
  CHECK(newer.kind == BinaryKind::ptx);
  CHECK(newer.architecture == "compute_90");
  CHECK(choose("sm_87", BinaryKind::cubin).architecture == "compute_86");
}

TEST_CASE("L12: a target that this NVRTC can't serve is refused with what it can") {
  const auto choose = [](const char* target) {
    return choose_architecture(target, BinaryKind::cubin, kSupported, kVersion);
  };
  const std::string old = message_of<MachineError>([&] { choose("sm_70"); });
  CHECK(contains(old, "sm_70 is older than NVRTC 12.4 supports"));
  CHECK(contains(old, "sm_75, sm_80, sm_86, sm_89, sm_90"));
  CHECK(contains(message_of<MachineError>([&] { choose("sm_100a"); }), "NVRTC 12.4 doesn't know sm_100a"));
  for (const char* bad :
       {"", "sm_", "sm_9", "sm_90b", "90a", "sm_80a", "sm_90f", "sm_90a ", "compute_90", "sm_99999999999"}) {
    INFO(bad);
    CHECK(contains(message_of<UserError>([&] { choose(bad); }), "is no GPU architecture"));
  }
}

TEST_CASE("registers, spills and shared memory are read from the report of ptxas, a kernel each") {
  const auto report = parse_ptxas_report(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k2' for 'sm_90a'
ptxas info    : Function properties for k2
ptxas         .     336 bytes stack frame, 444 bytes spill stores, 488 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 336 bytes cumulative stack size
ptxas info    : Compile time = 35.401 ms
ptxas info    : Function properties for called_by_k2
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 256 bytes smem
)");
  REQUIRE(report.size() == 2);
  CHECK(report[0].kernel == "k");
  CHECK(report[0].registers == 10);
  CHECK(report[0].shared_bytes == 256);
  CHECK(report[0].spill_store_bytes == 0);
  CHECK(report[1].kernel == "k2");
  CHECK(report[1].registers == 32);
  CHECK(report[1].stack_bytes == 336);
  CHECK(report[1].spill_store_bytes == 444);
  CHECK(report[1].spill_load_bytes == 488);
  CHECK(parse_ptxas_report("").empty());
}

TEST_CASE("NVRTC is looked for in ASTATIDE_NVRTC alone when that is set, else in toolkits, the loader's path, wheels") {
  Environment environment;
  environment.nvrtc = "/opt/libnvrtc.so.12";
  CHECK(nvrtc_candidates(environment) == std::vector<std::string>{"/opt/libnvrtc.so.12"});
  environment = {};
  environment.cuda_home = "/nowhere/cuda";
  environment.python_site = "/site";
  const auto candidates = nvrtc_candidates(environment);
  CHECK(candidates.front() == "/nowhere/cuda/lib64/libnvrtc.so.13");
  CHECK(std::count(candidates.begin(), candidates.end(), "libnvrtc.so.12") == 1);
  CHECK(candidates.back() == "/site/nvidia/cuda_nvrtc/lib/libnvrtc.so");
}

TEST_CASE("without NVRTC the error lists every place that was tried and the variable to set") {
  Environment environment;
  environment.nvrtc = "/nonexistent";
  const std::string message = message_of<MachineError>([&] { Nvrtc::load(environment); });
  INFO(message);
  CHECK(contains(message, "tried /nonexistent"));
  CHECK(contains(message, "ASTATIDE_NVRTC"));
  environment.nvrtc = "libm.so.6";
  CHECK(contains(message_of<MachineError>([&] { Nvrtc::load(environment); }), "lacks nvrtc"));
  astatide::testing::TemporaryFolder folder;
  environment.nvrtc = folder.path().string();
  CHECK(contains(message_of<MachineError>([&] { Nvrtc::load(environment); }), (folder / "libnvrtc.so.12").string()));
}

TEST_CASE(
    "the key of a kernel changes with its source, name, headers, options, target, output and compiler, and with "
    "nothing else") {
  const CompileRequest request{"k.cu", "source", "sm_80", BinaryKind::cubin, {"-DA"}, {{"h.cuh", "text"}}};
  const std::string key = kernel_cache_key(request, kVersion);
  CHECK(kernel_cache_key(CompileRequest(request), NvrtcVersion(kVersion)) == key);
  std::set<std::string> keys = {key, kernel_cache_key(request, {12, 5}), kernel_cache_key(request, {13, 4})};
  const auto add = [&](auto change) {
    CompileRequest changed = request;
    change(changed);
    keys.insert(kernel_cache_key(changed, kVersion));
  };
  add([](CompileRequest& r) { r.source += " "; });
  add([](CompileRequest& r) { r.name = "l.cu"; });
  add([](CompileRequest& r) { r.target = "sm_86"; });
  add([](CompileRequest& r) { r.output = BinaryKind::ptx; });
  add([](CompileRequest& r) { r.options.push_back("--use_fast_math"); });
  add([](CompileRequest& r) { r.options.clear(); });
  add([](CompileRequest& r) { r.headers[0].text += " "; });
  add([](CompileRequest& r) { r.headers[0].name = "g.cuh"; });
  add([](CompileRequest& r) { r.headers.clear(); });
  CHECK(keys.size() == 12);
}
