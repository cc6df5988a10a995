#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {

void KernelEmitter::emit_ring_step(const std::string& tile, bool write) {
  const tile::Mem& ring = mem(tile);
  if (has_roles()) return emit_role_release(ring);
  if (ring.ring <= 1) return;
  const std::string& slot = claimed(tile + (write ? "_write" : "_read"));
  out_.line(fmt::format("{0} = {0} + 1 == {1} ? 0 : {0} + 1;", slot, ring.ring));
}

// cp.async: a thread's copies since its last commit are one group; groups arrive in the order in which they started, so
// to wait for one is to wait until at most as many are open as started after it. Copies ahead of a ring stand under one
// condition and are committed behind it, whether or not they ran: so every slot has a group.

void KernelEmitter::commit_copies(const tile::Block& copies) {
  const bool ahead = !copies.empty() && std::all_of(copies.begin(), copies.end(), [](const tile::Stmt& stmt) {
    const auto* copy = std::get_if<tile::Copy>(&stmt.node);
    return copy && copy->via == tile::Via::cp_async && copy->token.empty();
  });
  if (!ahead) return;
  out_.line("cp_async_commit();");
  ++commits_;
}

void KernelEmitter::emit(const tile::Await& await) {
  if (const auto product = wgmma_of_.find(await.token); product != wgmma_of_.end())
    return await_wgmma(wgmma_commits_ - product->second.first, *product->second.second);
  // Other products are done for a thread when its code has run.
  bool in_order = false;
  tile::walk(kernel_.body, [&](const tile::Stmt& stmt) {
    const auto* mma = std::get_if<tile::Mma>(&stmt.node);
    in_order = in_order || (mma && mma->token == await.token);
  });
  if (in_order) return;
  const auto group = commit_of_.find(await.token);
  if (group == commit_of_.end()) throw InternalError("await of the unknown token " + await.token);
  out_.line(fmt::format("cp_async_wait<{}>();  // {}", commits_ - group->second, await.token));
}

void KernelEmitter::emit(const tile::Acquire& acquire) {
  if (has_roles()) return emit_role_acquire(acquire);
  bool asynchronous = false;
  tile::walk(kernel_.body, [&](const tile::Stmt& stmt) {
    const auto* copy = std::get_if<tile::Copy>(&stmt.node);
    const auto* name = copy ? std::get_if<tile::TileName>(&copy->dst) : nullptr;
    asynchronous = asynchronous || (name && *name == acquire.tile && copy->via == tile::Via::cp_async);
  });
  if (asynchronous)
    out_.line(fmt::format("cp_async_wait<{}>();  // a slot of {}", mem(acquire.tile).ring - 2, acquire.tile));
}

// Roles meet at a barrier of their own, behind those of turns (wgmma.cuh).
constexpr int kRoleBarrier = 15;

void KernelEmitter::emit(const tile::Arrive& arrive) {
  std::vector<std::string> indices;
  for (const Expr& index : arrive.indices) indices.push_back(integer_text(index, scope()));
  out_.line(fmt::format("const bool {} = arrives_last<{}, {}>({}, {}, {} == 0);", arrive.flag,
                        has_roles() ? kRoleBarrier : 0, kernel_.threads(), address(arrive.counters, indices),
                        integer_text(arrive.of, scope()), thread_));
}

void KernelEmitter::emit_sync() {
  // What threads have written is read by wgmma's own proxy.
  if (has_wgmma_) out_.line("fence_async_proxy();");
  out_.line("__syncthreads();");
}

}  // namespace astatide::cuda
