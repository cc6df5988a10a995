#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/parameters.h"

namespace astatide::cuda {

using tile::Mem;
using tile::Parameter;

KernelEmitter::KernelEmitter(const tile::Program& program, const tile::Kernel& kernel)
    : program_(program), kernel_(kernel), sync_(kernel) {
  for (const Parameter& p : parameters_of(program, kernel)) {
    if (p.kind != Parameter::Kind::counter) taken_.insert(p.name);
    if (p.kind == Parameter::Kind::extent) integers_.insert(p.name), non_negative_.insert(p.name);
  }
  for (const tile::TileAxis& axis : kernel.tiles) {
    taken_.insert(axis.var);
    integers_.insert(axis.var);
    non_negative_.insert(axis.var);
  }
  for (const Mem& mem : kernel.mems) {
    taken_.insert(mem.name);
    for (const tile::Dim& dim : mem.dims) taken_.insert(dim.axis);
  }
  const auto take = [&](const std::vector<tile::Coordinate>& at) {
    for (const tile::Coordinate& coordinate : at) taken_.insert(coordinate.axis);
  };
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    if (const auto* loop = std::get_if<tile::For>(&stmt.node)) taken_.insert(loop->var);
    if (const auto* let = std::get_if<tile::Let>(&stmt.node)) taken_.insert(let->name);
    const auto* product = std::get_if<tile::Mma>(&stmt.node);
    const auto* moved = std::get_if<tile::Copy>(&stmt.node);
    keeps_uniform_ = keeps_uniform_ || (product && product->by == tile::Family::mma_sync) ||
                     (moved && moved->via == tile::Via::cp_async);
    if (const std::string* flag = tile::flag_of(stmt)) {
      taken_.insert(*flag);
      flags_.insert(*flag);
      if (std::holds_alternative<tile::Vote>(stmt.node)) votes_.insert(*flag);
    }
    if (const auto* map = std::get_if<tile::Map>(&stmt.node)) take(map->at);
    if (const auto* copy = std::get_if<tile::Copy>(&stmt.node))
      for (const tile::CopyOperand* operand : {&copy->dst, &copy->src})
        if (const auto* view = std::get_if<tile::View>(operand)) take(view->at);
  });
  keeps_uniform_ = keeps_uniform_ && !has_roles();
  for (const std::string& tensor : tile::block_tensors_of(program, kernel)) taken_.insert(tensor);
  thread_ = claim("thread");
  row_ = claim("thread_row");
  column_ = claim("thread_column");
  held_row_ = claim("r");
  held_column_ = claim("c");
  for (const Parameter& p : parameters_of(program, kernel))
    if (p.kind == Parameter::Kind::stride) claim(fmt::format("{}_stride_{}", p.name, p.dim));
  for (const std::string& tensor : tile::block_tensors_of(program, kernel))
    for (std::size_t dim = 0; dim < program.find_tensor(tensor)->dims.size(); ++dim)
      claim(fmt::format("{}_stride_{}", tensor, dim));
  if (kernel.teams > 1) integers_.insert(claim("team"));
  for (const Mem& mem : kernel.mems)
    if (mem.ring > 1 || has_roles())
      for (const char* state : {"_read", "_write", "_read_phase", "_write_phase"}) claim(mem.name + state);
  if (sync_.has_wgmma()) integers_.insert(claim("warpgroup"));
  if (has_roles()) claim("barriers");
  if (kernel_.persistent)
    for (const char* name : {"tile_counter", "tiles", "tile", "next_tiles", "tile_slot", "tile_phase"}) claim(name);
  if (kernel_.persistent && kernel_.exists) claim("next_tile");
  if (kernel_.cluster) claim_cluster_names();
  for (const Parameter& p : parameters_of(program, kernel))
    if (p.kind == Parameter::Kind::tensor_map) claim(p.name + "_map");
}

// The suffix keeps a kernel apart from every function that a device header or CUDA declares.
std::string function_name(const tile::Kernel& kernel) { return kernel.name + "_kernel"; }

std::string KernelEmitter::signature() const {
  // A tensor that the kernel writes is not read-only, and may be read back (state that lives in global memory).
  std::set<std::string> written;
  tile::walk(kernel_.body, [&](const tile::Stmt& stmt) {
    if (const auto* copy = std::get_if<tile::Copy>(&stmt.node))
      if (const auto* view = std::get_if<tile::View>(&copy->dst)) written.insert(view->tensor);
  });
  std::string text;
  for (const Parameter& p : parameters_of(program_, kernel_)) {
    const bool new_line = p.kind == Parameter::Kind::pointer || p.kind == Parameter::Kind::arrivals ||
                          p.kind == Parameter::Kind::tensor_map || text.empty();
    if (!text.empty()) text += new_line ? "," : ", ";
    if (new_line) text += "\n    ";
    switch (p.kind) {
      case Parameter::Kind::arrivals:
        text += fmt::format("{}* {}", tensor_type(p.name), p.name);
        break;
      case Parameter::Kind::pointer:
        text += written.contains(p.name) ? fmt::format("{}* {}", tensor_type(p.name), p.name)
                                         : fmt::format("const {}* __restrict__ {}", tensor_type(p.name), p.name);
        break;
      case Parameter::Kind::tensor_map:
        text += "const __grid_constant__ TensorMap " + claimed(p.name + "_map");
        break;
      case Parameter::Kind::stride:
        text += "long long " + claimed(fmt::format("{}_stride_{}", p.name, p.dim));
        break;
      case Parameter::Kind::extent:
        text += "int " + p.name;
        break;
      case Parameter::Kind::scalar:
        text += "float " + p.name;
        break;
      case Parameter::Kind::counter:
        text += "unsigned* " + claimed(p.name);
        break;
    }
  }
  const std::string cluster =
      kernel_.cluster ? fmt::format("__cluster_dims__({}, 1, 1) ", kernel_.cluster->blocks) : "";
  return fmt::format("extern \"C\" __global__ void {}__launch_bounds__({}, {}) {}({})", cluster,
                     kernel_.block_threads(), kernel_.blocks, function_name(kernel_), text);
}

void KernelEmitter::emit_thread(SourceText& out) const {
  if (kernel_.teams > 1) return emit_thread_of_team(out);
  out.line(fmt::format("const int {} = threadIdx.x;", thread_));
  // Of the unsigned number, so that a shift and a mask give them: cheap enough to be computed again rather than kept.
  out.line(fmt::format("const int {0} = threadIdx.x / {2}, {1} = threadIdx.x % {2};", row_, column_,
                       kernel_.thread_columns));
  if (kernel_.cluster)
    out.line(fmt::format("const int {} = blockIdx.x % {};", claimed("cluster_rank"), kernel_.cluster->blocks));
}

void KernelEmitter::emit_thread_of_team(SourceText& out) const {
  const std::string number = fmt::format("threadIdx.x / {}", kernel_.threads());
  out.line(fmt::format("const int {} = {};  // of {}, {} threads each", claimed("team"),
                       keeps_uniform_ ? "uniform(" + number + ")" : number, kernel_.teams, kernel_.threads()));
  out.line(fmt::format("const int {} = threadIdx.x % {};", thread_, kernel_.threads()));
  out.line(fmt::format("const int {0} = threadIdx.x % {3} / {2}, {1} = threadIdx.x % {2};", row_, column_,
                       kernel_.thread_columns, kernel_.threads()));
}

std::string KernelEmitter::count_text(const tile::TileAxis& axis) const {
  const Text count = text_of(kernel_.steps_along(axis), scope());
  // As many blocks as there are have numbers of 32 bits.
  if (count.wide) return "static_cast<int>(" + count.text + ")";
  return count.precedence < 100 ? "(" + count.text + ")" : count.text;
}

std::string KernelEmitter::counts_text(std::size_t first) const {
  std::string product;
  for (std::size_t i = first; i < kernel_.tiles.size(); ++i)
    product += (product.empty() ? "" : " * ") + count_text(kernel_.tiles[i]);
  return product;
}

void KernelEmitter::emit_tile_axes(SourceText& out, const std::string& number) const {
  if (kernel_.tiles.empty()) return;
  const std::string block = fresh("block");
  const bool single = kernel_.tiles.size() == 1;
  out.line(fmt::format("{}int {} = {};  // one output tile{}", single ? "const " : "", block, number,
                       kernel_.cluster ? " for each block of a cluster" : ""));
  for (std::size_t i = 0; i < kernel_.tiles.size(); ++i) {
    const tile::TileAxis& axis = kernel_.tiles[i];
    const std::string divisor = count_text(axis);
    const bool last = i + 1 == kernel_.tiles.size();
    if (i == 0 && kernel_.tile_group) {
      emit_group(out, block);
      continue;
    }
    const std::string place =
        fmt::format("{}{}{}", axis.descending ? divisor + " - 1 - " : "", block, last ? "" : " % " + divisor);
    out.line(fmt::format("const int {} = {};", step_name(i), keeps_uniform_ ? "uniform(" + place + ")" : place));
    if (!last) out.line(fmt::format("{} /= {};", block, divisor));
  }
  if (!kernel_.cluster || kernel_.persistent) return;
  out.line(fmt::format("const int {} = {};", claimed("tile_place"), place_in_cluster(claimed("cluster_rank"))));
  emit_tile_of_place(out, true);
}

const std::string& KernelEmitter::step_name(std::size_t axis) const {
  return axis == 0 && kernel_.cluster ? claimed("cluster_step") : kernel_.tiles[axis].var;
}

// The tiles of a group follow each other: those at one place of the first axis, then those at the next. What is left of
// `block` counts those of the other axes.
void KernelEmitter::emit_group(SourceText& out, const std::string& block) const {
  const tile::TileAxis& axis = kernel_.tiles[0];
  const std::string count = count_text(axis), rest = fresh("rest"), groups = fresh("groups"), group = fresh("group"),
                    first = fresh("first"), size = fresh("size");
  out.line(fmt::format("const int {} = {};", rest, counts_text(1)));
  out.line(fmt::format("const int {0} = ({1} - 1) / ({2}) + 1;  // whose tiles share the L2 cache", groups, rest,
                       integer_text(*kernel_.tile_group, scope())));
  // Group n begins at rest * n / groups, so that none is much smaller than the others and leaves blocks idle.
  out.line(fmt::format("const long long {} = (({} / {} + 1LL) * {} - 1) / {};", group, block, count, groups, rest));
  out.line(fmt::format("const int {0} = {1} * {2} / {3}, {4} = ({1} + 1) * {2} / {3} - {0};", first, group, rest,
                       groups, size));
  out.line(fmt::format("{} -= {} * {};", block, first, count));
  out.line(
      fmt::format("const int {} = {}{} / {};", step_name(0), axis.descending ? count + " - 1 - " : "", block, size));
  out.line(fmt::format("{0} = {1} + {0} % {2};", block, first, size));
}

std::string KernelEmitter::describe(const Mem& mem) const {
  std::string axes, extents;
  for (const tile::Dim& dim : mem.dims) {
    axes += (axes.empty() ? "" : ", ") + dim.axis;
    extents += (extents.empty() ? "" : ", ") + std::to_string(dim.extent);
  }
  return fmt::format("({}) = ({})", axes, extents);
}

void KernelEmitter::emit_shared(SourceText& out) const {
  const auto is_shared = [](const Mem& mem) { return mem.space == Space::shared; };
  const bool teams = kernel_.teams > 1;
  if (!teams && std::none_of(kernel_.mems.begin(), kernel_.mems.end(), is_shared)) return;
  std::string pool = fresh("shared_memory");
  out.line(fmt::format("extern __shared__ __align__({}) unsigned char {}[];", sync_.has_wgmma() ? 1024 : 128, pool));
  if (teams) {
    emit_block_tensors(out, pool);
    const std::string own = fresh("team_memory");
    out.line(fmt::format("unsigned char* const {} = {} + {} * {};", own, pool, claimed("team"), kernel_.team_bytes));
    pool = own;
  }
  if (own_names_.contains("shared_base"))
    out.line(fmt::format("const unsigned {} = uniform(shared_address({}));", claimed("shared_base"), pool));
  for (const Mem& mem : kernel_.mems) {
    if (!is_shared(mem)) continue;
    if (mem.offset < 0) throw InternalError("tile " + mem.name + " has no place in shared memory");
    out.line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>({2} + {3});  // {4}{5}, {6} elements a row",
                         type_text(mem.type), mem.name, pool, mem.offset, describe(mem),
                         mem.ring > 1 ? fmt::format(", {} slots", mem.ring) : "", pitch_of(mem)));
    if (mem.ring > 1 && !has_roles())
      out.line(fmt::format("int {} = 0, {} = 0;  // slots", claimed(mem.name + "_read"), claimed(mem.name + "_write")));
  }
  if (has_roles())
    out.line(fmt::format("unsigned long long* const {} = reinterpret_cast<unsigned long long*>({} + {});",
                         claimed("barriers"), pool, kernel_.barriers));
  if (kernel_.persistent)
    out.line(fmt::format("int* const {} = reinterpret_cast<int*>({} + {});", claimed("next_tiles"), claimed("barriers"),
                         sync_.barrier_count()));
}

// A team's part lies in its own memory.
void KernelEmitter::emit_block_tensors(SourceText& out, const std::string& pool) const {
  for (const std::string& name : tile::block_tensors_of(program_, kernel_)) {
    const tile::Tensor& tensor = *program_.find_tensor(name);
    if (tensor.offset < 0) throw InternalError("tensor " + name + " has no place in shared memory");
    const std::string type = type_text(tensor.type);
    out.line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>({2} + {3});  // what each team leaves", type, name,
                         pool, tensor.offset));
    std::vector<std::int64_t> strides = tile::strides_in_team(tensor);
    strides.insert(strides.begin(), kernel_.team_bytes / static_cast<std::int64_t>(size_in_bytes(tensor.type)));
    std::string text;
    for (std::size_t dim = 0; dim < strides.size(); ++dim)
      text += fmt::format("{}{} = {}", dim > 0 ? ", " : "", stride(name, dim), strides[dim]);
    out.line("constexpr int " + text + ";");
  }
}

void KernelEmitter::emit_registers(SourceText& out) const {
  for (const Mem& mem : kernel_.mems) {
    if (mem.space == Space::shared) continue;
    const tile::ThreadGrid grid = grid_of(mem);
    const int registers = fragment_of(mem, grid).registers();
    if (!mem.alias.empty()) {
      out.line(fmt::format("float(&{})[{}] = {};  // {}", mem.name, registers, mem.alias, describe(mem)));
      continue;
    }
    const bool pairs = size_in_bytes(mem.type) == 2;
    out.line(fmt::format("{} {}[{}];  // {}{} over {} x {} threads",
                         pairs                         ? "unsigned"
                         : mem.type == ScalarType::i32 ? "int"
                                                       : "float",
                         mem.name, pairs ? registers / 2 : registers, describe(mem),
                         pairs ? fmt::format(", pairs of {}", name_of(mem.type)) : "", grid.rows, grid.columns));
  }
  if (sync_.has_wgmma())
    // Through a shuffle the compiler sees that the number is the same for all lanes.
    out.line(fmt::format("const int {} = __shfl_sync(0xffffffffu, {} / 128, 0);", claimed("warpgroup"), thread_));
  for (const std::string& flag : votes_) out.line(fmt::format("bool {} = false;  // of a warp", flag));
}

std::pair<tile::Block, tile::Block> KernelEmitter::parted_behind_loops(const tile::Block& block) {
  const auto is_loop = [](const tile::Stmt& stmt) { return std::holds_alternative<tile::For>(stmt.node); };
  // What teams do is one loop, and long.
  const auto is_teams = [&](const tile::Stmt& stmt) {
    return is_loop(stmt) && std::get<tile::For>(stmt.node).kind == tile::For::Kind::teams;
  };
  const auto teams = std::find_if(block.rbegin(), block.rend(), is_teams);
  const auto last = teams != block.rend() ? teams : std::find_if(block.rbegin(), block.rend(), is_loop);
  return {{block.begin(), last.base()}, {last.base(), block.end()}};
}

void KernelEmitter::emit_body() {
  const auto [loops, behind] = parted_behind_loops(kernel_.body);
  // Teams are many warps with few rows each: what stands behind them is waited for, and registers are left.
  if (!keeps_uniform_ || kernel_.teams > 1 || loops.empty() || kernel_.tiles.empty()) return emit_block(kernel_.body);
  emit_block(loops);
  out_.open("");
  out_.line("// Which tile this is, found again: not kept in registers while the loops run.");
  emit_tile_axes(out_, "block_number()");
  bases_in_front_ = false;
  emit_block(behind);
  out_.close();
}

std::string KernelEmitter::emit() {
  out_.indent = 1;
  if (kernel_.persistent)
    // Each role walks over the tiles by itself, and evaluates there what stands in front of both.
    for (const tile::Stmt& stmt : kernel_.body) {
      if (std::holds_alternative<tile::Role>(stmt.node)) emit_statement(stmt);
    }
  else
    emit_body();
  SourceText head;
  head.open(signature());
  if (kernel_.dependent) head.line("let_next_start();");
  const bool reads_at_once =
      kernel_.exists || std::any_of(kernel_.tiles.begin(), kernel_.tiles.end(),
                                    [](const tile::TileAxis& axis) { return !tensors_read(axis.count).empty(); });
  if (kernel_.dependent && reads_at_once) head.line("wait_for_earlier();");
  emit_thread(head);
  if (!kernel_.persistent) emit_tile_axes(head, first_step());
  if (!kernel_.persistent && kernel_.exists)
    head.line(fmt::format("if (!({})) return;  // nothing to store", condition_text(*kernel_.exists, scope())));
  emit_shared(head);
  if (has_roles())
    emit_start(head);
  else
    emit_registers(head);
  for (const auto& [columns, place] : other_places_)
    head.line(
        fmt::format("const int {0} = threadIdx.x / {2}, {1} = threadIdx.x % {2};", place.first, place.second, columns));
  for (const auto& [name, condition] : vector_flags_) head.line(fmt::format("const bool {} = {};", name, condition));
  if (!staged_flags_.empty()) {
    const std::string all = fmt::format("{}", fmt::join(staged_flags_, " && "));
    head.line(fmt::format("const bool {} = {};", claimed("staged_in_vectors"),
                          keeps_uniform_ ? "uniform(" + all + ")" : all));
  }
  for (const auto& [address, name] : bases_) {
    const std::string tensor = address.substr(0, address.find(' '));
    head.line(fmt::format("const {}* const {} = {};", tensor_type(tensor), name, address));
  }
  if (kernel_.dependent && !reads_at_once) head.line("wait_for_earlier();");
  head.line("");
  emit(sync_.at_end());
  return head.text() + out_.text() + "}\n";
}

}  // namespace astatide::cuda
