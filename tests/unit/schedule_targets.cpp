#include <catch2/catch.hpp>

#include "compiler/schedule/target.h"

namespace astatide {
namespace {

TEST_CASE("targets have the shared memory that the CUDA programming guide lists") {
  const auto shared = [](const char* name) { return find_target(name)->shared_memory_per_block; };
  CHECK(shared("sm_80") == 166912);
  CHECK(shared("sm_86") == 101376);
  CHECK(shared("sm_89") == 101376);
  CHECK(shared("sm_90a") == 232448);
  CHECK(shared("sm_100") == 232448);
  CHECK(shared("sm_120") == 101376);
}

TEST_CASE("a block never has more shared memory than its multiprocessor") {
  for (const Target& target : known_targets()) {
    INFO(target.name);
    CHECK(target.shared_memory_per_block <= target.shared_memory_per_sm);
    if (target.is_cuda()) CHECK(target.threads_per_block <= target.threads_per_sm);
    CHECK(find_target(target.name) == &target);
  }
}

TEST_CASE("a device runs the nearest target of its own major version") {
  const auto name = [](int capability) {
    const Target* target = target_of_device(capability);
    return target == nullptr ? std::string() : target->name;
  };
  CHECK(name(80) == "sm_80");
  CHECK(name(86) == "sm_86");
  CHECK(name(87) == "sm_80");
  CHECK(name(89) == "sm_89");
  CHECK(name(90) == "sm_90a");
  CHECK(name(100) == "sm_100");
  CHECK(name(103) == "sm_100");
  CHECK(name(121) == "sm_120");
  CHECK(name(75).empty());
  CHECK(name(0).empty());
}

TEST_CASE("an unknown target is none") { CHECK(find_target("sm_81") == nullptr); }

}  // namespace
}  // namespace astatide
