// Tiles that are staged as they are in memory: 16 bytes at a time, past the registers with cp.async, through them
// without. Rows that strides, addresses or lengths keep from that are copied element by element.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/cuda/view_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"

namespace astatide::cuda {

using tile::Mem;

namespace {

constexpr int kCopiesUnrolled = 4;  // more addresses at a time would cost registers
constexpr int kStepsUnrolled = 8;   // of copies that share one address

}  // namespace

// A thread copies the same columns of rows that lie a step apart: it has one address in each memory, and steps on from
// there by what is the same for all threads.
void KernelEmitter::emit_stage_rows(const tile::View& view, const Mem& dst, std::size_t row_dim, std::size_t column_dim,
                                    int vector, bool asynchronous) {
  const int across = dst.dims[1].extent / vector, step = kernel_.threads() / across;
  const int steps = dst.dims[0].extent / step;
  const std::string row = fresh("row"), column = fresh("column"), from = fresh("from"), to = fresh("to");
  const std::string n = fresh("n"), type = type_text(dst.type);
  // What depends on the row is not kept from tile to tile: that is two registers for each step.
  out_.line(
      fmt::format("const int {0} = anew({2} / {3}), {1} = {2} % {3} * {4};", row, column, thread_, across, vector));
  const tile::Coordinate& rows = *find_coordinate(view, dst.dims[0].axis);
  const std::string origin = integer_text(rows.origin, scope()), stride_text = stride(view.tensor, row_dim);
  const std::string place =
      integer_text(rows.origin + tile::linear_in(view.indices[row_dim], dst.dims[0].axis)->rest, scope());
  out_.line(fmt::format("const {}* const {} = {} + {} * {} + {}{};", type, from,
                        address_from_base(view, {row_dim, column_dim}), row, stride_text, column,
                        place == "0" ? "" : fmt::format(" + ({}) * {}", place, stride_text)));
  std::string present;
  if (rows.limit && !always_within(rows, dst)) {
    const std::string left = fresh("rows_left");
    out_.line(fmt::format("const int {} = {} - ({} + {});", left, limit_text(*rows.limit, scope()), origin, row));
    present = fmt::format("{} * {} < {}", n, step, left);
  }
  const tile::Coordinate& along = *find_coordinate(view, dst.dims[1].axis);
  if (along.limit && !always_within(along, dst))
    present += fmt::format("{}{} < {}", present.empty() ? "" : " && ", column, limit_text(*along.limit, scope()));
  // In panels a chunk's place depends on its row, modulo 8.
  const bool together = !in_panels(dst) || step % 8 == 0;
  const int pitch = in_panels(dst) ? kPanelBytes / size_in_bytes(dst.type) : pitch_of(dst);
  if (together) out_.line(fmt::format("const unsigned {} = {};", to, shared_place(dst, row, column, true)));
  out_.line(fmt::format("#pragma unroll {}", std::min(steps, kStepsUnrolled)));
  out_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", n, steps));
  const std::string target = together ? fmt::format("{} + {} * {}", to, n, step * pitch * size_in_bytes(dst.type))
                                      : shared_place(dst, fmt::format("{} + {} * {}", row, n, step), column, true);
  out_.line(fmt::format("{}({}, {} + {} * {} * {}, {});", asynchronous ? "cp_async16" : "copy16", target, from, n, step,
                        stride_text, present.empty() ? "true" : present));
  out_.close();
}

std::optional<std::size_t> KernelEmitter::row_dim_one_by_one(const tile::View& view, const std::string& axis) {
  std::optional<std::size_t> found;
  for (std::size_t dim = 0; dim < view.indices.size(); ++dim) {
    if (!free_variables(view.indices[dim]).contains(axis)) continue;
    const auto form = tile::linear_in(view.indices[dim], axis);
    if (found || !form || form->factor != 1) return std::nullopt;
    found = dim;
  }
  return found;
}

void KernelEmitter::emit_stage(const tile::View& view, const Mem& dst, bool asynchronous) {
  if (view.absent != 0 || dst.dims.size() != 2)
    throw InternalError("a staged tile has two axes and zeros beyond its limits");
  const int rows = dst.dims[0].extent, columns = dst.dims[1].extent, threads = kernel_.threads();
  const int vector = 16 / size_in_bytes(dst.type);
  const std::string& last = dst.dims[1].axis;
  const auto dim = contiguous_dim(view, last);
  const tile::Coordinate* along = find_coordinate(view, last);

  const std::string n = fresh("n");
  const auto elements = [&](int step) {
    const int across = columns / step, total = rows * across;
    Element at;
    out_.line(fmt::format("#pragma unroll {}", kCopiesUnrolled));
    out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", n, thread_, total, threads));
    at.row = fmt::format("{} / {}", n, across);
    at.column = fmt::format("{} % {} * {}", n, across, step);
    return at;
  };
  const auto one_by_one = [&] {
    const int total = rows * columns;
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", n, thread_, total, threads));
    const Element at{fmt::format("{} / {}", n, columns), fmt::format("{} % {}", n, columns), "", ""};
    const std::string limits = declare_coordinates(view.at, dst, at);
    const std::string value = fmt::format("*({})", address_from_base(view));
    out_.line(
        fmt::format("{} = {};", access(dst, at, true),
                    limits.empty() ? value : fmt::format("{} ? {} : {}{{}}", limits, value, type_text(dst.type))));
    out_.close();
  };

  // Whole vectors lie on one side of a limit: a multiple, or one that the tile cannot pass.
  const auto is_whole = [&](const Expr& limit) {
    for (const std::string& name : free_variables(limit))
      if (!program_.known.contains(name)) return false;
    return evaluate_integer(limit, program_.known) % vector == 0;
  };
  const bool vectors = dim && along && columns % vector == 0 && along->origin == Expr(0) &&
                       (!along->limit || is_whole(*along->limit)) && (in_panels(dst) || pitch_of(dst) % vector == 0);
  if (!vectors) return one_by_one();
  // One flag for all that is staged, since each would take a register.
  if (!own_names_.contains("staged_in_vectors")) claim("staged_in_vectors");
  staged_flags_.insert(vector_flag(view.tensor, *dim, vector));
  out_.open("if (" + claimed("staged_in_vectors") + ")");
  const int across = columns / vector;
  const auto row_dim = row_dim_one_by_one(view, dst.dims[0].axis);
  if (row_dim && threads % across == 0 && rows * across % threads == 0) {
    emit_stage_rows(view, dst, *row_dim, *dim, vector, asynchronous);
  } else {
    const Element at = elements(vector);
    const std::string limits = declare_coordinates(view.at, dst, at);
    std::string source = address_from_base(view);
    // A page of what lies beyond a limit stands in no table.
    const bool looks_up = std::any_of(view.indices.begin(), view.indices.end(),
                                      [](const Expr& index) { return !tensors_read(index).empty(); });
    if (looks_up && !limits.empty()) source = fmt::format("{} ? {} : {}", limits, source, view.tensor);
    out_.line(fmt::format("{}({}, {}, {});", asynchronous ? "cp_async16" : "copy16",
                          shared_place(dst, at.row, at.column, true), source, limits.empty() ? "true" : limits));
    out_.close();
  }
  out_.close();
  out_.open("else");
  one_by_one();
  out_.close();
}

}  // namespace astatide::cuda
