// Copies between tiles, and between a tile and its slice of a strip.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

const tile::Strip* strip_of(const tile::CopyOperand& operand) { return std::get_if<tile::Strip>(&operand); }

const tile::TileName& name_of_operand(const tile::CopyOperand& operand) {
  if (const auto* strip = strip_of(operand)) return strip->tile;
  return std::get<tile::TileName>(operand);
}

}  // namespace

void KernelEmitter::emit_move(const tile::CopyOperand& dst, const tile::CopyOperand& src) {
  const tile::Mem& to = mem(name_of_operand(dst));
  const tile::Mem& from = mem(name_of_operand(src));
  if (to.space == Space::register_file && size_in_bytes(to.type) == 2) return emit_narrow(to, from);
  if (sync_.stored_by_tma().contains(to.name)) return emit_stmatrix(to, from);
  // A strip is wider than what is copied: the tile gives the shape.
  const tile::Mem& shape = strip_of(dst) ? from : to;
  out_.line(fmt::format("// {} <- {}", to.name, from.name));
  const tile::ThreadGrid grid = grid_for({&to, &from});
  const Element at = open_element(shape, grid, to.space == Space::shared || from.space == Space::shared);

  std::string within;  // the strip's length may be no multiple of the tile's
  const auto place = [&](const tile::CopyOperand& operand, const tile::Mem& tile, bool write) {
    const auto* strip = strip_of(operand);
    if (!strip) return access(tile, at, write);
    Element shifted = at;
    for (const tile::Coordinate& coordinate : strip->at) {
      const std::string origin = integer_text(coordinate.origin, scope());
      std::string& offset = tile.dims[0].axis == coordinate.axis ? shifted.row : shifted.column;
      if (origin != "0") offset = fmt::format("{} + {}", origin, offset);
      std::string limit = std::to_string(tile.extent_of(coordinate.axis));
      if (coordinate.limit) limit = fmt::format("min({}, {})", limit, integer_text(*coordinate.limit, scope()));
      if (!coordinate.limit && tile.extent_of(coordinate.axis) % shape.extent_of(coordinate.axis) == 0) continue;
      within += fmt::format("{}{} < {}", within.empty() ? "" : " && ", offset, limit);
    }
    return access(tile, shifted, write);
  };
  const std::string target = place(dst, to, true);
  std::string value = place(src, from, false);
  if (from.type != ScalarType::f32) value = "to_float(" + value + ")";
  if (!within.empty() && strip_of(src))
    value = fmt::format("{} ? {} : {}", within, value, float_literal(strip_of(src)->absent));
  if (to.type != ScalarType::f32) value = fmt::format("from_float<{}>({})", type_text(to.type), value);
  const bool guard = !within.empty() && strip_of(dst);
  out_.line(fmt::format("{}{} = {};", guard ? "if (" + within + ") " : "", target, value));
  close_element();
}

}  // namespace astatide::cuda
