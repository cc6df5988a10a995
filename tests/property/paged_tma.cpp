// Pages of keys and values under TMA, simulated thread by thread: the evaluator's values, whatever a page's and a
// tile's lengths are, and no NaN of a slot that has no key.

#include <catch2/catch.hpp>

#include "api/check_outputs.h"
#include "tests/support/paged_case.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;

TEST_CASE("pages that TMA copies give what the evaluator does when they are simulated") {
  struct Lengths {
    std::int64_t page;
    const char* keys;  // of a tile
    const char* schedule;
  };
  for (const Lengths& lengths : {Lengths{16, "j: 80", "sm90/flash3"},
                                 {64, "j: 128", "sm90/flash3"},
                                 {128, "j: 64", "sm90/flash3_plain"},
                                 {24, "j: 48", "sm90/flash3"}}) {
    INFO("pages of " << lengths.page << " under " << lengths.schedule << " with " << lengths.keys);
    const Case c = paged_case({lengths.page, {0, 1, 70, 129}, 140, 3, 1, 1, 16});
    const std::string schedule = shipped_schedule(lengths.schedule);
    const std::string tile =
        schedule.substr(schedule.find("j: "), schedule.find('}', schedule.find("j: ")) - schedule.find("j: "));
    const HostTensors outputs =
        run_case(c, parse_schedule(with(schedule, tile, lengths.keys), "s.yaml"), Device::sim());
    for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs)) {
      INFO(check.name << " error " << check.max_abs_error << " of at most " << check.limit);
      CHECK(check.ok());
    }
  }
}
