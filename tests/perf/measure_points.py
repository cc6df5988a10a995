"""Times a list of schedules on one GPU, in one process, and writes what they took.

All are compiled first, several at once. Then, in each round and in a new order, each is launched a few times, with a pair of events around
each launch; a buffer of twice the L2 cache is written before it. A time is the median of all launches of all rounds. What fails to compile or
to launch has no time, and its column `error` says why. A fault on the device, or a kernel that does not end, ends the measurement with what was
measured until then.

Usage: ASTATIDE_LIBRARY=…/libastatide.so python3 tests/perf/measure_points.py LIST OUT.csv [SECONDS]        (run in the root of the tree)

LIST has the columns schedule (a path relative to LIST, or the name of a shipped one), algorithm, shape, dtype, as make_points.py writes it. OUT.csv
has them too, then ms, spread (the part between the quartiles, of the median), launches, error. SECONDS, 60 unless given, bound the rounds;
compiling comes before. Needs PyTorch, NVRTC and a GPU.
"""
import concurrent.futures
import csv
import os
import pathlib
import random
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "ctypes"))
import torch

import astatide

LAUNCHES = 5  # of a schedule in a round
SECONDS_OF_A_HANG = 10
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
random.seed(0)
torch.manual_seed(0)


def sizes_of(shape):
    return {name: int(value) for name, value in (part.split("=") for part in shape.split(","))}


def tensors_of(shape, dtype):
    n = sizes_of(shape)
    made = lambda *dims: torch.randn(*dims, device="cuda", dtype=TYPES[dtype])
    return {"Q": made(n["B"], n["Hq"], n["Sq"], n["D"]), "K": made(n["B"], n["Hkv"], n["Sk"], n["D"]),
            "V": made(n["B"], n["Hkv"], n["Sk"], n["Dv"]), "O": made(n["B"], n["Hq"], n["Sq"], n["Dv"]),
            "L": torch.empty(n["B"], n["Hq"], n["Sq"], device="cuda")}


class Point:
    def __init__(self, row, folder, engine):
        self.row, self.error, self.samples = row, "", []
        path = folder / row["schedule"]
        try:
            schedule = astatide.load_schedule(str(path) if path.exists() else row["schedule"])
            self.run = engine.build(astatide.load_algorithm(f"examples/{row['algorithm']}.yaml"), schedule, "cuda", row["dtype"],
                                    sizes_of(row["shape"]))
        except astatide.Error as error:
            self.error = str(error).splitlines()[0]

    def measure(self, tensors, flush):
        stream = torch.cuda.current_stream().cuda_stream
        events = []
        try:
            for _ in range(LAUNCHES):
                flush.zero_()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                self.run.launch(tensors, stream=stream)
                end.record()
                events.append((begin, end))
            torch.cuda.synchronize()
        except astatide.Error as error:
            self.error = str(error).splitlines()[0]
            return
        self.samples += [begin.elapsed_time(end) for begin, end in events]

    def result(self):
        if not self.samples:
            return {**self.row, "ms": "", "spread": "", "launches": 0, "error": self.error or "not measured"}
        median = statistics.median(self.samples)
        low, _, high = statistics.quantiles(self.samples, n=4)
        return {**self.row, "ms": f"{median:.4f}", "spread": f"{(high - low) / median:.3f}", "launches": len(self.samples),
                "error": self.error}


def write(points, path):
    with open(path, "w", newline="") as file:
        results = [point.result() for point in points]
        writer = csv.DictWriter(file, results[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(results)
    print(f"{sum(bool(result['ms']) for result in results)} of {len(results)} have a time", flush=True)


def end_hang(point, points, path):
    point.error, point.samples = f"did not end in {SECONDS_OF_A_HANG} s", []
    print(f"{point.row['schedule']} {point.error}", file=sys.stderr, flush=True)
    write(points, path)
    os._exit(1)


def main():
    list_path, out_path = pathlib.Path(sys.argv[1]), sys.argv[2]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
    with open(list_path, newline="") as file:
        rows = list(csv.DictReader(file))
    torch.cuda.init()
    torch.empty(1, device="cuda")
    engine, start = astatide.Engine(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        points = list(pool.map(lambda row: Point(row, list_path.parent, engine), rows))
    print(f"{len(points)} schedules compiled in {time.monotonic() - start:.0f} s, {sum(bool(p.error) for p in points)} refused", flush=True)
    tensors = {key: tensors_of(*key) for key in {(p.row["shape"], p.row["dtype"]) for p in points}}
    flush = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, device="cuda", dtype=torch.uint8)
    start, rounds = time.monotonic(), 0
    try:
        # At least one round whole; the first launches of all are not counted.
        while rounds < 2 or time.monotonic() - start < seconds:
            for point in random.sample(points, len(points)):
                if point.error:
                    continue
                watch = threading.Timer(SECONDS_OF_A_HANG, end_hang, (point, points, out_path))
                watch.start()
                point.measure(tensors[point.row["shape"], point.row["dtype"]], flush)
                watch.cancel()
                if rounds == 0:
                    point.samples.clear()
                if rounds > 1 and time.monotonic() - start > seconds:
                    break
            rounds += 1
    except RuntimeError as error:  # PyTorch's: a fault on the device, after which nothing runs
        print(f"the device failed: {error}", file=sys.stderr)
    print(f"{rounds} rounds in {time.monotonic() - start:.0f} s")
    write(points, out_path)


if __name__ == "__main__":
    main()
