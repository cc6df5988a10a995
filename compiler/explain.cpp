#include "compiler/explain.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/algorithm/names.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/rewrite/cascade.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/round_up.h"
#include "compiler/tile/bounds.h"

namespace astatide {
namespace {

bool is_shared(const tile::Mem& mem) { return mem.space == Space::shared; }

/// Columns that the storage of a tile has; those that only keep rows out of each other's banks are none.
int held_columns(const tile::Mem& mem) {
  if (std::holds_alternative<tile::Panels>(mem.layout)) return tile::panel_columns(mem);
  const auto* grid = std::get_if<tile::ThreadGrid>(&mem.layout);
  const int columns = mem.dims.back().extent;
  return grid ? round_up(columns, grid->columns * grid->column_vector) : columns;
}

/// Columns of one axis of a kernel on tensor cores, all of which lie in one tile.
struct WholeAxis {
  int used = 0, computed = 0;
};

/// By name, those whose extents are known when the kernel is compiled.
std::map<std::string, WholeAxis> whole_axes_of(const tile::Program& program, const tile::Kernel& kernel) {
  std::map<std::string, WholeAxis> axes;
  const auto add = [&](const std::vector<tile::Coordinate>& at) {
    for (const tile::Coordinate& coordinate : at) {
      if (!coordinate.limit || !coordinate.origin.is_constant(0)) continue;
      const std::set<std::string> names = free_variables(*coordinate.limit);
      if (tensors_read(*coordinate.limit).empty() &&
          std::all_of(names.begin(), names.end(), [&](const auto& name) { return program.known.contains(name); }))
        axes[coordinate.axis].used = static_cast<int>(evaluate_integer(*coordinate.limit, program.known));
    }
  };
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    if (const auto* copy = std::get_if<tile::Copy>(&stmt.node)) {
      if (const auto* view = std::get_if<tile::View>(&copy->src)) add(view->at);
      if (const auto* view = std::get_if<tile::View>(&copy->dst)) add(view->at);
    }
  });
  for (const tile::Mem& mem : kernel.mems) {
    if (mem.dims.empty() || !axes.contains(mem.dims.back().axis)) continue;
    // An operand in panels holds more columns than an instruction takes of it.
    const int columns =
        std::holds_alternative<tile::ThreadGrid>(mem.layout) ? held_columns(mem) : mem.dims.back().extent;
    int& computed = axes[mem.dims.back().axis].computed;
    computed = std::max(computed, columns);
  }
  return axes;
}

std::vector<BufferUse> buffers_of(const tile::Program& program, const tile::Kernel& kernel) {
  std::map<std::string, WholeAxis> axes;
  if (tile::on_tensor_cores(kernel.body)) axes = whole_axes_of(program, kernel);
  std::vector<BufferUse> out;
  for (const tile::Mem& mem : kernel.mems) {
    BufferUse& use = out.emplace_back(BufferUse{mem.name, mem.space, mem.type, mem.dims, mem.ring, 0, mem.alias, {}});
    use.bytes = is_shared(mem) ? shared_bytes_of(mem) : mem.byte_count();
    const auto axis = mem.dims.empty() ? axes.end() : axes.find(mem.dims.back().axis);
    if (axis == axes.end()) continue;
    const Padding padding{axis->first, axis->second.used, axis->second.computed,
                          std::max(held_columns(mem), axis->second.used)};
    if (padding.computed > padding.used || padding.held > padding.used) use.padding = padding;
  }
  return out;
}

double compulsory_bytes(const tile::KernelStatistics& kernel, const std::vector<tile::TensorSize>& tensors) {
  double bytes = 0;
  for (const auto& [name, traffic] : kernel.global) {
    const auto size = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    if (size == tensors.end()) continue;
    bytes += std::min(traffic.read, size->bytes) + std::min(traffic.written, size->bytes);
  }
  return bytes;
}

/// The lets that loops begin and end with.
std::vector<std::string> ranges_of(const tile::Kernel& kernel) {
  std::set<std::string> bounds;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    const auto* loop = std::get_if<tile::For>(&stmt.node);
    if (!loop) return;
    bounds.merge(free_variables(loop->begin));
    bounds.merge(free_variables(loop->end));
  });
  std::vector<std::string> out;
  std::map<std::string, Expr> searches;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    const auto* let = std::get_if<tile::Let>(&stmt.node);
    if (let && let->value.is_call(Op::count_below)) searches.emplace(let->name, let->value);
    // Once, where each role has it.
    if (let && bounds.erase(let->name) > 0)
      out.push_back(let->name + " = " + print_expr(substitute(let->value, searches), {}, true));
  });
  return out;
}

KernelUse use_of(const tile::Program& program, const tile::Kernel& kernel, const tile::KernelStatistics& statistics,
                 const Explanation& all) {
  KernelUse use;
  use.statistics = statistics;
  use.buffers = buffers_of(program, kernel);
  use.threads = kernel.teams * kernel.threads();
  if (all.target.is_cuda()) use.registers = fragment_registers(kernel);
  if (all.target.is_cuda() && use.threads > 0) {
    const cost::Occupancy occupancy =
        cost::occupancy_of(all.target, use.threads, statistics.shared_bytes, use.registers);
    use.blocks_per_sm = occupancy.blocks;
    use.limited_by = occupancy.limited_by;
  }
  use.ranges = ranges_of(kernel);
  use.compulsory_bytes = compulsory_bytes(statistics, all.statistics.tensors);
  if (all.peak)
    use.roofline =
        Roofline{(statistics.product_flops + statistics.element_flops) / all.peak->flops,
                 statistics.transcendentals / all.peak->transcendentals, use.compulsory_bytes / all.peak->bytes};
  return use;
}

std::optional<double> skipped_share(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options,
                                    const tile::Statistics& done) {
  Algorithm dense = algorithm;
  bool any = false;
  for (Func& func : dense.define) {
    any = any || func.where_predicate;
    func.where_predicate.reset();
  }
  if (!any) return 0;
  try {
    const tile::Program program = compile(dense, schedule, options);
    const double all =
        product_flops(statistics_of(program, cost::launch_extents(program, options.target, options.sizes)));
    return all > 0 ? std::max(0.0, 1 - product_flops(done) / all) : 0;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void check_sizes(const Algorithm& algorithm, const CompileOptions& options) {
  Diagnostics errors;
  for (const Extent& extent : algorithm.extents)
    if (!options.sizes.contains(extent.name)) errors.error({}, "nothing says how large " + extent.name + " is");
  errors.throw_if_any();
}

/// Sums are of `length` weights of up to 2^reach, each times an element, and an f32 ends at 2^128.
double largest_factor(int reach, std::int64_t length) {
  return std::ldexp(1.0, 128 - reach) / static_cast<double>(std::max<std::int64_t>(1, length));
}

/// Elements of the axis that a product of tiles sums over one tile at a time.
std::int64_t length_of(const tile::View& view, const tile::Kernel& kernel, const tile::Mma& mma,
                       const std::map<std::string, std::int64_t>& sizes) {
  const tile::Mem* dst = kernel.find(mma.dst);
  for (const tile::Coordinate& coordinate : view.at) {
    if (dst->has_axis(coordinate.axis) || !coordinate.limit) continue;
    const Expr length = tile::without_data(*coordinate.limit);
    if (tensors_read(length).empty()) return evaluate_integer(length, sizes);
  }
  return 1;
}

/// Of a program as lowered.
std::optional<RescaleUse> rescale_of(const tile::Program& program, const std::map<std::string, std::int64_t>& sizes) {
  std::optional<RescaleUse> out;
  for (const tile::Kernel& kernel : program.kernels) {
    std::set<tile::TileName> moving;
    tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
      const auto* advance = std::get_if<tile::Advance>(&stmt.node);
      if (!advance || !advance->slack) return;
      const bool lazy = advance->slack->witnesses.empty();
      out = RescaleUse{
          lazy ? RescaleMode::lazy : RescaleMode::optimistic, advance->slack->grow, advance->slack->over, {}};
      for (const tile::Advance::Move& move : advance->moving) moving.insert(move.tile);
    });
    tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
      const auto* mma = std::get_if<tile::Mma>(&stmt.node);
      const auto* view = mma && moving.contains(mma->dst) ? std::get_if<tile::View>(&mma->rhs) : nullptr;
      if (!view) return;
      const int reach = out->mode == RescaleMode::lazy ? out->grow : out->over;
      const double largest = largest_factor(reach, length_of(*view, kernel, *mma, sizes));
      const auto [entry, added] = out->largest.emplace(view->tensor, largest);
      if (!added) entry->second = std::min(entry->second, largest);
    });
  }
  return out;
}

bool computes(const tile::Kernel& kernel, Op op) {
  bool found = false;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    for (const Expr& value : tile::expressions_of(stmt))
      visit(value, [&](const Expr& e) { found = found || e.is_call(op); });
  });
  return found;
}

std::vector<ApproximationUse> approximations_in(const tile::Program& program, const Target& target) {
  std::vector<ApproximationUse> out;
  for (const Approximation& one : approximations_of(target)) {
    if (!contains(program.approximate, one.op)) continue;
    ApproximationUse& use = out.emplace_back(ApproximationUse{one, {}});
    for (const tile::Kernel& kernel : program.kernels)
      if (computes(kernel, one.op)) use.kernels.push_back(kernel.name);
  }
  return out;
}

/// Bytes of the states of parts, written and read again.
double state_bytes(const tile::Program& program, const tile::Statistics& statistics) {
  double bytes = 0;
  for (const tile::KernelStatistics& kernel : statistics.kernels)
    for (const auto& [name, traffic] : kernel.global)
      if (program.find_tensor(name)->role == tile::Tensor::Role::scratch) bytes += traffic.read + traffic.written;
  return bytes;
}

std::optional<PartsUse> parts_of(const tile::Program& program, const Algorithm& algorithm, const Schedule& schedule,
                                 const std::map<std::string, std::int64_t>& sizes, const tile::Statistics& statistics) {
  for (const Placement& placement : schedule.placements) {
    const std::optional<AxisParts> written = placement.rfactor();
    if (!written) continue;
    PartsUse out;
    out.axis = written->axis;
    const std::int64_t extent = evaluate_integer(find_cascade(algorithm).axis_extents.at(written->axis), sizes);
    const std::int64_t tile = *placement.tile_of(written->axis);
    out.tiles = round_up(extent, tile) / tile;
    out.parts = written->parts;
    if (program.parts) out.parts = sizes.at(program.parts->extent);
    if (written->size != 0) out.parts = std::max<std::int64_t>(1, round_up(extent, written->size) / written->size);
    out.tiles_each = written->size != 0 ? written->size / tile : round_up(out.tiles, out.parts) / out.parts;
    out.chosen = written->is_automatic();
    out.teams = written->teams;
    out.merge = placement.merge();
    out.merge_bytes = state_bytes(program, statistics);
    return out;
  }
  return std::nullopt;
}

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

ReductionTree tree_of(const tile::Program& program, const Algorithm& algorithm, const Schedule& schedule,
                      const std::map<std::string, std::int64_t>& sizes, const std::optional<PartsUse>& parts) {
  const Cascade cascade = find_cascade(algorithm);
  ReductionTree out;
  out.axis = cascade.axis;
  out.elements = evaluate_integer(cascade.axis_extents.at(cascade.axis), sizes);
  out.tile = out.elements;
  for (const Placement& placement : schedule.placements)
    if (const auto tile = placement.tile_of(cascade.axis)) out.tile = *tile;
  out.hash =
      hash_of(tile::print(program) + std::to_string(out.elements) + "/" + std::to_string(parts ? parts->parts : 1));
  return out;
}

}  // namespace

double product_flops(const tile::Statistics& statistics) {
  double flops = 0;
  for (const tile::KernelStatistics& kernel : statistics.kernels) flops += kernel.product_flops;
  return flops;
}

std::optional<Peak> peak_of(const Target& target) {
  if (!target.is_cuda()) return std::nullopt;
  const cost::Machine& machine = cost::machine_of(target);
  return Peak{machine.product, machine.flops(), machine.memory_rate, machine.specials()};
}

double Roofline::least() const { return std::max({arithmetic, transcendentals, memory}); }

std::string Roofline::binds() const {
  if (memory >= arithmetic && memory >= transcendentals) return "memory";
  return arithmetic >= transcendentals ? "arithmetic" : "special functions";
}

Explanation explain(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options) {
  check_sizes(algorithm, options);
  Explanation out;
  const tile::Program program =
      compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& lowered) {
        if (stage == "lower") out.rescale = rescale_of(lowered, options.sizes);
      });
  out.target = options.target;
  out.peak = peak_of(options.target);
  const std::map<std::string, std::int64_t> sizes = cost::launch_extents(program, options.target, options.sizes);
  out.statistics = statistics_of(program, sizes);
  out.cost = cost::predict(program, options.target, sizes);
  for (std::size_t n = 0; n < program.kernels.size(); ++n)
    out.kernels.push_back(use_of(program, program.kernels[n], out.statistics.kernels[n], out));
  out.approximations = approximations_in(program, options.target);
  out.parts = parts_of(program, algorithm, schedule, sizes, out.statistics);
  out.tree = tree_of(program, algorithm, schedule, sizes, out.parts);
  out.work = visible_work(algorithm, options.sizes);
  out.skipped = skipped_share(algorithm, schedule, options, out.statistics);
  return out;
}

}  // namespace astatide
