// Keys and values in pages, which a table finds.
#pragma once

#include "tests/support/case_run.h"

namespace astatide::testing {

/// Fills length, page, K and V of `lengths` positions in pages of `size`, of which a table has `most` for each item:
/// from the last page downwards. What a page holds behind an item's end, and pages of none, are NaN; the table holds
/// numbers that no page has behind the item's last.
void fill_pages(Case& c, const std::vector<std::int64_t>& lengths, std::int64_t size, std::int64_t most);

struct PagedItems {
  std::int64_t page = 16;             // rows of one
  std::vector<std::int64_t> lengths;  // keys of each item
  std::int64_t most = 0;              // keys that an item may have
  std::int64_t queries = 1, heads = 2, groups = 1, width = 64;
  ScalarType dtype = ScalarType::bf16;
};

/// Attention of the last queries of each item over pages that fill_pages fills.
Case paged_case(const PagedItems& items);

}  // namespace astatide::testing
