// Parts of a merge where they lie, and what is refused of them.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "api/astatide.h"
#include "tests/support/case_run.h"
#include "tests/support/messages.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

#if ASTATIDE_WITH_CPU

namespace {

/// One row of one head, two channels.
struct PartData {
  std::vector<float> o, l;
  std::map<std::string, TensorView> views() {
    return {{"O", {o.data(), ScalarType::f32, {1, 1, 1, 2}, {2, 2, 2, 1}}},
            {"L", {l.data(), ScalarType::f32, {1, 1, 1}, {1, 1, 1}}}};
  }
};

Executable merge_of_attention() {
  return case_engine().build_merge(attention(), {Device::cpu(), ScalarType::f32, {{"Dv", 2}}, {}});
}

}  // namespace

TEST_CASE("two parts are merged wherever they lie") {
  PartData a{{1, 2}, {0}}, b{{3, 6}, {std::log(3.0f)}}, result{{9, 9}, {9}};
  const Executable merge = merge_of_attention();
  for (const bool turned : {false, true}) {
    const auto parts = turned ? std::vector{b.views(), a.views()} : std::vector{a.views(), b.views()};
    merge.launch(merge_arguments(merge, parts, result.views()));
    // Weights 1/4 and 3/4.
    CHECK(std::fabs(result.o[0] - 2.5f) < 1e-6f);
    CHECK(std::fabs(result.o[1] - 5.0f) < 1e-6f);
    CHECK(std::fabs(result.l[0] - std::log(4.0f)) < 1e-6f);
  }
}

TEST_CASE("one build merges any number of parts") {
  const auto before = case_engine().counters();
  const Executable merge = merge_of_attention();
  merge_of_attention();
  CHECK(case_engine().counters().compiles - before.compiles <= 1);
  std::vector<float> o(2 * 20, 5), l(20, 0), to{0, 0}, sum{0};
  for (const std::size_t count : {1U, 20U}) {
    std::vector<std::map<std::string, TensorView>> parts;
    for (std::size_t n = 0; n < count; ++n)
      parts.push_back({{"O", {&o[2 * n], ScalarType::f32, {1, 1, 1, 2}, {2, 2, 2, 1}}},
                       {"L", {&l[n], ScalarType::f32, {1, 1, 1}, {1, 1, 1}}}});
    merge.launch(merge_arguments(merge, parts,
                                 {{"O", {to.data(), ScalarType::f32, {1, 1, 1, 2}, {2, 2, 2, 1}}},
                                  {"L", {sum.data(), ScalarType::f32, {1, 1, 1}, {1, 1, 1}}}}));
    CHECK(std::fabs(to[1] - 5) < 1e-6f);
    CHECK(std::fabs(sum[0] - std::log(static_cast<float>(count))) < 1e-6f);
  }
}

TEST_CASE("parts that can't be one tensor are refused with their places") {
  const Executable merge = merge_of_attention();
  std::vector<float> memory(40, 0);
  const auto part = [&](std::size_t o, std::size_t l) {
    return std::map<std::string, TensorView>{{"O", {&memory[o], ScalarType::f32, {1, 1, 1, 2}, {2, 2, 2, 1}}},
                                             {"L", {&memory[l], ScalarType::f32, {1, 1, 1}, {1, 1, 1}}}};
  };
  const auto refusal = [&](const std::vector<std::map<std::string, TensorView>>& parts) {
    return message_of<UserError>([&] { merge_arguments(merge, parts, part(0, 2)); });
  };
  CHECK_THAT(refusal({part(0, 20), part(2, 21), part(6, 22)}),
             Contains("O of part 2 lies 16 bytes behind that of part 1, part 1 lies 8 behind part 0") &&
                 Contains("two parts may lie anywhere"));
  auto other = part(2, 21);
  other.at("O").strides = {4, 4, 4, 2};
  CHECK_THAT(refusal({part(0, 20), other}), Contains("O of part 1 has another type, shape or other strides"));
  other.erase("O");
  CHECK_THAT(refusal({part(0, 20), other}), Contains("part 1 has no O"));
  CHECK_THAT(refusal({}), Contains("there is no part to merge"));
  const Executable no_merge = case_engine().build(attention(), load_schedule("cpu/flash2"),
                                                  {Device::cpu(), ScalarType::f32, {{"D", 8}, {"Dv", 8}}, {}});
  CHECK_THAT(message_of<UserError>([&] { merge_arguments(no_merge, {part(0, 2)}, {}); }),
             Contains("the executable is none of Engine::build_merge"));
}

TEST_CASE("an extent that neither the merge nor what made the parts has is refused") {
  CHECK_THAT(message_of<UserError>([] {
               case_engine().build_merge(attention(), {Device::cpu(), ScalarType::f32, {{"Dv", 2}, {"Dw", 3}}, {}});
             }),
             Contains("the algorithm has no extent Dw"));
}

#endif
