#include "compiler/passes/forward_maps.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "compiler/support/contains.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Map;
using tile::Stmt;
using tile::TileName;

bool reads(const Stmt& stmt, const TileName& tile) { return contains(tile::effects_of(stmt).reads, tile); }
bool writes(const Stmt& stmt, const TileName& tile) { return contains(tile::effects_of(stmt).writes, tile); }

/// Whether an instruction makes the whole tile anew.
bool renews(const Stmt& stmt, const TileName& tile) {
  const auto* map = std::get_if<Map>(&stmt.node);
  const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node);
  const bool part = (map && map->columns) || (reduce && reduce->columns);
  return !part && writes(stmt, tile) && !reads(stmt, tile);
}

/// Whether a tile's value is read behind a block.
using Escapes = std::function<bool(const TileName&)>;

/// Nothing is.
bool stays(const TileName&) { return false; }

/// Whether the tile's value in front of statement `first` of the block may be read there or behind the block.
bool is_read_from(const Block& block, std::size_t first, const TileName& tile, const Escapes& escapes) {
  for (std::size_t n = first; n < block.size(); ++n) {
    if (const Block* nested = tile::nested_block(block[n])) {
      // It may not run: what comes behind it counts, too.
      if (is_read_from(*nested, 0, tile, stays)) return true;
    } else if (reads(block[n], tile)) {
      return true;
    } else if (renews(block[n], tile)) {
      return false;
    }
  }
  return escapes(tile);
}

bool is_plain(const Map& map) {
  return !map.absent && !map.columns && map.at.empty() && map.where_predicates.empty() &&
         tensors_read(map.value).empty();
}

/// The one reader behind a map, where nothing between the two changes what the map reads.
std::optional<std::size_t> only_reader(const Block& block, std::size_t at, const Escapes& escapes) {
  const auto& map = std::get<Map>(block[at].node);
  const std::set<std::string> sources = free_variables(map.value);
  for (std::size_t n = at + 1; n < block.size(); ++n) {
    if (!reads(block[n], map.dst) && !writes(block[n], map.dst)) {
      const std::vector<std::string> changed = tile::effects_of(block[n]).writes;
      const bool kept =
          std::none_of(changed.begin(), changed.end(), [&](const std::string& name) { return sources.contains(name); });
      if (!kept) return std::nullopt;
      continue;
    }
    const auto* reader = std::get_if<Map>(&block[n].node);
    if (!reader || !free_variables(reader->value).contains(map.dst) || reader->dst == map.dst) return std::nullopt;
    for (const Expr& predicate : reader->where_predicates)
      if (free_variables(predicate).contains(map.dst)) return std::nullopt;
    if (sources.contains(reader->dst)) return std::nullopt;
    return is_read_from(block, n + 1, map.dst, escapes) ? std::nullopt : std::optional(n);
  }
  return std::nullopt;
}

Block forwarded(Block block, const tile::Kernel& kernel, const Escapes& escapes) {
  for (std::size_t n = 0; n < block.size(); ++n) {
    Block* nested = tile::nested_block(block[n]);
    if (!nested) continue;
    const Block before = *nested;
    const bool repeats = std::holds_alternative<tile::For>(block[n].node);
    *nested = forwarded(std::move(*nested), kernel, [&](const TileName& tile) {
      return is_read_from(block, n + 1, tile, escapes) || (repeats && is_read_from(before, 0, tile, stays));
    });
  }
  for (std::size_t n = 0; n < block.size();) {
    const auto* map = std::get_if<Map>(&block[n].node);
    const bool forwards = map && is_plain(*map) && kernel.find(map->dst)->dims.size() == 2;
    const std::optional<std::size_t> reader = forwards ? only_reader(block, n, escapes) : std::nullopt;
    if (!reader) {
      ++n;
      continue;
    }
    auto& other = std::get<Map>(block[*reader].node);
    other.value = substitute(other.value, {{map->dst, map->value}});
    if (!other.polynomial) other.polynomial = map->polynomial;
    block.erase(block.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return block;
}

}  // namespace

tile::Program forward_maps(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (tile::Kernel& kernel : out.kernels) kernel.body = forwarded(std::move(kernel.body), kernel, stays);
  return out;
}

}  // namespace astatide
