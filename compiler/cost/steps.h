#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/cost/demand.h"

// The statements of a kernel with what each of them asks for, made once and walked for every tile that is timed.

namespace astatide::cost {

using Values = std::map<std::string, std::int64_t>;

/// How a branch is decided when it is timed.
enum class Taken : std::uint8_t {
  always,
  never,      // cold, or a flag that lanes seldom raise
  condition,  // the integer predicate
  last,       // by one of the blocks that arrive: the last
};

/// An integer expression as extents alone give it, ready to be evaluated often.
class Bound {
 public:
  Bound() = default;
  explicit Bound(const Expr& e);
  /// None where it depends on data, or on what has no value.
  std::optional<std::int64_t> value(const Values& values) const;

 private:
  Expr bound_;
  std::vector<std::string> names_;
  bool known_ = false;
};

struct Step {
  const tile::Stmt* stmt = nullptr;
  Demand demand;
  Transfer transfer;  // of a copy
  Product product;    // of a product by wgmma
  Taken taken = Taken::always;
  Bound begin, end;  // of a loop; of a branch and of a let `begin` is its value
  std::vector<Step> body;
};

struct Steps {
  std::vector<Step> body;
  /// Of each tile that roles pass on through slots: how many warps of a quarter release it.
  std::map<tile::TileName, int> readers;
  /// Tiles that a reserve names.
  std::map<tile::TileName, int> slots;
};
Steps steps_of(const tile::Kernel& kernel, const Demands& demands);

}  // namespace astatide::cost
