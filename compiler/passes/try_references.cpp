#include "compiler/passes/try_references.h"

#include <algorithm>
#include <set>

#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using tile::Advance;
using tile::Block;
using tile::Stmt;

using Names = std::set<std::string>;

Names set_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

bool meet(const Names& a, const Names& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& name) { return b.contains(name); });
}

class Trial {
 public:
  Trial(const tile::Kernel& kernel, const Block& block, std::size_t advance)
      : kernel_(kernel), block_(block), advance_(advance), chosen_(block.size()) {
    for (const Stmt& stmt : block) {
      const tile::Effects effects = tile::effects_of(stmt);
      reads_.push_back(set_of(effects.reads));
      writes_.push_back(set_of(effects.writes));
    }
  }

  TriedBlock run() {
    const auto& advance = std::get<Advance>(block_[advance_].node);
    Names candidates;
    for (const Advance::Update& update : advance.updates) candidates.insert(update.candidate);
    choose_sums(set_of(advance.slack->witnesses));
    choose_candidates(candidates);
    check_repeats();
    TriedBlock out;
    const std::vector<bool> kept = kept_before();
    for (std::size_t n = 0; n < block_.size(); ++n) {
      if (n == advance_) continue;
      if (n < advance_ && kept[n]) out.before.push_back(block_[n]);
      if (n < advance_ && chosen_[n]) out.candidates.push_back(block_[n]);
      if (n > advance_) (chosen_[n] ? out.sums : out.after).push_back(block_[n]);
    }
    return out;
  }

 private:
  /// What makes the witnesses, and whatever can't be passed on the way to the front.
  void choose_sums(const Names& witnesses) {
    std::size_t last = advance_;
    for (std::size_t n = advance_ + 1; n < block_.size(); ++n)
      if (meet(writes_[n], witnesses)) last = n;
    for (std::size_t n = last; n > advance_; --n) {
      chosen_[n] = meet(writes_[n], witnesses);
      for (std::size_t later = n + 1; later <= last && !chosen_[n]; ++later)
        chosen_[n] = chosen_[later] && tile::conflict(block_[n], block_[later]);
    }
  }

  void choose_candidates(Names needed) {
    for (std::size_t n = advance_; n-- > 0;) {
      if (!meet(writes_[n], needed)) continue;
      chosen_[n] = true;
      needed.insert(reads_[n].begin(), reads_[n].end());
    }
  }

  /// Run again, each chosen statement must read what it read the first time.
  void check_repeats() const {
    Names made, changed;
    for (std::size_t n = 0; n < block_.size(); ++n) {
      if (n == advance_ || (n > advance_ && !chosen_[n])) continue;
      changed.insert(writes_[n].begin(), writes_[n].end());
    }
    for (std::size_t n = 0; n < block_.size(); ++n) {
      if (!chosen_[n]) continue;
      for (const std::string& name : reads_[n])
        if (changed.contains(name) && !made.contains(name))
          throw UserError("rescale: optimistic refused: a tile would be computed again from " + name +
                              ", which computing it has changed",
                          {"rescale: lazy"});
      made.insert(writes_[n].begin(), writes_[n].end());
      check_space(n);
    }
  }

  /// Only the warp whose rows failed comes back, and it can't wait for others.
  void check_space(std::size_t n) const {
    if (kernel_.threads() <= 1) return;
    for (const std::string& name : writes_[n]) {
      const tile::Mem* mem = kernel_.find(name);
      if (mem && mem->space == Space::shared)
        throw UserError("rescale: optimistic refused: a warp computes " + name +
                            " again by itself, and can't where it lives in shared memory",
                        {name + ": {store_in: register}", "rescale: lazy"});
    }
  }

  /// In front of the sums candidates are not needed, nor what is made for them alone.
  std::vector<bool> kept_before() const {
    Names needed;
    for (std::size_t n = advance_ + 1; n < block_.size(); ++n) needed.insert(reads_[n].begin(), reads_[n].end());
    std::vector<bool> kept(advance_);
    for (std::size_t n = advance_; n-- > 0;) {
      kept[n] = !chosen_[n] || meet(writes_[n], needed);
      if (kept[n]) needed.insert(reads_[n].begin(), reads_[n].end());
    }
    return kept;
  }

  const tile::Kernel& kernel_;
  const Block& block_;
  const std::size_t advance_;
  std::vector<Names> reads_, writes_;
  std::vector<bool> chosen_;
};

}  // namespace

TriedBlock try_references(const tile::Kernel& kernel, const Block& block, std::size_t advance) {
  return Trial(kernel, block, advance).run();
}

}  // namespace astatide
