#include <catch2/catch.hpp>

#include "tests/property/rewrite_cases.h"

using namespace astatide;
using namespace astatide::test;

namespace {

/// Random cascades of up to four stages over s, r and earlier stages.
class RandomCascade {
 public:
  explicit RandomCascade(std::mt19937& rng) : rng_(rng) {}

  WorkedCase make() {
    WorkedCase made;
    made.name = "random";
    const int stages = 2 + below(3);
    for (int i = 0; i < stages; ++i) {
      const std::string name = "t" + std::to_string(i);
      const char* const op = i == 0 ? pick({"max", "sum", "min"}) : pick({"sum", "sum", "sum", "max"});
      made.define.push_back(name + "[i] = " + op + "(j, " + term(3) + " + 0 * s[i,j])");
      rows_.push_back(name + "[i]");
    }
    made.define.push_back("o[i] = " + rows_.back() + " / (1 + abs(" + rows_.front() + "))");
    made.outputs = "o";
    // What nothing reads is refused.
    std::string text;
    for (const std::string& row : rows_) text += (text.empty() ? "" : " + ") + std::string("0.5 * ") + row;
    made.define.back() = "o[i] = " + text;
    return made;
  }

 private:
  int below(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }
  template <std::size_t N>
  const char* pick(const char* const (&choices)[N]) {
    return choices[below(N)];
  }

  std::string row() {
    if (rows_.empty()) return "0.7";
    return rows_[static_cast<std::size_t>(below(static_cast<int>(rows_.size())))];
  }

  std::string along() { return pick({"s[i,j]", "r[i,j]", "s[i,j]", "1.5"}); }

  std::string term(int depth) {
    if (depth == 0) return below(3) == 0 ? row() : along();
    const std::string a = term(depth - 1);
    switch (below(11)) {
      case 0:
        return "(" + a + " + " + term(depth - 1) + ")";
      case 1:
        return "(" + a + " - " + term(depth - 1) + ")";
      case 2:
      case 3:
        return "(" + a + " * " + term(depth - 1) + ")";
      case 4:
        return "(" + a + " / " + row() + ")";
      case 5:
        return "exp(" + along() + " - " + row() + ") * " + a;
      case 6:
        return "exp2(0.5 * " + along() + ") * " + a;
      case 7:
        return "(" + along() + " - " + row() + ") * (" + along() + " - " + row() + ")";
      case 8:
        return "tanh(" + along() + ") * " + a;
      case 9:
        return "abs(" + row() + ") * " + a;
      default:
        return "select(" + along() + " == " + row() + ", " + a + ", 0)";
    }
  }

  std::mt19937& rng_;
  std::vector<std::string> rows_;
};

std::string listing(const WorkedCase& made) {
  std::string text;
  for (const std::string& line : made.define) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("whatever random cascade has a streaming form, it is the right one") {
  const unsigned seed = 10;
  std::mt19937 rng(seed);
  int derived = 0, refused = 0;
  for (int round = 0; round < 200; ++round) {
    const WorkedCase made = RandomCascade(rng).make();
    for (const bool masked : {false, true}) {
      const Algorithm algorithm = algorithm_of(made, masked);
      const Cascade cascade = find_cascade(algorithm);
      Recurrence recurrence;
      try {
        recurrence = derive_online(cascade);
      } catch (const UserError&) {
        ++refused;
        continue;
      }
      ++derived;
      for (int row_round = 0; row_round < 4; ++row_round) {
        const RowData row = random_row(rng, made, 1 + static_cast<std::int64_t>(rng() % 12), 0.4);
        const RowInputs inputs = row.inputs(algorithm);
        const RowOutputs wanted = evaluate_algorithm(algorithm, row);
        // A division by zero, or sums so large that their differences have no digits, show nothing.
        if (!(std::abs(wanted.at("o")[0]) < 1e6)) continue;
        const RowExecutor executor(recurrence, inputs);
        INFO("seed " << seed << ", round " << round << (masked ? ", masked" : "") << "\n"
                     << listing(made) << print_recurrence(recurrence));
        REQUIRE(difference(wanted, executor.finalize(stream(executor, rng, positions_of(row))), 1e-5) == "");
        REQUIRE(difference(wanted, executor.finalize(tree(executor, rng, positions_of(row))), 1e-5) == "");
      }
    }
  }
  INFO("seed " << seed);
  CHECK(derived > 100);
  CHECK(refused > 10);
}
