#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/support/skip.h"

namespace {

constexpr int kExitSkipped = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt

int tests_run = 0;
int tests_skipped = 0;
bool current_skipped = false;

#if CATCH_VERSION_MAJOR == 2
using ListenerBase = Catch::TestEventListenerBase;
#else
using ListenerBase = Catch::EventListenerBase;
#endif

struct SkipCounter : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    ListenerBase::testCaseStarting(info);
    current_skipped = false;
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    ListenerBase::testCaseEnded(stats);
    ++tests_run;
    if (current_skipped) ++tests_skipped;
  }
};
CATCH_REGISTER_LISTENER(SkipCounter)

}  // namespace

namespace astatide::testing {

void skip_test(std::string_view reason) {
  current_skipped = true;
  std::cout << "skipped: " << reason << '\n';
}

void skip_test_without_gpu(std::string_view reason) {
  const char* required = std::getenv("ASTATIDE_REQUIRE_GPU");
  if (required && std::string(required) == "1") {
    FAIL("ASTATIDE_REQUIRE_GPU=1, but " << reason);
  }
  skip_test(reason);
}

}  // namespace astatide::testing

int main(int argc, char** argv) {
  Catch::Session session;
  const int result = session.run(argc, argv);
  const auto& config = session.configData();
  if (config.listTests || config.listTags || config.listReporters || config.showHelp) return 0;
  // Catch returns the number of failures, which must not be taken for the code of a skipped test.
  if (result != 0) return 1;
  // A filter that matches nothing would pass forever.
  if (tests_run == 0) return 1;
  return tests_skipped == tests_run ? kExitSkipped : 0;
}
