"""Times schedules of tensor cores beside cuDNN and FlashAttention-2 in one run on one GPU, and prints a Markdown table.

Shapes: 16,384 tokens in all, each head size with about 2048 / D heads; bf16, and f16 for D 128. With `wall`, instead, one batch of 32
heads, f16, D 128, beside the standard three steps, whose scores go through memory; with `short`, 8 batches of 16 heads, f16, D 64,
causal, from 16 rows on, where fixed costs show. The order is shuffled in every round; each is timed by device events, the L2 cache
overwritten before each launch; the table holds the median of the rounds and the ratio to cuDNN. Inputs are random normals.

Usage: python3 tests/perf/compare_hopper.py PROGRAM [ROUNDS] [wall|short]        (run in the root of the tree)
"""
import random
import statistics
import sys

import torch
import torch.nn.functional as F
import triton.testing
from torch.nn.attention import SDPBackend, sdpa_kernel

from program import run_ms

random.seed(0)
torch.manual_seed(0)
HEADS = {64: 32, 96: 21, 128: 16, 192: 10, 256: 8}
LENGTHS = {128: [16384, 4096, 1024], 64: [16384, 4096, 1024], 256: [16384, 4096, 1024], 96: [4096], 192: [4096]}
# (batch, heads, D, S, causal, dtype)
CASES = [(16384 // s, HEADS[d], d, s, causal, "bf16") for d, lengths in LENGTHS.items() for s in lengths for causal in (False, True)]
CASES += [(16384 // s, HEADS[128], 128, s, causal, "f16") for s in (16384, 4096) for causal in (False, True)]
WALL = [(1, 32, 128, s, False, "f16") for s in (1024, 8192, 16384)]
SHORT = [(8, 16, 64, s, True, "f16") for s in (16, 64, 128, 256, 512, 4096)]
SCHEDULES = {64: ["sm90/flash3_d64", "sm80/flash2_d64"], 96: ["sm90/flash3"], 128: ["sm90/flash3", "sm80/flash2"],
             192: ["sm90/flash3_d256"], 256: ["sm90/flash3_d256"]}
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}


def timed(call):
    return triton.testing.do_bench(call, warmup=50, rep=100, return_mode="median")


def inputs(b, h, d, s, dtype):
    return (torch.randn(b, h, s, d, device="cuda", dtype=TYPES[dtype]) for _ in range(3))


def torch_ms(backend, b, h, d, s, causal, dtype):
    q, k, v = inputs(b, h, d, s, dtype)
    with sdpa_kernel(backend):
        return timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))


def standard_ms(b, h, d, s, causal, dtype):
    assert not causal
    q, k, v = inputs(b, h, d, s, dtype)
    return timed(lambda: torch.softmax(q @ k.transpose(-1, -2) * d**-0.5, -1) @ v)


def astatide_ms(program, schedule, b, h, d, s, causal, dtype):
    shape = f"B={b},Hq={h},Hkv={h},Sq={s},Sk={s},D={d},Dv={d}"
    return run_ms(program, "causal_gqa" if causal else "attention", schedule, shape, dtype, 150 if s < 8192 else 30)


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    wall = "wall" in sys.argv[3:]
    measures = {}
    for case in WALL if wall else SHORT if "short" in sys.argv[3:] else CASES:
        for name, backend in BACKENDS.items():
            measures[*case, name] = lambda b=backend, case=case: torch_ms(b, *case)
        if wall:
            measures[*case, "standard, three steps"] = lambda case=case: standard_ms(*case)
        for name in SCHEDULES[case[2]]:
            measures[*case, f"`{name}`"] = lambda n=name, case=case: astatide_ms(program, n, *case)
    samples = {key: [] for key in measures}
    for _ in range(rounds):
        for key in random.sample(list(measures), len(measures)):
            samples[key].append(measures[key]())
    print("| D | shape | mask | kernel | ms | TFLOP/s | of cuDNN |\n|---|---|---|---|---|---|---|")
    for (b, h, d, s, causal, dtype, name), values in samples.items():
        flops = 4 * b * h * s * s * d / (2 if causal else 1)
        ms, base = statistics.median(values), statistics.median(samples[b, h, d, s, causal, dtype, "cuDNN"])
        print(f"| {d} | {dtype} B{b} H{h} S{s} | {'causal' if causal else 'full'} | {name} | {ms:.4f} | "
              f"{flops / ms * 1e-9:.0f} | {base / ms:.2f} |")


if __name__ == "__main__":
    main()
