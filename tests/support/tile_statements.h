// Statements of tile programs in few words, for programs that a test writes by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide::testing::statements {

inline tile::Stmt stmt(auto node) { return tile::Stmt{std::move(node)}; }

inline tile::Mem mem(const std::string& name, std::vector<tile::Dim> dims, Space space = Space::register_file,
                     ScalarType type = ScalarType::f32) {
  tile::Mem m;
  m.name = name;
  m.type = type;
  m.dims = std::move(dims);
  m.space = space;
  return m;
}

inline tile::Map map(const std::string& dst, Expr value) {
  tile::Map m;
  m.dst = dst;
  m.value = std::move(value);
  return m;
}

inline tile::Fill fill(const std::string& dst, double value) {
  tile::Fill f;
  f.dst = dst;
  f.value = value;
  return f;
}

inline tile::RowReduce reduce(const std::string& dst, Reduction op, const std::string& src) {
  tile::RowReduce r;
  r.dst = dst;
  r.op = op;
  r.src = src;
  return r;
}

inline tile::Mma product(const std::string& dst, const std::string& lhs, const std::string& rhs, bool accumulate) {
  tile::Mma m;
  m.dst = dst;
  m.lhs = lhs;
  m.rhs = rhs;
  m.accumulate = accumulate;
  return m;
}

inline tile::Copy copy(tile::CopyOperand dst, tile::CopyOperand src) {
  tile::Copy c;
  c.dst = std::move(dst);
  c.src = std::move(src);
  return c;
}

}  // namespace astatide::testing::statements
