#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cpu {

using llvm::BasicBlock;
using llvm::Value;

std::vector<Value*> KernelEmitter::loop_carrying(
    Value* begin, Value* end, std::int64_t step, std::vector<Value*> values,
    const std::function<std::vector<Value*>(Value*, const std::vector<Value*>&)>& body) {
  BasicBlock* before = builder_.GetInsertBlock();
  llvm::Function* function = before->getParent();
  BasicBlock* inside = BasicBlock::Create(context_, "loop", function);
  BasicBlock* after = BasicBlock::Create(context_, "end", function);
  // The test of the first iteration folds away where both bounds are constants.
  Value* enter = builder_.CreateICmpSLT(begin, end);
  BasicBlock* guard = nullptr;
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(enter); known && known->isOne()) {
    builder_.CreateBr(inside);
  } else {
    guard = before;
    builder_.CreateCondBr(enter, inside, after);
  }
  builder_.SetInsertPoint(inside);
  llvm::PHINode* i = builder_.CreatePHI(begin->getType(), 2);
  i->addIncoming(begin, before);
  std::vector<llvm::PHINode*> carried;
  for (Value* value : values) {
    carried.push_back(builder_.CreatePHI(value->getType(), 2));
    carried.back()->addIncoming(value, before);
  }
  const std::vector<Value*> next = body(i, {carried.begin(), carried.end()});
  BasicBlock* latch = builder_.GetInsertBlock();
  Value* stepped = builder_.CreateNSWAdd(i, index(step));
  builder_.CreateCondBr(builder_.CreateICmpSLT(stepped, end), inside, after);
  i->addIncoming(stepped, latch);
  for (std::size_t k = 0; k < next.size(); ++k) carried[k]->addIncoming(next[k], latch);

  builder_.SetInsertPoint(after);
  std::vector<Value*> results;
  for (std::size_t k = 0; k < next.size(); ++k) {
    if (!guard) {
      results.push_back(next[k]);
      continue;
    }
    llvm::PHINode* result = builder_.CreatePHI(next[k]->getType(), 2);
    result->addIncoming(values[k], guard);
    result->addIncoming(next[k], latch);
    results.push_back(result);
  }
  return results;
}

void KernelEmitter::loop(Value* begin, Value* end, std::int64_t step, const std::function<void(Value*)>& body) {
  loop_carrying(begin, end, step, {}, [&](Value* i, const std::vector<Value*>&) {
    body(i);
    return std::vector<Value*>();
  });
}

void KernelEmitter::branch(Value* condition, const std::function<void()>& then,
                           const std::function<void()>& otherwise) {
  llvm::Function* function = builder_.GetInsertBlock()->getParent();
  BasicBlock* taken = BasicBlock::Create(context_, "then", function);
  BasicBlock* after = BasicBlock::Create(context_, "join", function);
  BasicBlock* other = otherwise ? BasicBlock::Create(context_, "else", function) : after;
  builder_.CreateCondBr(condition, taken, other);
  builder_.SetInsertPoint(taken);
  then();
  builder_.CreateBr(after);
  if (otherwise) {
    builder_.SetInsertPoint(other);
    otherwise();
    builder_.CreateBr(after);
  }
  builder_.SetInsertPoint(after);
}

std::vector<AxisRange> KernelEmitter::whole(const Storage& storage) const { return columns_of(storage, std::nullopt); }

std::vector<AxisRange> KernelEmitter::columns_of(const Storage& storage,
                                                 const std::optional<tile::Columns>& columns) const {
  std::vector<AxisRange> ranges;
  for (int d : storage.order) ranges.push_back({storage.mem->dims[d].axis, 0, storage.mem->dims[d].extent});
  if (columns && !storage.mem->dims.empty()) {
    for (AxisRange& range : ranges)
      if (range.axis == storage.mem->dims.back().axis) range = {range.axis, columns->begin, columns->end};
  }
  return ranges;
}

llvm::Constant* KernelEmitter::lanes_below(int lanes, int count) {
  std::vector<llvm::Constant*> mask;
  for (int lane = 0; lane < lanes; ++lane) mask.push_back(builder_.getInt1(lane < count));
  return lanes == 1 ? mask[0] : llvm::ConstantVector::get(mask);
}

void KernelEmitter::for_each_vector(const Storage& storage, const std::vector<AxisRange>& ranges,
                                    const std::function<void(const Indices&, llvm::Constant*)>& body) {
  Indices indices;
  llvm::Constant* tail = nullptr;
  const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
    if (depth == ranges.size()) return body(indices, tail);
    const AxisRange& range = ranges[depth];
    if (range.axis != storage.vector_axis) {
      loop(index(range.begin), index(range.end), 1, [&](Value* i) {
        indices[range.axis] = i;
        nest(depth + 1);
      });
      return;
    }
    const int lanes = storage.lanes;
    const int full = (range.end - range.begin) / lanes * lanes;
    const auto step = [&](Value* i, int count) {
      indices[range.axis] = i;
      tail = count == lanes ? nullptr : lanes_below(lanes, count);
      nest(depth + 1);
    };
    if (full == lanes)
      step(index(range.begin), lanes);
    else if (full > 0)
      loop(index(range.begin), index(range.begin + full), lanes, [&](Value* i) { step(i, lanes); });
    if (range.begin + full < range.end) step(index(range.begin + full), range.end - range.begin - full);
  };
  nest(0);
}

void KernelEmitter::for_each_element(const Storage& storage, const std::function<void(const Indices&)>& body) {
  Indices indices;
  const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
    if (depth == storage.order.size()) return body(indices);
    const tile::Dim& dim = storage.mem->dims[storage.order[depth]];
    loop(index(0), index(dim.extent), 1, [&](Value* i) {
      indices[dim.axis] = i;
      nest(depth + 1);
    });
  };
  nest(0);
}

const Storage& KernelEmitter::storage_of(const std::string& tile) const {
  const auto found = storage_.tiles.find(tile);
  if (found == storage_.tiles.end()) throw InternalError("kernel " + kernel_.name + " has no tile " + tile);
  return found->second;
}

llvm::Type* KernelEmitter::element_type(const Storage& storage) {
  if (storage.is_real()) return builder_.getFloatTy();
  return storage.element_bytes() == 8 ? builder_.getInt64Ty() : builder_.getInt32Ty();
}

llvm::Type* KernelEmitter::vector_type(llvm::Type* element, int lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

Value* KernelEmitter::splat(Value* scalar, int lanes) {
  return lanes == 1 ? scalar : builder_.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
}

Value* KernelEmitter::slot_base(const Storage& storage, bool write) {
  Value* base = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), workspace_, storage.offset);
  if (storage.slots == 1) return base;
  const auto& counters = write ? write_slots_ : read_slots_;
  Value* slot = builder_.CreateLoad(builder_.getInt64Ty(), counters.at(storage.mem->name));
  return builder_.CreateGEP(element_type(storage), base, builder_.CreateMul(slot, index(storage.slot_elements)));
}

Value* KernelEmitter::address(const Storage& storage, const Indices& indices, bool write) {
  Value* base = slot_base(storage, write);
  Value* offset = nullptr;
  for (const auto& [axis, stride] : storage.stride) {
    Value* term = builder_.CreateMul(indices.at(axis), index(stride));
    offset = offset ? builder_.CreateAdd(offset, term) : term;
  }
  return offset ? builder_.CreateInBoundsGEP(element_type(storage), base, offset) : base;
}

void KernelEmitter::make_alias_scopes() {
  llvm::MDBuilder metadata(context_);
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain(kernel_.name);
  std::map<std::string, llvm::Metadata*> scopes;
  for (const auto& [name, storage] : storage_.tiles) scopes[name] = metadata.createAnonymousAliasScope(domain, name);
  for (const auto& [name, scope] : scopes) {
    std::vector<llvm::Metadata*> others;
    for (const auto& [other, other_scope] : scopes)
      if (other != name) others.push_back(other_scope);
    alias_scopes_[name] = {llvm::MDNode::get(context_, {scope}), llvm::MDNode::get(context_, others)};
  }
}

void KernelEmitter::tag_tile(llvm::Instruction* access, const Storage& storage) {
  const auto found = alias_scopes_.find(storage.mem->name);
  if (found == alias_scopes_.end()) return;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, found->second.first);
  access->setMetadata(llvm::LLVMContext::MD_noalias, found->second.second);
}

Value* KernelEmitter::as_tile_value(const Storage& storage, const Element& element, int lanes, bool round) {
  Indices none;
  ElementEmitter convert(*this, lanes, storage.vector_axis, none, {});
  if (storage.is_real()) {
    Value* value = convert.real(element);
    return round ? math_.round_to(storage.mem->type, value) : value;
  }
  Value* value = convert.integers(element);
  return storage.element_bytes() == 8 ? value : builder_.CreateTrunc(value, vector_type(builder_.getInt32Ty(), lanes));
}

void KernelEmitter::store_value(const Storage& storage, const Indices& indices, Value* value, Value* mask) {
  Value* pointer = address(storage, indices, true);
  const llvm::Align align(static_cast<std::uint64_t>(storage.element_bytes()));
  if (mask) {
    // The tile's storage is whole vectors, so the lanes outside may be read and written back.
    Value* old = of_tile(builder_.CreateAlignedLoad(value->getType(), pointer, align), storage);
    value = builder_.CreateSelect(mask, value, old);
  }
  of_tile(builder_.CreateAlignedStore(value, pointer, align), storage);
}

}  // namespace astatide::cpu
