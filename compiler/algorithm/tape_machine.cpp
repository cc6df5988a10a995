#include "compiler/algorithm/tape_machine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using Kind = Instruction::Kind;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Integers up to here are exact as doubles.
constexpr double kLargestInteger = 9007199254740992.0;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::string print_value(double value) {
  if (value == std::floor(value) && std::abs(value) < kLargestInteger)
    return std::to_string(static_cast<std::int64_t>(value));
  return to_string(Expr(value));
}

}  // namespace

TapeMachine::TapeMachine(const CompiledDefinition& definition, const std::vector<TapeTensor>& tensors,
                         Precision precision, const std::map<Op, Roundings::Function>& operations)
    : definition_(definition),
      tensors_(tensors),
      precision_(precision),
      operations_(operations),
      slots_(index(definition.slot_count), 0),
      reductions_(definition.reductions.size()) {
  for (const TapeTensor& tensor : tensors) {
    std::vector<std::int64_t> strides(tensor.shape.size(), 1);
    for (std::size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * tensor.shape[i];
    strides_.push_back(std::move(strides));
  }
  prepare(frame_, definition.tape);
  for (std::size_t i = 0; i < reductions_.size(); ++i) {
    prepare(reductions_[i].frame, definition.reductions[i].tape);
    reductions_[i].key.resize(definition.reductions[i].depends_on.size());
  }
}

void TapeMachine::prepare(Frame& frame, const Tape& tape) {
  frame.tape = &tape;
  std::size_t size = 0;
  for (const bool vector : tape.is_vector) size += vector ? kLanes : 1;
  frame.storage.assign(size, 0);
  size = 0;
  for (const bool vector : tape.is_vector) {
    frame.own.push_back(frame.storage.data() + size);
    size += vector ? kLanes : 1;
  }
  frame.at.assign(frame.own.begin(), frame.own.end());
  frame.is_lane.assign(frame.own.size(), false);
  for (const TapeConstant& constant : tape.constants) *frame.own[index(constant.reg)] = constant.value;
  for (const Instruction& i : tape.body)
    if (i.kind == Kind::lane) frame.is_lane[index(i.out)] = true;
}

Lanes TapeMachine::lanes(const Frame& frame, int reg) {
  return {frame.at[index(reg)], frame.tape->is_vector[index(reg)]};
}

bool TapeMachine::any(const Frame& frame, int reg, int count) {
  if (reg == kNone) return true;
  const Lanes active = lanes(frame, reg);
  if (!active.vector) return active[0] != 0;
  return std::any_of(active.values, active.values + count, [](double x) { return x != 0; });
}

void TapeMachine::run_row(std::int64_t outer, double* values, std::uint8_t* present) {
  const Tape& tape = definition_.tape;
  for (std::size_t i = definition_.slots.size(); i-- > 1;) {
    const std::int64_t extent = definition_.shape[i - 1];
    slots_[index(definition_.slots[i - 1])] = outer % extent;
    outer /= extent;
  }
  const std::int64_t length = definition_.shape.empty() ? 1 : definition_.shape.back();
  run(frame_, tape.prologue, 0, tape.prologue.size(), 0, 1);
  for (std::int64_t base = 0; base < length; base += kLanes) {
    const int count = static_cast<int>(std::min<std::int64_t>(kLanes, length - base));
    run(frame_, tape.body, 0, tape.predicate_end, base, count);
    const bool skip = !any(frame_, tape.active, count);
    if (!skip) run(frame_, tape.body, tape.predicate_end, tape.body.size(), base, count);
    const Lanes value = lanes(frame_, tape.value);
    for (int lane = 0; lane < count; ++lane) {
      const bool here = !skip && (tape.present == kNone || lanes(frame_, tape.present)[lane] != 0);
      values[base + lane] = here ? value[lane] : 0;
      if (present) present[base + lane] = here ? 1 : 0;
    }
  }
}

void TapeMachine::run(Frame& frame, const std::vector<Instruction>& code, std::size_t begin, std::size_t end,
                      std::int64_t base, int count) {
  for (std::size_t at = begin; at < end; ++at) {
    const Instruction& i = code[at];
    switch (i.kind) {
      case Kind::slot:
        *frame.own[index(i.out)] = static_cast<double>(slots_[index(i.which)]);
        break;
      case Kind::lane: {
        double* out = frame.own[index(i.out)];
        for (int lane = 0; lane < count; ++lane) out[lane] = static_cast<double>(base + lane);
        break;
      }
      case Kind::op:
        run_op(frame, i, count);
        break;
      case Kind::read:
        run_read(frame, i, base, count);
        break;
      case Kind::reduce:
        run_reduce(frame, i, base, count);
        break;
    }
  }
}

void TapeMachine::run_op(Frame& frame, const Instruction& i, int count) {
  Lanes args[3];
  for (std::size_t k = 0; k < i.args.size(); ++k) args[k] = lanes(frame, i.args[k]);
  const int lanes_here = frame.tape->is_vector[index(i.out)] ? count : 1;
  double* out = frame.own[index(i.out)];
  if (i.op == Op::floor_div || i.op == Op::mod) {
    for (int lane = 0; lane < lanes_here; ++lane) {
      if (i.active != kNone && lanes(frame, i.active)[lane] == 0) continue;
      const double a = args[0][lane];
      const double b = args[1][lane];
      if (b == 0)
        throw UserError(definition_.where, definition_.name + " divides the integer " + print_value(a) + " by zero");
      if (std::abs(a) >= kLargestInteger || std::abs(b) >= kLargestInteger)
        throw UserError(definition_.where,
                        definition_.name + " divides an integer of 2^53 or more, which is not exact here");
    }
  }
  apply_lanes(i.op, args, lanes_here, out);
  if (const auto rounding = operations_.find(i.op); rounding != operations_.end())
    std::transform(out, out + lanes_here, out, rounding->second);
  round(out, lanes_here);
}

void TapeMachine::round(double* values, int count) const {
  if (precision_ == Precision::f64) return;
  // Indices go through the same registers; they are integers and stay exact.
  for (int lane = 0; lane < count; ++lane)
    if (values[lane] != std::floor(values[lane])) values[lane] = static_cast<float>(values[lane]);
}

double TapeMachine::sum_stepwise(const Tape& tape, const Frame& frame, double so_far, int count) const {
  const bool dot = tape.dot_a != kNone;
  for (int lane = 0; lane < count; ++lane) {
    if (tape.present != kNone && lanes(frame, tape.present)[lane] == 0) continue;
    const double term =
        dot ? frame.at[index(tape.dot_a)][lane] * frame.at[index(tape.dot_b)][lane] : lanes(frame, tape.value)[lane];
    so_far = static_cast<float>(so_far + term);
  }
  return so_far;
}

void TapeMachine::out_of_range(const TapeTensor& tensor, std::size_t position, double at) const {
  const std::int64_t extent = tensor.shape[position];
  throw UserError(definition_.where, definition_.name + " reads " + tensor.name + " at index " + print_value(at) +
                                         " of dimension " + std::to_string(position + 1) + ", whose length is " +
                                         std::to_string(extent));
}

bool TapeMachine::read_in_place(Frame& frame, const Instruction& i, const TapeTensor& tensor, std::int64_t base,
                                int count) {
  const auto& strides = strides_[index(i.which)];
  std::int64_t offset = 0;
  std::int64_t stride = 0;
  for (std::size_t k = 0; k < i.args.size(); ++k) {
    const std::int64_t extent = tensor.shape[k];
    if (frame.is_lane[index(i.args[k])]) {
      if (base + count > extent) return false;
      offset += base * strides[k];
      stride += strides[k];
      continue;
    }
    const Lanes at = lanes(frame, i.args[k]);
    if (at.vector) return false;
    if (!(at[0] >= 0 && at[0] < static_cast<double>(extent)) || at[0] != std::floor(at[0])) return false;
    offset += static_cast<std::int64_t>(at[0]) * strides[k];
  }
  if (frame.tape->is_vector[index(i.out)]) {
    const double* from = tensor.values + offset;
    if (stride == 1) {
      frame.at[index(i.out)] = from;
    } else {
      double* out = frame.own[index(i.out)];
      for (int lane = 0; lane < count; ++lane) out[lane] = from[lane * stride];
      frame.at[index(i.out)] = out;
    }
  } else {
    *frame.own[index(i.out)] = tensor.values[offset];
  }
  if (i.second_out != kNone) {
    double* out = frame.own[index(i.second_out)];
    const int here = frame.tape->is_vector[index(i.second_out)] ? count : 1;
    for (int lane = 0; lane < here; ++lane) out[lane] = tensor.present[offset + lane * stride];
  }
  return true;
}

void TapeMachine::run_read(Frame& frame, const Instruction& i, std::int64_t base, int count) {
  const TapeTensor& tensor = tensors_[index(i.which)];
  if (read_in_place(frame, i, tensor, base, count)) return;
  const auto& strides = strides_[index(i.which)];
  const int here = frame.tape->is_vector[index(i.out)] ? count : 1;
  double* out = frame.own[index(i.out)];
  frame.at[index(i.out)] = out;
  for (int lane = 0; lane < here; ++lane) {
    std::int64_t offset = 0;
    const bool active = i.active == kNone || lanes(frame, i.active)[lane] != 0;
    for (std::size_t k = 0; active && k < i.args.size(); ++k) {
      const double at = lanes(frame, i.args[k])[lane];
      if (!(at >= 0 && at < static_cast<double>(tensor.shape[k])) || at != std::floor(at)) out_of_range(tensor, k, at);
      offset += static_cast<std::int64_t>(at) * strides[k];
    }
    out[lane] = active ? tensor.values[offset] : 0;
    if (i.second_out != kNone) frame.own[index(i.second_out)][lane] = active ? tensor.present[offset] : 0;
  }
}

void TapeMachine::run_reduce(Frame& frame, const Instruction& i, std::int64_t base, int count) {
  const TapeReduction& reduction = definition_.reductions[index(i.which)];
  ReductionState& state = reductions_[index(i.which)];
  double* out = frame.own[index(i.out)];
  if (reduction.across_lanes) return reduce_across(reduction, state, out, base, count);
  const bool vector = frame.tape->is_vector[index(i.out)];
  for (int lane = 0; lane < (vector ? count : 1); ++lane) {
    if (i.active != kNone && lanes(frame, i.active)[lane] == 0) {
      out[lane] = 0;
      if (i.second_out != kNone) frame.own[index(i.second_out)][lane] = 0;
      continue;
    }
    if (vector) slots_[index(frame.tape->lane_slot)] = base + lane;
    bool same = state.known;
    for (std::size_t k = 0; k < state.key.size(); ++k) {
      const std::int64_t slot = slots_[index(reduction.depends_on[k])];
      same = same && state.key[k] == slot;
      state.key[k] = slot;
    }
    state.known = false;  // in case the reduction throws half way
    if (!same) reduce_along(reduction, state);
    state.known = true;
    out[lane] = state.value;
    if (i.second_out != kNone) frame.own[index(i.second_out)][lane] = state.total;
  }
}

void TapeMachine::reduce_across(const TapeReduction& reduction, ReductionState& state, double* out, std::int64_t base,
                                int count) {
  Frame& frame = state.frame;
  const Tape& tape = reduction.tape;
  std::fill(out, out + count, unit_of(reduction.op));
  for (std::int64_t at = 0; at < reduction.extent; ++at) {
    slots_[index(reduction.slot)] = at;
    run(frame, tape.prologue, 0, tape.prologue.size(), 0, 1);
    const bool masked = tape.present != kNone && lanes(frame, tape.present).vector;
    if (tape.present != kNone && !masked && lanes(frame, tape.present)[0] == 0) continue;
    run(frame, tape.body, 0, tape.body.size(), base, count);
    const Lanes value = lanes(frame, tape.value);
    if (!masked && reduction.op == Reduction::sum && value.vector) {
      for (int lane = 0; lane < count; ++lane) out[lane] += value.values[lane];
      round(out, count);
      continue;
    }
    const Op op = reduction.op == Reduction::sum ? Op::add : reduction.op == Reduction::max ? Op::max : Op::min;
    for (int lane = 0; lane < count; ++lane) {
      if (masked && lanes(frame, tape.present)[lane] == 0) continue;
      const double pair[2] = {out[lane], value[lane]};
      out[lane] = apply(op, pair);
    }
    round(out, count);
  }
}

double TapeMachine::accumulate(const TapeReduction& reduction, ReductionState& state, double so_far, int count) {
  const Frame& frame = state.frame;
  const Tape& tape = reduction.tape;
  if (precision_ == Precision::f32 && reduction.op == Reduction::sum) return sum_stepwise(tape, frame, so_far, count);
  if (tape.dot_a != kNone) return so_far + dot_lanes(frame.at[index(tape.dot_a)], frame.at[index(tape.dot_b)], count);
  const Lanes value = lanes(frame, tape.value);
  const bool masked = tape.present != kNone;
  const Lanes present = masked ? lanes(frame, tape.present) : Lanes{nullptr, false};
  if (reduction.op == Reduction::sum && value.vector && (!masked || present.vector))
    return so_far + sum_lanes(value.values, masked ? present.values : nullptr, count);
  const Op op = reduction.op == Reduction::sum ? Op::add : reduction.op == Reduction::min ? Op::min : Op::max;
  for (int lane = 0; lane < count; ++lane) {
    if (masked && present[lane] == 0) continue;
    const double pair[2] = {so_far, value[lane]};
    so_far = apply(op, pair);
  }
  return so_far;
}

void TapeMachine::reduce_along(const TapeReduction& reduction, ReductionState& state) {
  Frame& frame = state.frame;
  const Tape& tape = reduction.tape;
  const bool weighted = reduction.op == Reduction::softmax || reduction.op == Reduction::logsumexp;
  state.value = weighted ? -kInfinity : unit_of(reduction.op);
  state.row.clear();
  run(frame, tape.prologue, 0, tape.prologue.size(), 0, 1);
  for (std::int64_t base = 0; base < reduction.extent; base += kLanes) {
    const int count = static_cast<int>(std::min<std::int64_t>(kLanes, reduction.extent - base));
    run(frame, tape.body, 0, tape.body.size(), base, count);
    state.value = accumulate(reduction, state, state.value, count);
    if (!weighted) continue;
    const Lanes value = lanes(frame, tape.value);
    for (int lane = 0; lane < count; ++lane)
      if (tape.present == kNone || lanes(frame, tape.present)[lane] != 0) state.row.push_back(value[lane]);
  }
  if (!weighted) return;
  // The maximum of a row of minus infinities is no reference: each of its elements weighs 0.
  const double reference = state.value == -kInfinity ? 0 : state.value;
  for (double& x : state.row) x = std::exp(x - reference);
  if (precision_ == Precision::f64) {
    state.total = sum_lanes(state.row.data(), nullptr, static_cast<int>(state.row.size()));
  } else {
    round(state.row.data(), static_cast<int>(state.row.size()));
    state.total = 0;
    for (const double x : state.row) state.total = static_cast<float>(state.total + x);
  }
  if (reduction.op == Reduction::logsumexp) {
    state.value = reference + std::log(state.total);
    round(&state.value, 1);
  }
}

}  // namespace astatide
