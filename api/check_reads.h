#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/shapes.h"

namespace astatide {

/// An index of a read that is not just an axis as long as the dimension: nothing but its values says whether it stays
/// inside.
struct ReadSite {
  std::string reader, tensor;
  std::size_t dim = 0;
  Expr index, length;
  std::vector<Expr> predicates;  // hold where the element is read
  std::vector<std::string> axes;
  Location where;
};
struct ReadSites {
  std::vector<ReadSite> sites;
  std::map<std::string, Expr> axis_extents;
};
ReadSites find_read_sites(const Algorithm& algorithm);

/// Least and largest value of an input of integers.
using DataRange = std::pair<std::int64_t, std::int64_t>;

/// Refuses reads that may leave their tensor for these extents, with the index and the length. An index that is read
/// from an input which `data` lacks is the caller's promise.
void check_reads(const ReadSites& reads, const Extents& extents, const std::map<std::string, DataRange>& data,
                 Diagnostics& errors);

/// Inputs of integers that indices are read from.
std::vector<std::string> index_inputs(const ReadSites& reads);
/// Least and largest element of a tensor in host memory; 0 and 0 where it is empty.
DataRange data_range(const TensorView& view);

}  // namespace astatide
