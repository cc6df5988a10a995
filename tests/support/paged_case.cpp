#include "tests/support/paged_case.h"

#include <fmt/format.h>

#include <limits>

namespace astatide::testing {

void fill_pages(Case& c, const std::vector<std::int64_t>& lengths, std::int64_t size, std::int64_t most) {
  const auto count = static_cast<std::int64_t>(lengths.size());
  const std::int64_t pages = count * most + 1, groups = c.extents.at("Hkv"), width = c.extents.at("D");
  const auto length = [&](std::int64_t b) { return lengths[static_cast<std::size_t>(b)]; };
  const auto page_of = [&](std::int64_t b, std::int64_t n) { return pages - 1 - b * most - n; };
  c.extents["Pages"] = pages;
  c.inputs["length"] =
      filled(ScalarType::i32, {count}, [&](const Index& at) { return static_cast<double>(length(at[0])); });
  c.inputs["page"] = filled(ScalarType::i32, {count, most}, [&](const Index& at) {
    return at[1] * size < length(at[0]) ? static_cast<double>(page_of(at[0], at[1])) : -1e6;
  });
  for (const char* name : {"K", "V"}) {
    runtime::HostTensor tensor =
        constant(c.dtype, {pages, groups, size, width}, std::numeric_limits<double>::quiet_NaN());
    const runtime::HostTensor values =
        gaussian(c.dtype, {count, groups, c.extents.at("Sk"), width}, name[0] == 'K' ? 2 : 3);
    for_each(values, [&](const Index& at, double value) {
      if (at[2] < length(at[0]))
        runtime::set(tensor, Index{page_of(at[0], at[2] / size), at[1], at[2] % size, at[3]}, value);
    });
    c.inputs[name] = tensor;
  }
}

Case paged_case(const PagedItems& items) {
  const auto count = static_cast<std::int64_t>(items.lengths.size());
  const std::string slot =
      items.page == 1 ? "page[b, j], h*Hkv/Hq, 0" : fmt::format("page[b, j/{0}], h*Hkv/Hq, j%{0}", items.page);
  Case c;
  c.algorithm = parse_algorithm(
      fmt::format("algorithm: paged\nextents: [B, Hq, Hkv, Sq, Sk, D, Pages]\nscalars: {{scale: 1/sqrt(D)}}\n"
                  "inputs: {{Q: [B, Hq, Sq, D], K: [Pages, Hkv, {0}, D], V: [Pages, Hkv, {0}, D],\n"
                  "  page: {{dims: [B, {1}], dtype: i32}}, length: {{dims: [B], dtype: i32}}}}\n"
                  "axes: {{j: \"length[b] <= Sk\"}}\ndefine:\n"
                  "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[{2}, d]) * scale where j <= i + length[b] - Sq\n"
                  "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
                  "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[{2}, e])\n"
                  "  - L[b,h,i] = logsumexp(j, S[b,h,i,j])\noutputs: [O, L]\n",
                  items.page, items.page == 1 ? "Sk" : fmt::format("Sk/{} + 1", items.page), slot),
      "paged.yaml");
  const std::int64_t most = items.page == 1 ? items.most : items.most / items.page + 1;
  c.dtype = items.dtype;
  c.extents = {{"B", count},          {"Hq", items.heads}, {"Hkv", items.groups},
               {"Sq", items.queries}, {"Sk", items.most},  {"D", items.width}};
  c.inputs["Q"] = gaussian(c.dtype, {count, items.heads, items.queries, items.width}, 1);
  fill_pages(c, items.lengths, items.page, most);
  return c;
}

}  // namespace astatide::testing
