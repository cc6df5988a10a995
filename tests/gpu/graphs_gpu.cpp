// Launches that are captured into CUDA graphs: replayed beside each other and beside the stream they were captured in.
#include <catch2/catch.hpp>

#include "tests/gpu/device_case.h"
#include "tests/gpu/driver_symbol.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/paged_case.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

using runtime::StreamHandle;

/// The driver's graphs, of which the runtime itself needs nothing.
class GraphApi {
 public:
  GraphApi() {
    load_driver_symbol("cuStreamBeginCapture_v2", begin_capture);
    load_driver_symbol("cuStreamEndCapture", end_capture);
    load_driver_symbol("cuGraphInstantiateWithFlags", instantiate);
    load_driver_symbol("cuGraphLaunch", launch);
    load_driver_symbol("cuGraphExecDestroy", destroy_executable);
    load_driver_symbol("cuGraphDestroy", destroy);
  }

  int (*begin_capture)(StreamHandle, int mode) = nullptr;
  int (*end_capture)(StreamHandle, void** graph) = nullptr;
  int (*instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*launch)(void* executable, StreamHandle) = nullptr;
  int (*destroy_executable)(void*) = nullptr;
  int (*destroy)(void*) = nullptr;
};

Case causal_case(std::int64_t length, unsigned seed) {
  Case c;
  c.algorithm = causal_attention();
  c.extents = {{"B", 2}, {"Hq", 8}, {"Hkv", 8}, {"Sq", length}, {"Sk", length}, {"D", 128}, {"Dv", 128}};
  c.dtype = ScalarType::bf16;
  fill_gaussian(c, seed);
  return c;
}

/// The first two of three cases are captured before anything of theirs has run, then replayed beside each other, and
/// beside the third, which is launched into the stream that they were captured in: all the time with the same bits.
void require_replays(const Schedule& schedule, const std::vector<Case>& cases) {
  const GraphApi api;
  const runtime::Context context = runtime::Context::primary(0);
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream captured = runtime::Stream::create(context);
  const std::vector<runtime::Stream> streams{runtime::Stream::create(context), runtime::Stream::create(context),
                                             captured};
  std::vector<DeviceCase> works;
  for (const Case& c : cases) works.emplace_back(c, schedule, captured);
  captured.synchronize();

  // The first two become graphs before anything of theirs has run: what a first launch allocates is no part of a graph.
  std::vector<void*> graphs(2), executables(2);
  for (std::size_t n = 0; n < graphs.size(); ++n) {
    constexpr int kGlobalMode = 0;  // the strictest: no thread may allocate
    REQUIRE(api.begin_capture(captured.handle(), kGlobalMode) == 0);
    works[n].launch(captured);
    REQUIRE(api.end_capture(captured.handle(), &graphs[n]) == 0);
    REQUIRE(api.instantiate(&executables[n], graphs[n], 0) == 0);
  }
  std::vector<HostTensors> expected;
  for (DeviceCase& work : works) {
    work.launch(captured);
    captured.synchronize();
    expected.push_back(work.take_outputs(captured));
  }
  for (int round = 0; round < 20; ++round) {
    for (DeviceCase& work : works) work.clear_outputs(captured);
    captured.synchronize();
    for (std::size_t n = 0; n < graphs.size(); ++n) REQUIRE(api.launch(executables[n], streams[n].handle()) == 0);
    works[2].launch(captured);
    for (const runtime::Stream& stream : streams) stream.synchronize();
    for (std::size_t n = 0; n < works.size(); ++n) {
      const HostTensors got = works[n].take_outputs(captured);
      for (const auto& [name, tensor] : expected[n]) {
        INFO("round " << round << ", launch " << n << ", " << name);
        require_same_bits(got.at(name), tensor);
      }
    }
  }
  for (std::size_t n = 0; n < graphs.size(); ++n) {
    CHECK(api.destroy_executable(executables[n]) == 0);
    CHECK(api.destroy(graphs[n]) == 0);
  }
}

}  // namespace

TEST_CASE("graphs: captured launches run beside each other and beside the stream they were captured in") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/flash3")) ASTATIDE_SKIP("no GPU of sm_90a, whose schedules deal out tiles by a counter");
  require_replays(load_schedule("sm90/flash3"), {causal_case(1500, 1), causal_case(2100, 11), causal_case(1800, 21)});
}

TEST_CASE("graphs: blocks that merge parts count their arrivals for each captured launch by itself") {
  ASTATIDE_NEED_GPU();
  const auto decode = [](std::int64_t queries, std::int64_t keys, unsigned seed) {
    Case c = causal_case(keys, seed);
    c.extents["Sq"] = queries;
    c.inputs["Q"] = gaussian(c.dtype, query_shape(c), seed + 3);
    return c;
  };
  for (const char* name : {"sm80/decode", "sm90/decode"}) {
    if (!runs_here(name)) continue;
    // More counters in the later ones than in the first: 1, 40 and 3 tiles of rows a head.
    require_replays(load_schedule(name), {decode(1, 5000, 31), decode(630, 900, 41), decode(40, 3000, 51)});
  }
}

TEST_CASE("graphs: captured launches store appended keys and values again, and see them") {
  ASTATIDE_NEED_GPU();
  const auto decode = [](const std::vector<std::int64_t>& lengths, unsigned seed) {
    const auto items = static_cast<std::int64_t>(lengths.size());
    Case c;
    c.algorithm = load_algorithm("append_decode");
    c.dtype = ScalarType::bf16;
    c.extents = {{"B", items}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 2}, {"Sk", 2000}, {"D", 128}, {"Dv", 128}};
    c.inputs["Q"] = gaussian(c.dtype, {items, 8, 2, 128}, seed);
    c.inputs["Kn"] = gaussian(c.dtype, {items, 2, 2, 128}, seed + 1);
    c.inputs["Vn"] = gaussian(c.dtype, {items, 2, 2, 128}, seed + 2);
    fill_pages(c, lengths, 64, 2000 / 64 + 1);
    return c;
  };
  for (const char* name : {"simt/decode", "sm80/decode", "sm90/decode_gqa_teams", "sm90/decode_gqa_short"}) {
    if (!runs_here(name)) continue;
    INFO(name);
    require_replays(load_schedule(name),
                    {decode({0, 1, 64, 1999}, 61), decode({65, 128, 700}, 71), decode({2000}, 81)});
  }
}
