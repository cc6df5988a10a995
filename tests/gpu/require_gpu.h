// The rule for every GPU test: without a device it is skipped with the reason, and fails instead when
// ASTATIDE_REQUIRE_GPU=1.
//
//     TEST_CASE("…") {
//       ASTATIDE_NEED_GPU();
//       …
//     }
#pragma once

#include <optional>
#include <string>

#include "compiler/support/diagnostic.h"
#include "runtime/driver.h"
#include "runtime/nvrtc.h"
#include "tests/support/skip.h"

namespace astatide::testing {

/// Why no GPU test can run here, or nothing: a device and NVRTC are both there.
inline std::optional<std::string> reason_for_no_gpu() {
  try {
    runtime::driver();
    runtime::nvrtc();
    return std::nullopt;
  } catch (const MachineError& error) {
    return error.diagnostics().front().message;
  }
}

/// Whether the first GPU has the instructions of a schedule; those in sm90/ are of that architecture alone.
inline bool runs_here(const std::string& schedule) {
  return !schedule.starts_with("sm90/") || runtime::driver().device(0).major == 9;
}

}  // namespace astatide::testing

#define ASTATIDE_NEED_GPU()                                        \
  do {                                                             \
    const auto missing = ::astatide::testing::reason_for_no_gpu(); \
    if (missing) ASTATIDE_SKIP_NO_GPU(*missing);                   \
  } while (false)
