#include "tests/support/random_mutation.h"

#include <algorithm>
#include <functional>
#include <set>

namespace astatide::testing {
namespace {

using Kind = DirectiveKind;
using Words = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

class Mutation {
 public:
  Mutation(Schedule schedule, Dice& dice) : schedule_(std::move(schedule)), dice_(dice) {}

  Schedule run() {
    family_ = family();
    roles_ = !schedule_.warps.empty();
    small_tiles();
    const auto changes = all_changes();
    for (std::int64_t n = dice_.one_of<std::int64_t>({0, 1, 1, 2, 2, 3, 3, 4, 5}); n > 0; --n) dice_.one_of(changes)();
    return std::move(schedule_);
  }

 private:
  bool cpu() const { return schedule_.target == "cpu"; }
  Family family() const {
    for (const Placement& placement : schedule_.placements)
      if (placement.mma() != Family::unset) return placement.mma();
    return Family::fma;
  }

  Placement* find(const std::string& name) {
    for (Placement& placement : schedule_.placements)
      if (placement.name == name) return &placement;
    return nullptr;
  }
  void erase(const std::string& name, Kind kind) {
    if (Placement* placement = find(name))
      std::erase_if(placement->directives, [kind](const Directive& directive) { return directive.kind == kind; });
  }
  void set(const std::string& name, Kind kind, DirectiveValue value) {
    Placement* placement = find(name);
    if (placement == nullptr) return;
    erase(name, kind);
    placement->directives.push_back({kind, std::move(value), {}});
  }
  std::int64_t one_of(const Numbers& numbers) { return dice_.one_of(numbers); }
  std::string word(const Words& words) { return dice_.one_of(words); }

  /// Definitions with a kernel of their own.
  Words roots() {
    Words out;
    for (const Placement& placement : schedule_.placements)
      if (placement.find(Kind::tile) != nullptr) out.push_back(placement.name);
    return out;
  }
  std::string staged() { return word({"Q", "K", "V"}); }
  std::string inner() { return word({"S", "P"}); }

  void set_threads(const std::string& root, std::int64_t rows, std::int64_t columns) {
    if (!roles_ && !cpu()) set(root, Kind::threads, Numbers{rows, columns});
  }

  void small_tiles() {
    for (const std::string& root : roots()) {
      std::int64_t i = 0, j = 0;
      if (family_ == Family::mma_sync) {
        const std::int64_t warps = one_of({1, 1, 2, 4});
        i = 16 * warps * one_of({1, 1, 2});
        j = one_of({8, 16, 16, 24, 32, 48, 64});
        set_threads(root, 8 * warps, 4);
      } else if (family_ == Family::wgmma) {
        const std::int64_t groups = one_of({1, 1, 2});
        i = 64 * groups;
        j = one_of({16, 16, 32, 48, 64, 80});
        set_threads(root, 32 * groups, 4);
        if (roles_) schedule_.warps = {{"producer", 1}, {"consumer", groups}};
      } else if (cpu()) {
        i = one_of({1, 2, 3, 4, 7, 8, 16, 33});
        j = one_of({1, 2, 4, 5, 8, 13, 16, 32, 40});
      } else {
        i = one_of({4, 8, 8, 16, 16, 24, 32, 48});
        j = one_of({4, 8, 8, 16, 16, 20, 32, 64});
        change_threads(root);
      }
      // Now and then anything at all.
      if (dice_.chance(4)) i = dice_.pick(1, 130);
      if (dice_.chance(4)) j = dice_.pick(1, 130);
      set(root, Kind::tile, AxisNumbers{{"i", i}, {"j", j}});
      if (const Placement* placement = find(root); placement->rfactor()) change_parts(root);
    }
    // The shipped bound has whole rows of thousands of keys in shared memory.
    for (auto& [extent, bound] : schedule_.bound) bound = one_of({81, 96, 128, 200});
  }

  void change_threads(const std::string& root) {
    const auto threads =
        dice_.one_of<Numbers>({{16, 16}, {8, 8}, {8, 4}, {4, 8}, {2, 16}, {1, 32}, {32, 1}, {16, 4}, {32, 4}, {3, 32}});
    set_threads(root, threads[0], threads[1]);
  }

  void change_parts(const std::string& root) {
    set(root, Kind::rfactor, AxisParts{"j", "j.s", one_of({2, 2, 3, 4, 5, 8})});
  }

  void add_parts() {
    Placement* main = find("O");
    if (main->rfactor()) {
      change_parts("O");
      return;
    }
    Words order = main->reorder(), blocks = main->blocks();
    const auto column = std::find(order.begin(), order.end(), "j.o");
    order.insert(column, "j.s");
    blocks.insert(blocks.begin() + dice_.pick(0, static_cast<std::int64_t>(blocks.size())), "j.s");
    set("O", Kind::reorder, order);
    set("O", cpu() ? Kind::parallel : Kind::gpu_blocks, blocks);
    change_parts("O");
  }

  void permute_blocks(const std::string& root) {
    Words blocks = find(root)->blocks();
    std::swap(blocks[static_cast<std::size_t>(dice_.pick(0, static_cast<std::int64_t>(blocks.size()) - 1))],
              blocks.front());
    set(root, cpu() ? Kind::parallel : Kind::gpu_blocks, blocks);
    if (dice_.chance(50)) {
      Words order(blocks.rbegin(), blocks.rend());
      for (const LoopName& loop : find(root)->reorder())
        if (std::find(order.begin(), order.end(), loop) == order.end()) order.push_back(loop);
      set(root, Kind::reorder, order);
    }
  }

  void change_rescale() {
    schedule_.rewrite = RewriteMode::online;
    schedule_.rescale = {};
    schedule_.rescale.mode =
        dice_.one_of<RescaleMode>({RescaleMode::plain, RescaleMode::lazy, RescaleMode::optimistic});
    if (schedule_.rescale.mode == RescaleMode::plain) return;
    if (dice_.chance(40)) schedule_.rescale.grow = static_cast<int>(one_of({0, 1, 4, 10}));
    if (schedule_.rescale.mode == RescaleMode::optimistic && dice_.chance(40))
      schedule_.rescale.over = static_cast<int>(one_of({1, 6, 14}));
  }

  void change_reorder() {
    // The state of all rows in global memory.
    if (dice_.chance(50)) {
      set("O", Kind::reorder, Words{"b", "h", "j.o", "i.o"});
      set("O", cpu() ? Kind::parallel : Kind::gpu_blocks, Words{"h", "b"});
      for (const char* name : {"S", "P"})
        if (find(name) != nullptr && find(name)->compute_at()) set(name, Kind::compute_at, std::string("i.o"));
      return;
    }
    Words order = find("O")->reorder();
    std::swap(order[static_cast<std::size_t>(dice_.pick(0, static_cast<std::int64_t>(order.size()) - 1))],
              order.back());
    set("O", Kind::reorder, order);
  }

  std::vector<std::function<void()>> all_changes() {
    std::vector<std::function<void()>> out = {
        [this] { set("O", Kind::descending, Words{"j.o"}); },
        [this] {
          set("O", Kind::descending, Words{word({"j.o", "i.o", "h"})});
        },
        [this] { erase("O", Kind::descending); },
        [this] { permute_blocks(word(roots())); },
        [this] { change_rescale(); },
        [this] { change_rescale(); },
        [this] { change_reorder(); },
        [this] { add_parts(); },
        [this] {
          set(inner(), Kind::store_in, word({"shared", "register", "register", "global"}));
        },
        [this] {
          set(inner(), Kind::compute_at, word({"j.o", "i.o", "h", "j.s"}));
        },
        [this] {
          set(staged(), Kind::stage_at, word({"j.o", "i.o", "h", "j.s"}));
        },
        [this] {
          set(word({"Q", "K", "V", "S", "P"}), Kind::align_storage,
              AxisNumbers{{word({"d", "e", "j", "i"}), one_of({2, 3, 8, 20, 36})}});
        },
        [this] {
          set(word({"S", "O"}), Kind::unroll, AxisNumbers{{word({"d", "j", "e"}), one_of({1, 2, 3, 4, 8})}});
        },
        [this] {
          set("S", Kind::overlap, dice_.one_of<Fraction>({{0, 1}, {1, 1}, {1, 2}, {1, 4}, {2, 3}}));
        },
        [this] { erase("S", Kind::overlap); },
        [this] { schedule_.rewrite = dice_.chance(50) ? RewriteMode::none : RewriteMode::online; },
        [this] {
          schedule_.bound = {{word({"Sk", "Sq", "D"}), one_of({1, 70, 100, 128})}};
        },
    };
    const std::vector<std::function<void()>> of_gpus = {
        [this] { set_rings(); },
        [this] { set_rings(); },
        [this] {
          set(staged(), Kind::ring_buffer, one_of({1, 2, 3, 4, 7}));
        },
        [this] {
          set(staged(), Kind::vectorize, one_of({1, 2, 4, 8}));
        },
        [this] {
          set(staged(), Kind::copy, word({"vector", "cp_async", "tma"}));
        },
        [this] { set_copies(); },
        [this] {
          set("P", Kind::exp2, dice_.one_of<Fraction>({{1, 4}, {1, 2}, {1, 1}, {1, 8}}));
        },
        [this] {
          set("Q", Kind::store_in, Words{"shared", "register"});
        },
        [this] {
          set("S", Kind::mma, word({"fma", "mma_sync", "wgmma"}));
        },
        [this] { set("S", Kind::tf32, true); },
        [this] {
          set("O", Kind::persistent, word({"linear", "longest_first"}));
        },
        [this] { erase("O", Kind::persistent); },
        [this] {
          set("O", Kind::cluster, one_of({2, 2, 4}));
        },
        [this] {
          set("O", Kind::copy, word({"tma", "vector"}));
        },
        [this] { schedule_.alternate = !schedule_.warps.empty(); },
        [this] { change_threads(word(roots())); },
    };
    const std::vector<std::function<void()>> of_cpus = {
        [this] {
          set("O", Kind::vectorize, one_of({1, 2, 4, 8, 16}));
        },
    };
    const auto& more = cpu() ? of_cpus : of_gpus;
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  void set_rings() {
    const std::int64_t slots = one_of({1, 2, 3, 4});
    for (const char* name : {"K", "V"}) set(name, Kind::ring_buffer, slots);
  }
  void set_copies() {
    const std::string path = word({"vector", "cp_async"});
    for (const char* name : {"Q", "K", "V"}) set(name, Kind::copy, path);
  }

  Schedule schedule_;
  Dice& dice_;
  Family family_ = Family::fma;
  bool roles_ = false;
};

}  // namespace

Schedule mutated(const Schedule& shipped, const Algorithm& algorithm, Dice& dice) {
  Schedule schedule = without_foreign_names(shipped, algorithm);
  schedule.places.clear();
  // Weights that no product reads are computed where they are read.
  std::erase_if(schedule.placements, [&](const Placement& placement) {
    return placement.name == "P" && algorithm.find_input("V") == nullptr && !placement.compute_root();
  });
  // Read again, so that messages have places.
  return parse_schedule(print_schedule(Mutation(std::move(schedule), dice).run()), "mutated.yaml");
}

std::vector<Schedule> smaller(const Schedule& schedule) {
  const std::set<Kind> optional = {Kind::descending, Kind::cluster,       Kind::copy,       Kind::vectorize,
                                   Kind::unroll,     Kind::align_storage, Kind::persistent, Kind::overlap,
                                   Kind::exp2,       Kind::ring_buffer};
  std::vector<Schedule> out;
  for (std::size_t p = 0; p < schedule.placements.size(); ++p)
    for (std::size_t d = 0; d < schedule.placements[p].directives.size(); ++d)
      if (optional.contains(schedule.placements[p].directives[d].kind)) {
        Schedule less = schedule;
        auto& directives = less.placements[p].directives;
        directives.erase(directives.begin() + static_cast<std::ptrdiff_t>(d));
        out.push_back(std::move(less));
      }
  if (schedule.rescale.mode != RescaleMode::plain) {
    out.push_back(schedule);
    out.back().rescale = {};
  }
  if (schedule.alternate) {
    out.push_back(schedule);
    out.back().alternate = false;
  }
  return out;
}

}  // namespace astatide::testing
