// States that outputs determine, by algebra from what finalize says.
#include <catch2/catch.hpp>

#include "compiler/rewrite/derive_merge.h"
#include "compiler/rewrite/isolate.h"
#include "tests/support/case_data.h"
#include "tests/support/merge_cases.h"

namespace astatide::testing {
namespace {

std::string states_of(const Algorithm& algorithm) {
  const Merge merge = derive_merge(algorithm);
  return print_part_states(merge.recurrence, merge.states);
}

std::string states_of(const std::string& name) {
  for (const MergeCase& c : merge_cases())
    if (c.name == name) return states_of(c.algorithm);
  return "no case " + name;
}

}  // namespace

TEST_CASE("what is isolated is the operand at the other side of each operation") {
  const Expr x = variable("x"), a = variable("a"), y = variable("y");
  CHECK(to_string(*isolate("x", a - log(x), y)) == "exp(a - y)");
  CHECK(to_string(*isolate("x", absorb(x, 1 / a), y)) == "y / (1 / a)");
  CHECK(to_string(*isolate("x", -(x * a) + 2, y)) == "-(y - 2) / a");
  CHECK_FALSE(isolate("x", x + log(x), y));
  CHECK_FALSE(isolate("x", max(x, a), y));
  CHECK_FALSE(isolate("x", a, y));
}

TEST_CASE("softmax: with the gauge at which the sum is 1 the reference is L and the values are O") {
  CHECK(states_of("softmax") ==
        "state of a part, from its outputs\n"
        "  m = L\n"
        "  l = 1\n"
        "  O_acc[e] = O\n");
}

TEST_CASE("a sink is taken out of each part's sum, and finalize adds it once") {
  CHECK(states_of("softmax with a sink") ==
        "state of a part, from its outputs\n"
        "  M_max = L\n"
        "  Z_sum = exp(safe(L) - safe(max(L, sink[h]))) - exp(sink[h] - safe(max(L, sink[h])))\n"
        "  O_acc[e] = O * exp(safe(L) - safe(max(L, sink[h])))\n");
}

TEST_CASE("outputs that are the state are the state") {
  CHECK(states_of("full states") ==
        "state of a part, from its outputs\n"
        "  M_acc = M\n"
        "  Z_acc = Z\n"
        "  O_acc[e] = O\n");
}

TEST_CASE("the sum that entropy is made with comes from the entropy") {
  CHECK(states_of("entropy") ==
        "state of a part, from its outputs\n"
        "  m = L\n"
        "  l = 1\n"
        "  H_sum_acc = -H\n");
}

TEST_CASE("weights that read the length of the axis are noted") {
  CHECK(states_of(example_algorithm("sigmoid_attention")) ==
        "state of a part, from its outputs\n"
        "  O_acc[e] = O\n"
        "note: P reads Sk: parts that are shorter than the whole have other values of it\n");
}

TEST_CASE("a merge has the inputs, extents and scalars that it reads, and the parts") {
  const Merge merge = derive_merge(example_algorithm("sink"), ScalarType::f16);
  CHECK(merge.count == "parts");
  CHECK(merge.parts_of == std::map<std::string, std::string>{{"L", "L_parts"}, {"O", "O_parts"}});
  std::vector<std::string> inputs, extents;
  for (const Input& input : merge.algorithm.inputs) inputs.push_back(input.name);
  for (const Extent& extent : merge.algorithm.extents) extents.push_back(extent.name);
  CHECK(inputs == std::vector<std::string>{"O_parts", "L_parts", "sink"});
  CHECK(extents == std::vector<std::string>{"parts", "B", "Hq", "Sq", "Dv"});
  CHECK(merge.algorithm.scalars.empty());
  CHECK(merge.algorithm.find_input("O_parts")->dtype == ScalarType::f16);
  CHECK(merge.algorithm.find_input("L_parts")->dtype == ScalarType::f32);
}

}  // namespace astatide::testing
