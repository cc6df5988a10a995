#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/tile_fault.h"

// The rules about the teams of a block: their tiles are their own, and where they meet.

namespace astatide::tile {
namespace {

using build::fault_of;
using Catch::Contains;

/// Two teams of a warp, compiled.
Program teams() {
  CompileOptions options;
  options.target = *find_target("sm_80");
  options.dtype = ScalarType::bf16;
  const Algorithm algorithm = testing::example_algorithm("attention");
  options.sizes = algorithm.sizes;
  const std::string text =
      "target: sm_80\nO: {tile: {i: 16, j: 16}, rfactor: {j: [j.s, 2, j.w, 2]}, reorder: [b, h, i.o, j.s, j.w, j.o], "
      "gpu_blocks: [j.s, i.o, h, b], threads: [8, 4]}\nS: {compute_at: j.o, mma: mma_sync}\nP: {compute_at: j.o}\n"
      "Q: {stage_at: j.w, copy: cp_async}\nK: {stage_at: j.o, copy: cp_async, ring_buffer: 2}\n"
      "V: {stage_at: j.o, copy: cp_async, ring_buffer: 2}\n";
  return compile(algorithm, parse_schedule(text, "s.yaml"), options);
}

std::string fault_with(const std::function<void(Kernel& kernel, For& loop, std::size_t at)>& change) {
  Program program = teams();
  Kernel& kernel = program.kernels[0];
  const auto is_teams = [](const Stmt& stmt) {
    const auto* loop = std::get_if<For>(&stmt.node);
    return loop && loop->kind == For::Kind::teams;
  };
  const auto found = std::find_if(kernel.body.begin(), kernel.body.end(), is_teams);
  change(kernel, std::get<For>(found->node), static_cast<std::size_t>(found - kernel.body.begin()));
  return fault_of(program, "plan_memory");
}

bool leaves_state(const Stmt& stmt) {
  const auto* copy = std::get_if<Copy>(&stmt.node);
  const auto* view = copy ? std::get_if<View>(&copy->dst) : nullptr;
  return view && view->tensor.ends_with("_teams");
}

}  // namespace

TEST_CASE("rule: a kernel of teams has one loop over their numbers") {
  CHECK(fault_of(teams(), "plan_memory").empty());
  CHECK(print(teams().kernels[0]).find(" threads 8 x 4 teams 2 shared ") != std::string::npos);
  CHECK_THAT(fault_with([](Kernel& kernel, For&, std::size_t) { kernel.teams = 1; }),
             Contains("a kernel of 1 teams has 1 loops of teams"));
  CHECK_THAT(fault_with([](Kernel&, For& loop, std::size_t) { loop.end = Expr(3); }),
             Contains("the loop of teams does not run over their numbers"));
  CHECK_THAT(fault_with([](Kernel&, For& loop, std::size_t) { loop.kind = For::Kind::serial; }),
             Contains("a kernel of 2 teams has 0 loops of teams"));
}

TEST_CASE("rule: a team's tiles are its own") {
  CHECK_THAT(fault_with([](Kernel& kernel, For& loop, std::size_t at) {
               kernel.body.insert(kernel.body.begin() + static_cast<std::ptrdiff_t>(at), loop.body.front());
             }),
             Contains("is touched by a team, and by the block"));
}

TEST_CASE("rule: teams meet by themselves, in front of what they leave, and all behind their loop") {
  CHECK_THAT(fault_with([](Kernel& kernel, For&, std::size_t at) {
               kernel.body.erase(kernel.body.begin() + static_cast<std::ptrdiff_t>(at) + 1);
             }),
             Contains("behind it the threads of all teams meet"));
  CHECK_THAT(fault_with([](Kernel&, For& loop, std::size_t) {
               loop.body = transform_blocks(loop.body, [](Block block) {
                 for (Stmt& stmt : block)
                   if (auto* sync = std::get_if<Sync>(&stmt.node)) sync->team = false;
                 return block;
               });
             }),
             Contains("teams need not come here together"));
  CHECK_THAT(
      fault_with([](Kernel& kernel, For&, std::size_t at) { std::get<Sync>(kernel.body[at + 1].node).team = true; }),
      Contains("there are no teams here"));
  CHECK_THAT(fault_with([](Kernel&, For& loop, std::size_t) {
               const auto first = std::find_if(loop.body.begin(), loop.body.end(), leaves_state);
               loop.body.erase(first - 1);
             }),
             Contains("the team has not met since it has read its tiles"));
}

TEST_CASE("rule: what a team has left lies where its tiles lay") {
  CHECK_THAT(fault_with([](Kernel&, For& loop, std::size_t) {
               const auto copies = [](const Stmt& stmt) {
                 const auto* copy = std::get_if<Copy>(&stmt.node);
                 return copy && std::holds_alternative<View>(copy->src);
               };
               const auto of_q = std::find_if(loop.body.begin(), loop.body.end(), copies);
               REQUIRE(of_q != loop.body.end());
               Stmt again = *of_q;
               std::get<Copy>(again.node).token = "";
               std::get<Copy>(again.node).via = Via::vector;
               loop.body.push_back(again);
             }),
             Contains("Q_s lies where the team has left its state"));
}

}  // namespace astatide::tile
