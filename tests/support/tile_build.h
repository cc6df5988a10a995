#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/ir.h"

// Short words to write tile programs by hand. Expressions are given as text; `safe` and `absorb`, which no file may
// say, are written as expressions.

namespace astatide::tile::build {

/// Text, or an expression as it is.
struct Text {
  Text(const char* text) : value(parse_expr(text, {})) {}         // NOLINT(google-explicit-constructor)
  Text(const std::string& text) : value(parse_expr(text, {})) {}  // NOLINT(google-explicit-constructor)
  Text(Expr expr) : value(std::move(expr)) {}                     // NOLINT(google-explicit-constructor)
  Text(int number) : value(number) {}                             // NOLINT(google-explicit-constructor)
  Expr value;
};

/// The same, where `/` is the division of integers.
struct Index {
  Index(const char* text) : value(parse_expr(text, {}, true)) {}         // NOLINT(google-explicit-constructor)
  Index(const std::string& text) : value(parse_expr(text, {}, true)) {}  // NOLINT(google-explicit-constructor)
  Index(Expr expr) : value(std::move(expr)) {}                           // NOLINT(google-explicit-constructor)
  Index(int number) : value(number) {}                                   // NOLINT(google-explicit-constructor)
  Expr value;
};

inline Mem in_registers(TileName name, std::vector<Dim> dims, ScalarType type = ScalarType::f32) {
  Mem mem;
  mem.name = std::move(name);
  mem.type = type;
  mem.dims = std::move(dims);
  return mem;
}

inline Mem in_shared(TileName name, std::vector<Dim> dims, int ring = 1, ScalarType type = ScalarType::f32) {
  Mem mem = in_registers(std::move(name), std::move(dims), type);
  mem.space = Space::shared;
  mem.ring = ring;
  return mem;
}

inline Tensor tensor(Tensor::Role role, std::string name, std::initializer_list<Index> dims,
                     ScalarType type = ScalarType::f32) {
  Tensor out;
  out.name = std::move(name);
  out.type = type;
  out.role = role;
  for (const Index& dim : dims) out.dims.push_back(dim.value);
  return out;
}

inline Coordinate at(std::string axis, const Index& origin) { return {std::move(axis), origin.value, std::nullopt}; }
inline Coordinate at(std::string axis, const Index& origin, const Index& limit) {
  return {std::move(axis), origin.value, limit.value};
}

/// view("K[b, h, j, d]", {at("j", "j_o*64", "Sk"), at("d", 0, "D")})
inline View view(const std::string& element, std::vector<Coordinate> coordinates, double absent = 0) {
  const Expr parsed = parse_expr(element, {});
  const auto* read = parsed.as<Read>();
  if (!read) throw InternalError(element + " is no element of a tensor");
  return {read->tensor, read->indices, std::move(coordinates), absent};
}

inline Strip strip(TileName tile, std::vector<Coordinate> coordinates, double absent = 0) {
  return {std::move(tile), std::move(coordinates), absent};
}

template <class Node>
Stmt statement(Node node) {
  Stmt out;
  out.node = std::move(node);
  return out;
}

inline Stmt fill(TileName dst, double value) { return statement(Fill{std::move(dst), value}); }
inline Stmt map(TileName dst, const Text& value, std::vector<Coordinate> coordinates = {}) {
  return statement(Map{std::move(dst), {}, value.value, {}, {}, std::move(coordinates)});
}
inline Stmt map_where(TileName dst, const Text& value, std::initializer_list<Index> predicates, double absent,
                      std::vector<Coordinate> coordinates) {
  Map out{std::move(dst), {}, value.value, {}, absent, std::move(coordinates)};
  for (const Index& predicate : predicates) out.where_predicates.push_back(predicate.value);
  return statement(std::move(out));
}
inline Stmt row_reduce(TileName dst, Reduction op, TileName src, bool accumulate = false) {
  return statement(RowReduce{std::move(dst), op, std::move(src), accumulate, {}});
}
inline Stmt all_reduce(TileName tile, Reduction op) { return statement(AllReduce{std::move(tile), op}); }
inline Stmt vote(std::string flag, const Text& condition) { return statement(Vote{std::move(flag), condition.value}); }

inline Mma product(TileName dst, Operand lhs, Operand rhs, bool accumulate) {
  Mma out;
  out.dst = std::move(dst);
  out.accumulate = accumulate;
  out.lhs = std::move(lhs);
  out.rhs = std::move(rhs);
  return out;
}
inline Stmt mma(TileName dst, Operand lhs, Operand rhs) {
  return statement(product(std::move(dst), std::move(lhs), std::move(rhs), false));
}
inline Stmt mma_add(TileName dst, Operand lhs, Operand rhs) {
  return statement(product(std::move(dst), std::move(lhs), std::move(rhs), true));
}
inline Stmt mma_async(TileName dst, Operand lhs, Operand rhs, std::string token) {
  Mma out = product(std::move(dst), std::move(lhs), std::move(rhs), false);
  out.token = std::move(token);
  return statement(std::move(out));
}
inline Stmt copy(CopyOperand dst, CopyOperand src, std::string token = "") {
  return statement(Copy{std::move(dst), std::move(src), Via::unset, std::move(token), 0});
}
inline Stmt await(std::string token) { return statement(Await{std::move(token)}); }
inline Stmt reserve(TileName tile) { return statement(Reserve{std::move(tile)}); }
inline Stmt acquire(TileName tile) { return statement(Acquire{std::move(tile)}); }
inline Stmt release(TileName tile) { return statement(Release{std::move(tile)}); }
inline Stmt sync() { return statement(Sync{}); }
inline Stmt let(std::string name, const Index& value) { return statement(Let{std::move(name), value.value}); }

inline Stmt loop(std::string var, const Index& begin, const Index& end, Block body) {
  For out;
  out.var = std::move(var);
  out.begin = begin.value;
  out.end = end.value;
  out.body = std::move(body);
  return statement(std::move(out));
}
inline Stmt once(std::string var, const Index& at, Block body) {
  Stmt out = loop(std::move(var), at, Index(at.value + Expr(1)), std::move(body));
  std::get<For>(out.node).kind = For::Kind::once;
  return out;
}
inline Stmt when(const Index& condition, Block body) {
  If out;
  out.condition = condition.value;
  out.body = std::move(body);
  return statement(std::move(out));
}

/// One kernel over one tile, which may read X[4] and is to write Y[4].
inline Program one_kernel(std::vector<Mem> mems, Block body) {
  Program program;
  program.name = "small";
  program.tensors = {tensor(Tensor::Role::input, "X", {4}), tensor(Tensor::Role::output, "Y", {4})};
  Kernel kernel;
  kernel.name = "main";
  kernel.mems = std::move(mems);
  kernel.body = std::move(body);
  program.kernels = {kernel};
  return program;
}

// The smallest program: X to a tile of registers, and that to Y.
inline const Mem kTile = in_registers("t", {{"i", 4}});
inline const Stmt kLoad = copy("t", view("X[i]", {at("i", 0)}));
inline const Stmt kStore = copy(view("Y[i]", {at("i", 0)}), "t");

}  // namespace astatide::tile::build
