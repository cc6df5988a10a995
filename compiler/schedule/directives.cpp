#include "compiler/schedule/directives.h"

#include <algorithm>

namespace astatide {
namespace {

std::vector<DirectiveInfo> make_table() {
  using Kind = DirectiveKind;
  using Form = ValueForm;
  return {
      {"target", std::nullopt, kTopLevel, Form::target, 0, 0, false,
       "The least machine that the schedule needs: sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120 or cpu. Shared memory, "
       "threads and registers are checked against its facts before anything is compiled.",
       "target: sm_86", "K: {stage_at: j.o, store_in: shared, ring_buffer: 3}    # 131072 bytes fit sm_80 (166912)",
       "error: tiles need 131072 bytes of shared memory, sm_86 has 101376"},
      {"rewrite", std::nullopt, kTopLevel, Form::rewrite, 0, 0, false,
       "none: each reduction is a pass over its axis, one after the other. online (the default): the reductions become "
       "one "
       "recurrence that is carried over the tiles of the axis; how is derived by algebra. {online: {rescale: ..}} says "
       "when the references that sums are relative to, such as a running maximum, move. plain (the default): with "
       "every "
       "tile. lazy: when a weight would pass 2^grow; until then no sum is rescaled. optimistic: a tile without "
       "predicates takes no new references at all; where its sum of weights passes 2^over it is computed again. "
       "Tiles with predicates are lazy. "
       "Both need references that no output shows. grow and over are 0 to 96; left out, they follow from the type that "
       "weights are rounded to: 30 and 60, for f16 8 and 14.",
       "rewrite: online", "for j: m = max(m, S[j])\nfor j: l += exp(S[j] - m)\nfor j: acc += exp(S[j] - m) * V[j]",
       "for j.o:\n  m_new = max(m, max S[tile])\n  l = l * exp(m - m_new) + sum exp(S[tile] - m_new)\n"
       "  acc = acc * exp(m - m_new) + exp(S[tile] - m_new) * V[tile];  m = m_new"},
      {"bound", std::nullopt, kTopLevel, Form::extent_numbers, 1, std::int64_t{1} << 40, false,
       "The largest value that an extent takes at run time. Storage for a whole row is sized by it, and a launch "
       "beyond it is "
       "refused.",
       "bound: {Sk: 1024}", "S: f32[i 16, j Sk] in shared       # how much?",
       "S: f32[i 16, j 1024] in shared     # 65536 bytes"},
      {"known", std::nullopt, kTopLevel, Form::extents, 0, 0, false,
       "Extents whose values are compiled in, beside those of axes that tiles cover whole: divisions by them, which "
       "find "
       "a block's place, become shifts and multiplications, and code for other values falls away. What that costs: "
       "each "
       "other value compiles a kernel of its own, and a launch with another is refused. For what a model has once, "
       "such as its heads, where launches are short.",
       "known: [Hq, Hkv]", "head = hk * (Hq / Hkv) + r % (Hq / Hkv)     # two divisions",
       "head = hk * 4 + r % 4                       # Hq=32, Hkv=8"},
      {"serves", std::nullopt, kTopLevel, Form::service, 0, std::int64_t{1} << 40, false,
       "What the schedule is meant for. Where no schedule is named, those that state it are asked in the order of "
       "their "
       "rank (0 to 1000, 0 where none is stated), and the first that is legal for the algorithm, allows the type and "
       "has every length in its range is taken. lengths: axes with the least and the most, inf for no limit, or with "
       "one number. dtype: types of inputs; left out, each. It changes no kernel, and a schedule that is named is "
       "taken "
       "whatever it serves.",
       "serves: {dtype: [f16, bf16], lengths: {i: [1, 16], j: [1024, inf]}, rank: 20}",
       "astatide run causal_gqa --schedule sm80/decode_gqa --shape Sq=1,Sk=8192 --dtype bf16",
       "astatide run causal_gqa --shape Sq=1,Sk=8192 --dtype bf16"},
      {"deterministic", std::nullopt, kTopLevel, Form::flag, 1, 1, false,
       "A demand that is checked, and changes no kernel: what an output's row is reduced to, bit by bit, depends on "
       "its "
       "own elements, their number and the kernel, but neither on how many rows, heads or batches a launch has nor on "
       "how many multiprocessors the machine has. What would break it is refused: parts whose number launches choose. "
       "(Launches with the same arguments give the same bits with any schedule.)",
       "deterministic: true", "O: {rfactor: {j: [j.s, auto]}}     # a row's sums in as many parts as suit the batch",
       "error: rfactor of O: auto chooses the number of parts by the other rows of a launch"},
      {"fast_math", std::nullopt, kTopLevel, Form::flag, 1, 1, false,
       "Allows instructions that approximate a function where the target has one, and costs their error: tanh by "
       "tanh.approx.f32 (CUDA targets), off by up to 2^-11 of each result, in one instruction instead of twenty. "
       "On tensor cores, divisors within its operand that are the same for all elements become factors. "
       "Results are held to what a plain computation with such a tanh gives, and explain names the error. Other "
       "functions are as they are: of sigmoid half of it would be 0.5 + 0.5 tanh(x/2), whose small results would be "
       "mostly error. Where a CPU runs the schedule of a GPU it computes as without; a schedule for CPUs, or an "
       "algorithm without such a function, is refused.",
       "fast_math: true", "A = cap * tanhf(S / cap)           # about 20 instructions, 2 ulp",
       "A = cap * fast_tanh(S / cap)       # tanh.approx.f32, off by up to 2^-11 of tanh"},
      {"dependent_launch", std::nullopt, kTopLevel, Form::flag, 1, 1, false,
       "Blocks may take their places before the kernels in front of them in the stream have ended (sm_90 and later): "
       "they "
       "find their place, set up barriers, and wait before they touch memory until all that the others have stored is "
       "there. Those in front have to allow it, as kernels of such schedules do at their start; behind others the wait "
       "is for their end as ever. It changes no result. For short launches that follow each other, in a stream or a "
       "graph. "
       "Where a CPU runs the schedule of a GPU there is nothing to overlap.",
       "dependent_launch: true", "launch n ends; launch n+1 starts blocks; they find their places; they load",
       "launch n+1 starts blocks, which find their places | launch n ends; they load"},
      {"warps", std::nullopt, kTopLevel, Form::role_numbers, 1, 4, false,
       "Warpgroups of four warps with one task each (sm_90a, mma: wgmma): one producer, whose first thread copies "
       "tiles into "
       "the slots of rings, and 1 to 4 consumers, which compute and share the rows of a tile. Registers go from the "
       "producer "
       "to the consumers. Takes the place of threads; every staged input has copy: tma. With alternate: true two or "
       "more "
       "consumers take turns at the tensor cores: each issues the products of its turn, passes it on, and computes "
       "what "
       "lies between products while the others issue theirs.",
       "warps: {producer: 1, consumer: 2, alternate: true}", "for j.o: copy K_tile; sync; S = Q * K_tile; sync",
       "producer: for j.o: wait for a free slot of K_tile; copy K_tile\n"
       "consumer: for j.o: wait for a full slot of K_tile; take the turn; S = Q * K_tile; pass it; free the slot"},
      {"split",
       Kind::split,
       kRootDefinition,
       Form::axis_lists,
       2,
       2,
       false,
       "Makes two axes of one of the rows, the outer and the inner one: query heads h become heads of keys hk and "
       "members g of a group, h = hk * G + g. The algorithm says how long a group is, by an index that divides the "
       "axis: "
       "h*Hkv/Hq, h/(Hq/Hkv) or h/4, of which hk is left. A launch whose lengths don't divide without a rest is "
       "refused. It stands once and before fuse, and all definitions have the new axes.",
       "O: {split: {h: [hk, g]}}",
       "for h: for i: O[h, i] += P[h, i, j] * V[h*Hkv/Hq, j]",
       "for hk: for g in 0 .. Hq/Hkv: for i: O[hk*(Hq/Hkv) + g, i] += P[hk, g, i, j] * V[hk, j]",
       {"the outer axis and the inner one", "h: [hk, g]"}},
      {"fuse",
       Kind::fuse,
       kRootDefinition,
       Form::axis_lists,
       2,
       16,
       false,
       "Makes one axis of several of the rows, of which the first in the list varies fastest: r = i * G + g. Rows of "
       "all heads of a group so share one tile, and one tile of K and V, where a head alone has too few to fill it, as "
       "in decoding. The first is best the shortest: the places of a tile along the others are then neighbours, and a "
       "mask leaves out as much as without fuse. Tensors stay as they are, each row has its own address. It stands "
       "once, and all definitions have the new axis.",
       "O: {fuse: {r: [g, i]}, tile: {r: 16, j: 64}, gpu_blocks: [r.o, hk, b]}",
       "for g: for i.o: for j.o: S[16 rows of i] = Q[g, 16 rows of i] * K[j.o]",
       "for r.o: for j.o: S[16 rows of r] = Q[r % G, r / G of 16 r] * K[j.o]",
       {"axes, the one that varies fastest first", "r: [g, i]"}},
      {"tile", Kind::tile, kRootDefinition, Form::axis_numbers, 1, 1024, false,
       "Splits the loop over an axis into a loop over tiles, named i.o, and the tile. Axes not named are whole in the "
       "tile. "
       "Edges are predicated: a tile need not divide the extent. Of an output's columns, such as e, a tile may hold a "
       "part, too, with rewrite: online: each part computes the weights again, so it is for accumulators that no tile "
       "holds whole.",
       "O: {tile: {i: 64, j: 64}}", "for i: for j: O[i] += P[i,j] * V[j]",
       "for i.o: for j.o:\n  O[64 rows of i] += P[64 x 64] * V[64 rows of j]"},
      {"reorder", Kind::reorder, kRootDefinition, Form::loops, 0, 0, false,
       "The loops of the nest, outermost first. Left out: the loops of gpu_blocks or parallel, slowest first, then the "
       "other "
       "tiled loops in the order of tile.",
       "O: {reorder: [b, h, j.o, i.o]}",
       "for b: for h: for i.o: for j.o: step        # state of one i tile, in registers",
       "for b: for h: for j.o: for i.o: step        # state of all i, in global memory"},
      {"descending", Kind::descending, kRootDefinition, Form::loops, 0, 0, false,
       "Loops inside a block that run from the last tile to the first. With a causal mask the tile at the diagonal, "
       "which tests a predicate, then is also the one that starts the running state.",
       "O: {tile: {i: 64, j: 64}, descending: [j.o]}", "for j.o from 0 to tiles: step",
       "for j.o from tiles - 1 to 0: step"},
      {"rfactor", Kind::rfactor, kRootDefinition, Form::axis_parts, 2, 1024, false,
       "Splits the axis that is reduced into so many parts of whole tiles, for outputs with too few tiles to fill a "
       "machine, as in decoding. The loop over the parts, j.s, is one of gpu_blocks or parallel. Each block carries "
       "the running state over the tiles of its part, as far as predicates leave some, and stores it in global memory, "
       "in f32; the states of a row are merged by rules that the algebra gives (merge says by whom), and the outputs "
       "written. Parts without tiles are fine. A number: so many parts, of equally many tiles. {split_size: 1024}: "
       "parts "
       "of 1024 elements from the first on, however many that gives, so that what a row is summed to depends on "
       "nothing "
       "but its own elements and that number. auto: each launch chooses how many, from lengths and the machine, so "
       "that "
       "the blocks are as many as it holds at once: no length is compiled in, and bits may differ from batch to batch. "
       "Of rewrite: online; a state takes a slot of scratch for each part. "
       "{j: [j.s, auto, j.w, 8]}: the tiles of a block's part are dealt in turn to 8 teams of as many threads as "
       "threads "
       "says, so that what a block reads at a time lies side by side; a part is a whole number of tiles for each. "
       "Each has a loop, tiles, rings and a running state of its own and waits for no other, so a block has as many "
       "copies under way as its shared memory holds; at the end all of the block's threads merge the states of its "
       "teams, in shared memory and by the same rules. j.w is the loop around that over the tiles, inputs are staged "
       "in it or there. With threads, not with warps.",
       "O: {rfactor: {j: [j.s, 16]}, gpu_blocks: [j.s, i.o, h, b]}", "blocks b, h, i.o: for j.o: step; write O",
       "blocks b, h, i.o, j.s: for j.o of part j.s: step; write state[j.s]\n"
       "blocks b, h, i: for j.s: merge state[j.s]; write O"},
      {"merge",
       Kind::merge,
       kRootDefinition,
       Form::word,
       0,
       0,
       false,
       "Beside rfactor: who merges the states of a row's parts. kernel (the default): a second kernel, behind the "
       "first. "
       "last_block: of the blocks that make them the one that ends last, as a counter in global memory tells, in the "
       "same launch. Either way states are merged in the order of the parts, so bits do not depend on who is last.",
       "O: {rfactor: {j: [j.s, 16]}, merge: last_block, gpu_blocks: [j.s, i.o, h, b]}",
       "blocks b, h, i.o, j.s: for j.o of part j.s: step; write state[j.s]\n"
       "blocks b, h, i: for j.s: merge state[j.s]; write O",
       "blocks b, h, i.o, j.s:\n  for j.o of part j.s: step\n  write state[j.s]\n"
       "  if 16 blocks have: for j.s: merge state[j.s]; write O",
       {"kernel", "last_block"}},
      {"gpu_blocks", Kind::gpu_blocks, kRootDefinition, Form::loops, 0, 0, false,
       "The outermost loops, spread over the blocks of the grid; the first varies fastest from block to block.",
       "O: {gpu_blocks: [i.o, h, b]}", "for b: for h: for i.o: body",
       "block n: i.o = n % tiles; h = n / tiles % H; b = n / tiles / H; body"},
      {"cluster", Kind::cluster, kRootDefinition, Form::integer, 2, 4, true,
       "Blocks that are neighbours along the first loop of gpu_blocks, 2 or 4, form a cluster (sm_90a, with warps): a "
       "tile of a staged input that is the same for all of them is copied once, a share of its rows by each, to all. "
       "They keep in step, so a tile that a mask hides from one block is left out only where it is hidden from all.",
       "O: {gpu_blocks: [i.o, h, b], cluster: 2}", "block n: for j.o: copy K_tile; S = Q * K_tile",
       "blocks 2 * n + r, r = 0 and 1: for j.o: copy half r of K_tile to both; S = Q * K_tile"},
      {"parallel", Kind::parallel, kRootDefinition, Form::loops, 0, 0, false,
       "The same for the CPU: the outermost loops, spread over the cores; the first varies fastest.",
       "O: {parallel: [i.o, h, b]}", "for b: for h: for i.o: body", "cores take (i.o, h, b) from one queue: body"},
      {"threads", Kind::threads, kRootDefinition, Form::integer_pair, 1, 1024, false,
       "The threads of a block as [rows, columns] of a tile. Their product is a multiple of 32; columns is 1, 2, 4, 8, "
       "16 or "
       "32, so that the threads of one row lie in one warp and reduce it by shuffles.",
       "O: {threads: [16, 16]}", "S[64 x 64]                # by one thread",
       "S[64 x 64]                # 256 threads, each 4 x 4 elements"},
      {"persistent",
       Kind::persistent,
       kRootDefinition,
       Form::word,
       0,
       0,
       false,
       "Blocks stay (sm_90a, with warps): as many as the GPU holds at once, each takes one output tile after the other "
       "from a counter until none is left, so that the copies for the next tile are under way while one is finished. "
       "linear: in the order of gpu_blocks. longest_first: those whose loops are longest first, where how long they "
       "are "
       "grows or shrinks with an axis, as with a causal mask, in groups of heads whose keys and values fit the L2 "
       "cache; "
       "else in the order of gpu_blocks.",
       "O: {gpu_blocks: [i.o, h, b], persistent: longest_first}",
       "block n: copy Q_tile; body of tile n",
       "block n: tile = n\nwhile tile < tiles: copy Q_tile; body of tile; tile = next of all blocks",
       {"linear", "longest_first"}},
      {"mask_map", Kind::mask_map, kRootDefinition, Form::flag, 1, 1, false,
       "For conditions that no interval bounds, such as a dense mask of Booleans or documents in any order: kernels in "
       "front compute the condition for each element once, and list for each tile of rows the tiles of the reduced "
       "axis "
       "in which it holds everywhere, then those in which it holds somewhere. The loop runs over that list; other "
       "tiles "
       "are neither read nor computed. Worth it where many tiles are empty, or where heads or launches share a mask: a "
       "launch may take the map that an earlier one left in its workspace (mask_map_is_current, run --keep-mask-map). "
       "Rows go over the tiles in another order. Of rewrite: online, without rfactor and cluster.",
       "O: {tile: {i: 64, j: 64}, mask_map: true}", "for j.o: S = Q * K[j.o] where mask[i, j]",
       "for j.o: count mask[i, j] of the tile             # kernels of their own\n"
       "for n in 0 .. full: S = Q * K[list[n]]\n"
       "for n in full .. seen: S = Q * K[list[n]] where mask[i, j]"},
      {"compute_at", Kind::compute_at, kInnerDefinition, Form::loop, 0, 0, false,
       "Computes a tile of the definition inside that loop of the definition that reads it: the loop over tiles i.o, "
       "or h for "
       "an axis without tiles.",
       "S: {compute_at: j.o}", "for i: for j: S[i,j] = ...\nfor i: for j: O[i] += f(S[i,j])",
       "for i.o: for j.o:\n  S[64 x 64] = ...\n  O[64] += f(S[64 x 64])"},
      {"compute_root", Kind::compute_root, kRootDefinition, Form::flag, 1, 1, false,
       "Gives the definition a kernel of its own, with its own tile, blocks and threads, and keeps the whole of it in "
       "global "
       "memory.",
       "S: {compute_root: true, tile: {i: 64, j: 64}, gpu_blocks: [j.o, i.o, h, b], threads: [16, 16]}",
       "kernel O: for i.o: for j.o: S tile; O += f(S tile)",
       "kernel S: for i.o: for j.o: S[..] = ...   # global memory\nkernel O: for i.o: for j.o: O += f(S[..])"},
      {"store_in", Kind::store_in, kRootDefinition | kInnerDefinition | kStagedInput, Form::spaces, 0, 0, false,
       "Where the tile lives: shared or register (on the CPU: a workspace of the core, or vectors where they fit). "
       "Operands of a "
       "product that plain multiply-adds compute are read from shared memory. A definition at root lives in global "
       "memory. [shared, register], of a staged input that is the left operand of tensor cores in a loop inside: "
       "copied to "
       "shared memory, from there read once into registers, and held while the loop runs. A producer then has the "
       "slot in "
       "shared memory back at once. mma_sync holds such operands without a word where registers are left.",
       "S: {compute_at: j.o, store_in: shared}", "S: f32[i 64, j 64] in register", "S: f32[i 64, j 64] in shared"},
      {"stage_at", Kind::stage_at, kStagedInput, Form::loop, 0, 0, false,
       "Copies the tile of an input that the loops inside read, once in each iteration of that loop.",
       "K: {stage_at: j.o, store_in: shared}", "for j.o: S = Q * K[64 rows of j, from global memory]",
       "for j.o:\n  copy K_tile <- K[64 rows of j]; sync\n  S = Q * K_tile"},
      {"ring_buffer", Kind::ring_buffer, kStagedInput, Form::integer, 1, 8, false,
       "Slots of a staged tile: the copy of the next tile runs while this one is read. At a loop that is spread over "
       "blocks "
       "only where they stay (persistent).",
       "K: {stage_at: j.o, store_in: shared, ring_buffer: 2}",
       "for j.o: copy K_tile <- K[j.o]; sync; S = Q * K_tile; sync",
       "copy K_tile[0] <- K[0]\nfor j.o: copy K_tile[(j.o + 1) % 2] <- K[j.o + 1]; S = Q * K_tile[j.o % 2]; sync"},
      {"copy",
       Kind::copy,
       kRootDefinition | kStagedInput,
       Form::word,
       0,
       0,
       false,
       "How the tile gets to shared memory. vector (the default): loaded into registers, then stored. cp_async (sm_80 "
       "and "
       "later): 16 bytes at a time past the registers, so that a ring's next tiles are under way while one is read; "
       "rows "
       "that strides or addresses keep from 16-byte copies are loaded element by element. tma (sm_90a, with warps): a "
       "tensor "
       "map describes the tensor, one thread starts the copy of a whole tile, or, where its rows lie in pages that a "
       "table finds, of one box a page: pages of a multiple of 8 rows, so many that a tile is a whole number of pages "
       "or a page of tiles; strides and addresses are multiples of 16 "
       "bytes. Of an output with a kernel of its own it is how tiles get to global memory. vector: from registers, by "
       "the "
       "threads that hold them. tma, for f16 and bf16: by way of a tile in shared memory, from which one thread of "
       "each "
       "consumer starts the copy of 64 rows, and the others go on.",
       "K: {stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: 2}",
       "for j.o:\n  r = load K[64 rows of j]; K_tile = r; sync\n  S = Q * K_tile",
       "start K_tile[0] <- K[0]\nfor j.o:\n  wait for K_tile[j.o % 2]; sync\n  start K_tile[(j.o + 1) % 2] <- K[j.o + "
       "1]\n"
       "  S = Q * K_tile[j.o % 2]",
       {"vector", "cp_async", "tma"}},
      {"mma",
       Kind::mma,
       kRootDefinition | kInnerDefinition,
       Form::word,
       0,
       0,
       false,
       "The instructions that compute the products of its kernel; named at any one of the kernel's definitions. fma "
       "(the "
       "default): multiply-adds of f32, operands in shared memory. mma_sync (sm_80 and later): tensor cores, operands "
       "of 16 "
       "bits from shared memory or, for a tile that the kernel computes, from registers; sums in f32. A warp is 8 rows "
       "by 4 "
       "columns of threads and takes 16 rows of a tile at a time. wgmma (sm_90a): the same by warpgroups of four "
       "warps, 64 "
       "rows at a time, which read shared memory themselves.",
       "S: {compute_at: j.o, store_in: register, mma: mma_sync}",
       "for d: S[i,j] += Q[i,d] * K[j,d]       # fma, f32",
       "for d in steps of 16: S[16 x 8] += Q[16 x 16] * K[8 x 16]       # mma.sync.m16n8k16, f16 or bf16, f32 sums",
       {"fma", "mma_sync", "wgmma"}},
      {"tf32", Kind::tf32, kRootDefinition | kInnerDefinition, Form::flag, 1, 1, false,
       "Beside mma: mma_sync: inputs of f32 are multiplied by tensor cores, too. Both operands of each product, "
       "weights "
       "included, are rounded to the nearest tf32 (10 bits behind the point, the exponents of f32; halves away from "
       "zero), "
       "sums stay in f32; outputs are then as exact as with f16 inputs. Without it f32 is refused by tensor cores. "
       "Of inputs of 16 bits and of the CPU, which computes f32 as it is, it changes nothing.",
       "S: {compute_at: j.o, store_in: register, mma: mma_sync, tf32: true}",
       "for d: S[i,j] += Q[i,d] * K[j,d]       # fma, f32",
       "for d in steps of 8: S[16 x 8] += tf32(Q[16 x 8]) * tf32(K[8 x 8])       # mma.sync.m16n8k8, f32 sums"},
      {"vectorize", Kind::vectorize, kRootDefinition | kStagedInput, Form::integer, 1, 64, true,
       "Of a staged input: elements that one load moves, 16 bytes at most; left out, the widest that strides allow. Of "
       "a root "
       "definition for the CPU: lanes of its vectors; left out, the host's width.",
       "K: {stage_at: j.o, store_in: shared, vectorize: 4}", "for d: K_tile[j, d] = K[j, d]",
       "for d in steps of 4: K_tile[j, d .. d+4] = K[j, d .. d+4]     # one 16-byte load"},
      {"unroll", Kind::unroll, kRootDefinition | kInnerDefinition, Form::axis_numbers, 1, 64, false,
       "Repeats the body of the innermost loop of a product, which runs over the axis that it sums.",
       "S: {unroll: {d: 4}}", "for d: S += Q[d] * K[d]",
       "for d in steps of 4: S += Q[d] * K[d]; S += Q[d+1] * K[d+1]; ..."},
      {"align_storage", Kind::align_storage, kInnerDefinition | kStagedInput, Form::axis_numbers, 2, 4096, false,
       "Pads the extent of an axis of a tile in shared memory to a multiple, to move rows to other banks.",
       "K: {stage_at: j.o, store_in: shared, align_storage: {d: 68}}", "K_tile: f32[j 64, d 64]",
       "K_tile: f32[j 64, d 64 of 68]"},
      {"overlap",
       Kind::overlap,
       kInnerDefinition,
       Form::part,
       1,
       64,
       false,
       "Runs the last product of a tile one iteration later, behind this definition's product of the next tile, so "
       "that "
       "tensor cores work while the other units compute what lies between. cover is the part of the columns of the "
       "weights that is computed before the wait for the delayed product: a whole number of columns, 0 or 0/1 for "
       "none, "
       "1 or 1/1 for all. The first tile is computed by itself; where there is none to see, it is a tile whose "
       "elements "
       "are all absent.",
       "S: {compute_at: j.o, overlap: {cover: 1/2}}",
       "for j.o:\n  S = Q * K[j.o]\n  P = softmax step of S\n  O += P * V[j.o]",
       "S = Q * K[0]; P = softmax step of S\nfor j.o from 1:\n  start S = Q * K[j.o]\n  start O += P * V[j.o - 1]\n"
       "  wait for S; first half of the columns of P\n  wait for O; second half of the columns of P\nO += P * V[last]",
       {"cover", "columns"}},
      {"exp2",
       Kind::exp2,
       kInnerDefinition,
       Form::part,
       1,
       64,
       false,
       "On GPUs, the part of the definition's exponentials that multiply-adds compute, by a polynomial, and not the "
       "special-function unit, which has an eighth of their rate and computes the others meanwhile. Results are as "
       "exact. Which is which goes by the place in a thread's registers, evenly spread. A CPU that runs the schedule "
       "of "
       "a GPU computes all alike.",
       "P: {compute_at: j.o, exp2: {polynomial: 1/4}}",
       "P[0..4] = exp2(x[0..4])     # special-function unit",
       "P[1..4] = exp2(x[1..4])     # special-function unit\n"
       "P[0] = 2^floor(x[0]) * polynomial(x[0] - floor(x[0]))     # multiply-adds",
       {"polynomial", "exponentials"}},
  };
}

}  // namespace

const std::vector<DirectiveInfo>& directive_table() {
  static const std::vector<DirectiveInfo> table = make_table();
  return table;
}

const DirectiveInfo& directive_info(DirectiveKind kind) {
  for (const DirectiveInfo& info : directive_table())
    if (info.kind == kind) return info;
  throw InternalError("directive without a row in the table");
}

const DirectiveInfo* find_directive(std::string_view key) {
  for (const DirectiveInfo& info : directive_table())
    if (info.key == key) return &info;
  return nullptr;
}

std::vector<std::string> directive_keys(unsigned sites) {
  std::vector<std::string> keys;
  for (const DirectiveInfo& info : directive_table())
    if ((info.sites & sites) != 0) keys.emplace_back(info.key);
  return keys;
}

std::string describe_sites(unsigned sites) {
  std::vector<std::string> words;
  if ((sites & kTopLevel) != 0) words.emplace_back("the top level");
  if ((sites & kRootDefinition) != 0) words.emplace_back("a root definition");
  if ((sites & kInnerDefinition) != 0) words.emplace_back("an inner definition");
  if ((sites & kStagedInput) != 0) words.emplace_back("a staged input");
  std::string out;
  for (std::size_t n = 0; n < words.size(); ++n) {
    if (n > 0) out += n + 1 == words.size() ? " or " : ", ";
    out += words[n];
  }
  return out;
}

std::string describe_form(ValueForm form) {
  switch (form) {
    case ValueForm::flag:
      return "true";
    case ValueForm::integer:
      return "an integer";
    case ValueForm::integer_pair:
      return "two integers, such as [16, 16]";
    case ValueForm::loop:
      return "the name of a loop, such as j.o";
    case ValueForm::loops:
      return "a list of loops, such as [i.o, h, b]";
    case ValueForm::axis_numbers:
      return "a map of axes to integers, such as {i: 64}";
    case ValueForm::spaces:
      return "global, shared, register or [shared, register]";
    case ValueForm::word:
      return "a word";
    case ValueForm::target:
      return "a target, such as sm_80";
    case ValueForm::rewrite:
      return "none or online";
    case ValueForm::role_numbers:
      return "a map of roles to warpgroups, such as {producer: 1, consumer: 2}";
    case ValueForm::extents:
      return "a list of extents, such as [Hq, Hkv]";
    case ValueForm::extent_numbers:
      return "a map of extents to integers, such as {Sk: 1024}";
    case ValueForm::axis_parts:
      return "an axis with a loop and a number of parts, such as {j: [j.s, 16]}, or auto or {split_size: 1024} in "
             "place of the number, and, for teams of threads, a loop and their number, such as {j: [j.s, 16, j.w, 8]}";
    case ValueForm::axis_lists:
      return "a map of axes to lists of axes, such as {r: [g, i]}";
    case ValueForm::part:
      return "a part, such as 1/2";
    case ValueForm::service:
      return "a map of dtype, lengths and rank, such as {dtype: [f16, bf16], lengths: {i: [1, 16], d: 128}, rank: 2}";
  }
  throw InternalError("value form without words");
}

std::string describe_value(const DirectiveInfo& info) {
  if (info.form == ValueForm::part)
    return "a part of the " + std::string(info.words[1]) + ", such as {" + std::string(info.words[0]) + ": 1/2}";
  if (info.form == ValueForm::axis_lists)
    return "a map of an axis to " + std::string(info.words[0]) + ", such as {" + std::string(info.words[1]) + "}";
  if (info.form != ValueForm::word) return describe_form(info.form);
  std::string out;
  for (std::size_t n = 0; n < info.words.size(); ++n) {
    if (n > 0) out += n + 1 == info.words.size() ? " or " : ", ";
    out += info.words[n];
  }
  return out;
}

std::string axis_of_loop(const LoopName& loop) {
  const bool split = loop.size() > 2 && loop[loop.size() - 2] == '.' &&
                     std::string_view("oisw").find(loop.back()) != std::string_view::npos;
  return split ? loop.substr(0, loop.size() - 2) : loop;
}

}  // namespace astatide
