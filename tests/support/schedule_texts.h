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

}  // namespace astatide::testing
