// The pictures of the documentation are what the cost model gives today. UPDATE_GOLDENS=1 writes them anew.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/support/run_program.h"
#include "tests/support/svg.h"
#include "tests/support/temporary_folder.h"

using namespace astatide::testing;

namespace {

void compare_picture(const std::filesystem::path& made, const std::string& name) {
  const std::string drawn = read_bytes(made);
  check_inside(parse_svg(drawn));
  const std::filesystem::path kept = std::filesystem::path(ASTATIDE_SOURCE_DIR) / "schedules" / "pictures" / name;
  if (const char* update = std::getenv("UPDATE_GOLDENS"); update && std::string(update) == "1")
    write_bytes(kept, drawn);
  INFO(name << ": UPDATE_GOLDENS=1 writes what the model gives now");
  REQUIRE(std::filesystem::exists(kept));
  CHECK(read_bytes(kept) == drawn);
}

}  // namespace

TEST_CASE("the picture of the frontier is what the command predicts") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_astatide({"frontier", "causal_gqa", "--model", "--dtype", "bf16", "--shape", "B=4,Hq=32,Hkv=8,D=128,Dv=128",
                    "--shapes", "Sk=1024..65536 x8, Sq=1|64|1024", "--schedules",
                    "simt/standard,simt/fused_row,simt/flash2,sm80/flash2,sm90/flash3,sm90/decode_gqa", "--svg",
                    (folder / "frontier.svg").string()});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  compare_picture(folder / "frontier.svg", "frontier.svg");
}

TEST_CASE("the picture of the memory wall is what the example predicts") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program(std::filesystem::path(ASTATIDE_BINARY_DIR) / "bin" / "examples" / "memory_wall",
                  {"--model", "--svg", (folder / "memory_wall.svg").string()});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  compare_picture(folder / "memory_wall.svg", "memory_wall.svg");
}
