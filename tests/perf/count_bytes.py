"""Puts the bytes that the model expects over the memory bus beside those that ncu counts, on one GPU.

For each schedule and length: `explain --counters`, one run under ncu. Both numbers are of each kernel by itself, from an empty L2 cache until the
kernel ends: ncu empties the cache in front of each kernel, and does not see what is written back from it later. They are sums over the kernels
of a launch, in MB of 10^6 bytes. attention, f16, B1 H32 D128 unless told otherwise. What fails says why in its cells.

Usage: python3 tests/perf/count_bytes.py PROGRAM [--lengths 1024 4096] [--schedules sm90/flash3 ..] [--json FILE]    (root of the tree)

ncu is taken from PATH, else from /usr/local/cuda/bin. Needs a GPU whose counters are open to the user. Exit code 1 where a row has no numbers.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

SCHEDULES = ["simt/standard", "simt/flash1", "sm80/flash2", "sm90/flash3"]
LENGTHS = [1024, 4096, 8192, 16384]
TOOLKIT = "/usr/local/cuda/bin"


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def error_of(done):
    """One line of what the program said instead of numbers."""
    try:
        said = json.loads(done.stdout)
    except json.JSONDecodeError:
        return f"code {done.returncode}: {last_line(done.stderr or done.stdout)}"
    errors = [error["message"] for error in said.get("errors", [])]
    return "; ".join(errors) or f"code {done.returncode}, without a message"


def count(options, schedule, length):
    """A row: bytes predicted and counted, or the reason why there are none."""
    row = {"schedule": schedule, "length": length}
    shape = f"B=1,Hq={options.heads},Hkv={options.heads},Sq={length},Sk={length},D={options.width},Dv={options.width}"
    words = [options.program, "explain", "attention", "--schedule", schedule, "--dtype", options.dtype, "--shape", shape,
             "--counters", "--json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=options.timeout,
                              env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{TOOLKIT}"})
    except subprocess.TimeoutExpired:
        return {**row, "error": f"no end after {options.timeout:g} s; --timeout gives it longer"}
    except OSError as error:
        sys.exit(f"{options.program}: {error.strerror}")
    if done.returncode:
        return {**row, "error": error_of(done)}
    predicted = json.loads(done.stdout)["predicted"]
    counted = predicted.get("counters", [])
    if len(counted) != len(predicted["kernels"]):
        return {**row, "error": f"ncu counted {len(counted)} kernels of {len(predicted['kernels'])}"}
    sums = lambda kernels, *keys: [sum(kernel[key] for kernel in kernels) for key in keys]
    row["predicted_read"], row["predicted_written"] = sums(predicted["kernels"], "memory_read_alone", "memory_written_alone")
    row["counted_read"], row["counted_written"] = sums(counted, "memory_read", "memory_written")
    row["kernels"] = [{"name": model["name"], "predicted": model["memory_read_alone"] + model["memory_written_alone"],
                       "counted": seen["memory_read"] + seen["memory_written"]} for model, seen in zip(predicted["kernels"], counted)]
    return row


def cells_of(row):
    cells = [row["schedule"], str(row["length"])]
    if "error" in row:
        return cells + [row["error"].splitlines()[0].replace("|", "/"), "", ""]
    both = [(row[f"{kind}_read"], row[f"{kind}_written"]) for kind in ("predicted", "counted")]
    texts = [f"{1e-6 * (read + written):.1f} ({1e-6 * read:.1f} + {1e-6 * written:.1f})" for read, written in both]
    return cells + texts + [f"{sum(both[0]) / sum(both[1]):.3f}" if sum(both[1]) > 0 else "none counted"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--width", type=int, default=128, help="of a head")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--timeout", type=float, default=60, help="seconds of one run under ncu")
    parser.add_argument("--json", type=pathlib.Path, help="file for the rows, with each kernel's bytes")
    options = parser.parse_args()
    print("| schedule | N | predicted, MB (read + written) | counted, MB (read + written) | predicted / counted |\n" + "|---" * 5 + "|",
          flush=True)
    rows = []
    for length in options.lengths:
        for schedule in options.schedules:
            rows.append(count(options, schedule, length))
            print("| " + " | ".join(cells_of(rows[-1])) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return any("error" in row for row in rows)


if __name__ == "__main__":
    sys.exit(main())
