"""The arithmetic of raw_io.sh: what is measured, and how far it is from the model.

  raw_io.py fio-jobs DISK PROFILE LARGEST_KIB       a job file for fio
  raw_io.py plan LARGEST_KIB                        the same as a plan for flashlab run
  raw_io.py table PROFILE RESULTS [--csv FILE] [--pictures DIR]
"""
import argparse
import csv
import glob
import json
import statistics
import tomllib

import picture

# fio's name for it, and the error in percent of the paper's simulator (Table 2).
CLASSES = {
    "sequential_read": ("read", 5.31),
    "random_read": ("randread", 4.6),
    "sequential_write": ("write", 6.57),
    "random_write": ("randwrite", 4.10),
}
# So long, and so many IOs, a point is measured each time.
SECONDS, FEWEST, MOST = 0.25, 12, 400


def sizes(largest):
    return [kib for kib in (4 << step for step in range(12)) if kib <= largest]


class Model:
    """T(n) = A + n B in microseconds, for n KiB."""

    def __init__(self, path):
        with open(path, "rb") as file:
            lines = tomllib.load(file)["throughput"]
        self.lines = {name: (microseconds(line["a"]), line["b_us_per_kb"]) for name, line in lines.items()}

    def time(self, name, kib):
        a, b = self.lines[name]
        return a + kib * b


def microseconds(text):
    for unit, factor in (("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)):
        if text.endswith(unit) and text[: -len(unit)].replace(".", "").isdigit():
            return float(text[: -len(unit)]) * factor
    raise ValueError(f"{text!r} is no time")


def count(microseconds_each):
    return int(min(MOST, max(FEWEST, SECONDS * 1e6 / microseconds_each)))


def fio_jobs(disk, profile, largest):
    model = Model(profile)
    print(f"[global]\nfilename={disk}\nioengine=psync\ndirect=1\nthread=1\nrandrepeat=0\nallow_mounted_write=0")
    for name, (rw, _) in CLASSES.items():
        for kib in sizes(largest):
            ios = count(model.time(name, kib))
            print(f"\n[{name}-{kib}]\nstonewall\nrw={rw}\nbs={kib}k\nsize=100%\nnumber_ios={ios}")


def plan(largest):
    print('version = 1\nname = "raw-io"\ntitle = "Raw IO"\nvary = "IOSize"')
    print("values = [" + ", ".join(f'"{kib}KiB"' for kib in sizes(largest)) + "]")
    for name in CLASSES:
        location, mode = name.split("_")
        print(f'\n[[experiment]]\nname = "{name}"\nmode = "{mode}"\nlocation = "{location}"\nio_count = 30')


def fio_points(pattern):
    """(class, KiB) -> [(mean, median)] in microseconds, one for each repetition."""
    points = {}
    for path in sorted(glob.glob(pattern)):
        with open(path) as file:
            jobs = json.load(file)["jobs"]
        for job in jobs:
            if job["error"]:
                raise SystemExit(f"fio: {job['jobname']} failed with error {job['error']}")
            name, kib = job["jobname"].rsplit("-", 1)
            side = job[name.split("_")[1]]
            # slat + clat is lat; for synchronous engines the submission takes no time of its own.
            point = side["lat_ns"]["mean"] / 1e3, side["clat_ns"]["percentile"]["50.000000"] / 1e3
            points.setdefault((name, int(kib)), []).append(point)
    return points


def run_points(path):
    with open(path) as file:
        benchmark = json.load(file)["micro_benchmarks"][0]
    points = {}
    for experiment in benchmark["experiments"]:
        for point in experiment["points"]:
            runs = [(run["response"]["mean_ns"] / 1e3, run["response"]["p50_ns"] / 1e3) for run in point["runs"]]
            points[experiment["pattern"], int(point["value"]) // 1024] = runs
    return points


def error(measured, expected):
    return (measured / expected - 1) * 100


def table(arguments):
    model = Model(arguments.profile)
    ways = {
        "fio, file": fio_points(f"{arguments.results}/file-*.json"),
        "flashlab, file": run_points(f"{arguments.results}/run.json"),
        "fio, loop": fio_points(f"{arguments.results}/loop-*.json"),
    }
    rows = []
    for way, points in ways.items():
        for (name, kib), runs in points.items():
            expected = model.time(name, kib)
            mean = statistics.median(mean for mean, _ in runs)
            median = statistics.median(median for _, median in runs)
            # The throughput is one over the mean response time.
            errors = error(1 / mean, 1 / expected), error(median, expected)
            rows.append((way, name, kib, expected, mean, median, *errors))

    print("Average error against T = A + n B, in percent: of the throughput (mean response time), and of the median\n")
    print(f"{'':18}" + "".join(f"{way + ', ' + str(reach(points)):>28}" for way, points in ways.items()) + f"{'paper':>9}")
    print(f"{'':18}" + f"{'throughput':>19}{'median':>9}" * len(ways))
    for name, (_, paper) in CLASSES.items():
        line = f"{name.replace('_', ' '):18}"
        for way in ways:
            of = [row for row in rows if row[:2] == (way, name)]
            line += f"{average(of, 6):19.2f}{average(of, 7):9.2f}"
        print(line + f"{paper:9.2f}")
    worst = max(rows, key=lambda row: abs(row[7]))
    print(f"\nworst median: {worst[0]}, {worst[1].replace('_', ' ')} of {worst[2]} KiB: {worst[7]:+.2f} %")
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["way", "class", "kib", "model_us", "mean_us", "median_us", "throughput_error_percent",
                             "median_error_percent"])
            writer.writerows((*row[:3], *(f"{value:.3f}" for value in row[3:])) for row in rows)
    if arguments.pictures:
        draw(f"{arguments.pictures}/raw-io.svg", model, ways)


def reach(points):
    largest = max(kib for _, kib in points)
    return f"to {largest} KiB" if largest < 1024 else f"to {largest // 1024} MiB"


def average(rows, column):
    return statistics.mean(abs(row[column]) for row in rows)


def draw(path, model, ways):
    chart = picture.Chart("A live Zeus beside its model", "size of an IO (KiB)", "MB/s", log_x=True, log_y=True)
    for index, name in enumerate(CLASSES):
        points = ways["fio, file"]
        xs = sorted(kib for of, kib in points if of == name)
        chart.line(f"model, {name.replace('_', ' ')}", index, [(x, x * 1024 / model.time(name, x)) for x in xs])
        means = {x: statistics.median(mean for mean, _ in points[name, x]) for x in xs}
        chart.dots(f"fio, {name.replace('_', ' ')}", index, [(x, x * 1024 / means[x]) for x in xs])
    chart.write(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    jobs = commands.add_parser("fio-jobs")
    jobs.add_argument("disk")
    jobs.add_argument("profile")
    jobs.add_argument("largest", type=int)
    commands.add_parser("plan").add_argument("largest", type=int)
    shown = commands.add_parser("table")
    shown.add_argument("profile")
    shown.add_argument("results")
    shown.add_argument("--csv")
    shown.add_argument("--pictures")
    given = parser.parse_args()
    match given.command:
        case "fio-jobs":
            fio_jobs(given.disk, given.profile, given.largest)
        case "plan":
            plan(given.largest)
        case _:
            table(given)
