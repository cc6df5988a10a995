// Products of tiles by mma.sync.m16n8k16: a warp holds 16 rows of the accumulator at a time (PTX ISA, matrix fragments
// for mma.m16n8k16), and reads its operands from shared memory by ldmatrix, or the left one from registers: two
// neighbouring columns of an accumulator, narrowed to 16 bits, are a register of such an operand.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

constexpr int kMatrixRows = 8;

/// Of a tile's row r * 16 + row and column c * 16 + column a lane keeps the address of (row, column), `at`: r and c are
/// constants, so the rest folds into what the instruction adds. In panels a step of 16 columns flips bits of a chunk's
/// number, whose lowest is the lane's own.
std::string stepped(const std::string& at, const tile::Mem& tile, const std::string& r, const std::string& c) {
  if (!in_panels(tile)) return fmt::format("{} + {} * {} + {} * 32", at, r, 32 * pitch_of(tile), c);
  return fmt::format("({0} ^ {1} % 4 * 32) + {1} / 4 * {2} + {3} * 2048", at, c, 128 * tile.dims[0].extent, r);
}

/// Register of a left operand's fragment that holds part `part` of what a warp multiplies at once, in block `m` of 16
/// rows at step `k`: rows g and g + 8, columns 2q and 2q + 8.
std::string left_register(const tile::Mem& lhs, const std::string& m, const std::string& k, int part) {
  const int pairs = fragment_of(lhs, grid_of(lhs)).columns.count() / 2;
  return fmt::format("{}[(2 * {} + {}) * {} + 2 * {} + {}]", lhs.name, m, part % 2, pairs, k, part / 2);
}

}  // namespace

std::string KernelEmitter::left_place(const tile::Mem& tile, const std::string& thread, const std::string& lane,
                                      bool write) {
  return shared_place(tile, fmt::format("{} / 32 * 16 + {} % 16", thread, lane), lane + " / 16 * 8", write);
}

void KernelEmitter::emit_ldmatrix(const tile::Mem& dst, const tile::Mem& src) {
  const int blocks = fragment_of(dst, grid_of(dst)).rows.count() / 2, steps = src.dims[1].extent / 16;
  const std::string k = fresh("k"), m = fresh("m"), a = fresh("a"), lane = fresh("lane"), at = fresh(src.name + "_at");
  out_.line(fmt::format("// {} <- {}", dst.name, src.name));
  out_.open("");
  out_.line(fmt::format("const int {} = {} % 32;", lane, thread_));
  out_.line(fmt::format("const unsigned {} = {};", at, left_place(src, thread_, lane, false)));
  out_.open_unrolled(m, blocks);
  out_.open_unrolled(k, steps);
  out_.line(fmt::format("unsigned {}[4];", a));
  out_.line(
      fmt::format("ldmatrix4({}, {});", a, stepped(at, src, fmt::format("{} * {}", m, kernel_.threads() / 32), k)));
  for (int part = 0; part < 4; ++part) out_.line(fmt::format("{} = {}[{}];", left_register(dst, m, k, part), a, part));
  out_.close();
  out_.close();
  out_.close();
}

// What ldmatrix reads, the other way: two neighbouring columns of the accumulator are a register of an 8 x 8 matrix,
// and a warp stores the four of 16 rows and 16 columns at a time.
void KernelEmitter::emit_stmatrix(const tile::Mem& dst, const tile::Mem& src) {
  if (src.type != ScalarType::f32 || src.space != Space::register_file || grid_of(src).row_unit != kMatrixRows)
    throw InternalError(src.name + " is no accumulator, " + dst.name + " takes matrices");
  const Fragment fragment = fragment_of(src, grid_of(src));
  const int columns = fragment.columns.count(), blocks = fragment.rows.count() / 2, matrices = columns / 2;
  const std::string n = fresh("n"), m = fresh("m"), lane = fresh("lane"), at = fresh(dst.name + "_at");
  const auto pair = [&](int row, const std::string& matrix) {
    const std::string first = fmt::format("(2 * {} + {}) * {} + 2 * ({})", m, row, columns, matrix);
    return fmt::format("pack2<{0}>({1}[{2}], {1}[{2} + 1])", type_text(dst.type), src.name, first);
  };
  const auto store = [&](const std::string& step, const std::string& upper, const std::string& lower) {
    const std::string first = fmt::format("2 * {}", step);
    out_.line(fmt::format("stmatrix4({}, {}, {}, {}, {});",
                          stepped(at, dst, fmt::format("{} * {}", m, kernel_.threads() / 32), step), pair(0, first),
                          pair(1, first), upper, lower));
  };
  out_.line(fmt::format("// {} <- {}", dst.name, src.name));
  out_.open("");
  out_.line(fmt::format("const int {} = {} % 32;", lane, thread_));
  out_.line(fmt::format("unsigned {} = {};", at, left_place(dst, thread_, lane, true)));
  out_.line(fmt::format("pin({});  // one address is kept while loops run, not all", at));
  out_.open_unrolled(m, blocks);
  out_.open_unrolled(n, matrices / 2);
  store(n, pair(0, fmt::format("2 * {} + 1", n)), pair(1, fmt::format("2 * {} + 1", n)));
  out_.close();
  // Beyond the last columns a panel goes on.
  if (matrices % 2 == 1) store(std::to_string(matrices / 2), "0u", "0u");
  out_.close();
  out_.close();
}

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
  const std::string lane = fresh("lane"), lhs_at = fresh(lhs.name + "_at"), rhs_at = fresh(rhs.name + "_at");
  const auto declare = [&](const std::string& name, const std::string& place) {
    out_.line(fmt::format("const unsigned {} = {};", name, place));
  };

  out_.line(fmt::format("// {} {} {} * {}, {} = {}", dst.name, mma.accumulate ? "+=" : "=", lhs.name, rhs.name, axis,
                        contracted));
  out_.open("");
  // Addresses that wait in registers for their next product would cost those that its elements need. Beside wgmma only
  // what is rarely computed again stands here, and the loop is better off with them.
  const std::string own = has_wgmma_ ? thread_ : fresh("own");
  if (!has_wgmma_) out_.line(fmt::format("const int {} = anew({});", own, thread_));
  out_.line(fmt::format("const int {} = {} % 32;", lane, own));
  const bool in_registers = lhs.space == Space::register_file;
  if (!in_registers) declare(lhs_at, left_place(lhs, own, lane, false));
  declare(rhs_at, along_rows ? shared_place(rhs, fmt::format("{0} % 8 + {0} / 16 * 8", lane),
                                            fmt::format("{} / 8 % 2 * 8", lane), false)
                             : shared_place(rhs, lane + " % 16", lane + " / 16 * 8", false));
  if (!mma.accumulate) {
    out_.open_unrolled(held_row_, fragment.registers());
    out_.line(fmt::format("{}[{}] = 0.0f;", dst.name, held_row_));
    out_.close();
  }
  if (mma.unroll > 0 && !in_registers) {
    out_.line(fmt::format("#pragma unroll {}", mma.unroll));
    out_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", k, steps));
  } else {
    out_.open_unrolled(k, steps);
  }
  if (!in_registers) {
    out_.line(fmt::format("unsigned {}[{}][4];", a, blocks));
    out_.open_unrolled(m, blocks);
    out_.line(fmt::format("ldmatrix4({}[{}], {});", a, m, stepped(lhs_at, lhs, fmt::format("{} * {}", m, warps), k)));
    out_.close();
  }
  const auto left = [&](int part) {
    return in_registers ? left_register(lhs, m, k, part) : fmt::format("{}[{}][{}]", a, m, part);
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
  out_.line(along_rows ? fmt::format("ldmatrix4({}, {});", b, stepped(rhs_at, rhs, n, k))
                       : fmt::format("ldmatrix4_transposed({}, {});", b, stepped(rhs_at, rhs, k, n)));
  multiply(fmt::format("2 * {}", n), b + "[0]", b + "[1]");
  if (tiles % 2 == 1) out_.open(fmt::format("if (2 * {} + 1 < {})", n, tiles));
  multiply(fmt::format("2 * {} + 1", n), b + "[2]", b + "[3]");
  if (tiles % 2 == 1) out_.close();
  out_.close();
  out_.close();
  out_.close();
}

}  // namespace astatide::cuda
