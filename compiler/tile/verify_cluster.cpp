#include <map>

#include "compiler/tile/cluster.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

constexpr int kMostBlocks = 8;    // of a cluster on any device of sm_90 (CUDA C++ Programming Guide, clusters)
constexpr int kSwizzledRows = 8;  // after which the swizzle of panels begins anew

class Multicasts {
 public:
  explicit Multicasts(const Verified& v) : v_(v), alike_(v.kernel) {}

  void check(const Block& block, bool alike) {
    for (const Stmt& stmt : block) {
      if (const auto* copy = std::get_if<Copy>(&stmt.node)) check_copy(stmt, *copy, alike);
      if (const Block* body = nested_block(stmt)) check(*body, alike && runs_alike(stmt));
    }
  }

 private:
  bool runs_alike(const Stmt& stmt) const {
    if (const auto* loop = std::get_if<For>(&stmt.node)) return alike_.holds(loop->begin) && alike_.holds(loop->end);
    const auto* branch = std::get_if<If>(&stmt.node);
    return !branch || alike_.holds(branch->condition);
  }

  void check_copy(const Stmt& stmt, const Copy& copy, bool alike) {
    const auto* name = std::get_if<TileName>(&copy.dst);
    if (name && copy.via == Via::tma && ways_.emplace(*name, copy.multicast).first->second != copy.multicast)
      v_.fail(stmt, "the slots of " + *name + " are filled by one block and by all of the cluster");
    if (!copy.multicast) return;
    const auto* view = std::get_if<View>(&copy.src);
    if (!view || !name || copy.via != Via::tma) v_.fail(stmt, "only TMA copies from global memory to several blocks");
    if (v_.kernel.find(*name)->dims[0].extent % (kSwizzledRows * v_.kernel.cluster->blocks) != 0)
      v_.fail(stmt, "the rows are no " + std::to_string(v_.kernel.cluster->blocks) + " shares of whole swizzles");
    if (!alike_.holds(*view)) v_.fail(stmt, "the blocks of a cluster copy different tiles");
    if (!alike) v_.fail(stmt, "the blocks of a cluster run it differently often");
  }

  const Verified& v_;
  const AlikeInCluster alike_;
  std::map<TileName, bool> ways_;  // tiles, to whether all blocks fill their slots
};

}  // namespace

void verify_cluster(const Verified& v) {
  const auto& cluster = v.kernel.cluster;
  if (!cluster) {
    walk(v.kernel.body, [&](const Stmt& stmt) {
      if (const auto* copy = std::get_if<Copy>(&stmt.node); copy && copy->multicast)
        v.fail(stmt, "there is no cluster");
    });
    return;
  }
  if (v.kernel.tiles.empty() || v.kernel.tiles[0].var != cluster->var)
    v.fail("the cluster is along " + cluster->var + ", which is not the first tile axis");
  if (cluster->blocks < 2 || cluster->blocks > kMostBlocks)
    v.fail("a cluster of " + std::to_string(cluster->blocks) + " blocks");
  if (v.kernel.producers == 0) v.fail("a cluster without a producer");
  Multicasts(v).check(v.kernel.body, true);
}

}  // namespace astatide::tile
