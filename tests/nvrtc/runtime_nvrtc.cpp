#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "runtime/kernel_cache.h"
#include "runtime/nvrtc.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::runtime;
using astatide::testing::read_bytes;
using astatide::testing::TemporaryFolder;
using astatide::testing::write_bytes;
namespace fs = std::filesystem;

namespace {

CompileRequest scale_kernel(const std::string& target) {
  CompileRequest request;
  request.name = "scale.cu";
  request.target = target;
  request.source = R"(#include "device/half.cuh"
extern "C" __global__ void scale(float* out, const unsigned short* in, float factor, long long count) {
  __shared__ float tile[64];
  const long long i = blockIdx.x * 64ll + threadIdx.x;
  tile[threadIdx.x] = i < count ? widen(in[i]) : 0.f;
  __syncthreads();
  if (i < count) out[i] = factor * tile[threadIdx.x];
}
)";
  // Half precision without a CUDA header: the conversion is an instruction.
  request.headers = {{"device/half.cuh", R"(#pragma once
__device__ inline float widen(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
)"}};
  return request;
}

bool have_nvrtc() {
  try {
    nvrtc();
    return true;
  } catch (const MachineError&) {
    return false;
  }
}

#define ASTATIDE_NEED_NVRTC() \
  if (!have_nvrtc()) ASTATIDE_SKIP("no NVRTC on this machine")

std::string newest_base_target() { return "sm_" + std::to_string(nvrtc().supported_architectures().back()); }

}  // namespace

TEST_CASE(
    "NVRTC compiles a kernel with a header from memory to a cubin for each target that it knows, with 0 bytes "
    "spilled") {
  ASTATIDE_NEED_NVRTC();
  for (const char* target : {"sm_80", "sm_90a", "sm_100", "sm_120"}) {
    const auto& known = nvrtc().supported_architectures();
    if (std::find(known.begin(), known.end(), std::atoi(target + 3)) == known.end()) continue;
    INFO(target);
    const CompiledBinary binary = nvrtc().compile(scale_kernel(target));
    CHECK(binary.kind == BinaryKind::cubin);
    CHECK(binary.target == target);
    CHECK(binary.bytes.substr(0, 4) ==
          "\x7f"
          "ELF");
    CHECK(binary.seconds > 0);
    const auto report = parse_ptxas_report(binary.log);
    REQUIRE(report.size() == 1);
    CHECK(report[0].kernel == "scale");
    CHECK(report[0].registers > 0);
    CHECK(report[0].spill_store_bytes + report[0].spill_load_bytes == 0);
    CHECK(report[0].shared_bytes >= 256);
  }
}

TEST_CASE("PTX comes as text for the target, also where the target is newer than NVRTC knows") {
  ASTATIDE_NEED_NVRTC();
  CompileRequest request = scale_kernel("sm_80");
  if (nvrtc().supported_architectures().front() <= 80) {
    request.output = BinaryKind::ptx;
    const CompiledBinary ptx = nvrtc().compile(request);
    CHECK(ptx.target == "compute_80");
    CHECK(ptx.bytes.find(".target sm_80") != std::string::npos);
    CHECK(ptx.bytes.find('\0') == std::string::npos);
  }
  request = scale_kernel("sm_999");
  const CompiledBinary newer = nvrtc().compile(request);
  CHECK(newer.kind == BinaryKind::ptx);
  CHECK(newer.bytes.find(".target " + newest_base_target()) != std::string::npos);
}

TEST_CASE("a source that doesn't compile is an error with the compiler's log and the source") {
  ASTATIDE_NEED_NVRTC();
  CompileRequest request = scale_kernel("sm_90");
  request.source += "\nint broken(";
  try {
    nvrtc().compile(request);
    FAIL("it compiled");
  } catch (const CompileError& error) {
    CHECK(error.source_name() == "scale.cu");
    CHECK(error.source() == request.source);
    CHECK(error.log().find("scale.cu(") != std::string::npos);
    CHECK(std::string(error.what()).find("error:") != std::string::npos);
  }
}

TEST_CASE("equal requests give equal binaries") {
  ASTATIDE_NEED_NVRTC();
  CHECK(nvrtc().compile(scale_kernel("sm_90a")).bytes == nvrtc().compile(scale_kernel("sm_90a")).bytes);
}

TEST_CASE("a kernel is compiled once, then comes from memory, in another cache from disk, with its report") {
  ASTATIDE_NEED_NVRTC();
  TemporaryFolder folder;
  KernelCache first{DiskCache(folder / "cache")};
  const auto [compiled, origin] = first.compile(scale_kernel("sm_90a"));
  CHECK(origin == CacheOrigin::none);
  CHECK(read_bytes(first.folder_of(*compiled) / "kernel.cu") == scale_kernel("sm_90a").source);
  CHECK(read_bytes(first.folder_of(*compiled) / "kernel.cubin") == compiled->binary.bytes);
  CHECK(first.compile(scale_kernel("sm_90a")).second == CacheOrigin::memory);
  CHECK(first.counters().compiles == 1);
  CHECK(first.counters().memory_hits == 1);

  // Other kernels of the same name before it change nothing.
  KernelCache second{DiskCache(folder / "cache")};
  CompileRequest other = scale_kernel("sm_90a");
  other.options = {"-DOTHER"};
  second.compile(other);
  const auto [again, from] = second.compile(scale_kernel("sm_90a"));
  CHECK(from == CacheOrigin::disk);
  CHECK(second.counters().compiles == 1);
  CHECK(second.counters().disk_hits == 1);
  CHECK(again->binary.bytes == compiled->binary.bytes);
  CHECK(again->binary.target == "sm_90a");
  REQUIRE(again->resources.size() == 1);
  CHECK(again->resources[0].registers == compiled->resources[0].registers);
}

TEST_CASE("a damaged kernel on disk is compiled again, with one warning") {
  ASTATIDE_NEED_NVRTC();
  TemporaryFolder folder;
  KernelCache first{DiskCache(folder / "cache")};
  const auto [compiled, origin] = first.compile(scale_kernel("sm_90a"));
  std::string bytes = compiled->binary.bytes;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_bytes(first.folder_of(*compiled) / "kernel.cubin", bytes);
  KernelCache second{DiskCache(folder / "cache")};
  const auto [again, from] = second.compile(scale_kernel("sm_90a"));
  CHECK(from == CacheOrigin::none);
  CHECK(again->binary.bytes == compiled->binary.bytes);
  CHECK(second.disk().take_warnings().size() == 1);
  CHECK(KernelCache{DiskCache(folder / "cache")}.compile(scale_kernel("sm_90a")).second == CacheOrigin::disk);
}

TEST_CASE("without a usable disk cache kernels are compiled and kept in memory") {
  ASTATIDE_NEED_NVRTC();
  KernelCache cache{DiskCache("/proc/astatide")};
  CHECK(cache.compile(scale_kernel("sm_90a")).second == CacheOrigin::none);
  CHECK(cache.compile(scale_kernel("sm_90a")).second == CacheOrigin::memory);
  CHECK(cache.disk().take_warnings().size() == 1);
}

TEST_CASE("a target that can't be served leaves no trace on disk") {
  ASTATIDE_NEED_NVRTC();
  TemporaryFolder folder;
  KernelCache cache{DiskCache(folder / "cache")};
  CHECK_THROWS_AS(cache.compile(scale_kernel("sm_90x")), UserError);
  CHECK_THROWS_AS(cache.compile(scale_kernel("sm_10")), MachineError);
  CHECK_FALSE(fs::exists(folder / "cache"));
}

TEST_CASE("threads that ask for one kernel compile it once") {
  ASTATIDE_NEED_NVRTC();
  TemporaryFolder folder;
  KernelCache cache{DiskCache(folder / "cache")};
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (!cache.compile(scale_kernel("sm_90a")).first->binary.bytes.empty()) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 8);
  CHECK(cache.counters().compiles == 1);
  CHECK(cache.counters().memory_hits == 7);
}

TEST_CASE("16 processes on a cold cache compile a kernel once in all") {
  ASTATIDE_NEED_NVRTC();
  TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      int code = 100;
      try {
        KernelCache cache{DiskCache(folder / "cache")};
        cache.compile(scale_kernel("sm_90a"));
        code = static_cast<int>(cache.counters().compiles.load());
      } catch (...) {
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  int compiles = 0;
  for (pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) <= 1);
    compiles += WEXITSTATUS(status);
  }
  CHECK(compiles == 1);
}

TEST_CASE("NVRTC is found in a place that ASTATIDE_NVRTC names, and a CUDA_HOME that leads nowhere does no harm") {
  ASTATIDE_NEED_NVRTC();
  Environment environment = read_environment();
  environment.cuda_home = "/nonexistent";
  CHECK(Nvrtc::load(environment).version().text() == nvrtc().version().text());
  const fs::path library = nvrtc().library_path();
  if (!library.is_absolute()) return;
  environment.nvrtc = library.parent_path().string();
  CHECK(Nvrtc::load(environment).version().text() == nvrtc().version().text());
}
