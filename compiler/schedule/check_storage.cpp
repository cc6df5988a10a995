#include <algorithm>

#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"
#include "compiler/support/round_up.h"

// Where tiles live, and how they are loaded, padded and unrolled.

namespace astatide {
namespace {

constexpr int kWidestLoad = 16;  // bytes, ld.global.v4 and st.shared.v4
constexpr std::int64_t kMostUnrolled = 256;

/// One directive under check: messages start with "KEY of NAME".
struct CheckedDirective {
  LegalityCheck& check;
  const Placement& placement;
  const Directive& directive;
  NameRole role;

  void error(const std::string& message, std::vector<std::string> notes = {}) const {
    check.errors.error(directive.where,
                       std::string(directive_info(directive.kind).key) + " of " + placement.name + ": " + message,
                       std::move(notes));
  }
  bool is_root() const { return check.is_root(placement.name); }
  bool is_computed_by(Family family) const {
    const std::vector<const LoopNest*> nests = check.nests_of(placement.name);
    return std::any_of(nests.begin(), nests.end(),
                       [&](const LoopNest* nest) { return check.family_of(*nest) == family; });
  }
};

/// [shared, register]: of the left operand of tensor cores, which a loop reads again and again.
void check_held(const CheckedDirective& checked) {
  const std::string& name = checked.placement.name;
  const auto error = [&](const std::string& message, const std::string& note) {
    checked.error("[shared, register]: " + message, {note});
  };
  if (checked.role != NameRole::input)
    return error(name + " is computed, only a staged input is copied from one to the other",
                 "store_in: shared or store_in: register");
  if (!checked.check.least.is_cuda()) return error("it would have no effect on cpu", "store_in: shared");
  if (checked.is_computed_by(Family::fma))
    return error("multiply-adds read their operands from shared memory", "store_in: shared, or mma: mma_sync");
  const auto at = checked.placement.stage_at();
  for (const LoopNest* nest : checked.check.nests_of(name)) {
    for (const Operand& operand : checked.check.operands)
      if (operand.name == name && operand.axes.contains(nest->axis))
        return error(name + " varies along " + nest->axis + ", so it is the right operand of a product, which tensor " +
                         "cores read from shared memory",
                     "store_in: shared");
    if (at && nest->consistent && nest->position(*at) >= nest->position(nest->axis_loop()))
      return error("at " + *at + " each tile is read once, it would have no effect", "store_in: shared");
  }
}

void check_store_in(const CheckedDirective& checked) {
  if (checked.placement.held_in_registers()) return check_held(checked);
  const auto space = checked.placement.store_in();
  if (!space) return;  // no space, reported with the values
  const std::string& name = checked.placement.name;
  const bool cuda = checked.check.least.is_cuda();
  if (checked.is_root()) {
    if (*space != Space::global) checked.error(name + " is computed at root and lives in global memory");
    return;
  }
  if (*space == Space::global) {
    checked.error(
        checked.role == NameRole::input ? "a copy in global memory would have no effect"
                                        : "a tile lives in shared memory or in registers",
        {checked.role == NameRole::input ? "store_in: shared"
                                         : "compute_root: true keeps the whole of " + name + " in global memory"});
    return;
  }
  if (*space == Space::shared) return;
  if (checked.role == NameRole::input) {
    checked.error("a product reads it, and multiply-adds read their operands from shared memory",
                  {"store_in: shared, or [shared, register] with tensor cores"});
  } else if (cuda && checked.check.is_factor(name) && checked.is_computed_by(Family::fma)) {
    checked.error(name + " is an operand of a product, and multiply-adds read their operands from shared memory",
                  {"store_in: shared"});
  } else if (const auto at = checked.placement.compute_at()) {
    for (const LoopNest* nest : checked.check.nests_of(name))
      if (nest->consistent && nest->position(*at) < nest->position(nest->axis_loop()) && nest->reduces &&
          checked.check.schedule.rewrite == RewriteMode::none)
        return checked.error(
            "at " + *at + " the tile holds all of " + nest->axis + ", whose length is known at run time",
            {"store_in: shared"});
  }
}

void check_ring(const CheckedDirective& checked) {
  const int slots = checked.placement.ring_buffer();
  const auto at = checked.placement.stage_at();
  if (slots <= 1 || !at) return;
  for (const LoopNest* nest : checked.check.nests_of(checked.placement.name)) {
    const std::size_t position = nest->position(*at);
    // Blocks that stay copy a tile for each of their output tiles.
    if (nest->consistent && position < nest->block_loops && !nest->placement->persistent())
      checked.error(*at + " is spread over blocks, so each block copies one tile and " + std::to_string(slots) +
                        " slots would have no effect",
                    {"leave it out"});
  }
}

void check_vectorize(const CheckedDirective& checked) {
  const std::int64_t elements = checked.placement.vectorize().value_or(1);
  const Input* input = checked.check.algorithm.find_input(checked.placement.name);
  if (input == nullptr) return;
  // Without a type named or requested, the narrowest floating type sets the limit.
  const ScalarType type = input->dtype.value_or(checked.check.input_type.value_or(ScalarType::f16));
  const std::int64_t bytes = elements * size_in_bytes(type);
  if (bytes <= kWidestLoad) return;
  checked.error(std::to_string(elements) + " elements of " + std::string(name_of(type)) + " are " +
                    std::to_string(bytes) + " bytes, one load moves at most " + std::to_string(kWidestLoad),
                {"vectorize: " + std::to_string(kWidestLoad / size_in_bytes(type))});
}

/// The axes that the products of a definition sum: d of S, and j of the output of P * V.
std::vector<std::string> contracted_axes(const LegalityCheck& check, const std::string& name) {
  std::vector<std::string> axes;
  for (const Element& element : check.cascade.elements)
    if (element.name == name && element.product) axes.push_back(element.product->axis);
  const bool has_product = std::any_of(check.cascade.stages.begin(), check.cascade.stages.end(),
                                       [](const Stage& stage) { return !stage.extra.empty(); });
  if (check.main_nest() != nullptr && check.main_nest()->root == name && has_product)
    axes.push_back(check.cascade.axis);
  return axes;
}

void check_unroll(const CheckedDirective& checked) {
  const auto* factors = std::get_if<AxisNumbers>(&checked.directive.value);
  if (factors == nullptr) return;
  const std::vector<std::string> axes = contracted_axes(checked.check, checked.placement.name);
  for (const LoopNest* nest : checked.check.nests_of(checked.placement.name))
    if (const Family family = checked.check.family_of(*nest); family != Family::fma && !axes.empty())
      return checked.error(std::string(name_of(family)) + " unrolls its products whole, it would have no effect",
                           {"leave it out"});
  std::int64_t product = 1;
  for (const auto& [axis, factor] : *factors) {
    product = std::min<std::int64_t>(product * std::clamp<std::int64_t>(factor, 1, 64), kMostUnrolled + 1);
    if (axes.empty()) {
      checked.error(checked.placement.name + " holds no product, it would have no effect", {"leave it out"});
    } else if (!contains(axes, axis)) {
      std::vector<std::string> notes = {"the product of " + checked.placement.name + " sums over " + join(axes)};
      suggest(notes, axis, axes);
      checked.error(axis + " is not summed by the product, it would have no effect", notes);
    }
  }
  if (product > kMostUnrolled)
    checked.error("more than " + std::to_string(kMostUnrolled) + " copies of the innermost loop's body");
}

void check_align(const CheckedDirective& checked) {
  const auto* multiples = std::get_if<AxisNumbers>(&checked.directive.value);
  if (multiples == nullptr) return;
  const std::string& name = checked.placement.name;
  if (checked.placement.store_in().value_or(checked.role == NameRole::input ? Space::shared : Space::register_file) !=
      Space::shared)
    return checked.error(name + " does not live in shared memory, it would have no effect", {"store_in: shared"});
  const std::vector<std::string> axes = checked.check.axes_of(name);
  const std::vector<const LoopNest*> nests = checked.check.nests_of(name);
  for (const LoopNest* nest : nests)
    if (checked.check.family_of(*nest) == Family::wgmma)
      return checked.error("wgmma reads " + name + " from rows of 128 bytes, between which nothing lies",
                           {"leave it out"});
  const bool by_rows = std::any_of(nests.begin(), nests.end(), [&](const LoopNest* nest) {
    return checked.check.family_of(*nest) == Family::mma_sync;
  });
  for (const auto& [axis, multiple] : *multiples) {
    // Of 16 bits unless it is known to be f32.
    const int step = checked.check.input_type == ScalarType::f32 ? 4 : 8;
    if (by_rows && multiple % step != 0)
      checked.error("mma_sync reads rows that begin at multiples of 16 bytes, " + std::to_string(step) +
                        " elements, and " + std::to_string(multiple) + " is no multiple of it",
                    {"align_storage: {" + axis + ": " + std::to_string(round_up(multiple, step)) + "}"});
    if (!contains(axes, axis)) {
      std::vector<std::string> notes = {"axes of " + name + " are " + join(axes)};
      suggest(notes, axis, axes);
      checked.error(axis + " is no axis of " + name, notes);
      continue;
    }
    for (const LoopNest* nest : nests) {
      const auto tile = nest->placement->tile_of(axis);
      const bool step = !tile && contains(nest->axes, axis);
      if (step) {
        checked.error("a tile holds one step of " + axis + ", it would have no effect", {"leave it out"});
      } else if (tile && multiple > 0 && *tile % multiple == 0) {
        checked.error("tiles of " + axis + " are " + std::to_string(*tile) + ", a multiple of " +
                          std::to_string(multiple) + " already: it would have no effect",
                      {"align_storage: {" + axis + ": " + std::to_string(*tile + 4) + "}"});
      }
    }
  }
}

}  // namespace

void check_storage(LegalityCheck& check) {
  for (const Placement& placement : check.schedule.placements) {
    const NameRole role = check.role_of(placement.name);
    if (role == NameRole::unknown || role == NameRole::plain_input || role == NameRole::inlined ||
        role == NameRole::row_value || (role == NameRole::row_output && !check.is_root(placement.name)))
      continue;
    for (const Directive& directive : placement.directives) {
      const CheckedDirective checked{check, placement, directive, role};
      switch (directive.kind) {
        case DirectiveKind::store_in:
          check_store_in(checked);
          break;
        case DirectiveKind::ring_buffer:
          check_ring(checked);
          break;
        case DirectiveKind::vectorize:
          check_vectorize(checked);
          break;
        case DirectiveKind::unroll:
          check_unroll(checked);
          break;
        case DirectiveKind::align_storage:
          check_align(checked);
          break;
        default:
          break;
      }
    }
  }
}

}  // namespace astatide
