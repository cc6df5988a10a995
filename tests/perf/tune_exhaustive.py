"""Compares what `tune` finds at a tenth of the points with the best of all points of the same space, on one GPU.

For head sizes 128 and 64, full and causal: an exhaustive search, then two searches by the model with other seeds and a tenth of
the points that the exhaustive one has measured. What each found is then timed in turn with the best of all points (`diff
--measure`), and so is the shipped schedule. bf16, B4 H16, lengths of 2048. Ratios over 1 are slower than the best of all points.

A search that runs out of its time keeps its journal in --work, and another call goes on there: until the row says that all points
are measured it compares with the best of some.

Usage: python3 tests/perf/tune_exhaustive.py PROGRAM [--budget 280] [--case NAME].. [--work FOLDER]      (root of the tree)
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

CASES = {"d128_full": ("attention", 128), "d128_causal": ("causal_gqa", 128),
         "d64_full": ("attention", 64), "d64_causal": ("causal_gqa", 64)}
SPACES = pathlib.Path(__file__).resolve().parent / "spaces"
SEEDS = (1, 2)


def run(program, words, cache):
    """The object that the program prints. Ends the comparison where there is none."""
    done = subprocess.run([program, *words, "--json"], capture_output=True, text=True,
                          env={**os.environ, "ASTATIDE_CACHE_DIR": str(cache)})
    try:
        out = json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    if not out["ok"]:
        sys.exit(f"{' '.join(words)}: {out}")
    return out


class Case:
    def __init__(self, options, name):
        self.options, self.name = options, name
        self.algorithm, width = CASES[name]
        self.space = options.space or str(SPACES / f"flash3_d{width}.yaml")
        self.request = ["--shape", f"B={options.batch},Hq={options.heads},Hkv={options.heads},Sq={options.length},"
                        f"Sk={options.length},D={width},Dv={width}", "--dtype", "bf16"]
        self.cache = options.work / "cache"

    def tune(self, label, search, seconds, points, seed):
        output = self.options.work / f"{self.name}_{label}.yaml"
        journal = pathlib.Path(f"{output}.journal")
        words = ["tune", self.algorithm, *self.request, "--space", self.space, "--device", self.options.device,
                 "--search", search, "--seconds", str(max(1, round(seconds))), "--points", str(points), "--seed", str(seed),
                 "--rounds", str(self.options.rounds), "--timeout", "20", "--output", str(output), "--no-store"]
        return run(self.options.program, words + (["--resume"] if journal.exists() else []), self.cache)

    def ratio(self, schedule, best):
        """Time of `schedule` over that of `best`, round by round."""
        words = ["diff", schedule, best, self.algorithm, *self.request, "--measure", "--device", self.options.device,
                 "--rounds", "15"]
        return run(self.options.program, words, self.cache)["measured"]

    def shipped(self, target):
        return run(self.options.program, ["dispatch", self.algorithm, *self.request, "--target", target, "--no-store"],
                   self.cache)["schedule"]

    def row(self, seconds):
        all_points = self.tune("all", "exhaustive", 0.7 * seconds, 0, 0)
        measured = len(all_points["points"])
        whole = all_points["asked"] == measured + all_points["illegal"] and not all_points["interrupted"]
        best = all_points["schedule"]
        cells = [self.name, f"{measured}{'' if whole else ' so far'}", f"{all_points['winner']['time_ms']['median']:.4f}"]
        for seed in SEEDS:
            found = self.tune(f"seed{seed}", "model", max(10, 0.1 * seconds), max(1, measured // 10), seed)
            compared = self.ratio(found["schedule"], best)
            cells.append(f"{compared['first_ms']:.4f} ({compared['ratio']:.3f}) of {len(found['points'])}")
        shipped = self.shipped("cpu" if self.options.device == "cpu" else self.options.target)
        compared = self.ratio(shipped, best)
        return cells + [f"{compared['first_ms']:.4f} ({compared['ratio']:.3f}) {shipped}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--budget", type=float, default=280, help="seconds for all cases")
    parser.add_argument("--case", action="append", choices=CASES, help="as often as wanted; else all")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("tune_exhaustive"), help="journals and cache")
    parser.add_argument("--space", help="for all cases; else spaces/flash3_dWIDTH.yaml, of 516 and 540 legal points")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target", default="sm_90a", help="of the GPU, for the shipped schedule")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--length", type=int, default=2048)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    head = ["case", "points", "best of all, ms", *(f"seed {seed}, ms (ratio)" for seed in SEEDS), "shipped, ms (ratio)"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    names = options.case or list(CASES)
    end = time.monotonic() + options.budget
    for n, name in enumerate(names):
        left = max(5.0, end - time.monotonic()) / (len(names) - n)
        print("| " + " | ".join(Case(options, name).row(left)) + " |", flush=True)


main()
