#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/interpret_machine.h"

namespace astatide::tile {
namespace {

// Deeper expressions than this come from no pass; the stack of an evaluation is fixed.
constexpr std::size_t kMaxDepth = 256;

}  // namespace

Tape TapeCompiler::compile(const Expr& e) {
  Tape tape;
  emit(tape, e, 0);
  using Kind = Tape::Kind;
  if (tape.steps_.size() == 1 && tape.steps_[0].kind == Kind::coordinate)
    tape.sole_coordinate_ = static_cast<int>(tape.steps_[0].index);
  tape.uses_elements_ = std::any_of(tape.steps_.begin(), tape.steps_.end(), [](const Tape::Step& step) {
    return step.kind == Kind::coordinate || step.kind == Kind::tile;
  });
  return tape;
}

void TapeCompiler::emit_variable(Tape& tape, const std::string& name) {
  using Kind = Tape::Kind;
  for (std::size_t i = 0; i < at_.size(); ++i) {
    if (at_[i].axis != name) continue;
    tape.steps_.push_back({.kind = Kind::coordinate, .index = static_cast<std::uint32_t>(i)});
    return;
  }
  const auto renamed = renamed_.find(name);
  const std::size_t* tile = renamed != renamed_.end() ? &renamed->second : machine_.find_tile(name);
  if (tile) {
    auto found = std::find(operands_.begin(), operands_.end(), *tile);
    if (found == operands_.end()) found = operands_.insert(operands_.end(), *tile);
    const auto operand = static_cast<std::uint32_t>(found - operands_.begin());
    tape.steps_.push_back({.kind = Kind::tile, .index = operand, .count = static_cast<std::uint32_t>(*tile)});
    return;
  }
  const std::size_t* slot = machine_.find_slot(name);
  if (!slot) machine_.fail("nothing is named " + name);
  tape.steps_.push_back({.kind = Kind::slot, .index = static_cast<std::uint32_t>(*slot)});
}

void TapeCompiler::emit_call(Tape& tape, const Call& c, std::size_t depth) {
  using Kind = Tape::Kind;
  const auto position = [&] { return static_cast<std::uint32_t>(tape.steps_.size()); };
  const auto jump = [&](Kind kind) {
    tape.steps_.push_back({.kind = kind});
    return tape.steps_.size() - 1;
  };
  // Reads behind a condition happen only where it holds.
  if (c.op == Op::select) {
    emit(tape, c.args[0], depth);
    const std::size_t to_else = jump(Kind::jump_if_zero);
    emit(tape, c.args[1], depth);
    const std::size_t to_end = jump(Kind::jump);
    tape.steps_[to_else].index = position();
    emit(tape, c.args[2], depth);
    tape.steps_[to_end].index = position();
    return;
  }
  if (c.op == Op::logical_and || c.op == Op::logical_or) {
    emit(tape, c.args[0], depth);
    const std::size_t to_constant = jump(c.op == Op::logical_and ? Kind::jump_if_zero : Kind::jump_unless_zero);
    emit(tape, c.args[1], depth);
    const std::size_t to_end = jump(Kind::jump);
    tape.steps_[to_constant].index = position();
    tape.steps_.push_back({.kind = Kind::constant, .value = c.op == Op::logical_and ? 0.0 : 1.0});
    tape.steps_[to_end].index = position();
    return;
  }
  if (c.op == Op::count_below) {
    const Read& first = *c.args[0].as<Read>();
    std::vector<Expr> operands = first.indices;
    operands.insert(operands.end(), {c.args[1], c.args[2]});
    for (std::size_t i = 0; i < operands.size(); ++i) emit(tape, operands[i], depth + i);
    tape.steps_.push_back({.kind = Kind::search,
                           .index = static_cast<std::uint32_t>(machine_.tensor_of(first.tensor)),
                           .count = static_cast<std::uint32_t>(first.indices.size())});
    return;
  }
  for (std::size_t i = 0; i < c.args.size(); ++i) emit(tape, c.args[i], depth + i);
  tape.steps_.push_back({.kind = c.args.size() == 1 ? Kind::unary : Kind::binary, .op = c.op});
}

void TapeCompiler::emit(Tape& tape, const Expr& e, std::size_t depth) {
  using Kind = Tape::Kind;
  if (depth + 1 > kMaxDepth) machine_.fail("an expression is nested too deeply");
  tape.depth_ = std::max(tape.depth_, depth + 1);
  match(
      e.node(), [&](const Number& n) { tape.steps_.push_back({.kind = Kind::constant, .value = n.value}); },
      [&](const Integer& i) { tape.steps_.push_back({.kind = Kind::constant, .value = static_cast<double>(i.value)}); },
      [&](const Variable& v) { emit_variable(tape, v.name); }, [&](const Call& c) { emit_call(tape, c, depth); },
      [&](const Read& r) {
        for (std::size_t i = 0; i < r.indices.size(); ++i) emit(tape, r.indices[i], depth + i);
        tape.steps_.push_back({.kind = Kind::read,
                               .index = static_cast<std::uint32_t>(machine_.tensor_of(r.tensor)),
                               .count = static_cast<std::uint32_t>(r.indices.size())});
      },
      [&](const Reduce& r) { machine_.fail("a reduction over " + r.axis + " stands in an expression"); });
}

double Tape::read_tensor(const Machine& machine, const Step& step, const double* indices) {
  const TensorState& tensor = machine.tensor(step.index);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < step.count; ++i) {
    if (!(indices[i] >= 0 && indices[i] < static_cast<double>(tensor.data->shape[i])))
      machine.fail("index " + std::to_string(indices[i]) + " of dimension " + std::to_string(i) + " of " +
                   tensor.tensor->name + ", which has " + std::to_string(tensor.data->shape[i]));
    offset += static_cast<std::int64_t>(indices[i]) * tensor.strides[i];
  }
  if (machine.share()) machine.share()->on_load(step.index, static_cast<std::size_t>(offset));
  return tensor.data->values[static_cast<std::size_t>(offset)];
}

double Tape::run(const Machine& machine, const ElementPlace& place) const {
  std::array<double, kMaxDepth> stack;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  std::size_t top = 0;
  for (std::size_t at = 0; at < steps_.size(); ++at) {
    const Step& step = steps_[at];
    switch (step.kind) {
      case Kind::constant:
        stack[top++] = step.value;
        break;
      case Kind::slot: {
        const double value = machine.slot(step.index);
        if (std::isnan(value)) machine.fail(machine.slot_name(step.index) + " is read before it is set");
        stack[top++] = value;
        break;
      }
      case Kind::coordinate:
        stack[top++] = place.coordinates[step.index];
        break;
      case Kind::tile:
        stack[top++] = machine.read_element(step.count, place.offsets[step.index]);
        break;
      case Kind::unary:
        stack[top - 1] = apply(step.op, &stack[top - 1]);
        break;
      case Kind::binary:
        stack[top - 2] = apply(step.op, &stack[top - 2]);
        --top;
        break;
      case Kind::read: {
        top -= step.count;
        const double value = place.beyond ? 0 : read_tensor(machine, step, &stack[top]);
        stack[top++] = value;
        break;
      }
      case Kind::search: {
        top -= step.count + 2;
        double* const last = &stack[top + step.count - 1];
        const double first = *last, count = last[1], value = last[2];
        double below = 0;
        for (; below < count; ++below) {
          *last = first + below;
          if (!(read_tensor(machine, step, &stack[top]) < value)) break;
        }
        stack[top++] = below;
        break;
      }
      case Kind::jump:
        at = step.index - 1;
        break;
      case Kind::jump_if_zero:
        if (stack[--top] == 0) at = step.index - 1;
        break;
      case Kind::jump_unless_zero:
        if (stack[--top] != 0) at = step.index - 1;
        break;
    }
  }
  return stack[0];
}

}  // namespace astatide::tile
