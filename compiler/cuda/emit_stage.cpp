// Tiles that are staged as they are in memory: 16 bytes at a time, past the registers with cp.async, through them
// without. Rows that strides, addresses or lengths keep from that are copied element by element.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {

using tile::Mem;

namespace {

constexpr int kCopiesUnrolled = 4;  // more addresses at a time would cost registers

}  // namespace

void KernelEmitter::emit_stage(const tile::View& view, const Mem& dst, bool asynchronous) {
  if (view.absent != 0 || dst.dims.size() != 2)
    throw InternalError("a staged tile has two axes and zeros beyond its limits");
  const int rows = dst.dims[0].extent, columns = dst.dims[1].extent, threads = kernel_.threads();
  const int vector = 16 / size_in_bytes(dst.type);
  const std::string& last = dst.dims[1].axis;
  const auto dim = contiguous_dim(view, last);
  const tile::Coordinate* along = nullptr;
  for (const tile::Coordinate& coordinate : view.at)
    if (coordinate.axis == last) along = &coordinate;

  const std::string n = fresh("n");
  const auto elements = [&](int step) {
    const int across = columns / step, total = rows * across;
    Element at;
    if (threads % across == 0 && total % threads == 0) {
      // A thread keeps its column, so that its addresses go on by one step.
      out_.line(fmt::format("#pragma unroll {}", std::min(total / threads, kCopiesUnrolled)));
      out_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", n, total / threads));
      at.row = fmt::format("{} / {} + {} * {}", thread_, across, n, threads / across);
      at.column =
          step == 1 ? fmt::format("{} % {}", thread_, across) : fmt::format("{} % {} * {}", thread_, across, step);
    } else {
      out_.line(fmt::format("#pragma unroll {}", step > 1 ? kCopiesUnrolled : 1));
      out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", n, thread_, total, threads));
      at.row = fmt::format("{} / {}", n, across);
      at.column = step == 1 ? fmt::format("{} % {}", n, across) : fmt::format("{} % {} * {}", n, across, step);
    }
    return at;
  };
  const auto one_by_one = [&] {
    const int total = rows * columns;
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", n, thread_, total, threads));
    const Element at{fmt::format("{} / {}", n, columns), fmt::format("{} % {}", n, columns), "", ""};
    const std::string limits = declare_coordinates(view.at, dst, at);
    const std::string value = fmt::format("*({})", address(view.tensor, index_texts(view)));
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
  const bool vectors =
      dim && along && columns % vector == 0 && along->origin == Expr(0) && (!along->limit || is_whole(*along->limit));
  if (!vectors) return one_by_one();
  out_.open("if (" + vector_flag(view.tensor, *dim, vector) + ")");
  const Element at = elements(vector);
  const std::string limits = declare_coordinates(view.at, dst, at);
  out_.line(fmt::format("{}(&{}, {}, {});", asynchronous ? "cp_async16" : "copy16", access(dst, at, true),
                        address(view.tensor, index_texts(view)), limits.empty() ? "true" : limits));
  out_.close();
  out_.close();
  out_.open("else");
  one_by_one();
  out_.close();
}

}  // namespace astatide::cuda
