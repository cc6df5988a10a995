#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  enum class Use : std::uint8_t {
    reads,
    places,  // of an output: items lie beside each other
    updates,
  };
  Use use = Use::reads;
  /// Of an update: it is looked at place by place wherever ranges don't do.
  bool each_place = false;

  bool stores() const { return use != Use::reads; }
};
/// Places of an update, without those dimensions along which an axis of their own keeps elements apart.
struct UpdatePlaces {
  std::string tensor;
  std::vector<Expr> places;
  std::vector<std::string> axes;  // of the places and the condition
  std::optional<Expr> predicate;
  Location where;
};
struct ReadSites {
  std::vector<ReadSite> sites;
  std::map<std::string, Expr> axis_extents;
  /// Of ragged axes.
  std::map<std::string, Expr> axis_lengths;
  std::set<std::string> integers;
  /// Of each update, where elements may have one place.
  std::vector<UpdatePlaces> updates;
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
/// elements lie at one place; updates of which two do, where `places` is all; and inputs that are not as monotone as
/// they say. What is read from an input which `data` lacks is the caller's promise.
void check_reads(const ReadSites& reads, const Extents& extents, const HostIntegers& data, Diagnostics& errors,
                 PlacesChecked places = PlacesChecked::few);

/// Inputs of integers that the check looks at.
std::vector<std::string> index_inputs(const ReadSites& reads);

}  // namespace astatide
