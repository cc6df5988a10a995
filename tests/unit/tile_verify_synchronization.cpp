#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/schedule_cases.h"

// What threads wait for, counted without a run.

namespace astatide::testing {
namespace {

tile::Program finished(const std::string& name) {
  const Schedule schedule = parse_schedule(shipped_schedule(name), name);
  const Algorithm algorithm = example_algorithm("attention");
  std::map<std::string, std::int64_t> sizes = algorithm.sizes;
  sizes["D"] = sizes["Dv"] = 64;
  return compile(algorithm, schedule, {*find_target(schedule.target), sizes, ScalarType::f16});
}

std::string fault_of(const tile::Program& program) {
  try {
    tile::verify(program, "plan_memory");
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

/// The program with the blocks of one role changed, loops and all.
tile::Program changed(tile::Program program, const std::string& role,
                      const std::function<tile::Block(tile::Block)>& change) {
  for (tile::Stmt& stmt : program.kernels[0].body)
    if (auto* found = std::get_if<tile::Role>(&stmt.node); found && found->name == role)
      found->body = tile::transform_blocks(found->body, change);
  return program;
}

bool fills(const tile::Stmt& stmt, const std::string& ring) {
  const auto* reserve = std::get_if<tile::Reserve>(&stmt.node);
  const auto* copy = std::get_if<tile::Copy>(&stmt.node);
  const auto* dst = copy ? std::get_if<tile::TileName>(&copy->dst) : nullptr;
  return (reserve && reserve->tile == ring) || (dst && *dst == ring);
}

}  // namespace

TEST_CASE("rule: producers and consumers do not wait for each other for ever") {
  const tile::Program program = finished("sm90/flash3");
  CHECK(fault_of(program).empty());
  const std::string unread = fault_of(changed(program, "producer", [](tile::Block block) {
    std::erase_if(block, [](const tile::Stmt& stmt) { return fills(stmt, "V_s"); });
    return block;
  }));
  CHECK_THAT(unread, Catch::Contains("the consumers wait for a full slot of V_s"));
  // The producer brings Q behind all keys, which fill their rings while the consumers wait for Q.
  int moved = 0;
  const std::string late = fault_of(changed(program, "producer", [&](tile::Block block) {
    tile::Block last;
    for (auto stmt = block.begin(); stmt != block.end();)
      if (fills(*stmt, "Q_s")) {
        last.push_back(std::move(*stmt));
        stmt = block.erase(stmt);
        ++moved;
      } else {
        ++stmt;
      }
    block.insert(block.end(), last.begin(), last.end());
    return block;
  }));
  REQUIRE(moved == 2);
  CHECK_THAT(late, Catch::Contains("the producer waits for a free slot of K_s, the consumers for a full one of Q_s"));
}

TEST_CASE("rule: named barriers are apart and a block has 16") {
  // Turns of eight warpgroups, and the barriers of their own threads, are more than there are.
  tile::Program program = finished("sm90/flash3_tma_store");
  CHECK(fault_of(program).empty());
  program.kernels[0].thread_rows *= 8;
  CHECK(!fault_of(program).empty());
}

}  // namespace astatide::testing
