#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "tests/support/schedule_cases.h"

// What the verifier is for: a finished program with one statement missing is rejected.

using namespace astatide;

namespace {

tile::Program finished(const std::string& algorithm_name, const std::string& schedule_text) {
  const Algorithm algorithm = testing::example_algorithm(algorithm_name);
  const Schedule schedule = parse_schedule(schedule_text, "s.yaml");
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = algorithm.sizes;
  return compile(algorithm, schedule, options);
}

/// The program without the n-th of the statements that `wanted` chooses; nothing where there are fewer.
std::optional<tile::Program> without(const tile::Program& program, int n, bool (*wanted)(const tile::Stmt&),
                                     std::string& removed) {
  tile::Program out = program;
  bool found = false;
  for (tile::Kernel& kernel : out.kernels) {
    kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
      for (auto stmt = block.begin(); stmt != block.end(); ++stmt) {
        if (found || !wanted(*stmt) || n-- > 0) continue;
        found = true;
        removed = print(*stmt);
        block.erase(stmt);
        break;
      }
      return block;
    });
  }
  return found ? std::optional(out) : std::nullopt;
}

/// How many single removals there are; each must be rejected.
int check_removals(const tile::Program& program, bool (*wanted)(const tile::Stmt&)) {
  int n = 0;
  std::string removed;
  while (const std::optional<tile::Program> faulty = without(program, n, wanted, removed)) {
    INFO("without " << removed << "in\n" << print(program));
    CHECK_THROWS_AS(verify(*faulty, "plan_memory"), InternalError);
    ++n;
  }
  return n;
}

template <class Node>
bool is(const tile::Stmt& stmt) {
  return std::holds_alternative<Node>(stmt.node);
}

bool is_load(const tile::Stmt& stmt) {
  const auto* copy = std::get_if<tile::Copy>(&stmt.node);
  return copy && std::holds_alternative<tile::TileName>(copy->dst);
}

const std::vector<std::string> kSchedules{"simt/standard", "simt/fused_row", "simt/flash1", "simt/flash2",
                                          "simt/flash2_shared_s"};

/// K and V in rings.
std::string with_rings() {
  const std::string text =
      testing::with(testing::shipped_schedule("simt/flash2"), "K: {stage_at: j.o, store_in: shared",
                    "K: {stage_at: j.o, store_in: shared, ring_buffer: 2");
  return testing::with(text, "V: {stage_at: j.o, store_in: shared",
                       "V: {stage_at: j.o, store_in: shared, ring_buffer: 3");
}

}  // namespace

TEST_CASE("a program without one of its syncs is rejected") {
  int syncs = 0;
  // Not those that store tile after tile of a tensor: there a sync may stand between stores that never meet.
  for (const char* schedule : {"simt/fused_row", "simt/flash2", "simt/flash2_shared_s"})
    syncs += check_removals(finished("causal_gqa", testing::shipped_schedule(schedule)), is<tile::Sync>);
  CHECK(syncs > 8);
}

TEST_CASE("a program with rings is rejected without any sync that its loops need") {
  const tile::Program program = finished("causal_gqa", with_rings());
  int rejected = 0;
  int accepted = 0;
  std::string removed;
  while (const std::optional<tile::Program> faulty = without(program, rejected + accepted, is<tile::Sync>, removed)) {
    try {
      verify(*faulty, "plan_memory");
      ++accepted;
    } catch (const InternalError&) {
      ++rejected;
    }
  }
  // In front of the loops one may stand between copies into two slots, which never meet.
  CHECK(accepted <= 2);
  // One in front of the first reader of what came before the loop, one in it for all slots.
  CHECK(rejected >= 2);
}

TEST_CASE("a program without one of its first writes is rejected") {
  for (const std::string& schedule : kSchedules) {
    const tile::Program program = finished("causal_gqa", testing::shipped_schedule(schedule));
    INFO(schedule);
    check_removals(program, is<tile::Fill>);
    CHECK(check_removals(program, is_load) > 2);
  }
}

TEST_CASE("a program that never makes a share whole is rejected") {
  for (const std::string& schedule : kSchedules) {
    INFO(schedule);
    const int shares = check_removals(finished("causal_gqa", testing::shipped_schedule(schedule)), is<tile::AllReduce>);
    CHECK(shares > 0);
  }
}

TEST_CASE("a program that keeps a slot, or reads one that it does not hold, is rejected") {
  const tile::Program program = finished("causal_gqa", with_rings());
  CHECK(check_removals(program, is<tile::Acquire>) > 1);
  CHECK(check_removals(program, is<tile::Release>) > 1);
}
