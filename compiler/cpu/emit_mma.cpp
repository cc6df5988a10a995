#include <llvm/IR/Constants.h>

#include <algorithm>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cpu {

using llvm::Value;

namespace {

// A block of the result that is held in registers: rows times vectors.
struct Block {
  int rows = 1, vectors = 1;
};

// As many accumulators as leave registers for the vectors of one operand and a broadcast element of the other; blocks
// near square load least.
Block choose_block(int rows, int vectors, int registers) {
  Block best;
  double best_cost = 1e30;
  for (int v = 1; v <= std::min(vectors, 4); ++v) {
    const int r = std::clamp((registers - v - 1) / v, 1, std::min(rows, 14));
    const int column_blocks = (vectors + v - 1) / v, row_blocks = (rows + r - 1) / r;
    // Loads a step of the contraction, over the whole result; a block of few accumulators waits for its own results.
    const double loads = static_cast<double>(column_blocks) * vectors / column_blocks * row_blocks +
                         static_cast<double>(column_blocks) * rows;
    const double latency = std::max(1.0, 8.0 / (r * v));
    const double cost = loads * latency;
    if (cost < best_cost) {
      best_cost = cost;
      best = {r, v};
    }
  }
  return best;
}

}  // namespace

struct KernelEmitter::ProductShape {
  int rows = 1, columns = 1, depth = 1, lanes = 1;
  std::int64_t dst_row = 0;                       // strides in elements; columns are contiguous in dst and vectors
  std::int64_t vector_depth = 0;                  // of the operand that is loaded in vectors
  std::int64_t scalar_row = 0, scalar_depth = 0;  // of the operand that is broadcast
  bool accumulate = false;
  int unroll = 1;

  std::string name() const {
    const auto text = [](std::int64_t n) { return std::to_string(n); };
    return "multiply." + text(rows) + "x" + text(columns) + "x" + text(depth) + (accumulate ? "_add" : "") + "_" +
           text(dst_row) + "_" + text(vector_depth) + "_" + text(scalar_row) + "_" + text(scalar_depth) + "_by_" +
           text(unroll);
  }
};

void KernelEmitter::emit_product_block(const ProductShape& shape, Value* dst, Value* vectors, Value* scalars, int rows,
                                       int columns) {
  llvm::Type* real = builder_.getFloatTy();
  llvm::Type* vector = vector_type(real, shape.lanes);
  const llvm::Align align(4);
  const auto at = [&](Value* base, std::int64_t offset) {
    return builder_.CreateConstInBoundsGEP1_64(real, base, offset);
  };
  const auto dst_at = [&](int r, int c) { return at(dst, r * shape.dst_row + std::int64_t{c} * shape.lanes); };

  std::vector<Value*> sums;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      sums.push_back(shape.accumulate ? static_cast<Value*>(builder_.CreateAlignedLoad(vector, dst_at(r, c), align))
                                      : llvm::Constant::getNullValue(vector));
  const auto step = [&](Value* k, std::vector<Value*> values) {
    Value* row = builder_.CreateInBoundsGEP(real, vectors, builder_.CreateMul(k, index(shape.vector_depth)));
    Value* column = builder_.CreateInBoundsGEP(real, scalars, builder_.CreateMul(k, index(shape.scalar_depth)));
    std::vector<Value*> loaded;
    for (int c = 0; c < columns; ++c)
      loaded.push_back(builder_.CreateAlignedLoad(vector, at(row, std::int64_t{c} * shape.lanes), align));
    for (int r = 0; r < rows; ++r) {
      Value* scalar = splat(builder_.CreateAlignedLoad(real, at(column, r * shape.scalar_row), align), shape.lanes);
      for (int c = 0; c < columns; ++c) {
        Value*& sum = values[r * columns + c];
        sum = math_.multiply_add(scalar, loaded[c], sum);
      }
    }
    return values;
  };
  const int whole = shape.depth / shape.unroll * shape.unroll;
  if (whole > 0)
    sums = loop_carrying(index(0), index(whole), shape.unroll, sums, [&](Value* k, const std::vector<Value*>& carried) {
      std::vector<Value*> values = carried;
      for (int u = 0; u < shape.unroll; ++u) values = step(u == 0 ? k : builder_.CreateAdd(k, index(u)), values);
      return values;
    });
  for (int k = whole; k < shape.depth; ++k) sums = step(index(k), sums);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) builder_.CreateAlignedStore(sums[r * columns + c], dst_at(r, c), align);
}

llvm::Function* KernelEmitter::product_function(const ProductShape& shape) {
  llvm::Function*& function = products_[shape.name()];
  if (function) return function;
  llvm::Type* pointer = builder_.getPtrTy();
  function = make_function(shape.name(),
                           llvm::FunctionType::get(builder_.getVoidTy(), {pointer, pointer, pointer}, false), true);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->getArg(0)->setName("dst");
  function->getArg(1)->setName("vectors");
  function->getArg(2)->setName("scalars");
  for (unsigned a = 0; a < 3; ++a) function->addParamAttr(a, llvm::Attribute::NoAlias);

  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function));
  const int chunks = (shape.columns + shape.lanes - 1) / shape.lanes;
  const Block block = choose_block(shape.rows, chunks, host_.vector_registers);
  // Blocks of nearly equal size: the first few hold one row (vector) more than the others.
  const int column_blocks = (chunks + block.vectors - 1) / block.vectors;
  const int row_blocks = (shape.rows + block.rows - 1) / block.rows;
  const auto parts = [](int total, int blocks) {
    const int size = total / blocks, larger = total % blocks;
    std::vector<std::array<int, 3>> result;  // begin, end, size of one
    if (larger > 0) result.push_back({0, larger * (size + 1), size + 1});
    if (larger < blocks) result.push_back({larger * (size + 1), total, size});
    return result;
  };
  llvm::Type* real = builder_.getFloatTy();
  for (const auto& [column_begin, column_end, columns] : parts(chunks, column_blocks)) {
    loop(index(column_begin), index(column_end), columns, [&, columns = columns](Value* c) {
      Value* column = builder_.CreateMul(c, index(shape.lanes));
      Value* vectors = builder_.CreateInBoundsGEP(real, function->getArg(1), column);
      for (const auto& [row_begin, row_end, rows] : parts(shape.rows, row_blocks)) {
        loop(index(row_begin), index(row_end), rows, [&, rows = rows](Value* r) {
          Value* offset = builder_.CreateAdd(builder_.CreateMul(r, index(shape.dst_row)), column);
          Value* dst = builder_.CreateInBoundsGEP(real, function->getArg(0), offset);
          Value* scalars =
              builder_.CreateInBoundsGEP(real, function->getArg(2), builder_.CreateMul(r, index(shape.scalar_row)));
          emit_product_block(shape, dst, vectors, scalars, rows, columns);
        });
      }
    });
  }
  builder_.CreateRetVoid();
  return function;
}

void KernelEmitter::emit_mma(const tile::Mma& product) {
  const auto* lhs_name = std::get_if<tile::TileName>(&product.lhs);
  const auto* rhs_name = std::get_if<tile::TileName>(&product.rhs);
  if (!lhs_name || !rhs_name)
    throw InternalError("product " + product.dst + " reads global memory: stage_tiles comes before the CPU's code");
  const Storage& dst = storage_of(product.dst);
  const Storage *vectors = &storage_of(*rhs_name), *scalars = &storage_of(*lhs_name);
  for (const Storage* storage : {&dst, vectors, scalars})
    if (!storage->is_real()) throw InternalError("product of integers: " + storage->mem->name);
  const std::string contracted = axes_of(*dst.mem, *scalars->mem, *vectors->mem).contracted;
  if (scalars->mem->has_axis(dst.vector_axis) && !vectors->mem->has_axis(dst.vector_axis)) std::swap(vectors, scalars);
  if (scalars->mem->has_axis(dst.vector_axis) && !dst.vector_axis.empty())
    throw InternalError("product " + product.dst + ": both operands have the axis " + dst.vector_axis);

  // The rows of a block: the longest axis that only the broadcast operand has. Other axes are loops around.
  std::string row_axis;
  for (const tile::Dim& dim : dst.mem->dims)
    if (dim.axis != dst.vector_axis && !vectors->mem->has_axis(dim.axis) &&
        (row_axis.empty() || dim.extent > dst.mem->extent_of(row_axis)))
      row_axis = dim.axis;

  ProductShape shape;
  shape.rows = row_axis.empty() ? 1 : dst.mem->extent_of(row_axis);
  shape.columns = dst.vector_axis.empty() ? 1 : dst.mem->extent_of(dst.vector_axis);
  shape.depth = scalars->mem->extent_of(contracted);
  if (vectors->mem->extent_of(contracted) != shape.depth)
    throw InternalError("product " + product.dst + ": operands differ along " + contracted);
  shape.lanes = dst.lanes;
  shape.dst_row = dst.stride_of(row_axis);
  shape.vector_depth = vectors->stride_of(contracted);
  shape.scalar_row = scalars->stride_of(row_axis);
  shape.scalar_depth = scalars->stride_of(contracted);
  shape.accumulate = product.accumulate;
  constexpr int kMostUnrolled = 16;  // of a block; more only makes code
  shape.unroll = product.unroll > 0     ? std::min({product.unroll, shape.depth, kMostUnrolled})
                 : shape.depth % 4 == 0 ? 4
                 : shape.depth % 2 == 0 ? 2
                                        : 1;

  std::vector<AxisRange> outer;
  for (int d : dst.order) {
    const tile::Dim& dim = dst.mem->dims[d];
    if (dim.axis != dst.vector_axis && dim.axis != row_axis) outer.push_back({dim.axis, 0, dim.extent});
  }
  Indices indices;
  for (const Storage* storage : {&dst, vectors, scalars})
    for (const tile::Dim& dim : storage->mem->dims) indices[dim.axis] = index(0);
  const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
    if (depth < outer.size()) {
      loop(index(0), index(outer[depth].end), 1, [&](Value* i) {
        indices[outer[depth].axis] = i;
        nest(depth + 1);
      });
      return;
    }
    Value* vector_base = address(*vectors, indices, false);
    if (!dst.vector_axis.empty() && vectors->vector_axis != dst.vector_axis) {
      vector_base = packed(*vectors, indices, contracted, dst);
      shape.vector_depth = (shape.columns + dst.lanes - 1) / dst.lanes * dst.lanes;
    }
    builder_.CreateCall(product_function(shape),
                        {address(dst, indices, true), vector_base, address(*scalars, indices, false)});
  };
  nest(0);
  if (dst.mem->type != ScalarType::f32) round_tile(dst);
}

// The operand in vectors along the result's vector axis, one row a step of the contraction, in a scratch area.
Value* KernelEmitter::packed(const Storage& operand, const Indices& base, const std::string& contracted,
                             const Storage& dst) {
  const int depth = operand.mem->extent_of(contracted);
  const int columns = dst.mem->extent_of(dst.vector_axis);
  const std::int64_t pitch = (columns + dst.lanes - 1) / dst.lanes * std::int64_t{dst.lanes};
  Value* scratch = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), workspace_, storage_.pack_offset);
  loop(index(0), index(depth), 1, [&](Value* k) {
    loop(index(0), index(columns), 1, [&](Value* c) {
      Indices at = base;
      at[contracted] = k;
      at[dst.vector_axis] = c;
      Value* element = builder_.CreateLoad(builder_.getFloatTy(), address(operand, at, false));
      Value* offset = builder_.CreateAdd(builder_.CreateMul(k, index(pitch)), c);
      builder_.CreateStore(element, builder_.CreateInBoundsGEP(builder_.getFloatTy(), scratch, offset));
    });
  });
  return scratch;
}

void KernelEmitter::round_tile(const Storage& storage) {
  for_each_vector(storage, whole(storage), [&](const Indices& indices, llvm::Constant*) {
    llvm::Type* type = vector_type(builder_.getFloatTy(), storage.lanes);
    Value* value = builder_.CreateAlignedLoad(type, address(storage, indices, false), llvm::Align(4));
    store_value(storage, indices, math_.round_to(storage.mem->type, value), nullptr);
  });
}

}  // namespace astatide::cpu
