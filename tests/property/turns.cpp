// Turns end, whatever the order in which warpgroups run: the roles of a compiled kernel as lists of what they wait for,
// run against each other at random.

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

using tile::Stmt;

struct Event {
  enum class Kind { reserve, fill, acquire, release, take, pass };
  Kind kind;
  std::string ring;
};
using Events = std::vector<Event>;

/// What a role waits for and signals, for one output tile.
class Unrolled {
 public:
  explicit Unrolled(std::map<std::string, std::int64_t> values) : values_(std::move(values)) {}

  Events run(const tile::Block& block) {
    for (const Stmt& stmt : block) visit(stmt);
    return std::move(events_);
  }
  void set(const tile::Let& let) { values_[let.name] = evaluate_integer(let.value, values_); }

 private:
  using Kind = Event::Kind;

  void visit(const Stmt& stmt) {
    if (const auto* let = std::get_if<tile::Let>(&stmt.node)) return set(*let);
    if (const auto* loop = std::get_if<tile::For>(&stmt.node)) return unroll(*loop);
    if (const auto* branch = std::get_if<tile::If>(&stmt.node)) {
      // What some threads alone may do meets no other role.
      const std::size_t before = events_.size();
      for (const Stmt& inner : branch->body) visit(inner);
      REQUIRE(events_.size() == before);
    }
    if (const auto* s = std::get_if<tile::Reserve>(&stmt.node)) events_.push_back({Kind::reserve, s->tile});
    if (const auto* s = std::get_if<tile::Acquire>(&stmt.node)) events_.push_back({Kind::acquire, s->tile});
    if (const auto* s = std::get_if<tile::Release>(&stmt.node)) events_.push_back({Kind::release, s->tile});
    if (const auto* s = std::get_if<tile::Copy>(&stmt.node); s && s->via == tile::Via::tma)
      events_.push_back({Kind::fill, std::get<tile::TileName>(s->dst)});
    if (const auto* s = std::get_if<tile::Turn>(&stmt.node))
      events_.push_back({s->what == tile::Turn::Do::take ? Kind::take : Kind::pass, ""});
  }

  void unroll(const tile::For& loop) {
    const std::int64_t begin = evaluate_integer(loop.begin, values_);
    const std::int64_t end = loop.kind == tile::For::Kind::once ? begin + 1 : evaluate_integer(loop.end, values_);
    for (std::int64_t n = begin; n < end; ++n) {
      values_[loop.var] = loop.descending ? begin + end - 1 - n : n;
      for (const Stmt& inner : loop.body) visit(inner);
    }
    values_.erase(loop.var);
  }

  std::map<std::string, std::int64_t> values_;
  Events events_;
};

/// A block's roles: the producer, then each consumer, through several output tiles.
class Block {
 public:
  Block(const tile::Kernel& kernel, const std::map<std::string, std::int64_t>& extents, std::int64_t tiles)
      : kernel_(kernel), consumers_(kernel.threads() / 128), pending_(consumers_) {
    agents_.resize(1 + consumers_);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      std::map<std::string, std::int64_t> values = extents;
      for (const tile::TileAxis& axis : kernel.tiles) values[axis.var] = 0;
      values[kernel.tiles[0].var] = tile;
      Unrolled in_front(values);
      for (const Stmt& stmt : kernel.body) {
        if (const auto* let = std::get_if<tile::Let>(&stmt.node)) in_front.set(*let);
        const auto* role = std::get_if<tile::Role>(&stmt.node);
        if (!role) continue;
        const Events events = Unrolled(in_front).run(role->body);
        const bool producer = role->name == "producer";
        for (std::size_t n = producer ? 0 : 1; n < (producer ? 1 : agents_.size()); ++n)
          agents_[n].insert(agents_[n].end(), events.begin(), events.end());
      }
    }
    // As emitted: the last consumer passes in front of all, the first takes behind all.
    agents_.back().insert(agents_.back().begin(), Event{Event::Kind::pass, ""});
    agents_[1].push_back({Event::Kind::take, ""});
  }

  /// Why it never ends, or nothing.
  std::string run(std::mt19937& random) {
    std::vector<std::size_t> at(agents_.size(), 0), order(agents_.size());
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
    for (bool moved = true; moved;) {
      moved = false;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t agent : order) {
        // One goes ahead as far as it can, or for some steps.
        for (std::size_t steps = random() % 2 == 0 ? 1 : agents_[agent].size();
             steps > 0 && at[agent] < agents_[agent].size() && step(agent, agents_[agent][at[agent]]); --steps) {
          ++at[agent];
          moved = true;
          if (!fault_.empty()) return fault_;
        }
      }
    }
    for (std::size_t agent = 0; agent < agents_.size(); ++agent)
      if (at[agent] < agents_[agent].size())
        return "role " + std::to_string(agent) + " waits for ever at " + std::to_string(at[agent]);
    for (const int left : pending_)
      if (left != 0) return "a barrier is left with arrivals";
    return "";
  }

  std::size_t turns() const {
    return static_cast<std::size_t>(std::count_if(agents_[1].begin(), agents_[1].end(),
                                                  [](const Event& event) { return event.kind == Event::Kind::take; }));
  }
  /// Leaves out the n-th take or pass of every consumer.
  void lose(Event::Kind kind, int n) {
    for (std::size_t agent = 1; agent < agents_.size(); ++agent) {
      int left = n;
      std::erase_if(agents_[agent], [&](const Event& event) { return event.kind == kind && left-- == 0; });
    }
  }

 private:
  struct Ring {
    int reserved = 0, filled = 0;
    std::vector<int> acquired, released;
  };

  bool step(std::size_t agent, const Event& event) {
    const std::size_t consumer = agent - 1;
    Ring& ring = rings_[event.ring];
    ring.acquired.resize(consumers_);
    ring.released.resize(consumers_);
    switch (event.kind) {
      case Event::Kind::reserve:
        if (ring.reserved - *std::min_element(ring.released.begin(), ring.released.end()) ==
            kernel_.find(event.ring)->ring)
          return false;
        ++ring.reserved;
        return true;
      case Event::Kind::fill:
        ++ring.filled;
        return true;
      case Event::Kind::acquire:
        if (ring.acquired[consumer] == ring.filled) return false;
        ++ring.acquired[consumer];
        return true;
      case Event::Kind::release:
        ++ring.released[consumer];
        return true;
      case Event::Kind::take:
        if (pending_[consumer] == 0) return false;
        --pending_[consumer];
        return true;
      case Event::Kind::pass:
        if (++pending_[(consumer + 1) % consumers_] > 1) fault_ = "a turn is passed twice";
        return true;
    }
    throw InternalError("unknown event");
  }

  const tile::Kernel& kernel_;
  std::size_t consumers_;
  std::vector<Events> agents_;
  std::vector<int> pending_;  // arrivals at the barrier of each consumer
  std::map<std::string, Ring> rings_;
  std::string fault_;
};

tile::Program compiled(const std::string& algorithm_name, const Turns& turns) {
  const Algorithm algorithm = example_algorithm(algorithm_name);
  return compile(algorithm, parse_schedule(turns.text(), "turns.yaml"),
                 {*find_target("sm_90a"), {{"D", 64}, {"Dv", 64}}, ScalarType::bf16});
}

std::vector<Turns> all_turns() {
  std::vector<Turns> out;
  for (const char* rescale : {"plain", "lazy", "optimistic"})
    for (const char* cover : {"", "0", "1/2", "1"})
      for (const int consumers : {2, 3}) {
        const int slots = static_cast<int>(out.size() % 3) + 1;
        out.push_back({rescale, cover, consumers, slots, slots != 2, "1/4", 64});
      }
  return out;
}

}  // namespace

TEST_CASE("consumers that take turns never wait for ever, and leave no turn behind") {
  std::mt19937 random(11);
  for (const Turns& turns : all_turns())
    for (const char* algorithm : {"attention", "causal_gqa"}) {
      const tile::Program program = compiled(algorithm, turns);
      for (const std::int64_t sk : {0, 1, 64, 65, 700}) {
        std::map<std::string, std::int64_t> extents{{"B", 1},   {"Hq", 2}, {"Hkv", 1}, {"Sq", 400},
                                                    {"Sk", sk}, {"D", 64}, {"Dv", 64}};
        INFO(algorithm << " Sk " << sk << "\n" << turns.text());
        for (int round = 0; round < 4; ++round) {
          Block block(program.kernels[0], extents, turns.persistent ? 3 : 1);
          CHECK(block.run(random).empty());
          CHECK((sk == 0 || block.turns() > 1));
        }
      }
    }
}

TEST_CASE("the search for endless waits finds a turn that is lost or taken twice") {
  std::mt19937 random(12);
  const tile::Program program = compiled("attention", {"plain", "1/2", 2, 2, false, "", 64});
  const std::map<std::string, std::int64_t> extents{{"B", 1},    {"Hq", 2}, {"Hkv", 1}, {"Sq", 400},
                                                    {"Sk", 700}, {"D", 64}, {"Dv", 64}};
  for (const Event::Kind kind : {Event::Kind::take, Event::Kind::pass}) {
    Block block(program.kernels[0], extents, 1);
    block.lose(kind, 3);
    CHECK_FALSE(block.run(random).empty());
  }
}

TEST_CASE(
    "a schedule of GPUs with turns and polynomials has the algorithm's values at each stage that one thread runs") {
  std::mt19937 random(13);
  for (const char* name : {"causal_gqa", "sink"})
    for (const Turns& turns :
         {Turns{"plain", "1/2", 2, 2, false, "1/4", 16}, Turns{"lazy", "", 2, 2, false, "1", 16}}) {
      const Algorithm algorithm = example_algorithm(name);
      auto extents = small_extents(algorithm, 41, 37);
      extents["D"] = extents["Dv"] = 16;
      const Arguments arguments = random_inputs(algorithm, extents, random);
      const auto expected = evaluate(algorithm, arguments);
      // Roles run at the same time, which the interpreter can't do; the CPU has none, and computes powers of two alike.
      for (const char* target : {"sm_90a", "cpu"}) {
        Changes changes;
        const auto check = [&](std::string_view stage, const tile::Program& program) {
          if (std::holds_alternative<tile::Role>(program.kernels[0].body.back().node) || !changes.in(program)) return;
          INFO(name << " for " << target << " after " << stage << ":\n" << tile::print(program));
          CHECK((tile::print(program).find("polynomial") != std::string::npos) == (std::string(target) != "cpu"));
          REQUIRE(distance(tile::interpret(program, algorithm, arguments), expected) < kTolerance);
        };
        compile(algorithm, parse_schedule(turns.text(), "turns.yaml"),
                {*find_target(target), extents, ScalarType::bf16}, check);
      }
    }
}

}  // namespace astatide::testing
