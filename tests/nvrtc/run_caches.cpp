// What launches that are timed find in the L2 cache, on a driver that records what is launched. Needs NVRTC, no GPU.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/fake_launch.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

struct Recorded {
  json said;
  std::string acts;  // "L" a launch, "C" 256 MB overwritten, "G" a graph launched, "[N]" a capture of N launches
};

Recorded timed(const std::vector<std::string>& words,
               const std::string& shape = "B=1,Hq=4,Hkv=2,Sq=1,Sk=4096,D=64,Dv=64") {
  const TemporaryFolder folder;
  const std::string log = (folder / "log").string();
  std::vector<std::string> all = {"run",     "attention", "--schedule", "simt/decode", "--device", "cuda",
                                  "--dtype", "f16",       "--shape",    shape,         "--json"};
  all.insert(all.end(), words.begin(), words.end());
  const ProgramResult result = run_astatide(all, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()},
                                                  {"ASTATIDE_LIBCUDA", ASTATIDE_BINARY_DIR "/fake_cuda/libcuda.so.1"},
                                                  {"ASTATIDE_FAKE_LOG", log}});
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  Recorded out{json::parse(result.out), ""};
  std::istringstream lines(read_bytes(log));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("launch ")) out.acts += "L";
    if (line.starts_with("clear ") && line.ends_with(" bytes=268435456")) out.acts += "C";
    if (line == "graph") out.acts += "G";
    if (line.starts_with("graph of ")) out.acts += "[" + line.substr(9, line.find(' ', 9) - 9) + "]";
  }
  return out;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int n = 0; n < times; ++n) out += text;
  return out;
}

}  // namespace

TEST_CASE("run: launches that are timed find the L2 cache as asked") {
  if (const std::string missing = testing::missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing);
  // A launch is two kernels. The first gives the results, the second warms up.
  const Recorded left = timed({"--repeat", "3"});
  CHECK(left.acts == repeated("LL", 5));
  CHECK(left.said.at("time_ms").at("caches") == "as_left");
  const Recorded cold = timed({"--repeat", "3", "--cold"});
  CHECK(cold.acts == "LLLL" + repeated("CLL", 3));
  CHECK(cold.said.at("time_ms").at("caches") == "cold");
  // Inputs of 1 MB are more than the cache of 64 KB: two copies, 24 launches, and the graph once to warm up.
  const Recorded rotated = timed({"--repeat", "3", "--rotate"});
  CHECK(rotated.acts == "LL" + repeated("LL", 24) + "[48]" + "GGGG");
  CHECK(rotated.said.at("time_ms").at("caches") == "rotated");
  CHECK(rotated.said.at("time_ms").at("launches") == 24);
  CHECK(rotated.said.at("warnings").empty());
  // 64 copies of a few bytes are not: said.
  const Recorded small = timed({"--repeat", "1", "--rotate"}, "B=1,Hq=1,Hkv=1,Sq=1,Sk=3,D=64,Dv=64");
  CHECK(small.said.at("time_ms").at("launches") == 64);
  REQUIRE(small.said.at("warnings").size() == 1);
  CHECK_THAT(small.said.at("warnings").at(0).get<std::string>(), Contains("57344 bytes, and the L2 cache 65536"));
}

TEST_CASE("--device names one of several GPUs, and nothing happens on another") {
  const TemporaryFolder folder;
  const std::string log = (folder / "log").string();
  const auto run_on = [&](const std::string& device) {
    return run_astatide({"run", "attention", "--device", device, "--dtype", "f16", "--shape",
                         "B=1,Hq=4,Hkv=2,Sq=1,Sk=100,D=64,Dv=64", "--json"},
                        {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()},
                         {"ASTATIDE_LIBCUDA", ASTATIDE_BINARY_DIR "/fake_cuda/libcuda.so.1"},
                         {"ASTATIDE_FAKE_DEVICES", "2"},
                         {"ASTATIDE_FAKE_CAPABILITY", "90,80"},
                         {"ASTATIDE_FAKE_LOG", log}});
  };
  const ProgramResult second = run_on("cuda:1");
  INFO(second.out << second.err);
  REQUIRE(second.code == 0);
  CHECK(json::parse(second.out)["schedule"].get<std::string>().starts_with("sm80/"));
  const std::string recorded = read_bytes(log);
  CHECK_THAT(recorded, Contains("load device=1") && !Contains("device=0") && !Contains("fault"));
  const ProgramResult third = run_on("cuda:2");
  CHECK(third.code == 2);
  CHECK_THAT(third.out, Contains("no device cuda:2: this machine has 2"));
}
