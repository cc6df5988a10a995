// What a launch says to inputs of integers that lead indices out of their tensors, with the place.

#include <catch2/catch.hpp>
#include <numeric>

#include "api/check_reads.h"
#include "compiler/algorithm/algorithm.h"
#include "compiler/support/diagnostic.h"
#include "runtime/host_tensor.h"

namespace astatide {
namespace {

/// Two items of at most 4 pages of 16 slots, of 9 pages.
const std::string kPaged =
    "algorithm: paged\n"
    "extents: [B, Sq, Sk, D, Pages]\n"
    "inputs: {Q: [B, Sq, D], K: [Pages, 16, D], page: {dims: [B, Sk/16], dtype: i32}, length: {dims: [B], dtype: "
    "i32},\n"
    "  first: {dims: [B, Sq], dtype: i32}, bias: [Pages]}\n"
    "axes: {j: \"length[b] <= Sk\"}\n"
    "define:\n"
    "  - S[b,i,j] = SCORE\n"
    "  - O[b,i] = max(j, S[b,i,j]) + 0 * first[b,i] + 0 * bias[0]\n"
    "outputs: [O]\n";
const Extents kPagedExtents = {{"B", 2}, {"Sq", 3}, {"Sk", 64}, {"D", 8}, {"Pages", 9}};

/// Two packed items; of keys the numbers of their documents.
const std::string kPacked =
    "algorithm: packed\n"
    "extents: [B, Sq, Sk, T, D]\n"
    "inputs: {Q: [T, D], K: [Sk, D], offset: {dims: [B + 1], dtype: i32}, doc: {dims: [Sk], dtype: i32, monotone: "
    "true}}\n"
    "axes: {b: B, i: \"offset[b+1] - offset[b] <= Sq\"}\n"
    "define:\n"
    "  - S[b,i,j] = sum(d, Q[offset[b] + i, d] * K[j, d]) where doc[j] <= i\n"
    "  - O[b,i] = max(j, S[b,i,j])\n"
    "outputs: [O]\n";
const Extents kPackedExtents = {{"B", 2}, {"Sq", 5}, {"Sk", 6}, {"T", 7}, {"D", 8}};

std::string with_score(const std::string& score) {
  std::string text = kPaged;
  return text.replace(text.find("SCORE"), 5, score);
}
std::string paged(const std::string& condition) {
  return with_score("sum(d, Q[b,i,d] * K[page[b, j/16], j%16, d])" + condition);
}
/// Pages say what is added to scores.
std::string biased(const std::string& condition) {
  return with_score("sum(d, Q[b,i,d] * K[0, 0, d]) + bias[page[b, j/16]]" + condition);
}

struct Data {
  std::vector<std::int64_t> shape;
  std::vector<std::int32_t> values;
};

std::string said(const std::string& algorithm, const Extents& extents, std::map<std::string, Data> given,
                 PlacesChecked places = PlacesChecked::all) {
  HostIntegers data;
  for (auto& [name, of] : given)
    data[name] = {of.values.data(), ScalarType::i32, of.shape, runtime::dense_strides(of.shape)};
  Diagnostics errors;
  check_reads(find_read_sites(parse_algorithm(algorithm, "a.yaml")), extents, data, errors, places);
  try {
    errors.throw_if_any();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::map<std::string, Data> pages(std::vector<std::int32_t> page, std::vector<std::int32_t> length,
                                  std::vector<std::int32_t> first = {0, 0, 0, 0, 0, 0}) {
  return {
      {"page", {{2, 4}, std::move(page)}}, {"length", {{2}, std::move(length)}}, {"first", {{2, 3}, std::move(first)}}};
}

std::map<std::string, Data> items(std::vector<std::int32_t> offset, std::vector<std::int32_t> doc) {
  return {{"offset", {{3}, std::move(offset)}}, {"doc", {{6}, std::move(doc)}}};
}

}  // namespace

TEST_CASE("a page that a tensor has not got is refused with its place, where an item reaches it") {
  CHECK(said(paged(""), kPagedExtents, pages({8, 7, -1, 99, 0, 1, 2, 3}, {32, 64})).empty());
  CHECK(said(paged(""), kPagedExtents, pages({8, 7, -1, 99, 0, 1, 9, 3}, {32, 33})) ==
        "a.yaml:7:34: error: S reads K at index page[b, j/16], which is 9 at b = 1, j = 32; dimension 1 has the length "
        "9\n"
        "      - S[b,i,j] = sum(d, Q[b,i,d] * K[page[b, j/16], j%16, d])\n"
        "                                     ^\n"
        "note: min(max(page[b, j/16], 0), Pages-1) keeps it inside, as does a condition on its definition");
  CHECK(said(paged(""), kPagedExtents, pages({8, 7, -1, 99, 0, 1, 2, 3}, {33, 64}))
            .find("which is -1 at b = 0, j = 32; dimension 1 has the length 9") != std::string::npos);
}

TEST_CASE("operands are read up to the ends that conditions give, whatever else they say") {
  const auto behind = pages({8, 7, 99, 99, 0, 1, -1, 3}, {64, 64}, {32, 32, 32, 32, 32, 32});
  CHECK(said(paged(" where j < 16 + 16*b"), kPagedExtents, behind).empty());
  CHECK(said(paged(" where j <= 28 + i"), kPagedExtents, behind).empty());
  CHECK(said(paged(" where j <= 30 + i"), kPagedExtents, behind).find("which is 99 at b = 0, j = 32;") !=
        std::string::npos);
  const auto before = pages({-1, 7, 0, 1, -1, 1, 1, 3}, {64, 64}, {32, 32, 32, 32, 32, 32});
  for (const char* condition : {" where 32 <= j", " where first[b,i] <= j", " where j % 32 < 0 or 16 <= j"})
    CHECK(said(paged(condition), kPagedExtents, before).find("which is -1 at b = 0, j = 0;") != std::string::npos);
  CHECK(
      said(paged(" where 32 <= j"), kPagedExtents, before)
          .find(
              "note: min(max(page[b, j/16], 0), Pages-1) keeps it inside; of conditions on S only ends of an axis, for "
              "all rows alike, keep an operand from being read") != std::string::npos);
}

TEST_CASE("conditions that no range tells of are looked at place by place where all places are asked for") {
  // Only from 32 on do rows of the second item see keys.
  const std::string algorithm = biased(" where first[b,i] <= j");
  const auto seen = pages({8, 7, 6, 5, -1, 77, 2, 3}, {64, 64}, {0, 0, 0, 40, 32, 35});
  CHECK(said(algorithm, kPagedExtents, seen).empty());
  CHECK(said(algorithm, kPagedExtents, seen, PlacesChecked::few)
            .find("S reads bias at index page[b, j/16], which is -1 at b = 1, j = 0;") != std::string::npos);
  CHECK(said(algorithm, kPagedExtents, pages({8, 7, 6, 5, -1, 77, 2, 3}, {64, 64}, {0, 0, 0, 40, 30, 35}))
            .find("which is 77 at b = 1, i = 1, j = 30; dimension 1 has the length 9") != std::string::npos);
  // Every second page only, and none of the last.
  const auto gaps = pages({8, -1, 6, -1, 0, -1, 2, -1}, {64, 64});
  CHECK(said(biased(" where j % 32 < 16 or j < 0"), kPagedExtents, gaps).empty());
  CHECK(said(biased(" where not (j / 16 == 1 or 48 <= j)"), kPagedExtents, gaps).empty());
  CHECK(said(biased(" where j % 32 <= 16"), kPagedExtents, gaps).find("which is -1 at b = 0, j = 16;") !=
        std::string::npos);
}

TEST_CASE("lengths that are negative or over their bound are refused with the item") {
  CHECK(said(paged(""), kPagedExtents, pages({0, 1, 2, 3, 4, 5, 6, 7}, {64, 65}))
            .find("axis j is length[b] = 65 long at b = 1, at most 64") != std::string::npos);
  CHECK(said(paged(""), kPagedExtents, pages({0, 1, 2, 3, 4, 5, 6, 7}, {-1, 64}))
            .find("axis j is length[b] = -1 long at b = 0, the least is 0") != std::string::npos);
}

TEST_CASE("an update is stored inside its input, where its condition says, and twice at no place") {
  const std::string text =
      "algorithm: append\nextents: [B, Sq, Sk, D, Pages]\n"
      "inputs: {K: [Pages, 16, D], Kn: [B, Sq, D], page: {dims: [B, 4], dtype: i32}, length: {dims: [B], dtype: i32}}\n"
      "updates:\n  - K[page[b, (length[b] - Sq + i)/16], (length[b] - Sq + i)%16, d] = Kn[b,i,d]CONDITION\n"
      "define:\n  - O[p] = max(d, K[p,0,d]) + 0*Sk\naxes: {b: B}\noutputs: [O]\n";
  const auto with = [&](const std::string& condition) {
    std::string out = text;
    return out.replace(out.find("CONDITION"), 9, condition);
  };
  const auto given = [](std::vector<std::int32_t> page, std::vector<std::int32_t> length) {
    return std::map<std::string, Data>{{"page", {{2, 4}, std::move(page)}}, {"length", {{2}, std::move(length)}}};
  };
  const std::string present = with(" where length[b] - Sq + i >= 0");
  for (const PlacesChecked places : {PlacesChecked::few, PlacesChecked::all}) {
    CHECK(said(present, kPagedExtents, given({8, 7, 99, 99, 0, 1, -1, 3}, {0, 17}), places).empty());
    CHECK(said(present, kPagedExtents, given({8, 7, 99, 99, 0, 1, -1, 3}, {2, 32}), places).empty());
    CHECK(said(present, kPagedExtents, given({8, 7, 99, 99, 0, 1, -1, 3}, {33, 2}), places)
              .find("the update of K is stored in K at index page[b, (length[b]-Sq+i)/16], which is 99 at b = 0, i = "
                    "2; dimension 1 "
                    "has the length 9") != std::string::npos);
    CHECK(said(with(""), kPagedExtents, given({8, 7, 99, 99, 0, 1, -1, 3}, {0, 17}), places)
              .find("the update of K reads page at index (length[b]-Sq+i)/16, which is -1 at b = 0, i = 0; dimension 2 "
                    "has the length "
                    "4") != std::string::npos);
  }
  CHECK(said(present, kPagedExtents, given({8, 7, 99, 99, 7, 1, 2, 3}, {18, 2}))
            .find("K is stored twice at page[b, (length[b]-Sq+i)/16] = 7, (length[b]-Sq+i)%16 = 0: at b = 0, i = 1 and "
                  "at b = 1, i = 1") != std::string::npos);
  CHECK(said(present, kPagedExtents, given({8, 7, 99, 99, 7, 1, 2, 3}, {18, 2}), PlacesChecked::few).empty());
}

TEST_CASE("offsets that decrease or pass the tensor, and inputs that are not monotone, are refused with the place") {
  CHECK(said(kPacked, kPackedExtents, items({0, 2, 7}, {0, 0, 1, 1, 1, 4})).empty());
  CHECK(said(kPacked, kPackedExtents, items({0, 4, 2}, {0, 0, 1, 1, 1, 4}))
            .find("axis i is offset[b+1]-offset[b] = -2 long at b = 1, the least is 0\nnote: offsets of items must not "
                  "decrease") != std::string::npos);
  CHECK(said(kPacked, kPackedExtents, items({0, 4, 8}, {0, 0, 1, 1, 1, 4}))
            .find("S reads Q at index offset[b]+i, which goes from 4 to 7 at b = 1; dimension 1 has the length 7") !=
        std::string::npos);
  CHECK(said(kPacked, kPackedExtents, items({0, 2, 7}, {0, 0, 1, 2, 1, 4}))
            .find("doc is monotone, and decreases from 2 to 1 at [4]\nnote: leave monotone out, or sort along the last "
                  "dimension") != std::string::npos);
}

}  // namespace astatide
