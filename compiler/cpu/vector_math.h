#pragma once

#include <llvm/IR/IRBuilder.h>

#include "compiler/algorithm/expr.h"
#include "compiler/cpu/emit.h"

namespace astatide::cpu {

/// Elementary functions of f32 scalars or vectors as straight code: no calls, no tables. Errors in units in the last
/// place, tested over the whole range: exp2, exp, log, log2 and tanh at most 2, sigmoid at most 3. Exact: exp(0),
/// exp2 of integers, exp2(-inf) = 0, log(1) = 0. NaN gives NaN, overflow gives infinity, underflow rounds through the
/// subnormals.
class VectorMath {
 public:
  VectorMath(llvm::IRBuilder<>& builder, const CpuHost& host) : b_(builder), host_(host) {}

  llvm::Value* exp2(llvm::Value* x);
  llvm::Value* exp(llvm::Value* x);
  llvm::Value* log(llvm::Value* x);
  llvm::Value* log2(llvm::Value* x);
  llvm::Value* tanh(llvm::Value* x);
  llvm::Value* sigmoid(llvm::Value* x);
  llvm::Value* sqrt(llvm::Value* x);
  llvm::Value* abs(llvm::Value* x);
  /// Lane by lane through powf.
  llvm::Value* pow(llvm::Value* x, llvm::Value* y);
  /// The greater (lesser); NaN where either is.
  llvm::Value* max(llvm::Value* x, llvm::Value* y);
  llvm::Value* min(llvm::Value* x, llvm::Value* y);
  llvm::Value* floor(llvm::Value* x);
  /// x * y + z, rounded once where the host can.
  llvm::Value* multiply_add(llvm::Value* x, llvm::Value* y, llvm::Value* z);

  /// Rounds to the values of f16 or bf16, to nearest, ties to even; other types: x itself.
  llvm::Value* round_to(ScalarType type, llvm::Value* x);
  /// f32 from 16 bits, and back. `type` is f16 or bf16; the 16-bit side is i16.
  llvm::Value* widen_half(ScalarType type, llvm::Value* bits);
  llvm::Value* narrow_half(ScalarType type, llvm::Value* x);

 private:
  llvm::Value* constant(const llvm::Value* like, double value);
  llvm::Value* integer(const llvm::Value* like, std::int64_t value);
  llvm::Value* bits_of(llvm::Value* x);
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> from_highest);
  /// The nearest integer of |x| < 2^21, as f32 and as i32.
  std::pair<llvm::Value*, llvm::Value*> nearest_integer(llvm::Value* x);
  /// x * 2^n for integers n, |n| <= 252; rounds once.
  llvm::Value* scale_by_power(llvm::Value* x, llvm::Value* n, llvm::Value* n_as_integer);
  /// log(x) = leading + trailing + exponent * log(2), |trailing| < |leading| < 0.42.
  struct LogParts {
    llvm::Value *leading, *trailing, *exponent;
  };
  LogParts log_parts(llvm::Value* x);
  /// `result` where x is positive and finite, else -inf, inf or NaN.
  llvm::Value* log_at_ends(llvm::Value* x, llvm::Value* result);
  /// The smaller of x and a constant, the larger; NaN stays. One instruction on x86.
  llvm::Value* at_most(llvm::Value* x, double limit);
  llvm::Value* at_least(llvm::Value* x, double limit);

  llvm::IRBuilder<>& b_;
  const CpuHost& host_;
};

}  // namespace astatide::cpu
