// What each warpgroup of consumers reads, against every element of small problems.

#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "tests/support/case_run.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

using Integers = std::map<std::string, std::int64_t>;

/// One warpgroup's way through the rings, or the producer's.
struct Walk {
  struct Slot {
    std::int64_t tile;  // along j
    bool read, masked;
  };
  Integers values;
  std::optional<std::int64_t> warpgroup;  // nothing: the producer
  std::map<std::string, std::vector<Slot>> rings;

  void run(const tile::Block& block, const std::string& name_of_warpgroup) {
    for (std::size_t n = 0; n < block.size(); ++n) {
      const tile::Stmt& stmt = block[n];
      if (const auto* let = std::get_if<tile::Let>(&stmt.node)) {
        if (warpgroup) values[name_of_warpgroup] = *warpgroup;
        values[let->name] = evaluate_integer(warpgroup && let->own ? *let->own : let->value, values);
      } else if (const auto* reserve = std::get_if<tile::Reserve>(&stmt.node)) {
        if (!warpgroup) add(reserve->tile, true, false);
      } else if (const auto* acquire = std::get_if<tile::Acquire>(&stmt.node)) {
        const auto* release = n + 1 < block.size() ? std::get_if<tile::Release>(&block[n + 1].node) : nullptr;
        if (warpgroup) add(acquire->tile, !release || !release->apart, tests_place(block));
      } else if (const auto* loop = std::get_if<tile::For>(&stmt.node)) {
        run(*loop, name_of_warpgroup);
      }
    }
  }

 private:
  void run(const tile::For& loop, const std::string& name_of_warpgroup) {
    const std::int64_t begin = evaluate_integer(loop.begin, values);
    const std::int64_t end = loop.kind == tile::For::Kind::once ? begin + 1 : evaluate_integer(loop.end, values);
    for (std::int64_t n = begin; n < end; ++n) {
      values[loop.var] = loop.descending ? begin + end - 1 - n : n;
      run(loop.body, name_of_warpgroup);
    }
    values.erase(loop.var);
  }
  void add(const std::string& ring, bool read, bool masked) {
    if (values.contains("j_o")) rings[ring].push_back({values.at("j_o"), read, masked});
  }
  static bool tests_place(const tile::Block& block) {
    bool tests = false;
    tile::walk(block, [&](const tile::Stmt& stmt) {
      const auto* map = std::get_if<tile::Map>(&stmt.node);
      tests = tests || (map && map->absent);
    });
    return tests;
  }
};

const tile::Role& role_of(const tile::Kernel& kernel, const std::string& name) {
  for (const tile::Stmt& stmt : kernel.body)
    if (const auto* role = std::get_if<tile::Role>(&stmt.node); role && role->name == name) return *role;
  throw InternalError("no role " + name);
}

Walk walk(const tile::Kernel& kernel, Integers values, std::optional<std::int64_t> warpgroup) {
  Walk out{std::move(values), warpgroup, {}};
  tile::Block body;
  for (const tile::Stmt& stmt : kernel.body)
    if (!std::holds_alternative<tile::Role>(stmt.node)) body.push_back(stmt);
  const tile::Role& role = role_of(kernel, warpgroup ? "consumer" : "producer");
  body.insert(body.end(), role.body.begin(), role.body.end());
  out.run(body, kernel.warpgroup);
  return out;
}

tile::Kernel kernel_of(const Algorithm& algorithm, const std::string& schedule) {
  CompileOptions options{*find_target("sm_90a"), {{"D", 64}, {"Dv", 64}}, ScalarType::bf16};
  return compile(algorithm, parse_schedule(schedule, "own.yaml"), options).kernels.at(0);
}

/// Schedules whose warpgroups see ranges that differ, each in both orders of keys, and with products that overlap or
/// not.
std::vector<std::string> schedule_texts() {
  std::vector<std::string> out;
  for (const char* name : {"sm90/flash3_d64", "sm90/flash3_d256"})
    for (const char* order : {", descending: [j.o]", ""})
      for (const bool overlap : {true, false}) {
        std::string text = with(shipped_schedule(name), ", descending: [j.o]", order);
        if (const std::size_t at = text.find(", overlap: {"); !overlap) text.erase(at, text.find('}', at) + 1 - at);
        out.push_back(std::move(text));
      }
  return out;
}

struct Problem {
  std::int64_t sq, sk;
  std::function<bool(std::int64_t i, std::int64_t j)> visible;

  bool seen(std::int64_t i, std::int64_t j) const { return j < sk && visible(i, j); }
};

/// The tiles that one warpgroup reads, against the elements that its rows see and the slots that the producer fills.
/// How many slots are given back unread.
std::int64_t check_warpgroup(const tile::Kernel& kernel, const Problem& problem, std::int64_t i_o, std::int64_t w) {
  const std::int64_t rows = kernel.find("S")->extent_of("i") / kernel.warpgroups();
  const std::int64_t columns = kernel.find("S")->extent_of("j"), first = (i_o * kernel.warpgroups() + w) * rows;
  const Integers values{{"Sq", problem.sq}, {"Sk", problem.sk}, {"i_o", i_o}, {"h", 0},  {"b", 0},
                        {"B", 1},           {"Hq", 1},          {"Hkv", 1},   {"D", 64}, {"Dv", 64}};
  Walk producer = walk(kernel, values, std::nullopt), consumer = walk(kernel, values, w);
  std::int64_t unread = 0;
  for (const auto& [ring, slots] : producer.rings) REQUIRE(consumer.rings[ring].size() == slots.size());
  std::map<std::int64_t, Walk::Slot> by_tile;
  for (std::size_t n = 0; n < producer.rings["K_s"].size(); ++n) {
    const Walk::Slot& slot = consumer.rings["K_s"][n];
    REQUIRE(slot.tile == producer.rings["K_s"][n].tile);
    by_tile.insert({slot.tile, slot});
    unread += slot.read ? 0 : 1;
  }
  for (std::int64_t j_o = 0; j_o * columns < problem.sk; ++j_o) {
    bool any = false, all = true;
    for (std::int64_t i = first; i < first + rows; ++i)
      for (std::int64_t j = j_o * columns; j < (j_o + 1) * columns; ++j) {
        any = any || (i < problem.sq && problem.seen(i, j));
        all = all && problem.seen(i, j);
      }
    const auto found = by_tile.find(j_o);
    const bool read = found != by_tile.end() && found->second.read;
    INFO("tile " << j_o);
    REQUIRE((read || !any));
    REQUIRE((!read || found->second.masked || all));
  }
  return unread;
}

}  // namespace

TEST_CASE("each warpgroup reads the tiles that its rows see, and gives the others back") {
  for (const std::string& text : schedule_texts())
    for (const char* predicate :
         {"j <= i + Sk - Sq", "j <= i", "j <= i and j > i - 90", "j >= i", "j <= i + 100 and j >= i + 20 - Sq"}) {
      const tile::Kernel kernel = kernel_of(attention_where(predicate), text);
      REQUIRE(!kernel.warpgroup.empty());
      std::int64_t unread = 0;
      for (const auto& [sq, sk] : {std::pair{1, 1}, {64, 64}, {300, 300}, {200, 530}, {530, 70}, {100, 0}}) {
        const std::map<std::string, std::function<bool(std::int64_t, std::int64_t)>> visible{
            {"j <= i + Sk - Sq", [&, sq = sq, sk = sk](auto i, auto j) { return j <= i + sk - sq; }},
            {"j <= i", [](auto i, auto j) { return j <= i; }},
            {"j <= i and j > i - 90", [](auto i, auto j) { return j <= i && j > i - 90; }},
            {"j >= i", [](auto i, auto j) { return j >= i; }},
            {"j <= i + 100 and j >= i + 20 - Sq",
             [sq = sq](auto i, auto j) { return j <= i + 100 && j >= i + 20 - sq; }}};
        for (std::int64_t i_o = 0; i_o * kernel.find("S")->extent_of("i") < sq; ++i_o)
          for (std::int64_t w = 0; w < kernel.warpgroups(); ++w) {
            INFO(text << predicate << ": " << sq << " x " << sk << ", i_o " << i_o << ", warpgroup " << w);
            unread += check_warpgroup(kernel, {sq, sk, visible.at(predicate)}, i_o, w);
          }
      }
      INFO(text << predicate);
      CHECK(unread > 0);
    }
}

TEST_CASE("warpgroups that see the same run the loops of all") {
  CHECK(kernel_of(attention(), shipped_schedule("sm90/flash3_d64")).warpgroup.empty());
  // A tile of 128 keys is one for both halves of 128 rows.
  CHECK(kernel_of(causal_attention(), shipped_schedule("sm90/flash3")).warpgroup.empty());
  // Turns go round among all, so all need equally many.
  CHECK(kernel_of(causal_attention(),
                  with(shipped_schedule("sm90/flash3_d64"), "consumer: 4", "consumer: 4, alternate: true"))
            .warpgroup.empty());
}

}  // namespace astatide::testing
