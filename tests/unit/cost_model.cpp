// What the cost model predicts, against hand counts and against what was measured.
#include <catch2/catch.hpp>
#include <cmath>

#include "api/astatide.h"
#include "compiler/cost/conflicts.h"
#include "compiler/cost/cost.h"
#include "compiler/cost/counters.h"
#include "compiler/cost/waves.h"
#include "compiler/pipeline.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Sizes = std::map<std::string, std::int64_t>;

namespace {

Sizes attention_sizes(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t width) {
  return {{"B", batch}, {"Hq", heads}, {"Hkv", heads}, {"Sq", length}, {"Sk", length}, {"D", width}, {"Dv", width}};
}

/// A program serves all lengths; compiled once for each width.
const tile::Program& program_of(const std::string& algorithm, const std::string& schedule, const Sizes& sizes,
                                ScalarType dtype, const std::string& target) {
  static std::map<std::string, tile::Program> known;
  const std::string key = algorithm + schedule + std::to_string(sizes.at("D")) + std::to_string(int(dtype)) + target;
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known
      .emplace(key, compile(load_algorithm(algorithm), load_schedule(schedule), {*find_target(target), sizes, dtype}))
      .first->second;
}

cost::Cost predict_named(const std::string& algorithm, const std::string& schedule, const Sizes& sizes,
                         ScalarType dtype = ScalarType::bf16, const std::string& target = "sm_90a") {
  return cost::predict(program_of(algorithm, schedule, sizes, dtype, target), *find_target(target), sizes);
}

cost::Cost predict_text(const std::string& text, const Sizes& sizes) {
  const Target& target = *find_target("sm_90a");
  return cost::predict(
      compile(load_algorithm("attention"), parse_schedule(text, "test.yaml"), {target, sizes, ScalarType::bf16}),
      target, sizes);
}

std::string with(const std::string& schedule, const std::string& what, const std::string& by) {
  std::string text = text_of(source_path("schedules/" + schedule + ".yaml"));
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

struct MeasuredRow {
  std::string schedule, algorithm, dtype;
  Sizes sizes;
  double ms = 0;
};

/// tests/perf/measured_h200.csv: schedule,algorithm,"shape",dtype,ms,source
std::vector<MeasuredRow> measured_rows() {
  std::vector<MeasuredRow> out;
  std::istringstream lines(text_of(source_path("tests/perf/measured_h200.csv")));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    MeasuredRow& row = out.emplace_back();
    const std::size_t open = line.find('"'), close = line.rfind('"');
    std::istringstream head(line.substr(0, open)), shape(line.substr(open + 1, close - open - 1)),
        tail(line.substr(close + 2));
    std::getline(head, row.schedule, ',');
    std::getline(head, row.algorithm, ',');
    for (std::string part; std::getline(shape, part, ',');)
      row.sizes[part.substr(0, part.find('='))] = std::stoll(part.substr(part.find('=') + 1));
    std::getline(tail, row.dtype, ',');
    std::string ms;
    std::getline(tail, ms, ',');
    row.ms = std::stod(ms);
  }
  return out;
}

ScalarType type_of(const std::string& name) {
  return name == "bf16" ? ScalarType::bf16 : name == "f16" ? ScalarType::f16 : ScalarType::f32;
}

}  // namespace

TEST_CASE("cost: every target has a machine, whose rates are those of the data sheets") {
  for (const Target& target : known_targets()) {
    const cost::Machine& machine = cost::machine_of(target);
    INFO(target.name << " " << machine.product);
    CHECK(machine.compute_capability == target.compute_capability);
    CHECK(machine.multiprocessors > 0);
    CHECK(machine.clock >= machine.loaded_clock);
    CHECK(machine.ridge() > 1);
  }
  const auto rate = [](const char* target) {
    const cost::Machine& machine = cost::machine_of(*find_target(target));
    return 1e-12 * machine.tensor_flops * machine.clock * machine.multiprocessors;
  };
  CHECK(rate("sm_80") == Approx(312).epsilon(0.01));
  CHECK(rate("sm_86") == Approx(71).epsilon(0.01));
  CHECK(rate("sm_89") == Approx(362).epsilon(0.02));
  CHECK(rate("sm_120") == Approx(209.5).epsilon(0.01));
  const cost::Machine& h200 = cost::machine_of(*find_target("sm_90a"));
  CHECK(1e-12 * h200.wgmma_flops * 1830e6 * h200.multiprocessors == Approx(989).epsilon(0.01));
  CHECK(1e-12 * h200.flops() == Approx(66.9).epsilon(0.01));
}

TEST_CASE("cost: lanes that want different words of one bank take turns") {
  const auto strided = [](int words) {
    std::vector<std::int64_t> addresses;
    for (int lane = 0; lane < 32; ++lane) addresses.push_back(std::int64_t{4} * lane * words);
    return cost::bank_conflicts(addresses, 4);
  };
  CHECK(strided(0) == 1);  // one word for all
  CHECK(strided(1) == 1);
  CHECK(strided(2) == 2);
  CHECK(strided(32) == 32);
  CHECK(strided(33) == 1);
  tile::Mem mem{"K_s", ScalarType::bf16, {{"j", 64}, {"d", 64}}, Space::shared, 1, tile::Rows{}, {}, "", {}, 0};
  CHECK(cost::matrix_conflicts(mem) == 8);  // rows of 128 bytes
  mem.layout = tile::Rows{72};
  CHECK(cost::matrix_conflicts(mem) == 1);
  mem.layout = tile::Panels{};
  CHECK(cost::matrix_conflicts(mem) == 1);
}

TEST_CASE("cost: tiles go to the slot that is free first, and the last of them leave others idle") {
  const cost::Makespan even = cost::distribute({1, 1, 1, 1}, {2, 2, 2, 2}, 2);
  CHECK(even.clocks == 3);
  CHECK(even.tail == Approx(0));
  const cost::Makespan uneven = cost::distribute({1, 1, 1}, {1, 1, 1}, 2);
  CHECK(uneven.clocks == 2);
  CHECK(uneven.tail == Approx(0.25));
  // The longest first.
  CHECK(cost::distribute({3, 2, 1}, {3, 2, 1}, 2).clocks == 3);
  CHECK(cost::distribute({1, 2, 3}, {1, 2, 3}, 2).clocks == 4);
  CHECK(cost::distribute({}, {}, 2).clocks == 0);
}

TEST_CASE("cost: the memory traffic of three kernels is what one counts by hand") {
  // Scores are written, and read by three passes over rows that together are larger than the cache; weights are written
  // and read. Q, K, V and O cross once.
  for (const std::int64_t n : {4096, 16384}) {
    INFO("N " << n);
    const Sizes sizes = attention_sizes(1, 32, n, 128);
    const cost::Cost cost = predict_named("attention", "simt/standard", sizes, ScalarType::f16);
    REQUIRE(cost.kernels.size() == 3);
    const auto length = static_cast<double>(n);
    const double inputs = 32 * length * 128 * 2, statistics = 32 * length * 4;
    const tile::Program& program = program_of("attention", "simt/standard", sizes, ScalarType::f16, "sm_90a");
    const double scores = 32 * length * length * size_in_bytes(program.find_tensor("S_root")->type),
                 weights = 32 * length * length * size_in_bytes(program.find_tensor("P_root")->type);
    CHECK(cost.kernels[0].memory_bytes() == Approx(2 * inputs + scores).epsilon(0.1));
    CHECK(cost.kernels[1].memory_bytes() == Approx(3 * scores + weights + statistics).epsilon(0.1));
    CHECK(cost.kernels[2].memory_bytes() == Approx(weights + 2 * inputs).epsilon(0.1));
    CHECK(cost.kernels[1].binds == "memory");
  }
}

TEST_CASE("cost: what fits in the cache comes from memory once, what does not more often") {
  const Sizes sizes = attention_sizes(4, 16, 4096, 128);
  const double once = 4 * 4.0 * 16 * 4096 * 128 * 2;
  const cost::KernelCost flash = predict_named("attention", "sm90/flash3", sizes).kernels.at(0);
  CHECK(flash.memory_bytes() >= once);
  CHECK(flash.memory_bytes() <= 1.5 * once);
  CHECK(flash.l2_bytes > 10 * flash.memory_bytes());
  // Heads of a group read the same keys: of their four times as many reads L2 answers three.
  Sizes grouped{{"B", 16}, {"Hq", 32}, {"Hkv", 8}, {"Sq", 1}, {"Sk", 8192}, {"D", 128}, {"Dv", 128}};
  const double keys = 2.0 * 16 * 8 * 8192 * 128 * 2;
  const cost::Cost decode = predict_named("causal_gqa", "sm80/decode", grouped);
  CHECK(decode.memory_bytes() == Approx(keys).epsilon(0.05));
  CHECK(decode.kernels.at(0).l2_bytes == Approx(4 * keys).epsilon(0.05));
}

TEST_CASE("cost: a kernel alone begins with an empty cache, and what it leaves there is not written") {
  const double held = 50e6;  // less than this is what L2 holds of an H200
  const cost::KernelCost small =
      predict_named("attention", "sm90/flash3", attention_sizes(1, 32, 1024, 128), ScalarType::f16).kernels.at(0);
  const double tensor = 32.0 * 1024 * 128 * 2;
  CHECK(small.bytes_alone() == Approx(3 * tensor).epsilon(0.01));
  CHECK(small.memory_bytes() >= 4 * tensor);
  for (const std::int64_t n : {1024, 16384}) {
    INFO("N " << n);
    const cost::Cost cost =
        predict_named("attention", "simt/standard", attention_sizes(1, 32, n, 128), ScalarType::f16);
    const auto written = [](const cost::MemoryTraffic& memory) {
      double bytes = 0;
      for (const auto& [name, traffic] : memory) bytes += traffic.written;
      return bytes;
    };
    for (const cost::KernelCost& kernel : cost.kernels) {
      INFO(kernel.name);
      CHECK(written(kernel.alone) <= written(kernel.memory));
      CHECK(written(kernel.alone) >= written(kernel.memory) - held);
    }
  }
}

TEST_CASE("cost: the shipped schedules of sm_90a take the time that was measured, within a quarter") {
  double sum = 0;
  int rows = 0;
  for (const MeasuredRow& row : measured_rows()) {
    if (!row.schedule.starts_with("sm90/flash3")) continue;
    const double ms = 1e3 * predict_named(row.algorithm, row.schedule, row.sizes, type_of(row.dtype)).seconds();
    INFO(row.schedule << " " << row.algorithm << " D " << row.sizes.at("D") << " S " << row.sizes.at("Sq") << ": " << ms
                      << " ms predicted, " << row.ms << " measured");
    CHECK(std::abs(ms / row.ms - 1) < 0.25);
    sum += std::abs(ms / row.ms - 1);
    ++rows;
  }
  CHECK(rows >= 20);
  CHECK(sum / rows < 0.1);
}

TEST_CASE("cost: schedules of other families take the time that was measured, within a third") {
  int rows = 0;
  for (const MeasuredRow& row : measured_rows()) {
    // Of each family a few: lengths alone differ in the others.
    const bool looked_at = row.sizes.at("Sk") == 4096 || row.sizes.at("Sk") == 131072;
    if (row.schedule.starts_with("sm90/flash3") || !looked_at) continue;
    const double ms = 1e3 * predict_named(row.algorithm, row.schedule, row.sizes, type_of(row.dtype)).seconds();
    INFO(row.schedule << " " << row.algorithm << " " << row.dtype << ": " << ms << " ms predicted, " << row.ms
                      << " measured");
    CHECK(std::abs(ms / row.ms - 1) < 0.33);
    ++rows;
  }
  CHECK(rows >= 15);
}

TEST_CASE("cost: what a schedule overlaps shows") {
  const Sizes sizes = attention_sizes(1, 16, 4096, 128);
  const auto seconds = [&](const std::string& what, const std::string& by) {
    return predict_text(with("sm90/flash3", what, by), sizes).seconds();
  };
  const double shipped = seconds("target: sm_90a", "target: sm_90a");
  CHECK(seconds("ring_buffer: 3", "ring_buffer: 1") > 1.1 * shipped);
  CHECK(seconds(", overlap: {cover: 1}", "") > 1.05 * shipped);
}

TEST_CASE("cost: less work takes less time, and no work a launch") {
  const auto seconds = [](const Sizes& sizes) { return predict_named("causal_gqa", "sm90/flash3", sizes).seconds(); };
  const double full = predict_named("attention", "sm90/flash3", attention_sizes(4, 16, 4096, 128)).seconds();
  const double causal = seconds(attention_sizes(4, 16, 4096, 128));
  CHECK(causal < 0.65 * full);
  CHECK(causal > 0.5 * full);
  CHECK(seconds(attention_sizes(4, 16, 8192, 128)) > 3 * causal);
  CHECK(seconds(attention_sizes(1, 1, 1, 128)) < 2e-5);
  const cost::Cost none = predict_named("causal_gqa", "sm90/flash3", attention_sizes(0, 16, 4096, 128));
  CHECK(none.kernels.at(0).binds == "launch");
  CHECK(none.seconds() == cost::machine_of(*find_target("sm_90a")).launch);
  // One row too many for the last tile: a wave more.
  CHECK(seconds(attention_sizes(4, 16, 4097, 128)) >= causal);
}

TEST_CASE("cost: iterations that a mask makes shorter are not taken to be like those before them") {
  // The last sixteen tiles of keys are seen by fewer and fewer rows: with the keys outside, the loop over rows inside
  // has fewer trips there, and warps in different iterations would not meet at as many barriers.
  const auto seconds_at = [](std::int64_t keys) {
    const Sizes sizes{{"B", 4}, {"Hq", 32}, {"Hkv", 8}, {"Sq", 1024}, {"Sk", keys}, {"D", 128}, {"Dv", 128}};
    return predict_named("causal_gqa", "simt/flash1", sizes).seconds();
  };
  const double twice = seconds_at(2048), eight = seconds_at(8192);
  // Pairs of a row and a key that it sees.
  CHECK(eight / twice == Approx((8192 - 512.0) / (2048 - 512.0)).epsilon(0.05));
  CHECK(seconds_at(65536) / eight == Approx((65536 - 512.0) / (8192 - 512.0)).epsilon(0.05));
}

TEST_CASE("cost: every shipped schedule can be timed for every target that it serves") {
  int timed = 0;
  for (const std::string& name : shipped_schedules()) {
    const Schedule schedule = load_schedule(name);
    for (const char* target_name : {"sm_90a", "cpu"}) {
      for (const std::int64_t rows : {1, 300}) {
        const Target& target = *find_target(target_name);
        if (rows == 1 && !target.is_cuda()) continue;
        Sizes sizes = attention_sizes(2, 4, 300, 64);
        sizes["Hkv"] = 2, sizes["Sq"] = rows;
        tile::Program program;
        try {
          program = compile(load_algorithm("causal_gqa"), schedule, {target, sizes, ScalarType::f16});
        } catch (const UserError&) {
          continue;
        }
        INFO(name << " " << target.name << " rows " << rows);
        const cost::Cost cost = cost::predict(program, target, sizes);
        REQUIRE(cost.kernels.size() == program.kernels.size());
        for (const cost::KernelCost& kernel : cost.kernels) {
          CHECK(std::isfinite(kernel.seconds));
          CHECK(kernel.seconds > 0);
          CHECK(!kernel.binds.empty());
        }
        ++timed;
        if (rows == 300) CHECK(cost.seconds() == cost::predict(program, target, sizes).seconds());
      }
    }
  }
  CHECK(timed > 30);
}

TEST_CASE("cost: on the CPU standard attention is slower than what keeps its scores in a cache") {
  const Sizes sizes = attention_sizes(1, 2, 8192, 64);
  const double flash = predict_named("attention", "cpu/flash2", sizes, ScalarType::f32, "cpu").seconds();
  CHECK(predict_named("attention", "cpu/standard", sizes, ScalarType::f32, "cpu").seconds() > 1.2 * flash);
}

TEST_CASE("cost: counters are read from the table that ncu prints") {
  const std::string text =
      "==PROF== Connected to process 17\n"
      "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\","
      "\"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed\","
      "\"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio\","
      "\"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio\","
      "\"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio\"\n"
      "\"\",\"\",\"ns\",\"byte\",\"byte\",\"%\",\"ratio\",\"ratio\",\"ratio\"\n"
      "\"0\",\"attention\",\"754,321\",\"201,326,592\",\"n/a\",\"88.5\",\"0.25\",\"1.5\",\"1\"\n";
  const std::vector<cost::KernelCounters> kernels = cost::parse_counters(text);
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].name == "attention");
  CHECK(kernels[0].seconds == Approx(754.321e-6));
  CHECK(kernels[0].memory_read == 201326592);
  CHECK(kernels[0].memory_written == 0);
  CHECK(kernels[0].tensor == Approx(0.885));
  REQUIRE(kernels[0].stalls.size() == 2);
  CHECK(kernels[0].stalls[0] == std::pair<std::string, double>("wait", 1.5));
  CHECK(cost::parse_counters("==ERROR== ERR_NVGPUCTRPERM\n").empty());
  CHECK(cost::counter_metrics().find("dram__bytes_read.sum,") != std::string::npos);
}
