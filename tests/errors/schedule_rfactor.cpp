#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

// Parts of the axis that is reduced: what can't be split, or would gain nothing, is refused with what would do.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kDecode = R"(target: sm_80
O: {tile: {i: 16, j: 64}, rfactor: {j: [j.s, 8]}, reorder: [b, h, i.o, j.s, j.o], gpu_blocks: [j.s, i.o, h, b], threads: [16, 16]}
S: {compute_at: j.o, store_in: register}
P: {compute_at: j.o, store_in: shared}
Q: {stage_at: j.s, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
)";
const std::string kEightParts = "rfactor: {j: [j.s, 8]}";

std::string split_with(const std::string& from, const std::string& to) {
  return Request{.schedule = with(kDecode, from, to)}.message();
}

std::string parse_of_parts(const std::string& value) {
  return testing::parse_refusal(with(kDecode, kEightParts, "rfactor: " + value));
}

}  // namespace

TEST_CASE("an axis is split into 2 to 1024 parts") {
  CHECK(Request{.schedule = kDecode}.message() == "");
  for (const char* number : {"1", "1025"})
    CHECK_THAT(parse_of_parts("{j: [j.s, " + std::string(number) + "]}"),
               Contains("rfactor of O: the number of parts is " + std::string(number) + ", allowed are 2 to 1024"));
}

TEST_CASE("parts are a number of one axis, or follow from a size or from the machine") {
  CHECK(parse_of_parts("{j: [j.s, some]}") ==
        "s.yaml:2:46: error: rfactor: 'some', wanted is the number of parts\n"
        "    O: {tile: {i: 16, j: 64}, rfactor: {j: [j.s, some]}, reorder: [b, h, i.o, j.s, j.o], gpu_blocks: [j.s, "
        "i.o, h, b], threads: [16, 16]}\n"
        "                                                 ^\n"
        "note: 2 to 1024, fixed when the kernel is compiled\n"
        "note: auto: as many as fill the machine, chosen by each launch\n"
        "note: {split_size: 1024}: as many as there are 1024 elements");
  for (const char* how :
       {"0", "{split_size: 0}", "{split_size: x}", "{splits: 4}", "{split_size: 64, least: 2}", "[4]"})
    CHECK_THAT(parse_of_parts("{j: [j.s, " + std::string(how) + "]}"), Contains("wanted is the number of parts"));
  CHECK_THAT(parse_of_parts("{j: [j.s, {split_size: -64}]}"),
             Contains("split_size is -64, allowed are 1 to 1073741824"));
  CHECK(parse_of_parts("{j: [j.s, auto]}") == "no error");
  CHECK(parse_of_parts("{j: [j.s, {split_size: 1024}]}") == "no error");
  CHECK_THAT(parse_of_parts("{j: [j.s, 8], merge: last_block}"),
             Contains("rfactor: merge is one entry too many") &&
                 Contains("note: what there is: the one axis that is reduced, in parts"));
  CHECK_THAT(parse_of_parts("{j: [j.s, 8], split_size: 512}"), Contains("rfactor: split_size is one entry too many"));
  for (const char* value : {"8", "[j.s, 8]", "{j: 8}", "{j: [j.s]}", "{j: [j.s, 8, 9]}", "{}"})
    CHECK_THAT(parse_of_parts(value),
               Contains("wanted is an axis with a loop and a number of parts, such as {j: [j.s, 16]}"));
  CHECK_THAT(parse_of_parts("{j: [j.p, 8]}"),
             Contains("j.p is not the loop over the parts of j") && Contains("that is j.s"));
}

TEST_CASE("what is split is the axis that the recurrence reduces") {
  CHECK_THAT(split_with(kEightParts, "rfactor: {i: [i.s, 8]}"),
             Contains("rfactor of O: i is not the axis that O reduces, that is j") &&
                 Contains("note: rfactor: {j: [j.s, 8]}"));
  CHECK_THAT(split_with("target: sm_80", "target: sm_80\nrewrite: none"),
             Contains("rfactor of O: rewrite: none passes over all of j once for each reduction") &&
                 Contains("note: rewrite: online"));
  CHECK_THAT(split_with("V: {stage_at: j.o", "V: {rfactor: {j: [j.s, 8]}, stage_at: j.o"),
             Contains("rfactor belongs to a root definition, and V is an input"));
}

TEST_CASE("parts are spread over blocks") {
  // As the fastest or the slowest of them.
  CHECK(split_with("gpu_blocks: [j.s, i.o, h, b]", "gpu_blocks: [i.o, h, b, j.s]") == "");
  CHECK_THAT(split_with("gpu_blocks: [j.s, i.o, h, b]", "gpu_blocks: [i.o, h, b]"),
             Contains("rfactor of O: j.s is not spread over blocks, and one block gains nothing by parts") &&
                 Contains("note: gpu_blocks: [j.s, i.o, h, b]"));
  CHECK_THAT(split_with("reorder: [b, h, i.o, j.s, j.o]", "reorder: [b, h, i.o, j.o]"),
             Contains("reorder of O lacks j.s"));
  CHECK_THAT(split_with(kEightParts + ", ", ""), Contains("j.s runs over parts of j, and no rfactor splits it"));
  CHECK_THAT(split_with("Q: {stage_at: j.s", "Q: {stage_at: i.o"),
             Contains("stage_at of Q: Q is staged at i.o, an outer loop over blocks"));
}

TEST_CASE("parts of a size are whole tiles, and shorter than the axis") {
  const auto of_size = [](const std::string& size, const std::string& bound) {
    return Request{.schedule = with(with(kDecode, kEightParts, "rfactor: {j: [j.s, {split_size: " + size + "}]}"),
                                    "target: sm_80", "target: sm_80\n" + bound)}
        .message();
  };
  CHECK(of_size("1024", "bound: {Sk: 1025}") == "");
  CHECK_THAT(of_size("1000", ""), Contains("rfactor of O: parts of 1000 elements are no whole number of tiles of 64") &&
                                      Contains("note: split_size: 960"));
  CHECK_THAT(of_size("16", ""), Contains("no whole number of tiles of 64") && Contains("note: split_size: 64"));
  CHECK_THAT(of_size("1024", "bound: {Sk: 1024}"),
             Contains("rfactor of O: j is bounded by 1024, which one part of 1024 holds, so it would have no effect"));
}

TEST_CASE("deterministic refuses a number of parts that other rows of a launch decide") {
  const auto demanded = [](const std::string& how) {
    return Request{.schedule = with(with(kDecode, kEightParts, "rfactor: {j: [j.s, " + how + "]}"), "target: sm_80",
                                    "target: sm_80\ndeterministic: true")}
        .message();
  };
  CHECK(demanded("8") == "");
  CHECK(demanded("{split_size: 128}") == "");
  CHECK_THAT(
      demanded("auto"),
      Contains("rfactor of O: auto chooses the number of parts by the other rows of a launch and by the machine") &&
          Contains("note: rfactor: {j: [j.s, {split_size: 1024}]}") && Contains("note: leave deterministic out"));
  CHECK_THAT(split_with("target: sm_80", "target: sm_80\ndeterministic: false"),
             Contains("deterministic: false would have no effect"));
}

TEST_CASE("merge says who merges parts, so there are some") {
  CHECK(split_with(kEightParts, kEightParts + ", merge: last_block") == "");
  CHECK_THAT(split_with(kEightParts, kEightParts + ", merge: first_block"),
             Contains("first_block is none, wanted is kernel or last_block"));
  CHECK_THAT(split_with(kEightParts, "merge: last_block"),
             Contains("merge of O would have no effect: no rfactor makes parts"));
}

TEST_CASE("one tile has no parts") {
  CHECK_THAT(split_with("target: sm_80", "target: sm_80\nbound: {Sk: 64}"),
             Contains("rfactor of O: j is bounded by 64, which one tile of 64 holds, so it would have no effect") &&
                 Contains("note: smaller tiles along j"));
  CHECK(split_with("target: sm_80", "target: sm_80\nbound: {Sk: 65}") == "");
}

TEST_CASE("blocks that stay, and outputs that tma stores, have no parts") {
  const auto sm90 = [](const std::string& more) {
    return Request{.schedule =
                       "target: sm_90a\nwarps: {producer: 1, consumer: 2}\n"
                       "O: {tile: {i: 128, j: 128}, rfactor: {j: [j.s, 8]}, reorder: [b, h, i.o, j.s, j.o], "
                       "gpu_blocks: [j.s, i.o, h, b]" +
                       more +
                       "}\nS: {compute_at: j.o, store_in: register, mma: wgmma}\n"
                       "P: {compute_at: j.o, store_in: register}\n"
                       "Q: {stage_at: j.s, store_in: shared, copy: tma}\n"
                       "K: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}\n"
                       "V: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}\n",
                   .type = ScalarType::bf16}
        .message();
  };
  CHECK(sm90("") == "");
  CHECK(sm90(", merge: last_block") == "");
  CHECK_THAT(sm90(", cluster: 2, merge: last_block"),
             Contains("rfactor of O: a block of a cluster behind the end of its axis computes another's tile again") &&
                 Contains("note: merge: kernel"));
  CHECK_THAT(sm90(", persistent: linear"), Contains("rfactor of O: persistent deals out more tiles than blocks fit") &&
                                               Contains("note: leave persistent out"));
  CHECK_THAT(sm90(", copy: tma"),
             Contains("rfactor of O: tma stores tiles of rows, and the kernel that merges parts writes O row by row") &&
                 Contains("note: copy: vector"));
}

namespace {

/// kDecode with the part of each block shared by teams.
std::string in_teams(const std::string& from = "", const std::string& to = "", const std::string& teams = "4") {
  std::string text = with(kDecode, kEightParts, "rfactor: {j: [j.s, 8, j.w, " + teams + "]}");
  text = with(text, "[b, h, i.o, j.s, j.o]", "[b, h, i.o, j.s, j.w, j.o]");
  text = with(text, "threads: [16, 16]", "threads: [8, 8]");
  text = with(text, "stage_at: j.s", "stage_at: j.w");
  return Request{.schedule = from.empty() ? text : with(text, from, to)}.message();
}

}  // namespace

TEST_CASE("teams are a number of the loop around the tiles, and no more than their barriers and a block's threads") {
  CHECK(in_teams() == "");
  CHECK_THAT(parse_of_parts("{j: [j.s, 8, j.w, some]}"), Contains("rfactor: 'some', wanted is the number of teams"));
  CHECK_THAT(parse_of_parts("{j: [j.s, 8, j.w]}"), Contains("rfactor: a map, wanted is an axis with a loop"));
  CHECK_THAT(parse_of_parts("{j: [j.s, 8, j.t, 2]}"),
             Contains("j.t is not the loop over the teams that share a part of j") && Contains("note: that is j.w"));
  for (const char* number : {"1", "33"})
    CHECK_THAT(parse_of_parts("{j: [j.s, 8, j.w, " + std::string(number) + "]}"),
               Contains("rfactor of O: " + std::string(number) + " teams, allowed are 2 to 32"));
  CHECK_THAT(in_teams("", "", "15"),
             Contains("15 teams of more than a warp meet at barriers of their own, of which there are 14"));
  CHECK_THAT(in_teams("threads: [8, 8]", "threads: [16, 32]"),
             Contains("threads of O: 4 teams of 512 threads, a block of sm_80 has at most 1024"));
}

TEST_CASE("a team has a loop and tiles of its own") {
  CHECK_THAT(in_teams("[j.s, i.o, h, b]", "[j.w, j.s, i.o, h, b]"),
             Contains("rfactor of O: j.w is spread over blocks, and it runs over the teams of one"));
  CHECK_THAT(in_teams("stage_at: j.w", "stage_at: j.s"),
             Contains("stage_at of Q: at j.s one copy would be for all 4 teams, and each waits for its own alone") &&
                 Contains("note: stage_at: j.w"));
  CHECK_THAT(in_teams("reorder: [b, h, i.o, j.s, j.w, j.o], gpu_blocks: [j.s, i.o, h, b]",
                      "reorder: [b, h, j.s, i.o, j.w, j.o], gpu_blocks: [j.s, h, b]"),
             Contains("rfactor of O: between the loops over blocks and j.o stands j.w and nothing else"));
  CHECK_THAT(split_with("[b, h, i.o, j.s, j.o]", "[b, h, i.o, j.s, j.w, j.o]"),
             Contains("reorder of O: j.w runs over parts of j, and no rfactor splits it"));
}

TEST_CASE("teams take room for each, and stand beside no warps and on no CPU") {
  CHECK_THAT(in_teams("tile: {i: 16, j: 64}", "tile: {i: 16, j: 256}"),
             Contains("bytes of shared memory, sm_80 has") && Contains("K 4 teams of 256x64"));
  Request warps;
  warps.type = ScalarType::bf16;
  warps.schedule =
      "target: sm_90a\nwarps: {producer: 1, consumer: 1}\nO: {tile: {i: 64, j: 64}, rfactor: {j: [j.s, 8, j.w, 2]}, "
      "reorder: [b, h, i.o, j.s, j.w, j.o], gpu_blocks: [j.s, i.o, h, b]}\nS: {compute_at: j.o, mma: wgmma}\n"
      "P: {compute_at: j.o}\nQ: {stage_at: j.w, copy: tma}\nK: {stage_at: j.o, copy: tma}\n"
      "V: {stage_at: j.o, copy: tma}\n";
  CHECK_THAT(warps.message(),
             Contains("rfactor of O: 2 teams beside warps: a producer copies for all consumers of a block"));
  Request cpu;
  cpu.schedule =
      "target: cpu\nO: {tile: {i: 16, j: 64}, rfactor: {j: [j.s, 8, j.w, 2]}, reorder: [b, h, i.o, j.s, j.w, j.o], "
      "parallel: [j.s, i.o, h, b]}\n";
  CHECK_THAT(cpu.message(), Contains("rfactor of O: 2 teams of threads, and a core of a CPU has one"));
}

}  // namespace astatide
