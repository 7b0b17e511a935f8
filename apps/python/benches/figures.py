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
    return {"flash.over_provisioning": [0.07 + 0.2 * row / rows for row in range(rows)]}


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


def scale() -> None:
    """A million rows on up to 10,000 workers: a simulation of the scheduler with the times of this machine.

    The driver makes, sends and receives one batch after another, and each worker computes one at a time. What the driver needs for a batch
    and for a row is measured with a thread that computes nothing.
    """
    rows = [time for time in sweep(400, 20_000).table()["wall_s"]]
    mean = statistics.fmean(rows)
    table = flashlab.evaluate({"profile": ["tlc-sata"] * 4096, "workload": ["no-such"] * 4096})

    class Nothing(concurrent.futures.ThreadPoolExecutor):
        def submit(self, work: Any, /, columns: Any, *others: Any) -> Any:  # type: ignore[override]
            return super().submit(table.rows, list(range(len(columns["seed"]))))

    driver = {}
    for size in (1, 64):
        flashlab._sweep._MOST_ROWS = size
        with Nothing(1) as executor, tempfile.TemporaryDirectory() as folder:
            driver[size] = timed(lambda: sweep(500 * size, 1, on=executor, output=f"{folder}/s")) / 500
    flashlab._sweep._MOST_ROWS = 4096
    row_s = max(0.0, (driver[64] - driver[1]) / 63)
    batch_s = max(0.0, driver[1] - row_s)
    print(f"a row takes {1e3 * mean:.1f} ms; the driver {1e3 * batch_s:.2f} ms a batch and {1e6 * row_s:.0f} us a row")
    print("workers  batches  hours  efficiency")
    total = 1_000_000
    for number in (10, 100, 1_000, 3_000, 10_000):
        size = max(1, min(4096, round(2.0 / mean)))
        free, now, done, end = [0.0] * number, 0.0, 0, 0.0
        heapq.heapify(free)
        while done < total:
            count = min(size, total - done)
            now = max(now, heapq.heappop(free)) + batch_s + count * row_s
            finished = now + sum(rows[(done + index) % len(rows)] for index in range(count))
            heapq.heappush(free, finished)
            done, end = done + count, max(end, finished)
        efficiency = total * mean / (number * end)
        print(f"{number:>7}  {-(-total // size):>7}  {end / 3600:>5.2f}  {100 * efficiency:>9.1f} %")


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


FIGURES = {figure.__name__: figure for figure in (import_time, workers, program, policies, ray, scale)}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
