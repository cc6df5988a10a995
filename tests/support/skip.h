// Tests that need what a machine may lack end early with a reason; ctest shows a file all of whose tests did so as
// skipped. Where the environment demands the thing (ASTATIDE_REQUIRE_GPU=1), the same call fails the test.
#pragma once

#include <string_view>

namespace astatide::testing {

/// Records that the running test is skipped and prints why. Use it through ASTATIDE_SKIP.
void skip_test(std::string_view reason);

/// As skip_test, but fails the running test when ASTATIDE_REQUIRE_GPU=1. Use it through ASTATIDE_SKIP_NO_GPU.
void skip_test_without_gpu(std::string_view reason);

}  // namespace astatide::testing

#define ASTATIDE_SKIP(reason)               \
  do {                                      \
    ::astatide::testing::skip_test(reason); \
    return;                                 \
  } while (false)

#define ASTATIDE_SKIP_NO_GPU(reason)                    \
  do {                                                  \
    ::astatide::testing::skip_test_without_gpu(reason); \
    return;                                             \
  } while (false)
