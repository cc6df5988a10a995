#include <llvm/IR/Constants.h>

#include <algorithm>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cpu {

using llvm::Value;

void KernelEmitter::emit_fill(const tile::Fill& fill) {
  if (!storage_.tiles.count(fill.dst)) {  // a flag
    builder_.CreateStore(builder_.getInt1(fill.value != 0), flag_of(fill.dst));
    return;
  }
  const Storage& storage = storage_of(fill.dst);
  const Element value = storage.is_real()
                            ? Element{Element::Kind::real, llvm::ConstantFP::get(builder_.getFloatTy(), fill.value)}
                            : Element{Element::Kind::integer, index(static_cast<std::int64_t>(fill.value))};
  Value* vector = as_tile_value(storage, value, storage.lanes);
  for_each_vector(storage, whole(storage),
                  [&](const Indices& indices, llvm::Constant*) { store_value(storage, indices, vector, nullptr); });
}

namespace {

bool is_dear(Op op) {
  switch (op) {
    case Op::exp:
    case Op::exp2:
    case Op::log:
    case Op::log2:
    case Op::tanh:
    case Op::sigmoid:
    case Op::pow:
    case Op::sqrt:
    case Op::div:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool KernelEmitter::has_row_invariant(const Expr& value, const Storage& dst) const {
  bool found = false;
  visit(value, [&](const Expr& e) {
    const auto* call = e.as<Call>();
    if (!call || !is_dear(call->op) || !tensors_read(e).empty()) return;
    bool along_vectors = false, along_others = false;
    for (const std::string& name : free_variables(e)) {
      for (const tile::Dim& dim : dst.mem->dims) {
        const auto tile = storage_.tiles.find(name);
        const bool varies = name == dim.axis || (tile != storage_.tiles.end() && tile->second.mem->has_axis(dim.axis));
        if (varies) (dim.axis == dst.vector_axis ? along_vectors : along_others) = true;
      }
    }
    found = found || (along_vectors && !along_others);
  });
  return found;
}

void KernelEmitter::emit_map(const tile::Map& map) {
  const Storage& storage = storage_of(map.dst);
  std::vector<AxisRange> ranges = columns_of(storage, map.columns);
  // With the vectors of a row axis outermost, what is dear and the same in the whole row leaves the loop inside.
  if (ranges.size() > 1 && has_row_invariant(map.value, storage))
    std::rotate(ranges.begin(), ranges.end() - 1, ranges.end());
  // A part of the columns must leave those beside it alone; beyond the extent lies padding.
  const bool keeps_neighbours = map.columns.has_value();
  for_each_vector(storage, ranges, [&](const Indices& indices, llvm::Constant* tail) {
    ElementEmitter elements(*this, storage.lanes, storage.vector_axis, indices, map.at);
    Value* value = nullptr;
    if (map.absent) {
      Value* inside = elements.admitted(map.at, map.where_predicates, tail);
      elements.set_active(inside);
      value = as_tile_value(storage, elements.evaluate(map.value), storage.lanes);
      if (inside && inside != tail)
        value = builder_.CreateSelect(inside, value, absent_value(storage, *map.absent, storage.lanes));
    } else {
      elements.set_active(elements.admitted(map.at, {}, tail));
      value = as_tile_value(storage, elements.evaluate(map.value), storage.lanes);
    }
    store_value(storage, indices, value, keeps_neighbours ? tail : nullptr);
  });
}

Value* KernelEmitter::absent_value(const Storage& storage, double absent, int lanes) {
  llvm::Type* type = vector_type(element_type(storage), lanes);
  return storage.is_real() ? llvm::ConstantFP::get(type, absent)
                           : llvm::ConstantInt::getSigned(type, static_cast<std::int64_t>(absent));
}

void KernelEmitter::emit_vote(const tile::Vote& vote) {
  // The condition holds for the elements of its widest tile; the others are broadcast.
  const Storage* widest = nullptr;
  for (const std::string& name : free_variables(vote.condition)) {
    const auto found = storage_.tiles.find(name);
    if (found == storage_.tiles.end()) continue;
    if (!widest || found->second.mem->dims.size() > widest->mem->dims.size()) widest = &found->second;
  }
  Value* flag = flag_of(vote.flag);
  if (!widest) {
    Indices none;
    ElementEmitter elements(*this, 1, "", none, {});
    builder_.CreateStore(elements.predicate(elements.evaluate(vote.condition)), flag);
    return;
  }
  builder_.CreateStore(builder_.getInt1(false), flag);
  for_each_vector(*widest, whole(*widest), [&](const Indices& indices, llvm::Constant* tail) {
    ElementEmitter elements(*this, widest->lanes, widest->vector_axis, indices, {});
    elements.set_active(tail);
    Value* hit = elements.predicate(elements.evaluate(vote.condition));
    if (tail) hit = builder_.CreateAnd(hit, tail);
    if (widest->lanes > 1) hit = builder_.CreateOrReduce(hit);
    builder_.CreateStore(builder_.CreateOr(hit, builder_.CreateLoad(builder_.getInt1Ty(), flag)), flag);
  });
}

}  // namespace astatide::cpu
