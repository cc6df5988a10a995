"""Times schedules for one query a head beside PyTorch's attention in one run on one GPU, and prints a Markdown table.

Peers: cuDNN and FlashAttention-2 through scaled_dot_product_attention with grouped heads. bf16, D 128. The order is shuffled in every round;
each is timed by device events; the table holds the median of the rounds, as bytes of K and V read in a second. The L2 cache is flushed before
each launch of the peers, and not before those of the program: rows whose K and V fit it compare nothing.

Usage: python3 tests/perf/compare_decode.py PROGRAM [ROUNDS]       (run in the root of the tree)
"""
import random
import statistics
import sys

import torch
import torch.nn.functional as F
import triton.testing
from torch.nn.attention import SDPBackend, sdpa_kernel

from program import run_ms

torch.manual_seed(0)
random.seed(0)
D = 128
CASES = [(1, 32, 8, 8192), (1, 32, 8, 131072), (16, 32, 8, 8192), (64, 32, 8, 4096), (16, 64, 8, 32768)]
PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA-2": SDPBackend.FLASH_ATTENTION}
SCHEDULES = ["sm80/decode", "sm80/decode_gqa", "sm90/decode", "sm90/decode_gqa",
             "sm90/decode_gqa_teams"]


def torch_ms(backend, b, hq, hkv, s):
    q = torch.randn(b, hq, 1, D, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(b, hkv, s, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    with sdpa_kernel(backend):
        return triton.testing.do_bench(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), warmup=25,
                                       rep=100, return_mode="median")


def astatide_ms(program, schedule, b, hq, hkv, s):
    return run_ms(program, "causal_gqa", schedule, f"B={b},Hq={hq},Hkv={hkv},Sq=1,Sk={s},D={D},Dv={D}", "bf16", 50)


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    work = []
    for case in CASES:
        work += [(name, case, lambda p=peer, c=case: torch_ms(p, *c)) for name, peer in PEERS.items()]
        work += [(name, case, lambda n=name, c=case: astatide_ms(program, n, *c)) for name in SCHEDULES]
    samples = {}
    for _ in range(rounds):
        for name, case, measure in random.sample(work, len(work)):
            samples.setdefault((name, case), []).append(measure())
            torch.cuda.empty_cache()
    names = list(PEERS) + SCHEDULES
    print("| shape | " + " | ".join(names) + " | best of cuDNN |")
    print("|---" * (len(names) + 2) + "|")
    for case in CASES:
        b, hq, hkv, s = case
        size = 2 * b * hkv * s * D * 2
        ms = {name: statistics.median(samples[name, case]) for name in names}
        best = min(ms[name] for name in SCHEDULES)
        print(f"| B{b} {hq}:{hkv} heads Sk {s} | " + " | ".join(f"{size / ms[name] * 1e-6:,.0f}" for name in names) +
              f" | {ms['cuDNN'] / best:.2f} |")


if __name__ == "__main__":
    main()
