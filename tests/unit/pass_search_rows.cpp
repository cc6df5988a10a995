#include <catch2/catch.hpp>

#include "compiler/passes/search_rows.h"
#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using Catch::Matchers::Contains;

constexpr double kAbsent = -1;

/// A tile whose elements two tensors admit, in a loop over its columns behind `lets`.
tile::Program searched_program(bool monotone, tile::Block lets = {}) {
  tile::Block body = std::move(lets);
  body.push_back(
      loop("j_o", 0, "(M+3)/4",
           {map_where("S", "S", {"q[i] == k[j]"}, kAbsent, {at("i", "i_o*4", "N"), at("j", "j_o*4", "M")})}));
  tile::Program out = one_kernel({in_registers("S", {{"i", 4}, {"j", 4}})}, std::move(body));
  out.extents = {"N", "M"};
  out.kernels[0].tiles = {{"i_o", parse_expr("(N+3)/4", {}, true)}};
  for (const char* name : {"q", "k"}) {
    out.tensors.push_back(
        tensor(tile::Tensor::Role::input, name, {name == std::string("q") ? "N" : "M"}, ScalarType::i32));
    out.tensors.back().monotone = monotone;
  }
  return out;
}

std::string searched(const tile::Program& in, const char* target = "sm_80") {
  return text_of_body(search_rows(in, *find_target(target)));
}

}  // namespace

TEST_CASE("what a monotone tensor decides becomes a begin and an end of each row, searched for once") {
  const std::string text = searched(searched_program(true));
  INFO(text);
  CHECK_THAT(text, Contains("map begin = count_below(k[0], M, q[i]) at i = i_o*4 < N"));
  CHECK_THAT(text, Contains("map end = count_below(k[0], M, q[i] + 1) at i = i_o*4 < N"));
  CHECK_THAT(text, Contains("map S = S where begin <= j and j < end absent -1 at j = j_o*4"));
  CHECK(text.find("map begin") < text.find("for j_o"));
}

TEST_CASE("searches of rows stay between those of the whole tile, each of which is made once") {
  const char* first = "count_below(k[0], M, q[max(min(i_o*4, N-1), 0)])";
  const char* last = "count_below(k[0], M, q[max(min(i_o*4+3, N-1), 0)])";
  const std::string text = searched(
      searched_program(true, {let("from", std::string(first) + "/4"), let("full", std::string(last) + " + " + first)}));
  INFO(text);
  CHECK_THAT(text, Contains(std::string("let count = ") + first));
  CHECK_THAT(text, Contains("let from = count/4"));
  CHECK_THAT(text, Contains(std::string("let count_2 = ") + last));
  CHECK_THAT(text, Contains("let full = count_2+count"));
  CHECK_THAT(text, Contains("map begin = count + count_below(k[count], count_2 - count, q[i])"));
  // No let says how far ends lie.
  CHECK_THAT(text, Contains("map end = count_below(k[0], M, q[i] + 1)"));
}

TEST_CASE("what is not monotone, and what runs on a CPU, is tested element by element") {
  CHECK(searched(searched_program(false)) == text_of_body(searched_program(false)));
  CHECK(searched(searched_program(true), "cpu") == text_of_body(searched_program(true)));
}

}  // namespace astatide::testing
