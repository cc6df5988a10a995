// Copies between global memory and tiles. Strides are run-time values: where a row is contiguous and aligned, which a
// flag computed once a kernel says, accesses are vectors of up to 16 bytes; otherwise elements.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/cuda/view_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/bounds.h"
#include "compiler/tile/parameters.h"

namespace astatide::cuda {
namespace {

using tile::Mem;
using tile::View;

constexpr int kMaxUnroll = 4;

}  // namespace

void KernelEmitter::emit(const tile::Copy& copy) {
  const auto* from = std::get_if<View>(&copy.src);
  const auto* to = std::get_if<View>(&copy.dst);
  if (from && to) throw InternalError("a copy from global to global memory");
  if (from) {
    const auto* name = std::get_if<tile::TileName>(&copy.dst);
    if (!name) throw InternalError("a copy from global memory into a strip");
    const Mem& dst = mem(*name);
    out_.line(fmt::format("// {} {} <- {}", dst.name, describe(dst), from->tensor));
    if (copy.via == tile::Via::tma) {
      emit(sync_.before({copy}));
      emit_tma_load(*from, dst, copy.multicast);
      return emit(sync_.after({copy}));
    }
    const bool asynchronous = copy.via == tile::Via::cp_async;
    const bool as_it_is = dst.type == program_.find_tensor(from->tensor)->type && size_in_bytes(dst.type) < 4;
    if (dst.space == Space::shared && (asynchronous || as_it_is))
      emit_stage(*from, dst, asynchronous);
    else if (dst.space == Space::shared)
      emit_load_vectors(*from, dst, copy.vector);
    else
      emit_load(*from, dst);
    emit(sync_.after({copy}));
  } else if (to) {
    const auto* name = std::get_if<tile::TileName>(&copy.src);
    if (!name) throw InternalError("a copy from a strip to global memory");
    out_.line(fmt::format("// {} <- {} {}", to->tensor, *name, describe(mem(*name))));
    if (kernel_.cluster) out_.open("if (" + claimed("has_tile") + ")");
    if (copy.via == tile::Via::tma)
      emit_tma_store(*to, mem(*name), sync_.after({copy}));
    else
      emit_store(*to, mem(*name));
    if (kernel_.cluster) out_.close();
  } else if (copy.via == tile::Via::ldmatrix) {
    emit_ldmatrix(mem(std::get<tile::TileName>(copy.dst)), mem(std::get<tile::TileName>(copy.src)),
                  sync_.after({copy}));
  } else {
    emit_move(copy.dst, copy.src);
  }
}

void KernelEmitter::emit_load_vectors(const View& view, const Mem& dst, int vector) {
  const int rows = dst.dims[0].extent, columns = dst.dims.size() == 2 ? dst.dims[1].extent : 1;
  const ScalarType type = program_.find_tensor(view.tensor)->type;
  const std::string& last = dst.dims.back().axis;
  const auto dim = contiguous_dim(view, last);
  const tile::Coordinate* along = find_coordinate(view, last);
  // Vectors must not straddle the limit of their own axis: only a limit that the tile cannot pass, or none, allows
  // them.
  const bool whole = along && tile::is_multiple(along->origin, 8) && (!along->limit || dst.dims.size() == 2);
  int width = vector > 0 ? vector : (size_in_bytes(type) == 2 ? 8 : 4);
  while (width > 1 && (columns % width != 0 || pitch_of(dst) % std::min(width, 4) != 0)) width /= 2;
  if (!dim || !whole || width < 4 || !is_floating(type) || type == ScalarType::f64 || dst.dims.size() != 2) width = 1;

  const auto elements = [&](int step) {
    const int total = rows * columns / step, threads = kernel_.threads();
    const std::string n = fresh("n");
    // Loads of several vectors are in flight together; the way element by element is the rare one, and kept short.
    const int unroll = step > 1 && total % threads == 0 ? std::min(total / threads, kMaxUnroll) : 1;
    out_.line(fmt::format("#pragma unroll {}", unroll));
    out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", n, thread_, total, threads));
    Element at;
    at.row = columns == step ? n : fmt::format("{} / {}", n, columns / step);
    at.column = columns == step ? "0"
                : step == 1     ? fmt::format("{} % {}", n, columns)
                                : fmt::format("{} % {} * {}", n, columns / step, step);
    if (dst.dims.size() == 1) at.column.clear(), at.row = n;
    return at;
  };
  const auto load = [&](int step) {
    const Element at = elements(step);
    std::string limits = declare_coordinates(view.at, dst, at);
    const std::string source = address_from_base(view);
    const std::string absent = float_literal(view.absent);
    const std::string target = access(dst, at, true);
    if (step == 1) {
      std::string value = fmt::format("load1({})", source);
      if (!limits.empty()) value = fmt::format("{} ? {} : {}", limits, value, absent);
      out_.line(fmt::format("{} = {};", target, converted(value, dst.type)));
    } else {
      const std::string fill = fmt::format("make_float4({0}, {0}, {0}, {0})", absent);
      if (step == 8) {
        // The condition is about the load alone: a branch around the conversions costs 12 % of simt/flash2.
        std::string value = fmt::format("load8({})", source);
        if (!limits.empty()) value = fmt::format("{} ? {} : repeat8<{}>({})", limits, value, type_text(type), absent);
        const std::string loaded = fresh("loaded");
        out_.line(fmt::format("const auto {} = {};", loaded, value));
        out_.line(fmt::format("store4(&{}, low4({}));", target, loaded));
        out_.line(fmt::format("store4(&{} + 4, high4({}));", target, loaded));
      } else {
        const std::string value = fmt::format("load4({})", source);
        out_.line(fmt::format("store4(&{}, {});", target,
                              limits.empty() ? value : fmt::format("{} ? {} : {}", limits, value, fill)));
      }
    }
    out_.close();
  };
  if (width == 1) return load(1);
  // The tile may be wider than the limit of its last axis only by elements of a last vector, which the flag's slow path
  // loads one by one.
  std::string flag = vector_flag(view.tensor, *dim, width);
  if (along->limit && !always_within(*along, dst))
    flag += fmt::format(" && {} + {} <= {}", integer_text(along->origin, scope()), columns,
                        limit_text(*along->limit, scope()));
  out_.open("if (" + flag + ")");
  load(width);
  out_.close();
  out_.open("else");
  load(1);
  out_.close();
}

std::string KernelEmitter::limits_of_load(const View& view, const Mem& dst, const Element& at) {
  std::string limits = declare_coordinates(view.at, dst, at);
  for (const std::string& condition : {inside(dst, grid_for({&dst}), at), only_where_})
    if (!condition.empty()) limits += (limits.empty() ? "" : " && ") + condition;
  return limits;
}

void KernelEmitter::emit_load_quads(const View& view, const Mem& dst) {
  const tile::ThreadGrid grid = grid_for({&dst});
  const Fragment fragment = fragment_of(dst, grid);
  out_.open_unrolled(held_row_, fragment.rows.count());
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += 4)", held_column_, fragment.columns.count()));
  const Element at{fragment.rows.offset(held_row_, row_in(grid)),
                   fragment.columns.offset(held_column_, column_in(grid)), held_row_, held_column_};
  const std::string limits = limits_of_load(view, dst, at);
  std::string value = fmt::format("load4({})", address_from_base(view));
  if (!limits.empty())
    value = fmt::format("{0} ? {1} : make_float4({2}, {2}, {2}, {2})", limits, value, float_literal(view.absent));
  const std::string loaded = fresh("loaded");
  out_.line(fmt::format("const float4 {} = {};", loaded, value));
  const std::string first = fmt::format("{} * {} + {}", held_row_, fragment.columns.count(), held_column_);
  for (const auto& [n, part] : {std::pair(0, 'x'), {1, 'y'}, {2, 'z'}, {3, 'w'}})
    out_.line(fmt::format("{}[{} + {}] = {}.{};", dst.name, first, n, loaded, part));
  out_.close();
  out_.close();
}

void KernelEmitter::emit_load(const View& view, const Mem& dst) {
  if (dst.dims.size() == 2 && dst.type == ScalarType::f32 && grid_for({&dst}).column_vector == 4 &&
      grid_for({&dst}).row_unit == 1 && dst.dims[1].extent % 4 == 0 && tile::is_dense_in(program_, view.tensor, 4)) {
    const auto dim = contiguous_dim(view, dst.dims[1].axis);
    const tile::Coordinate* along = dim ? find_coordinate(view, dst.dims[1].axis) : nullptr;
    if (along && !along->limit && along->origin == Expr(0) && *dim + 1 == view.indices.size())
      return emit_load_quads(view, dst);
  }
  const Element at = open_element(dst, grid_for({&dst}), false);
  const std::string limits = limits_of_load(view, dst, at);
  std::string value = fmt::format("load1({})", address_from_base(view));
  if (!limits.empty()) value = fmt::format("{} ? {} : {}", limits, value, float_literal(view.absent));
  out_.line(fmt::format("{} = {};", access(dst, at, true), converted(value, dst.type)));
  close_element();
}

}  // namespace astatide::cuda
