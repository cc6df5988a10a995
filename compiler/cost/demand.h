#pragma once

#include <string>
#include <vector>

#include "compiler/cost/machine.h"
#include "compiler/tile/ir.h"

// What single statements ask of the units of a multiprocessor. A multiprocessor has four quarters with schedulers,
// lanes and tensor cores of their own; the warps of a block are dealt out to them, so one quarter stands for all.

namespace astatide::cost {

inline constexpr int kQuarters = 4;

/// Clocks of each unit of a quarter that one warp takes.
struct Demand {
  double issue = 0;       // instructions
  double arithmetic = 0;  // f32 and integer lanes
  double special = 0;     // exp2 and the like
  double tensor = 0;      // mma.sync; products of wgmma are no warp's own
  double shared = 0;      // shared memory, shuffles included
  double latency = 0;     // that other instructions of the warp can't hide
  double conflicts = 0;   // of `shared`, what bank conflicts add

  Demand& operator+=(const Demand& other);
  bool empty() const { return issue == 0 && latency == 0; }
  /// Clocks of a warp that is alone.
  double alone() const;
};

/// Bytes of a block between global memory and a tile.
struct Transfer {
  std::string tensor;  // empty: none
  double bytes = 0;
  bool write = false;
};

/// A product that tensor cores compute by themselves while its warps go on: clocks of all tensor cores for the part of
/// one warpgroup.
struct Product {
  double clocks = 0;
  bool registers = false;  // operands from them
};

/// Of the statements of a kernel after the last pass.
class Demands {
 public:
  Demands(const tile::Program& program, const tile::Kernel& kernel, const Machine& machine, int spilled_registers);

  /// Of an instruction; of loops, branches and roles what they themselves take.
  Demand of(const tile::Stmt& stmt) const;
  Transfer transfer_of(const tile::Copy& copy) const;
  /// By wgmma.
  Product product_of(const tile::Mma& mma) const;
  /// Warps of a quarter that share the tiles of a block out.
  int warps() const { return warps_; }

 private:
  struct Counts {
    double issue = 0, special = 0;
  };
  Demand of_map(const tile::Map& map) const;
  Demand of_reduce(const tile::RowReduce& reduce) const;
  Demand of_lanes(const tile::Mem& mem) const;
  Demand of_vote(const tile::Vote& vote) const;
  Demand of_warp_product(const tile::Mma& mma) const;
  Demand of_lane_product(const tile::Mma& mma) const;
  Demand of_copy(const tile::Copy& copy) const;
  Demand of_store(const tile::Mem& mem, double bytes) const;
  Demand elements(double count, const Counts& counts) const;
  void add_shared(Demand& demand, double bytes, double conflicts) const;
  /// Elements, or rows, of a tile that a thread takes.
  double held(const tile::Mem& mem) const;
  double tile_bytes(const tile::Mem& mem) const;
  double inside(const std::vector<tile::Coordinate>& at, const tile::Mem& mem) const;
  Counts count(const Expr& e, bool in_sum) const;

  const tile::Program& program_;
  const tile::Kernel& kernel_;
  const Machine& machine_;
  int warps_ = 1;
  double threads_ = 1;
  double spilled_ = 0;
};

}  // namespace astatide::cost
