// Products of tiles by plain multiply-add, operands in shared memory, the accumulator a thread grid fragment in
// registers. Per step a thread reads its rows of the left operand and its columns of the right one in vectors of four,
// so that a fragment of 8 x 8 does 256 multiply-adds for 16 reads; threads of a row read the same left operand, which
// shared memory broadcasts.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

constexpr int kVector = 4;
// Steps of four unrolled where the schedule asks for nothing: more would not fit the registers beside a fragment of 8
// x 8.
constexpr int kUnroll = 2;

/// Offsets beyond the tile are clamped: the value is never used, but the address must be inside.
std::string clamped(const FragmentAxis& axis, const std::string& offset, int vector) {
  if (axis.exact()) return offset;
  const int last = (axis.extent - 1) / vector * vector;
  return fmt::format("min({}, {})", offset, last);
}

std::string contracted_axis(const tile::Mem& lhs, const tile::Mem& rhs, const tile::Mem& dst) {
  for (const tile::Dim& dim : lhs.dims)
    if (rhs.has_axis(dim.axis) && !dst.has_axis(dim.axis)) return dim.axis;
  throw InternalError("the operands of " + dst.name + " share no contracted axis");
}

}  // namespace

void KernelEmitter::emit(const tile::Mma& mma) {
  if (mma.by == tile::Family::mma_sync) return emit_mma_sync(mma);
  if (mma.by == tile::Family::wgmma) return emit_wgmma(mma);
  if (mma.by != tile::Family::fma) throw InternalError("a product by another family reached the fma emitter");
  const tile::Mem& dst = mem(mma.dst);
  const tile::Mem& lhs = mem(operand_tile(mma.lhs));
  const tile::Mem& rhs = mem(operand_tile(mma.rhs));
  const std::string axis = contracted_axis(lhs, rhs, dst);
  if (lhs.dims.size() != 2 || lhs.dims[1].axis != axis || lhs.space != Space::shared || rhs.space != Space::shared)
    throw InternalError("product " + dst.name + ": the left operand is not rows along " + axis + " in shared memory");
  const bool along_rows = rhs.dims[1].axis == axis;  // both operands are read along the contracted axis

  tile::ThreadGrid grid = grid_for({&dst});
  if (dst.space == Space::shared && !along_rows) grid.column_vector = kVector;
  const Fragment fragment = fragment_of(dst, grid);
  out_.line(fmt::format("// {} {} {} * {}, {} = {}", dst.name, mma.accumulate ? "+=" : "=", lhs.name, rhs.name, axis,
                        lhs.dims[1].extent));
  const bool in_registers = dst.space == Space::register_file;
  const std::string accumulator = in_registers ? dst.name : fresh(dst.name + "_accumulator");
  if (!in_registers) {
    out_.open("");
    out_.line(fmt::format("float {}[{}];", accumulator, fragment.registers()));
  }
  if (!in_registers || !mma.accumulate) {
    out_.open_unrolled(held_row_, fragment.registers());
    out_.line(fmt::format("{}[{}] = 0.0f;", accumulator, held_row_));
    out_.close();
  }
  if (along_rows)
    emit_fma_along_rows(mma, accumulator, fragment, lhs.dims[1].extent);
  else
    emit_fma_across(mma, accumulator, fragment, lhs.dims[1].extent);
  if (!in_registers) {
    const Element at = open_element(dst, grid, true);
    const std::string element = access(dst, at, true);
    out_.line(fmt::format("{} {} {}[{} * {} + {}];", element, mma.accumulate ? "+=" : "=", accumulator, at.held_row,
                          fragment.columns.count(), at.held_column));
    close_element();
    out_.close();
  }
}

void KernelEmitter::emit_fma_along_rows(const tile::Mma& mma, const std::string& accumulator, const Fragment& fragment,
                                        int contracted) {
  const tile::Mem& lhs = mem(operand_tile(mma.lhs));
  const tile::Mem& rhs = mem(operand_tile(mma.rhs));
  const bool vectors = pitch_of(lhs) % kVector == 0 && pitch_of(rhs) % kVector == 0;
  const int whole = vectors ? contracted / kVector * kVector : 0;
  const int rows = fragment.rows.count(), columns = fragment.columns.count();
  const std::string k = fresh("k"), left = fresh("lhs"), right = fresh("rhs");
  const std::string row = clamped(fragment.rows, fragment.rows.offset(held_row_, row_), 1);
  const std::string column = clamped(fragment.columns, fragment.columns.offset(held_column_, column_), 1);
  const auto element = [&] { return fmt::format("{}[{} * {} + {}]", accumulator, held_row_, columns, held_column_); };
  const auto open_step = [&](int begin, int end, int step, const char* type) {
    out_.line(fmt::format("#pragma unroll {}", mma.unroll > 0 ? mma.unroll : kUnroll));
    out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", k, begin, end, step));
    out_.line(fmt::format("{} {}[{}], {}[{}];", type, left, rows, right, columns));
  };
  const auto load = [&](const char* load_text) {
    out_.open_unrolled(held_row_, rows);
    out_.line(fmt::format("{}[{}] = {}({} + ({}) * {} + {});", left, held_row_, load_text, base(lhs, false), row,
                          pitch_of(lhs), k));
    out_.close();
    out_.open_unrolled(held_column_, columns);
    out_.line(fmt::format("{}[{}] = {}({} + ({}) * {} + {});", right, held_column_, load_text, base(rhs, false), column,
                          pitch_of(rhs), k));
    out_.close();
    out_.open_unrolled(held_row_, rows);
    out_.open_unrolled(held_column_, columns);
  };
  if (whole > 0) {
    open_step(0, whole, kVector, "float4");
    load("load4");
    for (const char* part : {"x", "y", "z", "w"})
      out_.line(fmt::format("{0} = fmaf({4}[{1}].{2}, {5}[{3}].{2}, {0});", element(), held_row_, part, held_column_,
                            left, right));
    for (int i = 0; i < 3; ++i) out_.close();
  }
  if (whole < contracted) {
    open_step(whole, contracted, 1, "float");
    load("load1");
    out_.line(fmt::format("{0} = fmaf({3}[{1}], {4}[{2}], {0});", element(), held_row_, held_column_, left, right));
    for (int i = 0; i < 3; ++i) out_.close();
  }
}

void KernelEmitter::emit_fma_across(const tile::Mma& mma, const std::string& accumulator, const Fragment& fragment,
                                    int contracted) {
  const tile::Mem& lhs = mem(operand_tile(mma.lhs));
  const tile::Mem& rhs = mem(operand_tile(mma.rhs));
  const int vector = fragment.columns.vector;
  if (vector != 1 && (vector != kVector || pitch_of(rhs) % kVector != 0))
    throw InternalError(
        fmt::format("product {}: columns in vectors of {} over rows of {}", mma.dst, vector, pitch_of(rhs)));
  const int step = pitch_of(lhs) % kVector == 0 ? kVector : 1;
  const int whole = contracted / step * step;
  const int rows = fragment.rows.count(), columns = fragment.columns.count(), groups = columns / vector;
  const std::string k = fresh("k"), inner = fresh("kk"), group = fresh("g"), left = fresh("lhs"), right = fresh("rhs");
  const std::string row = clamped(fragment.rows, fragment.rows.offset(held_row_, row_), 1);
  const std::string column =
      clamped(fragment.columns,
              fragment.columns.offset(vector == 1 ? group : fmt::format("({} * {})", group, vector), column_), vector);

  // One value of the contracted axis: a row of the right operand against the held rows.
  const auto multiply = [&](const std::string& index, const std::string& left_element) {
    out_.open_unrolled(group, groups);
    out_.line(fmt::format("const {} {} = {}({} + ({}) * {} + {});", vector == 1 ? "float" : "float4", right,
                          vector == 1 ? "load1" : "load4", base(rhs, false), index, pitch_of(rhs), column));
    out_.open_unrolled(held_row_, rows);
    for (int part = 0; part < vector; ++part) {
      const std::string element =
          fmt::format("{}[{} * {} + {} * {} + {}]", accumulator, held_row_, columns, group, vector, part);
      out_.line(fmt::format("{0} = fmaf({1}, {2}{3}, {0});", element, left_element, right,
                            vector == 1 ? "" : fmt::format(".{}", "xyzw"[part])));
    }
    out_.close();
    out_.close();
  };
  const auto load_left = [&](const char* type, const char* load_text) {
    out_.line(fmt::format("{} {}[{}];", type, left, rows));
    out_.open_unrolled(held_row_, rows);
    out_.line(fmt::format("{}[{}] = {}({} + ({}) * {} + {});", left, held_row_, load_text, base(lhs, false), row,
                          pitch_of(lhs), k));
    out_.close();
  };
  if (step == kVector && whole > 0) {
    out_.line(fmt::format("#pragma unroll {}", mma.unroll > 0 ? mma.unroll : kUnroll));
    out_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", k, whole, kVector));
    load_left("float4", "load4");
    out_.open_unrolled(inner, kVector);
    multiply(fmt::format("{} + {}", k, inner), fmt::format("component({}[{}], {})", left, held_row_, inner));
    out_.close();
    out_.close();
  }
  const int rest = step == kVector ? whole : 0;
  if (rest < contracted) {
    out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0})", k, rest, contracted));
    load_left("float", "load1");
    multiply(k, fmt::format("{}[{}]", left, held_row_));
    out_.close();
  }
}

}  // namespace astatide::cuda
