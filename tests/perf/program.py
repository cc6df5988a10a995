"""Runs the program for the comparisons beside this file."""
import json
import subprocess
import sys


def run_ms(program, algorithm, schedule, shape, dtype, repeat):
    """The median of `repeat` launches on the GPU, in ms. Ends the comparison where a launch is refused or fails."""
    command = [program, "run", f"examples/{algorithm}.yaml", "--schedule", schedule, "--shape", shape, "--dtype", dtype, "--device",
               "cuda", "--repeat", str(repeat), "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    if not report["ok"]:
        sys.exit(f"{schedule} {dtype} {shape}: {report}")
    return report["time_ms"]["median"]
