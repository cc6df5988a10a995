#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "compiler/support/diagnostic.h"
#include "runtime/context.h"
#include "runtime/driver.h"
#include "runtime/launch.h"
#include "runtime/module.h"
#include "runtime/tensor_map.h"
#include "runtime/timing.h"
#include "tests/support/messages.h"
#include "tests/support/skip.h"

using namespace astatide;
using namespace astatide::runtime;
using astatide::testing::contains;
using astatide::testing::message_of;

namespace {

DeviceFacts hopper() {
  DeviceFacts device;
  device.name = "H200";
  device.major = 9;
  device.minor = 0;
  device.threads_per_block = 1024;
  device.shared_bytes_per_block_optin = 232448;
  return device;
}

}  // namespace

TEST_CASE("a driver library that is missing is named, with the variable to set and the way without") {
  const std::string message = message_of<MachineError>([] { Driver::load("/nonexistent/libcuda.so.1"); });
  INFO(message);
  CHECK(contains(message, "/nonexistent/libcuda.so.1"));
  CHECK(contains(message, "ASTATIDE_LIBCUDA"));
  CHECK(contains(message, "--device cpu"));
}

TEST_CASE("with the driver hidden by ASTATIDE_LIBCUDA, asking for a GPU fails each time and names it") {
  REQUIRE(::setenv("ASTATIDE_LIBCUDA", "/nonexistent/libcuda.so.1", 1) == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(contains(message_of<MachineError>([] { driver(); }), "/nonexistent/libcuda.so.1"));
    CHECK(contains(message_of<MachineError>([] { Context::primary(0); }), "/nonexistent/libcuda.so.1"));
  }
  ::unsetenv("ASTATIDE_LIBCUDA");
}

TEST_CASE("a library that is no CUDA driver is refused") {
  CHECK(contains(message_of<MachineError>([] { Driver::load("libm.so.6"); }),
                 "libm.so.6 is no usable CUDA driver: it lacks cu"));
}

TEST_CASE("the toolkit's stub of the driver is told from a driver") {
  const char* stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) ASTATIDE_SKIP("no CUDA toolkit, so no stub");
  CHECK(contains(message_of<MachineError>([&] { Driver::load(stub); }), "stub, made for linking only"));
}

TEST_CASE("L12: a binary runs on devices that its target allows, and the error names both") {
  const DeviceFacts device = hopper();
  for (const char* target : {"sm_90", "sm_90a"}) CHECK_NOTHROW(check_runs_on(device, BinaryKind::cubin, target));
  for (const char* target : {"compute_80", "compute_90", "compute_90a"})
    CHECK_NOTHROW(check_runs_on(device, BinaryKind::ptx, target));
  for (const char* target : {"sm_80", "sm_89", "sm_100", "sm_120", "sm_100a"}) {
    CHECK_THROWS_AS(check_runs_on(device, BinaryKind::cubin, target), MachineError);
  }
  for (const char* target : {"compute_100", "compute_100a"}) {
    CHECK_THROWS_AS(check_runs_on(device, BinaryKind::ptx, target), MachineError);
  }
  DeviceFacts ada = device;
  ada.major = 8;
  ada.minor = 9;
  CHECK_NOTHROW(check_runs_on(ada, BinaryKind::cubin, "sm_80"));
  CHECK_THROWS_AS(check_runs_on(ada, BinaryKind::cubin, "sm_90a"), MachineError);
  CHECK_THROWS_AS(check_runs_on(ada, BinaryKind::ptx, "compute_90"), MachineError);
  const std::string message = message_of<MachineError>([&] { check_runs_on(device, BinaryKind::cubin, "sm_120"); });
  CHECK(contains(message, "sm_120 can't run on cuda:0 (H200), whose compute capability is 9.0"));
  // PTX runs on what is newer, but for that of one architecture alone.
  DeviceFacts blackwell = device;
  blackwell.ordinal = 3;
  blackwell.name = "B200";
  blackwell.major = 10;
  CHECK_NOTHROW(check_runs_on(blackwell, BinaryKind::ptx, "compute_80"));
  CHECK_THROWS_AS(check_runs_on(blackwell, BinaryKind::cubin, "sm_80"), MachineError);
  for (const auto& [kind, target] : {std::pair{BinaryKind::cubin, "sm_90a"}, {BinaryKind::ptx, "compute_90a"}}) {
    const std::string refusal = message_of<MachineError>([&, k = kind, t = target] { check_runs_on(blackwell, k, t); });
    CHECK(contains(refusal, std::string("code built for ") + target +
                                " can't run on cuda:3 (B200), whose compute capability is 10.0"));
    CHECK(contains(refusal, "build for sm_100"));
  }
}

TEST_CASE("a launch outside the device's limits is refused with every number and limit") {
  const DeviceFacts device = hopper();
  const auto check = [&](LaunchShape shape, int static_bytes = 0) {
    check_launch_shape(shape, device, "attend", static_bytes);
  };
  CHECK_NOTHROW(check({{2147483647, 65535, 65535}, {1024, 1, 1}, 232448}));
  CHECK_NOTHROW(check({{0, 1, 1}, {1, 1, 1}, 0}));
  CHECK_NOTHROW(check({{1, 1, 1}, {32, 1, 1}, 232448 - 1024}, 1024));
  CHECK(contains(message_of<UserError>([&] {
                   check({{1, 65536, 1}, {32, 1, 1}, 0});
                 }),
                 "grid y is 65536, the device allows 0 to 65535"));
  CHECK(contains(message_of<UserError>([&] { check({{2147483648, 1, 1}, {32, 1, 1}, 0}); }), "2147483648"));
  CHECK(contains(message_of<UserError>([&] { check({{-1, 1, 1}, {32, 1, 1}, 0}); }), "grid x is -1"));
  CHECK(contains(message_of<UserError>([&] {
                   check({{1, 1, 1}, {1024, 2, 1}, 0});
                 }),
                 "2048, the device allows 1 to 1024"));
  CHECK(contains(message_of<UserError>([&] { check({{1, 1, 1}, {32, 1, 1}, 232449}); }), "232449"));
  CHECK(contains(message_of<UserError>([&] {
                   check({{1, 1, 1}, {32, 1, 1}, 232448 - 1023}, 1024);
                 }),
                 "has 232448 a block"));
  try {
    check({{1, 65536, 65536}, {32, 1, 65}, -1});
    FAIL("no error");
  } catch (const UserError& error) {
    CHECK(error.diagnostics().size() == 4);
  }
}

TEST_CASE("what TMA can't copy is refused with the tensor, the number and what can, before the driver is asked") {
  const auto refusal = [](std::uint64_t address, std::vector<std::int64_t> strides, bool stored) {
    return message_of<UserError>([&] {
      encode_tensor_map({"O", address, true, {64, 8, 2}, std::move(strides), {64, 64, 1}, stored});
    });
  };
  CHECK(contains(refusal(4096, {1, 44, 512}, true),
                 "O has a stride of 44 elements = 88 bytes, tma writes strides of multiples of 16 bytes"));
  CHECK(contains(refusal(4096, {1, 44, 512}, true), "without copy: tma any strides are written"));
  CHECK(contains(refusal(4096, {1, 44, 512}, false), "tma reads strides of multiples of 16 bytes"));
  CHECK(contains(refusal(4096, {8, 64, 512}, true), "the elements of a row of O are 8 apart, tma writes neighbours"));
  CHECK(contains(refusal(4098, {1, 64, 512}, true), "O begins at 0x1002, tma writes to multiples of 16 bytes"));
  CHECK(contains(refusal(4098, {1, 64, 512}, false), "O begins at 0x1002, tma reads from multiples of 16 bytes"));
}

TEST_CASE("an argument word begins with the bytes of its value") {
  const auto starts_with = [](const ArgumentWord& word, auto value) {
    return std::memcmp(word.address(), &value, sizeof value) == 0;
  };
  CHECK(starts_with(ArgumentWord::i32(-7), std::int32_t{-7}));
  CHECK(starts_with(ArgumentWord::i64(std::int64_t{1} << 40), std::int64_t{1} << 40));
  CHECK(starts_with(ArgumentWord::f32(0.1f), 0.1f));
  CHECK(starts_with(ArgumentWord::pointer(0x123456789abcdefULL), 0x123456789abcdefULL));
}

TEST_CASE("the median of an even number of samples is the mean of the middle two") {
  CHECK(summarize_samples({3, 1, 2}).median_ms == 2);
  const Timing timing = summarize_samples({4, 1, 2, 3});
  CHECK(timing.median_ms == 2.5);
  CHECK(timing.min_ms == 1);
  CHECK(timing.samples_ms == std::vector<double>{4, 1, 2, 3});
}
