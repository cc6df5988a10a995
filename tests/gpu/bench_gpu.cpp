// Schedules in turns on a GPU: right against the evaluator and each other, those of tensor cores ahead.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/gpu/require_gpu.h"
#include "tests/support/run_program.h"
#include "tests/support/svg.h"
#include "tests/support/temporary_folder.h"

using namespace astatide::testing;

TEST_CASE("bench measures fusions of one algorithm on the GPU in one run") {
  ASTATIDE_NEED_GPU();
  const TemporaryFolder folder;
  const ProgramResult result = run_astatide(
      {"bench", "causal_gqa", "--schedules", "simt/standard,simt/flash2,sm80/flash2", "--dtype", "f16", "--shape",
       "B=1,Hq=8,Hkv=8,Sq=1000,Sk=1000,D=128,Dv=128", "--shape", "B=1,Hq=8,Hkv=8,Sq=4096,Sk=4096,D=128,Dv=128",
       "--device", "cuda", "--json", "--svg", (folder / "bars.svg").string()},
      {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  for (const auto& shape : json.at("shapes")) {
    REQUIRE(shape.at("rows").size() == 3);
    for (const auto& row : shape.at("rows")) CHECK(row.at("ok") == true);
    CHECK(shape.at("rows")[2].at("ratio") < 0.5);
    CHECK(shape.at("rows")[2].at("confidence") > 0.9);
  }
  const Svg svg = parse_svg(read_bytes(folder / "bars.svg"));
  check_inside(svg);
  CHECK(svg.of_class("bar").size() == 6);
}

TEST_CASE("frontier measures on the GPU that is there") {
  ASTATIDE_NEED_GPU();
  const TemporaryFolder folder;
  const ProgramResult result =
      run_astatide({"frontier", "attention", "--shape", "B=1,Hq=4,Hkv=4,D=64,Dv=64", "--shapes", "Sq=Sk=256|2048",
                    "--schedules", "simt/standard,sm80/flash2", "--json"},
                   {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json.at("measured") == true);
  CHECK(json.at("points")[1].at("winner") == "sm80/flash2");
}
