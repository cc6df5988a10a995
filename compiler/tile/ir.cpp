#include "compiler/tile/ir.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/parameters.h"

namespace astatide::tile {

int Mem::extent_of(const std::string& axis) const {
  for (const Dim& dim : dims)
    if (dim.axis == axis) return dim.extent;
  return 1;
}

bool Mem::has_axis(const std::string& axis) const {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim& dim) { return dim.axis == axis; });
}

std::int64_t Mem::element_count() const {
  std::int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.extent;
  return count;
}

int panel_columns(const Mem& mem) {
  const int panel = 128 / size_in_bytes(mem.type);
  return (mem.dims.back().extent + panel - 1) / panel * panel;
}

std::int64_t Mem::byte_count() const {
  std::int64_t elements = element_count();
  if (const auto* rows = std::get_if<Rows>(&layout); rows && rows->pitch != 0 && !dims.empty())
    elements = elements / dims.back().extent * rows->pitch;
  if (std::holds_alternative<Panels>(layout)) elements = elements / dims.back().extent * panel_columns(*this);
  return elements * ring * size_in_bytes(type);
}

std::string_view name_of(Via via) {
  switch (via) {
    case Via::unset:
      return "unset";
    case Via::vector:
      return "vector";
    case Via::cp_async:
      return "cp_async";
    case Via::tma:
      return "tma";
    case Via::ldmatrix:
      return "ldmatrix";
    case Via::load:
      return "load";
    case Via::store:
      return "store";
  }
  throw InternalError("unknown way to copy");
}

Expr Kernel::steps_along(const TileAxis& axis) const {
  return cluster && cluster->var == axis.var ? ceil_div(axis.count, Expr(cluster->blocks)) : axis.count;
}

std::size_t Kernel::tile_numbers() const {
  std::size_t out = tiles.size();
  for (const Stmt& stmt : body)
    if (const auto* let = std::get_if<Let>(&stmt.node); let && let->dealt) ++out;
  return out;
}

bool Kernel::deals_apart() const { return persistent && (cluster || exists || tile_numbers() > tiles.size()); }

const Mem* Kernel::find(const TileName& tile) const {
  for (const Mem& mem : mems)
    if (mem.name == tile) return &mem;
  return nullptr;
}

Mem* Kernel::find(const TileName& tile) {
  for (Mem& mem : mems)
    if (mem.name == tile) return &mem;
  return nullptr;
}

std::size_t Program::number_of(const std::string& kernel) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.name == kernel; });
  if (found == kernels.end()) throw InternalError("no kernel is named " + kernel);
  return static_cast<std::size_t>(found - kernels.begin());
}

const Tensor* Program::find_tensor(const std::string& tensor) const {
  for (const Tensor& candidate : tensors)
    if (candidate.name == tensor) return &candidate;
  return nullptr;
}

const Block* nested_block(const Stmt& stmt) {
  if (const auto* loop = std::get_if<For>(&stmt.node)) return &loop->body;
  if (const auto* branch = std::get_if<If>(&stmt.node)) return &branch->body;
  if (const auto* role = std::get_if<Role>(&stmt.node)) return &role->body;
  return nullptr;
}

const For* find_teams(const Kernel& kernel) {
  for (const Stmt& stmt : kernel.body)
    if (const auto* loop = std::get_if<For>(&stmt.node); loop && loop->kind == For::Kind::teams) return loop;
  return nullptr;
}

const Block& team_body(const Kernel& kernel) {
  const For* teams = find_teams(kernel);
  return teams ? teams->body : kernel.body;
}

Block& team_body(Kernel& kernel) { return const_cast<Block&>(team_body(std::as_const(kernel))); }

Block* nested_block(Stmt& stmt) { return const_cast<Block*>(nested_block(std::as_const(stmt))); }

void walk(const Block& block, const std::function<void(const Stmt&)>& f) {
  for (const Stmt& stmt : block) {
    f(stmt);
    if (const Block* body = nested_block(stmt)) walk(*body, f);
  }
}

Block transform_blocks(const Block& block, const std::function<Block(Block)>& f) {
  Block out = block;
  for (Stmt& stmt : out)
    if (Block* body = nested_block(stmt)) *body = transform_blocks(*body, f);
  return f(std::move(out));
}

namespace {

void append(std::vector<Expr>& out, const std::vector<Coordinate>& at) {
  for (const Coordinate& coordinate : at) {
    out.push_back(coordinate.origin);
    if (coordinate.limit) out.push_back(*coordinate.limit);
  }
}

void append(std::vector<Expr>& out, const View& view) {
  out.insert(out.end(), view.indices.begin(), view.indices.end());
  append(out, view.at);
}

void append(std::vector<Expr>& out, const Operand& operand) {
  match(
      operand, [](const TileName&) {}, [&](const View& view) { append(out, view); });
}

void append(std::vector<Expr>& out, const CopyOperand& operand) {
  match(
      operand, [](const TileName&) {}, [&](const View& view) { append(out, view); },
      [&](const Strip& strip) { append(out, strip.at); });
}

}  // namespace

std::vector<Expr> expressions_of(const Stmt& stmt) {
  std::vector<Expr> out;
  match(
      stmt.node,
      [&](const For& s) {
        out = {s.begin, s.end};
      },
      [&](const If& s) { out = {s.condition}; }, [](const Role&) {},
      [&](const Let& s) {
        out = {s.value};
        if (s.own) out.push_back(*s.own);
      },
      [](const Fill&) {},
      [&](const Map& s) {
        out = {s.value};
        out.insert(out.end(), s.where_predicates.begin(), s.where_predicates.end());
        append(out, s.at);
      },
      [](const RowReduce&) {}, [](const AllReduce&) {}, [&](const Vote& s) { out = {s.condition}; },
      [&](const Mma& s) {
        append(out, s.lhs);
        append(out, s.rhs);
      },
      [&](const Copy& s) {
        append(out, s.dst);
        append(out, s.src);
      },
      [](const Await&) {},
      [&](const Advance& s) {
        for (const Advance::Move& move : s.moving) out.push_back(move.by);
        if (s.slack) out.push_back(s.slack->growth);
      },
      [&](const Reserve& s) {
        if (s.ahead) append(out, *s.ahead);
      },
      [&](const Acquire& s) { append(out, s.at); }, [](const Release&) {}, [](const Sync&) {}, [](const Turn&) {},
      [&](const Arrive& s) {
        out = s.indices;
        out.push_back(s.of);
      });
  return out;
}

std::int64_t ChosenParts::choose(const std::map<std::string, std::int64_t>& extents, std::int64_t resident) const {
  return evaluate_integer(choice_of_parts(*this, Expr(resident)), extents);
}

bool has_products(const Block& block) {
  bool found = false;
  walk(block, [&](const Stmt& stmt) { found = found || std::holds_alternative<Mma>(stmt.node); });
  return found;
}

bool is_meeting(const Stmt& stmt) {
  return std::holds_alternative<Sync>(stmt.node) || std::holds_alternative<Arrive>(stmt.node);
}

const std::string* flag_of(const Stmt& stmt) {
  if (const auto* vote = std::get_if<Vote>(&stmt.node)) return &vote->flag;
  if (const auto* arrive = std::get_if<Arrive>(&stmt.node)) return &arrive->flag;
  return nullptr;
}

bool on_tensor_cores(const Mma& mma) { return mma.by == Family::mma_sync || mma.by == Family::wgmma; }

bool on_tensor_cores(const Block& block) {
  bool found = false;
  walk(block, [&](const Stmt& stmt) {
    const auto* mma = std::get_if<Mma>(&stmt.node);
    found = found || (mma && on_tensor_cores(*mma));
  });
  return found;
}

bool has_turns(const Block& block) {
  bool found = false;
  walk(block, [&](const Stmt& stmt) { found = found || std::holds_alternative<Turn>(stmt.node); });
  return found;
}

std::size_t statement_count(const Program& program) {
  std::size_t count = 0;
  for (const Kernel& kernel : program.kernels) walk(kernel.body, [&](const Stmt&) { ++count; });
  return count;
}

std::vector<std::string> axes_of(const Kernel& kernel, const Operand& operand) {
  std::vector<std::string> out;
  if (const auto* view = std::get_if<View>(&operand)) {
    for (const Coordinate& coordinate : view->at) out.push_back(coordinate.axis);
    return out;
  }
  const auto& name = std::get<TileName>(operand);
  const Mem* mem = kernel.find(name);
  if (!mem) throw InternalError("no tile is named " + name + " in kernel " + kernel.name);
  for (const Dim& dim : mem->dims) out.push_back(dim.axis);
  return out;
}

namespace {

std::optional<int> extent_along(const Program& program, const Kernel& kernel, const Operand& operand,
                                const std::string& axis) {
  if (const auto* tile = std::get_if<TileName>(&operand)) return kernel.find(*tile)->extent_of(axis);
  for (const Coordinate& coordinate : std::get<View>(operand).at) {
    if (coordinate.axis != axis || !coordinate.limit) continue;
    const Expr length = *coordinate.limit - coordinate.origin;
    for (const std::string& name : free_variables(length))
      if (!program.known.contains(name)) return std::nullopt;
    return static_cast<int>(evaluate_integer(length, program.known));
  }
  return std::nullopt;
}

}  // namespace

Dim contraction_of(const Program& program, const Kernel& kernel, const Mma& mma) {
  const std::vector<std::string> lhs = axes_of(kernel, mma.lhs);
  const std::vector<std::string> rhs = axes_of(kernel, mma.rhs);
  const std::vector<std::string> dst = axes_of(kernel, Operand(mma.dst));
  std::vector<std::string> found;
  for (const std::string& axis : lhs) {
    const bool in_rhs = std::find(rhs.begin(), rhs.end(), axis) != rhs.end();
    const bool in_dst = std::find(dst.begin(), dst.end(), axis) != dst.end();
    if (in_rhs && !in_dst) found.push_back(axis);
  }
  const std::string product = "the product into " + mma.dst + " in kernel " + kernel.name;
  if (found.size() != 1)
    throw InternalError(product + " sums over " + std::to_string(found.size()) + " axes; it takes exactly one");
  // A tile's extent is the padded one; the view beside it is 0 past its limit.
  for (const bool tiles : {true, false})
    for (const Operand* operand : {&mma.lhs, &mma.rhs})
      if (std::holds_alternative<TileName>(*operand) == tiles)
        if (const auto extent = extent_along(program, kernel, *operand, found[0])) return {found[0], *extent};
  throw InternalError("nothing says how long axis " + found[0] + " of " + product + " is");
}

}  // namespace astatide::tile
