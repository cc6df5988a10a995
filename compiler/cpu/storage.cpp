#include "compiler/cpu/storage.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide::cpu {
namespace {

using tile::Mem;

// Contiguous axis of each tile.
using Assignment = std::map<std::string, std::string>;

int lanes_of(std::int64_t extent, const CpuHost& host) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(extent, 1, host.lanes()))));
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

const Mem* tile_of(const tile::Kernel& kernel, const tile::Operand& operand) {
  const auto* name = std::get_if<tile::TileName>(&operand);
  return name ? kernel.find(*name) : nullptr;
}

class Cost {
 public:
  Cost(const tile::Kernel& kernel, const CpuHost& host, const Assignment& axes)
      : kernel_(kernel), host_(host), axes_(axes) {}

  double of(const tile::Block& block, double runs) const {
    double sum = 0;
    for (const tile::Stmt& stmt : block) {
      sum += match(
          stmt.node, [&](const tile::For& s) { return of(s.body, s.kind == tile::For::Kind::once ? runs : runs * 8); },
          [&](const tile::If& s) { return of(s.body, s.cold ? runs * 0.01 : runs); },
          [&](const tile::Role& s) { return of(s.body, runs); }, [&](const tile::Mma& s) { return runs * product(s); },
          [&](const tile::Copy& s) { return runs * copy(s); }, [&](const tile::Map& s) { return runs * map(s); },
          [&](const tile::RowReduce& s) { return runs * reduce(s); }, [](const auto&) { return 0.0; });
    }
    return sum;
  }

 private:
  double vectors(const Mem& mem) const {
    const auto axis = axes_.find(mem.name);
    if (axis == axes_.end()) return 1;
    const int extent = mem.extent_of(axis->second);
    const int lanes = lanes_of(extent, host_);
    return static_cast<double>(mem.element_count()) / extent * ((extent + lanes - 1) / lanes);
  }
  bool runs_along(const Mem& mem, const std::string& axis) const {
    const auto found = axes_.find(mem.name);
    return found != axes_.end() && found->second == axis;
  }
  std::string axis_of(const Mem& mem) const {
    const auto found = axes_.find(mem.name);
    return found == axes_.end() ? "" : found->second;
  }

  double product(const tile::Mma& s) const {
    const Mem *dst = kernel_.find(s.dst), *lhs = tile_of(kernel_, s.lhs), *rhs = tile_of(kernel_, s.rhs);
    if (!dst || !lhs || !rhs) return 0;
    const std::string vector = axis_of(*dst);
    double cost = vectors(*dst) * lhs->extent_of(axes_of(*dst, *lhs, *rhs).contracted);
    for (const Mem* operand : {lhs, rhs})
      if (operand->has_axis(vector) && !runs_along(*operand, vector))
        cost += 2.0 * static_cast<double>(operand->element_count());
    return cost;
  }
  // A copy between a tile and a tensor transposes, unless the tile's vectors run along the tensor's last index.
  double moved(const Mem& mem, const tile::View& view) const {
    const bool as_it_lies = !view.indices.empty() && free_variables(view.indices.back()).count(axis_of(mem)) != 0;
    return (as_it_lies ? 1 : 6) * vectors(mem);
  }
  double copy(const tile::Copy& s) const {
    const auto* dst = std::get_if<tile::TileName>(&s.dst);
    const auto* src = std::get_if<tile::TileName>(&s.src);
    if (const auto* view = std::get_if<tile::View>(&s.src)) return dst ? moved(*kernel_.find(*dst), *view) : 0;
    if (const auto* view = std::get_if<tile::View>(&s.dst)) return src ? moved(*kernel_.find(*src), *view) : 0;
    const auto name = [](const tile::CopyOperand& operand) {
      const auto* strip = std::get_if<tile::Strip>(&operand);
      return strip ? strip->tile : std::get<tile::TileName>(operand);
    };
    return between(*kernel_.find(name(s.dst)), *kernel_.find(name(s.src)),
                   dst   ? vectors(*kernel_.find(*dst))
                   : src ? vectors(*kernel_.find(*src))
                         : 0);
  }
  double between(const Mem& dst, const Mem& src, double dst_vectors) const {
    const std::string vector = axis_of(dst);
    const bool gathers = src.has_axis(vector) && !runs_along(src, vector);
    return dst_vectors * (gathers ? 2 * host_.lanes() : 1);
  }
  double map(const tile::Map& s) const {
    const Mem* dst = kernel_.find(s.dst);
    if (!dst) return 0;
    double cost = vectors(*dst);
    for (const std::string& name : free_variables(s.value))
      if (const Mem* src = kernel_.find(name)) cost += between(*dst, *src, vectors(*dst));
    return cost;
  }
  double reduce(const tile::RowReduce& s) const {
    const Mem *dst = kernel_.find(s.dst), *src = kernel_.find(s.src);
    if (!dst || !src) return 0;
    const bool across_lanes = !dst->has_axis(axis_of(*src));
    return vectors(*src) + (across_lanes ? 10.0 * static_cast<double>(dst->element_count()) : 0);
  }

  const tile::Kernel& kernel_;
  const CpuHost& host_;
  const Assignment& axes_;
};

// Tiles run along `preferred` where they have it, else along their last axis; then the vector operand of each product
// follows its result.
Assignment assign(const tile::Kernel& kernel, const std::string& preferred) {
  Assignment axes;
  std::set<std::string> fixed;
  for (const Mem& mem : kernel.mems) {
    if (mem.dims.empty()) continue;
    const bool has = mem.has_axis(preferred);
    axes[mem.name] = has ? preferred : mem.dims.back().axis;
    if (has) fixed.insert(mem.name);
  }
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    const auto* product = std::get_if<tile::Mma>(&stmt.node);
    if (!product) return;
    const auto result = axes.find(product->dst);
    if (result == axes.end()) return;
    for (const tile::Operand* operand : {&product->lhs, &product->rhs}) {
      const Mem* mem = tile_of(kernel, *operand);
      if (mem && mem->has_axis(result->second) && fixed.insert(mem->name).second) axes[mem->name] = result->second;
    }
  });
  return axes;
}

std::set<std::string> rings_taken_in_turn(const tile::Kernel& kernel) {
  std::set<std::string> names;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    if (const auto* s = std::get_if<tile::Acquire>(&stmt.node)) names.insert(s->tile);
    if (const auto* s = std::get_if<tile::Release>(&stmt.node)) names.insert(s->tile);
    if (const auto* s = std::get_if<tile::Reserve>(&stmt.node)) names.insert(s->tile);
  });
  return names;
}

Storage store(const Mem& mem, const std::string& vector_axis, const CpuHost& host) {
  Storage storage;
  storage.mem = &mem;
  storage.vector_axis = vector_axis;
  int vector_dim = -1;
  for (int d = 0; d < static_cast<int>(mem.dims.size()); ++d) {
    if (mem.dims[d].extent <= 0) throw InternalError("tile " + mem.name + " is empty along " + mem.dims[d].axis);
    if (mem.dims[d].axis == vector_axis)
      vector_dim = d;
    else
      storage.order.push_back(d);
  }
  std::int64_t elements = 1;
  if (vector_dim >= 0) {
    storage.order.push_back(vector_dim);
    const std::int64_t extent = mem.dims[vector_dim].extent;
    storage.lanes = lanes_of(extent, host);
    storage.stride[vector_axis] = 1;
    elements = round_up(extent, storage.lanes);
    // Rows a multiple of 2 KiB apart fall into few sets of the first cache.
    if (mem.dims.size() > 1 && elements * 4 % 2048 == 0) elements += host.lanes();
    for (int k = static_cast<int>(storage.order.size()) - 2; k >= 0; --k) {
      const tile::Dim& dim = mem.dims[storage.order[k]];
      storage.stride[dim.axis] = elements;
      if (elements > std::numeric_limits<std::int32_t>::max()) break;
      elements *= dim.extent;
    }
  }
  storage.slot_elements = elements;
  return storage;
}

}  // namespace

ProductAxes axes_of(const Mem& dst, const Mem& lhs, const Mem& rhs) {
  ProductAxes axes;
  for (const tile::Dim& dim : lhs.dims) {
    if (dst.has_axis(dim.axis)) continue;
    if (!rhs.has_axis(dim.axis) || !axes.contracted.empty())
      throw InternalError("product " + dst.name + ": axis " + dim.axis + " of " + lhs.name + " has no partner");
    axes.contracted = dim.axis;
  }
  for (const tile::Dim& dim : rhs.dims)
    if (!dst.has_axis(dim.axis) && dim.axis != axes.contracted)
      throw InternalError("product " + dst.name + ": axis " + dim.axis + " of " + rhs.name + " has no partner");
  if (axes.contracted.empty()) throw InternalError("product " + dst.name + " contracts no axis");
  return axes;
}

StoragePlan plan_storage(const tile::Kernel& kernel, const CpuHost& host) {
  std::set<std::string> candidates{""};
  for (const Mem& mem : kernel.mems)
    for (const tile::Dim& dim : mem.dims) candidates.insert(dim.axis);
  Assignment best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const std::string& preferred : candidates) {
    const Assignment axes = assign(kernel, preferred);
    const double cost = Cost(kernel, host, axes).of(kernel.body, 1);
    if (cost < best_cost) {
      best = axes;
      best_cost = cost;
    }
  }

  StoragePlan plan;
  const std::set<std::string> rings = rings_taken_in_turn(kernel);
  for (const Mem& mem : kernel.mems) {
    if (mem.space == Space::global) throw InternalError("tile " + mem.name + " lies in global memory");
    const auto axis = best.find(mem.name);
    Storage storage = store(mem, axis == best.end() ? "" : axis->second, host);
    storage.slots = rings.count(mem.name) ? mem.ring : 1;
    storage.offset = plan.bytes;
    // One vector of slack: the last vector of a strip's slice may reach beyond it.
    const std::int64_t elements = storage.slot_elements * storage.slots + host.lanes();
    plan.bytes += round_up(elements * storage.element_bytes(), 64);
    if (storage.slot_elements > kMaxWorkspaceBytes || plan.bytes > kMaxWorkspaceBytes)
      throw UserError("the tiles of kernel " + kernel.name + " need more than " + std::to_string(kMaxWorkspaceBytes) +
                      " bytes a thread");
    plan.tiles.emplace(mem.name, std::move(storage));
  }
  plan.pack_offset = plan.bytes;
  std::int64_t packed = 0;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    const auto* product = std::get_if<tile::Mma>(&stmt.node);
    if (!product || !plan.tiles.count(product->dst)) return;
    const Storage& dst = plan.tiles.at(product->dst);
    for (const tile::Operand* operand : {&product->lhs, &product->rhs}) {
      const Mem* mem = tile_of(kernel, *operand);
      if (!mem || !mem->has_axis(dst.vector_axis) || plan.tiles.at(mem->name).vector_axis == dst.vector_axis) continue;
      const int extent = mem->extent_of(dst.vector_axis);
      packed = std::max(packed, mem->element_count() / extent * round_up(extent, dst.lanes));
    }
  });
  plan.bytes += round_up(packed * 4, 64);
  return plan;
}

}  // namespace astatide::cpu
