#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"

namespace astatide::cuda {

void KernelEmitter::emit_ring_step(const std::string& tile, bool write) {
  const tile::Mem& ring = mem(tile);
  if (ring.ring <= 1) return;
  const std::string& slot = claimed(tile + (write ? "_write" : "_read"));
  out_.line(fmt::format("{0} = {0} + 1 == {1} ? 0 : {0} + 1;", slot, ring.ring));
}

void KernelEmitter::emit_sync() { out_.line("__syncthreads();"); }

}  // namespace astatide::cuda
