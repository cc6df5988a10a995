#include <llvm/IR/Constants.h>

#include <algorithm>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cpu {

using llvm::Value;

namespace {

// Vectors that are reduced side by side: enough to hide the latency of an addition.
constexpr int kStreams = 4;

// Running values of a reduction: one vector a stream, and for an extremum, whose instruction would lose a NaN, one
// vector a stream that remembers it.
class Accumulators {
 public:
  Accumulators(llvm::IRBuilder<>& builder, const CpuHost& host, Reduction op, int streams, int lanes)
      : b_(builder), op_(op), streams_(streams) {
    if (op != Reduction::sum && op != Reduction::max && op != Reduction::min)
      throw InternalError("no code for the reduction " + std::string(name_of(op)));
    llvm::Type* real = with_lanes(b_.getFloatTy(), lanes);
    flag_ = with_lanes(host.avx512 ? b_.getInt1Ty() : b_.getInt32Ty(), lanes);
    for (int s = 0; s < streams; ++s) values.push_back(llvm::ConstantFP::get(real, unit_of(op)));
    for (int s = 0; tracks_nan() && s < streams; ++s) values.push_back(llvm::Constant::getNullValue(flag_));
  }

  // One stream takes up to two vectors at once: one comparison finds a NaN in either.
  void take(int stream, Value* x, Value* y) {
    Value*& value = values[stream];
    value = combined(value, y ? combined(x, y) : x);
    if (!tracks_nan()) return;
    Value* unordered = b_.CreateFCmpUNO(x, y ? y : x);
    if (flag_->getScalarSizeInBits() != 1) unordered = b_.CreateSExt(unordered, flag_);
    Value*& flag = values[streams_ + stream];
    flag = b_.CreateOr(flag, unordered);
  }

  // Joins all streams into the first.
  void join() {
    for (int s = 1; s < streams_; ++s) {
      values[0] = combined(values[0], values[s]);
      if (tracks_nan()) values[streams_] = b_.CreateOr(values[streams_], values[streams_ + s]);
    }
  }

  Value* result(int stream) {
    if (!tracks_nan()) return values[stream];
    Value* flag = values[streams_ + stream];
    Value* lost = b_.CreateICmpNE(flag, llvm::Constant::getNullValue(flag_));
    return b_.CreateSelect(lost, llvm::ConstantFP::getNaN(values[stream]->getType()), values[stream]);
  }

  std::vector<Value*> values;

 private:
  bool tracks_nan() const { return op_ != Reduction::sum; }
  static llvm::Type* with_lanes(llvm::Type* type, int lanes) {
    return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
  }
  Value* combined(Value* x, Value* y) {
    switch (op_) {
      case Reduction::max:
        return b_.CreateSelect(b_.CreateFCmpOGT(x, y), x, y);
      case Reduction::min:
        return b_.CreateSelect(b_.CreateFCmpOLT(x, y), x, y);
      default:
        return b_.CreateFAdd(x, y);
    }
  }

  llvm::IRBuilder<>& b_;
  Reduction op_;
  int streams_;
  llvm::Type* flag_ = nullptr;
};

}  // namespace

Value* KernelEmitter::combine(Reduction op, Value* x, Value* y) {
  if (op == Reduction::sum) return builder_.CreateFAdd(x, y);
  return op == Reduction::max ? math_.max(x, y) : math_.min(x, y);
}

Value* KernelEmitter::across_lanes(Reduction op, Value* vector, int lanes) {
  for (int width = lanes / 2; width >= 1; width /= 2) {
    std::vector<int> upper;
    for (int lane = 0; lane < lanes; ++lane) upper.push_back(lane < width ? lane + width : lane);
    vector = combine(op, vector, builder_.CreateShuffleVector(vector, upper));
  }
  return lanes == 1 ? vector : builder_.CreateExtractElement(vector, std::uint64_t{0});
}

void KernelEmitter::emit_row_reduce(const tile::RowReduce& reduce) {
  const Storage& dst = storage_of(reduce.dst);
  const Storage& src = storage_of(reduce.src);
  if (!dst.is_real() || !src.is_real())
    throw UserError("a reduction of integers has no code on the CPU: " + reduce.dst + " of " + reduce.src);
  for (const tile::Dim& dim : dst.mem->dims)
    if (!src.mem->has_axis(dim.axis))
      throw InternalError("row_reduce " + reduce.dst + ": " + reduce.src + " has no axis " + dim.axis);

  if (reduce.columns && dst.mem->has_axis(src.mem->dims.back().axis))
    throw InternalError("row_reduce " + reduce.dst + ": columns of an axis that is not reduced");

  std::vector<AxisRange> kept, reduced;
  for (const AxisRange& range : columns_of(src, reduce.columns))
    if (range.axis != src.vector_axis) (dst.mem->has_axis(range.axis) ? kept : reduced).push_back(range);
  AxisRange lanes_range;
  for (const AxisRange& range : columns_of(src, reduce.columns))
    if (range.axis == src.vector_axis) lanes_range = range;

  Indices indices;
  std::function<void(std::size_t, const std::function<void()>&)> over_kept = [&](std::size_t depth,
                                                                                 const std::function<void()>& body) {
    if (depth == kept.size()) return body();
    loop(index(kept[depth].begin), index(kept[depth].end), 1, [&](Value* i) {
      indices[kept[depth].axis] = i;
      over_kept(depth + 1, body);
    });
  };
  if (!src.vector_axis.empty() && dst.mem->has_axis(src.vector_axis)) {
    over_kept(0, [&] { reduce_down(reduce, dst, src, reduced, indices); });
  } else {
    over_kept(0, [&] { reduce_across(reduce, dst, src, reduced, lanes_range, indices); });
  }
}

// The lanes are kept: vectors are combined with vectors.
void KernelEmitter::reduce_down(const tile::RowReduce& reduce, const Storage& dst, const Storage& src,
                                const std::vector<AxisRange>& reduced, Indices& indices) {
  const int lanes = src.lanes;
  const int extent = src.mem->extent_of(src.vector_axis);
  const int chunks = (extent + lanes - 1) / lanes;
  llvm::Type* vector = vector_type(builder_.getFloatTy(), lanes);
  const auto strip = [&](Value* first, int streams) {
    const auto load = [&](int stream) {
      Indices at = indices;
      at[src.vector_axis] = builder_.CreateAdd(first, index(stream * lanes));
      return of_tile(builder_.CreateAlignedLoad(vector, address(src, at, false), llvm::Align(4), reduce.src), src);
    };
    Accumulators accumulators(builder_, host_, reduce.op, streams, lanes);
    const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
      if (depth == reduced.size()) {
        for (int s = 0; s < streams; ++s) accumulators.take(s, load(s), nullptr);
        return;
      }
      const AxisRange& range = reduced[depth];
      const bool pairs = depth + 1 == reduced.size() && (range.end - range.begin) % 2 == 0;
      accumulators.values = loop_carrying(index(range.begin), index(range.end), pairs ? 2 : 1, accumulators.values,
                                          [&](Value* i, const std::vector<Value*>& values) {
                                            accumulators.values = values;
                                            indices[range.axis] = i;
                                            if (!pairs) {
                                              nest(depth + 1);
                                              return accumulators.values;
                                            }
                                            std::vector<Value*> even;
                                            for (int s = 0; s < streams; ++s) even.push_back(load(s));
                                            indices[range.axis] = builder_.CreateAdd(i, index(1));
                                            for (int s = 0; s < streams; ++s) accumulators.take(s, even[s], load(s));
                                            return accumulators.values;
                                          });
    };
    nest(0);
    for (int s = 0; s < streams; ++s) {
      Indices at = indices;
      at[src.vector_axis] = builder_.CreateAdd(first, index(s * lanes));
      finish_reduce(reduce, dst, at, accumulators.result(s));
    }
  };
  const int grouped = chunks / kStreams * kStreams;
  if (grouped > 0)
    loop(index(0), index(std::int64_t{grouped} * lanes), std::int64_t{kStreams} * lanes,
         [&](Value* first) { strip(first, kStreams); });
  if (chunks > grouped) strip(index(std::int64_t{grouped} * lanes), chunks - grouped);
}

// The lanes are reduced too.
void KernelEmitter::reduce_across(const tile::RowReduce& reduce, const Storage& dst, const Storage& src,
                                  const std::vector<AxisRange>& reduced, const AxisRange& along, Indices& indices) {
  const int lanes = src.lanes;
  llvm::Type* vector = vector_type(builder_.getFloatTy(), lanes);
  const int count = src.vector_axis.empty() ? 1 : along.end - along.begin;
  const int full = count / lanes;
  const int streams = std::clamp(full / 2, 1, kStreams);
  Accumulators accumulators(builder_, host_, reduce.op, streams, lanes);
  const auto load = [&](Value* first, int chunk) {
    Indices at = indices;
    if (!src.vector_axis.empty()) at[src.vector_axis] = builder_.CreateAdd(first, index(std::int64_t{chunk} * lanes));
    return of_tile(builder_.CreateAlignedLoad(vector, address(src, at, false), llvm::Align(4), reduce.src), src);
  };
  const auto row = [&] {
    Value* begin = index(along.begin);
    const int grouped = full / (2 * streams) * (2 * streams);
    if (grouped > 0)
      accumulators.values =
          loop_carrying(begin, index(along.begin + std::int64_t{grouped} * lanes), std::int64_t{2} * streams * lanes,
                        accumulators.values, [&](Value* first, const std::vector<Value*>& values) {
                          accumulators.values = values;
                          for (int s = 0; s < streams; ++s) {
                            Value* x = load(first, 2 * s);
                            accumulators.take(s, x, load(first, 2 * s + 1));
                          }
                          return accumulators.values;
                        });
    for (int chunk = grouped; chunk < full; ++chunk) accumulators.take(chunk % streams, load(begin, chunk), nullptr);
    if (const int rest = count - full * lanes; rest > 0) {
      Value* unit = llvm::ConstantFP::get(vector, unit_of(reduce.op));
      accumulators.take(0, builder_.CreateSelect(lanes_below(lanes, rest), load(begin, full), unit), nullptr);
    }
  };
  const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
    if (depth == reduced.size()) return row();
    accumulators.values = loop_carrying(index(reduced[depth].begin), index(reduced[depth].end), 1, accumulators.values,
                                        [&](Value* i, const std::vector<Value*>& values) {
                                          accumulators.values = values;
                                          indices[reduced[depth].axis] = i;
                                          nest(depth + 1);
                                          return accumulators.values;
                                        });
  };
  nest(0);
  accumulators.join();
  finish_reduce(reduce, dst, indices, across_lanes(reduce.op, accumulators.result(0), lanes));
}

void KernelEmitter::finish_reduce(const tile::RowReduce& reduce, const Storage& dst, const Indices& indices,
                                  Value* result) {
  if (reduce.accumulate) {
    Value* old = builder_.CreateAlignedLoad(result->getType(), address(dst, indices, false), llvm::Align(4));
    result = combine(reduce.op, old, result);
  }
  store_value(dst, indices, math_.round_to(dst.mem->type, result), nullptr);
}

}  // namespace astatide::cpu
