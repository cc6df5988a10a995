#include "compiler/cpu/vector_math.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <limits>

namespace astatide::cpu {

using llvm::Value;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum.
constexpr double kRoundingConstant = 12582912.0;
// ln(2) in two parts; the product of the first with an exponent is exact.
constexpr double kLn2High = 0.693359375;
constexpr double kLn2Low = -2.12194440e-4;

}  // namespace

Value* VectorMath::constant(const Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }

Value* VectorMath::integer(const Value* like, std::int64_t value) {
  llvm::Type* type = like->getType()->getWithNewType(b_.getInt32Ty());
  return llvm::ConstantInt::getSigned(type, value);
}

Value* VectorMath::bits_of(Value* x) { return b_.CreateBitCast(x, x->getType()->getWithNewType(b_.getInt32Ty())); }

Value* VectorMath::multiply_add(Value* x, Value* y, Value* z) {
  // fmuladd, not fma: without the instruction, fma would become a call.
  return b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {x->getType()}, {x, y, z});
}

Value* VectorMath::polynomial(Value* x, std::initializer_list<double> from_highest) {
  Value* sum = nullptr;
  for (double coefficient : from_highest)
    sum = sum ? multiply_add(sum, x, constant(x, coefficient)) : constant(x, coefficient);
  return sum;
}

Value* VectorMath::at_most(Value* x, double limit) {
  Value* bound = constant(x, limit);
  return b_.CreateSelect(b_.CreateFCmpOLT(bound, x), bound, x);
}

Value* VectorMath::at_least(Value* x, double limit) {
  Value* bound = constant(x, limit);
  return b_.CreateSelect(b_.CreateFCmpOGT(bound, x), bound, x);
}

std::pair<Value*, Value*> VectorMath::nearest_integer(Value* x) {
  Value* shifted = b_.CreateFAdd(x, constant(x, kRoundingConstant));
  Value* rounded = b_.CreateFSub(shifted, constant(x, kRoundingConstant));
  // The low bits of 1.5 * 2^23 are zero, so the difference of the patterns is the integer.
  return {rounded, b_.CreateSub(bits_of(shifted), integer(x, 0x4b400000))};
}

Value* VectorMath::scale_by_power(Value* x, Value* n, Value* n_as_integer) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (host_.avx512 && vector && vector->getNumElements() == 16) {
    Value* all = llvm::ConstantInt::get(b_.getInt16Ty(), 0xffff);
    Value* current_rounding = b_.getInt32(4);
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                              {x, n, llvm::Constant::getNullValue(x->getType()), all, current_rounding});
  }
  // In two factors: 2^n itself may lie outside of f32. Only the second product can round, and only into subnormals.
  Value* half = b_.CreateAShr(n_as_integer, integer(x, 1));
  Value* rest = b_.CreateSub(n_as_integer, half);
  const auto power = [&](Value* exponent) {
    Value* biased = b_.CreateAdd(exponent, integer(x, 127));
    return b_.CreateBitCast(b_.CreateShl(biased, integer(x, 23)), x->getType());
  };
  return b_.CreateFMul(b_.CreateFMul(x, power(half)), power(rest));
}

Value* VectorMath::exp2(Value* x) {
  // The limits lie beyond the last results that are not 0 and infinity.
  x = at_least(at_most(x, 129), -151);
  const auto [n, n_as_integer] = nearest_integer(x);
  Value* f = b_.CreateFSub(x, n);
  // (2^f - 1) / f on [-1/2, 1/2] at Chebyshev's nodes: 0.09 ulp. The constant term of 2^f is exactly 1.
  Value* p = polynomial(
      f, {0.000154531629451, 0.00133908633647, 0.00961808255728, 0.0555035711422, 0.240226507606, 0.693147188026});
  return scale_by_power(multiply_add(p, f, constant(f, 1)), n, n_as_integer);
}

Value* VectorMath::exp(Value* x) {
  x = at_least(at_most(x, 90), -105);
  const auto [n, n_as_integer] = nearest_integer(b_.CreateFMul(x, constant(x, 1.44269504088896341)));
  Value* f = multiply_add(n, constant(x, -kLn2High), x);
  f = multiply_add(n, constant(x, -kLn2Low), f);
  // (e^f - 1 - f) / f^2 on [-ln(2)/2, ln(2)/2] at Chebyshev's nodes: 0.17 ulp.
  Value* p = polynomial(f, {0.00139261761199, 0.00836317307451, 0.0416665546621, 0.166665770256, 0.5});
  p = multiply_add(p, b_.CreateFMul(f, f), f);
  return scale_by_power(b_.CreateFAdd(p, constant(f, 1)), n, n_as_integer);
}

VectorMath::LogParts VectorMath::log_parts(Value* x) {
  // Subnormals are made normal first.
  Value* small = b_.CreateFCmpOLT(x, constant(x, 0x1p-126));
  Value* bits = bits_of(b_.CreateSelect(small, b_.CreateFMul(x, constant(x, 0x1p23)), x));
  // Exponent and mantissa such that the mantissa lies in [sqrt(1/2), sqrt(2)).
  Value* exponent = b_.CreateAShr(b_.CreateSub(bits, integer(x, 0x3f3504f3)), integer(x, 23));
  Value* mantissa = b_.CreateBitCast(b_.CreateSub(bits, b_.CreateShl(exponent, integer(x, 23))), x->getType());
  exponent = b_.CreateSub(exponent, b_.CreateSelect(small, integer(x, 23), integer(x, 0)));
  Value* t = b_.CreateFSub(mantissa, constant(x, 1));
  // Coefficients: Cephes, logf.c.
  Value* p = polynomial(t, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  Value* square = b_.CreateFMul(t, t);
  Value* trailing = multiply_add(square, constant(x, -0.5), b_.CreateFMul(b_.CreateFMul(p, t), square));
  return {t, trailing, b_.CreateSIToFP(exponent, x->getType())};
}

Value* VectorMath::log_at_ends(Value* x, Value* result) {
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, constant(x, kInfinity)), x, result);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, constant(x, 0)), constant(x, -kInfinity), result);
  Value* nan = llvm::ConstantFP::getNaN(x->getType());
  return b_.CreateSelect(b_.CreateFCmpULT(x, constant(x, 0)), nan, result);
}

Value* VectorMath::log(Value* x) {
  const LogParts parts = log_parts(x);
  Value* sum = multiply_add(parts.exponent, constant(x, kLn2Low), parts.trailing);
  sum = b_.CreateFAdd(sum, parts.leading);
  return log_at_ends(x, multiply_add(parts.exponent, constant(x, kLn2High), sum));
}

Value* VectorMath::log2(Value* x) {
  const LogParts parts = log_parts(x);
  Value* mantissa = b_.CreateFAdd(parts.leading, parts.trailing);
  return log_at_ends(x, multiply_add(mantissa, constant(x, 1.44269504088896341), parts.exponent));
}

Value* VectorMath::tanh(Value* x) {
  Value* size = abs(x);
  // Coefficients: Cephes, tanhf.c.
  Value* square = b_.CreateFMul(x, x);
  Value* p =
      polynomial(square, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
  Value* near = multiply_add(b_.CreateFMul(p, square), x, x);
  Value* e = exp(b_.CreateFAdd(size, size));
  Value* one = constant(x, 1);
  Value* far = b_.CreateFSub(one, b_.CreateFDiv(constant(x, 2), b_.CreateFAdd(e, one)));
  far = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, far, x);
  return b_.CreateSelect(b_.CreateFCmpOLT(size, constant(x, 0.625)), near, far);
}

Value* VectorMath::sigmoid(Value* x) {
  // Of -|x|, so that nothing overflows.
  Value* e = exp(b_.CreateFNeg(abs(x)));
  Value* one = constant(x, 1);
  Value* numerator = b_.CreateSelect(b_.CreateFCmpOLT(x, constant(x, 0)), e, one);
  return b_.CreateFDiv(numerator, b_.CreateFAdd(e, one));
}

Value* VectorMath::sqrt(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }

Value* VectorMath::abs(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }

Value* VectorMath::floor(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x); }

Value* VectorMath::pow(Value* x, Value* y) {
  llvm::Module& module = *b_.GetInsertBlock()->getModule();
  llvm::Type* scalar = b_.getFloatTy();
  llvm::FunctionCallee function = module.getOrInsertFunction("powf", scalar, scalar, scalar);
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return b_.CreateCall(function, {x, y});
  Value* result = llvm::PoisonValue::get(x->getType());
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    Value* power = b_.CreateCall(function, {b_.CreateExtractElement(x, lane), b_.CreateExtractElement(y, lane)});
    result = b_.CreateInsertElement(result, power, lane);
  }
  return result;
}

Value* VectorMath::max(Value* x, Value* y) {
  // The comparison takes y where either is NaN; x goes first where it is the one.
  Value* larger = b_.CreateSelect(b_.CreateFCmpOGT(x, y), x, y);
  return b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, larger);
}

Value* VectorMath::min(Value* x, Value* y) {
  Value* smaller = b_.CreateSelect(b_.CreateFCmpOLT(x, y), x, y);
  return b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, smaller);
}

}  // namespace astatide::cpu
