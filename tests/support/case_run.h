// Whole runs of an algorithm under each schedule, on the CPU or on a GPU. The sources in tests/cases/ are built once,
// and linked into test_cases for the CPU and into test_gpu for the first GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "runtime/host_tensor.h"
#include "tests/support/skip.h"

namespace astatide::testing {

using HostTensors = std::map<std::string, runtime::HostTensor>;
using Index = std::vector<std::int64_t>;

/// Each of the two programs has its own.
Device case_device();

/// Why the cases' device is missing; empty where it is there.
std::string missing_case_device(const Device& device);

#define ASTATIDE_NEED_CASE_DEVICE()                                                                           \
  do {                                                                                                        \
    const std::string missing = ::astatide::testing::missing_case_device(::astatide::testing::case_device()); \
    if (!missing.empty()) ASTATIDE_SKIP_NO_GPU(missing);                                                      \
  } while (false)

/// The engine of this process, with no cache on disk.
Engine& case_engine();

/// Shipped schedules that run on a device: on the CPU its own and one of tensor cores, on a GPU those for GPUs.
std::vector<std::string> schedules_for(const Device& device);

/// Attention as a file would say it. `steps` are definitions between the raw score S and the score A that the softmax
/// reads, such as "A[b,h,i,j] = S[b,h,i,j] where j <= i"; none: A is S.
struct AttentionText {
  std::vector<std::string> steps;
  std::string extents;  // more of them, such as "Left, Right"
  std::string inputs;   // more of them, such as "sink: [Hq]"
  std::string scalars;  // more of them, such as "cap: 1"
  std::string scale = "1/sqrt(D)";
};
Algorithm attention(const AttentionText& text = {});
/// A key is seen where the predicate holds.
Algorithm attention_where(const std::string& predicate);
/// Row i sees j <= i + Sk - Sq.
Algorithm causal_attention();
/// Row i sees j <= i.
Algorithm top_left_causal_attention();

struct Case {
  Algorithm algorithm;
  std::map<std::string, std::int64_t> extents;
  ScalarType dtype = ScalarType::f32;
  HostTensors inputs;
  std::map<std::string, double> scalars;
};

/// Runs a case under one schedule; outputs start as NaN. Inputs that are updated are among the results, and stay as
/// they are in the case. Throws as Engine::build and Executable::launch do.
HostTensors run_case(const Case& c, const std::string& schedule, const Device& device = case_device());
HostTensors run_case(const Case& c, const Schedule& schedule, const Device& device = case_device());

/// The same with what was built for the case.
HostTensors run_executable(const Case& c, const Executable& executable, const Device& device = case_device());

/// Runs a case under every schedule that takes it, and calls `check` with each result. A schedule whose bound is
/// shorter or whose tiles don't fit takes it not; one at least must. On the CPU parts of keys come from one schedule
/// of two.
void for_each_schedule(const Case& c, const std::function<void(const HostTensors& outputs)>& check,
                       const Device& device = case_device());

/// Results under every schedule that takes the case, by its name.
std::map<std::string, HostTensors> results_by_schedule(const Case& c, const Device& device = case_device());

/// As for_each_schedule, under two of the schedules, in turn with `turn`: for cases that differ in sizes that need
/// builds of their own.
void for_schedules_in_turn(const Case& c, std::size_t turn,
                           const std::function<void(const HostTensors& outputs)>& check,
                           const Device& device = case_device());

/// A dense tensor with `value(index)` everywhere, rounded to the type.
runtime::HostTensor filled(ScalarType type, const Index& shape, const std::function<double(const Index&)>& value);
runtime::HostTensor constant(ScalarType type, const Index& shape, double value);
/// Normal numbers, the same for the same seed.
runtime::HostTensor gaussian(ScalarType type, const Index& shape, std::uint64_t seed);
/// The same values under other strides: `strides` are those of the tensor that is made, which has room for them.
runtime::HostTensor with_strides(const runtime::HostTensor& tensor, const Index& strides);

/// Q = 0 and K finite, so that every visible key weighs the same, and V[j] = (j + 1) / 256 in all channels.
void fill_zero_queries_and_ramp(Case& c);
/// Q, K and V of normal numbers: those of `seed` and the two behind it.
void fill_gaussian(Case& c, std::uint64_t seed);
/// Q, K, V of these extents.
Index query_shape(const Case& c);
Index key_shape(const Case& c);
Index value_shape(const Case& c);

/// Calls `check(index, value)` for every element.
void for_each(const runtime::HostTensor& tensor, const std::function<void(const Index&, double)>& check);
/// Fails the test unless every element is `expected(index)`, within `tolerance(expected)`.
void require_values(const runtime::HostTensor& tensor, const std::function<double(const Index&)>& expected,
                    const std::function<double(double)>& tolerance);
/// Fails the test unless both hold the same bits.
void require_same_bits(const runtime::HostTensor& a, const runtime::HostTensor& b);
/// The distance of neighbouring values of a type near `value`.
double unit_in_last_place(ScalarType type, double value);

/// Tolerances: one unit in the last place of a type, and 1e-5 * max(1, |x|).
std::function<double(double)> units(ScalarType type, double count);
double lse_tolerance(double expected);

}  // namespace astatide::testing
