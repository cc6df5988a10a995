#include "compiler/tile/interpret_machine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/diagnostic.h"
#include "compiler/support/half.h"
#include "compiler/support/match.h"

namespace astatide::tile {
namespace {

constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double round_to(ScalarType type, double value) {
  switch (type) {
    case ScalarType::f16:
      return f16_to_f32(f64_to_f16(value));
    case ScalarType::bf16:
      return bf16_to_f32(f64_to_bf16(value));
    case ScalarType::f32:
      return static_cast<float>(value);
    case ScalarType::f64:
    case ScalarType::i32:
    case ScalarType::i64:
    case ScalarType::u8:
    case ScalarType::boolean:
      break;
  }
  return value;
}

Machine::Machine(const Program& program, const Kernel& kernel, const std::map<std::string, std::int64_t>& extents,
                 const std::map<std::string, double>& scalars, std::map<std::string, DoubleTensor>& tensors,
                 const InterpretOptions& options, Share* share)
    : program_(program), kernel_(kernel), options_(options), share_(share) {
  for (const Mem& mem : kernel.mems) {
    tile_index_.emplace(mem.name, tiles_.size());
    TileState& state = tiles_.emplace_back();
    state.mem = &mem;
    state.size = static_cast<std::size_t>(mem.element_count());
    state.values.resize(state.size * (share ? share->copies(mem) : static_cast<std::size_t>(mem.ring)));
    state.written.resize(state.values.size());
  }
  add_overlaps();
  for (const Tensor& tensor : program.tensors) {
    tensor_index_.emplace(tensor.name, tensors_.size());
    TensorState& state = tensors_.emplace_back();
    state.tensor = &tensor;
    state.data = &tensors.at(tensor.name);
    state.strides.resize(tensor.dims.size());
    std::int64_t stride = 1;
    for (std::size_t i = tensor.dims.size(); i-- > 0; stride *= state.data->shape[i]) state.strides[i] = stride;
  }
  for (const auto& [name, value] : extents) add_slot(name, static_cast<double>(value));
  for (const auto& [name, value] : scalars) add_slot(name, value);
  for (const TileAxis& axis : kernel.tiles) add_slot(axis.var, kUnset);
  if (!kernel.warpgroup.empty()) add_slot(kernel.warpgroup, kUnset);
  walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* loop = std::get_if<For>(&stmt.node)) add_slot(loop->var, kUnset);
    if (const auto* let = std::get_if<Let>(&stmt.node)) add_slot(let->name, kUnset);
    if (const std::string* flag = flag_of(stmt)) add_slot(*flag, kUnset);
    const auto uses_ring = [&](const TileName& name) { tiles_[tile_of(name)].explicit_ring = true; };
    if (const auto* s = std::get_if<Reserve>(&stmt.node)) {
      uses_ring(s->tile);
      tiles_[tile_of(s->tile)].reserves = true;
    }
    if (const auto* s = std::get_if<Acquire>(&stmt.node)) uses_ring(s->tile);
    if (const auto* s = std::get_if<Release>(&stmt.node)) uses_ring(s->tile);
  });
  if (kernel.exists) exists_ = TapeCompiler(*this).compile(*kernel.exists);
  if (!share) body_ = compile(kernel.body);
}

Action Machine::instruction(const Stmt& stmt) {
  current_ = &stmt;
  return [this, at = &stmt, run = compile(stmt)] {
    current_ = at;
    run();
  };
}

void Machine::add_slot(const std::string& name, double value) {
  if (slot_index_.contains(name)) return;
  slot_index_.emplace(name, slots_.size());
  slots_.push_back(value);
  slot_names_.push_back(name);
}

void Machine::add_overlaps() {
  const auto root_of = [&](const Mem* mem) {
    // A chain of aliases is no longer than the list of tiles.
    for (std::size_t step = 0; step < kernel_.mems.size() && !mem->alias.empty(); ++step) {
      const Mem* next = kernel_.find(mem->alias);
      if (!next) fail(mem->name + " shares the storage of " + mem->alias + ", which is no tile");
      mem = next;
    }
    return mem;
  };
  for (std::size_t a = 0; a < tiles_.size(); ++a) {
    for (std::size_t b = 0; b < tiles_.size(); ++b) {
      const Mem& x = *tiles_[a].mem;
      const Mem& y = *tiles_[b].mem;
      if (a == b || x.space != y.space) continue;
      const bool placed = x.space == Space::shared && x.offset >= 0 && y.offset >= 0;
      const bool overlap = placed ? x.offset < y.offset + y.byte_count() && y.offset < x.offset + x.byte_count()
                                  : root_of(&x) == root_of(&y);
      if (!overlap) continue;
      const bool same = x.dims == y.dims && x.type == y.type && x.ring == y.ring && x.offset == y.offset;
      tiles_[a].overlaps.push_back({b, same});
    }
  }
}

void Machine::fail(const std::string& message) const {
  throw InternalError("interpret " + program_.name + ", kernel " + kernel_.name +
                      (current_ ? ", " + head_of(*current_) : "") + ": " + message);
}

void Machine::unwritten(std::size_t tile) const { fail(tiles_[tile].mem->name + " is read before it is written"); }

const std::size_t* Machine::find_tile(const std::string& name) const {
  const auto found = tile_index_.find(name);
  return found == tile_index_.end() ? nullptr : &found->second;
}

std::size_t Machine::tile_of(const std::string& name) const {
  const std::size_t* found = find_tile(name);
  if (!found) fail("no tile is named " + name);
  return *found;
}

const std::size_t* Machine::find_slot(const std::string& name) const {
  const auto found = slot_index_.find(name);
  return found == slot_index_.end() ? nullptr : &found->second;
}

std::size_t Machine::tensor_of(const std::string& name) const {
  const auto found = tensor_index_.find(name);
  if (found == tensor_index_.end()) fail("no tensor is named " + name);
  return found->second;
}

std::size_t Machine::add_hidden_tile(const Mem& mem) {
  hidden_.push_back(mem);
  TileState& state = tiles_.emplace_back();
  state.mem = &hidden_.back();
  state.size = static_cast<std::size_t>(mem.element_count());
  state.values.resize(state.size);
  state.written.resize(state.size);
  return tiles_.size() - 1;
}

std::int64_t Machine::integer(const Tape& tape) const {
  const double value = tape.run(*this);
  if (value != std::floor(value) || std::abs(value) > 9e15) fail("not an integer: " + std::to_string(value));
  return static_cast<std::int64_t>(value);
}

double Machine::rounded(ScalarType type, double value) const {
  return options_.round_storage ? round_to(type, value) : value;
}

void Machine::reserve(std::size_t tile) {
  TileState& state = tiles_[tile];
  if (state.reserved - state.released == state.mem->ring)
    fail("all " + std::to_string(state.mem->ring) + " slots of " + state.mem->name + " are taken");
  ++state.reserved;
}

std::size_t Machine::read_base(std::size_t tile) const {
  const TileState& state = tiles_[tile];
  if (share_) return share_->copy_of(tile, false) * state.size;
  if (!state.explicit_ring) return 0;
  if (state.acquired == state.released) fail(state.mem->name + " is read, but no slot of it is held");
  return static_cast<std::size_t>(state.released % state.mem->ring) * state.size;
}

std::size_t Machine::write_base(std::size_t tile) {
  const TileState& state = tiles_[tile];
  if (share_) return share_->copy_of(tile, true) * state.size;
  if (!state.explicit_ring) return 0;
  if (!state.reserves) reserve(tile);
  if (state.reserved == state.acquired) fail(state.mem->name + " is written, but no slot of it is reserved");
  return static_cast<std::size_t>((state.reserved - 1) % state.mem->ring) * state.size;
}

std::vector<std::size_t> Machine::read_bases(const std::vector<std::size_t>& tiles) const {
  std::vector<std::size_t> out;
  for (const std::size_t tile : tiles) out.push_back(read_base(tile));
  return out;
}

void Machine::commit(std::size_t tile, const Pending& pending) {
  const auto& [positions, values] = pending;
  TileState& state = tiles_[tile];
  if (share_) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      share_->on_write(tile, positions[i]);
      state.values[positions[i]] = rounded(state.mem->type, values[i]);
    }
    return;
  }
  for (const TileState::Overlap& overlap : state.overlaps) {
    std::vector<char>& written = tiles_[overlap.tile].written;
    if (!overlap.element_by_element) {
      std::fill(written.begin(), written.end(), 0);
    } else {
      for (const std::size_t position : positions) written[position] = 0;
    }
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    state.values[positions[i]] = rounded(state.mem->type, values[i]);
    state.written[positions[i]] = 1;
  }
}

std::vector<Action> Machine::compile(const Block& block) {
  std::vector<Action> out;
  for (const Stmt& stmt : block) {
    current_ = &stmt;
    out.push_back([this, at = &stmt, run = compile(stmt)] {
      current_ = at;
      run();
    });
  }
  return out;
}

Action Machine::compile(const Stmt& stmt) {
  return match(
      stmt.node, [&](const For& s) { return compile_for(s); }, [&](const If& s) { return compile_if(s); },
      [&](const Role&) -> Action { fail("roles run at the same time, which the interpreter can't do"); },
      [&](const Let& s) -> Action {
        return [this, slot = *find_slot(s.name), value = TapeCompiler(*this).compile(s.value)] {
          slots_[slot] = static_cast<double>(integer(value));
        };
      },
      [&](const Fill& s) -> Action {
        const std::size_t tile = tile_of(s.dst);
        return [this, tile, value = s.value, pending = Pending()]() mutable {
          const std::size_t base = write_base(tile);
          pending.clear();
          std::size_t position = base;
          for (ElementCounter element(tiles_[tile].mem->dims); !element.done(); element.next(), ++position)
            if (holds(element)) pending.add(position, value);
          commit(tile, pending);
        };
      },
      [&](const Map& s) { return compile_map(s); }, [&](const RowReduce& s) { return compile_row_reduce(s); },
      [&](const AllReduce& s) -> Action {
        // The interpreter holds whole values, never the shares of lanes.
        const std::size_t tile = tile_of(s.tile);
        return [this, tile] {
          std::size_t position = read_base(tile);
          for (ElementCounter element(tiles_[tile].mem->dims); !element.done(); element.next(), ++position)
            if (holds(element)) read_element(tile, position);
        };
      },
      [&](const Vote& s) { return compile_vote(s); }, [&](const Mma& s) { return compile_mma(s); },
      [&](const Copy& s) { return compile_copy(s); }, [](const Await&) -> Action { return [] {}; },
      [&](const Advance& s) { return compile_advance(s); },
      [&](const Reserve& s) -> Action { return [this, tile = tile_of(s.tile)] { reserve(tile); }; },
      [&](const Acquire& s) { return compile_acquire(s); },
      [&](const Release& s) -> Action {
        return [this, tile = tile_of(s.tile)] {
          TileState& state = tiles_[tile];
          const auto base = static_cast<std::ptrdiff_t>(read_base(tile));
          const auto first = state.written.begin() + base;
          std::fill(first, first + static_cast<std::ptrdiff_t>(state.size), 0);
          ++state.released;
        };
      },
      [](const Sync&) -> Action { return [] {}; }, [](const Turn&) -> Action { return [] {}; },
      [&](const Arrive& s) { return compile_arrive(s); });
}

Action Machine::compile_arrive(const Arrive& s) {
  const std::size_t tensor = tensor_of(s.counters);
  std::vector<Tape> indices;
  for (const Expr& index : s.indices) indices.push_back(TapeCompiler(*this).compile(index));
  if (indices.size() != tensors_[tensor].strides.size()) fail(s.counters + " has another number of dimensions");
  return
      [this, tensor, indices = std::move(indices), of = TapeCompiler(*this).compile(s.of), flag = *find_slot(s.flag)] {
        const TensorState& counters = tensors_[tensor];
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < indices.size(); ++i) {
          const std::int64_t at = integer(indices[i]);
          if (at < 0 || at >= counters.data->shape[i]) fail("an arrival outside of " + counters.tensor->name);
          offset += at * counters.strides[i];
        }
        if (share_) share_->on_store(tensor, static_cast<std::size_t>(offset));
        double& count = counters.data->values[static_cast<std::size_t>(offset)];
        const bool last = ++count == static_cast<double>(integer(of));
        if (last) count = 0;
        slots_[flag] = last ? 1 : 0;
      };
}

Action Machine::compile_acquire(const Acquire& s) {
  const std::size_t tile = tile_of(s.tile);
  return [this, tile, range = CoordinateRange(*this, s.at, tiles_[tile].mem->dims)]() mutable {
    TileState& state = tiles_[tile];
    if (state.acquired == state.reserved) fail("no slot of " + state.mem->name + " is full");
    ++state.acquired;
    range.start(*this);
    std::size_t position = static_cast<std::size_t>((state.acquired - 1) % state.mem->ring) * state.size;
    for (ElementCounter element(state.mem->dims); !element.done(); element.next(), ++position)
      if (!range.place(element)) state.values[position] = 0;
  };
}

Action Machine::compile_for(const For& s) {
  Tape begin = TapeCompiler(*this).compile(s.begin);
  if (s.kind == For::Kind::once) {
    // A peeled iteration: its variable is bound, and it runs whatever the end is.
    return [this, begin = std::move(begin), var = *find_slot(s.var), body = compile(s.body)] {
      slots_[var] = static_cast<double>(integer(begin));
      for (const Action& action : body) action();
      slots_[var] = kUnset;
    };
  }
  Tape end = TapeCompiler(*this).compile(s.end);
  return [this, begin = std::move(begin), end = std::move(end), var = *find_slot(s.var), descending = s.descending,
          body = compile(s.body)] {
    const std::int64_t first = integer(begin);
    const std::int64_t past = integer(end);
    for (std::int64_t i = 0; i < past - first; ++i) {
      slots_[var] = static_cast<double>(descending ? past - 1 - i : first + i);
      for (const Action& action : body) action();
    }
    slots_[var] = kUnset;
  };
}

Action Machine::compile_if(const If& s) {
  return [this, condition = TapeCompiler(*this).compile(s.condition), body = compile(s.body)] {
    if (condition.run(*this) == 0) return;
    for (const Action& action : body) action();
  };
}

void Machine::start_tile() {
  for (TileState& state : tiles_) {
    std::fill(state.written.begin(), state.written.end(), 0);
    state.reserved = state.acquired = state.released = 0;
  }
  walk(kernel_.body, [&](const Stmt& stmt) {
    if (const auto* let = std::get_if<Let>(&stmt.node)) slots_[slot_index_.at(let->name)] = kUnset;
    if (const std::string* flag = flag_of(stmt)) slots_[slot_index_.at(*flag)] = kUnset;
  });
}

void Machine::finish_tile() const {
  for (const TileState& state : tiles_)
    if (state.reserved != state.released)
      fail(std::to_string(state.reserved - state.released) + " slots of " + state.mem->name + " are never released");
}

void Machine::run() {
  std::vector<std::int64_t> counts;
  std::vector<std::size_t> vars;
  current_ = nullptr;
  for (const TileAxis& axis : kernel_.tiles) {
    counts.push_back(integer(TapeCompiler(*this).compile(axis.count)));
    vars.push_back(slot_index_.at(axis.var));
    if (counts.back() <= 0) return;
  }
  std::vector<std::int64_t> at(counts.size(), 0);
  for (;;) {
    for (std::size_t i = 0; i < at.size(); ++i) slots_[vars[i]] = static_cast<double>(at[i]);
    if (tile_exists()) {
      start_tile();
      for (const Action& action : body_) action();
      current_ = nullptr;
      finish_tile();
    }
    std::size_t axis = 0;
    while (axis < at.size() && ++at[axis] == counts[axis]) at[axis++] = 0;
    if (axis == at.size()) return;
  }
}

}  // namespace astatide::tile
