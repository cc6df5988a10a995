#include "compiler/schedule/schedule.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

// Any text is a schedule or a UserError; a schedule is printed and read again as the same, and checking it against an
// algorithm ends in a verdict.

namespace {

using namespace astatide;

const Algorithm& algorithm() {
  static const Algorithm value = parse_algorithm(R"(
algorithm: fuzzed
extents: [B, H, Sq, Sk, D]
inputs: {Q: [B, H, Sq, D], K: [B, H, Sk, D], V: [B, H, Sk, D]}
define:
  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d])
  - A[b,h,i,j] = S[b,h,i,j] where j <= i
  - P[b,h,i,j] = softmax(j, A[b,h,i,j])
  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])
  - L[b,h,i] = logsumexp(j, A[b,h,i,j])
outputs: [O, L]
)",
                                                 "fuzzed.yaml");
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Schedule schedule = parse_schedule(text, "fuzzed.yaml");
    const std::string printed = print_schedule(schedule);
    const Schedule again = parse_schedule(printed, "printed.yaml");
    if (!equal(schedule, again) || print_schedule(again) != printed) std::abort();
    if (print_schedule_as_cpp(schedule).empty()) std::abort();
    check_legal(schedule, algorithm(), *find_target(schedule.target), {{"D", 64}}, ScalarType::f32);
  } catch (const UserError&) {
  }
  return 0;
}
