"""Writes random legal variants of two shipped schedules, for measure_points.py, and a list of them.

A point differs from sm90/flash3 (two thirds of the points, causal) or sm80/flash2 (the others, full) in tile sizes, ring depths, warps, rescale,
overlap, persistence and where Q is kept. Points that the compiler refuses are drawn again; no two are alike; the first of each kind is the
shipped schedule. The same seed gives the same points.

Usage: python3 tests/perf/make_points.py PROGRAM FOLDER [COUNT] [SEED]        (run in the root of the tree; needs no GPU)

Writes FOLDER/NNN.yaml and FOLDER/list.csv with the columns schedule (relative to FOLDER), algorithm, shape, dtype.
"""
import csv
import pathlib
import random
import subprocess
import sys

SHAPE = "B=2,Hq=16,Hkv=16,Sq=4096,Sk=4096,D=128,Dv=128"
DTYPE = "bf16"
MOST = 110


def rewrite_text(rescale):
    return "online" if rescale == "plain" else f"{{online: {{rescale: {rescale}}}}}"


def hopper_point(draw):
    """A variant of sm90/flash3: TMA, a producer, and consumers of 64 rows each."""
    consumers = draw([1, 2, 2, 2, 3])
    columns = draw([32, 48, 64, 80, 96, 112, 128, 128, 144, 160, 176])
    cover = draw([None, "0", "1/2", "1"])
    persistent = draw([None, "linear", "longest_first", "longest_first"])
    slots, slots_of_q = [draw([1, 2, 2, 3, 3, 4]) for _ in range(2)], draw([1, 1, 2])
    alternate = consumers > 1 and draw([False, False, False, True])
    return f"""target: sm_90a
rewrite: {rewrite_text(draw(["plain", "lazy", "optimistic"]))}
warps: {{producer: 1, consumer: {consumers}{", alternate: true" if alternate else ""}}}
O: {{tile: {{i: {64 * consumers}, j: {columns}}}, reorder: [b, h, i.o, j.o], descending: [j.o], gpu_blocks: [i.o, h, b]{f", persistent: {persistent}" if persistent else ""}}}
S: {{compute_at: j.o, store_in: register, mma: wgmma{f", overlap: {{cover: {cover}}}" if cover else ""}}}
P: {{compute_at: j.o, store_in: register}}
Q: {{stage_at: i.o, store_in: {draw(["shared", "shared", "[shared, register]"])}, copy: tma{f", ring_buffer: {slots_of_q}" if slots_of_q > 1 else ""}}}
K: {{stage_at: j.o, store_in: shared, copy: tma, ring_buffer: {slots[0]}}}
V: {{stage_at: j.o, store_in: shared, copy: tma, ring_buffer: {slots[1]}}}
"""


def ampere_point(draw):
    """A variant of sm80/flash2: warps that all copy and compute."""
    warps, rows_of_warp = draw([2, 4, 4, 8]), draw([16, 16, 32])
    columns, slots = draw([16, 32, 48, 64, 80, 96, 128]), [draw([1, 2, 2, 3]) for _ in range(2)]
    return f"""target: sm_80
rewrite: {rewrite_text(draw(["plain", "lazy", "optimistic"]))}
O: {{tile: {{i: {warps * rows_of_warp}, j: {columns}}}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [{8 * warps}, 4]}}
S: {{compute_at: j.o, store_in: register, mma: mma_sync}}
P: {{compute_at: j.o, store_in: register}}
Q: {{stage_at: i.o, store_in: {draw(["shared", "shared", "[shared, register]"])}, copy: cp_async}}
K: {{stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: {slots[0]}}}
V: {{stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: {slots[1]}}}
"""


def is_legal(program, path, algorithm):
    """Whether the compiler takes it; what is no refusal ends the program."""
    done = subprocess.run([program, "emit", f"examples/{algorithm}.yaml", "--schedule", str(path), "--shape", SHAPE, "--dtype", DTYPE,
                           "--target", "sm_90a", "--stage", "cuda"], capture_output=True, text=True)
    if done.returncode not in (0, 2):
        sys.exit(f"{path}: {done.stderr}")
    return done.returncode == 0


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    count, seed = int(sys.argv[3]) if len(sys.argv) > 3 else MOST, int(sys.argv[4]) if len(sys.argv) > 4 else 1
    if not 2 <= count <= MOST:
        sys.exit(f"{count} points: from 2 to {MOST} are measured in one call")
    folder.mkdir(parents=True, exist_ok=True)
    generator, rows, seen = random.Random(seed), [], set()
    kinds = [("sm90/flash3", "causal_gqa", hopper_point, count - count // 3), ("sm80/flash2", "attention", ampere_point, count // 3)]
    for shipped, algorithm, point, wanted in kinds:
        text, left = pathlib.Path(f"schedules/{shipped}.yaml").read_text(), wanted
        while left > 0:
            path = folder / f"{len(rows):03}.yaml"
            if text not in seen:
                seen.add(text)
                path.write_text(text)
                if is_legal(program, path, algorithm):
                    rows.append([path.name, algorithm, SHAPE, DTYPE])
                    left -= 1
                else:
                    path.unlink()
            text = point(generator.choice)
    with open(folder / "list.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["schedule", "algorithm", "shape", "dtype"], *rows])
    print(f"{len(rows)} points of {len(seen)} drawn")


if __name__ == "__main__":
    main()
