#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide::cpu {

using llvm::Value;
using Kind = Element::Kind;

namespace {

bool is_integral(const Element& e) { return e.kind != Kind::real; }

llvm::CmpInst::Predicate integer_predicate(Op op) {
  switch (op) {
    case Op::lt:
      return llvm::CmpInst::ICMP_SLT;
    case Op::le:
      return llvm::CmpInst::ICMP_SLE;
    case Op::gt:
      return llvm::CmpInst::ICMP_SGT;
    case Op::ge:
      return llvm::CmpInst::ICMP_SGE;
    case Op::eq:
      return llvm::CmpInst::ICMP_EQ;
    case Op::ne:
      return llvm::CmpInst::ICMP_NE;
    default:
      throw InternalError("not a comparison");
  }
}

llvm::CmpInst::Predicate real_predicate(Op op) {
  switch (op) {
    case Op::lt:
      return llvm::CmpInst::FCMP_OLT;
    case Op::le:
      return llvm::CmpInst::FCMP_OLE;
    case Op::gt:
      return llvm::CmpInst::FCMP_OGT;
    case Op::ge:
      return llvm::CmpInst::FCMP_OGE;
    case Op::eq:
      return llvm::CmpInst::FCMP_OEQ;
    case Op::ne:
      return llvm::CmpInst::FCMP_UNE;
    default:
      throw InternalError("not a comparison");
  }
}

}  // namespace

ElementEmitter::ElementEmitter(KernelEmitter& kernel, int lanes, std::string vector_axis, const Indices& indices,
                               const std::vector<tile::Coordinate>& at)
    : k_(kernel), b_(kernel.builder_), lanes_(lanes), vector_axis_(std::move(vector_axis)), indices_(indices) {
  for (const tile::Coordinate& coordinate : at) {
    Element e{Kind::integer, k_.integer(coordinate.origin)};
    const auto offset = indices.find(coordinate.axis);
    if (offset != indices.end()) {
      e.value = b_.CreateAdd(e.value, offset->second);
      if (coordinate.axis == vector_axis_ && lanes_ > 1) e.lane_step = 1;
    }
    coordinates_[coordinate.axis] = e;
  }
}

void ElementEmitter::set_active(Value* mask) {
  if (mask == active_) return;
  active_ = mask;
  memo_.clear();
}

Value* ElementEmitter::both(Value* a, Value* b) { return !a ? b : !b ? a : b_.CreateAnd(a, b); }

Value* ElementEmitter::admitted(const std::vector<tile::Coordinate>& at, const std::vector<Expr>& predicates,
                                Value* tail) {
  Value* mask = tail;
  for (const tile::Coordinate& coordinate : at) {
    if (!coordinate.limit) continue;
    const Element limit{Kind::integer, k_.integer(*coordinate.limit)};
    mask = both(mask, predicate(compare(Op::lt, coordinates_.at(coordinate.axis), limit)));
  }
  for (const Expr& e : predicates) {
    set_active(mask);
    mask = both(mask, predicate(evaluate(e)));
  }
  return mask;
}

Value* ElementEmitter::widened(const Element& e) {
  if (e.varies || lanes_ == 1) return e.value;
  Value* vector = b_.CreateVectorSplat(lanes_, e.value);
  if (e.lane_step == 0) return vector;
  std::vector<llvm::Constant*> steps;
  for (int lane = 0; lane < lanes_; ++lane) steps.push_back(k_.index(e.lane_step * lane));
  return b_.CreateAdd(vector, llvm::ConstantVector::get(steps));
}

std::pair<Value*, Value*> ElementEmitter::matched(const Element& a, const Element& b, bool& varies) {
  varies = !a.uniform() || !b.uniform();
  if (!varies) return {a.value, b.value};
  return {widened(a), widened(b)};
}

Element ElementEmitter::to_real(const Element& e) {
  if (e.kind == Kind::real) return e;
  const bool varies = !e.uniform();
  Value* value = varies ? widened(e) : e.value;
  llvm::Type* type = value->getType()->getWithNewType(b_.getFloatTy());
  value = e.kind == Kind::integer ? b_.CreateSIToFP(value, type) : b_.CreateUIToFP(value, type);
  return {Kind::real, value, varies};
}

Element ElementEmitter::to_predicate(const Element& e) {
  if (e.kind == Kind::predicate) return e;
  const bool varies = !e.uniform();
  Value* value = varies ? widened(e) : e.value;
  Value* zero = llvm::Constant::getNullValue(value->getType());
  value = e.kind == Kind::integer ? b_.CreateICmpNE(value, zero) : b_.CreateFCmpUNE(value, zero);
  return {Kind::predicate, value, varies};
}

Element ElementEmitter::to_integer(const Element& e) {
  if (e.kind == Kind::integer) return e;
  if (e.kind == Kind::real) throw InternalError("a real value stands where an integer is needed");
  return {Kind::integer, b_.CreateZExt(e.value, e.value->getType()->getWithNewType(b_.getInt64Ty())), e.varies};
}

Value* ElementEmitter::real(const Element& e) { return widened(to_real(e)); }
Value* ElementEmitter::integers(const Element& e) { return widened(to_integer(e)); }
Value* ElementEmitter::predicate(const Element& e) { return widened(to_predicate(e)); }

Element ElementEmitter::evaluate(const Expr& e) {
  const auto found = memo_.find(e.id());
  if (found != memo_.end()) return found->second;
  const Element result = compute(e);
  memo_[e.id()] = result;
  return result;
}

Element ElementEmitter::evaluate_where(const Expr& e, Value* lanes) {
  // Without reads the lanes that nothing uses do no harm, and the memo stays.
  if (tensors_read(e).empty()) return evaluate(e);
  Value* outer = active_;
  set_active(both(outer, lanes));
  const Element result = evaluate(e);
  set_active(outer);
  return result;
}

Element ElementEmitter::compute(const Expr& e) {
  return match(
      e.node(),
      [&](const Number& n) {
        return Element{Kind::real, llvm::ConstantFP::get(b_.getFloatTy(), n.value)};
      },
      [&](const Integer& i) {
        return Element{Kind::integer, k_.index(i.value)};
      },
      [&](const Variable& v) { return variable(v.name); }, [&](const Call& c) { return call(c); },
      [&](const Read& r) { return read(r); },
      [&](const Reduce&) -> Element { throw InternalError("a reduction in a tile program: " + to_string(e)); });
}

Element ElementEmitter::variable(const std::string& name) {
  if (const auto found = coordinates_.find(name); found != coordinates_.end()) return found->second;
  if (const auto found = k_.storage_.tiles.find(name); found != k_.storage_.tiles.end())
    return load_tile(found->second);
  if (const auto found = k_.flags_.find(name); found != k_.flags_.end())
    return {Kind::predicate, b_.CreateLoad(b_.getInt1Ty(), found->second)};
  if (const auto found = k_.names_.find(name); found != k_.names_.end()) return found->second;
  throw InternalError("kernel " + k_.kernel_.name + ": no value for " + name);
}

Element ElementEmitter::load_tile(const Storage& storage) {
  for (const tile::Dim& dim : storage.mem->dims)
    if (!indices_.count(dim.axis))
      throw InternalError("kernel " + k_.kernel_.name + ": tile " + storage.mem->name + " is read with no index for " +
                          dim.axis);
  const bool has = lanes_ > 1 && storage.mem->has_axis(vector_axis_);
  llvm::Type* type = k_.element_type(storage);
  Value* address = k_.address(storage, indices_, false);
  Element e{storage.is_real() ? Kind::real : Kind::integer, nullptr, has};
  if (!has) {
    e.value = k_.of_tile(b_.CreateLoad(type, address, storage.mem->name), storage);
  } else if (storage.vector_axis == vector_axis_) {
    llvm::Type* vector = k_.vector_type(type, lanes_);
    e.value = k_.of_tile(b_.CreateAlignedLoad(vector, address, llvm::Align(4), storage.mem->name), storage);
  } else {
    // Lanes beyond the extent take its last element: they are padding, but their addresses must exist.
    const std::int64_t stride = storage.stride_of(vector_axis_);
    Value* last = b_.CreateSub(k_.index(storage.mem->extent_of(vector_axis_) - 1), indices_.at(vector_axis_));
    e.value = llvm::PoisonValue::get(k_.vector_type(type, lanes_));
    for (int lane = 0; lane < lanes_; ++lane) {
      Value* clamped = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, k_.index(lane), last);
      Value* element = b_.CreateLoad(type, b_.CreateGEP(type, address, b_.CreateMul(clamped, k_.index(stride))));
      e.value = b_.CreateInsertElement(e.value, element, lane);
    }
  }
  if (e.kind == Kind::integer && storage.mem->type != ScalarType::i64)
    e.value = b_.CreateSExt(e.value, e.value->getType()->getWithNewType(b_.getInt64Ty()));
  return e;
}

Element ElementEmitter::call(const Call& c) {
  switch (c.op) {
    case Op::select:
      return select(c);
    case Op::count_below:
      return count_below(c);
    case Op::logical_and:
    case Op::logical_or:
      return logical(c);
    default:
      break;
  }
  const Element a = evaluate(c.args[0]);
  if (c.args.size() == 1) {
    if (c.op == Op::logical_not) {
      const Element p = to_predicate(a);
      return {Kind::predicate, b_.CreateNot(p.value), p.varies};
    }
    if (is_integral(a) && c.op == Op::neg) {
      Element n = to_integer(a);
      return {Kind::integer, b_.CreateNeg(n.value), n.varies, -n.lane_step};
    }
    if (is_integral(a) && c.op == Op::abs) {
      Element n = to_integer(a);
      Value* value = n.uniform() ? n.value : widened(n);
      value = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, b_.CreateNeg(value));
      return {Kind::integer, value, !n.uniform()};
    }
    return real_function(c.op, to_real(a));
  }
  const Element b = evaluate(c.args[1]);
  switch (c.op) {
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::eq:
    case Op::ne:
      return compare(c.op, a, b);
    case Op::absorb: {
      const Element first = to_real(a);
      const Element product = arithmetic(Op::mul, first, to_real(b));
      bool varies = false;
      const auto [f, p] = matched(first, product, varies);
      Value* zero = llvm::Constant::getNullValue(f->getType());
      return {Kind::real, b_.CreateSelect(b_.CreateFCmpOEQ(f, zero), zero, p), varies};
    }
    default:
      break;
  }
  const bool integral = is_integral(a) && is_integral(b) && c.op != Op::div && c.op != Op::pow;
  if (integral) return integer_arithmetic(c.op, to_integer(a), to_integer(b));
  return arithmetic(c.op, to_real(a), to_real(b));
}

Element ElementEmitter::arithmetic(Op op, const Element& a, const Element& b) {
  bool varies = false;
  const auto [x, y] = matched(a, b, varies);
  Value* value = nullptr;
  switch (op) {
    case Op::add:
      value = b_.CreateFAdd(x, y);
      break;
    case Op::sub:
      value = b_.CreateFSub(x, y);
      break;
    case Op::mul:
      value = b_.CreateFMul(x, y);
      break;
    case Op::div:
      value = b_.CreateFDiv(x, y);
      break;
    case Op::min:
      value = k_.math_.min(x, y);
      break;
    case Op::max:
      value = k_.math_.max(x, y);
      break;
    case Op::pow:
      value = k_.math_.pow(x, y);
      break;
    case Op::floor_div:
      value = k_.math_.floor(b_.CreateFDiv(x, y));
      break;
    case Op::mod:
      value = b_.CreateFSub(x, b_.CreateFMul(k_.math_.floor(b_.CreateFDiv(x, y)), y));
      break;
    default:
      throw InternalError("no code for " + std::string(info(op).name) + " of reals");
  }
  return {Kind::real, value, varies};
}

Element ElementEmitter::real_function(Op op, const Element& a) {
  VectorMath& m = k_.math_;
  Value* x = a.value;
  Value* value = nullptr;
  switch (op) {
    case Op::neg:
      value = b_.CreateFNeg(x);
      break;
    case Op::exp:
      value = m.exp(x);
      break;
    case Op::exp2:
      value = m.exp2(x);
      break;
    case Op::log:
      value = m.log(x);
      break;
    case Op::log2:
      value = m.log2(x);
      break;
    case Op::tanh:
      value = m.tanh(x);
      break;
    case Op::sigmoid:
      value = m.sigmoid(x);
      break;
    case Op::sqrt:
      value = m.sqrt(x);
      break;
    case Op::abs:
      value = m.abs(x);
      break;
    case Op::safe: {
      Value* infinity = llvm::ConstantFP::get(x->getType(), -std::numeric_limits<double>::infinity());
      value = b_.CreateSelect(b_.CreateFCmpOEQ(x, infinity), llvm::Constant::getNullValue(x->getType()), x);
      break;
    }
    default:
      throw InternalError("no code for " + std::string(info(op).name));
  }
  return {Kind::real, value, a.varies};
}

Element ElementEmitter::integer_arithmetic(Op op, Element a, Element b) {
  if (!a.varies && !b.varies) {
    switch (op) {
      case Op::add:
        return {Kind::integer, b_.CreateAdd(a.value, b.value), false, a.lane_step + b.lane_step};
      case Op::sub:
        return {Kind::integer, b_.CreateSub(a.value, b.value), false, a.lane_step - b.lane_step};
      case Op::mul: {
        if (a.uniform()) std::swap(a, b);
        if (!b.uniform()) break;
        const auto* factor = llvm::dyn_cast<llvm::ConstantInt>(b.value);
        if (a.lane_step != 0 && !factor) break;
        const std::int64_t step = a.lane_step == 0 ? 0 : a.lane_step * factor->getSExtValue();
        return {Kind::integer, b_.CreateMul(a.value, b.value), false, step};
      }
      default:
        break;
    }
  }
  if (op == Op::floor_div || op == Op::mod) return floor_division(op == Op::mod, a, b);
  bool varies = false;
  const auto [x, y] = matched(a, b, varies);
  Value* value = nullptr;
  switch (op) {
    case Op::add:
      value = b_.CreateAdd(x, y);
      break;
    case Op::sub:
      value = b_.CreateSub(x, y);
      break;
    case Op::mul:
      value = b_.CreateMul(x, y);
      break;
    case Op::min:
      value = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
      break;
    case Op::max:
      value = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
      break;
    default:
      throw InternalError("no code for " + std::string(info(op).name) + " of integers");
  }
  return {Kind::integer, value, varies};
}

Element ElementEmitter::floor_division(bool remainder, const Element& a, const Element& b) {
  bool varies = false;
  auto [x, y] = matched(a, b, varies);
  if (const auto* divisor = b.uniform() ? llvm::dyn_cast<llvm::ConstantInt>(b.value) : nullptr) {
    const llvm::APInt& d = divisor->getValue();
    if (d.isStrictlyPositive() && d.isPowerOf2()) {
      // Shifts and masks round down.
      llvm::Type* type = x->getType();
      Value* value = remainder ? b_.CreateAnd(x, llvm::ConstantInt::get(type, d - 1))
                               : b_.CreateAShr(x, llvm::ConstantInt::get(type, d.logBase2()));
      return {Kind::integer, value, varies};
    }
  }
  // The instruction traps on a divisor of 0, which only a lane that nothing uses can have.
  Value* zero = llvm::Constant::getNullValue(y->getType());
  y = b_.CreateSelect(b_.CreateICmpEQ(y, zero), llvm::ConstantInt::get(y->getType(), 1), y);
  Value* rest = b_.CreateSRem(x, y);
  Value* wrong_side = b_.CreateAnd(b_.CreateICmpNE(rest, zero), b_.CreateICmpSLT(b_.CreateXor(rest, y), zero));
  Value* value = remainder ? b_.CreateSelect(wrong_side, b_.CreateAdd(rest, y), rest)
                           : b_.CreateAdd(b_.CreateSDiv(x, y), b_.CreateSExt(wrong_side, x->getType()));
  return {Kind::integer, value, varies};
}

Element ElementEmitter::compare(Op op, const Element& a, const Element& b) {
  bool varies = false;
  if (!is_integral(a) || !is_integral(b)) {
    const auto [x, y] = matched(to_real(a), to_real(b), varies);
    return {Kind::predicate, b_.CreateFCmp(real_predicate(op), x, y), varies};
  }
  const Element i = to_integer(a), j = to_integer(b);
  const std::int64_t step = i.lane_step - j.lane_step;
  if (!i.varies && !j.varies && step != 0 && step > -(1 << 24) && step < (1 << 24)) {
    // a - b + step * lane against 0, in 32 bits: beyond 2^30 the lanes (at most 64 of them) decide nothing.
    Value* distance = b_.CreateSub(i.value, j.value);
    distance = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, distance, k_.index(1 << 30));
    distance = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, distance, k_.index(-(1 << 30)));
    distance = b_.CreateVectorSplat(lanes_, b_.CreateTrunc(distance, b_.getInt32Ty()));
    std::vector<llvm::Constant*> steps;
    for (int lane = 0; lane < lanes_; ++lane)
      steps.push_back(llvm::ConstantInt::getSigned(b_.getInt32Ty(), -step * lane));
    return {Kind::predicate, b_.CreateICmp(integer_predicate(op), distance, llvm::ConstantVector::get(steps)), true};
  }
  if (!i.varies && !j.varies && step == 0)
    return {Kind::predicate, b_.CreateICmp(integer_predicate(op), i.value, j.value)};
  const auto [x, y] = matched(i, j, varies);
  return {Kind::predicate, b_.CreateICmp(integer_predicate(op), x, y), varies};
}

Element ElementEmitter::logical(const Call& c) {
  // The second side is evaluated only where the first leaves the result open.
  const Element first = to_predicate(evaluate(c.args[0]));
  Value* first_lanes = widened(first);
  const Element second =
      to_predicate(evaluate_where(c.args[1], c.op == Op::logical_and ? first_lanes : b_.CreateNot(first_lanes)));
  bool varies = false;
  const auto [x, y] = matched(first, second, varies);
  return {Kind::predicate, c.op == Op::logical_and ? b_.CreateAnd(x, y) : b_.CreateOr(x, y), varies};
}

Element ElementEmitter::select(const Call& c) {
  const Element condition = to_predicate(evaluate(c.args[0]));
  Value* lanes = widened(condition);
  Element a = evaluate_where(c.args[1], lanes);
  Element b = evaluate_where(c.args[2], b_.CreateNot(lanes));
  if (a.kind != b.kind) {
    const bool reals = a.kind == Kind::real || b.kind == Kind::real;
    a = reals ? to_real(a) : to_integer(a);
    b = reals ? to_real(b) : to_integer(b);
  }
  if (condition.uniform() && !a.varies && !b.varies && a.lane_step == b.lane_step)
    return {a.kind, b_.CreateSelect(condition.value, a.value, b.value), false, a.lane_step};
  const bool varies = !condition.uniform() || !a.uniform() || !b.uniform();
  Value* chosen = condition.uniform() ? condition.value : lanes;
  return {a.kind, b_.CreateSelect(chosen, widened(a), widened(b)), varies};
}

}  // namespace astatide::cpu
