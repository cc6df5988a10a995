// What the simulator is for: a kernel that waits once too little is found. Each barrier, fence, wait, phase and ring
// index of the shipped schedules for sm_80 and sm_90a is taken away or shifted, one at a time. A few are tried
// here; ASTATIDE_CHANGES=all tries all of them, which takes some minutes, ASTATIDE_CHANGES=sm90/flash3 all of one
// schedule.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <iostream>

#include "compiler/sim/simulate.h"
#include "compiler/tile/synchronization.h"
#include "tests/support/simulated.h"

namespace astatide::testing {
namespace {

using Kind = tile::SyncOp::Kind;
using Lengths = std::map<std::string, std::int64_t>;

constexpr std::size_t kStep = 9;

struct Plan {
  std::string schedule, algorithm;
  std::vector<Lengths> lengths;  // tried one after the other until a change is found
  int resident = 2;
  bool quick = false;  // tried every time
};

/// Lengths at which every wait is met more than once around its ring, and blocks take several tiles. Parts are as many
/// as `resident`: with 1000 keys each of two ends where a ring of 4 comes around; with 700 and 2034 teams have
/// more tiles than slots, some one more than others.
std::vector<Plan> plans() {
  const Lengths several{{"Hq", 4}, {"Sq", 260}, {"Sk", 700}}, few{{"Sq", 200}, {"Sk", 300}};
  // With more keys or fewer, a ring comes around at another of its statements.
  const std::vector<Lengths> around{several,
                                    few,
                                    {{"Hq", 4}, {"Sq", 260}, {"Sk", 500}},
                                    {{"Hq", 4}, {"Sq", 260}, {"Sk", 600}},
                                    {{"Hq", 4}, {"Sq", 260}, {"Sk", 128}}};
  const Lengths many_keys{{"Sq", 40}, {"Sk", 5003}};
  return {
      {"sm80/flash2", "causal_gqa", {several, few}, 2, true},
      {"sm80/flash2_d64", "causal_gqa", {several, few}},
      {"sm80/flash2_tf32", "causal_gqa", {several, few}},
      {"sm80/decode",
       "causal_gqa",
       {{{"Hq", 1}, {"Sq", 5}, {"Sk", 1000}}, {{"Hq", 1}, {"Sq", 40}, {"Sk", 300}}},
       4,
       true},
      {"sm80/decode_gqa", "causal_gqa", {many_keys}},
      {"sm80/wide", "causal_gqa", {several, few}},
      {"sm80/wide_gqa", "causal_gqa", {several, few}},
      {"sm90/flash2_wgmma", "causal_gqa", {several, few}},
      {"sm90/flash3", "causal_gqa", around, 2, true},
      // Tiles that a thread of its own deals out, with what it has searched for.
      {"sm90/flash3",
       "document_mask",
       {{{"Sq", 260}, {"Sk", 700}},
        {{"Sq", 260}, {"Sk", 1000}},
        {{"Sq", 300}, {"Sk", 500}},
        {{"Hq", 4}, {"Sq", 260}, {"Sk", 600}},
        {{"Sq", 500}, {"Sk", 820}}}},
      {"sm90/flash3_d64", "causal_gqa", around},
      {"sm90/flash3_plain", "causal_gqa", around},
      {"sm90/flash3_tma_store", "causal_gqa", around, 2, true},
      {"sm90/flash3_cluster", "causal_gqa", around},
      {"sm90/flash3_d256", "causal_gqa", around},
      {"sm90/decode", "causal_gqa", {{{"Hq", 1}, {"Sq", 5}, {"Sk", 1000}}, {{"Hq", 1}, {"Sq", 40}, {"Sk", 300}}}, 4},
      {"sm90/decode_gqa", "causal_gqa", {{{"Sq", 5}, {"Sk", 900}}, {{"Sq", 5}, {"Sk", 1000}}}, 2, true},
      {"sm90/decode_gqa_teams", "causal_gqa", {{{"Sq", 5}, {"Sk", 700}}, {{"Sq", 5}, {"Sk", 2034}}}, 4, true},
      {"sm90/wide", "causal_gqa", {several, few}},
      {"sm90/wide_gqa", "causal_gqa", {several, few}}};
}

/// Whether lanes of a warp are together behind so much of a block, and read nothing since: they meet, or a product or a
/// load of tensor cores has them meet, in the block's last statement but for what frees and fills slots. Loops that
/// need not run leave that to what stands in front of them.
bool lanes_are_together(const tile::Block& block, std::size_t count) {
  while (count-- > 0) {
    const tile::Stmt& stmt = block[count];
    const auto* branch = std::get_if<tile::If>(&stmt.node);
    if (std::holds_alternative<tile::Release>(stmt.node) || (branch && tile::commits_copies(branch->body))) continue;
    if (const auto* loop = std::get_if<tile::For>(&stmt.node)) {
      if (!lanes_are_together(loop->body, loop->body.size())) return false;
      continue;
    }
    const auto* mma = std::get_if<tile::Mma>(&stmt.node);
    const auto* copy = std::get_if<tile::Copy>(&stmt.node);
    return tile::is_meeting(stmt) || (mma && mma->by == Family::mma_sync) || (copy && copy->via == tile::Via::ldmatrix);
  }
  return true;
}

/// Of each meeting of a team, in the order of the text: whether its lanes are together without it.
void find_together(const tile::Block& block, std::vector<bool>& out) {
  for (std::size_t n = 0; n < block.size(); ++n) {
    if (const auto* sync = std::get_if<tile::Sync>(&block[n].node); sync && sync->team)
      out.push_back(lanes_are_together(block, n));
    if (const tile::Block* body = tile::nested_block(block[n])) find_together(*body, out);
  }
}

/// Why a warp needs no meeting of its team; empty where it does.
std::string why_no_meeting_of_warp(const tile::Kernel& kernel, const std::vector<sim::Site>& sites,
                                   std::size_t number) {
  std::vector<bool> together;
  find_together(kernel.body, together);
  const auto meetings = std::count_if(sites.begin(), sites.begin() + static_cast<std::ptrdiff_t>(number),
                                      [](const sim::Site& site) { return site.statement == "sync team"; });
  return together.at(static_cast<std::size_t>(meetings)) ? "the lanes are together as they are" : "";
}

/// Why a kernel is as right without an operation; empty where it is not.
std::string why_without_effect(const Plan& plan, const tile::Kernel& kernel, const std::vector<sim::Site>& sites,
                               const sim::Change& change) {
  const auto number = static_cast<std::size_t>(change.site);
  const sim::Site& site = sites[number];
  const auto is = [&](std::size_t n, Kind kind) { return n < sites.size() && sites[n].what.kind == kind; };
  if (site.what.kind == Kind::wait_copies) {
    // Two rings whose slots are acquired one after the other: each waits for the copies of both.
    if (is(number + 1, Kind::wait_copies) && sites[number + 1].what.count <= site.what.count)
      return "the next wait is for as much";
    if (number > 0 && is(number - 1, Kind::wait_copies) && sites[number - 1].what.count <= site.what.count)
      return "the wait before was for as much";
  }
  if (site.what.kind == Kind::commit_copies)
    for (int n = static_cast<int>(number) + 1, commits = 0; n < static_cast<int>(sites.size()); ++n) {
      const auto at = static_cast<std::size_t>(n);
      commits += is(at, Kind::commit_copies) ? 1 : 0;
      if (!is(at, Kind::wait_copies)) continue;
      // What it would have committed belongs to the next group then.
      if (commits > sites[at].what.count) return "the next group is waited for as well";
      break;
    }
  // insert_barriers takes slots of a ring for one place, and what a block stores tile after tile for another's.
  const bool decode = plan.schedule == "sm80/decode" || plan.schedule == "sm90/decode" ||
                      plan.schedule.ends_with("/decode_gqa") || plan.schedule == "sm90/decode_gqa_teams";
  if (decode && site.what.kind == Kind::meet && site.statement == "sync" &&
      (change.kind == sim::Change::Kind::remove || change.kind == sim::Change::Kind::fewer))
    return "it keeps apart what no two lanes touch";  // with fewer, the others go on behind the next meeting
  const auto waits_behind = [&](const sim::Site& behind) { return behind.what.kind == Kind::wait_copies; };
  if (plan.schedule == "sm90/decode_gqa_teams" && site.what.kind == Kind::commit_copies &&
      std::none_of(sites.begin() + change.site, sites.end(), waits_behind))
    return "a team has one partial tile at most, whose iteration is its last";
  if (site.what.kind == Kind::meet_warp && site.statement == "sync team")
    return why_no_meeting_of_warp(kernel, sites, number);
  // A ring's next fill waits for another ring, whose slots the same lanes have given back together.
  if (plan.schedule == "sm90/flash3_d256" && site.statement == "release V_s apart" && site.what.kind == Kind::meet_warp)
    return "K's ring keeps V's fills behind it";
  // The last tiles of a block that takes one: their slots are not filled again, and their ring does not come around.
  if (plan.schedule == "sm90/flash3_plain" && site.statement.ends_with(" apart")) return "the slot is not filled again";
  return "";
}

std::string describe(const Plan& plan, const sim::Site& site, const sim::Change& change) {
  return fmt::format("{} of {}: {}, `{}`, {} {}", plan.schedule, plan.algorithm, site.role, site.statement, site.op,
                     name_of(change.kind));
}

struct Counts {
  int tried = 0, caught = 0, without_effect = 0;
};

/// A plan's lengths, simulated as the kernel is: those that are asked for.
class Bases {
 public:
  explicit Bases(const Plan& plan)
      : plan_(plan), simulated_(simulated_case(plan.algorithm, plan.schedule, plan.lengths.front())) {}

  std::size_t count() const { return plan_.lengths.size(); }
  const tile::Program& program() const { return simulated_.program; }
  sim::Options options() const {
    sim::Options out;
    out.resident = plan_.resident;
    out.round_storage = false;
    return out;
  }
  const Arguments& arguments(std::size_t n) { return at(n).first; }
  const sim::Run& run(std::size_t n) { return at(n).second; }

 private:
  const std::pair<Arguments, sim::Run>& at(std::size_t n) {
    while (made_.size() <= n) {
      Arguments arguments = simulated_arguments(simulated_.algorithm, plan_.lengths[made_.size()]);
      sim::Run run = sim::simulate(simulated_.program, arguments, options());
      INFO(plan_.schedule << (run.finding ? print(*run.finding) : ""));
      REQUIRE(!run.finding);
      made_.emplace_back(std::move(arguments), std::move(run));
    }
    return made_[n];
  }

  const Plan& plan_;
  SimulatedCase simulated_;
  std::deque<std::pair<Arguments, sim::Run>> made_;  // references into it stay
};

void try_changes(const Plan& plan, bool all, std::size_t& turn, Counts& counts) {
  Bases bases(plan);
  const auto& sites = bases.run(0).sites;
  for (const sim::Change& change : sim::changes_of(bases.program(), sites)) {
    if (!all && ++turn % kStep != 0) continue;
    const auto kernel = static_cast<std::size_t>(change.kernel), number = static_cast<std::size_t>(change.site);
    bool runs = false, caught = false;
    for (std::size_t n = 0; n < bases.count() && !caught; ++n) {
      if (bases.run(n).sites[kernel][number].runs == 0) continue;
      runs = true;
      sim::Options options = bases.options();
      options.change = change;
      options.most_steps = 4 * bases.run(n).steps;
      const sim::Run run = sim::simulate(bases.program(), bases.arguments(n), options);
      caught = run.finding || distance(run.outputs, bases.run(n).outputs) > 1e-6;
    }
    if (!runs) continue;
    const std::string reason = why_without_effect(plan, bases.program().kernels[kernel], sites[kernel], change);
    ++counts.tried;
    counts.caught += caught ? 1 : 0;
    counts.without_effect += !caught && !reason.empty() ? 1 : 0;
    INFO(describe(plan, sites[kernel][number], change));
    CHECK((caught || !reason.empty()));
    if (all && !caught) std::cout << describe(plan, sites[kernel][number], change) << ": " << reason << "\n";
  }
}

}  // namespace

TEST_CASE("a kernel without one of its barriers, fences or waits, or with one shifted, is found") {
  const char* wanted = std::getenv("ASTATIDE_CHANGES");
  const bool all = wanted && std::string(wanted) == "all";
  std::size_t turn = 0;
  Counts counts;
  for (const Plan& plan : plans())
    if (wanted ? all || plan.schedule == wanted : plan.quick) try_changes(plan, wanted != nullptr, turn, counts);
  std::cout << fmt::format("caught {} of {} changes, {} others are without effect\n", counts.caught, counts.tried,
                           counts.without_effect);
  CHECK(counts.tried > 30);
}

}  // namespace astatide::testing
