// Where copies ahead stand in their loops, and what their slots are waited with.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/case_data.h"
#include "tests/support/messages.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

/// The first kernel behind stage_tiles, for bf16.
tile::Kernel staged(const std::string& schedule_name) {
  const Schedule schedule = parse_schedule(shipped_schedule(schedule_name), schedule_name + ".yaml");
  const CompileOptions options{*find_target(schedule.target), {{"D", 64}, {"Dv", 64}}, ScalarType::bf16};
  tile::Kernel out;
  compile(example_algorithm("attention"), schedule, options, [&](std::string_view stage, const tile::Program& program) {
    if (stage == "stage_tiles") out = program.kernels.at(0);
  });
  return out;
}

/// What a block's first loop over tiles of keys does.
const tile::Block& first_loop(const tile::Kernel& kernel) {
  for (const tile::Stmt& stmt : kernel.body)
    if (const auto* loop = std::get_if<tile::For>(&stmt.node); loop && loop->var == "j_o") return loop->body;
  throw InternalError("no loop over j_o");
}

/// A line for each statement of a block: loops and branches by their first lines.
std::vector<std::string> lines_of(const tile::Block& block) {
  std::vector<std::string> out;
  for (const tile::Stmt& stmt : block) {
    const std::string text = tile::print(stmt);
    out.push_back(text.substr(0, text.find('\n')));
  }
  return out;
}

bool copies_ahead(const std::string& line) { return line.starts_with("if ") && line.ends_with("uniform block"); }

std::ptrdiff_t place_of(const std::vector<std::string>& lines, const std::function<bool(const std::string&)>& is) {
  return std::find_if(lines.begin(), lines.end(), is) - lines.begin();
}

std::function<bool(const std::string&)> begins_with(std::string start) {
  return [start = std::move(start)](const std::string& line) { return line.starts_with(start); };
}

}  // namespace

TEST_CASE("a warp that meets by itself fills a slot again as soon as it is released: all slots are under way") {
  const tile::Kernel kernel = staged("sm80/decode");
  const std::vector<std::string> block = lines_of(kernel.body);
  // Q is asked for behind the rings' first slots, and waited for behind what fills them all.
  const auto q = place_of(block, begins_with("copy Q_s <-"));
  const auto first = place_of(block, copies_ahead);
  const auto await = place_of(block, begins_with("await Q_s_copied"));
  REQUIRE(await < static_cast<std::ptrdiff_t>(block.size()));
  CHECK(q == first + 1);
  CHECK(await - first == 4);  // a branch for each slot

  const std::vector<std::string> body = lines_of(first_loop(kernel));
  CHECK(body.front() == "acquire K_s open 2");
  CHECK(body.at(1) == "acquire V_s open 2");
  REQUIRE(copies_ahead(body.back()));
  CHECK(contains(body.back(), "j_o + 3 <"));
  CHECK(body.at(body.size() - 2).starts_with("release"));
}

TEST_CASE("several warps fill the slot that was read last behind the meeting of the next iteration") {
  const tile::Kernel kernel = staged("sm80/flash2");
  const int ring = kernel.find("K_s")->ring;
  const std::vector<std::string> body = lines_of(first_loop(kernel));
  CHECK(body.front() == (ring > 2 ? fmt::format("acquire K_s open {}", ring - 2) : "acquire K_s"));
  const auto copies = place_of(body, copies_ahead);
  CHECK(copies > place_of(body, begins_with("mma S")));
  CHECK(copies < place_of(body, begins_with("release")));
  CHECK(contains(body.at(static_cast<std::size_t>(copies)), fmt::format("j_o + {} <", ring - 1)));
}

}  // namespace astatide::testing
