#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/property/rewrite_cases.h"

using namespace astatide;
using namespace astatide::test;

namespace {

constexpr int kRounds = 30;

std::vector<std::string> slot_names(const Recurrence& recurrence) {
  std::vector<std::string> names;
  for (const Slot& slot : recurrence.slots) names.push_back(slot.name);
  return names;
}

}  // namespace

TEST_CASE("each worked cascade carries the slots that its algebra needs and no more") {
  for (const WorkedCase& worked : worked_cases()) {
    INFO(worked.name);
    const Recurrence recurrence = derive_online(find_cascade(algorithm_of(worked)));
    INFO(print_recurrence(recurrence));
    CHECK(slot_names(recurrence) == worked.slots);
  }
}

TEST_CASE("any tiling, any order and any tree of merges give what the definition says") {
  const unsigned seed = 1;
  std::mt19937 rng(seed);
  for (const WorkedCase& worked : worked_cases()) {
    for (const bool masked : {false, true}) {
      const Algorithm algorithm = algorithm_of(worked, masked);
      const Cascade cascade = find_cascade(algorithm);
      const Recurrence recurrence = derive_online(cascade);
      const std::string text = print_recurrence(recurrence);
      for (int round = 0; round < kRounds; ++round) {
        INFO(worked.name << (masked ? ", masked" : "") << ", seed " << seed << ", round " << round << "\n" << text);
        const auto length = 1 + static_cast<std::int64_t>(rng() % 32);
        const RowData row = random_row(rng, worked, length, round % 8 == 0 ? 1 : 0.5);
        const RowExecutor executor(recurrence, row.inputs(algorithm));
        std::vector<std::int64_t> positions = positions_of(row);
        const RowOutputs wanted = evaluate_row(cascade, row.inputs(algorithm), positions);
        REQUIRE(difference(wanted, executor.finalize(stream(executor, rng, positions))) == "");
        std::shuffle(positions.begin(), positions.end(), rng);
        REQUIRE(difference(wanted, executor.finalize(stream(executor, rng, positions))) == "");
        REQUIRE(difference(wanted, executor.finalize(tree(executor, rng, positions))) == "");
      }
    }
  }
}

TEST_CASE("combine is associative and commutative, and the state of no element is its identity") {
  const unsigned seed = 2;
  std::mt19937 rng(seed);
  for (const WorkedCase& worked : worked_cases()) {
    for (const bool masked : {false, true}) {
      const Algorithm algorithm = algorithm_of(worked, masked);
      const Recurrence recurrence = derive_online(find_cascade(algorithm));
      const std::string text = print_recurrence(recurrence);
      for (int round = 0; round < kRounds; ++round) {
        INFO(worked.name << (masked ? ", masked" : "") << ", seed " << seed << ", round " << round << "\n" << text);
        const RowData row = random_row(rng, worked, 30, 0.6);
        const RowExecutor executor(recurrence, row.inputs(algorithm));
        std::vector<RowState> states;
        for (std::int64_t first : {0, 10, 20}) {
          std::vector<std::int64_t> part;
          for (std::int64_t j = first; j < first + 1 + static_cast<std::int64_t>(rng() % 10); ++j) part.push_back(j);
          states.push_back(stream(executor, rng, part));
        }
        const RowState &a = states[0], &b = states[1], &c = states[2];
        const RowState none = executor.identity();
        REQUIRE(difference(recurrence, executor.combine(executor.combine(a, b), c),
                           executor.combine(a, executor.combine(b, c)), 1e-8) == "");
        REQUIRE(difference(recurrence, executor.combine(a, b), executor.combine(b, a)) == "");
        REQUIRE(difference(recurrence, a, executor.combine(a, none)) == "");
        REQUIRE(difference(recurrence, a, executor.combine(none, a)) == "");
        REQUIRE(difference(recurrence, none, executor.combine(none, none)) == "");
        REQUIRE(difference(recurrence, a, executor.step(a, {})) == "");
      }
    }
  }
}

TEST_CASE("tiles without a present element in front of a row change nothing, by step and by combine") {
  const unsigned seed = 3;
  std::mt19937 rng(seed);
  for (const WorkedCase& worked : worked_cases()) {
    const Algorithm algorithm = algorithm_of(worked, true);
    const Cascade cascade = find_cascade(algorithm);
    const Recurrence recurrence = derive_online(cascade);
    const std::string text = print_recurrence(recurrence);
    for (int round = 0; round < kRounds; ++round) {
      INFO(worked.name << ", seed " << seed << ", round " << round << "\n" << text);
      RowData row = random_row(rng, worked, 20, 0);
      std::vector<std::int64_t> masked, present;
      for (std::int64_t j = 0; j < 20; ++j) {
        row.keep[static_cast<std::size_t>(j)] = j < 5 ? 0 : 1;
        (j < 5 ? masked : present).push_back(j);
      }
      const RowExecutor executor(recurrence, row.inputs(algorithm));
      const RowOutputs wanted = evaluate_row(cascade, row.inputs(algorithm), positions_of(row));
      const RowState empty = executor.step(executor.identity(), masked);
      REQUIRE(difference(wanted, executor.finalize(executor.step(empty, present))) == "");
      const RowState full = executor.step(executor.identity(), present);
      REQUIRE(difference(wanted, executor.finalize(executor.combine(empty, full))) == "");
      REQUIRE(difference(wanted, executor.finalize(executor.step(full, masked))) == "");
    }
  }
}

TEST_CASE("scores of minus infinity in the data, up to a whole row of them, make no NaN") {
  const unsigned seed = 4;
  std::mt19937 rng(seed);
  const std::vector<std::string> names{"softmax and logsumexp",
                                       "softmax written by hand",
                                       "base 2, folded scale",
                                       "sink inside the reference",
                                       "logsumexp only",
                                       "entropy",
                                       "textbook softmax without a maximum"};
  for (const WorkedCase& worked : worked_cases()) {
    if (std::find(names.begin(), names.end(), worked.name) == names.end()) continue;
    const Algorithm algorithm = algorithm_of(worked);
    const Recurrence recurrence = derive_online(find_cascade(algorithm));
    const std::string text = print_recurrence(recurrence);
    for (int round = 0; round < kRounds; ++round) {
      INFO(worked.name << ", seed " << seed << ", round " << round << "\n" << text);
      RowData row = random_row(rng, worked, 12, 0);
      for (double& score : row.s) {
        if (round == 0 || rng() % 2 == 0) score = -std::numeric_limits<double>::infinity();
      }
      const RowExecutor executor(recurrence, row.inputs(algorithm));
      for (const RowState& state : {stream(executor, rng, positions_of(row)), tree(executor, rng, positions_of(row))}) {
        for (const auto& [name, values] : executor.finalize(state)) {
          for (double value : values) REQUIRE_FALSE(std::isnan(value));
        }
      }
    }
  }
}
