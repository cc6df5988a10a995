#include <llvm/IR/Constants.h>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide::cpu {

using llvm::Value;

void KernelEmitter::emit_copy(const tile::Copy& copy) {
  const auto unsupported = [&]() { throw InternalError("copy between two places outside of tiles"); };
  match(
      copy.dst,
      [&](const tile::TileName& dst) {
        match(
            copy.src, [&](const tile::TileName& src) { emit_tile_copy(dst, src); },
            [&](const tile::View& src) { call_copy(dst, src, true); },
            [&](const tile::Strip& src) { emit_from_strip(dst, src); });
      },
      [&](const tile::View& dst) {
        const auto* src = std::get_if<tile::TileName>(&copy.src);
        if (!src) return unsupported();
        call_copy(*src, dst, false);
      },
      [&](const tile::Strip& dst) {
        const auto* src = std::get_if<tile::TileName>(&copy.src);
        if (!src) return unsupported();
        emit_to_strip(dst, *src);
      });
}

void KernelEmitter::emit_tile_copy(const tile::TileName& dst, const tile::TileName& src) {
  tile::Map map;
  map.dst = dst;
  map.value = variable(src);
  emit_map(map);
}

Value* KernelEmitter::within_limits(const std::vector<tile::Coordinate>& at, const tile::Mem& mem) {
  Value* all = builder_.getTrue();
  for (const tile::Coordinate& coordinate : at) {
    if (!coordinate.limit) continue;
    Value* end = builder_.CreateAdd(integer(coordinate.origin), index(mem.extent_of(coordinate.axis)));
    all = builder_.CreateAnd(all, builder_.CreateICmpSLE(end, integer(*coordinate.limit)));
  }
  return all;
}

Value* KernelEmitter::is_contiguous(const tile::View& view, const tile::Mem& mem, const std::string& axis) {
  // Strides do not vary from element to element, so those of the first element tell.
  Indices first;
  for (const tile::Dim& dim : mem.dims) first[dim.axis] = index(0);
  ElementEmitter elements(*this, 2, axis, first, view.at);
  const auto place = elements.place_of(view.tensor, view.indices);
  if (place.lane_offsets || !place.lane_stride) return builder_.getFalse();
  return builder_.CreateICmpEQ(place.lane_stride, index(1));
}

std::optional<std::string> KernelEmitter::transposed_axis(const tile::View& view, const Storage& storage) const {
  // Without masked moves a ragged edge costs more in a transposed block than element by element.
  if (storage.lanes < 4 || view.indices.empty() || !storage.is_real()) return std::nullopt;
  const std::set<std::string> last = free_variables(view.indices.back());
  for (const tile::Dim& dim : storage.mem->dims)
    if (dim.axis != storage.vector_axis && last.count(dim.axis)) return dim.axis;
  return std::nullopt;
}

// A square of vectors, mirrored at its diagonal: log2(n) rounds of exchanges between rows a power of two apart.
std::vector<Value*> KernelEmitter::transposed(std::vector<Value*> rows) {
  const int n = static_cast<int>(rows.size());
  for (int distance = n / 2; distance >= 1; distance /= 2) {
    std::vector<int> lower, upper;
    for (int lane = 0; lane < n; ++lane) {
      lower.push_back(lane & distance ? n + lane - distance : lane);
      upper.push_back(lane & distance ? n + lane : lane + distance);
    }
    for (int r = 0; r < n; ++r) {
      if (r & distance) continue;
      Value *a = rows[r], *b = rows[r + distance];
      rows[r] = builder_.CreateShuffleVector(a, b, lower);
      rows[r + distance] = builder_.CreateShuffleVector(a, b, upper);
    }
  }
  return rows;
}

void KernelEmitter::for_each_square(const Storage& storage, const std::string& across,
                                    const std::function<void(Indices&, int rows, int columns)>& body) {
  const int lanes = storage.lanes;
  std::vector<std::string> outer;
  for (int d : storage.order) {
    const std::string& axis = storage.mem->dims[d].axis;
    if (axis != storage.vector_axis && axis != across) outer.push_back(axis);
  }
  Indices indices;
  const auto blocks = [&](const std::string& axis, const std::function<void(int)>& inner) {
    const int extent = storage.mem->extent_of(axis), full = extent / lanes * lanes;
    if (full > 0)
      loop(index(0), index(full), lanes, [&](Value* i) {
        indices[axis] = i;
        inner(lanes);
      });
    if (full < extent) {
      indices[axis] = index(full);
      inner(extent - full);
    }
  };
  const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
    if (depth < outer.size()) {
      loop(index(0), index(storage.mem->extent_of(outer[depth])), 1, [&](Value* i) {
        indices[outer[depth]] = i;
        nest(depth + 1);
      });
      return;
    }
    blocks(across, [&](int columns) {
      blocks(storage.vector_axis, [&](int rows) {
        Indices at = indices;
        body(at, rows, columns);
      });
    });
  };
  nest(0);
}

// ---------------------------------------------------------------- tensor to tile

void KernelEmitter::emit_load(const tile::TileName& name, const tile::View& view) {
  const Storage& dst = storage_of(name);
  const bool round = !tensors_.count(view.tensor) || tensors_.at(view.tensor).tensor->type != dst.mem->type;
  const Expr source = read(view.tensor, view.indices);
  // Element by element: any strides and index expressions, in little code.
  const auto general = [&] {
    for_each_element(dst, [&](const Indices& indices) {
      ElementEmitter elements(*this, 1, "", indices, view.at);
      Value* inside = elements.admitted(view.at, {}, nullptr);
      elements.set_active(inside);
      Value* value = as_tile_value(dst, elements.evaluate(source), 1, round);
      if (inside) value = builder_.CreateSelect(inside, value, absent_value(dst, view.absent, 1));
      store_value(dst, indices, value, nullptr);
    });
  };
  if (dst.vector_axis.empty() || dst.lanes == 1) return general();

  const auto contiguous = [&](bool guarded) {
    for_each_vector(dst, whole(dst), [&](const Indices& indices, llvm::Constant* tail) {
      ElementEmitter elements(*this, dst.lanes, dst.vector_axis, indices, view.at);
      Value* inside = guarded ? elements.admitted(view.at, {}, tail) : tail;
      const Element loaded = elements.load_contiguous(elements.place_of(view.tensor, view.indices), inside);
      Value* value = as_tile_value(dst, loaded, dst.lanes, round);
      if (inside != tail) value = builder_.CreateSelect(inside, value, absent_value(dst, view.absent, dst.lanes));
      store_value(dst, indices, value, nullptr);
    });
  };
  const std::optional<std::string> across = transposed_axis(view, dst);
  const auto others = [&] {
    if (!across) return general();
    Value* fits = is_contiguous(view, *dst.mem, *across);
    if (!host_.avx512) fits = builder_.CreateAnd(fits, within_limits(view.at, *dst.mem));
    branch(
        fits, [&] { load_transposed(dst, view, *across, round); }, general);
  };
  branch(
      is_contiguous(view, *dst.mem, dst.vector_axis),
      [&] {
        branch(
            within_limits(view.at, *dst.mem), [&] { contiguous(false); }, [&] { contiguous(true); });
      },
      others);
}

void KernelEmitter::load_transposed(const Storage& dst, const tile::View& view, const std::string& across, bool round) {
  const int lanes = dst.lanes;
  for_each_square(dst, across, [&](Indices& at, int rows, int columns) {
    std::vector<Value*> square;
    Value* first = at.at(dst.vector_axis);
    for (int r = 0; r < rows; ++r) {
      at[dst.vector_axis] = builder_.CreateAdd(first, index(r));
      ElementEmitter elements(*this, lanes, across, at, view.at);
      llvm::Constant* tail = columns < lanes ? lanes_below(lanes, columns) : nullptr;
      Value* inside = host_.avx512 ? elements.admitted(view.at, {}, tail) : tail;
      const Element loaded = elements.load_contiguous(elements.place_of(view.tensor, view.indices), inside);
      Value* value = as_tile_value(dst, loaded, lanes, round);
      if (inside && inside != tail) value = builder_.CreateSelect(inside, value, absent_value(dst, view.absent, lanes));
      square.push_back(value);
    }
    while (static_cast<int>(square.size()) < lanes)
      square.push_back(llvm::Constant::getNullValue(square[0]->getType()));
    square = transposed(square);
    at[dst.vector_axis] = first;
    Value* column = at.at(across);
    for (int c = 0; c < columns; ++c) {
      at[across] = builder_.CreateAdd(column, index(c));
      store_value(dst, at, square[c], nullptr);
    }
  });
}

// ---------------------------------------------------------------- tile to tensor

Value* KernelEmitter::to_memory(ScalarType type, const Element& element, int lanes) {
  Indices none;
  ElementEmitter convert(*this, lanes, "", none, {});
  switch (type) {
    case ScalarType::f32:
      return convert.real(element);
    case ScalarType::f64:
      return builder_.CreateFPExt(convert.real(element), vector_type(builder_.getDoubleTy(), lanes));
    case ScalarType::f16:
    case ScalarType::bf16:
      return math_.narrow_half(type, convert.real(element));
    case ScalarType::boolean:
      return builder_.CreateZExt(convert.predicate(element), vector_type(builder_.getInt8Ty(), lanes));
    case ScalarType::i32:
    case ScalarType::i64:
    case ScalarType::u8:
      // Tiles hold numbers of f32; where a tensor of integers takes them they are whole.
      if (element.kind == Element::Kind::real)
        return builder_.CreateFPToSI(convert.real(element), vector_type(memory_type(type), lanes));
      return builder_.CreateTrunc(convert.integers(element), vector_type(memory_type(type), lanes));
  }
  throw InternalError("unknown scalar type");
}

void KernelEmitter::store_lanes(Value* pointers, Value* value, int lanes, Value* mask) {
  Value* sink = mask ? unread_place() : nullptr;
  const auto lane_of = [&](Value* vector, int lane) {
    return lanes == 1 ? vector : builder_.CreateExtractElement(vector, lane);
  };
  for (int lane = 0; lane < lanes; ++lane) {
    Value* pointer = lane_of(pointers, lane);
    if (mask) pointer = builder_.CreateSelect(lane_of(mask, lane), pointer, sink);
    builder_.CreateStore(lane_of(value, lane), pointer);
  }
}

void KernelEmitter::emit_store(const tile::View& view, const tile::TileName& name) {
  const Storage& src = storage_of(name);
  const auto found = tensors_.find(view.tensor);
  if (found == tensors_.end()) throw InternalError("tensor " + view.tensor + " is no argument");
  const ScalarType type = found->second.tensor->type;
  const llvm::Align align(static_cast<std::uint64_t>(size_in_bytes(type)));
  const auto vector_pointer = [&](const ElementEmitter::Place& place) {
    return builder_.CreateGEP(memory_type(type), place.arguments->data, place.offset);
  };
  const auto put = [&](Value* value, Value* pointer, Value* mask) {
    if (!mask)
      builder_.CreateAlignedStore(value, pointer, align);
    else
      builder_.CreateMaskedStore(value, pointer, align, mask);
  };

  const auto element_by_element = [&] {
    for_each_element(src, [&](const Indices& indices) {
      ElementEmitter elements(*this, 1, "", indices, view.at);
      Value* inside = elements.admitted(view.at, {}, nullptr);
      Value* value = to_memory(type, elements.evaluate(variable(name)), 1);
      store_lanes(vector_pointer(elements.place_of(view.tensor, view.indices)), value, 1, inside);
    });
  };
  if (src.vector_axis.empty() || src.lanes == 1) return element_by_element();

  const auto contiguous = [&] {
    for_each_vector(src, whole(src), [&](const Indices& indices, llvm::Constant* tail) {
      ElementEmitter elements(*this, src.lanes, src.vector_axis, indices, view.at);
      Value* inside = elements.admitted(view.at, {}, tail);
      Value* value = to_memory(type, elements.evaluate(variable(name)), src.lanes);
      put(value, vector_pointer(elements.place_of(view.tensor, view.indices)), inside);
    });
  };
  const std::optional<std::string> across = transposed_axis(view, src);
  const auto others = [&] {
    if (!across || !host_.avx512) return element_by_element();
    branch(
        is_contiguous(view, *src.mem, *across), [&] { store_transposed(view, src, *across, put); }, element_by_element);
  };
  branch(is_contiguous(view, *src.mem, src.vector_axis), contiguous, others);
}

void KernelEmitter::store_transposed(const tile::View& view, const Storage& src, const std::string& across,
                                     const std::function<void(Value*, Value*, Value*)>& put) {
  const int lanes = src.lanes;
  const ScalarType type = tensors_.at(view.tensor).tensor->type;
  llvm::Type* vector = vector_type(element_type(src), lanes);
  for_each_square(src, across, [&](Indices& at, int rows, int columns) {
    std::vector<Value*> square;
    Value *first = at.at(src.vector_axis), *column = at.at(across);
    for (int c = 0; c < columns; ++c) {
      at[across] = builder_.CreateAdd(column, index(c));
      square.push_back(builder_.CreateAlignedLoad(vector, address(src, at, false), llvm::Align(4)));
    }
    while (static_cast<int>(square.size()) < lanes) square.push_back(llvm::Constant::getNullValue(vector));
    square = transposed(square);
    at[across] = column;
    for (int r = 0; r < rows; ++r) {
      at[src.vector_axis] = builder_.CreateAdd(first, index(r));
      ElementEmitter elements(*this, lanes, across, at, view.at);
      Value* inside = elements.admitted(view.at, {}, columns < lanes ? lanes_below(lanes, columns) : nullptr);
      const auto place = elements.place_of(view.tensor, view.indices);
      Value* value = to_memory(type, {Element::Kind::real, square[r], true}, lanes);
      put(value, builder_.CreateGEP(memory_type(type), place.arguments->data, place.offset), inside);
    }
  });
}

// ---------------------------------------------------------------- strips

Indices KernelEmitter::in_strip(const tile::Strip& strip, const Indices& indices) {
  Indices shifted = indices;
  for (const tile::Coordinate& coordinate : strip.at) {
    Value*& i = shifted[coordinate.axis];
    Value* origin = integer(coordinate.origin);
    i = i ? builder_.CreateAdd(i, origin) : origin;
  }
  return shifted;
}

Value* KernelEmitter::admitted_in_strip(ElementEmitter& elements, const tile::Strip& strip, const Storage& storage,
                                        const tile::Mem& piece, Value* tail) {
  // A piece may reach beyond the end of a strip whose length its own does not divide.
  std::vector<tile::Coordinate> at = strip.at;
  Value* mask = elements.admitted(at, {}, tail);
  for (tile::Coordinate& coordinate : at) {
    const int length = storage.mem->extent_of(coordinate.axis);
    if (length % piece.extent_of(coordinate.axis) == 0) continue;
    coordinate.limit = Expr(length);
    mask = elements.admitted({coordinate}, {}, mask);
  }
  return mask;
}

void KernelEmitter::emit_from_strip(const tile::TileName& name, const tile::Strip& strip) {
  const Storage &dst = storage_of(name), &src = storage_of(strip.tile);
  if (dst.is_real() != src.is_real()) throw InternalError("copy " + name + " <- " + strip.tile + ": types differ");
  for_each_vector(dst, whole(dst), [&](const Indices& indices, llvm::Constant* tail) {
    ElementEmitter elements(*this, dst.lanes, dst.vector_axis, indices, strip.at);
    Value* inside = admitted_in_strip(elements, strip, src, *dst.mem, tail);
    const Indices shifted = in_strip(strip, indices);
    Value* value = nullptr;
    if (inside && dst.lanes > 1 && src.vector_axis == dst.vector_axis) {
      llvm::Type* type = vector_type(element_type(src), dst.lanes);
      value = builder_.CreateMaskedLoad(type, address(src, shifted, false), llvm::Align(4), inside,
                                        llvm::Constant::getNullValue(type));
      value = math_.round_to(dst.mem->type, value);
    } else {
      ElementEmitter shifted_elements(*this, dst.lanes, dst.vector_axis, shifted, {});
      value = as_tile_value(dst, shifted_elements.evaluate(variable(strip.tile)), dst.lanes);
    }
    if (inside && inside != tail)
      value = builder_.CreateSelect(inside, value, absent_value(dst, strip.absent, dst.lanes));
    store_value(dst, indices, value, nullptr);
  });
}

void KernelEmitter::emit_to_strip(const tile::Strip& strip, const tile::TileName& name) {
  const Storage &dst = storage_of(strip.tile), &src = storage_of(name);
  for_each_vector(src, whole(src), [&](const Indices& indices, llvm::Constant* tail) {
    ElementEmitter elements(*this, src.lanes, src.vector_axis, indices, strip.at);
    Value* inside = admitted_in_strip(elements, strip, dst, *src.mem, tail);
    Value* value = as_tile_value(dst, elements.evaluate(variable(name)), src.lanes);
    Value* pointer = address(dst, in_strip(strip, indices), true);
    if (src.lanes == 1 || dst.vector_axis != src.vector_axis) {
      std::vector<llvm::Constant*> offsets;
      for (int lane = 0; lane < src.lanes; ++lane) offsets.push_back(index(lane * dst.stride_of(src.vector_axis)));
      Value* pointers =
          src.lanes == 1 ? pointer : builder_.CreateGEP(element_type(dst), pointer, llvm::ConstantVector::get(offsets));
      store_lanes(pointers, value, src.lanes, inside);
    } else if (inside) {
      builder_.CreateMaskedStore(value, pointer, llvm::Align(4), inside);
    } else {
      builder_.CreateAlignedStore(value, pointer, llvm::Align(4));
    }
  });
}

}  // namespace astatide::cpu
