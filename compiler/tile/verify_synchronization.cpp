// What threads wait for, counted without a run: how many arrive at a barrier, that no two barriers are one, and that
// producers and consumers do not wait for each other for ever.

#include <algorithm>
#include <map>

#include "compiler/tile/synchronization.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

using Kind = SyncOp::Kind;

/// A wait or a signal of a role at a ring.
struct Event {
  enum class Do : std::uint8_t { reserve, fill, acquire, release };
  Do what;
  TileName ring;
};

/// The events of a role for chosen numbers of iterations.
class Events {
 public:
  Events(const std::set<TileName>& rings, const std::map<std::string, int>& iterations)
      : rings_(rings), iterations_(iterations) {}

  std::vector<Event> of(const Block& block) {
    run(block);
    return std::move(out_);
  }
  static std::string key(const For& loop) { return to_string(loop.begin) + " .. " + to_string(loop.end); }

 private:
  void add(Event::Do what, const TileName& ring) {
    if (rings_.contains(ring)) out_.push_back({what, ring});
  }
  void run(const Block& block) {
    for (const Stmt& stmt : block) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        const int times = loop->kind == For::Kind::once ? 1 : iterations_.at(key(*loop));
        for (int n = 0; n < times; ++n) run(loop->body);
      } else if (const Block* body = nested_block(stmt)) {
        run(*body);
      } else if (const auto* reserve = std::get_if<Reserve>(&stmt.node)) {
        add(Event::Do::reserve, reserve->tile);
      } else if (const auto* acquire = std::get_if<Acquire>(&stmt.node)) {
        add(Event::Do::acquire, acquire->tile);
      } else if (const auto* release = std::get_if<Release>(&stmt.node)) {
        add(Event::Do::release, release->tile);
      } else if (const auto* copy = std::get_if<Copy>(&stmt.node); copy && copy->via == Via::tma) {
        if (const auto* dst = std::get_if<TileName>(&copy->dst)) add(Event::Do::fill, *dst);
      }
    }
  }

  const std::set<TileName>& rings_;
  const std::map<std::string, int>& iterations_;
  std::vector<Event> out_;
};

/// Rings have one producer and one consumer that wait in an order of their own, so any way to run them ends alike.
/// Empty, or what waits for ever.
std::string run_against(const std::vector<Event>& producer, const std::vector<Event>& consumer,
                        std::map<TileName, int> free) {
  std::map<TileName, int> full;
  const auto step = [&](const std::vector<Event>& events, std::size_t& at) {
    const std::size_t before = at;
    for (; at < events.size(); ++at) {
      const Event& event = events[at];
      if (event.what == Event::Do::reserve && free[event.ring]-- == 0) return ++free[event.ring], at > before;
      if (event.what == Event::Do::acquire && full[event.ring]-- == 0) return ++full[event.ring], at > before;
      if (event.what == Event::Do::fill) ++full[event.ring];
      if (event.what == Event::Do::release) ++free[event.ring];
    }
    return at > before;
  };
  std::size_t p = 0, c = 0;
  for (bool goes_on = true; goes_on;) {
    goes_on = step(producer, p);
    goes_on = step(consumer, c) || goes_on;
  }
  if (p < producer.size())
    return "the producer waits for a free slot of " + producer[p].ring +
           (c < consumer.size() ? ", the consumers for a full one of " + consumer[c].ring : "");
  if (c < consumer.size()) return "the consumers wait for a full slot of " + consumer[c].ring;
  for (const auto& [ring, slots] : full)
    if (slots != 0) return std::to_string(slots) + " slots of " + ring + " are filled and never read";
  return "";
}

std::set<std::string> loops_of(const Block& block) {
  std::set<std::string> out;
  walk(block, [&](const Stmt& stmt) {
    if (const auto* loop = std::get_if<For>(&stmt.node); loop && loop->kind != For::Kind::once)
      out.insert(Events::key(*loop));
  });
  return out;
}

void verify_progress(const Verified& v) {
  const Role* producer = nullptr;
  const Role* consumer = nullptr;
  for (const Stmt& stmt : v.kernel.body)
    if (const auto* role = std::get_if<Role>(&stmt.node)) (role->name == "producer" ? producer : consumer) = role;
  if (!producer || !consumer) return;
  const std::set<std::string> loops = loops_of(producer->body);
  // Where each warpgroup has loops of its own, how many iterations belong together only a run says.
  if (loops != loops_of(consumer->body)) return;
  // What consumers acquire and do not fill themselves.
  std::set<TileName> rings, own;
  walk(consumer->body, [&](const Stmt& stmt) {
    if (const auto* acquire = std::get_if<Acquire>(&stmt.node)) rings.insert(acquire->tile);
    if (const auto* reserve = std::get_if<Reserve>(&stmt.node)) own.insert(reserve->tile);
  });
  std::map<TileName, int> slots;
  for (const TileName& ring : own) rings.erase(ring);
  for (const TileName& ring : rings) slots[ring] = v.kernel.find(ring)->ring;
  constexpr int kMostIterations = 4;
  constexpr std::size_t kMostLoops = 4;
  if (loops.size() > kMostLoops) return;
  std::map<std::string, int> iterations;
  for (const std::string& loop : loops) iterations[loop] = 0;
  for (;;) {
    Events producing(rings, iterations), consuming(rings, iterations);
    const std::string blocked = run_against(producing.of(producer->body), consuming.of(consumer->body), slots);
    if (!blocked.empty()) {
      std::string times;
      for (const auto& [loop, count] : iterations)
        times += (times.empty() ? "" : ", ") + std::to_string(count) + " iterations of " + loop;
      v.fail("with " + (times.empty() ? "no loop" : times) + " " + blocked);
    }
    auto next = iterations.begin();
    while (next != iterations.end() && ++next->second > kMostIterations) next++->second = 0;
    if (next == iterations.end()) return;
  }
}

/// Arrivals at a slot's free barrier in one phase: of each warp that computes, in each block that the slot's copies
/// write to.
void verify_arrivals(const Verified& v, const Synchronization& sync) {
  const int warps = v.kernel.threads() / kWarp;
  for (const SlotBarriers& ring : sync.rings()) {
    const bool places = ring.ring == kTilePlaces;
    const int blocks = places || sync.filled_by_cluster().contains(ring.ring) ? v.kernel.cluster_blocks() : 1;
    const int arrive = blocks * (warps + (places && v.kernel.deals_apart() ? 1 : 0));
    if (ring.free_arrivals != arrive)
      v.fail("a free barrier of " + ring.ring + " ends with " + std::to_string(ring.free_arrivals) + " arrivals, " +
             std::to_string(arrive) + " arrive");
  }
  walk(v.kernel.body, [&](const Stmt& stmt) {
    for (const SyncOp& op : sync.before(stmt)) {
      if (op.kind != Kind::expect) continue;
      const Mem& mem = *v.kernel.find(op.ring);
      if (op.count != mem.byte_count() / mem.ring)
        v.fail(stmt, "expects " + std::to_string(op.count) + " bytes, a slot of " + mem.name + " has " +
                         std::to_string(mem.byte_count() / mem.ring));
    }
  });
}

/// Named barriers of a block are numbers below 16: its own, those of warpgroups, of their turns, and of a role.
void verify_named_barriers(const Verified& v, const Synchronization& sync) {
  std::map<int, std::string> taken{{kBlockBarrier, "the block"}};
  const auto take = [&](int number, const std::string& whose) {
    if (number >= 16) v.fail(whose + " meet at barrier " + std::to_string(number) + ", a block has 16");
    const auto [entry, added] = taken.emplace(number, whose);
    if (!added && entry->second != whose)
      v.fail(whose + " and " + entry->second + " meet at barrier " + std::to_string(number));
  };
  const auto take_all = [&](const SyncOps& ops) {
    for (const SyncOp& op : ops)
      for (int group = 0; group < v.kernel.warpgroups(); ++group) {
        const std::string number = std::to_string(group);
        if (op.kind == Kind::meet_warpgroup) take(op.barrier + group, "the threads of warpgroup " + number);
        if (op.kind == Kind::take_turn || op.kind == Kind::pass_turn)
          take(op.barrier + group, "turns of warpgroup " + number);
        if (op.kind == Kind::meet && op.barrier != kBlockBarrier) take(op.barrier, "the threads of a role");
      }
  };
  walk(v.kernel.body, [&](const Stmt& stmt) {
    take_all(sync.before(stmt));
    take_all(sync.after(stmt));
  });
}

}  // namespace

void verify_synchronization(const Verified& v) {
  if (!v.is_past("plan_memory") || v.kernel.threads() == 0) return;
  const Synchronization sync(v.kernel);
  verify_named_barriers(v, sync);
  if (!sync.has_roles()) return;
  verify_arrivals(v, sync);
  verify_progress(v);
}

}  // namespace astatide::tile
