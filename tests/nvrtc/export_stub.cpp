// Exported code launches what the library launches: both run on a driver that records it. Needs NVRTC and a C compiler,
// no GPU.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "api/astatide.h"
#include "compiler/cuda/emit.h"
#include "compiler/tile/parameters.h"
#include "runtime/context.h"
#include "runtime/nvrtc.h"
#include "tests/support/exported_program.h"
#include "tests/support/skip.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

namespace {

struct ExportCase {
  std::string schedule;
  ScalarType dtype;
  int capability;
  std::string target;
  std::vector<Lengths> lengths;  // of launches; D and Dv are those of the first
};

std::vector<ExportCase> export_cases() {
  const std::vector<Lengths> rows = {{2, 6, 2, 37, 129, 64, 64}, {1, 4, 1, 300, 700, 64, 64}, {3, 2, 2, 5, 0, 64, 64}};
  const std::vector<Lengths> decode = {{2, 8, 2, 1, 1000, 64, 64}, {1, 4, 4, 1, 70, 64, 64}, {4, 4, 2, 1, 0, 64, 64}};
  return {{"simt/flash2", ScalarType::f32, 90, "sm_90a", rows},
          {"simt/standard", ScalarType::f32, 80, "sm_80", rows},
          {"simt/decode", ScalarType::f16, 90, "sm_90a", decode},
          {"sm80/flash2", ScalarType::bf16, 80, "sm_80", rows},
          {"sm80/decode", ScalarType::bf16, 80, "sm_80", decode},
          {"sm80/decode_gqa", ScalarType::bf16, 80, "sm_80", decode},
          {"sm90/flash3", ScalarType::bf16, 90, "sm_90a", rows},
          {"sm90/flash3_cluster", ScalarType::bf16, 90, "sm_90a", rows},
          {"sm90/flash3_tma_store", ScalarType::f16, 90, "sm_90a", rows},
          {"sm90/decode", ScalarType::bf16, 90, "sm_90a", decode},
          {"sm90/decode_gqa", ScalarType::bf16, 90, "sm_90a", decode}};
}

std::string fake_driver_folder() { return std::string(ASTATIDE_BINARY_DIR) + "/fake_cuda"; }

std::map<std::string, std::string> fake_driver(int capability, const std::filesystem::path& log = {},
                                               const std::string& parameters = "") {
  return {{"ASTATIDE_LIBCUDA", fake_driver_folder() + "/libcuda.so.1"},
          {"LD_LIBRARY_PATH", fake_driver_folder()},
          {"ASTATIDE_FAKE_CAPABILITY", std::to_string(capability)},
          {"ASTATIDE_FAKE_LOG", log.string()},
          {"ASTATIDE_FAKE_PARAMETERS", parameters}};
}

bool has_nvrtc() {
  try {
    runtime::nvrtc();
    return true;
  } catch (const MachineError&) {
    return false;
  }
}

#define ASTATIDE_NEED_EXPORT()                                 \
  do {                                                         \
    if (!has_nvrtc()) ASTATIDE_SKIP("no NVRTC");               \
    if (!has_c_compiler()) ASTATIDE_SKIP("no C compiler: cc"); \
  } while (false)

std::string words_of(const Lengths& lengths) {
  std::string text;
  for (const std::int64_t length : lengths) text += " " + std::to_string(length);
  return text;
}

int bytes_of(tile::Parameter::Kind kind) {
  using Kind = tile::Parameter::Kind;
  if (kind == Kind::tensor_map) return 128;
  return kind == Kind::extent || kind == Kind::scalar ? 4 : 8;
}

/// What was recorded: launches in order, maps and limits once, since the library makes none twice.
struct Record {
  std::vector<std::string> launches, clears;
  std::set<std::string> maps, allowed;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) out.push_back(part);
  return out;
}

Record read_record(const std::filesystem::path& log) {
  Record out;
  for (const std::string& line : split(read_bytes(log), '\n')) {
    if (line.starts_with("map ")) out.maps.insert(line);
    if (line.starts_with("launch ")) out.launches.push_back(line);
    if (line.starts_with("clear ")) out.clears.push_back(line);
    if (line.starts_with("allow ")) out.allowed.insert(line);
  }
  return out;
}

std::uint64_t word_of(const std::string& hex) {
  std::uint64_t word = 0;
  for (std::size_t n = hex.size(); n >= 2; n -= 2) word = word << 8 | std::stoul(hex.substr(n - 2, 2), nullptr, 16);
  return word;
}

/// The program as both sides compile it.
tile::Program program_of(const ExportCase& c) {
  const Algorithm algorithm = load_algorithm("causal_gqa");
  return compile(algorithm, load_schedule(c.schedule),
                 {*find_target(c.target), astatide::testing::extents_of(c.lengths.front()), c.dtype});
}

/// Kernels by the names that they are launched by.
std::map<std::string, std::vector<tile::Parameter>> parameters_of(const tile::Program& program) {
  std::map<std::string, std::vector<tile::Parameter>> out;
  for (const cuda::Source::KernelInfo& kernel : cuda::emit(program).kernels) out[kernel.name] = kernel.parameters;
  return out;
}

/// Takes counters out of a launch, which the library and a stub keep in different places, and gives them.
std::string without_counters(const std::string& launch,
                             const std::map<std::string, std::vector<tile::Parameter>>& kernels,
                             std::vector<std::pair<tile::Parameter::Kind, std::uint64_t>>& counters) {
  using Kind = tile::Parameter::Kind;
  const std::string name = split(launch, ' ').at(1);
  const std::vector<tile::Parameter>& parameters = kernels.at(name);
  const std::size_t begin = launch.find("parameters=") + 11;
  const std::vector<std::string> words = split(launch.substr(begin), ',');
  if (words.size() != parameters.size()) throw std::runtime_error("not the parameters of " + name + ": " + launch);
  std::string out = launch.substr(0, begin);
  for (std::size_t n = 0; n < words.size(); ++n) {
    const bool counter = parameters[n].kind == Kind::counter || parameters[n].kind == Kind::arrivals;
    if (counter) counters.emplace_back(parameters[n].kind, word_of(words[n]));
    out += "," + (counter ? std::string("counter") : words[n]);
  }
  return out;
}

}  // namespace

// The library's side, in a process of its own: a process loads one driver.
TEST_CASE("launches a case of the other tests", "[.launches_by_library]") {
  const char* asked = std::getenv("ASTATIDE_EXPORT_CASE");
  if (asked == nullptr) return;  // chosen by its file, not by the test below
  std::istringstream words(asked);
  std::string schedule, dtype;
  Lengths first{}, lengths{};
  words >> schedule >> dtype;
  for (std::int64_t& length : first) words >> length;
  for (std::int64_t& length : lengths) words >> length;
  const Algorithm algorithm = load_algorithm("causal_gqa");
  Engine engine;
  const Executable run =
      engine.build(algorithm, load_schedule(schedule),
                   {Device::cuda(0), *parse_scalar_type(dtype), astatide::testing::extents_of(first), {}});
  const runtime::Context context = runtime::Context::primary(0);
  const runtime::ScopedCurrent scope(context);
  const runtime::DriverApi& api = runtime::driver().api();
  const auto allocate = [&](std::int64_t bytes) {
    runtime::DevicePointer pointer = 0;
    api.mem_alloc(&pointer, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
    return reinterpret_cast<void*>(pointer);
  };
  LaunchArguments arguments;
  arguments.extents = astatide::testing::extents_of(lengths);
  for (const char* name : {"Q", "K", "V", "O", "L"}) {
    TensorView view = describe_tensor(run, name, arguments.extents);
    std::int64_t bytes = size_in_bytes(view.dtype);
    for (const std::int64_t extent : view.shape) bytes *= extent;
    view.data = allocate(bytes);
    arguments.tensors[name] = view;
  }
  const std::int64_t bytes = run.workspace_bytes(arguments.extents);
  arguments.workspace = bytes > 0 ? allocate(bytes) : nullptr;
  for (int n = 0; n < 2; ++n) run.launch(arguments);
}

TEST_CASE("exported code makes the maps, grids and arguments that the library makes, for any length") {
  ASTATIDE_NEED_EXPORT();
  for (const ExportCase& c : export_cases()) {
    const auto kernels = parameters_of(program_of(c));
    std::string sizes;
    for (const auto& [name, parameters] : kernels) {
      sizes += (sizes.empty() ? "" : ";") + name + "=";
      for (std::size_t n = 0; n < parameters.size(); ++n)
        sizes += (n == 0 ? "" : ",") + std::to_string(bytes_of(parameters[n].kind));
    }
    const ExportedProgram exported(c.schedule, c.dtype, {c.target}, c.lengths.front());
    for (const Lengths& lengths : c.lengths) {
      INFO(c.schedule << words_of(lengths));
      const std::filesystem::path ours = exported.data() / "library.log", theirs = exported.data() / "stub.log";
      std::filesystem::remove(ours);
      std::filesystem::remove(theirs);
      auto environment = fake_driver(c.capability, ours, sizes);
      environment["ASTATIDE_EXPORT_CASE"] =
          c.schedule + " " + std::string(name_of(c.dtype)) + words_of(c.lengths.front()) + words_of(lengths);
      const ProgramResult library = run_program("/proc/self/exe", {"[.launches_by_library]"}, environment);
      INFO(library.out << library.err);
      REQUIRE(library.code == 0);
      exported.write_zeros(lengths);
      const ProgramResult stub = exported.run(lengths, fake_driver(c.capability, theirs, sizes));
      INFO(stub.out << stub.err);
      REQUIRE(stub.code == 0);
      CHECK_THAT(stub.out, Contains("code for " + c.target));

      const Record a = read_record(ours), b = read_record(theirs);
      REQUIRE(a.launches.size() >= 2);
      CHECK(a.maps == b.maps);
      CHECK(a.allowed == b.allowed);
      REQUIRE(a.launches.size() == b.launches.size());
      std::vector<std::pair<tile::Parameter::Kind, std::uint64_t>> ignored, counters;
      for (std::size_t n = 0; n < a.launches.size(); ++n)
        CHECK(without_counters(a.launches[n], kernels, ignored) == without_counters(b.launches[n], kernels, counters));
      // Counters of the stub lie in what each launch clears first.
      if (counters.empty()) continue;
      REQUIRE(b.clears.size() == 2);
      std::uint64_t begin = 0, bytes = 0;
      REQUIRE(std::sscanf(b.clears[0].c_str(), "clear address=%lu bytes=%lu", &begin, &bytes) == 2);
      for (const auto& [kind, address] : counters) {
        CHECK(address == begin + (kind == tile::Parameter::Kind::arrivals ? 32 : 0));
        CHECK(address + 4 <= begin + bytes);
      }
    }
  }
}

TEST_CASE("exported code takes the target of the device, and says what it can't launch") {
  ASTATIDE_NEED_EXPORT();
  const Lengths lengths = {1, 4, 2, 33, 65, 64, 64};
  const ExportedProgram exported("sm80/flash2", ScalarType::f16, {"sm_80", "sm_90a"}, lengths);
  exported.write_zeros({1, 6, 4, 33, 65, 64, 64});
  const auto says = [&](const Lengths& wanted, const std::map<std::string, std::string>& environment, int code,
                        const std::string& text) {
    const ProgramResult run = exported.run(wanted, environment);
    INFO(run.out << run.err);
    CHECK(run.code == code);
    CHECK_THAT(run.out + run.err, Contains(text));
  };
  says(lengths, fake_driver(80), 0, "code for sm_80");
  says(lengths, fake_driver(86), 0, "code for sm_80");
  says(lengths, fake_driver(90), 0, "code for sm_90a");
  says(lengths, fake_driver(100), 1,
       "status 3: the device has compute capability 10.0, the kernels are built for sm_80, sm_90a");
  says({1, 6, 4, 33, 65, 64, 64}, fake_driver(90), 1, "status 5: h*Hkv/Hq maps 6 onto 4 in groups of unequal size");
  says({1, 4, 2, 33, 65, 64, 32}, fake_driver(90), 1, "status 5: Dv is 32, these kernels were exported for 64");
  says({1, -4, 2, 0, 0, 64, 64}, fake_driver(90), 1, "status 5: Hq is -4, these kernels take 0 to");
  // Of two devices the second takes the other code; nothing is loaded or launched on the first.
  const std::filesystem::path log = exported.data() / "second.log";
  auto two = fake_driver(90, log);
  two["ASTATIDE_FAKE_DEVICES"] = "2";
  two["ASTATIDE_FAKE_CAPABILITY"] = "90,80";
  const ProgramResult second = exported.run(lengths, two, 1);
  INFO(second.out << second.err);
  CHECK(second.code == 0);
  CHECK_THAT(second.out, Contains("code for sm_80"));
  const std::string recorded = read_bytes(log);
  CHECK_THAT(recorded, Contains("load device=1") && Contains("launch causal_gqa_kernel device=1"));
  CHECK_THAT(recorded, !Contains("device=0") && !Contains("fault"));
  auto bare = fake_driver(90);
  bare["ASTATIDE_FAKE_NO_CONTEXT"] = "1";
  says(lengths, bare, 1, "status 2: no CUDA context");
  const TemporaryFolder nowhere;
  write_bytes(nowhere / "libcuda.so.1", "no library");
  bare["LD_LIBRARY_PATH"] = nowhere.path().string();
  says(lengths, bare, 1, "status 1: no CUDA driver");
}

TEST_CASE("an exported header is C and C++, and says what each argument is") {
  ASTATIDE_NEED_EXPORT();
  const Lengths lengths = {1, 4, 2, 33, 65, 64, 64};
  const ExportedProgram exported("sm90/flash3", ScalarType::bf16, {}, lengths);
  const std::string header = read_bytes(exported.files() / "causal_gqa.h");
  CHECK_THAT(header, Contains("int64_t D; /* 64, no other */") && Contains("input, bf16[B, Hq, Sq, D]; TMA") &&
                         Contains("output, f32[B, Hq, Sq]") && Contains("double scale; /* default:"));
  write_bytes(exported.data() / "uses.cpp", "#include \"causal_gqa.h\"\n#include \"causal_gqa.h\"\n");
  const ProgramResult compiled =
      run_program("/usr/bin/env", {"c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
                                   "-I" + exported.files().string(), (exported.data() / "uses.cpp").string()});
  INFO(compiled.err);
  CHECK(compiled.code == 0);
}
