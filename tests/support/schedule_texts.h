// Schedules with fixed numbers, for tests of refusals: the shipped ones are tuned.
#pragma once

#include <string>

namespace astatide::testing {

inline const std::string kFlash2 = R"(# simt/flash2, with tiles that stay as they are when the shipped one is tuned
target: sm_80
rewrite: online
O: {tile: {i: 64, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [16, 16]}
S: {compute_at: j.o, store_in: register}
P: {compute_at: j.o, store_in: shared}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
)";

inline const std::string kFlash1 = R"(# simt/flash1, with tiles that stay as they are when the shipped one is tuned
target: sm_80
rewrite: online
O: {tile: {i: 64, j: 64}, reorder: [b, h, j.o, i.o], gpu_blocks: [h, b], threads: [16, 16]}
S: {compute_at: i.o, store_in: register}
P: {compute_at: i.o, store_in: shared}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
)";

inline const std::string kFusedRow = R"(# simt/fused_row, with tiles that stay as they are when the shipped one is tuned
target: sm_80
rewrite: none
bound: {Sk: 1024}
O: {tile: {i: 16, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [16, 16]}
S: {compute_at: i.o, store_in: shared}
P: {compute_at: j.o, store_in: shared}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
)";

inline const std::string kStandard = R"(# simt/standard, with tiles that stay as they are when the shipped one is tuned
target: sm_80
rewrite: none
S: {compute_root: true, tile: {i: 64, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [j.o, i.o, h, b], threads: [16, 16]}
P: {compute_root: true, tile: {i: 16, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [16, 16]}
O: {tile: {i: 64, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [16, 16]}
Q: {stage_at: j.o, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
)";

inline const std::string kCpuFlash2 = R"(# cpu/flash2, with tiles that stay as they are when the shipped one is tuned
target: cpu
rewrite: online
O: {tile: {i: 64, j: 256}, reorder: [b, h, i.o, j.o], parallel: [i.o, h, b]}
S: {compute_at: j.o, store_in: shared}
P: {compute_at: j.o, store_in: shared}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
)";

/// Consumers that take turns at the tensor cores, 64 rows each.
struct Turns {
  std::string rescale = "plain";
  std::string cover;  // of an overlap; empty: none
  int consumers = 2;
  int slots = 2;  // of the rings
  bool persistent = false;
  std::string polynomial;  // part of the exponentials; empty: none
  int columns = 64;        // of a tile

  std::string text() const {
    return "target: sm_90a\nrewrite: {online: {rescale: " + rescale +
           "}}\nwarps: {producer: 1, consumer: " + std::to_string(consumers) +
           ", alternate: true}\nO: {tile: {i: " + std::to_string(64 * consumers) + ", j: " + std::to_string(columns) +
           "}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]" + (persistent ? ", persistent: longest_first" : "") +
           "}\nS: {compute_at: j.o, store_in: register, mma: wgmma" +
           (cover.empty() ? "" : ", overlap: {cover: " + cover + "}") + "}\nP: {compute_at: j.o, store_in: register" +
           (polynomial.empty() ? "" : ", exp2: {polynomial: " + polynomial + "}") +
           "}\nQ: {stage_at: i.o, store_in: shared, copy: tma}\n"
           "K: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: " +
           std::to_string(slots) +
           "}\nV: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: " + std::to_string(slots) + "}\n";
  }
};

}  // namespace astatide::testing
