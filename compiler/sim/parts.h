#pragma once

#include <vector>

#include "compiler/sim/code.h"

// How the emitters deal out the elements of a statement to the warps that run it.

namespace astatide::sim {

/// For each warp that computes, its part of a statement.
std::vector<Part> parts_of(const tile::Kernel& kernel, const tile::Stmt& stmt);

/// A number for the way in which a statement's elements are dealt out to lanes, each of which touches its own; 0 where
/// lanes read each other's.
std::uint32_t grid_of_elements(const tile::Kernel& kernel, const tile::Stmt& stmt);

/// Warps that compute, of a block and of each of its teams; threads that are fewer than those of a warp count as one.
int warps_of(const tile::Kernel& kernel);
int warps_of_team(const tile::Kernel& kernel);

/// Whether each team of a block has such a tile.
bool is_of_team(const tile::Kernel& kernel, const tile::Mem& mem);

/// One thread copies a run of neighbouring elements, the next thread the next run.
std::vector<Part> in_runs(const tile::Mem& shape, int warps);

/// Whether a row of numbers is held by several warps, each with its own.
bool held_by_each_warp(const tile::Mem& mem);

}  // namespace astatide::sim
