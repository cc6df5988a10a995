// The tuner on a GPU, with small spaces.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/gpu/require_gpu.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide::testing;

namespace {

constexpr const char* kGpuSpace = R"(target: sm_80
rewrite: {online: {rescale: optimistic}}
O: {tile: {i: [64, 128], j: [32, 64]}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [32, 4]}
S: {compute_at: j.o, store_in: register, mma: mma_sync}
P: {compute_at: j.o, store_in: register}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: 2}
V: {stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: 2}
)";

nlohmann::json tuned_on_gpu(const TemporaryFolder& folder, const std::string& shape) {
  write_bytes(folder / "space.yaml", kGpuSpace);
  const ProgramResult result = run_astatide(
      {"tune", "attention", "--space", (folder / "space.yaml").string(), "--shape", shape, "--dtype", "f16", "--device",
       "cuda", "--search", "exhaustive", "--json", "--output", (folder / "best.yaml").string()},
      {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.out);
}

}  // namespace

TEST_CASE("a small space is tuned on the GPU, and its winner is what run takes") {
  ASTATIDE_NEED_GPU();
  const TemporaryFolder folder;
  const std::string shape = "B=2,Hq=8,Hkv=8,Sq=1024,Sk=1024,D=64,Dv=64";
  const nlohmann::json json = tuned_on_gpu(folder, shape);
  CHECK(json.at("points").size() + json.at("illegal").get<std::size_t>() == 4);
  for (const auto& point : json.at("points")) {
    INFO(point.dump(1));
    REQUIRE(point.at("ok") == true);
    CHECK(point.at("registers") > 0);
  }
  const ProgramResult again =
      run_astatide({"run", "attention", "--shape", shape, "--dtype", "f16", "--device", "cuda", "--json"},
                   {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  INFO(again.out << again.err);
  REQUIRE(again.code == 0);
  CHECK(nlohmann::json::parse(again.out).at("schedule") == "tuned");
}

TEST_CASE("T06: the time of a short kernel is that of the device, launches one after the other") {
  ASTATIDE_NEED_GPU();
  const TemporaryFolder folder;
  const nlohmann::json json = tuned_on_gpu(folder, "B=1,Hq=32,Hkv=32,Sq=16,Sk=128,D=64,Dv=64");
  CHECK(json.at("method").get<std::string>().find("between two events") != std::string::npos);
  CHECK(json.at("winner").at("time_ms").at("median") < 0.1);
}
