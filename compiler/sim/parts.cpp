#include "compiler/sim/parts.h"

#include <algorithm>

#include "compiler/tile/parameters.h"
#include "compiler/tile/thread_grid.h"

namespace astatide::sim {

using tile::Kernel;
using tile::Mem;
using tile::Stmt;
using tile::ThreadGrid;

namespace {

constexpr int kRunBytes = 16;  // that a thread copies at a time, at most

int thread_row(const ThreadGrid& grid, int row) {
  const int unit = std::max(1, grid.row_unit), groups = std::max(1, grid.rows / unit);
  return row / unit / grid.row_vector % groups * unit + row % unit;
}

int thread_column(const ThreadGrid& grid, int column) { return column / grid.column_vector % grid.columns; }

Part part_of_warp(const ThreadGrid& grid, const Mem& shape, int warp) {
  Part part;
  const int first = warp * tile::kWarp, last = first + tile::kWarp - 1;
  part.rows.resize(static_cast<std::size_t>(shape.dims[0].extent));
  for (int row = 0; row < shape.dims[0].extent; ++row) {
    const int begin = thread_row(grid, row) * grid.columns;
    part.rows[static_cast<std::size_t>(row)] = begin <= last && begin + grid.columns > first ? 1 : 0;
  }
  if (grid.columns <= tile::kWarp || shape.dims.size() < 2) return part;
  part.columns.resize(static_cast<std::size_t>(shape.dims[1].extent));
  for (int column = 0; column < shape.dims[1].extent; ++column)
    part.columns[static_cast<std::size_t>(column)] =
        thread_column(grid, column) / tile::kWarp == warp % (grid.columns / tile::kWarp);
  return part;
}

std::vector<Part> by_grid(const Kernel& kernel, const ThreadGrid& grid, const Mem& shape) {
  std::vector<Part> out;
  const bool of_team = grid.rows * grid.columns == kernel.threads();
  for (int warp = 0; warp < warps_of(kernel); ++warp)
    out.push_back(part_of_warp(grid, shape, of_team ? warp % warps_of_team(kernel) : warp));
  return out;
}

}  // namespace

int warps_of(const Kernel& kernel) { return kernel.teams * warps_of_team(kernel); }
int warps_of_team(const Kernel& kernel) { return std::max(1, kernel.threads() / tile::kWarp); }

bool is_of_team(const Kernel& kernel, const Mem& mem) {
  const ThreadGrid* grid = tile::find_grid(mem);
  return kernel.teams > 1 && (!grid || grid->rows * grid->columns == kernel.threads());
}

std::vector<Part> in_runs(const Mem& shape, int warps) {
  std::vector<Part> out;
  for (int warp = 0; warp < warps; ++warp) {
    Part part;
    part.run = std::max(1, kRunBytes / static_cast<int>(size_in_bytes(shape.type)));
    part.first = warp, part.step = warps;
    part.extent = shape.dims.back().extent;
    part.two_axes = shape.dims.size() == 2;
    out.push_back(part);
  }
  return out;
}

namespace {

/// TMA stores the rows of a warpgroup together; its first warp starts that.
std::vector<Part> by_warpgroups(const Kernel& kernel, const Mem& shape) {
  std::vector<Part> out;
  for (int warp = 0; warp < warps_of(kernel); ++warp) {
    Part part;
    part.rows.resize(static_cast<std::size_t>(shape.dims[0].extent));
    const int per_group = tile::kWarpgroup / tile::kWarp;
    for (std::size_t row = 0; row < part.rows.size(); ++row)
      part.rows[row] =
          warp % per_group == 0 && static_cast<int>(row) / tile::kStoredRows % kernel.warpgroups() == warp / per_group;
    out.push_back(part);
  }
  return out;
}

class Tiles {
 public:
  explicit Tiles(const Kernel& kernel) : kernel_(kernel) {}
  void add(const std::string& name) {
    if (const Mem* mem = kernel_.find(name)) found_.push_back(mem);
  }
  void add(const Expr& e) {
    for (const std::string& name : free_variables(e)) add(name);
  }
  const std::vector<const Mem*>& all() const { return found_; }
  /// The one with the most axes.
  const Mem* widest() const {
    const auto found = std::max_element(found_.begin(), found_.end(),
                                        [](const Mem* a, const Mem* b) { return a->dims.size() < b->dims.size(); });
    return found == found_.end() ? nullptr : *found;
  }

 private:
  const Kernel& kernel_;
  std::vector<const Mem*> found_;
};

/// The tile that a statement goes through, and the tiles whose grid deals it out; no shape where it goes through none.
struct Dealt {
  const Mem* shape = nullptr;
  ThreadGrid grid;
};

Dealt dealt_of(const Kernel& kernel, const Stmt& stmt) {
  Tiles tiles(kernel);
  const auto among = [&](const std::string& shape) -> Dealt {
    return {kernel.find(shape), tile::grid_for(kernel, tiles.all())};
  };
  if (const auto* s = std::get_if<tile::Fill>(&stmt.node)) {
    tiles.add(s->dst);
    return among(s->dst);
  }
  if (const auto* s = std::get_if<tile::Map>(&stmt.node)) {
    tiles.add(s->dst);
    tiles.add(s->value);
    return among(s->dst);
  }
  if (const auto* s = std::get_if<tile::RowReduce>(&stmt.node)) {
    tiles.add(s->src);
    tiles.add(s->dst);
    return among(s->src);
  }
  if (const auto* s = std::get_if<tile::AllReduce>(&stmt.node)) {
    tiles.add(s->tile);
    return among(s->tile);
  }
  if (const auto* s = std::get_if<tile::Mma>(&stmt.node)) {
    tiles.add(s->dst);
    return among(s->dst);
  }
  if (const auto* s = std::get_if<tile::Vote>(&stmt.node)) {
    tiles.add(s->condition);
    if (tiles.widest()) return among(tiles.widest()->name);
  }
  if (const auto* s = std::get_if<tile::Copy>(&stmt.node)) {
    for (const tile::CopyOperand* operand : {&s->dst, &s->src}) {
      if (const auto* name = std::get_if<tile::TileName>(operand)) tiles.add(*name);
      if (const auto* strip = std::get_if<tile::Strip>(operand)) tiles.add(strip->tile);
    }
    const auto* dst = std::get_if<tile::TileName>(&s->dst);
    return among(dst ? *dst : std::get<tile::TileName>(s->src));
  }
  return {};
}

/// Whether a copy brings elements of a tensor into shared memory, run after run.
bool in_runs(const tile::Copy& copy, const Mem& shape) {
  return std::holds_alternative<tile::View>(copy.src) && shape.space == Space::shared;
}

}  // namespace

std::uint32_t grid_of_elements(const Kernel& kernel, const Stmt& stmt) {
  const Dealt dealt = dealt_of(kernel, stmt);
  const auto* copy = std::get_if<tile::Copy>(&stmt.node);
  if (!dealt.shape || std::holds_alternative<tile::Mma>(stmt.node) || (copy && copy->via == tile::Via::ldmatrix))
    return 0;
  constexpr std::uint32_t kRuns = 1;
  if (copy && in_runs(*copy, *dealt.shape)) return kRuns;
  const ThreadGrid& grid = dealt.grid;
  std::uint32_t number = kRuns + 1;
  for (const int part : {grid.rows, grid.columns, grid.row_vector, grid.column_vector, grid.row_unit})
    number = number * 61 + static_cast<std::uint32_t>(part);
  return number;
}

bool Part::holds(const tile::ElementCounter& element) const {
  if (run > 0) {
    const int across = (extent + run - 1) / run;
    const int number = two_axes ? element[0] * across + element[1] / run : element[0] / run;
    return number % step == first;
  }
  return holds_row(element[0]) && (columns.empty() || columns[static_cast<std::size_t>(element[1])] != 0);
}

bool held_by_each_warp(const Mem& mem) {
  const auto* rows = std::get_if<tile::RowsOf>(&mem.layout);
  return rows && rows->grid.columns > tile::kWarp;
}

std::vector<Part> parts_of(const Kernel& kernel, const Stmt& stmt) {
  const auto [shape, grid] = dealt_of(kernel, stmt);
  if (!shape) return {};
  const auto* copy = std::get_if<tile::Copy>(&stmt.node);
  if (copy && in_runs(*copy, *shape)) {
    const std::vector<Part> of_team = in_runs(*shape, warps_of_team(kernel));
    std::vector<Part> all;
    for (int team = 0; team < kernel.teams; ++team) all.insert(all.end(), of_team.begin(), of_team.end());
    return all;
  }
  if (copy && copy->via == tile::Via::tma) return by_warpgroups(kernel, *shape);
  std::vector<Part> out = by_grid(kernel, grid, *shape);
  // Of a row that several warps hold, one stores the numbers.
  if (copy && std::holds_alternative<tile::View>(copy->dst) && shape->dims.size() == 1 && grid.columns > tile::kWarp)
    for (std::size_t warp = 0; warp < out.size(); ++warp)
      if (static_cast<int>(warp) % (grid.columns / tile::kWarp) != 0)
        std::fill(out[warp].rows.begin(), out[warp].rows.end(), 0);
  return out;
}

}  // namespace astatide::sim
