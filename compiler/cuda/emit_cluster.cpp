// Blocks of a cluster: which output tile each has, what they copy for each other, and how they agree that a slot is
// free or which tile is next. A tile that is the same for all is copied in shares of its rows, each by one block into
// the slots of all; a block's barrier of a full slot counts the bytes of all shares, that of a free one the consumers
// of all blocks, since its own copy writes to all of them.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"

namespace astatide::cuda {

void KernelEmitter::claim_cluster_names() {
  for (const char* name : {"cluster_rank", "cluster_step", "tile_place", "has_tile"}) claim(name);
}

std::string KernelEmitter::place_in_cluster(const std::string& rank) const {
  return fmt::format("{} * {} + {}", claimed("cluster_step"), kernel_.cluster_blocks(), rank);
}

void KernelEmitter::emit_tile_of_place(SourceText& out, bool stores) const {
  const tile::TileAxis& axis = kernel_.tiles[0];
  out.line("// Behind the last tile of the axis it is that one again, which is not stored twice.");
  out.line(fmt::format("const int {} = min({}, {});", axis.var, claimed("tile_place"),
                       narrow_text(axis.count - 1, scope())));
  if (stores) out.line(fmt::format("const bool {} = {} == {};", claimed("has_tile"), axis.var, claimed("tile_place")));
}

std::string KernelEmitter::first_step() const {
  return kernel_.cluster ? fmt::format("blockIdx.x / {}", kernel_.cluster->blocks) : "blockIdx.x";
}

void KernelEmitter::emit_published_places(
    const std::function<std::string(std::size_t axis, const std::string& of_first)>& place) {
  const std::string rank = fresh("rank");
  out_.open_unrolled(rank, kernel_.cluster_blocks());
  for (std::size_t i = 0; i < kernel_.tiles.size(); ++i)
    out_.line(fmt::format("store_at({}, &{}, {});", rank, place_of_tile(i), place(i, place_in_cluster(rank))));
  out_.line(fmt::format("barrier_release_at({}, {});", rank,
                        slot_barrier(std::string(tile::kTilePlaces), true, claimed("tile_slot"))));
  out_.close();
}

}  // namespace astatide::cuda
