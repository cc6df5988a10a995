// Pages that TMA copies: whole tiles of pages, pages of tiles, and both ends of an item inside one.

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/gpu/require_gpu.h"
#include "tests/support/paged_case.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// Of the same case, one by TMA and one that is not.
void check_equal(const PagedItems& items, const std::string& schedule) {
  INFO(schedule << ", pages of " << items.page << ", width " << items.width << ", " << items.queries << " queries");
  const Case c = paged_case(items);
  const HostTensors found = run_case(c, schedule, Device::cuda(0));
  for (const auto& [name, expected] : run_case(c, "sm80/flash2", Device::cuda(0)))
    require_values(
        found.at(name), [&, &tensor = expected](const Index& at) { return runtime::get(tensor, at); },
        [](double value) { return 1.6e-2 * std::max(1.0, std::fabs(value)); });
}

}  // namespace

TEST_CASE("paged: boxes of pages and of parts of them give what other copies do") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/flash3")) ASTATIDE_SKIP("no GPU of sm_90a, which has tma");
  for (const std::int64_t page : {16, 64, 256})
    for (const char* schedule : {"sm90/flash3", "sm90/flash3_plain", "sm90/decode_gqa", "sm90/wide"})
      for (const std::int64_t queries : {1, 150})
        check_equal({page, {0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 1024}, 1024, queries, 4, 2, 128},
                    schedule);
  for (const std::int64_t page : {8, 16, 64})
    check_equal({page, {0, 1, 15, 100, 129, 500}, 512, 70, 2, 1, 64}, "sm90/flash3_d64");
}

TEST_CASE("paged: a shared pool of pages and many items keep blocks going round") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/flash3")) ASTATIDE_SKIP("no GPU of sm_90a, which has tma");
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 0; n < 40; ++n) lengths.push_back(n * 37 % 700);
  check_equal({64, lengths, 700, 200, 8, 1, 128}, "sm90/flash3");
  check_equal({16, lengths, 700, 200, 8, 1, 128}, "sm90/flash3");
}
