#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"

namespace astatide {

// A definition as a flat list of instructions over registers, so that the evaluator walks no tree for each element.
//
// One axis, the innermost of the definition or that of a reduction, is the lane axis: a register holds a value for each
// of up to kLanes neighbouring elements along it (vector), or one value for all of them (uniform). What is uniform is
// computed once for a run along the lane axis, in the prologue; the body is run for each group of lanes. All values are
// doubles: integers are exact up to 2^53, conditions are 0 or 1. Whether an element is present is a register of its
// own.

constexpr int kLanes = 256;
constexpr int kNone = -1;

/// A tensor that tapes read, row-major.
struct TapeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  const double* values = nullptr;
  /// 1 where an element is present; null where all are.
  const std::uint8_t* present = nullptr;
};

struct Instruction {
  enum class Kind : std::uint8_t {
    slot,    // out = the value of an axis outside the lanes
    lane,    // out = the lane axis
    op,      // out = op(args)
    read,    // out = tensor[args], present_out = its presence where the tensor has one
    reduce,  // out = reduction; of a softmax out = the maximum and second_out = the sum of exp(x - maximum)
  };
  Kind kind = Kind::op;
  Op op = Op::add;
  /// Slot, tensor or reduction, by kind.
  int which = kNone;
  int out = kNone;
  int second_out = kNone;
  std::vector<int> args;
  /// Lanes in which the instruction may fault; kNone: all. Others get 0.
  int active = kNone;
};

struct TapeConstant {
  int reg;
  double value;
};

struct Tape {
  int lane_slot = kNone;
  /// For each register whether it is a vector.
  std::vector<bool> is_vector;
  std::vector<TapeConstant> constants;
  std::vector<Instruction> prologue;
  std::vector<Instruction> body;
  /// Results. `present` kNone: always present.
  int value = kNone;
  int present = kNone;
  /// Body instructions before this one give `active`; where it holds in no lane the rest is skipped.
  std::size_t predicate_end = 0;
  int active = kNone;
  /// A sum of products is summed without storing the products: value = dot_a * dot_b.
  int dot_a = kNone;
  int dot_b = kNone;
};

struct TapeReduction {
  Reduction op = Reduction::sum;
  int slot = kNone;
  std::int64_t extent = 0;
  Tape tape;
  /// The lanes of the tape are those of the tape around it, and the reduction is a loop around the body; else the lanes
  /// run along the reduction's own axis.
  bool across_lanes = false;
  /// Slots that the result depends on: it is kept until one of them changes.
  std::vector<int> depends_on;
};

/// A definition ready to be run.
struct CompiledDefinition {
  std::string name;
  Location where;
  std::vector<std::int64_t> shape;
  /// The slot of each of the definition's axes; the last is the lane axis.
  std::vector<int> slots;
  int slot_count = 0;
  Tape tape;
  std::vector<TapeReduction> reductions;
  /// Multiplications and the like in all, roughly: decides whether threads pay.
  double work = 0;
};

/// What names stand for in one evaluation.
struct TapeContext {
  std::map<std::string, double> values;
  std::map<std::string, std::int64_t> axis_extents;
  const std::vector<TapeTensor>* tensors = nullptr;
};

CompiledDefinition compile_definition(const Func& func, const TapeContext& context);

}  // namespace astatide
