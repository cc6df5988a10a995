#include <catch2/catch.hpp>

#include "tests/property/rewrite_cases.h"

// The properties of rewrite_streaming must be able to fail: recurrences that are wrong in one respect must not have
// them.

using namespace astatide;
using namespace astatide::test;

namespace {

constexpr unsigned kSeed = 8;

using Mutation = std::function<void(Recurrence&)>;

/// Checks of streams and trees that fail, over all worked cases, masked and not.
int failures_with(const Mutation& mutate) {
  std::mt19937 rng(kSeed);
  int failures = 0;
  for (const WorkedCase& worked : worked_cases()) {
    for (const bool masked : {false, true}) {
      const Algorithm algorithm = algorithm_of(worked, masked);
      const Cascade cascade = find_cascade(algorithm);
      Recurrence recurrence = derive_online(cascade);
      mutate(recurrence);
      for (int round = 0; round < 6; ++round) {
        const RowData row = random_row(rng, worked, 20, round % 3 == 0 ? 1 : 0.7);
        const RowExecutor executor(recurrence, row.inputs(algorithm));
        const RowOutputs wanted = evaluate_row(cascade, row.inputs(algorithm), positions_of(row));
        failures += difference(wanted, executor.finalize(stream(executor, rng, positions_of(row)))).empty() ? 0 : 1;
        failures += difference(wanted, executor.finalize(tree(executor, rng, positions_of(row)))).empty() ? 0 : 1;
      }
    }
  }
  return failures;
}

void in_every_expression(Recurrence& recurrence, const std::function<Expr(const Expr&)>& f) {
  for (Weight& weight : recurrence.weights) weight.value = transform(weight.value, f);
  for (Slot& slot : recurrence.slots) {
    slot.term = transform(slot.term, f);
    slot.move = transform(slot.move, f);
  }
  for (RowValue& value : recurrence.values) value.value = transform(value.value, f);
}

}  // namespace

TEST_CASE("the unchanged recurrences have no failure") {
  CHECK(failures_with([](Recurrence&) {}) == 0);
}

TEST_CASE("without the move of old sums the properties fail") {
  CHECK(failures_with([](Recurrence& recurrence) {
          for (Slot& slot : recurrence.slots) slot.move = variable(slot.name);
        }) > 100);
}

TEST_CASE("without the terms of other slots in a move the properties fail") {
  CHECK(failures_with([](Recurrence& recurrence) {
          for (Slot& slot : recurrence.slots) {
            slot.move = transform(slot.move, [&](const Expr& e) {
              const auto* first = e.is_call(Op::absorb) ? e.as<Call>()->args[0].as<Variable>() : nullptr;
              return first && first->name != slot.name ? Expr(0) : e;
            });
          }
        }) > 50);
}

TEST_CASE("without the guard on references of empty rows the properties fail") {
  CHECK(failures_with([](Recurrence& recurrence) {
          in_every_expression(recurrence,
                              [](const Expr& e) { return e.is_call(Op::safe) ? e.as<Call>()->args[0] : e; });
        }) > 100);
}

TEST_CASE("without zeros that absorb the properties fail") {
  CHECK(failures_with([](Recurrence& recurrence) {
          in_every_expression(recurrence, [](const Expr& e) {
            if (!e.is_call(Op::absorb)) return e;
            return call(Op::mul, e.as<Call>()->args);
          });
        }) > 50);
}

TEST_CASE("with a finite stand-in for the absent value the properties fail") {
  CHECK(failures_with([](Recurrence& recurrence) {
          for (Element& element : recurrence.elements) {
            if (std::isinf(element.absent)) element.absent = -1;
          }
        }) > 50);
}

TEST_CASE("without the masks of terms that no absent value suits the properties fail") {
  CHECK(failures_with([](Recurrence& recurrence) {
          for (Slot& slot : recurrence.slots) slot.masked = false;
        }) > 20);
}
