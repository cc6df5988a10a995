// The leak checker skips processes that have loaded NVRTC, and no others: runtime/nvrtc.cpp says why.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "compiler/support/diagnostic.h"
#include "runtime/nvrtc.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"

#ifdef __SANITIZE_ADDRESS__

using namespace astatide;
using namespace astatide::testing;

namespace {

/// In a process that was started for it: the file's name selects hidden tests, too.
void leak() {
  if (std::getenv("ASTATIDE_LEAK") == nullptr) return;
  void* volatile block = std::malloc(1234);
  block = std::memset(block, 1, 1234) == nullptr ? block : nullptr;
}

ProgramResult run_hidden(const char* tag) { return run_program("/proc/self/exe", {tag}, {{"ASTATIDE_LEAK", "1"}}); }

}  // namespace

TEST_CASE("leaks without NVRTC", "[.leaks_without_nvrtc]") { leak(); }
TEST_CASE("leaks beside NVRTC", "[.leaks_beside_nvrtc]") {
  if (std::getenv("ASTATIDE_LEAK") != nullptr) runtime::nvrtc();
  leak();
}

TEST_CASE("a process that leaks fails, unless it has loaded NVRTC") {
  const ProgramResult found = run_hidden("[.leaks_without_nvrtc]");
  INFO(found.err);
  CHECK(found.code != 0);
  CHECK(found.err.find("1234 byte(s) leaked") != std::string::npos);
  try {
    runtime::nvrtc();
  } catch (const MachineError&) {
    ASTATIDE_SKIP("no NVRTC on this machine");
  }
  const ProgramResult skipped = run_hidden("[.leaks_beside_nvrtc]");
  INFO(skipped.out << skipped.err);
  CHECK(skipped.code == 0);
}

#endif
