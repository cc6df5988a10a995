// Searches in monotone inputs as the CPU backend emits them: documents of random lengths and of edge cases, against the
// evaluator. One build a schedule serves all of them.

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "api/check_outputs.h"
#include "tests/support/case_run.h"

namespace astatide::testing {
namespace {

/// The number of the document of each of `count` places; each document is as long as `length` says of its number.
std::vector<std::int64_t> documents(std::int64_t count, const std::function<std::int64_t(std::int64_t)>& length) {
  std::vector<std::int64_t> out;
  for (std::int64_t document = 0; static_cast<std::int64_t>(out.size()) < count; ++document)
    out.insert(out.end(), static_cast<std::size_t>(length(document)), document);
  out.resize(static_cast<std::size_t>(count));
  return out;
}

struct Documents {
  std::vector<std::int64_t> rows, keys;  // of both items, the same
};

Case document_case(const Documents& documents) {
  const auto sq = static_cast<std::int64_t>(documents.rows.size()),
             sk = static_cast<std::int64_t>(documents.keys.size());
  Case c;
  c.algorithm = load_algorithm("document_mask");
  c.extents = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", sq}, {"Sk", sk}, {"D", 16}, {"Dv", 16}};
  c.inputs = {{"Q", gaussian(ScalarType::f32, {2, 2, sq, 16}, 1)},
              {"K", gaussian(ScalarType::f32, {2, 1, sk, 16}, 2)},
              {"V", gaussian(ScalarType::f32, {2, 1, sk, 16}, 3)}};
  const auto of = [](const std::vector<std::int64_t>& numbers) {
    // In the second item all are the third's.
    return filled(ScalarType::i32, {2, static_cast<std::int64_t>(numbers.size())}, [&](const Index& at) {
      return at[0] == 0 ? static_cast<double>(numbers[static_cast<std::size_t>(at[1])]) : 2.0;
    });
  };
  c.inputs["doc_q"] = of(documents.rows);
  c.inputs["doc_k"] = of(documents.keys);
  return c;
}

void require_as_evaluated(const Documents& documents, const std::string& schedule) {
  const Case c = document_case(documents);
  INFO(schedule << ", " << documents.rows.size() << " rows, " << documents.keys.size() << " keys");
  for (const OutputCheck& check :
       check_outputs(c.algorithm, c.extents, {{"scale", 0.25}}, c.inputs, run_case(c, schedule, Device::cpu()))) {
    INFO(check.name << " error " << check.max_abs_error << " of at most " << check.limit);
    REQUIRE(check.ok());
  }
}

const std::vector<std::string> kSchedules = {"cpu/flash2", "cpu/standard", "cpu/flash1"};

}  // namespace

TEST_CASE("documents of edge cases come out of the CPU as the evaluator says") {
  const auto all = [](std::int64_t count, std::int64_t length) {
    return documents(count, [=](std::int64_t) { return length; });
  };
  for (const std::string& schedule : kSchedules) {
    require_as_evaluated({all(70, 1000), all(200, 1000)}, schedule);                  // one document
    require_as_evaluated({all(70, 1), all(70, 1)}, schedule);                         // each row its own
    require_as_evaluated({all(128, 32), all(256, 64)}, schedule);                     // ends at tiles' ends
    require_as_evaluated({all(128, 64), all(512, 256)}, schedule);                    // the same
    require_as_evaluated({all(5, 2), {}}, schedule);                                  // no keys
    require_as_evaluated({all(1, 1), all(1, 1)}, schedule);                           // one of each
    require_as_evaluated({std::vector<std::int64_t>(40, -3), all(90, 7)}, schedule);  // rows that see nothing
    require_as_evaluated({std::vector<std::int64_t>(40, 99), all(90, 7)}, schedule);
  }
}

TEST_CASE("documents of random lengths come out of the CPU as the evaluator says") {
  std::mt19937 random(41);
  for (int n = 0; n < 12; ++n) {
    const auto most = static_cast<std::int64_t>(1 + random() % 120);
    const auto length = [&](std::int64_t) { return static_cast<std::int64_t>(random() % (most + 1)); };
    const auto rows = static_cast<std::int64_t>(1 + random() % 150), keys = static_cast<std::int64_t>(random() % 400);
    INFO("draw " << n);
    require_as_evaluated({documents(rows, length), documents(keys, length)}, kSchedules[random() % kSchedules.size()]);
  }
}

}  // namespace astatide::testing
