#include "compiler/cost/demand.h"

#include <algorithm>
#include <cmath>

#include "compiler/cost/conflicts.h"
#include "compiler/support/match.h"
#include "compiler/tile/thread_grid.h"

namespace astatide::cost {
namespace {

constexpr double kLanes = 32;
/// Of a warp that is alone: results wait for results, so not every clock has an instruction ready.
constexpr double kIssueAlone = 0.65;
/// Clocks until the other lanes' values have come by shuffle, and until a vote is known.
constexpr double kShuffleLatency = 25, kVoteLatency = 30;
/// From the last operand to the first result of a product by mma.sync, its ldmatrix included.
constexpr double kProductLatency = 60;
/// Instructions for each: address, predicate and loop of a copy of 16 bytes a thread, of a store, of a branch.
constexpr double kCopyIssue = 4, kVectorCopyIssue = 8, kStoreIssue = 6, kBranchIssue = 4;
constexpr double kTmaIssue = 30;
/// Clocks of a multiply-add of a product on lanes, whose operands are in banks of registers that others want: kernels
/// of 128x64 tiles reach 0.6 of the rate.
constexpr double kLaneProductIssue = 1.65;
/// Beside an mma.sync or an ldmatrix: addresses.
constexpr double kMatrixIssue = 1.4;

}  // namespace

Demand& Demand::operator+=(const Demand& other) {
  issue += other.issue;
  arithmetic += other.arithmetic;
  special += other.special;
  tensor += other.tensor;
  shared += other.shared;
  latency += other.latency;
  conflicts += other.conflicts;
  return *this;
}

double Demand::alone() const { return std::max({issue / kIssueAlone, arithmetic, special, tensor, shared}) + latency; }

Demands::Demands(const tile::Program& program, const tile::Kernel& kernel, const Machine& machine,
                 int spilled_registers)
    : program_(program), kernel_(kernel), machine_(machine), spilled_(spilled_registers) {
  threads_ = std::max(1, kernel.threads());
  warps_ = std::max(1, static_cast<int>(threads_ * kernel.teams / kLanes) / kQuarters);
}

double Demands::held(const tile::Mem& mem) const {
  const tile::ThreadGrid* grid = tile::find_grid(mem);
  const bool rows_alone = std::holds_alternative<tile::RowsOf>(mem.layout);
  const auto part = [](int extent, int threads, int vector) {
    return static_cast<double>((extent + threads * vector - 1) / (threads * vector) * vector);
  };
  if (!grid || mem.dims.empty()) return std::max(1.0, static_cast<double>(mem.element_count()) / threads_);
  double count = part(mem.dims[0].extent, grid->rows, grid->row_vector);
  if (!rows_alone && mem.dims.size() > 1) count *= part(mem.dims[1].extent, grid->columns, grid->column_vector);
  return count;
}

double Demands::tile_bytes(const tile::Mem& mem) const {
  return static_cast<double>(mem.element_count()) * size_in_bytes(mem.type);
}

/// Elements of a tile, without those beyond a limit that is known when the kernel is compiled.
double Demands::inside(const std::vector<tile::Coordinate>& at, const tile::Mem& mem) const {
  double count = 1;
  for (const tile::Dim& dim : mem.dims) {
    double extent = dim.extent;
    for (const tile::Coordinate& coordinate : at) {
      if (coordinate.axis != dim.axis || !coordinate.limit || !coordinate.origin.is_constant(0)) continue;
      const auto names = free_variables(*coordinate.limit);
      const bool known = std::all_of(names.begin(), names.end(),
                                     [&](const std::string& name) { return program_.known.contains(name); });
      if (known && tensors_read(*coordinate.limit).empty())
        extent = std::min(extent, static_cast<double>(evaluate_integer(*coordinate.limit, program_.known)));
    }
    count *= extent;
  }
  return count;
}

/// Instructions and results of the special-function unit of an expression, for one element. A multiplication inside a
/// sum is part of a multiply-add.
Demands::Counts Demands::count(const Expr& e, bool in_sum) const {
  Counts out;
  const auto* c = e.as<Call>();
  const bool sums = c && (c->op == Op::add || c->op == Op::sub);
  for (const Expr& child : children(e)) {
    const Counts inner = count(child, sums);
    out.issue += inner.issue;
    out.special += inner.special;
  }
  if (e.as<Read>()) out.issue += 4;
  if (!c) return out;
  const auto add = [&](double issue, double special) {
    out.issue += issue;
    out.special += special;
  };
  switch (c->op) {
    case Op::mul:
      add(in_sum ? 0 : 1, 0);
      break;
    case Op::neg:
    case Op::abs:
    case Op::logical_not:
      break;
    case Op::exp2:
      add(1, 1);
      break;
    case Op::exp:
    case Op::log:
    case Op::log2:
    case Op::sqrt:
      add(2, 1);
      break;
    case Op::tanh:
    case Op::sigmoid:
    case Op::pow:
      add(6, 2);
      break;
    case Op::div:
      add(3, 1);
      break;
    case Op::floor_div:
    case Op::mod:
      add(8, 0);
      break;
    case Op::safe:
    case Op::absorb:
      add(2, 0);
      break;
    default:
      add(1, 0);
  }
  return out;
}

Demand Demands::elements(double count, const Counts& counts) const {
  Demand out;
  out.issue = count * counts.issue;
  out.arithmetic = count * (counts.issue - counts.special) * kLanes * kQuarters / machine_.lanes;
  out.special = count * counts.special * kLanes * kQuarters / machine_.special_lanes;
  return out;
}

void Demands::add_shared(Demand& demand, double bytes, double conflicts) const {
  const double clocks = bytes / (machine_.shared_bytes / kQuarters);
  demand.shared += clocks * conflicts;
  demand.conflicts += clocks * (conflicts - 1);
}

Demand Demands::of_map(const tile::Map& map) const {
  const tile::Mem& dst = *kernel_.find(map.dst);
  double share = 1;
  if (map.columns && !dst.dims.empty())
    share = static_cast<double>(map.columns->end - map.columns->begin) / dst.dims.back().extent;
  const double elements_held = share * held(dst);
  Counts counts = count(map.value, false);
  // A value as it is moves no register that the compiler can't rename.
  if (map.value.as<Variable>() && dst.space == Space::register_file) counts.issue = 0;
  if (!map.where_predicates.empty() || (map.absent && !map.at.empty())) {
    // One comparison of the column with what is constant in its row, and a selection; more predicates more.
    counts.issue += 2 + 2 * std::max(0.0, static_cast<double>(map.where_predicates.size()) - 1);
  }
  if (map.polynomial && counts.special > 0) {
    const double part = static_cast<double>(map.polynomial->part) / static_cast<double>(map.polynomial->whole);
    counts.special -= part;
    counts.issue += 6 * part;
  }
  Demand out = elements(elements_held, counts);
  const tile::ThreadGrid grid = tile::grid_for(kernel_, {&dst});
  const auto touch = [&](const tile::Mem& mem) {
    if (mem.space != Space::shared) return;
    out.issue += share * held(dst) / 2;
    add_shared(out, share * tile_bytes(mem) / (threads_ / kLanes), element_conflicts(mem, grid));
  };
  touch(dst);
  for (const std::string& name : free_variables(map.value))
    if (const tile::Mem* mem = kernel_.find(name)) touch(*mem);
  return out;
}

Demand Demands::of_reduce(const tile::RowReduce& reduce) const {
  const tile::Mem& src = *kernel_.find(reduce.src);
  double share = 1;
  if (reduce.columns) share = static_cast<double>(reduce.columns->end - reduce.columns->begin) / src.dims.back().extent;
  Demand out = elements(share * held(src), {1, 0});
  if (src.space == Space::shared)
    add_shared(out, share * tile_bytes(src) / (threads_ / kLanes),
               element_conflicts(src, tile::grid_for(kernel_, {&src})));
  return out;
}

/// A row's shares brought together over the lanes that hold it.
Demand Demands::of_lanes(const tile::Mem& mem) const {
  const tile::ThreadGrid* grid = tile::find_grid(mem);
  const double steps = std::log2(std::max(1, grid ? grid->columns : kernel_.thread_columns));
  const double rows = held(mem);
  Demand out = elements(rows * steps, {2, 0});
  out.shared = rows * steps * kQuarters;
  out.latency = steps * kShuffleLatency;
  return out;
}

Demand Demands::of_vote(const tile::Vote& vote) const {
  double most = 1;
  for (const std::string& name : free_variables(vote.condition))
    if (const tile::Mem* mem = kernel_.find(name)) most = std::max(most, held(*mem));
  Demand out = elements(most, count(vote.condition, false));
  out.issue += kBranchIssue;
  out.latency = kVoteLatency;
  return out;
}

/// By mma.sync: m16n8k16, or m16n8k8 of tf32. Each warp has rows of its own, and reads all of the right operand.
Demand Demands::of_warp_product(const tile::Mma& mma) const {
  const tile::Mem& dst = *kernel_.find(mma.dst);
  const double warps = std::max(1.0, threads_ / kLanes);
  const double depth = tile::contraction_of(program_, kernel_, mma).extent;
  const double rows = std::max(16.0, dst.dims[0].extent / warps);
  const double columns = dst.dims.size() > 1 ? dst.dims[1].extent : 8;
  const double flops = 2 * rows * std::ceil(columns / 8) * 8 * depth;
  const double instructions = flops / (mma.tf32 ? 2.0 * 16 * 8 * 8 : 2.0 * 16 * 8 * 16);
  Demand out;
  out.tensor =
      flops / ((mma.tf32 ? machine_.tensor_tf32_flops : machine_.tensor_flops) * machine_.tensor_share / kQuarters);
  out.issue = instructions;
  const auto read_operand = [&](const tile::Operand& operand, double share) {
    const auto* name = std::get_if<tile::TileName>(&operand);
    const tile::Mem* mem = name ? kernel_.find(*name) : nullptr;
    if (!mem || mem->space != Space::shared) return;
    const double bytes = share * tile_bytes(*mem);
    // An ldmatrix brings 512 bytes; tf32 is read and rounded element by element.
    out.issue += mma.tf32 ? 4 * bytes / 4 / kLanes : bytes / 512 * kMatrixIssue;
    add_shared(out, bytes, matrix_conflicts(*mem));
  };
  read_operand(mma.lhs, 1 / warps);
  read_operand(mma.rhs, 1);
  out.arithmetic = (out.issue - instructions) * kLanes * kQuarters / machine_.lanes;
  // What is spilled is stored and loaded again around the products that need the registers.
  out.shared += 2 * spilled_ * kQuarters;
  out.issue += 2 * spilled_;
  out.latency = kProductLatency;
  return out;
}

/// By multiply-adds of lanes, operands from shared memory four columns at a time.
Demand Demands::of_lane_product(const tile::Mma& mma) const {
  const tile::Mem& dst = *kernel_.find(mma.dst);
  const double depth = tile::contraction_of(program_, kernel_, mma).extent;
  const tile::ThreadGrid* grid = tile::find_grid(dst);
  Demand out = elements(held(dst) * depth, {kLaneProductIssue, 0});
  if (!grid || dst.dims.size() < 2) return out;
  const double rows = std::ceil(static_cast<double>(dst.dims[0].extent) / grid->rows), columns = held(dst) / rows;
  const auto read_operand = [&](const tile::Operand& operand, double values, bool by_rows) {
    const auto* name = std::get_if<tile::TileName>(&operand);
    const tile::Mem* mem = name ? kernel_.find(*name) : nullptr;
    if (!mem || mem->space != Space::shared) return;
    const double loads = values * depth / 4;
    const double narrow = mem->type == ScalarType::f32 ? 0 : 1;
    out.issue += loads * (1 + 4 * narrow);
    // Of 512 bytes that the lanes ask for, half are the same.
    add_shared(out, loads * 4 * kLanes * size_in_bytes(mem->type) / 2, operand_conflicts(*mem, *grid, by_rows));
  };
  read_operand(mma.lhs, rows, true);
  read_operand(mma.rhs, columns, false);
  out.latency = machine_.shared_latency;
  return out;
}

Product Demands::product_of(const tile::Mma& mma) const {
  const tile::Mem& dst = *kernel_.find(mma.dst);
  const double groups = std::max(1, kernel_.warpgroups());
  const double depth = tile::contraction_of(program_, kernel_, mma).extent;
  const double rows = std::max(64.0, dst.dims[0].extent / groups), columns = dst.dims.back().extent;
  const auto* lhs = std::get_if<tile::TileName>(&mma.lhs);
  const bool shared = lhs && kernel_.find(*lhs)->space == Space::shared;
  // A step takes 16 of the depth: 64 rows of the left operand and all columns of the right one come from shared memory.
  const double steps = rows / 64 * depth / 16;
  const double bytes = ((shared ? 64 : 0) + columns) * 16 * 2;
  const double clocks =
      std::max(2 * 64 * columns * 16 / (machine_.wgmma_flops * machine_.wgmma_share), bytes / machine_.shared_bytes);
  return {steps * clocks, !shared};
}

/// Rows of fragments leave in vectors of 16 bytes, for which neighbouring lanes exchange what they hold.
Demand Demands::of_store(const tile::Mem& mem, double bytes) const {
  const double count = held(mem), stores = bytes / (threads_ / kLanes) / kLanes / 16;
  const bool narrow = size_in_bytes(mem.type) == 4 && bytes < tile_bytes(mem);
  Demand out = elements(count, {narrow ? 0.5 : 0.0, 0});
  out.issue += std::max(1.0, stores) * kStoreIssue;
  if (const tile::ThreadGrid* grid = tile::find_grid(mem); grid && grid->column_vector == 2 && mem.dims.size() > 1) {
    const double words = count * (narrow ? 0.5 : 1);
    out.issue += 2 * words;
    out.shared += words * kQuarters;
    out.latency += 2 * kShuffleLatency;
  }
  return out;
}

Transfer Demands::transfer_of(const tile::Copy& copy) const {
  const auto of_view = [&](const tile::View& view, const tile::CopyOperand& other, bool write) -> Transfer {
    const auto* name = std::get_if<tile::TileName>(&other);
    if (!name) return {};
    const tile::Mem& mem = *kernel_.find(*name);
    double bytes = inside(view.at, mem) * size_in_bytes(program_.find_tensor(view.tensor)->type);
    if (copy.multicast) bytes /= kernel_.cluster_blocks();
    return {view.tensor, bytes, write};
  };
  if (const auto* view = std::get_if<tile::View>(&copy.src)) return of_view(*view, copy.dst, false);
  if (const auto* view = std::get_if<tile::View>(&copy.dst)) return of_view(*view, copy.src, true);
  return {};
}

Demand Demands::of_copy(const tile::Copy& copy) const {
  Demand out;
  const Transfer transfer = transfer_of(copy);
  if (copy.via == tile::Via::tma) {
    out.issue = kTmaIssue * copy.boxes;
    return out;
  }
  const auto tile_of = [&](const tile::CopyOperand& operand) -> const tile::Mem* {
    if (const auto* name = std::get_if<tile::TileName>(&operand)) return kernel_.find(*name);
    if (const auto* strip = std::get_if<tile::Strip>(&operand)) return kernel_.find(strip->tile);
    return nullptr;
  };
  const tile::Mem *src = tile_of(copy.src), *dst = tile_of(copy.dst);
  if (transfer.write) return of_store(*src, transfer.bytes);
  if (!transfer.tensor.empty()) {
    const double vectors = transfer.bytes / threads_ / 16;
    const bool direct = copy.via == tile::Via::cp_async;
    out.issue = std::max(1.0, vectors) * (direct ? kCopyIssue : kVectorCopyIssue);
    if (dst->space == Space::shared) add_shared(out, tile_bytes(*dst) / (threads_ / kLanes), 1);
    return out;
  }
  // Between tiles: a conversion where types differ, two elements an instruction at half the rate.
  const tile::Mem& held_by = dst->space == Space::register_file ? *dst : *src;
  const double count = held(held_by);
  if (src->type != dst->type) {
    out.issue += count / 2;
    out.arithmetic += count * kLanes * kQuarters / machine_.lanes;
  }
  const tile::ThreadGrid grid = tile::grid_for(kernel_, {&held_by});
  for (const tile::Mem* mem : {src, dst}) {
    if (mem->space != Space::shared) continue;
    const bool matrix = copy.via == tile::Via::ldmatrix;
    const double bytes = count * size_in_bytes(mem->type) * kLanes;
    out.issue += bytes / (matrix ? 512 : 256) * kMatrixIssue;
    add_shared(out, bytes, matrix ? matrix_conflicts(*mem) : element_conflicts(*mem, grid));
    out.latency += machine_.shared_latency;
  }
  return out;
}

Demand Demands::of(const tile::Stmt& stmt) const {
  Demand out;
  if (const auto* s = std::get_if<tile::Map>(&stmt.node)) return of_map(*s);
  if (const auto* s = std::get_if<tile::RowReduce>(&stmt.node)) return of_reduce(*s);
  if (const auto* s = std::get_if<tile::AllReduce>(&stmt.node)) return of_lanes(*kernel_.find(s->tile));
  if (const auto* s = std::get_if<tile::Vote>(&stmt.node)) return of_vote(*s);
  if (const auto* s = std::get_if<tile::Copy>(&stmt.node)) return of_copy(*s);
  if (const auto* s = std::get_if<tile::Fill>(&stmt.node)) {
    if (!std::isnan(s->value)) out = elements(held(*kernel_.find(s->dst)), {1, 0});
    return out;
  }
  if (const auto* s = std::get_if<tile::Mma>(&stmt.node)) {
    if (s->by == tile::Family::fma) return of_lane_product(*s);
    if (s->by == tile::Family::mma_sync) return of_warp_product(*s);
    // Descriptors, and a fence in front of a group.
    out.issue = 4.0 * tile::contraction_of(program_, kernel_, *s).extent / 16 + 8;
    return out;
  }
  if (std::holds_alternative<tile::For>(stmt.node) || std::holds_alternative<tile::If>(stmt.node))
    out.issue = kBranchIssue;
  return out;
}

}  // namespace astatide::cost
