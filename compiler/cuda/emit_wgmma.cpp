// Products of tiles by wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"): a warpgroup makes 64 rows
// of the accumulator at a time, the right operand and, unless it is in registers, the left one are read from shared
// memory through descriptors. Fragments are those of mma.sync, so the rest of a kernel is the same. Registers in flight
// are not to be touched: they pass through an empty volatile asm behind the wait, which keeps their uses there.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

constexpr int kRowGroupBytes = 8 * kPanelBytes;

/// Text of the function that issues one instruction m64nNk16; `d` is in the order of the accumulator's fragment: the
/// columns of row g, then those of row g + 8.
std::string function_text(const std::string& name, int n, const std::string& type, bool left_in_registers,
                          bool right_across) {
  const int held = n / 4;
  std::string outputs, operands;
  for (int i = 0; i < n / 2; ++i) {
    operands += fmt::format("{}%{}", i > 0 ? ", " : "", i);
    outputs += fmt::format("{}\"+f\"(d[{}])", i > 0 ? ", " : "", i % 4 / 2 * held + i / 4 * 2 + i % 2);
  }
  const int first = n / 2;
  const std::string left = left_in_registers
                               ? fmt::format("{{%{}, %{}, %{}, %{}}}", first, first + 1, first + 2, first + 3)
                               : fmt::format("%{}", first);
  const int right = first + (left_in_registers ? 4 : 1);
  return fmt::format(
      "__device__ __forceinline__ void {}(float* d, {}, unsigned long long b, int accumulate) {{\n"
      "  asm volatile(\n"
      "      \"{{ .reg .pred p; setp.ne.b32 p, %{}, 0;\"\n"
      "      \"wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, {}, %{}, p, 1, 1{}, {}; }}\"\n"
      "      : {}\n"
      "      : {}, \"l\"(b), \"r\"(accumulate));\n"
      "}}\n",
      name, left_in_registers ? "unsigned a0, unsigned a1, unsigned a2, unsigned a3" : "unsigned long long a",
      right + 1, n, type, type, operands, left, right, left_in_registers ? "" : ", 0", right_across ? 1 : 0, outputs,
      left_in_registers ? "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3)" : "\"l\"(a)");
}

}  // namespace

void KernelEmitter::pin_product(const tile::Mma& mma) {
  const auto pin = [&](const tile::Mem& tile) {
    const int registers = fragment_of(tile, grid_of(tile)).registers() * size_in_bytes(tile.type) / 4;
    out_.open_unrolled(held_row_, registers);
    out_.line(fmt::format("pin({}[{}]);", tile.name, held_row_));
    out_.close();
  };
  pin(mem(mma.dst));
  // What is read from registers is read until then; a product that was waited for at once leaves no time to reuse them.
  const tile::Mem& lhs = mem(operand_tile(mma.lhs));
  if (!mma.token.empty() && lhs.space == Space::register_file) pin(lhs);
}

void KernelEmitter::emit_wgmma(const tile::Mma& mma) {
  const tile::Mem& dst = mem(mma.dst);
  const tile::Mem& lhs = mem(operand_tile(mma.lhs));
  const tile::Mem& rhs = mem(operand_tile(mma.rhs));
  const bool across = rhs.dims[1].axis != lhs.dims[1].axis;  // the contracted axis is the rows of the right operand
  const bool in_registers = lhs.space == Space::register_file;
  const Fragment fragment = fragment_of(dst, grid_of(dst));
  const int contracted = lhs.dims[1].extent, held = fragment.columns.count(), n = held * 4;
  const int blocks = fragment.rows.count() / 2, steps = contracted / 16, groups = kernel_.warpgroups();
  if (contracted % 16 != 0 || n > 256 || dst.dims[0].extent != 64 * blocks * groups || !in_panels(rhs))
    throw InternalError(fmt::format("product {}: {} x {} x {} over {} warpgroups", dst.name, dst.dims[0].extent, n,
                                    contracted, groups));
  const std::string type(name_of(rhs.type));
  const std::string function =
      fmt::format("wgmma_64x{}x16_{}_{}{}", n, type, in_registers ? "r" : "s", across ? "_across" : "");
  functions_[function] = function_text(function, n, type, in_registers, across);

  out_.line(fmt::format("// {} {} {} * {}, {} = {}", dst.name, mma.accumulate ? "+=" : "=", lhs.name, rhs.name,
                        lhs.dims[1].axis, contracted));
  out_.open("");
  const std::string left = fresh("lhs"), right = fresh("rhs");
  const int rhs_rows = rhs.dims[0].extent, lhs_rows = lhs.dims[0].extent;
  // Of a ring's first slot, which the compiler takes out of loops; the slot is one addition.
  const auto descriptor = [&](const tile::Mem& tile, int leading) {
    std::string text = fmt::format("matrix_descriptor({}, {}, {})", tile.name, leading, kRowGroupBytes);
    if (tile.ring > 1)
      text += fmt::format(" + {} * {}", claimed(tile.name + "_read"), tile.byte_count() / tile.ring / kChunkBytes);
    return text;
  };
  out_.line(fmt::format("const unsigned long long {} = {};", right,
                        descriptor(rhs, across ? rhs_rows * kPanelBytes : kChunkBytes)));
  if (!in_registers)
    out_.line(fmt::format("const unsigned long long {} = {} + {} * {};", left, descriptor(lhs, kChunkBytes),
                          claimed("warpgroup"), 64 * kPanelBytes / kChunkBytes));
  out_.open_unrolled(held_row_, fragment.registers());
  out_.line(mma.accumulate ? fmt::format("pin({}[{}]);", dst.name, held_row_)
                           : fmt::format("{}[{}] = 0.0f;", dst.name, held_row_));
  out_.close();
  emit(sync_.before({mma}));
  std::string first = mma.accumulate ? "1" : "0";
  if (sum_starts_) first = condition_text(*std::exchange(sum_starts_, std::nullopt), scope()) + " ? 0 : 1";
  for (int block = 0; block < blocks; ++block) {
    for (int step = 0; step < steps; ++step) {
      const int right_bytes = across ? step * 16 * kPanelBytes : step / 4 * rhs_rows * kPanelBytes + step % 4 * 32;
      std::string operand;
      if (in_registers) {
        const int pairs = fragment_of(lhs, grid_of(lhs)).columns.count() / 2;
        for (int part = 0; part < 4; ++part)
          operand += fmt::format("{}{}[{}]", part > 0 ? ", " : "", lhs.name,
                                 (2 * block + part % 2) * pairs + 2 * step + part / 2);
      } else {
        const int bytes = step / 4 * lhs_rows * kPanelBytes + step % 4 * 32 + block * groups * 64 * kPanelBytes;
        operand = fmt::format("{} + {}", left, bytes / 16);
      }
      out_.line(fmt::format("{}(&{}[{}], {}, {} + {}, {});", function, dst.name, 2 * block * held, operand, right,
                            right_bytes / 16, step > 0 ? "1" : first));
    }
  }
  emit(sync_.after({mma}));
  if (mma.token.empty())
    pin_product(mma);
  else
    wgmma_of_[mma.token] = &mma;
  out_.close();
}

}  // namespace astatide::cuda
