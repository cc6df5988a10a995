// Expressions as C have the values of the evaluator, and fault where that refuses.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>
#include <sstream>

#include "api/c_text.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/exported_program.h"
#include "tests/support/skip.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

const std::map<std::string, std::pair<std::int64_t, std::int64_t>> kRanges = {
    {"a", {0, 2147418112}}, {"b", {0, 2147418112}}, {"c", {64, 64}}, {"d", {-9, 9}}};

/// A random expression of integers, or of reals with `real`.
Expr random_expr(std::mt19937& random, int depth, bool real) {
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  if (depth == 0 || pick(6) == 0) {
    if (pick(3) == 0) return real ? Expr((pick(40) - 20) / 8.0) : Expr(pick(40) - 20);
    return variable(std::next(kRanges.begin(), pick(4))->first);
  }
  const auto operand = [&] { return random_expr(random, depth - 1, real); };
  static const std::vector<Op> kIntegers = {Op::add, Op::sub,    Op::mul,         Op::mul,        Op::floor_div,
                                            Op::mod, Op::min,    Op::max,         Op::lt,         Op::le,
                                            Op::gt,  Op::ge,     Op::eq,          Op::ne,         Op::neg,
                                            Op::abs, Op::select, Op::logical_and, Op::logical_or, Op::logical_not};
  static const std::vector<Op> kReals = {Op::add,  Op::sub,     Op::mul,  Op::div,    Op::mod,      Op::min,
                                         Op::max,  Op::neg,     Op::exp,  Op::exp2,   Op::log,      Op::log2,
                                         Op::tanh, Op::sigmoid, Op::sqrt, Op::abs,    Op::pow,      Op::lt,
                                         Op::ge,   Op::select,  Op::safe, Op::absorb, Op::floor_div};
  const std::vector<Op>& ops = real ? kReals : kIntegers;
  const Op op = ops[static_cast<std::size_t>(pick(static_cast<int>(ops.size())))];
  std::vector<Expr> args;
  for (int n = 0; n < info(op).arity; ++n) args.push_back(operand());
  return call(op, args);
}

/// Compiles a main of these statements, and gives the lines that it prints.
std::vector<std::string> lines_of(const std::string& statements) {
  const TemporaryFolder folder;
  write_bytes(folder / "main.c",
              "#include <inttypes.h>\n#include <stdio.h>\n#include \"astatide_stub.h\"\nint main(void) {\n" +
                  statements + "  return 0;\n}\n");
  const ProgramResult compiled = run_program(
      "/usr/bin/env",
      {"cc", "-std=c11", "-w", "-O0", "-ffp-contract=off", "-fsanitize=undefined", "-fno-sanitize=float-divide-by-zero",
       "-fno-sanitize-recover=all", "-I" + source_path("runtime/stub").string(), (folder / "main.c").string(),
       source_path("runtime/stub/astatide_stub.c").string(), "-ldl", "-lm", "-o", (folder / "main").string()});
  INFO(compiled.err);
  REQUIRE(compiled.code == 0);
  const ProgramResult run = run_program(folder / "main", {});
  INFO(run.err);
  REQUIRE(run.code == 0);
  std::vector<std::string> lines;
  std::istringstream out(run.out);
  for (std::string line; std::getline(out, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("integers in C are those of evaluate_integer, and leave 64 bits or divide by 0 where it throws") {
  if (!has_c_compiler()) ASTATIDE_SKIP("no C compiler: cc");
  std::mt19937 random(11);
  const CNames names = [](const std::string& name) {
    const auto [least, most] = kRanges.at(name);
    return CName{name, static_cast<double>(least), static_cast<double>(most)};
  };
  std::string statements;
  std::vector<std::string> expected, texts;
  int faults = 0;
  while (expected.size() < 300) {
    const Expr e = random_expr(random, 5, false);
    std::map<std::string, std::int64_t> values;
    std::string declared;
    for (const auto& [name, range] : kRanges) {
      const std::int64_t picks[] = {range.first, range.second, std::min<std::int64_t>(range.first + 3, range.second),
                                    range.second - range.second / 3};
      values[name] = picks[random() % 4];
      declared += fmt::format("int64_t {} = INT64_C({}); ", name, values[name]);
    }
    bool uses_fault = false;
    std::string text;
    try {
      text = integer_in_c(e, names, uses_fault);
    } catch (const UserError&) {
      continue;  // a constant that has no value
    }
    try {
      expected.push_back(std::to_string(evaluate_integer(e, values)));
    } catch (const UserError&) {
      CHECK(uses_fault);
      ++faults;
      expected.push_back("fault");
    }
    texts.push_back(to_string(e) + "\n" + text);
    statements += fmt::format(
        "  {{ {}int fault = 0; int64_t v = {}; if (fault) puts(\"fault\"); else printf(\"%\" PRId64 \"\\n\", v); }}\n",
        declared, text);
  }
  CHECK(faults > 10);
  const std::vector<std::string> found = lines_of(statements);
  REQUIRE(found.size() == expected.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    INFO(texts[n]);
    CHECK(found[n] == expected[n]);
  }
}

TEST_CASE("reals in C are those of evaluate_real") {
  if (!has_c_compiler()) ASTATIDE_SKIP("no C compiler: cc");
  std::mt19937 random(12);
  std::string statements;
  std::vector<double> expected;
  std::vector<std::string> texts;
  for (int n = 0; n < 200; ++n) {
    const Expr e = random_expr(random, 4, true);
    std::map<std::string, double> values = {{"a", 1000}, {"b", 0.5}, {"c", 64}, {"d", n % 3 - 1.0}};
    const std::string text = real_in_c(e, [](const std::string& name) { return name; });
    expected.push_back(evaluate_real(e, values));
    texts.push_back(to_string(e) + "\n" + text);
    statements += fmt::format("  {{ double a = 1000, b = 0.5, c = 64, d = {}; printf(\"%a\\n\", (double)({})); }}\n",
                              values["d"], text);
  }
  const std::vector<std::string> found = lines_of(statements);
  REQUIRE(found.size() == expected.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    INFO(texts[n] << " is " << found[n] << ", expected " << expected[n]);
    const double value = std::strtod(found[n].c_str(), nullptr);
    CHECK((value == expected[n] || (std::isnan(value) && std::isnan(expected[n]))));
  }
}

TEST_CASE("text of others can't leave a string or a comment of C") {
  CHECK(c_string("a\"b\\c\n?\x80") == R"("a\042b\134c\012\077\200")");
}
