"""Times masks, score functions, heads, ragged and paged items beside compiled FlexAttention and cuDNN in one run on one GPU.

Shapes: B4 H16 S4096 D128 bf16 unless the row says otherwise. FLOPs are those of what a mask leaves visible. Every measure is by
device events, the L2 cache overwritten before each launch, in an order that is shuffled in every round; the table holds medians, the ratio to the peer, and the rate as a share of that of
the plain kernel (full or causal) under the same schedule. Integers (documents, offsets, pages) are written to files that the program reads.

Usage: python3 tests/perf/compare_variants.py PROGRAM [ROUNDS]       (run in the root of the tree)
"""
import os
import random
import statistics
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
import triton.testing
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from program import run_ms

torch.manual_seed(0)
random.seed(0)
numpy.random.seed(0)
B, H, S, D = 4, 16, 4096, 128
FLASH3 = "sm90/flash3"
VARIANTS = "tests/perf/variants/"
files = tempfile.TemporaryDirectory()


def saved(name, values):
    path = os.path.join(files.name, name + ".npy")
    numpy.save(path, numpy.asarray(values, "i4"))
    return path


def with_fast_math(schedule):
    path = os.path.join(files.name, "fast_math.yaml")
    with open(f"schedules/{schedule}.yaml") as text, open(path, "w") as out:
        out.write("fast_math: true\n" + text.read())
    return path


def timed(call):
    call()
    return triton.testing.do_bench(call, warmup=50, rep=100, return_mode="median")


def inputs(hq=H, hkv=H, d=D, dv=D):
    return [torch.randn(B, h, S, width, device="cuda", dtype=torch.bfloat16) for h, width in ((hq, d), (hkv, d), (hkv, dv))]


compiled_flex = torch.compile(flex_attention, dynamic=False)
torch._dynamo.config.recompile_limit = 64


def flex(mask=None, score=None, hq=H, hkv=H):
    def measure():
        q, k, v = inputs(hq, hkv)
        blocks = create_block_mask(mask, None, None, S, S, device="cuda") if mask else None
        return timed(lambda: compiled_flex(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=hq != hkv))

    return measure


def cudnn(hq=H, hkv=H, d=D, dv=D):
    def measure():
        q, k, v = inputs(hq, hkv, d, dv)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=hq != hkv))

    return measure


def ours(algorithm, schedule=FLASH3, extra="", files=(), hq=H, hkv=H, d=D, dv=D, sizes=""):
    shape = (sizes or f"B={B},Sq={S},Sk={S}") + f",Hq={hq},Hkv={hkv},D={d},Dv={dv}{extra}"
    return lambda program: run_ms(program, algorithm, schedule, shape, "bf16", 100, files)


def seen(lengths):  # pairs that a causal mask leaves, of items of these lengths
    return sum(n * (n + 1) // 2 for n in lengths)


def cases():
    documents = torch.arange(S, device="cuda") // 1000
    slopes = torch.exp2(-8.0 * torch.arange(1, H + 1, device="cuda") / H)

    def causal(b, h, i, j):
        return i >= j

    def softcap(score, b, h, i, j):
        return 30.0 * torch.tanh(score / 30.0)

    def alibi(score, b, h, i, j):
        return score + slopes[h] * (j - i)

    def window(b, h, i, j):
        return (i >= j) & (i - j < 512)

    def same(b, h, i, j):
        return documents[i] == documents[j]

    document_files = tuple(f"{name}={saved('documents', numpy.tile(numpy.arange(S) // 1000, (B, 1)))}" for name in ("doc_q", "doc_k"))
    per_head, full = 4 * D * B * H, S * S
    lengths = numpy.exp(numpy.random.uniform(numpy.log(16), numpy.log(8192), 32)).astype(int)
    offsets = saved("offsets", numpy.concatenate([[0], numpy.cumsum(lengths)]))
    total, longest = int(lengths.sum()), int(lengths.max())
    ragged = (f"q_offset={offsets}", f"k_offset={offsets}")

    def items(name, lengths):  # packed one after the other, causal
        files = saved(name, numpy.concatenate([[0], numpy.cumsum(lengths)]))
        rows, most = sum(lengths), max(lengths)
        return ours("ragged", files=(f"q_offset={files}", f"k_offset={files}"), sizes=f"B={len(lengths)},Sq={most},Sk={most},Tq={rows},Tk={rows}")

    def paged(algorithm, rows):  # full items of S keys, causal, their pages in any order
        count = B * S // rows
        table = numpy.zeros((B, S // rows + 1))
        table[:, :-1] = numpy.random.permutation(count).reshape(B, -1)
        files = (f"page={saved(f'pages_{rows}', table)}", f"length={saved('lengths', numpy.full(B, S))}")
        return ours(algorithm, files=files, extra=f",Pages={count}")
    yield "full", None, None, ours("attention"), per_head * full, None
    yield "causal", "Flex", flex(causal), ours("causal_gqa"), per_head * full / 2, None
    yield "softcap, full", "Flex", flex(None, softcap), ours(VARIANTS + "softcap"), per_head * full, "full"
    yield "softcap, causal", "Flex", flex(causal, softcap), ours(VARIANTS + "softcap_causal"), per_head * full / 2, "causal"
    fast = with_fast_math(FLASH3)
    yield "softcap, full, fast_math", "Flex", flex(None, softcap), ours(VARIANTS + "softcap", fast), per_head * full, "full"
    yield "softcap, causal, fast_math", "Flex", flex(causal, softcap), ours(VARIANTS + "softcap_causal", fast), per_head * full / 2, "causal"
    yield "ALiBi, causal", "Flex", flex(causal, alibi), ours(VARIANTS + "alibi_causal"), per_head * full / 2, "causal"
    yield "window of 512", "Flex", flex(window), ours("sliding_window", extra=",Left=511,Right=0"), per_head * S * 512, "causal"
    yield "documents of 1000", "Flex", flex(same), ours("document_mask", files=document_files), per_head * S * 1000, "full"
    yield "32:4 heads, causal", "cuDNN", cudnn(32, 4), ours("causal_gqa", hq=32, hkv=4), 2 * per_head * full / 2, "causal"
    yield ("D 192, Dv 128, causal", "cuDNN", cudnn(d=192, dv=128), ours("causal_gqa", "sm90/flash3_d256", d=192),
           2 * B * H * full * (192 + 128) / 2, "causal")
    yield (f"32 items of 16 to 8192, {total} rows, causal", None, None,
           ours("ragged", files=ragged, sizes=f"B=32,Sq={longest},Sk={longest},Tq={total},Tk={total}"), 4 * D * H * seen(lengths), "causal")
    equal, uneven, short = [4096] * 4, [8192, 4096, 2048, 1024], [4096] * 4 + [16] * 28
    yield "4 items of 4096, causal", None, None, items("equal", equal), 4 * D * H * seen(equal), "causal"
    yield "8192, 4096, 2048, 1024, causal", None, None, items("uneven", uneven), 4 * D * H * seen(uneven), "causal"
    yield "4 items of 4096 and 28 of 16, causal", None, None, items("short", short), 4 * D * H * seen(short), "causal"
    many = [1676] * 32
    plain = "B32 S1676, causal"
    yield plain, None, None, ours("causal_gqa", sizes="B=32,Sq=1676,Sk=1676"), 4 * D * H * seen(many), None
    yield "32 items of 1676, causal", None, None, items("many", many), 4 * D * H * seen(many), plain
    yield "pages of 64, causal", None, None, paged(VARIANTS + "paged_64", 64), per_head * full / 2, "causal"
    yield "pages of 16, causal", None, None, paged("paged", 16), per_head * full / 2, "causal"


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rows = list(cases())
    work = [(row[0], "ours", lambda row=row: row[3](program)) for row in rows]
    work += [(row[0], "peer", row[2]) for row in rows if row[2]]
    samples = {}
    for _ in range(rounds):
        for name, who, measure in random.sample(work, len(work)):
            samples.setdefault((name, who), []).append(measure())
    ms = {key: statistics.median(values) for key, values in samples.items()}
    rate = {row[0]: row[4] / ms[row[0], "ours"] * 1e-9 for row in rows}
    print("| variant | ms | TFLOP/s | peer | its TFLOP/s | of the peer | of the plain kernel |\n|---|---|---|---|---|---|---|")
    for name, peer, _, _, flops, plain in rows:
        theirs = flops / ms[name, "peer"] * 1e-9 if peer else 0
        print(f"| {name} | {ms[name, 'ours']:.3f} | {rate[name]:.0f} | {peer or '–'} | {f'{theirs:.0f}' if peer else '–'} | "
              f"{f'{rate[name] / theirs:.2f}' if peer else '–'} | {f'{rate[name] / rate[plain]:.2f}' if plain else '–'} |")


if __name__ == "__main__":
    main()
