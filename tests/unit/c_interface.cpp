// The C interface: computes what the C++ API does, and refuses what is wrong with the same texts.
#include "api/astatide_c.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "api/astatide.h"
#include "api/c_calls.h"
#include "runtime/host_tensor.h"
// A program may use exported kernels beside the library: none of the names is in both headers.
#include "runtime/stub/astatide_stub.h"
#include "tests/support/c_handles.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

// The binary interface of DLPack 1.0.
static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 &&
              offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32 &&
              offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, manager_ctx) == 48);
static_assert(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
              offsetof(DLManagedTensorVersioned, deleter) == 16 && offsetof(DLManagedTensorVersioned, flags) == 24 &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

#if ASTATIDE_WITH_CPU

namespace {

/// Attention on two heads, three rows and five keys, with room for what tests make wrong.
struct CArguments {
  std::vector<float> q = std::vector<float>(48, 1), k = std::vector<float>(80, 1), v = std::vector<float>(80, 2),
                     o = std::vector<float>(48, 7), l = std::vector<float>(6, 7);
  std::int64_t rows[4] = {1, 2, 3, 8}, keys[4] = {1, 2, 5, 8}, dense_rows[4] = {48, 24, 8, 1};
  DLTensor tensors[5] = {dense(q, 4, rows), dense(k, 4, keys), dense(v, 4, keys), dense(o, 4, rows), dense(l, 3, rows)};
  DLManagedTensorVersioned managed{};
  AstatideTensor named[5] = {{"Q", &tensors[0], nullptr},
                             {"K", &tensors[1], nullptr},
                             {"V", &tensors[2], nullptr},
                             {"O", &tensors[3], nullptr},
                             {"L", &tensors[4], nullptr}};
  AstatideScalar scalars[2] = {{"scale", 1}, {"scale", 2}};
  AstatideSize extents[2] = {{"Sk", 5}, {"Sk", 5}};
  AstatideLaunch launch{};

  CArguments() {
    launch.struct_size = sizeof launch;
    launch.tensors = named;
    launch.tensor_count = 5;
  }
  CArguments(const CArguments&) = delete;

  static DLTensor dense(std::vector<float>& data, int ndim, std::int64_t* shape) {
    return {data.data(), {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, shape, nullptr, 0};
  }
  bool untouched() const { return o == std::vector<float>(o.size(), 7) && l == std::vector<float>(l.size(), 7); }
};

CExecutable build_attention(const char* schedule = "cpu/flash2") {
  static CEngine engine;
  return engine.build(load_c<AstatideAlgorithm>("attention"), load_c<AstatideSchedule>(schedule), {kDLCPU, 0},
                      {kDLFloat, 32, 1}, {{"D", 8}, {"Dv", 8}});
}

/// What a launch says to arguments that `change` makes wrong; it writes nothing.
std::string c_refusal(const std::function<void(CArguments&)>& change, const char* schedule = "cpu/flash2") {
  CArguments arguments;
  change(arguments);
  const CExecutable run = build_attention(schedule);
  AstatideError* error = nullptr;
  const AstatideStatus status = astatide_executable_launch(run.get(), &arguments.launch, &error);
  CHECK(status == ASTATIDE_STATUS_USER);
  CHECK(astatide_error_status(error) == status);
  CHECK(arguments.untouched());
  return taken_text(error);
}

/// The text of a call that fails.
template <class... Parameters, class... Arguments>
std::string error_of(AstatideStatus status, AstatideStatus (*call)(Parameters...), const Arguments&... arguments) {
  AstatideError* error = nullptr;
  CHECK(call(arguments..., &error) == status);
  return taken_text(error);
}

}  // namespace

TEST_CASE("a launch through C computes the bits of one through C++, in every type") {
  for (const ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16}) {
    INFO(name_of(type));
    Case c{attention(), {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 37}, {"Sk", 70}, {"D", 24}, {"Dv", 40}}, type, {}, {}};
    c.inputs = {{"Q", gaussian(type, {2, 4, 37, 24}, 1)},
                {"K", gaussian(type, {2, 2, 70, 24}, 2)},
                {"V", gaussian(type, {2, 2, 70, 40}, 3)}};
    const HostTensors wanted = run_case(c, "cpu/flash2", Device::cpu());

    CEngine engine;
    const CHandle<AstatideAlgorithm> algorithm = parse_c<AstatideAlgorithm>(print_algorithm(c.algorithm), "case.yaml");
    const CExecutable run = engine.build(algorithm, load_c<AstatideSchedule>("cpu/flash2"), {kDLCPU, 0}, dl_type(type),
                                         {{"D", 24}, {"Dv", 40}});
    std::vector<AstatideSize> extents;
    for (const auto& [name, value] : c.extents) extents.push_back({name.c_str(), value});
    HostTensors tensors = c.inputs;
    for (const char* output : {"O", "L"}) {
      AstatideShape shape{};
      shape.struct_size = sizeof shape;
      CHECK(astatide_executable_shape(run.get(), output, extents.data(), extents.size(), &shape, nullptr) ==
            ASTATIDE_STATUS_OK);
      CHECK(std::vector(shape.shape, shape.shape + shape.ndim) == wanted.at(output).shape);
      CHECK(shape.dtype.bits == 8 * size_in_bytes(wanted.at(output).dtype));
      tensors.emplace(output, runtime::zeros(wanted.at(output).dtype, wanted.at(output).shape));
    }
    CTensors arguments(tensors);
    AstatideLaunch launch = arguments.launch();
    AstatideError* error = nullptr;
    CHECK(astatide_executable_launch(run.get(), &launch, &error) == ASTATIDE_STATUS_OK);
    CHECK(taken_text(error).empty());
    for (const char* output : {"O", "L"}) CHECK(*tensors.at(output).data == *wanted.at(output).data);
  }
}

TEST_CASE("integers of both sizes say how long items are, and places that are not there are refused") {
  for (const ScalarType type : {ScalarType::i32, ScalarType::i64}) {
    INFO(name_of(type));
    const std::string text =
        "algorithm: padded\nextents: [B, H, Sq, Sk, D]\ninputs: {Q: [B, H, Sq, D], K: [B, H, Sk, D], V: [B, H, Sk, "
        "D],\n"
        "  length: {dims: [B], dtype: " +
        std::string(name_of(type)) +
        "}}\naxes: {j: \"length[b] <= Sk\"}\ndefine:\n  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d])\n"
        "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\noutputs: [O]\n";
    const CEngine engine;
    const CExecutable run =
        engine.build(parse_c<AstatideAlgorithm>(text, "padded.yaml"), load_c<AstatideSchedule>("cpu/flash2"),
                     {kDLCPU, 0}, {kDLFloat, 32, 1}, {{"D", 8}});
    const Index shape = {2, 1, 9, 8};
    HostTensors tensors{{"Q", constant(ScalarType::f32, shape, 0)},
                        {"K", constant(ScalarType::f32, shape, 1)},
                        {"V", filled(ScalarType::f32, shape, [](const Index& at) { return double(at[2]); })},
                        {"length", filled(type, {2}, [](const Index& at) { return at[0] == 0 ? 3.0 : 9.0; })},
                        {"O", constant(ScalarType::f32, shape, 7)}};
    const CTensors arguments(tensors);
    const AstatideLaunch launch = arguments.launch();
    CHECK(astatide_executable_launch(run.get(), &launch, nullptr) == ASTATIDE_STATUS_OK);
    // Means of the keys 0 to 2 and 0 to 8.
    CHECK(runtime::get(tensors.at("O"), Index{0, 0, 3, 2}) == Approx(1));
    CHECK(runtime::get(tensors.at("O"), Index{1, 0, 0, 0}) == Approx(4));
    runtime::set(tensors.at("length"), Index{1}, 10);
    CHECK_THAT(error_of(ASTATIDE_STATUS_USER, astatide_executable_launch, run.get(), &launch),
               Contains("axis j is length[b] = 10 long at b = 1, at most 9"));
  }
}

TEST_CASE("strides, offsets in bytes, pinned memory and versioned tensors are taken as they are") {
  CArguments plain, other;
  for (std::size_t n = 0; n < plain.v.size(); ++n) plain.v[n] = static_cast<float>(n % 8 * 3 + n / 8);
  // V backwards along its keys, one number behind the beginning of its memory.
  std::vector<float> memory(81);
  for (std::size_t n = 0; n < 80; ++n) memory[1 + n / 40 * 40 + (4 - n % 40 / 8) * 8 + n % 8] = plain.v[n];
  std::int64_t strides[4] = {80, 40, -8, 1};
  other.tensors[2].data = memory.data();
  other.tensors[2].strides = strides;
  other.tensors[2].byte_offset = 33 * sizeof(float);
  other.tensors[1].device.device_type = kDLCUDAHost;
  other.managed = {{DLPACK_MAJOR_VERSION, 7}, nullptr, nullptr, DLPACK_FLAG_BITMASK_READ_ONLY, other.tensors[0]};
  other.named[0] = {"Q", nullptr, &other.managed};  // an input may be read-only
  other.launch.scalars = other.scalars;
  other.launch.scalar_count = 1;
  plain.launch.scalars = plain.scalars;
  plain.launch.scalar_count = 1;
  const CExecutable run = build_attention();
  REQUIRE(astatide_executable_launch(run.get(), &plain.launch, nullptr) == ASTATIDE_STATUS_OK);
  REQUIRE(astatide_executable_launch(run.get(), &other.launch, nullptr) == ASTATIDE_STATUS_OK);
  CHECK(!plain.untouched());
  CHECK(plain.o == other.o);
}

TEST_CASE("fields of DLPack that no launch can take are refused, with the tensor and the value") {
  const auto k = [](const std::function<void(DLTensor&)>& change) {
    return c_refusal([&](CArguments& a) { change(a.tensors[1]); });
  };
  CHECK_THAT(k([](DLTensor& t) {
               t.device = {kDLCUDA, 1};
             }),
             Contains("K lies on kDLCUDA:1, the executable was built for the CPU") && Contains("note: kDLCPU and"));
  CHECK_THAT(k([](DLTensor& t) {
               t.device = {static_cast<DLDeviceType>(99), 0};
             }),
             Contains("K lies on device type 99:0"));
  CHECK_THAT(k([](DLTensor& t) { t.dtype.bits = 16; }), Contains("K is f16, the kernel was built for f32"));
  CHECK_THAT(k([](DLTensor& t) {
               t.dtype = {kDLComplex, 64, 1};
             }),
             Contains("elements of K are of DLPack's type code 5 with 64 bits and 1 lanes, which no tensor is"));
  CHECK_THAT(k([](DLTensor& t) { t.dtype.lanes = 4; }), Contains("32 bits and 4 lanes"));
  CHECK_THAT(k([](DLTensor& t) { t.ndim = -1; }), Contains("K has -1 dimensions, a tensor has 0 to 32"));
  CHECK_THAT(k([](DLTensor& t) { t.ndim = 1 << 30; }), Contains("K has 1073741824 dimensions"));
  CHECK_THAT(k([](DLTensor& t) { t.ndim = 3; }), Contains("K has 3 dimensions") && Contains("K[B, Hkv, Sk, D]"));
  CHECK_THAT(k([](DLTensor& t) { t.shape = nullptr; }), Contains("K has 4 dimensions, and its shape is NULL"));
  CHECK_THAT(k([](DLTensor& t) { t.data = nullptr; }), Contains("K has no memory"));
  CHECK_THAT(k([](DLTensor& t) { t.data = nullptr, t.byte_offset = 64; }), Contains("K has no memory"));
  CHECK_THAT(k([](DLTensor& t) { t.byte_offset = UINT64_MAX; }),
             Contains("K begins 18446744073709551615 bytes behind"));
  CHECK_THAT(k([](DLTensor& t) { t.byte_offset = 2; }), Contains("the address of K is no multiple of 4"));

  std::int64_t negative[4] = {1, 2, -5, 8}, broadcast[4] = {48, 24, 0, 1}, far[4] = {48, 24, INT64_MIN, 1};
  CHECK_THAT(k([&](DLTensor& t) { t.shape = negative; }), Contains("-5"));
  CHECK_THAT(c_refusal([&](CArguments& a) { a.tensors[3].strides = broadcast; }),
             Contains("O is an output and has stride 0 over the 3 elements of dimension 3"));
  CHECK_THAT(c_refusal([&](CArguments& a) { a.tensors[0].strides = far; }), Contains("reaches past 2^63 bytes"));

  const auto managed = [](const std::function<void(CArguments&)>& change) {
    return c_refusal([&](CArguments& a) {
      a.managed = {{DLPACK_MAJOR_VERSION, 0}, nullptr, nullptr, 0, a.tensors[3]};
      a.named[3] = {"O", nullptr, &a.managed};
      change(a);
    });
  };
  CHECK_THAT(managed([](CArguments& a) { a.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY; }),
             Contains("O is an output, and its memory is read-only"));
  CHECK_THAT(managed([](CArguments& a) { a.managed.version.major = 2; }),
             Contains("O is a tensor of DLPack 2.0, this library reads version 1"));
  CHECK_THAT(managed([](CArguments& a) { a.named[3].tensor = &a.tensors[3]; }),
             Contains("O has both tensor and managed"));
  CHECK_THAT(managed([](CArguments& a) { a.named[3].managed = nullptr; }),
             Contains("O has neither tensor nor managed"));
}

TEST_CASE("arguments that are missing, there twice or unknown are refused, all at once") {
  CHECK_THAT(c_refusal([](CArguments& a) { a.launch.tensor_count = 4; }), Contains("output L[B, Hq, Sq] is missing"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.named[1].name = "Q"; }), Contains("tensors has Q twice"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.named[1].name = "W"; }), Contains("no tensor W"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.named[1].name = nullptr; }), Contains("tensors[1] has no name"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.launch.tensors = nullptr; }), Contains("tensors is NULL"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.launch.scalars = a.scalars, a.launch.scalar_count = 2; }),
             Contains("scalars has scale twice"));
  CHECK_THAT(c_refusal([](CArguments& a) {
               a.scalars[0].value = std::numeric_limits<double>::infinity();
               a.launch.scalars = a.scalars, a.launch.scalar_count = 1;
             }),
             Contains("scale"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.launch.extents = a.extents, a.launch.extent_count = 2; }),
             Contains("extents has Sk twice"));
  CHECK_THAT(c_refusal([](CArguments& a) {
               a.extents[0].value = 6;
               a.launch.extents = a.extents, a.launch.extent_count = 1;
             }),
             Contains("Sk is"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.launch.scalar_count = 1; }), Contains("scalars is NULL"));
  CHECK_THAT(c_refusal([](CArguments& a) { a.launch.struct_size -= 8; }),
             Contains("launch says struct_size " + std::to_string(sizeof(AstatideLaunch) - 8)));
  const std::string both = c_refusal([](CArguments& a) {
    a.tensors[0].device.device_type = kDLMetal;
    a.tensors[2].ndim = -3;
  });
  CHECK_THAT(both, Contains("Q lies on kDLMetal:0") && Contains("V has -3 dimensions"));
}

TEST_CASE("a workspace is as large and as aligned as it has to be") {
  const CExecutable run = build_attention("cpu/standard");
  const std::vector<AstatideSize> extents{{"B", 1}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 3}, {"Sk", 5}};
  std::int64_t bytes = 0;
  CHECK(astatide_executable_workspace_bytes(run.get(), extents.data(), extents.size(), &bytes, nullptr) ==
        ASTATIDE_STATUS_OK);
  CHECK(bytes == 512);  // S and P
  alignas(ASTATIDE_WORKSPACE_ALIGNMENT) static std::byte memory[1024];
  const auto with = [&](void* workspace, std::int64_t size) {
    return [=](CArguments& a) { a.launch.workspace = workspace, a.launch.workspace_bytes = size; };
  };
  CHECK_THAT(c_refusal(with(memory, bytes - 1), "cpu/standard"),
             Contains("the workspace has 511 bytes, 512 are needed"));
  CHECK_THAT(c_refusal(with(memory + 16, bytes), "cpu/standard"), Contains("wanted is a multiple of 256 bytes"));
  CHECK_THAT(c_refusal(with(nullptr, bytes), "cpu/standard"), Contains("workspace is NULL, and has 512 bytes"));
  CArguments arguments;
  with(memory, bytes)(arguments);
  CHECK(astatide_executable_launch(run.get(), &arguments.launch, nullptr) == ASTATIDE_STATUS_OK);
  CHECK(!arguments.untouched());
}

TEST_CASE("an error has the text, the place and the notes of the C++ exception") {
  const std::string text =
      "algorithm: a\nextents: [N]\ninputs: {X: [N]}\ndefine:\n  - Y[i] = X[i] + Z[i]\noutputs: [Y]\n";
  std::string wanted;
  Diagnostic problem;
  try {
    parse_algorithm(text, "a.yaml");
  } catch (const UserError& error) {
    wanted = error.what();
    problem = error.diagnostics().front();
  }
  AstatideAlgorithm* algorithm = nullptr;
  AstatideError* error = nullptr;
  CHECK(astatide_algorithm_parse(text.c_str(), "a.yaml", &algorithm, &error) == ASTATIDE_STATUS_USER);
  CHECK(algorithm == nullptr);
  CHECK(astatide_error_text(error) == wanted);
  CHECK_THAT(wanted, Contains("a.yaml:5:"));
  REQUIRE(astatide_error_problem_count(error) > 0);
  AstatideProblem own{};
  CHECK(astatide_error_problem(error, 0, &own) == ASTATIDE_STATUS_USER);  // of no size
  own.struct_size = sizeof own;
  CHECK(astatide_error_problem(error, 999, &own) == ASTATIDE_STATUS_USER);
  REQUIRE(astatide_error_problem(error, 0, &own) == ASTATIDE_STATUS_OK);
  CHECK(own.file == problem.where.file);
  CHECK(own.line == problem.where.line);
  CHECK(own.column == problem.where.column);
  CHECK(own.message == problem.message);
  CHECK(own.notes == join(problem.notes, "\n"));
  astatide_error_destroy(error);
  // A later success leaves no error behind.
  CHECK(astatide_algorithm_load("attention", &algorithm, &error) == ASTATIDE_STATUS_OK);
  CHECK(error == nullptr);
  astatide_algorithm_destroy(algorithm);
}

TEST_CASE("no exception leaves a call, whatever it is") {
  const auto said = [](AstatideStatus wanted, const std::function<void()>& act) {
    AstatideError* error = nullptr;
    CHECK(guarded(&error, act) == wanted);
    CHECK(guarded(nullptr, act) == wanted);
    CHECK(astatide_error_status(error) == wanted);
    return taken_text(error);
  };
  CHECK(said(ASTATIDE_STATUS_USER, [] { throw UserError("wrong", {"right"}); }) == "error: wrong\nnote: right");
  CHECK(said(ASTATIDE_STATUS_MACHINE, [] { throw MachineError("missing"); }) == "error: missing");
  CHECK(said(ASTATIDE_STATUS_INTERNAL, [] { throw InternalError("odd"); }) == "internal error: odd");
  CHECK(said(ASTATIDE_STATUS_INTERNAL, [] { throw std::runtime_error("odd"); }) == "odd");
  CHECK(said(ASTATIDE_STATUS_INTERNAL, [] { throw 5; }) == "an exception of no known type");
  CHECK(said(ASTATIDE_STATUS_MACHINE, [] { throw std::bad_alloc(); }) == "out of memory");
  CHECK_THAT(said(ASTATIDE_STATUS_MACHINE,
                  [] { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); }),
             Contains("error: "));
}

TEST_CASE("NULL is refused with the argument's name, or is nothing") {
  const AstatideStatus user = ASTATIDE_STATUS_USER;
  CEngine engine;
  const CExecutable run = build_attention();
  AstatideAlgorithm* algorithm = nullptr;
  AstatideSchedule* schedule = nullptr;
  AstatideExecutable* executable = nullptr;
  AstatideAlgorithm* no_algorithm = nullptr;
  AstatideEngine* no_engine = nullptr;
  AstatideExecutable* none = nullptr;
  const char* no_text = nullptr;
  AstatideBuildOptions options{};
  options.struct_size = sizeof options;
  options.device = {kDLCPU, 0};
  options.dtype = {kDLFloat, 32, 1};
  CArguments a;
  CHECK(error_of(user, astatide_algorithm_load, no_text, &algorithm) == "error: path_or_name is NULL");
  CHECK(error_of(user, astatide_algorithm_load, "attention", (AstatideAlgorithm**)nullptr) ==
        "error: algorithm is NULL");
  CHECK(error_of(user, astatide_schedule_load, no_text, &schedule) == "error: path_or_name is NULL");
  CHECK(error_of(user, astatide_algorithm_parse, no_text, "a", &algorithm) == "error: text is NULL");
  CHECK(error_of(user, astatide_schedule_parse, "a", no_text, &schedule) == "error: file is NULL");
  CHECK(error_of(user, astatide_engine_create, (AstatideEngineOptions*)nullptr, (AstatideEngine**)nullptr) ==
        "error: engine is NULL");
  CHECK(error_of(user, astatide_engine_counters, engine.get(), (AstatideCounters*)nullptr) ==
        "error: counters is NULL");
  CHECK(error_of(user, astatide_engine_take_warnings, engine.get(), (void (*)(void*, const char*)) nullptr,
                 (void*)nullptr) == "error: each is NULL");
  const auto built = [&](AstatideEngine* with, AstatideAlgorithm* of, const AstatideBuildOptions* how,
                         AstatideExecutable** out) {
    return error_of(user, astatide_engine_build, with, of, (AstatideSchedule*)nullptr, how, out);
  };
  const CHandle<AstatideAlgorithm> attention = load_c<AstatideAlgorithm>("attention");
  CHECK(built(no_engine, attention.get(), &options, &executable) == "error: engine is NULL");
  CHECK(built(engine.get(), no_algorithm, &options, &executable) == "error: algorithm is NULL");
  CHECK(built(engine.get(), attention.get(), nullptr, &executable) == "error: options is NULL");
  CHECK(built(engine.get(), attention.get(), &options, nullptr) == "error: executable is NULL");
  options.size_count = 1;
  CHECK_THAT(built(engine.get(), attention.get(), &options, &executable), Contains("sizes is NULL"));
  options.size_count = 0;
  options.dtype = {kDLInt, 32, 1};
  CHECK_THAT(built(engine.get(), attention.get(), &options, &executable), Contains("i32 is no type to compute with"));
  options.dtype = {};
  CHECK_THAT(built(engine.get(), attention.get(), &options, &executable), Contains("the options are of DLPack's type"));
  options.device = {kDLROCM, 2};
  CHECK_THAT(built(engine.get(), attention.get(), &options, &executable), Contains("nothing is built for kDLROCM:2"));
  CHECK(error_of(user, astatide_executable_launch, none, &a.launch) == "error: executable is NULL");
  CHECK(error_of(user, astatide_executable_launch, run.get(), (AstatideLaunch*)nullptr) == "error: launch is NULL");
  CHECK(executable == nullptr);

  astatide_error_destroy(nullptr);
  astatide_algorithm_destroy(nullptr);
  astatide_schedule_destroy(nullptr);
  astatide_engine_destroy(nullptr);
  astatide_executable_destroy(nullptr);
  CHECK(astatide_error_text(nullptr) == std::string());
  CHECK(astatide_error_status(nullptr) == ASTATIDE_STATUS_OK);
  CHECK(astatide_error_problem_count(nullptr) == 0);
  CHECK(astatide_algorithm_name(nullptr, ASTATIDE_NAMES_INPUTS, 0) == nullptr);
}

TEST_CASE("an algorithm tells the names that it has") {
  const CHandle<AstatideAlgorithm> algorithm = load_c<AstatideAlgorithm>("attention");
  const auto names = [&](int which) {
    std::vector<std::string> out;
    while (const char* name = astatide_algorithm_name(algorithm.get(), which, out.size())) out.emplace_back(name);
    return join(out, " ");
  };
  CHECK(names(ASTATIDE_NAMES_INPUTS) == "Q K V");
  CHECK(names(ASTATIDE_NAMES_OUTPUTS) == "O L");
  CHECK(names(ASTATIDE_NAMES_EXTENTS) == "B Hq Hkv Sq Sk D Dv");
  CHECK(names(ASTATIDE_NAMES_SCALARS) == "scale");
  CHECK(names(99).empty());
}

TEST_CASE("threads share an engine and an executable, which outlives the engine") {
  auto engine = std::make_unique<CEngine>();
  const CHandle<AstatideAlgorithm> algorithm = load_c<AstatideAlgorithm>("attention");
  std::vector<CExecutable> built(6);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<CArguments>> arguments;
  for (std::size_t n = 0; n < built.size(); ++n) arguments.push_back(std::make_unique<CArguments>());
  std::vector<int> failures(built.size(), 0);
  for (std::size_t n = 0; n < built.size(); ++n)
    threads.emplace_back([&, n] {
      built[n] = engine->build(algorithm, {}, {kDLCPU, 0}, {kDLFloat, 32, 1}, {{"D", 8}, {"Dv", 8}});
      for (int i = 0; i < 20; ++i)
        failures[n] += astatide_executable_launch(built[n].get(), &arguments[n]->launch, nullptr);
    });
  for (std::thread& thread : threads) thread.join();
  AstatideCounters counters{};
  counters.struct_size = sizeof counters;
  REQUIRE(astatide_engine_counters(engine->get(), &counters, nullptr) == ASTATIDE_STATUS_OK);
  CHECK(counters.compiles == 1);
  CHECK(counters.memory_hits == built.size() - 1);
  CHECK(counters.launches == 20 * built.size());
  engine.reset();
  for (std::size_t n = 0; n < built.size(); ++n) {
    CHECK(failures[n] == 0);
    CHECK(arguments[n]->o == std::vector<float>(48, 2));
  }
  CHECK(astatide_executable_launch(built[0].get(), &arguments[0]->launch, nullptr) == ASTATIDE_STATUS_OK);
  int compiled = 0;
  for (const CExecutable& one : built) {
    AstatideReport report{};
    report.struct_size = sizeof report;
    REQUIRE(astatide_executable_report(one.get(), &report, nullptr) == ASTATIDE_STATUS_OK);
    CHECK(report.target == std::string("cpu"));
    compiled += report.cache == std::string("none");
  }
  CHECK(compiled == 1);
}

TEST_CASE("outputs of two parts are merged through C") {
  CEngine engine;
  const CHandle<AstatideAlgorithm> algorithm = load_c<AstatideAlgorithm>("attention");
  const CExecutable run = build_attention();
  // The first two keys and the last three, and all five.
  CArguments whole, parts[2];
  for (std::size_t n = 0; n < whole.k.size(); ++n) whole.k[n] = static_cast<float>(n % 7) * 0.1f;
  for (std::size_t n = 0; n < whole.v.size(); ++n) whole.v[n] = static_cast<float>(n % 11);
  std::int64_t strides[4] = {80, 40, 8, 1};
  for (int p = 0; p < 2; ++p) {
    parts[p].k = whole.k;
    parts[p].v = whole.v;
    parts[p].keys[2] = p == 0 ? 2 : 3;
    for (const int n : {1, 2}) {
      parts[p].tensors[n].data = (n == 1 ? parts[p].k : parts[p].v).data();
      parts[p].tensors[n].strides = strides;
      parts[p].tensors[n].byte_offset = p == 0 ? 0 : 2 * 8 * sizeof(float);
    }
    REQUIRE(astatide_executable_launch(run.get(), &parts[p].launch, nullptr) == ASTATIDE_STATUS_OK);
  }
  REQUIRE(astatide_executable_launch(run.get(), &whole.launch, nullptr) == ASTATIDE_STATUS_OK);

  const CExecutable merge = engine.build_merge(algorithm, {kDLCPU, 0}, {kDLFloat, 32, 1}, {{"Dv", 8}});
  CArguments merged;
  merged.launch.tensors = merged.named + 3;  // O and L
  merged.launch.tensor_count = 2;
  const AstatidePart given[2] = {{parts[0].named + 3, 2}, {parts[1].named + 3, 2}};
  AstatideError* error = nullptr;
  CHECK(astatide_executable_launch_merge(merge.get(), given, 2, &merged.launch, &error) == ASTATIDE_STATUS_OK);
  CHECK(taken_text(error).empty());
  for (std::size_t n = 0; n < whole.o.size(); ++n) CHECK(merged.o[n] == Approx(whole.o[n]).epsilon(1e-5));
  for (std::size_t n = 0; n < whole.l.size(); ++n) CHECK(merged.l[n] == Approx(whole.l[n]).epsilon(1e-5));
  CHECK_THAT(error_of(ASTATIDE_STATUS_USER, astatide_executable_launch_merge, run.get(), given, 2, &merged.launch),
             Contains("none of Engine::build_merge"));
  CHECK_THAT(error_of(ASTATIDE_STATUS_USER, astatide_executable_launch_merge, merge.get(), given, 0, &merged.launch),
             Contains("there is no part to merge"));
}

#endif
