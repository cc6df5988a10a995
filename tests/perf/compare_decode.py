"""Times schedules for one query a head beside PyTorch's attention in one run on one GPU, and prints a Markdown table.

Peers: cuDNN and FlashAttention-2 through scaled_dot_product_attention with grouped heads. bf16, D 128. The order is shuffled in every round;
each is timed by device events; the table holds the median of the rounds, as bytes of K and V read in a second. The L2 cache is overwritten before
each launch; with `rotate` launches are nodes of graphs instead, which take copies of the inputs in turn, more than the cache holds: what
a model finds.

Usage: python3 tests/perf/compare_decode.py PROGRAM [ROUNDS] [rotate]       (run in the root of the tree)
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
SCHEDULES = ["sm80/decode", "sm80/decode_gqa", "sm90/decode_gqa", "sm90/decode_gqa_teams",
             "sm90/decode_gqa_short"]


ROTATE = "rotate" in sys.argv[3:]
ROTATED_BYTES, LEAST_LAUNCHES, MOST_COPIES = 4 * torch.cuda.get_device_properties(0).L2_cache_size, 24, 64  # as `run --rotate`


def torch_ms(backend, b, hq, hkv, s):
    def inputs():
        return (torch.randn(b, hq, 1, D, device="cuda", dtype=torch.bfloat16),
                *(torch.randn(b, hkv, s, D, device="cuda", dtype=torch.bfloat16) for _ in range(2)))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    with sdpa_kernel(backend):
        if not ROTATE:
            tensors = inputs()
            return triton.testing.do_bench(lambda: attend(*tensors), warmup=25, rep=100, return_mode="median")
        copies = max(2, min(ROTATED_BYTES // (2 * b * hkv * s * D * 2) + 1, MOST_COPIES))
        launches = -(-LEAST_LAUNCHES // copies) * copies
        tensors = [inputs() for _ in range(copies)]
        attend(*tensors[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for n in range(launches):
                attend(*tensors[n % copies])
        samples = []
        for _ in range(11):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end) / launches)
        return statistics.median(samples[1:])


def astatide_ms(program, schedule, b, hq, hkv, s):
    shape = f"B={b},Hq={hq},Hkv={hkv},Sq=1,Sk={s},D={D},Dv={D}"
    return run_ms(program, "causal_gqa", schedule, shape, "bf16", *((10, (), "--rotate") if ROTATE else (50,)))


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
