#include <algorithm>
#include <deque>

#include "compiler/support/diagnostic.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {

const std::vector<std::string_view>& verified_passes() {
  static const std::vector<std::string_view> kPasses{
      "lower",           "skip_tiles",     "map_masks",        "split_masked_loops",
      "search_rows",     "peel_first",     "fold_units",       "relax_rescale",
      "forward_maps",    "fold_exponents", "fold_factors",     "hoist_row_invariants",
      "split_absorb",    "overlap",        "order_tiles",      "stage_tiles",
      "stage_outputs",   "hold_operands",  "specialize_roles", "take_turns",
      "insert_barriers", "close_shares",   "join_loops",       "infer_layouts",
      "plan_memory"};
  return kPasses;
}

bool Verified::is_past(std::string_view other) const {
  const std::vector<std::string_view>& passes = verified_passes();
  const auto at = std::find(passes.begin(), passes.end(), pass);
  const auto limit = std::find(passes.begin(), passes.end(), other);
  if (at == passes.end() || limit == passes.end())
    throw InternalError("verify knows no pass named " + std::string(at == passes.end() ? pass : other));
  return at >= limit;
}

void Verified::fail(const Stmt* stmt, const std::string& message) const {
  throw InternalError("after " + std::string(pass) + ", kernel " + kernel.name + (stmt ? ", " + head_of(*stmt) : "") +
                      ": " + message);
}

namespace {

/// Those of the rules that ask which pass has run.
void verify_from_pass_on(const Verified& v) {
  verify_partial_tiles(v);
  verify_turns(v);
  verify_syncs(v);
  verify_no_advance(v);
  verify_overlapped(v);
  verify_staged(v);
  verify_stored(v);
  verify_held(v);
  verify_layouts(v);
  verify_memory_plan(v);
  verify_synchronization(v);
}

}  // namespace

void verify(const Program& program, std::string_view after_pass) {
  std::deque<AccessTable> accesses;
  std::vector<Verified> kernels;
  for (const Kernel& kernel : program.kernels)
    kernels.push_back({program, kernel, after_pass, accesses.emplace_back(kernel)});
  // Names first: the other rules look tiles and tensors up.
  for (const Verified& v : kernels) {
    verify_declarations(v);
    verify_references(v);
    verify_tensors(v);
  }
  verify_tensor_order(kernels);
  for (const Verified& v : kernels) {
    verify_tiles(v);
    verify_products(v);
    verify_element_shapes(v);
    verify_reductions(v);
    verify_copies(v);
    verify_columns(v);
    verify_assignment(v);
    verify_tokens(v);
    verify_rings(v);
    verify_uniformity(v);
    verify_roles(v);
    verify_cluster(v);
    verify_teams(v);
    verify_from_pass_on(v);
  }
}

void verify_unchanged(const Program& program, std::string_view after_pass) {
  for (const Kernel& kernel : program.kernels) {
    const AccessTable accesses(kernel);
    verify_from_pass_on({program, kernel, after_pass, accesses});
  }
}

}  // namespace astatide::tile
