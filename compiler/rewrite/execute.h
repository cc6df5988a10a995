#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/rewrite/recurrence.h"

namespace astatide {

/// What the expressions of one row read.
struct RowInputs {
  /// Values of extents, scalars and the axes of the row.
  std::map<std::string, double> variables;
  std::function<double(const std::string& tensor, const std::vector<std::int64_t>& indices)> read;
};

/// One number for each slot and each value of its `extra` axes (row-major).
struct RowState {
  std::vector<std::vector<double>> slots;
};

/// Values of outputs over their axes beyond the rows, row-major.
using RowOutputs = std::map<std::string, std::vector<double>>;

/// A reference whose growth would shrink sums by at most 2^window keeps its value. Legal where it is a gauge.
struct LazyReferences {
  double window = 0;
  bool even_where_refused = false;  // for tests of the refusal
};

/// The streaming form as it stands, for one row, in double precision: the meaning of the data in a Recurrence.
class RowExecutor {
 public:
  RowExecutor(const Recurrence& recurrence, RowInputs inputs);

  /// No element seen.
  RowState identity() const;
  /// `state` after the tile of elements at `positions` of the axis; no position leaves it as it is.
  RowState step(const RowState& state, const std::vector<std::int64_t>& positions,
                const LazyReferences& lazy = {}) const;
  /// The state of both sets of elements: associative, commutative, with identity().
  RowState combine(const RowState& a, const RowState& b) const;
  RowOutputs finalize(const RowState& state) const;

 private:
  struct Scope;

  double moved(const Slot& slot, const Scope& scope) const;

  const Recurrence& recurrence_;
  RowInputs inputs_;
};

/// The outputs of a cascade for one row over the elements at `positions`, straight from its stages: no state, one pass
/// a stage. Absent elements are left out, whatever their `absent` value. Outputs that vary along the axis are left out.
RowOutputs evaluate_row(const Cascade& cascade, const RowInputs& inputs, const std::vector<std::int64_t>& positions);

}  // namespace astatide
