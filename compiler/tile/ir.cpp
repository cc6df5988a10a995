#include "compiler/tile/ir.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

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

std::string_view name_of(Family family) {
  switch (family) {
    case Family::unset:
      return "unset";
    case Family::fma:
      return "fma";
    case Family::mma_sync:
      return "mma_sync";
    case Family::wgmma:
      return "wgmma";
  }
  throw InternalError("unknown family");
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
      [&](const If& s) { out = {s.condition}; }, [](const Role&) {}, [&](const Let& s) { out = {s.value}; },
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
      },
      [](const Reserve&) {}, [](const Acquire&) {}, [](const Release&) {}, [](const Sync&) {});
  return out;
}

std::size_t statement_count(const Program& program) {
  std::size_t count = 0;
  for (const Kernel& kernel : program.kernels) walk(kernel.body, [&](const Stmt&) { ++count; });
  return count;
}

}  // namespace astatide::tile
