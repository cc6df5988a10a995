// What a machine lacks, and the cache that processes share.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/nvrtc.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

using Variables = std::map<std::string, std::string>;

const std::vector<std::string>& cpu_run() {
  static const std::vector<std::string> words = {
      "run",      "attention", "--schedule", "cpu/flash2",
      "--device", "cpu",       "--shape",    "B=1,Hq=2,Hkv=2,Sq=20,Sk=30,D=16,Dv=16",
      "--check",  "--json"};
  return words;
}

/// No driver, no NVRTC.
Variables bare_machine(const TemporaryFolder& folder) {
  const std::string nowhere = (folder / "nowhere").string();
  return {
      {"ASTATIDE_CACHE_DIR", (folder / "cache").string()}, {"ASTATIDE_LIBCUDA", nowhere}, {"ASTATIDE_NVRTC", nowhere}};
}

std::size_t count_entries(const std::filesystem::path& cache) {
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache))
    entries += entry.path().filename().string().size() == 64 ? 1 : 0;
  return entries;
}

}  // namespace

TEST_CASE("L10: without driver and NVRTC the CPU runs, and every stage of the compiler prints") {
  // tile-ai/tilelang#256: a CPU run asked for the GPU's stream.
  const TemporaryFolder folder;
  const Variables bare = bare_machine(folder);
  const ProgramResult run = run_astatide(cpu_run(), bare);
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  for (const char* stage : {"algorithm", "online", "tile", "passes", "cuda", "llvm"}) {
    const ProgramResult emitted = run_astatide({"emit", "causal_gqa", "--stage", stage}, bare);
    INFO(stage << ": " << emitted.err);
    CHECK(emitted.code == 0);
    CHECK(emitted.out.size() > 100);
    CHECK(emitted.err.empty());
  }
  CHECK(run_astatide({"explain", "causal_gqa"}, bare).code == 0);
  CHECK(run_astatide({"cache", "list"}, bare).code == 0);
}

TEST_CASE("L10: a GPU that is asked for and missing is one clear error") {
  const TemporaryFolder folder;
  const Variables bare = bare_machine(folder);
  const ProgramResult run = run_astatide({"run", "attention", "--device", "cuda"}, bare);
  CHECK(run.code == 3);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, Contains("no CUDA driver") && Contains("nowhere") && Contains("--device cpu"));
  // Without a wish the CPU is taken.
  std::vector<std::string> words = cpu_run();
  words.at(5) = "auto";
  const ProgramResult automatic = run_astatide(words, bare);
  CHECK(automatic.code == 0);
  CHECK(json::parse(automatic.out).at("device") == "cpu");
}

TEST_CASE("L11: without NVRTC its stages name what was searched") {
  // pytorch/pytorch PR 162634.
  const TemporaryFolder folder;
  for (const char* stage : {"ptx", "sass"}) {
    const ProgramResult emitted = run_astatide({"emit", "attention", "--stage", stage}, bare_machine(folder));
    CHECK(emitted.code == 3);
    CHECK_THAT(emitted.err, Contains("no NVRTC") && Contains("nowhere") && Contains("ASTATIDE_NVRTC"));
  }
}

TEST_CASE("L11: half-precision kernels compile with NVRTC alone, wherever CUDA_HOME points") {
  std::string library;
  try {
    library = runtime::nvrtc().library_path();
  } catch (const MachineError& error) {
    ASTATIDE_SKIP(error.what());
  }
  const TemporaryFolder folder;
  // NVRTC is found as it was found here; there is no toolkit with headers.
  const Variables environment = {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()},
                                 {"ASTATIDE_NVRTC", library},
                                 {"CUDA_HOME", (folder / "nothing").string()},
                                 {"CUDA_PATH", (folder / "nothing").string()}};
  for (const char* dtype : {"f16", "bf16"}) {
    const ProgramResult emitted = run_astatide({"emit", "causal_gqa", "--stage", "ptx", "--dtype", dtype}, environment);
    INFO(emitted.err);
    CHECK(emitted.code == 0);
    CHECK_THAT(emitted.out, Contains(".target sm_80"));
  }
}

TEST_CASE("L06: a place for the cache that can't be used costs one warning, not the run") {
  // triton-lang/triton#518: a lock file of another user in the middle of a run.
  const TemporaryFolder folder;
  const auto warnings_with = [&](const std::string& place) {
    const ProgramResult run = run_astatide(cpu_run(), {{"ASTATIDE_CACHE_DIR", place}});
    INFO(place << "\n" << run.out << run.err);
    REQUIRE(run.code == 0);
    const json out = json::parse(run.out);
    CHECK(out.at("ok") == true);
    CHECK(out.at("cache") == "none");
    return out.at("warnings");
  };
  write_bytes(folder / "file", "not a folder");
  CHECK(warnings_with((folder / "file").string()).size() == 1);
  // Others may write there.
  std::filesystem::create_directory(folder / "open");
  REQUIRE(::chmod((folder / "open").c_str(), 0777) == 0);
  CHECK(warnings_with((folder / "open").string()).size() == 1);
  // A missing parent is made.
  CHECK(warnings_with((folder / "new/deep/cache").string()).empty());
  CHECK(std::filesystem::is_directory(folder / "new/deep/cache"));
}

TEST_CASE("L06: a variable that is empty is as one that is not set") {
  const TemporaryFolder folder;
  const ProgramResult path =
      run_astatide({"cache", "path"}, {{"ASTATIDE_CACHE_DIR", ""}, {"XDG_CACHE_HOME", (folder / "xdg").string()}});
  CHECK(path.out == (folder / "xdg/astatide").string() + "\n");
}

TEST_CASE("L03: processes that start at once on an empty cache agree, and publish one entry") {
  // flashinfer-ai/flashinfer#4062: half-written binaries were loaded.
  const TemporaryFolder folder;
  constexpr std::size_t kProcesses = 6;
  std::vector<ProgramResult> results(kProcesses);
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < kProcesses; ++n) {
    threads.emplace_back([&, n] {
      std::vector<std::string> words = cpu_run();
      words.insert(words.end(), {"--output", "O=" + (folder / ("o" + std::to_string(n) + ".npy")).string()});
      results[n] = run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t compiles = 0;
  for (std::size_t n = 0; n < kProcesses; ++n) {
    INFO(results[n].out << results[n].err);
    REQUIRE(results[n].code == 0);
    compiles += json::parse(results[n].out).at("compiles").get<std::uint64_t>();
    CHECK(read_bytes(folder / ("o" + std::to_string(n) + ".npy")) == read_bytes(folder / "o0.npy"));
  }
  CHECK(compiles == 1);
  CHECK(count_entries(folder / "cache") == 1);
}

TEST_CASE("L04, L07: equal requests share an entry, whatever the clock; a damaged one is built again") {
  // flashinfer-ai/flashinfer#4489, tile-ai/tilelang#2662.
  const TemporaryFolder folder;
  const Variables environment = {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}};
  const auto run = [&](std::vector<std::string> more = {}) {
    std::vector<std::string> words = cpu_run();
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_astatide(words, environment);
    INFO(result.out << result.err);
    REQUIRE(result.code == 0);
    return json::parse(result.out);
  };
  REQUIRE(run().at("compiles") == 1);
  // Other types, schedules and algorithms have entries of their own.
  REQUIRE(run({"--dtype", "f16"}).at("compiles") == 1);
  REQUIRE(count_entries(folder / "cache") == 2);
  // Old and new files are the same.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "cache"))
    std::filesystem::last_write_time(entry.path(),
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(99999));
  REQUIRE(run().at("compiles") == 0);
  REQUIRE(run({"--dtype", "f16"}).at("compiles") == 0);
  // Damage.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "cache")) {
    if (entry.path().extension() == ".o") std::filesystem::resize_file(entry.path(), 100);
  }
  const json mended = run();
  CHECK(mended.at("compiles") == 1);
  CHECK(mended.at("warnings").size() == 1);
  CHECK(run().at("compiles") == 0);
}

TEST_CASE("cache list, path and clear speak of the entries that runs made") {
  const TemporaryFolder folder;
  const Variables environment = {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}};
  CHECK(run_astatide({"cache", "path"}, environment).out == (folder / "cache").string() + "\n");
  CHECK(json::parse(run_astatide({"cache", "list", "--json"}, environment).out).at("entries").empty());
  REQUIRE(run_astatide(cpu_run(), environment).code == 0);
  const json list = json::parse(run_astatide({"cache", "list", "--json"}, environment).out);
  REQUIRE(list.at("entries").size() == 1);
  CHECK(list.at("entries").at(0).at("bytes") > 1000);
  CHECK(json::parse(run_astatide({"cache", "clear", "--json"}, environment).out).at("removed") == 1);
  CHECK(count_entries(folder / "cache") == 0);
}
