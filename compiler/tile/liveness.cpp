#include "compiler/tile/liveness.h"

#include <algorithm>

namespace astatide::tile {
namespace {

using Live = std::set<TileName>;

class Liveness {
 public:
  Liveness(const Kernel& kernel, const std::function<void(const Live&)>& at) : kernel_(kernel), at_(at) {}

  /// What is live in front of the block, given what is live behind it.
  Live before(const Block& block, Live live) const {
    at_(live);
    for (auto stmt = block.rbegin(); stmt != block.rend(); ++stmt) {
      live = before(*stmt, std::move(live));
      at_(live);
    }
    return live;
  }

 private:
  Live before(const Stmt& stmt, Live live) const {
    if (const auto* loop = std::get_if<For>(&stmt.node)) {
      // A loop may run not at all, so what is live behind it is live in front.
      while (true) {
        Live entry = before(loop->body, live);
        if (std::includes(live.begin(), live.end(), entry.begin(), entry.end())) return live;
        live.merge(entry);
      }
    }
    if (const auto* branch = std::get_if<If>(&stmt.node)) {
      Live entry = before(branch->body, live);
      live.merge(entry);
      return live;
    }
    if (const auto* role = std::get_if<Role>(&stmt.node)) return before(role->body, std::move(live));
    const Effects effects = effects_of(stmt);
    for (const std::string& name : effects.writes) live.erase(name);
    for (const std::string& name : effects.reads)
      if (kernel_.find(name)) live.insert(name);
    return live;
  }

  const Kernel& kernel_;
  const std::function<void(const Live&)>& at_;
};

}  // namespace

void visit_live_tiles(const Kernel& kernel, const std::function<void(const Live&)>& at) {
  Liveness(kernel, at).before(kernel.body, {});
}

}  // namespace astatide::tile
