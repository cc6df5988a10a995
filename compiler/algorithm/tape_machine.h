#pragma once

#include <cstdint>
#include <vector>

#include "compiler/algorithm/evaluate.h"
#include "compiler/algorithm/lanes.h"
#include "compiler/algorithm/tape.h"

namespace astatide {

/// Runs a compiled definition; one for each thread, since it holds the registers.
class TapeMachine {
 public:
  /// `operations`: what results of operations go through.
  TapeMachine(const CompiledDefinition& definition, const std::vector<TapeTensor>& tensors, Precision precision,
              const std::map<Op, Roundings::Function>& operations);

  /// Computes the elements along the last axis at `outer`, the position in all other axes flattened, row-major.
  /// `present` may be null where the definition's elements are always present. Throws UserError where a read leaves its
  /// tensor.
  void run_row(std::int64_t outer, double* values, std::uint8_t* present);

 private:
  struct Frame {
    const Tape* tape = nullptr;
    /// kLanes values for each vector register, one for each uniform register.
    std::vector<double> storage;
    /// Where each register's values are: in `storage`, or in a tensor that is read in its own order.
    std::vector<double*> own;
    std::vector<const double*> at;
    std::vector<bool> is_lane;
  };
  struct ReductionState {
    Frame frame;
    std::vector<double> row;
    std::vector<std::int64_t> key;
    bool known = false;
    double value = 0;
    double total = 0;
  };

  static void prepare(Frame& frame, const Tape& tape);
  static Lanes lanes(const Frame& frame, int reg);
  static bool any(const Frame& frame, int reg, int count);

  void run(Frame& frame, const std::vector<Instruction>& code, std::size_t begin, std::size_t end, std::int64_t base,
           int count);
  void run_op(Frame& frame, const Instruction& i, int count);
  void run_read(Frame& frame, const Instruction& i, std::int64_t base, int count);
  bool read_in_place(Frame& frame, const Instruction& i, const TapeTensor& tensor, std::int64_t base, int count);
  void run_reduce(Frame& frame, const Instruction& i, std::int64_t base, int count);
  void reduce_across(const TapeReduction& reduction, ReductionState& state, double* out, std::int64_t base, int count);
  void reduce_along(const TapeReduction& reduction, ReductionState& state);
  double accumulate(const TapeReduction& reduction, ReductionState& state, double sum, int count);
  /// Rounds where the precision asks for it.
  void round(double* values, int count) const;
  double sum_stepwise(const Tape& tape, const Frame& frame, double so_far, int count) const;
  [[noreturn]] void out_of_range(const TapeTensor& tensor, std::size_t position, double index) const;

  const CompiledDefinition& definition_;
  const std::vector<TapeTensor>& tensors_;
  const Precision precision_;
  const std::map<Op, Roundings::Function>& operations_;
  std::vector<std::vector<std::int64_t>> strides_;
  std::vector<std::int64_t> slots_;
  Frame frame_;
  std::vector<ReductionState> reductions_;
};

}  // namespace astatide
