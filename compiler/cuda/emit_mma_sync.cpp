// Products of tiles by mma.sync.m16n8k16: a warp holds 16 rows of the accumulator at a time (PTX ISA, matrix fragments
// for mma.m16n8k16), and reads its operands from shared memory by ldmatrix, or the left one from registers: two
// neighbouring columns of an accumulator, narrowed to 16 bits, are a register of such an operand.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
void KernelEmitter::emit_narrow(const tile::Mem& dst, const tile::Mem& src) {
  if (src.type != ScalarType::f32 || src.space != Space::register_file || grid_of(src) != grid_of(dst))
    throw InternalError(dst.name + " and " + src.name + " lie in other threads");
  const int registers = fragment_of(dst, grid_of(dst)).registers();
  out_.line(fmt::format("// {} <- {}", dst.name, src.name));
  out_.open_unrolled(held_row_, registers / 2);
  out_.line(fmt::format("{0}[{1}] = pack2<{2}>({3}[2 * {1}], {3}[2 * {1} + 1]);", dst.name, held_row_,
                        type_text(dst.type), src.name));
  out_.close();
}

void KernelEmitter::emit_mma_sync(const tile::Mma& mma) {
  const tile::Mem& dst = mem(mma.dst);
  const tile::Mem& lhs = mem(operand_tile(mma.lhs));
  const tile::Mem& rhs = mem(operand_tile(mma.rhs));
  const std::string& axis = lhs.dims[1].axis;
  const bool along_rows = rhs.dims[1].axis == axis;  // both operands have the contracted axis last
  const Fragment fragment = fragment_of(dst, grid_of(dst));
  const int contracted = lhs.dims[1].extent, columns = fragment.columns.count();
  const int blocks = fragment.rows.count() / 2, steps = contracted / 16,
            tiles = columns / 2;  // of 16 rows; of 8 columns
  const int warps = kernel_.threads() / 32;
  if (contracted % 16 != 0 || fragment.rows.count() % 2 != 0 || dst.dims[0].extent % (16 * warps) != 0)
    throw InternalError(fmt::format("product {}: {} x {} x {} over {} warps", dst.name, dst.dims[0].extent,
                                    dst.dims[1].extent, contracted, warps));
  const std::string type = type_text(rhs.type);
  const std::string k = fresh("k"), m = fresh("m"), n = fresh("n"), a = fresh("a"), b = fresh("b");
  const std::string lane = fresh("lane"), warp = fresh("warp");
  const auto place = [&](const tile::Mem& tile, const std::string& row, const std::string& column) {
    return in_panels(tile)
               ? fmt::format("{} + in_panels<{}>({}, {})", base(tile, false), tile.dims[0].extent, row, column)
               : fmt::format("{} + ({}) * {} + {}", base(tile, false), row, pitch_of(tile), column);
  };

  out_.line(fmt::format("// {} {} {} * {}, {} = {}", dst.name, mma.accumulate ? "+=" : "=", lhs.name, rhs.name, axis,
                        contracted));
  out_.open("");
  out_.line(fmt::format("const int {} = {} % 32;", lane, thread_));
  if (lhs.space == Space::shared) out_.line(fmt::format("const int {} = {} / 32;", warp, thread_));
  if (!mma.accumulate) {
    out_.open_unrolled(held_row_, fragment.registers());
    out_.line(fmt::format("{}[{}] = 0.0f;", dst.name, held_row_));
    out_.close();
  }
  const bool in_registers = lhs.space == Space::register_file;
  if (mma.unroll > 0 && !in_registers) {
    out_.line(fmt::format("#pragma unroll {}", mma.unroll));
    out_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", k, steps));
  } else {
    out_.open_unrolled(k, steps);
  }
  if (!in_registers) {
    out_.line(fmt::format("unsigned {}[{}][4];", a, blocks));
    out_.open_unrolled(m, blocks);
    out_.line(fmt::format("ldmatrix4({}[{}], {});", a, m,
                          place(lhs, fmt::format("({} + {} * {}) * 16 + {} % 16", warp, m, warps, lane),
                                fmt::format("{} * 16 + {} / 16 * 8", k, lane))));
    out_.close();
  }
  // Of a left operand in registers: rows g and g + 8, columns 2q and 2q + 8 of step k.
  const auto left = [&](int part) {
    if (!in_registers) return fmt::format("{}[{}][{}]", a, m, part);
    const int pairs = fragment_of(lhs, grid_of(lhs)).columns.count() / 2;
    return fmt::format("{}[(2 * {} + {}) * {} + 2 * {} + {}]", lhs.name, m, part % 2, pairs, k, part / 2);
  };
  const auto multiply = [&](const std::string& tile_number, const std::string& b0, const std::string& b1) {
    out_.open_unrolled(m, blocks);
    const std::string at = fmt::format("{}[(2 * {}) * {} + 2 * ({})]", dst.name, m, columns, tile_number);
    const std::string below = fmt::format("{}[(2 * {} + 1) * {} + 2 * ({})]", dst.name, m, columns, tile_number);
    out_.line(fmt::format("mma_16x8x16<{}>(&{}, &{}, {}, {}, {}, {}, {}, {});", type, at, below, left(0), left(1),
                          left(2), left(3), b0, b1));
    out_.close();
  };
  // Two tiles of 8 columns a load; a last single one reads what lies behind it, too, and leaves it.
  out_.open_unrolled(n, (tiles + 1) / 2);
  out_.line(fmt::format("unsigned {}[4];", b));
  if (along_rows)
    out_.line(fmt::format("ldmatrix4({}, {});", b,
                          place(rhs, fmt::format("{0} * 16 + {1} % 8 + {1} / 16 * 8", n, lane),
                                fmt::format("{0} * 16 + {1} / 8 % 2 * 8", k, lane))));
  else
    out_.line(fmt::format(
        "ldmatrix4_transposed({}, {});", b,
        place(rhs, fmt::format("{0} * 16 + {1} % 16", k, lane), fmt::format("{0} * 16 + {1} / 16 * 8", n, lane))));
  multiply(fmt::format("2 * {}", n), b + "[0]", b + "[1]");
  if (tiles % 2 == 1) out_.open(fmt::format("if (2 * {} + 1 < {})", n, tiles));
  multiply(fmt::format("2 * {} + 1", n), b + "[2]", b + "[3]");
  if (tiles % 2 == 1) out_.close();
  out_.close();
  out_.close();
  out_.close();
}

}  // namespace astatide::cuda
