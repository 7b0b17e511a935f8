"""What docs/python.md promises, measured: python apps/python/benches/figures.py [NAME...]

The package has to be installed with its program (cargo xtask dist), and the machine idle. Two programs are compared by the medians of their times;
they run alternately.
"""

from __future__ import annotations

import concurrent.futures
import heapq
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flashlab
from flashlab import _sweep

ROUNDS = 3
PLAN = """version = 1
name = "w"
[[experiment]]
name = "W"
pattern = "RW"
io_size = "4KiB"
io_count = {count}
"""


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratio(a: Callable[[], Any], b: Callable[[], Any]) -> float:
    """The time of a over the time of b."""
    times = [(timed(a), timed(b)) for _ in range(ROUNDS)]
    return statistics.median(one for one, _ in times) / statistics.median(other for _, other in times)


def space(rows: int) -> dict[str, list[Any]]:
    """So many combinations; more than 1,000 are those of two keys."""
    others = rows // 1000 if rows > 1000 else 1
    rows //= others
    values = {"flash.over_provisioning": [0.07 + 0.2 * row / rows for row in range(rows)]}
    return values if others == 1 else {"controller.write_buffer.size": [f"{64 + 4 * other}KiB" for other in range(others)], **values}


def sweep(rows: int, count: int, capacity: str = "64MiB", **others: Any) -> flashlab.Sweep:
    return flashlab.sweep(
        "tlc-sata", space(rows), workloads=PLAN.format(count=count), capacity=capacity, progress=False, **others
    )


def import_time() -> None:
    script = "import time; began = time.perf_counter(); import flashlab; print(time.perf_counter() - began)"
    times = [float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(7)]
    print(f"import flashlab: {1e3 * statistics.median(times):.1f} ms")


def workers() -> None:
    """Two processes against one."""

    def on(number: int) -> Callable[[], Any]:
        def work() -> None:
            context = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(number, mp_context=context) as executor:
                sweep(2000, 20_000, on=executor)

        return work

    print(f"two workers: {ratio(on(1), on(2)):.2f} times one")


def program() -> None:
    """evaluate against `flashlab sweep`, both on one CPU: the same plan, states and seeds. The program also writes samples and pages."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    values = space(24)["flash.over_provisioning"]
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder, "plan.toml")
        plan.write_text(PLAN.format(count=100_000))
        runs = iter(range(1000))

        def by_program() -> None:
            words = f"flashlab sweep sim:tlc-sata --size 64MiB --plan {plan} --output {folder}/{next(runs)} --csv --set"
            keys = "flash.over_provisioning=" + ",".join(map(str, values))
            subprocess.run([*words.split(), keys], check=True, capture_output=True)

        def by_evaluate() -> None:
            rows = len(values)
            # Each time in a new process, as the program: no state is in the cache.
            columns = {
                "profile": ["tlc-sata"] * rows,
                "workload": [str(plan)] * rows,
                "capacity": ["64MiB"] * rows,
                "flash.over_provisioning": values,
            }
            script = f"import flashlab; flashlab.evaluate({columns!r})"
            subprocess.run([sys.executable, "-c", script], check=True)

        print(f"evaluate: {ratio(by_program, by_evaluate):.2f} times the speed of flashlab sweep")
    os.sched_setaffinity(0, cpus)


def busy_s() -> float:
    """The CPU time of this machine, of all processes."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system = (int(field) for field in fields[:3])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def ray() -> None:
    """100,000 small experiments: the CPU time of everything over that of the rows."""
    import ray

    ray.init(log_to_driver=False, include_dashboard=False)
    sweep(100, 100, "16MiB", on="ray")
    began, busy = time.perf_counter(), busy_s()
    done = sweep(20_000, 100, "16MiB", seeds=range(1, 6), on="ray")
    seconds, busy = time.perf_counter() - began, busy_s() - busy
    rows = sum(done.table()["wall_s"])
    ray.shutdown()
    print(f"ray: {len(done)} rows in {seconds:.0f} s; CPU time of all {busy:.1f} s, of the rows {rows:.1f} s: {100 * (busy / rows - 1):.1f} % more")


def driver_s(batches: int, rows: int, content: bytes | None) -> float:
    """The CPU time of the caller's process, with all its threads, for a batch of so many rows on Ray, whose workers compute nothing.

    content: what a worker returns: None if it writes the file itself.
    """
    before = _sweep._FIRST_ROWS, _sweep._MOST_ROWS, _sweep._batch
    _sweep._FIRST_ROWS = _sweep._MOST_ROWS = rows
    _sweep._batch = lambda rows, version, target: (0.01, content)
    try:
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            sweep(batches * rows, 1, on="ray", output=f"{folder}/s")
            return (time.process_time() - began) / batches
    finally:
        _sweep._FIRST_ROWS, _sweep._MOST_ROWS, _sweep._batch = before


def simulated_s(number: int, rows: int, row_s: list[float], batch_s: float, each_s: float) -> tuple[float, int]:
    """How long a sweep takes on so many workers, and its batches, by the sweep's own sizes.

    The caller's process is one server: each batch takes batch_s, and each_s a row, to be sent and received. Workers take sent batches in their order.
    """
    sizes = _sweep._Sizes([(0, rows)], 1, number)
    free, now, batches, mean = [0.0] * number, 0.0, 0, statistics.fmean(row_s)
    ends: list[tuple[float, int]] = []
    end = 0.0
    while True:
        has_ended = bool(ends) and ends[0][0] <= now
        if not has_ended and len(ends) < _sweep._in_flight(number) and (batch := sizes.next()) is not None:
            count = batch[1] - batch[0]
            now += batch_s + count * each_s
            # Rows of other combinations take other times: those of the measured rows from another place on.
            first = batch[0] % len(row_s)
            whole, rest = divmod(count, len(row_s))
            took = whole * mean * len(row_s) + sum((row_s * 2)[first : first + rest])
            done = max(now, heapq.heappop(free)) + took
            heapq.heappush(free, done)
            heapq.heappush(ends, (done, count))
            batches, end = batches + 1, max(end, done)
            continue
        if not ends:
            return max(end, now), batches
        now = max(now, heapq.heappop(ends)[0])
        sizes.measured(mean)


def scale() -> None:
    """A million rows on up to 10,000 workers: a simulation of the scheduler with the times of this machine (docs/scale.md)."""
    import ray

    row_s = list(sweep(400, 20_000).table()["wall_s"])
    mean = statistics.fmean(row_s)
    ray.init(log_to_driver=False, include_dashboard=False)
    driver_s(200, 10, None)
    costs = {}
    for way in ("workers write", "the caller writes"):
        made = {}
        for rows in (20, 400):
            table = flashlab.evaluate({"profile": ["tlc-sata"] * rows, "workload": [PLAN.format(count=1)] * rows, "capacity": ["16MiB"] * rows})
            made[rows] = driver_s(1000, rows, table._parquet() if way == "the caller writes" else None)
        each_s = max(0.0, (made[400] - made[20]) / 380)
        costs[way] = made[20] - 20 * each_s, each_s
        print(f"{way}: the caller needs {1e3 * costs[way][0]:.2f} ms a batch and {1e6 * each_s:.1f} us a row")
    ray.shutdown()
    print(f"a row takes {1e3 * mean:.1f} ms")
    print("rows      workers  way                 batches  seconds  efficiency")
    for rows, numbers in ((1_000_000, (10, 100, 300, 1_000, 3_000)), (10_000_000, (1_000, 3_000, 10_000))):
        for number in numbers:
            for way, (batch_s, each_s) in costs.items():
                seconds, batches = simulated_s(number, rows, row_s, batch_s, each_s)
                print(f"{rows:>8}  {number:>7}  {way:<18}  {batches:>7}  {seconds:>7.1f}  {100 * rows * mean / (number * seconds):>9.1f} %")


def policies() -> None:
    """Greedy in Python against the built-in one, on uniform writes."""

    class Greedy:
        def victim(self, segments: flashlab.FullSegments) -> Any:
            return segments.valid.argmin()

    class Separating(Greedy):
        logs = 2

        def place_writes(self, pages: flashlab.Pages) -> Any:
            return (pages.age >= 0) & (pages.age < 100_000)

    for segments in (2048, 8192):
        speeds = []
        for policy in ("greedy", Greedy(), Separating()):
            seconds = timed(lambda: flashlab.simulate_repair(workload="uniform", policy=policy, segments=segments))
            # The filling, six volumes to settle and four that are measured.
            speeds.append(11 * int(0.8 * segments * 128) / seconds / 1e6)
        built_in, greedy, separating = speeds
        print(f"{segments} segments, million host writes/s: greedy {built_in:.2f}, in Python {greedy:.2f}, which also separates writes {separating:.2f}")


def samples() -> None:
    """run.samples() to polars, against polars reading the same files. FLASHLAB_IOS is how many IOs: 100,000,000 need 40 GB of memory."""
    import polars

    count = int(os.environ.get("FLASHLAB_IOS", "10_000_000"))
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder, "plan.toml")
        plan.write_text(PLAN.format(count=count))
        words = f"flashlab sim run tlc-sata --capacity 1GiB --plan {plan} --output {folder}/run"
        subprocess.run(words.split(), check=True, capture_output=True)
        run = flashlab.open(f"{folder}/run")
        files = sorted(str(file) for file in Path(folder, "run").rglob("*.parquet"))
        assert polars.DataFrame(run.samples()).height == polars.read_parquet(files).height == count
        quotient = ratio(lambda: polars.DataFrame(run.samples()), lambda: polars.read_parquet(files))
        print(f"samples of {count} IOs to polars: {quotient:.2f} times the time in which polars reads {len(files)} files")


FIGURES = {figure.__name__: figure for figure in (import_time, workers, program, policies, samples, ray, scale)}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
