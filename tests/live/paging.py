"""The arithmetic of paging.sh, and what starts a program in a group and measures it.

  paging.py plan                       what a throughput model is fitted to, as a plan for flashlab sim run
  paging.py fit MEASURED NAME SIZE     the fitted profile, from what sim run --json printed
  paging.py drive PROGRAM ...          measures a program over memory sizes
  paging.py table POINTS MEASURED REPLAYED FTL  the tables; REPLAYED: for each depth device and model, as sim run --json
"""
import argparse
import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

import picture

# Reads first: writes change the state that is measured.
CLASSES = {
    "random_read": ("read", "random"),
    "sequential_read": ("read", "sequential"),
    "random_write": ("write", "random"),
    "sequential_write": ("write", "sequential"),
}
# The kernel reads up to 32 KiB from swap space at once and writes up to 32 pages one after the other.
SIZES_KIB = [4, 8, 16, 32, 64, 128]
# What the programs hold, in MiB, and how much memory they get.
DATA = 128
MEMORY = {"java": [192, 128, 112, 96], "postgres": [256, 160, 128, 96]}
# How often the operations are counted at each memory, and how often before that.
WINDOWS = 3
WARM_UP = 1


def plan():
    print('version = 1\nname = "fit"\ntitle = "What a throughput model is fitted to"')
    sizes = ", ".join(f'"{kib}KiB"' for kib in SIZES_KIB)
    for name, (mode, location) in CLASSES.items():
        print(f'\n[[experiment]]\nname = "{name}"\nmode = "{mode}"\nlocation = "{location}"\nduration = "5s"')
        print(f'vary = "IOSize"\nvalues = [{sizes}]')


def measured(path):
    """class -> [(KiB, mean response time in us)]."""
    with open(path) as file:
        runs = iter(json.load(file)["runs"])
    return {name: [(kib, next(runs)["rows"][0]["response"]["mean_ns"] / 1e3) for kib in SIZES_KIB]
            for name in CLASSES}


def line(points):
    """A and B of T = A + n B by least squares of the relative errors: small requests count as much as large ones."""
    weights = [1 / time**2 for _, time in points]
    total = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, points)) / total
    mean_t = sum(w * t for w, (_, t) in zip(weights, points)) / total
    spread = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, points))
    b = sum(w * (n - mean_n) * (t - mean_t) for w, (n, t) in zip(weights, points)) / spread
    b = max(b, 0.0)
    a = mean_t - b * mean_n
    if a < 0:
        a, b = 0.0, sum(w * n * t for w, (n, t) in zip(weights, points)) / sum(w * n * n for w, (n, _) in zip(weights, points))
    return a, b


def fit(path, name, size):
    points = measured(path)
    print(f'version = 1\nname = "model-of-{name}"\ntitle = "The throughput model of {name}"')
    print(f'source = "measured on sim:{name} by tests/live/paging.sh"')
    print('fit = "T = A + n B, least squares of relative errors, 4 KiB to 128 KiB"')
    print(f'capacity = "{size}"\nblock = "512B"')
    for of, values in points.items():
        a, b = line(values)
        print(f'\n[throughput.{of}]\na = "{round(a * 1000)}ns"\nb_us_per_kb = {b:.3f}')


class Program:
    """A process in the group. Redirects nothing that its class does not say."""

    def start(self, command, group, **more):
        def join():
            with open(f"{group}/cgroup.procs", "w") as procs:
                procs.write(str(os.getpid()))

        self.process = subprocess.Popen(command, preexec_fn=join, **more)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Java(Program):
    def __init__(self, group, work):
        command = ["java", "-XX:+UseSerialGC", "-Xms32m", f"-Xmx{DATA * 3 // 2}m", "-Xmn16m",
                   "-cp", f"{work}/classes", "Heap", str(DATA)]
        self.start(command, group, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit("the Java program ended before its heap was full")

    def rates(self, seconds):
        return [self.rate(seconds) for _ in range(WARM_UP + WINDOWS)]

    def rate(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the Java program ended while it was measured")
        return float(answer)


class Postgres(Program):
    """pgbench's table of accounts, read at random by four clients; the server's own buffers hold all of it."""

    SCALE = DATA * 1024 * 1024 // (15 << 20)
    TABLES = ("pgbench_accounts", "pgbench_accounts_pkey")

    def __init__(self, group, work):
        data, self.sockets = f"{work}/postgres", f"{work}/sockets"
        for path in (data, self.sockets):
            os.makedirs(path, exist_ok=True)
            shutil.chown(path, "postgres", "postgres")
        self.run("initdb", "--pgdata", data, "--auth", "trust", "--no-sync")
        self.start(["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "postgres", "-D", data,
                    "-c", "listen_addresses=", "-c", f"unix_socket_directories={self.sockets}",
                    "-c", f"shared_buffers={DATA * 3 // 2}MB", "-c", "max_connections=20", "-c", "autovacuum=off", "-c", "fsync=off",
                    "-c", "max_wal_size=64MB"],
                   group, cwd=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_until_ready()
            self.bench("--initialize", "--scale", str(self.SCALE), "--quiet")
            # The first reads write, once, that what they see is committed.
            self.bench("--initialize", "--init-steps=v")
            self.ask("create extension pg_prewarm")
            for table in self.TABLES:
                self.ask(f"select pg_prewarm('{table}')")
        except BaseException:
            self.stop()
            raise

    def run(self, *command):
        result = subprocess.run(["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command],
                                cwd="/", capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(f"{command[0]}: {result.stderr.strip()[-500:]}")
        return result

    def bench(self, *options):
        return self.run("pgbench", "-h", self.sockets, "-U", "postgres", *options, "postgres")

    def ask(self, query):
        return self.run("psql", "-h", self.sockets, "-U", "postgres", "-c", query, "postgres")

    def wait_until_ready(self):
        for _ in range(200):
            if os.path.exists(f"{self.sockets}/.s.PGSQL.5432") and self.process.poll() is None:
                try:
                    self.ask("select 1")
                    return
                except SystemExit:
                    pass
            time.sleep(0.1)
        raise SystemExit("postgres did not begin within 20 s")

    def rates(self, seconds):
        # One run for all: to connect takes longer than a window when memory is short.
        total = round(seconds * (WARM_UP + WINDOWS)) + 1
        options = ["--select-only", "--client", "4", "--time", str(total), "--progress", str(round(seconds)), "--no-vacuum"]
        report = self.run("pgbench", "-h", self.sockets, "-U", "postgres", *options, "postgres").stderr
        counted = [float(line.split()[3]) for line in report.splitlines() if line.startswith("progress: ")]
        if len(counted) < WARM_UP + WINDOWS:
            raise SystemExit(f"pgbench counted {len(counted)} times only:\n{report[-500:]}")
        return counted[:WARM_UP + WINDOWS]

    def stop(self):
        # Immediate shutdown: the data are not used again, and its children end with it.
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        shutil.rmtree(f"{os.path.dirname(self.sockets)}/postgres", ignore_errors=True)


def limit(group, mib):
    """Lowers the group's memory. The kernel gives up while all that could leave is being written; then it is asked again."""
    end = time.monotonic() + 180
    while True:
        try:
            with open(f"{group}/memory.limit_in_bytes", "w") as file:
                file.write(str(mib << 20))
            return
        except OSError as error:
            if time.monotonic() > end:
                raise SystemExit(f"cannot lower the memory to {mib} MiB within three minutes: {error}") from None
            time.sleep(0.01)


def drive(given):
    # SIGTERM ends it as an error does: the program is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    memory = MEMORY[given.program]
    limit(given.group, memory[0])
    begin = time.monotonic()
    program = {"java": Java, "postgres": Postgres}[given.program](given.group, given.work)
    try:
        for mib in memory:
            limit(given.group, mib)
            rates = program.rates(given.seconds)[WARM_UP:]
            with open(given.to, "a", newline="") as file:
                csv.writer(file).writerow([given.program, given.name, mib, *(f"{rate:.1f}" for rate in rates)])
            shown = ", ".join(f"{rate:.0f}" for rate in rates)
            print(f"  {mib} MiB: {shown}  ({time.monotonic() - begin:.0f} s)", file=sys.stderr)
    finally:
        program.stop()


def table(given):
    rates = {}
    with open(given.points, newline="") as file:
        for program, name, mib, *windows in csv.reader(file):
            rates.setdefault(program, {}).setdefault(name, {})[int(mib)] = [float(rate) for rate in windows]
    if given.csv:
        shutil.copyfile(given.points, given.csv)
    print(f"The model of {given.ftl}: T = A + n B\n")
    for name, points in measured(given.measured).items():
        a, b = line(points)
        errors = [abs(a + n * b - t) / t * 100 for n, t in points]
        print(f"  {name.replace('_', ' '):18}A {a:9.1f} us   B {b:7.3f} us/KiB   "
              f"error {statistics.mean(errors):5.1f} % on average, {max(errors):5.1f} % at most")
    show_replayed(given.replayed)
    for program, disks in rates.items():
        print(f"\n{program}: operations a second, median of {WINDOWS} windows (memory in MiB)\n")
        sizes = sorted({mib for of in disks.values() for mib in of}, reverse=True)
        print(f"  {'':26}" + "".join(f"{mib:>10}" for mib in sizes))
        for name, of in disks.items():
            print(f"  {name:26}" + "".join(f"{statistics.median(of[mib]):10.0f}" for mib in sizes))
        device, model = disks[given.ftl], disks[f"model of {given.ftl}"]
        apart = {mib: (statistics.median(model[mib]) / statistics.median(device[mib]) - 1) * 100 for mib in sizes}
        print(f"  {'model against device':26}" + "".join(f"{apart[mib]:+9.1f}%" for mib in sizes))
        if given.pictures:
            draw(f"{given.pictures}/paging-{program}.svg", program, disks)


def show_replayed(path):
    with open(path) as file:
        rest = file.read().strip()
    runs = []
    while rest:
        document, end = json.JSONDecoder().raw_decode(rest)
        runs.append(document["runs"][0])
        rest = rest[end:].lstrip()
    print("\nThe requests that the device was sent, in virtual time\n")
    for device, model in zip(runs[::2], runs[1::2]):
        seconds = [run["duration_ns"] / 1e9 for run in (device, model)]
        depth = round(device["device_queue_mean"])
        print(f"  {depth} at once: device {seconds[0]:.1f} s, model {seconds[1]:.1f} s, the model's rate "
              f"{(seconds[0] / seconds[1] - 1) * 100:+.1f} %")


def draw(path, program, disks):
    title = {"java": "A Java program", "postgres": "A PostgreSQL server"}[program] + " over its memory"
    chart = picture.Chart(title, "memory (MiB)", "operations a second", log_y=True)
    for index, (name, of) in enumerate(disks.items()):
        points = [(mib, max(statistics.median(windows), 1)) for mib, windows in of.items()]
        chart.line(name, index, points, dashed=name.startswith("model of"), dots=True)
    chart.write(path)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plan")
    of = commands.add_parser("fit")
    for word in ("measured", "name", "size"):
        of.add_argument(word)
    of = commands.add_parser("drive")
    of.add_argument("program", choices=["java", "postgres"])
    for word in ("--name", "--group", "--work", "--to"):
        of.add_argument(word, required=True)
    of.add_argument("--seconds", type=int, required=True)
    of = commands.add_parser("table")
    for word in ("points", "measured", "replayed", "ftl"):
        of.add_argument(word)
    of.add_argument("--csv")
    of.add_argument("--pictures")
    given = parser.parse_args()
    match given.command:
        case "plan":
            plan()
        case "fit":
            fit(given.measured, given.name, given.size)
        case "drive":
            drive(given)
        case _:
            table(given)


if __name__ == "__main__":
    main()
