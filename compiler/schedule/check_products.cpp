#include <algorithm>

#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// The instructions that compute products, and the copies that feed them.

namespace astatide {
namespace {

constexpr int kColumnThreads = 4;   // of a row of a tensor core's accumulator, PTX ISA, fragments of mma.m16n8k16
constexpr int kThreadRows = 8;      // of a warp
constexpr int kRowsOfWarp = 16;     // of one instruction
constexpr std::int64_t kStep = 16;  // of the contracted axis

bool is_sixteen_bits(ScalarType type) { return type == ScalarType::f16 || type == ScalarType::bf16; }

/// The products of one kernel by tensor cores.
class TensorCores {
 public:
  TensorCores(LegalityCheck& check, const LoopNest& nest, const Placement& placement)
      : check_(check), nest_(nest), placement_(placement), where_(placement.find(DirectiveKind::mma)->where) {}

  void run() const {
    if (!check_.least.is_cuda()) {
      error("the CPU has no tensor cores", {"leave it out"});
      return;
    }
    if (placement_.mma() == Family::wgmma && check_.least.name != "sm_90a")
      error("wgmma is an instruction of sm_90a, the schedule's target is " + check_.least.name,
            {"target: sm_90a, or mma: mma_sync"});
    check_types();
    check_tile();
    check_spaces();
  }

 private:
  void error(const std::string& message, std::vector<std::string> notes = {}) const {
    check_.errors.error(where_, "mma of " + placement_.name + ": " + message, std::move(notes));
  }

  void check_types() const {
    const std::string family(name_of(placement_.mma()));
    std::optional<ScalarType> common;
    for (const Operand& operand : check_.operands) {
      const std::vector<const LoopNest*> nests = check_.nests_of(operand.name);
      const Input* input = check_.algorithm.find_input(operand.name);
      if (input == nullptr || std::find(nests.begin(), nests.end(), &nest_) == nests.end()) continue;
      const auto type = input->dtype ? input->dtype : check_.input_type;
      if (!type) continue;
      const std::string name(name_of(*type));
      if (!is_sixteen_bits(*type) && !(*type == ScalarType::f32 && check_.tf32_of(nest_))) {
        std::string note = "--dtype bf16, or mma: fma";
        if (*type == ScalarType::f32)
          note += std::string(placement_.mma() == Family::mma_sync ? ", or " : ", or mma: mma_sync and ") +
                  "tf32: true, which rounds f32 to tf32";
        return error(operand.name + " is " + name + ", " + family + " reads f16 or bf16", {note});
      }
      if (common && *common != *type)
        return error(operand.name + " is " + name + " and another operand of the kernel " +
                         std::string(name_of(*common)) + ", one instruction reads one type",
                     {"give the inputs one type"});
      common = type;
    }
  }

  void check_tile() const {
    const auto threads = check_.schedule.threads_of(*nest_.placement);
    if (!threads) return;  // reported with the nest
    const auto [rows, columns] = *threads;
    if (columns != kColumnThreads || rows % kThreadRows != 0) {
      error("threads of " + nest_.root + " are " + std::to_string(rows) + " x " + std::to_string(columns) +
                ", a warp of tensor cores is 8 rows of 4",
            {"threads: [" + std::to_string(std::max(1, rows * columns / 32) * kThreadRows) + ", 4] for " +
             std::to_string(std::max(1, rows * columns / 32)) + " warps"});
      return;
    }
    if (placement_.mma() == Family::wgmma && rows % (4 * kThreadRows) != 0) {
      error("threads of " + nest_.root + " are " + std::to_string(rows / kThreadRows) + " warps, a warpgroup has four",
            {"threads: [" + std::to_string((rows / (4 * kThreadRows) + 1) * 4 * kThreadRows) + ", 4]"});
      return;
    }
    const std::int64_t step = std::int64_t{rows} / kThreadRows * kRowsOfWarp;
    std::int64_t tile_rows = 1;
    std::string row_axis = check_.cascade.rows.empty() ? "i" : check_.cascade.rows.back();
    for (const auto& [axis, size] : nest_.placement->tile())
      if (axis != nest_.axis) tile_rows = size, row_axis = axis;
    if (tile_rows % step != 0)
      error(
          "tiles of " + row_axis + " are " + std::to_string(tile_rows) + ", " + std::to_string(rows / kThreadRows) +
              " warps take " + std::to_string(step) + " rows at a time",
          {"tile: {" + row_axis + ": " + std::to_string(std::max<std::int64_t>(step, tile_rows / step * step)) + "}"});
    const std::int64_t tile_columns = nest_.placement->tile_of(nest_.axis).value_or(0);
    if (tile_columns % kStep != 0 || tile_columns == 0)
      error("tiles of " + nest_.axis + " are " + std::to_string(tile_columns) + ", one instruction sums 16 at a time",
            {"tile: {" + nest_.axis + ": " + std::to_string(std::max(kStep, tile_columns / kStep * kStep)) + "}"});
    check_width(nest_.axis, tile_columns);
    for (const Stage& stage : check_.cascade.stages)
      for (const std::string& axis : stage.extra)
        if (const auto extent = check_.extent_of(axis)) check_width(axis, *extent);
  }

  void check_width(const std::string& axis, std::int64_t columns) const {
    constexpr std::int64_t kWidest = 256;  // of wgmma.m64nNk16
    if (placement_.mma() == Family::wgmma && columns > kWidest)
      error("the tile has " + std::to_string(columns) + " columns along " + axis + ", one instruction makes at most " +
                std::to_string(kWidest),
            {"a smaller tile, or mma: mma_sync"});
  }

  /// What the kernel computes goes from an accumulator to an operand without leaving the registers.
  void check_spaces() const {
    for (const Placement& other : check_.schedule.placements) {
      const std::vector<const LoopNest*> nests = check_.nests_of(other.name);
      const NameRole role = check_.role_of(other.name);
      if (std::find(nests.begin(), nests.end(), &nest_) == nests.end() || !check_.is_factor(other.name)) continue;
      if (role != NameRole::weight && role != NameRole::element) continue;
      if (other.store_in().value_or(Space::register_file) == Space::shared)
        check_.errors.error(other.find(DirectiveKind::store_in)->where,
                            "store_in of " + other.name + ": a product by " + std::string(name_of(placement_.mma())) +
                                " reads what its kernel computes from registers",
                            {"store_in: register"});
    }
  }

  LegalityCheck& check_;
  const LoopNest& nest_;
  const Placement& placement_;
  const Location where_;
};

/// Of an output: how its tiles get to global memory.
void check_stored(LegalityCheck& check, const Placement& placement, const Directive& directive) {
  constexpr std::size_t kMostAxes = 5;  // CUDA Driver API, cuTensorMapEncodeTiled
  const auto error = [&](const std::string& message, std::vector<std::string> notes) {
    check.errors.error(directive.where, "copy of " + placement.name + ": " + message, std::move(notes));
  };
  if (placement.copy() == CopyPath::cp_async)
    return error("cp_async copies to shared memory, and the tiles of " + placement.name + " go to global memory",
                 {"copy: tma, or leave it out"});
  const std::vector<std::string> indices = check.axes_of(placement.name);
  if (std::all_of(indices.begin(), indices.end(),
                  [&](const std::string& index) { return contains(check.cascade.rows, index); }))
    return error("it has one number a row, tma stores tiles of rows and columns", {"leave it out"});
  if (indices.size() > kMostAxes)
    return error("it has " + std::to_string(indices.size()) + " axes, a tensor map describes at most " +
                     std::to_string(kMostAxes),
                 {"leave it out"});
  if (check.input_type && !is_sixteen_bits(*check.input_type))
    error("it is " + std::string(name_of(*check.input_type)) + ", tma stores tiles of f16 or bf16",
          {"--dtype bf16, or leave it out"});
}

/// What mma_sync makes of f32.
void check_tf32(LegalityCheck& check, const Placement& placement) {
  const Directive* directive = placement.find(DirectiveKind::tf32);
  if (directive == nullptr) return;
  const auto error = [&](const std::string& message, const std::string& note) {
    check.errors.error(directive->where, "tf32 of " + placement.name + ": " + message, {note});
  };
  if (!check.least.is_cuda())
    return error("the CPU has no tensor cores and computes f32 as it is, it would have no effect", "leave it out");
  switch (placement.mma()) {
    case Family::mma_sync:
      return;
    case Family::wgmma:
      return error("wgmma reads tf32 only where the summed axis is contiguous, which that of V is not",
                   "mma: mma_sync, with threads in place of warps");
    case Family::fma:
      return error("fma computes f32 as it is, it would have no effect", "mma: mma_sync, or leave tf32 out");
    case Family::unset:
      return error("it says how mma_sync takes f32, and " + placement.name + " has no mma", "mma: mma_sync beside it");
  }
}

void check_copy(LegalityCheck& check, const Placement& placement, const Directive& directive) {
  if (placement.copy() == CopyPath::vector) return;
  const auto error = [&](const std::string& message, std::vector<std::string> notes) {
    check.errors.error(directive.where, "copy of " + placement.name + ": " + message, std::move(notes));
  };
  if (!check.least.is_cuda()) return error("the CPU has no asynchronous copies", {"leave it out"});
  if (placement.copy() == CopyPath::tma && check.least.name != "sm_90a")
    return error("tma is of sm_90a, the schedule's target is " + check.least.name, {"copy: cp_async"});
  if (placement.copy() == CopyPath::tma && check.schedule.warps.empty())
    return error("tma needs a producer", {"warps: {producer: 1, consumer: 2}"});
  if (check.is_root(placement.name)) return check_stored(check, placement, directive);
  if (placement.find(DirectiveKind::vectorize) != nullptr)
    return error(std::string(name_of(placement.copy())) + " copies whole rows, vectorize would have no effect",
                 {"leave vectorize out"});
  if (placement.copy() == CopyPath::tma && placement.find(DirectiveKind::align_storage) != nullptr)
    return error("tma writes panels of 128 bytes, align_storage would have no effect", {"leave align_storage out"});
  if (placement.copy() == CopyPath::tma) return;
  const Input* input = check.algorithm.find_input(placement.name);
  const auto type = input != nullptr && input->dtype ? input->dtype : check.input_type;
  for (const LoopNest* nest : check.nests_of(placement.name)) {
    if (check.family_of(*nest) == Family::fma && type && *type != ScalarType::f32)
      return error("cp_async moves bytes as they are, and fma reads f32 while " + placement.name + " is " +
                       std::string(name_of(*type)),
                   {"copy: vector, or mma: mma_sync"});
    for (const Placement& other : check.schedule.placements) {
      const std::vector<const LoopNest*> nests = check.nests_of(other.name);
      if (&other == &placement || other.copy() != CopyPath::cp_async || other.stage_at() != placement.stage_at() ||
          std::find(nests.begin(), nests.end(), nest) == nests.end())
        continue;
      // Groups of copies are waited for in the order in which they started.
      if (other.ring_buffer() < placement.ring_buffer())
        return error("its ring has " + std::to_string(placement.ring_buffer()) + " slots and that of " + other.name +
                         " " + std::to_string(other.ring_buffer()) + ", asynchronous copies at one loop have one depth",
                     {other.name + ": {ring_buffer: " + std::to_string(placement.ring_buffer()) + "}"});
    }
  }
}

/// Blocks that stay are worth it where one role is ahead of the other.
void check_persistent(LegalityCheck& check) {
  if (!check.schedule.warps.empty()) return;
  for (const LoopNest& nest : check.nests)
    if (const Directive* directive = nest.placement->find(DirectiveKind::persistent))
      check.errors.error(directive->where,
                         "persistent of " + nest.root + ": without a producer nothing of the next tile would be ahead",
                         {"warps: {producer: 1, consumer: 2}", "leave persistent out"});
}

/// Who copies and who computes.
void check_roles(LegalityCheck& check) {
  check_persistent(check);
  if (check.schedule.warps.empty()) return;
  const auto error = [&](const Location& where, const std::string& message, std::vector<std::string> notes) {
    check.errors.error(where, "warps: " + message, std::move(notes));
  };
  const Location where = check.place_of_key("warps");
  if (check.schedule.rewrite != RewriteMode::online)
    error(where, "roles need rewrite: online, whose kernel is one", {"leave it out"});
  for (const LoopNest& nest : check.nests)
    if (check.family_of(nest) != Family::wgmma)
      error(where,
            "consumers compute with wgmma, and the products of " + nest.root + " are by " +
                std::string(name_of(check.family_of(nest))),
            {"mma: wgmma"});
  for (const Operand& operand : check.operands) {
    const Placement* placement = check.schedule.find(operand.name);
    if (placement == nullptr || placement->copy() != CopyPath::tma)
      error(placement == nullptr ? where : placement->where,
            "a producer copies by tma, and " + operand.name + " is copied by " +
                std::string(name_of(placement == nullptr ? CopyPath::vector : placement->copy())),
            {operand.name + ": {stage_at: …, store_in: shared, copy: tma}"});
  }
}

}  // namespace

Family LegalityCheck::family_of(const LoopNest& nest) const {
  for (const Placement& placement : schedule.placements)
    if (placement.mma() != Family::unset && is_in(placement.name, nest)) return placement.mma();
  return Family::fma;
}

bool LegalityCheck::tf32_of(const LoopNest& nest) const {
  return std::any_of(schedule.placements.begin(), schedule.placements.end(), [&](const Placement& placement) {
    return placement.tf32() && placement.mma() == Family::mma_sync && is_in(placement.name, nest);
  });
}

void check_products(LegalityCheck& check) {
  check_roles(check);
  for (const LoopNest& nest : check.nests) {
    const Placement* first = nullptr;
    for (const Placement& placement : check.schedule.placements) {
      const Directive* mma = placement.find(DirectiveKind::mma);
      if (mma == nullptr || !check.is_in(placement.name, nest)) continue;
      if (first != nullptr && first->mma() != placement.mma())
        check.errors.error(mma->where, "mma of " + placement.name + ": " + std::string(name_of(placement.mma())) +
                                           ", and " + first->name + " of the same kernel has " +
                                           std::string(name_of(first->mma())));
      if (first == nullptr) first = &placement;
    }
    if (first != nullptr && first->mma() != Family::fma && nest.consistent) TensorCores(check, nest, *first).run();
  }
  for (const Placement& placement : check.schedule.placements) {
    check_tf32(check, placement);
    if (const Directive* copy = placement.find(DirectiveKind::copy);
        copy != nullptr && (check.role_of(placement.name) == NameRole::input || check.is_root(placement.name)))
      check_copy(check, placement, *copy);
  }
}

}  // namespace astatide
