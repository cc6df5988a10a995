#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
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
  /// Of an operand of a reduction: conditions of the definition that it stands in, and the axes along which tiles of it
  /// run, those that another operand has not got. A tile is read up to the ends that conditions give for all rows
  /// alike; nothing else that they say keeps an element from being read.
  std::vector<Expr> ends;
  std::set<std::string> tile_axes;
  std::vector<std::string> axes;
  Location where;
  bool stores = false;
};
struct ReadSites {
  std::vector<ReadSite> sites;
  std::map<std::string, Expr> axis_extents;
  /// Of ragged axes.
  std::map<std::string, Expr> axis_lengths;
  std::set<std::string> integers;
  /// Inputs that are promised to be monotone.
  std::vector<std::string> monotone;
};
ReadSites find_read_sites(const Algorithm& algorithm);

/// Inputs of integers in host memory, by name.
using HostIntegers = std::map<std::string, TensorView>;

/// How many places of an index are looked at where the range of the data in it does not show that it stays inside: as
/// many as take no time, or all there are, with every axis of the conditions under which it is read.
enum class PlacesChecked : std::uint8_t { few, all };

/// Refuses reads, and stores of outputs at places of their own, that may leave their tensor for these extents, with the
/// index and the length; ragged axes that are longer than their extents, or less than nothing; outputs of which two
/// elements lie at one place; and inputs that are not as monotone as they say. What is read from an input which `data`
/// lacks is the caller's promise.
void check_reads(const ReadSites& reads, const Extents& extents, const HostIntegers& data, Diagnostics& errors,
                 PlacesChecked places = PlacesChecked::few);

/// Inputs of integers that the check looks at.
std::vector<std::string> index_inputs(const ReadSites& reads);

}  // namespace astatide
