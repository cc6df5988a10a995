// Copies that run ahead, and warps that share a tile: how many slots and how many warps changes no value, or the
// schedule is refused. The schedules are of plain multiply-adds, mma.sync and wgmma; the CPU runs all of them.
#include <catch2/catch.hpp>
#include <cmath>

#include "compiler/algorithm/evaluate.h"
#include "runtime/driver.h"
#include "tests/support/case_run.h"
#include "tests/support/messages.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr int kColumns = 32;  // keys in a tile

bool has_wgmma() {
  const Device device = case_device();
  return device.kind == Device::Kind::cpu || runtime::driver().device(device.ordinal).major == 9;
}

/// FlashAttention-2 with rings of so many slots. `copy` is empty for plain loads.
std::string ring_text(const std::string& head, const std::string& mma, const std::string& copy, int slots) {
  const std::string ring = slots > 1 ? ", ring_buffer: " + std::to_string(slots) : "";
  const std::string by = mma.empty() ? "" : ", mma: " + mma;
  const std::string via = copy.empty() ? "" : ", copy: " + copy;
  return head + "S: {compute_at: j.o, store_in: register" + by +
         "}\n"
         "P: {compute_at: j.o, store_in: " +
         (mma.empty() ? "shared" : "register") +
         "}\n"
         "Q: {stage_at: i.o, store_in: shared" +
         via +
         "}\n"
         "K: {stage_at: j.o, store_in: shared" +
         via + ring +
         "}\n"
         "V: {stage_at: j.o, store_in: shared" +
         via + ring + "}\n";
}

std::string nest_text(int rows, int columns, const std::string& rest) {
  return "O: {tile: {i: " + std::to_string(rows) + ", j: " + std::to_string(columns) +
         "}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]" + rest + "}\n";
}

struct Pipelined {
  std::string name;
  std::function<std::string(int slots)> text;
};

std::vector<Pipelined> pipelined_schedules() {
  const std::string online = "rewrite: online\n";
  std::vector<Pipelined> out{
      {"plain loads",
       [=](int slots) {
         return ring_text("target: sm_80\n" + online + nest_text(32, kColumns, ", threads: [8, 8]"), "", "", slots);
       }},
      {"cp.async, mma.sync", [=](int slots) {
         return ring_text("target: sm_80\n" + online + nest_text(64, kColumns, ", threads: [32, 4]"), "mma_sync",
                          "cp_async", slots);
       }}};
  if (!has_wgmma()) return out;
  out.push_back({"TMA, wgmma", [=](int slots) {
                   return ring_text("target: sm_90a\n" + online + "warps: {producer: 1, consumer: 1}\n" +
                                        nest_text(64, kColumns, ""),
                                    "wgmma", "tma", slots);
                 }});
  return out;
}

Case half_case(Algorithm algorithm, std::map<std::string, std::int64_t> extents) {
  Case c;
  c.algorithm = std::move(algorithm);
  c.extents = std::move(extents);
  c.dtype = ScalarType::bf16;
  fill_gaussian(c, 11);
  return c;
}

/// Within the type's rounding of the exact values; NaN is the worst.
void require_near(const Case& c, const HostTensors& out) {
  Arguments arguments;
  arguments.extents = c.extents;
  for (const auto& [name, tensor] : c.inputs) arguments.inputs[name] = {tensor.shape, runtime::to_doubles(tensor)};
  const std::vector<double> exact = evaluate(c.algorithm, arguments).at("O").values;
  const std::vector<double> values = runtime::to_doubles(out.at("O"));
  std::size_t wrong = 0;
  for (std::size_t n = 0; n < values.size(); ++n) wrong += std::fabs(values[n] - exact[n]) <= 0.03 ? 0 : 1;
  REQUIRE(values.size() == exact.size());
  REQUIRE(wrong == 0);
}

}  // namespace

TEST_CASE("S04: any number of slots gives the bits of one, with fewer tiles than slots too") {
  // tile-ai/tilelang#2668: a copy was moved ahead of the last read of what it overwrites.
  ASTATIDE_NEED_CASE_DEVICE();
  for (const Pipelined& schedule : pipelined_schedules()) {
    std::vector<HostTensors> one_slot;
    for (int slots = 1; slots <= 4; ++slots) {
      INFO(schedule.name << ", " << slots << " slots");
      const Schedule value = parse_schedule(schedule.text(slots), "s.yaml");
      for (int tiles = 1; tiles <= 5; ++tiles) {
        INFO(tiles << " tiles of keys");
        // The last tile is not full.
        const Case c = half_case(
            causal_attention(),
            {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 70}, {"Sk", tiles * kColumns - 3}, {"D", 16}, {"Dv", 24}});
        const HostTensors out = run_case(c, value);
        if (slots == 1) {
          require_near(c, out);
          one_slot.push_back(out);
          continue;
        }
        for (const auto& [name, tensor] : one_slot.at(static_cast<std::size_t>(tiles - 1)))
          require_same_bits(out.at(name), tensor);
      }
    }
  }
}

TEST_CASE("S05: warps cover a tile to its last column, or the schedule names the tile and the warps") {
  // tile-ai/tilelang#2537: a tile of 16 x 104 with 12 warps left columns 96 to 103 unwritten.
  ASTATIDE_NEED_CASE_DEVICE();
  int covered = 0, refused = 0;
  for (const std::int64_t width : {104, 72, 40}) {
    const Case c =
        half_case(attention(), {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 70}, {"Sk", 61}, {"D", 16}, {"Dv", width}});
    for (const int columns : {104, 48})
      for (const int warps : {2, 3, 4, 6, 8, 12}) {
        INFO("Dv " << width << ", tiles of 64 x " << columns << ", " << warps << " warps");
        const std::string threads = ", threads: [" + std::to_string(8 * warps) + ", 4]";
        const Schedule schedule = parse_schedule(
            ring_text("target: sm_80\nrewrite: online\n" + nest_text(64, columns, threads), "mma_sync", "cp_async", 2),
            "s.yaml");
        const bool rows_fit = 64 % (16 * warps) == 0, columns_fit = columns % 16 == 0;
        if (rows_fit && columns_fit) {
          require_near(c, run_case(c, schedule));
          ++covered;
          continue;
        }
        std::string message = "no error";
        try {
          run_case(c, schedule);
        } catch (const UserError& error) {
          message = error.what();
        }
        INFO(message);
        if (!rows_fit)
          REQUIRE(contains(message, "tiles of i are 64, " + std::to_string(warps) + " warps take " +
                                        std::to_string(16 * warps) + " rows at a time"));
        if (!columns_fit) REQUIRE(contains(message, "tiles of j are 104, one instruction sums 16 at a time"));
        ++refused;
      }
  }
  REQUIRE(covered == 6);
  REQUIRE(refused == 30);
}
