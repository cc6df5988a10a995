#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/interpret_machine.h"

namespace astatide::tile {
namespace {

/// Elements of an operand, in the order of the tile dims that it was made for. Gathers and scatters.
class ElementAccess {
 public:
  virtual ~ElementAccess() = default;
  virtual void start() = 0;
  virtual double load(const ElementCounter& element) = 0;
};

class TileAccess : public ElementAccess {
 public:
  TileAccess(const Machine& machine, std::size_t tile, const std::vector<Dim>& dims)
      : machine_(machine), tile_(tile), strides_(strides_along(dims, machine.tile(tile).mem->dims)) {}
  void start() override { base_ = machine_.read_base(tile_); }
  double load(const ElementCounter& element) override {
    return machine_.read_element(tile_, base_ + element.offset(strides_));
  }

 private:
  const Machine& machine_;
  std::size_t tile_;
  std::vector<std::size_t> strides_;
  std::size_t base_ = 0;
};

class ViewAccess : public ElementAccess {
 public:
  ViewAccess(const Machine& machine, const View& view, const std::vector<Dim>& dims)
      : machine_(machine),
        index_(machine.tensor_of(view.tensor)),
        tensor_(machine.tensor(index_)),
        absent_(view.absent),
        range_(machine, view.at, dims) {
    if (view.indices.size() != tensor_.strides.size())
      machine.fail(view.tensor + " has " + std::to_string(tensor_.strides.size()) + " dimensions, not " +
                   std::to_string(view.indices.size()));
    for (const Dim& dim : dims) {
      const bool found =
          std::any_of(view.at.begin(), view.at.end(), [&](const Coordinate& c) { return c.axis == dim.axis; });
      if (!found && dim.extent != 1) machine.fail("the view of " + view.tensor + " says nothing of axis " + dim.axis);
    }
    TapeCompiler compiler(machine, view.at);
    for (const Expr& index : view.indices) indices_.push_back({compiler.compile(index)});
    if (!compiler.operands().empty()) machine.fail("an index of " + view.tensor + " reads a tile");
  }

  void start() override {
    range_.start(machine_);
    for (Index& index : indices_)
      if (!index.tape.uses_elements()) index.value = index.tape.run(machine_);
  }

  double load(const ElementCounter& element) override {
    if (!range_.place(element)) return absent_;
    const std::size_t at = position();
    if (machine_.share()) machine_.share()->on_load(index_, at);
    return tensor_.data->values[at];
  }

  void store(const ElementCounter& element, double value) {
    if (!range_.place(element)) return;
    const std::size_t at = position();
    if (machine_.share()) {
      if (!machine_.share()->stores()) return;
      machine_.share()->on_store(index_, at);
    }
    tensor_.data->values[at] = machine_.rounded(tensor_.tensor->type, value);
  }

 private:
  struct Index {
    Tape tape;
    double value = 0;
  };

  std::size_t position() {
    const ElementPlace place{range_.values().data(), nullptr};
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const Index& index = indices_[i];
      const int coordinate = index.tape.sole_coordinate();
      const double at = coordinate >= 0              ? place.coordinates[coordinate]
                        : index.tape.uses_elements() ? index.tape.run(machine_, place)
                                                     : index.value;
      if (!(at >= 0 && at < static_cast<double>(tensor_.data->shape[i])) || at != std::floor(at))
        machine_.fail("index " + std::to_string(at) + " of dimension " + std::to_string(i) + " of " +
                      tensor_.tensor->name + ", which has " + std::to_string(tensor_.data->shape[i]));
      offset += static_cast<std::int64_t>(at) * tensor_.strides[i];
    }
    return static_cast<std::size_t>(offset);
  }

  const Machine& machine_;
  std::size_t index_;
  const TensorState& tensor_;
  double absent_;
  CoordinateRange range_;
  std::vector<Index> indices_;
};

class StripAccess : public ElementAccess {
 public:
  StripAccess(const Machine& machine, const Strip& strip, const std::vector<Dim>& dims)
      : machine_(machine),
        tile_(machine.tile_of(strip.tile)),
        absent_(strip.absent),
        range_(machine, all_axes(strip, dims), dims) {
    const std::vector<Dim>& shape = machine.tile(tile_).mem->dims;
    const std::vector<std::size_t> strides = strides_along(shape, shape);
    for (const Coordinate& c : all_axes(strip, dims)) {
      const auto dim = std::find_if(shape.begin(), shape.end(), [&](const Dim& d) { return d.axis == c.axis; });
      if (dim == shape.end()) machine.fail(strip.tile + " has no axis " + c.axis);
      along_.push_back({strides[static_cast<std::size_t>(dim - shape.begin())], *dim});
    }
  }

  void start() override {
    range_.start(machine_);
    base_ = machine_.read_base(tile_);
  }
  void start_store(std::size_t base) {
    range_.start(machine_);
    base_ = base;
  }

  double load(const ElementCounter& element) override {
    const std::optional<std::size_t> at = place(element);
    return at ? machine_.read_element(tile_, *at) : absent_;
  }

  /// None where the element is beyond a limit.
  std::optional<std::size_t> place(const ElementCounter& element) {
    if (!range_.place(element)) return std::nullopt;
    std::size_t out = base_;
    for (std::size_t i = 0; i < along_.size(); ++i) {
      const double at = range_.values()[i];
      if (!(at >= 0 && at < along_[i].dim.extent))
        machine_.fail("element " + std::to_string(at) + " of axis " + along_[i].dim.axis + " of " +
                      machine_.tile(tile_).mem->name + ", which has " + std::to_string(along_[i].dim.extent));
      out += static_cast<std::size_t>(at) * along_[i].stride;
    }
    return out;
  }

  std::size_t tile() const { return tile_; }

 private:
  /// Axes that the strip does not speak of start at 0.
  static std::vector<Coordinate> all_axes(const Strip& strip, const std::vector<Dim>& dims) {
    std::vector<Coordinate> out = strip.at;
    for (const Dim& dim : dims) {
      const bool found = std::any_of(out.begin(), out.end(), [&](const Coordinate& c) { return c.axis == dim.axis; });
      if (!found) out.push_back({dim.axis, Expr(0), std::nullopt});
    }
    return out;
  }

  struct Along {
    std::size_t stride;
    Dim dim;
  };
  const Machine& machine_;
  std::size_t tile_;
  double absent_;
  CoordinateRange range_;
  std::vector<Along> along_;
  std::size_t base_ = 0;
};

std::shared_ptr<ElementAccess> make_access(const Machine& machine, const Operand& operand,
                                           const std::vector<Dim>& dims) {
  return match(
      operand,
      [&](const TileName& tile) -> std::shared_ptr<ElementAccess> {
        return std::make_shared<TileAccess>(machine, machine.tile_of(tile), dims);
      },
      [&](const View& view) -> std::shared_ptr<ElementAccess> {
        return std::make_shared<ViewAccess>(machine, view, dims);
      });
}

std::shared_ptr<ElementAccess> make_access(const Machine& machine, const CopyOperand& operand,
                                           const std::vector<Dim>& dims) {
  return match(
      operand, [&](const TileName& tile) { return make_access(machine, Operand(tile), dims); },
      [&](const View& view) { return make_access(machine, Operand(view), dims); },
      [&](const Strip& strip) -> std::shared_ptr<ElementAccess> {
        return std::make_shared<StripAccess>(machine, strip, dims);
      });
}

bool same_axes(std::vector<Dim> a, std::vector<Dim> b) {
  const auto by_axis = [](const Dim& x, const Dim& y) { return x.axis < y.axis; };
  std::sort(a.begin(), a.end(), by_axis);
  std::sort(b.begin(), b.end(), by_axis);
  return a == b;
}

/// A matrix operand of a product, copied out: rows are the elements of the axes that it shares with the result.
struct Matrix {
  std::shared_ptr<ElementAccess> access;
  std::vector<Dim> dims;
  std::vector<std::size_t> strides;  // for each axis of the result
  std::size_t step = 0;              // along the contracted axis
  bool by_rows = false;              // its rows are those of the result
  std::vector<double> values;

  /// Of the rows that a share of the threads multiplies.
  void load(const Share* share) {
    access->start();
    std::size_t i = 0;
    for (ElementCounter element(dims); !element.done(); element.next(), ++i)
      if (!share || !by_rows || share->holds_row(element[0])) values[i] = access->load(element);
  }
};

Matrix make_matrix(const Machine& machine, const Kernel& kernel, const Operand& operand, const std::vector<Dim>& result,
                   const Dim& contracted) {
  Matrix out;
  std::size_t count = 1;
  for (const std::string& axis : axes_of(kernel, operand)) {
    const auto dim = std::find_if(result.begin(), result.end(), [&](const Dim& d) { return d.axis == axis; });
    out.dims.push_back(axis == contracted.axis ? contracted : dim != result.end() ? *dim : Dim{axis, 1});
    count *= static_cast<std::size_t>(out.dims.back().extent);
  }
  if (const auto* tile = std::get_if<TileName>(&operand)) {
    const Mem& mem = *machine.tile(machine.tile_of(*tile)).mem;
    if (!same_axes(mem.dims, out.dims)) machine.fail("the extents of " + mem.name + " are not those of the product");
  }
  out.access = make_access(machine, operand, out.dims);
  out.strides = strides_along(result, out.dims);
  out.step = strides_along({contracted}, out.dims)[0];
  out.by_rows = out.dims[0].axis == result[0].axis;
  out.values.resize(count);
  return out;
}

}  // namespace

Action Machine::compile_mma(const Mma& s) {
  const std::size_t dst = tile_of(s.dst);
  const std::vector<Dim>& dims = tiles_[dst].mem->dims;
  const Dim contracted = contraction_of(program_, kernel_, s);
  return [this, dst, accumulate = s.accumulate, extent = contracted.extent,
          lhs = make_matrix(*this, kernel_, s.lhs, dims, contracted),
          rhs = make_matrix(*this, kernel_, s.rhs, dims, contracted), pending = Pending()]() mutable {
    lhs.load(share_);
    rhs.load(share_);
    const std::size_t base = write_base(dst);
    pending.clear();
    std::size_t position = base;
    for (ElementCounter element(tiles_[dst].mem->dims); !element.done(); element.next(), ++position) {
      if (!holds(element)) continue;
      const double* x = lhs.values.data() + element.offset(lhs.strides);
      const double* y = rhs.values.data() + element.offset(rhs.strides);
      double total = accumulate ? read_element(dst, position) : 0;
      for (int c = 0; c < extent; ++c, x += lhs.step, y += rhs.step) total += *x * *y;
      pending.add(position, total);
    }
    commit(dst, pending);
  };
}

Action Machine::compile_copy(const Copy& s) {
  // A whole tile on one side says which elements are copied.
  const auto* dst_tile = std::get_if<TileName>(&s.dst);
  const auto* src_tile = std::get_if<TileName>(&s.src);
  if (!dst_tile && !src_tile) fail("a copy has a whole tile on one side");
  const std::vector<Dim> dims = tiles_[tile_of(dst_tile ? *dst_tile : *src_tile)].mem->dims;
  if (dst_tile && src_tile && !same_axes(dims, tiles_[tile_of(*src_tile)].mem->dims))
    fail("the shapes of " + *dst_tile + " and " + *src_tile + " differ");
  std::shared_ptr<ElementAccess> from = make_access(*this, s.src, dims);

  if (const auto* view = std::get_if<View>(&s.dst)) {
    return [this, dims, from, to = std::make_shared<ViewAccess>(*this, *view, dims)] {
      from->start();
      to->start();
      for (ElementCounter element(dims); !element.done(); element.next())
        if (holds(element)) to->store(element, from->load(element));
    };
  }
  if (const auto* strip = std::get_if<Strip>(&s.dst)) {
    return [this, dims, from, to = std::make_shared<StripAccess>(*this, *strip, dims), pending = Pending()]() mutable {
      from->start();
      to->start_store(write_base(to->tile()));
      pending.clear();
      for (ElementCounter element(dims); !element.done(); element.next()) {
        if (!holds(element)) continue;
        const std::optional<std::size_t> position = to->place(element);
        if (!position) continue;
        pending.add(*position, from->load(element));
      }
      commit(to->tile(), pending);
    };
  }
  return [this, dst = tile_of(*dst_tile), dims, from, pending = Pending()]() mutable {
    from->start();
    const std::size_t base = write_base(dst);
    pending.clear();
    std::size_t position = base;
    for (ElementCounter element(dims); !element.done(); element.next(), ++position)
      if (holds(element)) pending.add(position, from->load(element));
    commit(dst, pending);
  };
}

}  // namespace astatide::tile
