"""Runs the program for the comparisons beside this file."""
import json
import subprocess
import sys


def run_ms(program, algorithm, schedule, shape, dtype, repeat, inputs=(), caches="--cold"):
    """The median of `repeat` launches on the GPU, in ms. Ends the comparison where a launch is refused or fails.

    Each finds the L2 cache as triton.testing.do_bench leaves it to the peers, overwritten; with `caches` "--rotate" graphs of launches on
    copies of the inputs in turn, and with None what the launch before has left.
    """
    path = f"{algorithm}.yaml" if "/" in algorithm else f"examples/{algorithm}.yaml"
    command = [program, "run", path, "--schedule", schedule, "--shape", shape, "--dtype", dtype, "--device", "cuda", "--repeat",
               str(repeat), "--json", *([caches] if caches else []), *(word for file in inputs for word in ("--input", file))]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    if not report["ok"]:
        sys.exit(f"{schedule} {dtype} {shape}: {report}")
    return report["time_ms"]["median"]
