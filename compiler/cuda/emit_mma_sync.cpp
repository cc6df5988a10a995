// Products of tiles by mma.sync.m16n8k16, or m16n8k8 for tf32: a warp holds 16 rows of the accumulator at a time (PTX
// ISA, matrix fragments for mma.m16n8k16 and mma.m16n8k8), and reads its operands from shared memory by ldmatrix, or
// the left one from registers: two neighbouring columns of an accumulator, narrowed to 16 bits, are a register of such
// an operand.
//
// An instruction takes 32 bytes of each operand's row, so addresses are those of 16 bits for tf32, too; ldmatrix gives
// a lane one f32 in place of two neighbours. What differs is the order of the summed axis: at thread t of a row the
// fragments of tf32 hold columns t and t + 4 of 8, an accumulator 2t and 2t + 1. A sum has no order, so a left operand
// that comes from an accumulator keeps its own, and the right one is read in that, element by element. Without
// ldmatrix, which transposes 16 bits only, a right operand with the summed axis as its rows is read so in any case.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

constexpr int kMatrixRows = 8;
constexpr int kStepBytes = 32;  // of a row, that one instruction takes

int step_columns(const tile::Mem& tile) { return kStepBytes / size_in_bytes(tile.type); }
int chunk_columns(const tile::Mem& tile) { return kChunkBytes / size_in_bytes(tile.type); }

/// A lane keeps the address of a tile's (row, column), `at`; this is that of `r` times `rows` rows and `c` times 32
/// bytes further: r and c are constants, so they fold into what the instruction adds. In panels a step of 32 bytes
/// flips bits of a chunk's number, whose lowest is the lane's own.
std::string stepped(const std::string& at, const tile::Mem& tile, int rows, const std::string& r,
                    const std::string& c) {
  if (!in_panels(tile))
    return fmt::format("{} + {} * {} + {} * {}", at, r, rows * size_in_bytes(tile.type) * pitch_of(tile), c,
                       kStepBytes);
  return fmt::format("({0} ^ {1} % 4 * {2}) + {1} / 4 * {3} + {4} * {5}", at, c, kStepBytes,
                     kPanelBytes * tile.dims[0].extent, r, kPanelBytes * rows);
}

/// Register of a left operand's fragment that holds part `part` of what a warp multiplies at once, in block `m` of 16
/// rows at step `k`: rows g and g + 8, of 16 bits columns 2q and 2q + 8, of 32 two as its layout has them.
std::string left_register(const tile::Mem& lhs, const std::string& m, const std::string& k, int part) {
  const int in_row = fragment_of(lhs, grid_of(lhs)).columns.count() * size_in_bytes(lhs.type) / 4;
  return fmt::format("{}[(2 * {} + {}) * {} + 2 * {} + {}]", lhs.name, m, part % 2, in_row, k, part / 2);
}

/// Whether a left operand is summed in the order of an accumulator, other than that of its instruction.
bool in_own_order(const tile::Mem& lhs) {
  return lhs.type == ScalarType::f32 && lhs.space == Space::register_file && grid_of(lhs).column_vector == 2;
}

}  // namespace

std::string KernelEmitter::left_place(const tile::Mem& tile, const std::string& thread, const std::string& lane,
                                      bool write) {
  return shared_place(tile, fmt::format("{} / 32 * 16 + {} % 16", thread, lane),
                      fmt::format("{} / 16 * {}", lane, chunk_columns(tile)), write);
}

void KernelEmitter::emit_ldmatrix(const tile::Mem& dst, const tile::Mem& src, const tile::SyncOps& behind) {
  const int blocks = fragment_of(dst, grid_of(dst)).rows.count() / 2, steps = src.dims[1].extent / step_columns(src);
  const std::string k = fresh("k"), m = fresh("m"), a = fresh("a"), lane = fresh("lane"), at = fresh(src.name + "_at");
  out_.line(fmt::format("// {} <- {}", dst.name, src.name));
  out_.open("");
  out_.line(fmt::format("const int {} = {} % 32;", lane, thread_));
  out_.line(fmt::format("const unsigned {} = {};", at, left_place(src, thread_, lane, false)));
  out_.open_unrolled(m, blocks);
  out_.open_unrolled(k, steps);
  out_.line(fmt::format("unsigned {}[4];", a));
  out_.line(
      fmt::format("ldmatrix4({}, {});", a, stepped(at, src, 16, fmt::format("{} * {}", m, kernel_.threads() / 32), k)));
  // Two of 16 bits are held as a register, f32 as what it is.
  for (int part = 0; part < 4; ++part) {
    const std::string bits = fmt::format("{}[{}]", a, part);
    out_.line(fmt::format("{} = {};", left_register(dst, m, k, part),
                          dst.type == ScalarType::f32 ? "__uint_as_float(" + bits + ")" : bits));
  }
  out_.close();
  out_.close();
  emit(behind);
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
                          stepped(at, dst, 16, fmt::format("{} * {}", m, kernel_.threads() / 32), step), pair(0, first),
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
  const int blocks = fragment.rows.count() / 2, steps = contracted / step_columns(rhs),
            tiles = columns / 2;  // of 16 rows; of 8 columns
  const int warps = kernel_.threads() / 32;
  if (contracted % 16 != 0 || fragment.rows.count() % 2 != 0 || dst.dims[0].extent % (16 * warps) != 0)
    throw InternalError(fmt::format("product {}: {} x {} x {} over {} warps", dst.name, dst.dims[0].extent,
                                    dst.dims[1].extent, contracted, warps));
  const std::string type = type_text(rhs.type);
  const std::string k = fresh("k"), m = fresh("m"), n = fresh("n"), a = fresh("a"), b = fresh("b");
  const std::string lane = fresh("lane"), lhs_at = fresh(lhs.name + "_at"), rhs_at = fresh(rhs.name + "_at");
  const std::string beside = fresh(rhs.name + "_beside");
  const auto declare = [&](const std::string& name, const std::string& place) {
    out_.line(fmt::format("const unsigned {} = {};", name, place));
  };

  out_.line(fmt::format("// {} {} {} * {}, {} = {}", dst.name, mma.accumulate ? "+=" : "=", lhs.name, rhs.name, axis,
                        contracted));
  out_.open("");
  // Addresses that wait in registers for their next product would cost those that its elements need. Beside wgmma only
  // what is rarely computed again stands here, and the loop is better off with them.
  const std::string own_thread = sync_.has_wgmma() ? thread_ : fresh("own");
  if (!sync_.has_wgmma()) out_.line(fmt::format("const int {} = anew({});", own_thread, thread_));
  out_.line(fmt::format("const int {} = {} % 32;", lane, own_thread));
  const bool in_registers = lhs.space == Space::register_file;
  if (!in_registers) declare(lhs_at, left_place(lhs, own_thread, lane, false));
  const bool own = in_own_order(lhs), by_element = mma.tf32 && !along_rows;
  if (own && along_rows) throw InternalError(lhs.name + " is summed in another order than the rows of " + rhs.name);
  if (by_element) {
    const std::string row = lane + (own ? " % 4 * 2" : " % 4"), column = lane + " / 4";
    declare(rhs_at, shared_place(rhs, row, column, false));
    declare(beside, shared_place(rhs, row + (own ? " + 1" : " + 4"), column, false));
  } else {
    declare(rhs_at, along_rows ? shared_place(rhs, fmt::format("{0} % 8 + {0} / 16 * 8", lane),
                                              fmt::format("{} / 8 % 2 * {}", lane, chunk_columns(rhs)), false)
                               : shared_place(rhs, lane + " % 16", lane + " / 16 * 8", false));
  }
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
  const bool as_it_is = in_registers && !mma.tf32;
  if (!as_it_is) {
    out_.line(fmt::format("unsigned {}[{}][4];", a, blocks));
    out_.open_unrolled(m, blocks);
    if (!in_registers)
      out_.line(
          fmt::format("ldmatrix4({}[{}], {});", a, m, stepped(lhs_at, lhs, 16, fmt::format("{} * {}", m, warps), k)));
    if (mma.tf32 && !in_registers) out_.line(fmt::format("to_tf32({}[{}]);", a, m));
    for (int part = 0; part < 4 && in_registers; ++part)
      out_.line(fmt::format("{}[{}][{}] = to_tf32({});", a, m, part, left_register(lhs, m, k, part)));
    out_.close();
  }
  const auto left = [&](int part) {
    return as_it_is ? left_register(lhs, m, k, part) : fmt::format("{}[{}][{}]", a, m, part);
  };
  const auto multiply = [&](const std::string& tile_number, const std::string& b0, const std::string& b1) {
    out_.open_unrolled(m, blocks);
    const std::string at = fmt::format("{}[(2 * {}) * {} + 2 * ({})]", dst.name, m, columns, tile_number);
    const std::string below = fmt::format("{}[(2 * {} + 1) * {} + 2 * ({})]", dst.name, m, columns, tile_number);
    out_.line(fmt::format("{}(&{}, &{}, {}, {}, {}, {}, {}, {});",
                          mma.tf32 ? "mma_16x8x8" : fmt::format("mma_16x8x16<{}>", type), at, below, left(0), left(1),
                          left(2), left(3), b0, b1));
    out_.close();
  };
  if (by_element) {
    out_.open_unrolled(n, tiles);
    out_.line(fmt::format("unsigned {}[2];", b));
    out_.line(fmt::format("{}[0] = to_tf32(load_shared4({}));", b, stepped(rhs_at, rhs, 8, k, n)));
    out_.line(fmt::format("{}[1] = to_tf32(load_shared4({}));", b, stepped(beside, rhs, 8, k, n)));
    multiply(n, b + "[0]", b + "[1]");
  } else {
    // Two tiles of 8 columns a load; a last single one reads what lies behind it, too, and leaves it.
    out_.open_unrolled(n, (tiles + 1) / 2);
    out_.line(fmt::format("unsigned {}[4];", b));
    out_.line(along_rows ? fmt::format("ldmatrix4({}, {});", b, stepped(rhs_at, rhs, 16, n, k))
                         : fmt::format("ldmatrix4_transposed({}, {});", b, stepped(rhs_at, rhs, 16, k, n)));
    if (mma.tf32) out_.line(fmt::format("to_tf32({});", b));
    multiply(fmt::format("2 * {}", n), b + "[0]", b + "[1]");
    if (tiles % 2 == 1) out_.open(fmt::format("if (2 * {} + 1 < {})", n, tiles));
    multiply(fmt::format("2 * {} + 1", n), b + "[2]", b + "[3]");
    if (tiles % 2 == 1) out_.close();
  }
  out_.close();
  out_.close();
  out_.close();
}

}  // namespace astatide::cuda
