// What a hostile file can make of the reader is bounded: an error at once, not a long wait or a full memory.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "compiler/algorithm/algorithm.h"
#include "tests/support/messages.h"

namespace astatide::testing {
namespace {

constexpr double kSeconds = 20;  // under sanitizers on a loaded machine; far less elsewhere

std::string repeat(const std::string& text, int times) {
  std::string out;
  out.reserve(text.size() * static_cast<std::size_t>(times));
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string file_with(const std::string& lines, const std::string& extents = "N") {
  return "algorithm: hostile\nextents: [" + extents + "]\ninputs: {x: [N]}\ndefine:\n" + lines + "outputs: [O]\n";
}

struct Refusal {
  std::string text;
  std::size_t problems = 0;
};

Refusal refusal(const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  Refusal out{"accepted", 0};
  try {
    parse_algorithm(text, "hostile.yaml");
  } catch (const UserError& error) {
    out = {error.what(), error.diagnostics().size()};
  }
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < kSeconds);
  return out;
}

}  // namespace

TEST_CASE("A file of more than a mebibyte is refused") {
  CHECK(contains(refusal(std::string(1024 * 1024 + 1, 'a')).text, "the file has 1048577 bytes, the limit is 1048576"));
}

TEST_CASE("An expression of more than 64 KiB is refused") {
  const std::string sum = "x[i" + repeat(" + 0*i", 12000) + "]";
  CHECK(contains(refusal(file_with("  - O[i] = " + sum + "\n")).text, "characters, the limit is 65536"));
}

TEST_CASE("Nesting of every kind is bounded") {
  for (const auto& [open, close] :
       {std::pair("(", ")"), std::pair("exp(", ")"), std::pair("-", ""), std::pair("x[", "]"),
        std::pair("max(j, j + ", ")"), std::pair("select(i < 1, 2, ", ")")}) {
    INFO(open);
    CHECK(contains(refusal(file_with("  - O[i] = " + repeat(open, 3000) + "1" + repeat(close, 3000) + "\n")).text,
                   "nests deeper than 200"));
  }
  CHECK(contains(refusal(file_with("  - O[i] = x[i] where " + repeat("not ", 3000) + "i < 1\n")).text,
                 "nests deeper than 200"));
}

TEST_CASE("YAML is bounded in depth and in values, and has no aliases to grow by") {
  CHECK(contains(refusal("algorithm: " + repeat("[", 100000)).text, "nest deeper than 16"));
  CHECK(contains(refusal("algorithm: " + repeat("{a: ", 100000)).text, "nest deeper than 16"));
  CHECK(contains(refusal("algorithm: [" + repeat("1,", 70000) + "1]").text, "more than 65536 values"));
  CHECK(contains(refusal("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n").text, "anchors and aliases are not read"));
}

TEST_CASE("Of very many mistakes the first hundred are told") {
  const Refusal many =
      refusal(file_with("  - \"O[i] = " + repeat("unknown + ", 150) + "0\"\n" + repeat("  - O[i] = typo[i]\n", 200)));
  CHECK(many.problems == 100);
}

TEST_CASE("Many names and many lines are looked up in good time") {
  std::string extents = "N";
  for (int i = 0; i < 255; ++i) extents += ", extent_number_" + std::to_string(i);
  const std::string unknown = "  - D[i] = " + repeat("extent_nomber_1 * ", 180) + "1\n";
  CHECK(refusal(file_with(repeat(unknown, 250), extents)).problems > 0);
  // Each axis gets its extent through the next definition only.
  std::string chain;
  for (int i = 0; i < 120; ++i) chain += "  - T" + std::to_string(i) + "[a" + std::to_string(i) + "] = 1\n";
  for (int i = 0; i < 119; ++i)
    chain += "  - R" + std::to_string(i) + "[] = sum(a" + std::to_string(i) + ", T" + std::to_string(i + 1) + "[a" +
             std::to_string(i) + "])\n";
  CHECK(contains(refusal(file_with(chain)).text, "has no extent"));
}

TEST_CASE("Bytes that are no text are refused") {
  CHECK(contains(refusal(std::string("algorithm: a\0b\n", 15)).text, "control character, byte 0"));
  CHECK(contains(refusal("\xff\xfe"
                         "a\n")
                     .text,
                 "error: "));
  CHECK(contains(refusal("\xef\xbb\xbf"
                         "algorithm: a\n")
                     .text,
                 "error: "));
}

}  // namespace astatide::testing
