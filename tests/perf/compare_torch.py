"""Times schedules beside PyTorch's attention in one run on one GPU, and prints a Markdown table.

Peers: memory-efficient attention and the standard three steps (the math backend) through scaled_dot_product_attention, TF32 off.
The order is shuffled in every round; each peer is timed warm, by device events; the table holds the median of the rounds.
Inputs are random normals. The tensors of a case are several times the L2 cache.

Usage: python3 tests/perf/compare_torch.py PROGRAM [ROUNDS]        (run in the root of the tree)
"""
import random
import statistics
import sys

import torch
import torch.nn.functional as F
import triton.testing
from torch.nn.attention import SDPBackend, sdpa_kernel

from program import run_ms

torch.backends.cuda.matmul.allow_tf32 = False
torch.manual_seed(0)
random.seed(0)
B, H, S, D = 4, 16, 4096, 64
FLOPS = 4 * B * H * S * S * D
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
SCHEDULES = ["simt/flash2", "simt/flash2_shared_s", "simt/standard", "simt/flash1"]


def torch_ms(backend, dtype):
    q, k, v = (torch.randn(B, H, S, D, device="cuda", dtype=DTYPES[dtype]) for _ in range(3))
    with sdpa_kernel(backend):
        return triton.testing.do_bench(lambda: F.scaled_dot_product_attention(q, k, v), warmup=50, rep=200,
                                       return_mode="median")


def astatide_ms(program, schedule, dtype):
    shape = f"B={B},Hq={H},Hkv={H},Sq={S},Sk={S},D={D},Dv={D}"
    return run_ms(program, "attention", schedule, shape, dtype, 30)


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    peers = [("PyTorch memory-efficient", "f32", lambda: torch_ms(SDPBackend.EFFICIENT_ATTENTION, "f32")),
             ("PyTorch standard (math)", "f32", lambda: torch_ms(SDPBackend.MATH, "f32"))]
    for schedule in SCHEDULES:
        peers.append((f"`{schedule}`", "f32", lambda s=schedule: astatide_ms(program, s, "f32")))
    for dtype in ("f16", "bf16"):
        peers.append(("`simt/flash2`", dtype, lambda d=dtype: astatide_ms(program, "simt/flash2", d)))
    samples = {peer[:2]: [] for peer in peers}
    for _ in range(rounds):
        for name, dtype, measure in random.sample(peers, len(peers)):
            samples[name, dtype].append(measure())
    base = statistics.median(samples[peers[0][:2]])
    print("| kernel | inputs | ms | TFLOP/s | of PyTorch memory-efficient f32 |\n|---|---|---|---|---|")
    for (name, dtype), values in samples.items():
        ms = statistics.median(values)
        print(f"| {name} | {dtype} | {ms:.2f} | {FLOPS / ms * 1e-9:.1f} | {base / ms:.2f} |")


if __name__ == "__main__":
    main()
