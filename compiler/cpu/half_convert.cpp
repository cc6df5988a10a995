#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include "compiler/cpu/vector_math.h"
#include "compiler/support/diagnostic.h"

// Conversions between f32 and 16-bit floats by integer arithmetic, so that no host needs a run-time library for them;
// f16 through the host's instructions where it has them. The bits equal those of compiler/support/half.h.
namespace astatide::cpu {

using llvm::Value;

namespace {

llvm::Type* with_bits(llvm::IRBuilder<>& b, const Value* like, unsigned bits) {
  return like->getType()->getWithNewType(b.getIntNTy(bits));
}

Value* widen_bf16(llvm::IRBuilder<>& b, Value* bits) {
  Value* wide = b.CreateShl(b.CreateZExt(bits, with_bits(b, bits, 32)), std::uint64_t{16});
  return b.CreateBitCast(wide, bits->getType()->getWithNewType(b.getFloatTy()));
}

// The upper half of the result holds the rounded bf16; a NaN stays one and becomes quiet.
Value* round_bf16(llvm::IRBuilder<>& b, Value* x) {
  llvm::Type* wide = with_bits(b, x, 32);
  const auto number = [&](std::uint64_t value) { return llvm::ConstantInt::get(wide, value); };
  Value* bits = b.CreateBitCast(x, wide);
  Value* odd = b.CreateAnd(b.CreateLShr(bits, number(16)), number(1));
  Value* rounded = b.CreateAdd(bits, b.CreateAdd(odd, number(0x7fff)));
  Value* quiet = b.CreateOr(bits, number(0x400000));
  return b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded);
}

Value* widen_f16(llvm::IRBuilder<>& b, Value* half) {
  llvm::Type* wide = with_bits(b, half, 32);
  llvm::Type* real = half->getType()->getWithNewType(b.getFloatTy());
  const auto number = [&](std::uint64_t value) { return llvm::ConstantInt::get(wide, value); };
  Value* bits = b.CreateZExt(half, wide);
  Value* sign = b.CreateShl(b.CreateAnd(bits, number(0x8000)), number(16));
  Value* magnitude = b.CreateAnd(bits, number(0x7fff));
  Value* normal = b.CreateAdd(b.CreateShl(magnitude, number(13)), number(112u << 23));
  Value* subnormal =
      b.CreateBitCast(b.CreateFMul(b.CreateUIToFP(magnitude, real), llvm::ConstantFP::get(real, 0x1p-24)), wide);
  Value* special = b.CreateOr(b.CreateShl(magnitude, number(13)), number(0x7f800000));
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, number(0x400)), subnormal, normal);
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, number(0x7c00)), special, result);
  Value* quiet = b.CreateSelect(b.CreateICmpUGT(magnitude, number(0x7c00)), number(0x400000), number(0));
  return b.CreateBitCast(b.CreateOr(b.CreateOr(result, quiet), sign), real);
}

Value* narrow_f16(llvm::IRBuilder<>& b, Value* x) {
  llvm::Type* wide = with_bits(b, x, 32);
  const auto number = [&](std::uint64_t value) { return llvm::ConstantInt::get(wide, value); };
  Value* bits = b.CreateBitCast(x, wide);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, number(16)), number(0x8000));
  Value* magnitude = b.CreateAnd(bits, number(0x7fffffff));
  // Subnormal in f16: adding 0.5 puts the unit of f16's last place, 2^-24, into the last place of the float sum.
  Value* shifted = b.CreateFAdd(b.CreateBitCast(magnitude, x->getType()), llvm::ConstantFP::get(x->getType(), 0.5));
  Value* subnormal = b.CreateSub(b.CreateBitCast(shifted, wide), number(0x3f000000));
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, number(13)), number(1));
  Value* normal = b.CreateLShr(b.CreateAdd(b.CreateSub(magnitude, number((112u << 23) - 0xfff)), odd), number(13));
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, number(0x38800000)), subnormal, normal);
  // 65520 is the tie between the largest f16, 65504, and the first value out of range.
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, number(0x477ff000)), number(0x7c00), result);
  Value* nan = b.CreateOr(number(0x7e00), b.CreateAnd(b.CreateLShr(magnitude, number(13)), number(0x3ff)));
  result = b.CreateSelect(b.CreateICmpUGT(magnitude, number(0x7f800000)), nan, result);
  return b.CreateTrunc(b.CreateOr(result, sign), with_bits(b, x, 16));
}

}  // namespace

Value* VectorMath::widen_half(ScalarType type, Value* bits) {
  if (type == ScalarType::bf16) return widen_bf16(b_, bits);
  if (type != ScalarType::f16) throw InternalError("not a 16-bit float");
  if (!host_.half_conversion) return widen_f16(b_, bits);
  Value* half = b_.CreateBitCast(bits, bits->getType()->getWithNewType(b_.getHalfTy()));
  return b_.CreateFPExt(half, bits->getType()->getWithNewType(b_.getFloatTy()));
}

Value* VectorMath::narrow_half(ScalarType type, Value* x) {
  if (type == ScalarType::bf16)
    return b_.CreateTrunc(b_.CreateLShr(round_bf16(b_, x), std::uint64_t{16}), with_bits(b_, x, 16));
  if (type != ScalarType::f16) throw InternalError("not a 16-bit float");
  if (!host_.half_conversion) return narrow_f16(b_, x);
  Value* half = b_.CreateFPTrunc(x, x->getType()->getWithNewType(b_.getHalfTy()));
  return b_.CreateBitCast(half, with_bits(b_, x, 16));
}

Value* VectorMath::round_to(ScalarType type, Value* x) {
  if (type == ScalarType::f16) return widen_half(type, narrow_half(type, x));
  if (type != ScalarType::bf16) return x;
  llvm::Type* wide = with_bits(b_, x, 32);
  Value* kept = b_.CreateAnd(round_bf16(b_, x), llvm::ConstantInt::get(wide, 0xffff0000u));
  return b_.CreateBitCast(kept, x->getType());
}

}  // namespace astatide::cpu
