#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

bool has_read(const Expr& e) { return !tensors_read(e).empty(); }

}  // namespace

void KernelEmitter::emit(const tile::Fill& fill) {
  const tile::Mem& dst = mem(fill.dst);
  const Element at = open_element(dst, grid_for({&dst}), dst.space == Space::shared);
  const std::string value = float_literal(fill.value);
  out_.line(
      fmt::format("{} = {};", access(dst, at, true),
                  dst.type == ScalarType::f32 ? value : fmt::format("from_float<{}>({})", type_text(dst.type), value)));
  close_element();
}

void KernelEmitter::emit(const tile::Map& map) {
  const tile::Mem& dst = mem(map.dst);
  std::vector<const tile::Mem*> tiles{&dst};
  for (const std::string& name : free_variables(map.value))
    if (const tile::Mem* tile = kernel_.find(name)) tiles.push_back(tile);
  const std::string part = map.columns ? fmt::format(" cols {}..{}", map.columns->begin, map.columns->end) : "";
  out_.line(fmt::format("// map {} {}{}", dst.name, describe(dst), part));
  const Element at = open_element(dst, grid_for(tiles), dst.space == Space::shared, map.columns);

  const std::string limits = declare_coordinates(map.at, dst, at);
  const TextScope here = scope(&at);
  std::string value = real_text(map.value, here);
  std::string visible = map.absent || has_read(map.value) ? limits : "";
  for (const Expr& predicate : map.where_predicates) {
    const Text text = text_of(predicate, here);
    // Of an && chain only || and ?: need parentheses.
    visible += (visible.empty() ? "" : " && ") + (text.precedence < 5 ? "(" + text.text + ")" : text.text);
  }
  if (!visible.empty()) value = fmt::format("{} ? {} : {}", visible, value, float_literal(map.absent.value_or(0.0)));
  if (dst.type != ScalarType::f32) value = fmt::format("from_float<{}>({})", type_text(dst.type), value);
  out_.line(fmt::format("{} = {};", access(dst, at, true), value));
  close_element();
}

void KernelEmitter::emit(const tile::Vote& vote) {
  // The widest tile has the axes of all others.
  const tile::Mem* tile = nullptr;
  for (const std::string& name : free_variables(vote.condition))
    if (const tile::Mem* found = kernel_.find(name); found && (!tile || found->dims.size() > tile->dims.size()))
      tile = found;
  if (!tile) throw InternalError("vote " + vote.flag + " reads no tile");
  const std::string any = fresh(vote.flag + "_here");
  out_.line(fmt::format("bool {} = false;", any));
  // Beyond the tile a thread may hold anything.
  const Element at = open_element(*tile, grid_for({tile}), true);
  out_.line(fmt::format("{} = {} || ({});", any, any, condition_text(vote.condition, scope(&at))));
  close_element();
  out_.line(fmt::format("{} = __any_sync(0xffffffffu, {});", vote.flag, any));
}

}  // namespace astatide::cuda
