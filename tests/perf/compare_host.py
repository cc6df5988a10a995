"""Host time of one warm launch beside PyTorch's scaled_dot_product_attention on one GPU, as a Markdown table.

The launches of this library are those of the GPU test program's "host time of warm launches"; PyTorch is called from Python, with
gradients off, on the same shapes. Both: 32 calls on tensors of their own between two waits for the device, microseconds a call, the
median of 100 such rounds and the least.

Usage: python3 tests/perf/compare_host.py TEST_PROGRAM       (run in the root of the tree)
"""
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CALLS, ROUNDS = 32, 100
SHAPE = {"B": 1, "Hq": 8, "Hkv": 2, "Sq": 16, "Sk": 64, "D": 128}  # as in tests/gpu/launch_cost_gpu.cpp


def torch_us(backend):
    def made(heads, rows):
        return torch.randn(SHAPE["B"], SHAPE[heads], SHAPE[rows], SHAPE["D"], device="cuda", dtype=torch.bfloat16)

    layers = [(made("Hq", "Sq"), made("Hkv", "Sk"), made("Hkv", "Sk")) for _ in range(CALLS)]
    samples = []
    with torch.inference_mode(), sdpa_kernel(backend):
        for _ in range(ROUNDS + 1):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for q, k, v in layers:
                F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            samples.append((time.perf_counter() - start) / CALLS * 1e6)
    return samples[1:]


def main():
    print("| what | kernels | median, us | least, us |\n|---|---|---|---|")
    printed = subprocess.run([sys.argv[1], "host time of warm launches\\, with that of the driver"], check=True, text=True,
                             capture_output=True, env={**os.environ, "ASTATIDE_REQUIRE_GPU": "1"}).stdout
    for line in printed.splitlines():
        words = line.split()
        if "median," in words:
            print(f"| `{words[0]}` | {words[1]} | {words[3]} | {words[6]} |")
    for name, backend in {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}.items():
        samples = torch_us(backend)
        print(f"| PyTorch, {name} | – | {statistics.median(samples):.2f} | {min(samples):.2f} |")


if __name__ == "__main__":
    main()
