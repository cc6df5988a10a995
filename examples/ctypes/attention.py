"""Causal attention with grouped heads on arrays of Python, compared with what their library computes.

    attention.py [torch|numpy|plain]

On PyTorch's tensors, on a GPU where it has one, the result is compared with scaled_dot_product_attention; on NumPy's
with the formula; on plain Python's with loops. Without an argument the first that is installed.
"""

import array
import math
import random
import sys

import astatide

SKIPPED = 77
WIDTH = 64


def with_torch(batch, q_heads, kv_heads, rows, keys):
    """Tensors by name, and the largest differences of O and L from what PyTorch computes."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32

    def made(heads, length):  # as layers give them: heads behind rows
        return torch.randn(batch, length, heads, WIDTH, device=device).to(dtype).transpose(1, 2)

    q, k, v = made(q_heads, rows), made(kv_heads, keys), made(kv_heads, keys)
    o = torch.empty_like(q)
    lse = torch.empty(batch, q_heads, rows, device=device)

    def differences():
        group = q_heads // kv_heads
        wide_k, wide_v = (x.repeat_interleave(group, 1).float() for x in (k, v))
        seen = torch.ones(rows, keys, dtype=torch.bool, device=device).tril(keys - rows)
        wanted = torch.nn.functional.scaled_dot_product_attention(q.float(), wide_k, wide_v, attn_mask=seen)
        scores = (q.float() @ wide_k.mT / math.sqrt(WIDTH)).masked_fill(~seen, -math.inf)
        return [(o.float() - wanted).abs().max().item(), (lse - scores.logsumexp(-1)).abs().max().item()]

    return {"Q": q, "K": k, "V": v, "O": o, "L": lse}, differences


def with_numpy(batch, q_heads, kv_heads, rows, keys):
    import numpy

    random_numbers = numpy.random.default_rng(7)

    def made(heads, length):
        return random_numbers.standard_normal((batch, length, heads, WIDTH), numpy.float32).swapaxes(1, 2)

    q, k, v = made(q_heads, rows), made(kv_heads, keys), made(kv_heads, keys)
    o = numpy.empty_like(q)
    lse = numpy.empty((batch, q_heads, rows), numpy.float32)

    def differences():
        wide_k, wide_v = (x.repeat(q_heads // kv_heads, 1).astype("f8") for x in (k, v))
        scores = q.astype("f8") @ wide_k.swapaxes(-1, -2) / math.sqrt(WIDTH)
        weights = numpy.where(numpy.tri(rows, keys, keys - rows, bool), numpy.exp(scores), 0)
        sums = weights.sum(-1)
        return [float(abs(o - weights @ wide_v / sums[..., None]).max()), float(abs(lse - numpy.log(sums)).max())]

    return {"Q": q, "K": k, "V": v, "O": o, "L": lse}, differences


def with_plain(batch, q_heads, kv_heads, rows, keys):
    """Arrays of the standard library, as memoryviews with a shape."""
    numbers = random.Random(7)

    def made(*shape):
        values = array.array("f", (numbers.gauss(0, 1) for _ in range(math.prod(shape))))
        return memoryview(values).cast("B").cast("f", shape)

    q, o = made(batch, q_heads, rows, WIDTH), made(batch, q_heads, rows, WIDTH)
    k, v = made(batch, kv_heads, keys, WIDTH), made(batch, kv_heads, keys, WIDTH)
    lse = made(batch, q_heads, rows)

    def differences():
        worst = [0.0, 0.0]
        for b, h, i in ((b, h, i) for b in range(batch) for h in range(q_heads) for i in range(rows)):
            g, seen, width = h * kv_heads // q_heads, range(i + keys - rows + 1), range(WIDTH)
            weights = [math.exp(sum(q[b, h, i, d] * k[b, g, j, d] for d in width) / math.sqrt(WIDTH)) for j in seen]
            total = sum(weights)
            for e in width:
                wanted = sum(w * v[b, g, j, e] for j, w in zip(seen, weights)) / total
                worst[0] = max(worst[0], abs(o[b, h, i, e] - wanted))
            worst[1] = max(worst[1], abs(lse[b, h, i] - math.log(total)))
        return worst

    return {"Q": q, "K": k, "V": v, "O": o, "L": lse}, differences


def stream_of(tensor):
    """PyTorch's current stream, for what lies on a GPU."""
    if not getattr(tensor, "is_cuda", False):
        return None
    import torch

    return torch.cuda.current_stream().cuda_stream


def main(kinds):
    for kind in kinds:
        try:
            make = {"torch": with_torch, "numpy": with_numpy, "plain": with_plain}[kind]
            make(1, 1, 1, 1, 1)
            break
        except ImportError as error:
            print(f"skipped: {error}")
    else:
        return SKIPPED

    engine = astatide.Engine()
    run, largest = None, 0.0
    for lengths in [(1, 4, 2, 9, 13), (2, 2, 1, 1, 17)]:  # other lengths compile nothing
        tensors, differences = make(*lengths)
        on_gpu = getattr(tensors["Q"], "is_cuda", False)
        if run is None:
            sizes = dict(zip(("B", "Hq", "Hkv", "Sq", "Sk"), lengths), D=WIDTH, Dv=WIDTH)
            run = engine.build(astatide.load_algorithm("causal_gqa"), device="cuda" if on_gpu else "cpu",
                               dtype="bf16" if on_gpu else "f32", sizes=sizes)
        run.launch(tensors, stream=stream_of(tensors["Q"]))
        largest = max([largest, *differences()])
    print(f"astatide {astatide.version()} on {kind}: largest difference {largest:.1e}, {engine.counters()}")

    try:
        run.launch({**tensors, "K": tensors["Q"]}, stream=stream_of(tensors["Q"]))
        return 1
    except astatide.Error as error:
        print(f"refused:\n{error}")
    return 0 if largest < (5e-2 if on_gpu else 1e-5) and engine.counters()["compiles"] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["torch", "numpy", "plain"]))
