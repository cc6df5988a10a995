"""Compares the model's times with those that were measured: rank correlation, and how far off they are.

MEASURED.csv is what measure_points.py writes, or measured_h200.csv: columns schedule (a path relative to the file, or the name of a shipped one),
algorithm, shape, dtype, ms; rows without a time are left out and counted. Each is predicted by `explain`. Needs no GPU.

Usage: python3 tests/perf/compare_model.py MEASURED.csv PROGRAM [--folder FOLDER] [--target sm_90a] [--rows OUT.csv]    (root of the tree)
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys


def ranks_of(values):
    """From 1; equal values have the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, first = [0.0] * len(values), 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for n in range(first, last + 1):
            ranks[order[n]] = (first + last) / 2 + 1
        first = last + 1
    return ranks


def spearman(a, b):
    """None where all values of one side are equal."""
    a, b = ranks_of(a), ranks_of(b)
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    above = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    below = (sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)) ** 0.5
    return above / below if below else None


def predict(options, row):
    """Milliseconds. Ends the comparison where the program refuses a schedule that was measured."""
    path = options.folder / row["schedule"]
    words = [options.program, "explain", row["algorithm"], "--schedule", str(path) if path.exists() else row["schedule"], "--shape",
             row["shape"], "--dtype", row["dtype"], "--target", options.target, "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)["predicted"]["ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("program")
    parser.add_argument("--folder", type=pathlib.Path, help="of the schedules; else that of the file")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--rows", type=pathlib.Path, help="file for each row's two times and their ratio")
    options = parser.parse_args()
    options.folder = options.folder or options.measured.parent
    with open(options.measured, newline="") as file:
        rows = list(csv.DictReader(file))
    timed = [row for row in rows if row["ms"]]
    if len(timed) < 3:
        sys.exit(f"{options.measured}: {len(timed)} rows have a time, a correlation needs 3")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        predicted = list(pool.map(lambda row: predict(options, row), timed))
    measured = [float(row["ms"]) for row in timed]
    errors = [p / m - 1 for p, m in zip(predicted, measured)]
    rank = spearman(predicted, measured)
    print(f"{len(timed)} of {len(rows)} rows have a time")
    print(f"Spearman's rank correlation  {'none: all are equal' if rank is None else f'{rank:.3f}'}")
    print(f"within 25 %                  {sum(abs(e) <= 0.25 for e in errors)} of {len(errors)} "
          f"({100 * statistics.fmean(abs(e) <= 0.25 for e in errors):.0f} %)")
    print(f"mean error                   {100 * statistics.fmean(map(abs, errors)):.1f} %, median of predicted / measured "
          f"{1 + statistics.median(errors):.3f}")
    worst = max(range(len(errors)), key=lambda n: abs(errors[n]))
    print(f"farthest                     {timed[worst]['schedule']}, {timed[worst]['algorithm']}, {timed[worst]['shape']}: "
          f"{predicted[worst]:.4f} ms predicted, {measured[worst]:.4f} measured")
    if options.rows:
        with open(options.rows, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["schedule", "algorithm", "shape", "dtype", "measured_ms", "predicted_ms", "ratio"])
            for row, p, m in zip(timed, predicted, measured):
                writer.writerow([row["schedule"], row["algorithm"], row["shape"], row["dtype"], f"{m:.4f}", f"{p:.4f}", f"{p / m:.3f}"])


if __name__ == "__main__":
    main()
