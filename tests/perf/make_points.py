"""Writes random legal variants of two shipped schedules, for measure_points.py, and a list of them.

A point differs from sm90/flash3 (two thirds of the points, causal) or sm80/flash2 (the others, full) in tile sizes, ring depths, warps, rescale,
overlap, persistence and where Q is kept. Points that the compiler refuses are drawn again; no two are alike; the first of each kind is the
shipped schedule. The same seed gives the same points.

Usage: python3 tests/perf/make_points.py PROGRAM FOLDER [COUNT] [SEED] [SPACE]        (run in the root of the tree; needs no GPU)

With SPACE, a file such as schedules/spaces/sm90_flash3.yaml, all are points of it instead, drawn evenly, of attention at B4 H16 S4096 D128; that
needs PyYAML.

Writes FOLDER/NNN.yaml and FOLDER/list.csv with the columns schedule (relative to FOLDER), algorithm, shape, dtype.
"""
import csv
import pathlib
import random
import re
import subprocess
import sys

SHAPE = "B=2,Hq=16,Hkv=16,Sq=4096,Sk=4096,D=128,Dv=128"
SHAPE_OF_SPACE = "B=4,Hq=16,Hkv=16,Sq=4096,Sk=4096,D=128,Dv=128"
DTYPE = "bf16"
LISTS = ("reorder", "gpu_blocks", "descending")  # directives whose value is a list: alternatives are lists of lists
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


def alternatives_of(name, value):
    """What a value of a space leaves open; one where it leaves nothing."""
    found = re.fullmatch(r"range\((\d+); *(\d+); *(\d+)\)", value) if isinstance(value, str) else None
    if found:
        first, last, step = map(int, found.groups())
        return list(range(first, last + 1, step))
    is_open = isinstance(value, list) and (name not in LISTS or isinstance(value[0], list))
    return value if is_open else [value]


def drawn(draw, name, value):
    if isinstance(value, dict):
        return {key: drawn(draw, key, part) for key, part in value.items()}
    return draw(alternatives_of(name, value))


def merge(into, part):
    for key, value in part.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def value_at(schedule, place):
    """Of `tile.i` or `warps.consumer`: a path from the root, or from the only name that has it."""
    for start in [schedule, *(part for part in schedule.values() if isinstance(part, dict))]:
        value = start
        for name in place.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            return value
    sys.exit(f"a condition of the space speaks of {place}, which no point has")


def space_point(path):
    """A function that draws a point of a space as the text of a schedule. Points that break a condition are drawn again."""
    import yaml

    space = yaml.safe_load(pathlib.Path(path).read_text())
    choices, conditions = space.pop("choose", {}), space.pop("where", [])
    conditions = [conditions] if isinstance(conditions, str) else conditions

    def point(draw):
        while True:
            schedule = drawn(draw, "", space)
            for variants in choices.values():
                merge(schedule, drawn(draw, "", variants[draw(list(variants))]))
            keeps = (eval(re.sub(r"[A-Za-z_][\w.]*", lambda m: str(value_at(schedule, m[0])), text), {"__builtins__": {}})
                     for text in conditions)
            if all(keeps):
                return yaml.safe_dump(schedule, sort_keys=False, default_flow_style=None, width=1000)

    return point


def is_legal(program, path, algorithm, shape):
    """Whether the compiler takes it; what is no refusal ends the program."""
    done = subprocess.run([program, "emit", f"examples/{algorithm}.yaml", "--schedule", str(path), "--shape", shape, "--dtype", DTYPE,
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
    shape = SHAPE
    kinds = [("sm90/flash3", "causal_gqa", hopper_point, count - count // 3), ("sm80/flash2", "attention", ampere_point, count // 3)]
    if len(sys.argv) > 5:
        shape, kinds = SHAPE_OF_SPACE, [(None, "attention", space_point(sys.argv[5]), count)]
    for shipped, algorithm, point, wanted in kinds:
        text = pathlib.Path(f"schedules/{shipped}.yaml").read_text() if shipped else point(generator.choice)
        left = wanted
        while left > 0:
            path = folder / f"{len(rows):03}.yaml"
            if text not in seen:
                seen.add(text)
                path.write_text(text)
                if is_legal(program, path, algorithm, shape):
                    rows.append([path.name, algorithm, shape, DTYPE])
                    left -= 1
                else:
                    path.unlink()
            text = point(generator.choice)
    with open(folder / "list.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["schedule", "algorithm", "shape", "dtype"], *rows])
    print(f"{len(rows)} points of {len(seen)} drawn")


if __name__ == "__main__":
    main()
