#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

// Reads of tensors in global memory, element by element.
namespace astatide::cpu {

using llvm::Value;
using Kind = Element::Kind;

llvm::Type* KernelEmitter::memory_type(ScalarType type) {
  switch (type) {
    case ScalarType::f32:
      return builder_.getFloatTy();
    case ScalarType::f64:
      return builder_.getDoubleTy();
    case ScalarType::f16:
    case ScalarType::bf16:
      return builder_.getInt16Ty();
    case ScalarType::i32:
      return builder_.getInt32Ty();
    case ScalarType::i64:
      return builder_.getInt64Ty();
    case ScalarType::u8:
    case ScalarType::boolean:
      return builder_.getInt8Ty();
  }
  throw InternalError("unknown scalar type");
}

Value* KernelEmitter::zero_element() {
  if (!zero_element_) {
    llvm::Type* type = llvm::ArrayType::get(builder_.getInt64Ty(), 1);
    auto* zero = llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal("astatide.zero", type));
    zero->setInitializer(llvm::Constant::getNullValue(type));
    zero->setConstant(true);
    zero->setLinkage(llvm::GlobalValue::PrivateLinkage);
    zero->setAlignment(llvm::Align(8));
    zero_element_ = zero;
  }
  return zero_element_;
}

Element ElementEmitter::converted(ScalarType type, Value* loaded, bool varies) {
  llvm::Type* integers = loaded->getType()->getWithNewType(b_.getInt64Ty());
  switch (type) {
    case ScalarType::f32:
      return {Kind::real, loaded, varies};
    case ScalarType::f64:
      return {Kind::real, b_.CreateFPTrunc(loaded, loaded->getType()->getWithNewType(b_.getFloatTy())), varies};
    case ScalarType::f16:
    case ScalarType::bf16:
      return {Kind::real, k_.math_.widen_half(type, loaded), varies};
    case ScalarType::i32:
    case ScalarType::i64:
      return {Kind::integer, b_.CreateSExt(loaded, integers), varies};
    case ScalarType::u8:
      return {Kind::integer, b_.CreateZExt(loaded, integers), varies};
    case ScalarType::boolean:
      return {Kind::predicate, b_.CreateICmpNE(loaded, llvm::Constant::getNullValue(loaded->getType())), varies};
  }
  throw InternalError("unknown scalar type");
}

ElementEmitter::Place ElementEmitter::place_of(const std::string& tensor, const std::vector<Expr>& indices) {
  const auto found = k_.tensors_.find(tensor);
  if (found == k_.tensors_.end())
    throw InternalError("kernel " + k_.kernel_.name + ": tensor " + tensor + " is no argument");
  const TensorArguments& arguments = found->second;
  if (indices.size() != arguments.strides.size())
    throw InternalError("kernel " + k_.kernel_.name + ": tensor " + tensor + " has " +
                        std::to_string(arguments.strides.size()) + " dimensions");
  Place place{&arguments, k_.index(0), nullptr, nullptr};
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const Element e = to_integer(evaluate(indices[d]));
    Value* stride = arguments.strides[d];
    if (e.varies) {
      Value* offsets = b_.CreateMul(e.value, k_.splat(stride, lanes_));
      place.lane_offsets = place.lane_offsets ? b_.CreateAdd(place.lane_offsets, offsets) : offsets;
      continue;
    }
    place.offset = b_.CreateAdd(place.offset, b_.CreateMul(e.value, stride));
    if (e.lane_step != 0) {
      Value* step = b_.CreateMul(stride, k_.index(e.lane_step));
      place.lane_stride = place.lane_stride ? b_.CreateAdd(place.lane_stride, step) : step;
    }
  }
  return place;
}

Value* ElementEmitter::lane_pointers(const Place& place) {
  llvm::Type* type = k_.memory_type(place.arguments->tensor->type);
  Value* offsets = k_.splat(place.offset, lanes_);
  if (place.lane_offsets) offsets = b_.CreateAdd(offsets, place.lane_offsets);
  if (place.lane_stride) {
    std::vector<llvm::Constant*> lanes;
    for (int lane = 0; lane < lanes_; ++lane) lanes.push_back(k_.index(lane));
    offsets =
        b_.CreateAdd(offsets, b_.CreateMul(k_.splat(place.lane_stride, lanes_), llvm::ConstantVector::get(lanes)));
  }
  return b_.CreateGEP(type, place.arguments->data, offsets);
}

Value* ElementEmitter::gather(const Place& place) {
  llvm::Type* type = k_.memory_type(place.arguments->tensor->type);
  llvm::Type* vector = k_.vector_type(type, lanes_);
  Value* pointers = lane_pointers(place);
  Value* mask = active_ ? active_ : llvm::Constant::getAllOnesValue(k_.vector_type(b_.getInt1Ty(), lanes_));
  if (k_.host_.gather && type->getScalarSizeInBits() == 32)
    return b_.CreateMaskedGather(vector, pointers, llvm::Align(4), mask, llvm::Constant::getNullValue(vector));
  // Lane by lane, without branches: a lane that may not read takes a zero of our own.
  Value* result = llvm::PoisonValue::get(vector);
  for (int lane = 0; lane < lanes_; ++lane) {
    Value* pointer = b_.CreateExtractElement(pointers, lane);
    if (active_) pointer = b_.CreateSelect(b_.CreateExtractElement(mask, lane), pointer, k_.zero_element());
    result = b_.CreateInsertElement(result, b_.CreateLoad(type, pointer), lane);
  }
  return result;
}

Element ElementEmitter::load_contiguous(const Place& place, Value* mask) {
  const ScalarType scalar = place.arguments->tensor->type;
  llvm::Type* type = k_.memory_type(scalar);
  llvm::Type* vector = k_.vector_type(type, lanes_);
  const llvm::Align align(static_cast<std::uint64_t>(size_in_bytes(scalar)));
  Value* pointer = b_.CreateGEP(type, place.arguments->data, place.offset);
  Value* loaded =
      mask
          ? static_cast<Value*>(b_.CreateMaskedLoad(vector, pointer, align, mask, llvm::Constant::getNullValue(vector)))
          : b_.CreateAlignedLoad(vector, pointer, align);
  return converted(scalar, loaded, true);
}

Element ElementEmitter::read(const Read& r) {
  const Place place = place_of(r.tensor, r.indices);
  const ScalarType scalar = place.arguments->tensor->type;
  llvm::Type* type = k_.memory_type(scalar);
  const llvm::Align align(static_cast<std::uint64_t>(size_in_bytes(scalar)));
  Value* pointer = b_.CreateGEP(type, place.arguments->data, place.offset);
  if (!place.lane_offsets && !place.lane_stride) {
    if (active_) {
      Value* any = lanes_ == 1 ? active_ : b_.CreateOrReduce(active_);
      pointer = b_.CreateSelect(any, pointer, k_.zero_element());
    }
    return converted(scalar, b_.CreateAlignedLoad(type, pointer, align), false);
  }
  if (place.lane_offsets) return converted(scalar, gather(place), true);

  // Affine in the lane: one vector where the elements lie side by side.
  Value* contiguous = b_.CreateICmpEQ(place.lane_stride, k_.index(1));
  Element from_vector, from_lanes;
  llvm::BasicBlock *vector_end = nullptr, *lanes_end = nullptr;
  k_.branch(
      contiguous,
      [&] {
        from_vector = load_contiguous(place, active_);
        vector_end = b_.GetInsertBlock();
      },
      [&] {
        from_lanes = converted(scalar, gather(place), true);
        lanes_end = b_.GetInsertBlock();
      });
  llvm::PHINode* loaded = b_.CreatePHI(from_vector.value->getType(), 2);
  loaded->addIncoming(from_vector.value, vector_end);
  loaded->addIncoming(from_lanes.value, lanes_end);
  return {from_vector.kind, loaded, true};
}

Element ElementEmitter::count_below(const Call& c) {
  const Read& row = *c.args[0].as<Read>();
  const Place place = place_of(row.tensor, row.indices);
  const Element count = to_integer(evaluate(c.args[1])), wanted = to_integer(evaluate(c.args[2]));
  if (place.lane_offsets || place.lane_stride || !count.uniform() || wanted.lane_step != 0)
    throw InternalError("a search in " + row.tensor + " has other places in other lanes");
  if (!wanted.varies) return {Kind::integer, search(place, count.value, wanted.value), false};
  // Rows look for values of their own, one after the other.
  Value* out = llvm::PoisonValue::get(wanted.value->getType());
  for (int lane = 0; lane < lanes_; ++lane) {
    Value* found = search(place, count.value, b_.CreateExtractElement(wanted.value, k_.index(lane)));
    out = b_.CreateInsertElement(out, found, k_.index(lane));
  }
  return {Kind::integer, out, true};
}

Value* ElementEmitter::search(const Place& place, Value* count, Value* wanted) {
  const ScalarType scalar = place.arguments->tensor->type;
  llvm::Type* type = k_.memory_type(scalar);
  Value* stride = place.arguments->strides.back();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  const auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(b_.getContext(), name, before->getParent());
  };
  llvm::BasicBlock *test = block("search"), *body = block("halve"), *done = block("found");
  b_.CreateBr(test);
  b_.SetInsertPoint(test);
  llvm::PHINode *first = b_.CreatePHI(b_.getInt64Ty(), 2), *left = b_.CreatePHI(b_.getInt64Ty(), 2);
  b_.CreateCondBr(b_.CreateICmpSGT(left, k_.index(0)), body, done);
  b_.SetInsertPoint(body);
  Value* half = b_.CreateLShr(left, k_.index(1));
  Value* middle = b_.CreateAdd(first, half);
  Value* pointer = b_.CreateGEP(type, place.arguments->data, b_.CreateAdd(place.offset, b_.CreateMul(middle, stride)));
  const llvm::Align align(static_cast<std::uint64_t>(size_in_bytes(scalar)));
  const Element element = converted(scalar, b_.CreateAlignedLoad(type, pointer, align), false);
  Value* below = b_.CreateICmpSLT(element.value, wanted);
  Value* next_first = b_.CreateSelect(below, b_.CreateAdd(middle, k_.index(1)), first);
  Value* next_left = b_.CreateSelect(below, b_.CreateSub(b_.CreateSub(left, half), k_.index(1)), half);
  b_.CreateBr(test);
  first->addIncoming(k_.index(0), before);
  first->addIncoming(next_first, body);
  left->addIncoming(count, before);
  left->addIncoming(next_left, body);
  b_.SetInsertPoint(done);
  return first;
}

}  // namespace astatide::cpu
