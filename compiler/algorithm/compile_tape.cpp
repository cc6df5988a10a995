#include <algorithm>
#include <utility>

#include "compiler/algorithm/tape.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

using Kind = Instruction::Kind;

/// Registers of an expression's value and presence.
struct Compiled {
  int value = kNone;
  int present = kNone;
};

using AxisSlots = std::map<std::string, int>;

class TapeCompiler {
 public:
  TapeCompiler(CompiledDefinition& definition, const TapeContext& context, Tape& tape, AxisSlots slots)
      : definition_(definition), context_(context), tape_(tape), slots_(std::move(slots)) {}

  Compiled compile(const Expr& e, int active) {
    const auto key = std::pair(e, active);
    if (const auto found = done_.find(key); found != done_.end()) return found->second;
    const Compiled out = match(
        e.node(),
        [&](const Number& n) {
          return Compiled{constant(n.value), kNone};
        },
        [&](const Integer& i) {
          return Compiled{constant(static_cast<double>(i.value)), kNone};
        },
        [&](const Variable& v) {
          return Compiled{compile_variable(v.name), kNone};
        },
        [&](const Call& c) { return compile_call(c, active); }, [&](const Read& r) { return compile_read(r, active); },
        [&](const Reduce& r) { return compile_reduce(r, active); });
    done_.emplace(key, out);
    return out;
  }

  void compile_definition_body(const Func& func) {
    int active = kNone;
    if (func.where_predicate) {
      const Compiled predicate = compile(*func.where_predicate, kNone);
      active = both(predicate.value, predicate.present);
      tape_.active = active;
      tape_.predicate_end = tape_.body.size();
    }
    const Compiled value = compile(func.value, active);
    tape_.value = value.value;
    tape_.present = both(active, value.present);
  }

  /// Where the value is a product that nothing else reads, leaves the product to the sum.
  void fold_product() {
    if (tape_.present != kNone || tape_.body.empty()) return;
    const Instruction& last = tape_.body.back();
    if (last.kind != Kind::op || last.op != Op::mul || last.out != tape_.value) return;
    if (!tape_.is_vector[static_cast<std::size_t>(last.args[0])] ||
        !tape_.is_vector[static_cast<std::size_t>(last.args[1])])
      return;
    tape_.dot_a = last.args[0];
    tape_.dot_b = last.args[1];
    tape_.body.pop_back();
  }

 private:
  bool is_vector(int reg) const { return reg != kNone && tape_.is_vector[static_cast<std::size_t>(reg)]; }

  int new_register(bool vector) {
    tape_.is_vector.push_back(vector);
    return static_cast<int>(tape_.is_vector.size()) - 1;
  }

  int constant(double value) {
    const int reg = new_register(false);
    tape_.constants.push_back({reg, value});
    return reg;
  }

  void emit(Instruction instruction, bool vector) {
    (vector ? tape_.body : tape_.prologue).push_back(std::move(instruction));
  }

  int emit_op(Op op, std::vector<int> args, int active = kNone) {
    const bool vector =
        is_vector(active) || std::any_of(args.begin(), args.end(), [&](int arg) { return is_vector(arg); });
    const int out = new_register(vector);
    emit({Kind::op, op, kNone, out, kNone, std::move(args), active}, vector);
    return out;
  }

  /// The conjunction of two conditions, kNone standing for one that always holds.
  int both(int a, int b) {
    if (a == kNone || a == b) return b;
    if (b == kNone) return a;
    return emit_op(Op::logical_and, {a, b});
  }

  int compile_variable(const std::string& name) {
    if (const auto slot = slots_.find(name); slot != slots_.end()) {
      const bool lane = slot->second == tape_.lane_slot;
      const int out = new_register(lane);
      emit({lane ? Kind::lane : Kind::slot, Op::add, slot->second, out, kNone, {}, kNone}, lane);
      return out;
    }
    const auto value = context_.values.find(name);
    if (value == context_.values.end()) throw InternalError("no value for " + name);
    return constant(value->second);
  }

  Compiled compile_call(const Call& c, int active) {
    if (c.op == Op::select) return compile_select(c, active);
    if (c.op == Op::logical_and || c.op == Op::logical_or) return compile_short_circuit(c, active);
    std::vector<int> args;
    int present = kNone;
    for (const Expr& arg : c.args) {
      const Compiled compiled = compile(arg, active);
      args.push_back(compiled.value);
      present = both(present, compiled.present);
    }
    const bool may_fault = c.op == Op::floor_div || c.op == Op::mod;
    return {emit_op(c.op, std::move(args), may_fault ? both(active, present) : kNone), present};
  }

  Compiled compile_select(const Call& c, int active) {
    const Compiled condition = compile(c.args[0], active);
    const Compiled a = compile(c.args[1], both(active, condition.value));
    const Compiled b = compile(c.args[2], both(active, emit_op(Op::logical_not, {condition.value})));
    int present = condition.present;
    if (a.present != kNone || b.present != kNone) {
      const int always = constant(1);
      present = both(present, emit_op(Op::select, {condition.value, a.present == kNone ? always : a.present,
                                                   b.present == kNone ? always : b.present}));
    }
    return {emit_op(Op::select, {condition.value, a.value, b.value}), present};
  }

  /// The second operand counts only where the first doesn't decide.
  Compiled compile_short_circuit(const Call& c, int active) {
    const Compiled a = compile(c.args[0], active);
    const int undecided = c.op == Op::logical_and ? a.value : emit_op(Op::logical_not, {a.value});
    const Compiled b = compile(c.args[1], both(active, undecided));
    int present = a.present;
    if (b.present != kNone) present = both(present, emit_op(Op::select, {undecided, b.present, constant(1)}));
    return {emit_op(c.op, {a.value, b.value}), present};
  }

  /// An axis in its own dimension, or a constant inside of it, needs no mask.
  bool always_in_range(const Expr& index, std::int64_t length) const {
    if (const auto* i = index.as<Integer>()) return i->value >= 0 && i->value < length;
    const auto* v = index.as<Variable>();
    if (!v || !slots_.contains(v->name)) return false;
    const auto extent = context_.axis_extents.find(v->name);
    return extent != context_.axis_extents.end() && extent->second <= length;
  }

  Compiled compile_read(const Read& r, int active) {
    const auto& tensors = *context_.tensors;
    const auto tensor =
        std::find_if(tensors.begin(), tensors.end(), [&](const TapeTensor& t) { return t.name == r.tensor; });
    if (tensor == tensors.end()) throw InternalError("no tensor " + r.tensor);
    Instruction read{Kind::read, Op::add, static_cast<int>(tensor - tensors.begin()), kNone, kNone, {}, kNone};
    bool vector = false;
    bool safe = true;
    for (std::size_t i = 0; i < r.indices.size(); ++i) {
      read.args.push_back(compile(r.indices[i], active).value);
      vector = vector || is_vector(read.args.back());
      safe = safe && always_in_range(r.indices[i], tensor->shape[i]);
    }
    if (!safe) read.active = active;
    vector = vector || is_vector(read.active);
    Compiled out{new_register(vector), tensor->present ? new_register(vector) : kNone};
    read.out = out.value;
    read.second_out = out.present;
    emit(std::move(read), vector);
    return out;
  }

  /// How well reads go along an axis: one more for each that finds its elements side by side, one less for each that
  /// jumps.
  static int contiguity(const Expr& e, const std::string& axis) {
    int score = 0;
    visit(e, [&](const Expr& node) {
      const auto* r = node.as<Read>();
      if (!r || !free_variables(node).contains(axis)) return;
      const auto* last = r->indices.back().as<Variable>();
      const bool side_by_side = last && last->name == axis &&
                                std::none_of(r->indices.begin(), r->indices.end() - 1,
                                             [&](const Expr& index) { return free_variables(index).contains(axis); });
      score += side_by_side ? 1 : -1;
    });
    return score;
  }

  std::string lane_axis() const {
    for (const auto& [axis, slot] : slots_)
      if (slot == tape_.lane_slot) return axis;
    return {};
  }

  Compiled compile_reduce(const Reduce& r, int active) {
    const Expr& body = r.body.front();
    const int index = static_cast<int>(definition_.reductions.size());
    definition_.reductions.emplace_back();
    TapeReduction reduction;
    reduction.op = r.op;
    reduction.slot = definition_.slot_count++;
    reduction.extent = context_.axis_extents.at(r.axis);
    AxisSlots inner = slots_;
    inner.insert_or_assign(r.axis, reduction.slot);

    const std::set<std::string> free = free_variables(body);
    for (const std::string& name : free)
      if (name != r.axis && slots_.contains(name)) reduction.depends_on.push_back(slots_.at(name));
    const bool on_lanes = std::count(reduction.depends_on.begin(), reduction.depends_on.end(), tape_.lane_slot) > 0;
    const bool simple = r.op == Reduction::sum || r.op == Reduction::max || r.op == Reduction::min;
    const std::string lanes = lane_axis();
    reduction.across_lanes = on_lanes && simple && active == kNone && !has_reduction(body) && lanes != r.axis &&
                             contiguity(body, lanes) > contiguity(body, r.axis);
    reduction.tape.lane_slot = reduction.across_lanes ? tape_.lane_slot : reduction.slot;
    TapeCompiler compiler(definition_, context_, reduction.tape, inner);
    const Compiled value = compiler.compile(body, kNone);
    reduction.tape.value = value.value;
    reduction.tape.present = value.present;
    if (r.op == Reduction::sum && !reduction.across_lanes) compiler.fold_product();
    definition_.reductions[static_cast<std::size_t>(index)] = std::move(reduction);

    const bool vector = on_lanes || is_vector(active);
    const bool softmax = r.op == Reduction::softmax;
    const int out = new_register(vector);
    const int total = softmax ? new_register(vector) : kNone;
    emit({Kind::reduce, Op::add, index, out, total, {}, active}, vector);
    return softmax ? compile_weight(body, out, total, active) : Compiled{out, kNone};
  }

  static bool has_reduction(const Expr& e) {
    bool found = false;
    visit(e, [&](const Expr& node) { found = found || node.as<Reduce>(); });
    return found;
  }

  /// exp(x - maximum) / total. Where all of a row is minus infinity, or total is 0, the weight is 0.
  Compiled compile_weight(const Expr& body, int maximum, int total, int active) {
    const Compiled x = compile(body, active);
    const int weight = emit_op(Op::exp, {emit_op(Op::sub, {x.value, emit_op(Op::safe, {maximum})})});
    const int zero = constant(0);
    const int empty = emit_op(Op::eq, {total, zero});
    return {emit_op(Op::select, {empty, zero, emit_op(Op::div, {weight, total})}), x.present};
  }

  CompiledDefinition& definition_;
  const TapeContext& context_;
  Tape& tape_;
  AxisSlots slots_;
  std::map<std::pair<Expr, int>, Compiled> done_;
};

double work_of(const Expr& e, const TapeContext& context) {
  double work = 1;
  for (const Expr& child : children(e)) work += work_of(child, context);
  if (const auto* r = e.as<Reduce>())
    work *= static_cast<double>(std::max<std::int64_t>(context.axis_extents.at(r->axis), 1));
  return work;
}

}  // namespace

CompiledDefinition compile_definition(const Func& func, const TapeContext& context) {
  CompiledDefinition out;
  out.name = func.name;
  out.where = func.where;
  AxisSlots slots;
  double elements = 1;
  for (const std::string& axis : func.indices) {
    out.shape.push_back(context.axis_extents.at(axis));
    elements *= static_cast<double>(out.shape.back());
    out.slots.push_back(out.slot_count);
    slots.emplace(axis, out.slot_count++);
  }
  // A definition without axes has one element, in a lane of its own.
  out.tape.lane_slot = func.indices.empty() ? out.slot_count++ : out.slots.back();
  TapeCompiler(out, context, out.tape, slots).compile_definition_body(func);
  out.work = elements * work_of(func.value, context);
  return out;
}

}  // namespace astatide
