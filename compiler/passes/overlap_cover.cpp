#include "compiler/passes/overlap_cover.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/passes/overlap_parts.h"
#include "compiler/support/contains.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Kernel;
using tile::Map;
using tile::Mma;
using tile::RowReduce;
using tile::Stmt;
using tile::TileName;

/// The tile that a statement writes whole, where it is a map or a copy of tiles.
const TileName* written_by(const Stmt& stmt) {
  if (const auto* map = std::get_if<Map>(&stmt.node)) return &map->dst;
  if (const auto* copy = std::get_if<tile::Copy>(&stmt.node)) return std::get_if<TileName>(&copy->dst);
  return nullptr;
}

/// The tile that a statement takes over as it is, or masked.
std::optional<TileName> copied_by(const Stmt& stmt, const Kernel& kernel) {
  if (const auto* copy = std::get_if<tile::Copy>(&stmt.node)) {
    const auto* src = std::get_if<TileName>(&copy->src);
    return src ? std::optional(*src) : std::nullopt;
  }
  const auto& map = std::get<Map>(stmt.node);
  const auto* value = map.columns ? nullptr : map.value.as<Variable>();
  const bool copies = value && kernel.find(value->name) && kernel.find(value->name)->dims.size() == 2;
  return copies ? std::optional(value->name) : std::nullopt;
}

std::optional<std::size_t> last_writer(const Block& block, const TileName& tile, std::size_t before) {
  while (before-- > 0)
    if (const TileName* written = written_by(block[before]); written && *written == tile) return before;
  return std::nullopt;
}

std::vector<TileName> operands_of(const Mma& mma) {
  std::vector<TileName> out;
  for (const tile::Operand* operand : {&mma.lhs, &mma.rhs})
    if (const auto* name = std::get_if<TileName>(operand)) out.push_back(*name);
  return out;
}

/// The map that computes what the product reads, behind copies.
std::optional<std::size_t> weight_map(const Block& middle, const Mma& delayed, const Kernel& kernel) {
  for (const TileName& operand : operands_of(delayed)) {
    std::optional<std::size_t> at = last_writer(middle, operand, middle.size());
    while (at) {
      const std::optional<TileName> source = copied_by(middle[*at], kernel);
      if (!source) break;
      at = last_writer(middle, *source, *at);
    }
    if (at && std::get_if<Map>(&middle[*at].node)) return at;
  }
  return std::nullopt;
}

bool reduces(const Stmt& stmt, const TileName& tile) {
  const auto* reduce = std::get_if<RowReduce>(&stmt.node);
  return reduce && reduce->src == tile && !reduce->columns;
}

/// A statement of the group for a part of the columns; parts behind the first add to its reductions.
Stmt for_columns(Stmt stmt, const tile::Columns& columns) {
  if (auto* map = std::get_if<Map>(&stmt.node)) map->columns = columns;
  if (auto* reduce = std::get_if<RowReduce>(&stmt.node)) {
    reduce->columns = columns;
    reduce->accumulate = reduce->accumulate || columns.begin > 0;
  }
  return stmt;
}

}  // namespace

Block with_covered_await(Block middle, const Stmt& delayed, Kernel& kernel, FreshNames& names) {
  const auto& product = std::get<Mma>(delayed.node);
  const tile::Overlap& request = *kernel.overlap;
  const std::string cover = "cover " + to_string(request.cover);
  const Stmt await{tile::Await{product.token}};
  const auto at = weight_map(middle, product, kernel);
  if (!at)
    refuse_overlap(request,
                   fmt::format("{}: no map in the loop computes what the product of {} reads", cover, product.dst),
                   {"leave overlap out"});
  const std::size_t begin = *at;
  auto& map = std::get<Map>(middle[begin].node);
  const TileName weights = map.dst;
  const int whole = kernel.find(weights)->dims.back().extent;
  const std::int64_t covered = whole * request.cover.part / request.cover.whole;
  if (covered * request.cover.whole != whole * request.cover.part)
    refuse_overlap(request, fmt::format("{} of the {} columns of {} is no whole number", cover, whole, weights));
  std::size_t end = begin + 1;
  while (end < middle.size() && reduces(middle[end], weights)) ++end;
  if (covered == 0) {
    middle.insert(middle.begin() + static_cast<std::ptrdiff_t>(std::min(begin, first_conflict(middle, delayed))),
                  await);
    return middle;
  }

  const std::vector<TileName> operands = operands_of(product);
  if (contains(operands, weights)) {
    tile::Mem aside = *kernel.find(weights);
    aside.name = names.fresh(weights + "_next");
    aside.space = Space::register_file;
    aside.type = ScalarType::f32;
    aside.align.clear();
    map.dst = aside.name;
    for (std::size_t n = begin + 1; n < end; ++n) std::get<RowReduce>(middle[n].node).src = aside.name;
    middle.insert(middle.begin() + static_cast<std::ptrdiff_t>(end),
                  Stmt{Map{weights, std::nullopt, variable(aside.name), {}, std::nullopt, {}}});
    if (!kernel.find(aside.name)) kernel.mems.push_back(std::move(aside));
  }
  const std::size_t natural = first_conflict(middle, delayed);
  if (natural < end)
    refuse_overlap(request,
                   fmt::format("{}: {}, before the weights are there", cover,
                               describe_conflict(middle[natural], " of the next tile", delayed)),
                   {"cover: 0"});
  Block out(middle.begin(), middle.begin() + static_cast<std::ptrdiff_t>(begin));
  const auto part = [&](int first, int last) {
    for (std::size_t n = begin; n < end; ++n) out.push_back(for_columns(middle[n], {first, last}));
  };
  if (covered == whole) {
    out.assign(middle.begin(), middle.begin() + static_cast<std::ptrdiff_t>(natural));
    out.push_back(await);
    out.insert(out.end(), middle.begin() + static_cast<std::ptrdiff_t>(natural), middle.end());
    return out;
  }
  part(0, static_cast<int>(covered));
  out.push_back(await);
  part(static_cast<int>(covered), whole);
  out.insert(out.end(), middle.begin() + static_cast<std::ptrdiff_t>(end), middle.end());
  return out;
}

}  // namespace astatide
