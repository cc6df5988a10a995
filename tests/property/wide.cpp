// Tiles that hold a part of the columns of an output have the algorithm's values at every stage: whole parts and a last
// one that is narrower, outputs with the columns and without.

#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"

namespace astatide::testing {
namespace {

struct WideForm {
  std::string nest;  // of O
  std::string q_at = "i.o";
  std::string rewrite = "online";
};

const std::vector<WideForm> kWideForms = {
    {"tile: {i: 8, j: 12, e: 4}, reorder: [b, h, e.o, i.o, j.o], gpu_blocks: [e.o, i.o, h, b]"},
    {"tile: {i: 8, j: 12, e: 8}, reorder: [b, h, e.o, i.o, j.o], gpu_blocks: [i.o, h, b, e.o]", "i.o",
     "{online: {rescale: optimistic, grow: 1, over: 3}}"},
    // The parts one after the other in a block, which reads Q again for each.
    {"tile: {i: 8, j: 12, e: 4}, reorder: [b, h, i.o, e.o, j.o], gpu_blocks: [i.o, h, b]", "e.o"},
    {"split: {h: [hk, g]}, fuse: {r: [g, i]}, tile: {r: 8, j: 12, e: 4}, reorder: [b, hk, e.o, r.o, j.o], "
     "gpu_blocks: [e.o, r.o, hk, b]",
     "r.o", "{online: {rescale: lazy, grow: 1}}"}};

Schedule wide(const Algorithm& algorithm, const WideForm& form) {
  Schedule out = parse_schedule("target: sm_80\nrewrite: " + form.rewrite + "\nO: {" + form.nest +
                                    ", threads: [8, 4]}\nS: {compute_at: j.o, store_in: register}\n"
                                    "P: {compute_at: j.o, store_in: shared}\nQ: {stage_at: " +
                                    form.q_at +
                                    ", store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n"
                                    "V: {stage_at: j.o, store_in: shared}\n",
                                "wide.yaml");
  return without_foreign_names(std::move(out), algorithm);
}

void require_wide(const std::string& name, std::uint32_t seed) {
  const Algorithm algorithm = example_algorithm(name);
  for (const WideForm& form : kWideForms)
    for (const int width : {1, 4, 8, 10}) {
      const int queries = seed % 3 == 0 ? 1 : 13, keys = ++seed % 5 == 0 ? 0 : 29;
      auto extents = small_extents(algorithm, queries, keys);
      extents["Dv"] = width;
      require_every_stage(algorithm, wide(algorithm, form), extents, seed);
    }
}

}  // namespace

TEST_CASE("every stage of attention over parts of the columns has the oracle's values") {
  require_wide("attention", 1);
  require_wide("causal_gqa", 2);
}
TEST_CASE("every stage of latent attention, whose values are columns of the keys, has the oracle's values") {
  require_wide("mla_decode", 3);
}
TEST_CASE("every stage of other scores and masks over parts of the columns has the oracle's values") {
  for (const char* name : {"sliding_window", "sink", "softcap_alibi", "document_mask"}) require_wide(name, 4);
}

}  // namespace astatide::testing
