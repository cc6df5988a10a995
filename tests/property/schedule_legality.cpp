#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "compiler/schedule/directives.h"
#include "tests/support/schedule_cases.h"

// The checks against random changes of shipped schedules: they end in a verdict, and what they propose is legal.

namespace astatide {
namespace {

constexpr std::uint64_t kMutations = 400;

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  template <class T>
  const T& any_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  LoopName loop() {
    return any_of<std::string>({"b", "h", "i", "j", "i.o", "j.o", "i.i", "j.i", "d", "e.o", "x", "b.o"});
  }
  std::string name() { return any_of<std::string>({"S", "A", "P", "O", "L", "Q", "K", "V", "X"}); }

  DirectiveValue value(const DirectiveInfo& info) {
    const std::int64_t number = any_of<std::int64_t>({1, 2, 3, 4, 8, 16, 32, 64, 65, 128, 1024, 0, -1, INT64_MAX});
    switch (info.form) {
      case ValueForm::flag:
        return true;
      case ValueForm::integer:
        return number;
      case ValueForm::integer_pair:
        return std::vector<std::int64_t>{number, any_of<std::int64_t>({1, 4, 16, 32, 64})};
      case ValueForm::loop:
        return loop();
      case ValueForm::loops: {
        std::vector<LoopName> loops = {"b", "h", "i.o", "j.o"};
        std::shuffle(loops.begin(), loops.end(), random_);
        loops.resize(1 + below(4));
        if (below(4) == 0) loops.push_back(loop());
        return loops;
      }
      case ValueForm::axis_numbers:
        return AxisNumbers{{any_of<std::string>({"i", "j", "d", "e", "h", "x"}), number}};
      case ValueForm::spaces:
        if (below(4) == 0) return std::vector<std::string>{"shared", "register"};
        return any_of<std::string>({"shared", "register", "global"});
      default:
        return false;
    }
  }

  void change(Schedule& schedule) {
    const auto& table = directive_table();
    Placement& placement = schedule.placements[below(schedule.placements.size())];
    switch (below(7)) {
      case 0:
        schedule.rewrite = below(2) == 0 ? RewriteMode::none : RewriteMode::online;
        break;
      case 1:
        schedule.bound = {{any_of<std::string>({"Sk", "Sq", "D", "B"}), std::int64_t{1} << below(41)}};
        break;
      case 2:
        schedule.target = any_of(known_targets()).name;
        break;
      case 3:
        placement.name = name();
        break;
      case 4:
        if (!placement.directives.empty())
          placement.directives.erase(placement.directives.begin() +
                                     static_cast<std::ptrdiff_t>(below(placement.directives.size())));
        break;
      case 5: {
        const DirectiveInfo& info = table[3 + below(table.size() - 3)];
        placement.directives.push_back({*info.kind, value(info), {}});
        break;
      }
      default:
        if (!placement.directives.empty()) {
          Directive& directive = placement.directives[below(placement.directives.size())];
          directive.value = value(directive_info(directive.kind));
        }
    }
  }

 private:
  std::mt19937_64 random_;
};

TEST_CASE("any change of a schedule is found legal, or is refused as the user's error with something to say") {
  int legal = 0;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < kMutations; ++seed) {
    Mutator mutator(seed);
    const Algorithm algorithm = testing::example_algorithm(
        mutator.any_of<std::string>({"attention", "causal_gqa", "sigmoid_attention", "entropy"}));
    Schedule schedule =
        parse_schedule(testing::shipped_schedule(mutator.any_of(testing::shipped_schedule_names())), "s");
    for (std::size_t n = mutator.below(4); n > 0; --n) mutator.change(schedule);
    const Target& target = mutator.any_of(known_targets());
    INFO("seed " << seed << "\n" << print_schedule(schedule) << "on " << target.name);
    std::map<std::string, std::int64_t> sizes = {{"D", 64}, {"Dv", 64}};
    if (mutator.below(4) == 0) sizes["Sk"] = std::int64_t{1} << mutator.below(62);
    try {
      check_legal(schedule, algorithm, target, sizes, ScalarType::f32);
      ++legal;
    } catch (const UserError& error) {
      REQUIRE_FALSE(error.diagnostics().empty());
      for (const Diagnostic& problem : error.diagnostics()) REQUIRE_FALSE(problem.message.empty());
      ++refused;
    }
  }
  // Both verdicts are met often, else the changes test nothing.
  CHECK(legal > 20);
  CHECK(refused > 100);
}

TEST_CASE("each place that a refusal lists as legal is accepted") {
  const std::vector<LoopName> loops = {"b", "h", "i.o", "j.o", "i", "j", "i.i", "d", "x.o"};
  int proposed = 0;
  for (const std::string& name : testing::shipped_schedule_names()) {
    for (const std::string owner : {"S", "P", "Q", "K", "V"}) {
      for (const LoopName& loop : loops) {
        Schedule schedule = parse_schedule(testing::shipped_schedule(name), name);
        const auto placement = std::find_if(schedule.placements.begin(), schedule.placements.end(),
                                            [&](const Placement& p) { return p.name == owner; });
        std::string* place = nullptr;
        for (Directive& directive : placement->directives)
          if (directive.kind == DirectiveKind::compute_at || directive.kind == DirectiveKind::stage_at)
            place = &std::get<std::string>(directive.value);
        if (place == nullptr) continue;
        *place = loop;
        const Algorithm algorithm = testing::example_algorithm("causal_gqa");
        const auto problems = [&]() -> std::vector<Diagnostic> {
          try {
            check_legal(schedule, algorithm, *find_target(schedule.target), {{"D", 40}, {"Dv", 40}}, ScalarType::f32);
          } catch (const UserError& error) {
            return error.diagnostics();
          }
          return {};
        };
        for (const Diagnostic& problem : problems()) {
          for (const std::string& note : problem.notes) {
            const std::string start = "legal for " + owner + " is ";
            if (!note.starts_with(start)) continue;
            *place = note.substr(start.size(), note.find(" of ") - start.size());
            INFO(name << ": " << owner << " at " << loop << " -> " << *place);
            CHECK(problems().empty());
            ++proposed;
          }
        }
      }
    }
  }
  CHECK(proposed > 100);
}

}  // namespace
}  // namespace astatide
