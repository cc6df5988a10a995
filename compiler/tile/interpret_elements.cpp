#include <algorithm>
#include <limits>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret_machine.h"

namespace astatide::tile {

std::vector<std::size_t> strides_along(const std::vector<Dim>& dims, const std::vector<Dim>& tile_dims) {
  std::vector<std::size_t> out(dims.size(), 0);
  std::size_t stride = 1;
  for (std::size_t i = tile_dims.size(); i-- > 0;) {
    for (std::size_t k = 0; k < dims.size(); ++k)
      if (dims[k].axis == tile_dims[i].axis) out[k] = stride;
    stride *= static_cast<std::size_t>(tile_dims[i].extent);
  }
  return out;
}

ElementCounter::ElementCounter(const std::vector<Dim>& dims, const std::optional<Columns>& columns)
    : axes_(dims.size()) {
  if (axes_ > kMaxAxes) throw InternalError("a tile has " + std::to_string(axes_) + " axes");
  for (std::size_t i = 0; i < axes_; ++i) end_[i] = dims[i].extent;
  if (columns && axes_ > 0) {
    begin_[axes_ - 1] = columns->begin;
    end_[axes_ - 1] = columns->end;
  }
  at_ = begin_;
  for (std::size_t i = 0; i < axes_; ++i) done_ = done_ || begin_[i] >= end_[i];
}

void ElementCounter::next() {
  for (std::size_t i = axes_; i-- > 0;) {
    if (++at_[i] < end_[i]) return;
    at_[i] = begin_[i];
  }
  done_ = true;
}

CoordinateRange::CoordinateRange(const Machine& machine, const std::vector<Coordinate>& at,
                                 const std::vector<Dim>& dims) {
  TapeCompiler compiler(machine);
  for (const Coordinate& coordinate : at) {
    Entry& entry = entries_.emplace_back();
    entry.origin = compiler.compile(coordinate.origin);
    if (coordinate.limit) entry.limit = compiler.compile(*coordinate.limit);
    const auto dim = std::find_if(dims.begin(), dims.end(), [&](const Dim& d) { return d.axis == coordinate.axis; });
    entry.axis = dim == dims.end() ? -1 : static_cast<int>(dim - dims.begin());
  }
  values_.resize(entries_.size());
}

void CoordinateRange::start(const Machine& machine) {
  for (Entry& entry : entries_) {
    entry.first = static_cast<double>(machine.integer(entry.origin));
    entry.past =
        entry.limit ? static_cast<double>(machine.integer(*entry.limit)) : std::numeric_limits<double>::infinity();
  }
}

bool CoordinateRange::place(const ElementCounter& element) {
  bool inside = true;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    values_[i] = entry.first + (entry.axis < 0 ? 0 : element[static_cast<std::size_t>(entry.axis)]);
    inside = inside && values_[i] < entry.past;
  }
  return inside;
}

namespace {

double combine(Reduction op, double a, double b) {
  const double args[2] = {a, b};
  switch (op) {
    case Reduction::sum:
      return a + b;
    case Reduction::max:
      return apply(Op::max, args);
    case Reduction::min:
      return apply(Op::min, args);
    default:
      break;
  }
  throw InternalError(std::string(name_of(op)) + " is no reduction of a tile program");
}

/// The operands of a statement's expressions, and where their elements stand at each element of its tile.
class Operands {
 public:
  Operands(const Machine& machine, const std::vector<std::size_t>& tiles, const std::vector<Dim>& dims)
      : tiles_(tiles), offsets_(tiles.size()) {
    for (const std::size_t tile : tiles) {
      for (const Dim& dim : machine.tile(tile).mem->dims)
        if (std::find(dims.begin(), dims.end(), dim) == dims.end())
          machine.fail("axis " + dim.axis + " of " + machine.tile(tile).mem->name +
                       " is none of the result, or of another extent there");
      strides_.push_back(strides_along(dims, machine.tile(tile).mem->dims));
    }
  }

  void start(const Machine& machine) { bases_ = machine.read_bases(tiles_); }

  const std::size_t* place(const ElementCounter& element) {
    for (std::size_t k = 0; k < tiles_.size(); ++k) offsets_[k] = bases_[k] + element.offset(strides_[k]);
    return offsets_.data();
  }

 private:
  std::vector<std::size_t> tiles_;
  std::vector<std::vector<std::size_t>> strides_;
  std::vector<std::size_t> bases_, offsets_;
};

}  // namespace

Action Machine::compile_map(const Map& s) {
  const std::size_t dst = tile_of(s.dst);
  const std::vector<Dim>& dims = tiles_[dst].mem->dims;
  TapeCompiler compiler(*this, s.at);
  Tape value = compiler.compile(s.value);
  std::vector<Tape> predicates;
  for (const Expr& predicate : s.where_predicates) predicates.push_back(compiler.compile(predicate));
  if (!predicates.empty() && !s.absent) fail("a map with predicates says what an absent element is");
  return
      [this, dst, value = std::move(value), predicates = std::move(predicates), absent = s.absent, columns = s.columns,
       range = CoordinateRange(*this, s.at, dims), operands = Operands(*this, compiler.operands(), dims),
       strides = strides_along(dims, dims), pending = Pending()]() mutable {
        range.start(*this);
        operands.start(*this);
        pending.clear();
        const std::size_t base = write_base(dst);
        for (ElementCounter element(tiles_[dst].mem->dims, columns); !element.done(); element.next()) {
          if (!holds(element)) continue;
          const bool inside = range.place(element);
          const ElementPlace place{range.values().data(), operands.place(element), !inside};
          const auto holds = [&](const Tape& predicate) { return predicate.run(*this, place) != 0; };
          const bool present = !absent || (inside && std::all_of(predicates.begin(), predicates.end(), holds));
          pending.add(base + element.offset(strides), present ? value.run(*this, place) : *absent);
        }
        commit(dst, pending);
      };
}

Action Machine::compile_row_reduce(const RowReduce& s) {
  const std::size_t dst = tile_of(s.dst);
  const std::size_t src = tile_of(s.src);
  const std::vector<Dim>& dims = tiles_[src].mem->dims;
  for (const Dim& dim : tiles_[dst].mem->dims)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end())
      fail("axis " + dim.axis + " of " + s.dst + " is none of " + s.src + ", or of another extent there");
  return [this, dst, src, op = s.op, accumulate = s.accumulate, columns = s.columns,
          dst_strides = strides_along(dims, tiles_[dst].mem->dims), src_strides = strides_along(dims, dims),
          pending = Pending()]() mutable {
    const std::size_t from = read_base(src);
    const std::size_t to = write_base(dst);
    const auto held = [&](const ElementCounter& element) { return !share_ || share_->holds_row(element[0]); };
    std::vector<double> totals(tiles_[dst].size, unit_of(op));
    std::size_t n = 0;
    for (ElementCounter element(tiles_[dst].mem->dims); !element.done(); element.next(), ++n)
      if (accumulate && held(element)) totals[n] = read_element(dst, to + n);
    for (ElementCounter element(tiles_[src].mem->dims, columns); !element.done(); element.next()) {
      if (!holds(element)) continue;
      double& total = totals[element.offset(dst_strides)];
      total = combine(op, total, read_element(src, from + element.offset(src_strides)));
    }
    pending.clear();
    n = 0;
    for (ElementCounter element(tiles_[dst].mem->dims); !element.done(); element.next(), ++n)
      if (held(element)) pending.add(to + n, totals[n]);
    commit(dst, pending);
  };
}

Action Machine::compile_vote(const Vote& s) {
  TapeCompiler compiler(*this);
  Tape condition = compiler.compile(s.condition);
  // The tile with the most axes holds those of all others.
  std::vector<Dim> dims;
  for (const std::size_t tile : compiler.operands())
    if (tiles_[tile].mem->dims.size() > dims.size()) dims = tiles_[tile].mem->dims;
  return [this, condition = std::move(condition), flag = *find_slot(s.flag), dims,
          operands = Operands(*this, compiler.operands(), dims)]() mutable {
    operands.start(*this);
    bool any = false;
    for (ElementCounter element(dims); !element.done(); element.next())
      if (holds(element)) any = condition.run(*this, {nullptr, operands.place(element)}) != 0 || any;
    slots_[flag] = any ? 1 : 0;
  };
}

Action Machine::compile_advance(const Advance& s) {
  struct Update {
    std::size_t tile, made, candidate;
    Reduction op;
    std::vector<std::size_t> candidate_strides;
  };
  struct Move {
    std::size_t tile;
    Tape by;
    Operands operands;
    Pending pending;
  };
  std::vector<Update> updates;
  for (const Advance::Update& u : s.updates) {
    const std::size_t tile = tile_of(u.tile);
    const std::size_t candidate = tile_of(u.candidate);
    Mem made = *tiles_[tile].mem;
    made.name = new_value_name(u.tile);
    const std::vector<Dim> dims = made.dims;
    updates.push_back({tile, add_hidden_tile(made), candidate, u.op, strides_along(dims, tiles_[candidate].mem->dims)});
  }
  std::vector<Move> moves;
  for (const Advance::Move& m : s.moving) {
    TapeCompiler compiler(*this);
    for (std::size_t i = 0; i < updates.size(); ++i)
      compiler.rename(new_value_name(s.updates[i].tile), updates[i].made);
    const std::size_t tile = tile_of(m.tile);
    Tape by = compiler.compile(m.by);
    moves.push_back({tile, std::move(by), Operands(*this, compiler.operands(), tiles_[tile].mem->dims), {}});
  }
  return [this, updates = std::move(updates), moves = std::move(moves)]() mutable {
    std::vector<Pending> news(updates.size());
    for (std::size_t k = 0; k < updates.size(); ++k) {
      const Update& u = updates[k];
      const std::size_t from = read_base(u.candidate);
      std::size_t i = 0;
      for (ElementCounter element(tiles_[u.tile].mem->dims); !element.done(); element.next(), ++i) {
        const double candidate = read_element(u.candidate, from + element.offset(u.candidate_strides));
        news[k].add(i, combine(u.op, read_element(u.tile, i), candidate));
      }
      commit(u.made, news[k]);
    }
    // Every move reads old values, so none is written before all have been computed.
    for (Move& m : moves) {
      m.operands.start(*this);
      m.pending.clear();
      std::size_t i = 0;
      for (ElementCounter element(tiles_[m.tile].mem->dims); !element.done(); element.next(), ++i)
        m.pending.add(i, m.by.run(*this, {nullptr, m.operands.place(element)}));
    }
    for (const Move& m : moves) commit(m.tile, m.pending);
    for (std::size_t k = 0; k < updates.size(); ++k) commit(updates[k].tile, news[k]);
  };
}

}  // namespace astatide::tile
