#!/usr/bin/env python3
"""Where PostgreSQL's planner changes from an index scan to a sequential scan, and where it should.

    tests/live/planner.py FLASHLAB [--directory DIR | --device DEVICE] [--cached 0,0.9] [--rounds 3] [--pages 120000]

DIR has to be on the disk that is meant, with 2.5 GiB free: an image there becomes a loop device with direct IO. DEVICE is used
in place of it, for example one of `flashlab serve`; what it holds is lost. Root, PostgreSQL and its user are needed.

1. The device gets an ext4 with a table of about 1 GiB: seven rows in each page of 8 KiB, and an index of a hash of the row's
   number, so that neighbours in the index are in different pages.
2. flashlab measures the unmounted device, read-only, and advises random_page_cost for each cached share.
3. EXPLAIN says from which share of the rows on the planner takes the sequential scan at this cost (bitmap scans are off).
4. Both scans run at shares around it, forced, after the file system was mounted anew and the server was started: nothing is
   cached, or this share of the pages of the index scan. pgbench reports the time of the statement. Rounds are interleaved.
5. The measured crossover is where the time of the index scan passes that of the sequential one, between logarithms.

It prints the two crossovers and their ratio. Run it when nothing else uses the disk."""

import argparse, concurrent.futures, json, math, os, pathlib, random, shutil, signal, statistics, subprocess, sys, tempfile

READ_AHEAD_KIB = 128  # the kernel's default, which the advice assumes
ROWS_A_PAGE = 7


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr or done.stdout}")
    return done.stdout


class Database:
    """A PostgreSQL server on a file system of its own."""

    def __init__(self, device, work):
        self.device, self.work = device, work
        self.bin = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.mount, self.is_running = work / "mount", False
        self.mount.mkdir()
        work.chmod(0o711)

    def as_postgres(self, *words):
        return run("runuser", "-u", "postgres", "--", *words, cwd="/")

    def start(self):
        run("mount", self.device, self.mount)
        self.is_running = True
        options = (
            "-c listen_addresses= -c shared_buffers=64MB -c jit=off -c max_parallel_workers_per_gather=0 -c fsync=off "
            f"-c autovacuum=off -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=64MB -k {self.mount}"
        )
        self.as_postgres(self.bin / "pg_ctl", "-s", "-w", "-D", self.mount / "pg", "-l", self.mount / "pg.log", "-o", options, "start")

    def stop(self):
        if self.is_running:
            pid = self.mount / "pg/postmaster.pid"
            if pid.exists():
                self.as_postgres(self.bin / "pg_ctl", "-s", "-w", "-D", self.mount / "pg", "-m", "fast", "stop")
            run("umount", self.mount)
            self.is_running = False

    def sql(self, *statements):
        text = ";\n".join(statements)
        return self.as_postgres(self.bin / "psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", self.mount, "-c", text, "postgres").strip()

    def create(self, pages):
        run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", self.device)
        run("mount", self.device, self.mount)
        run("chown", "postgres", self.mount)
        self.as_postgres(self.bin / "initdb", "-D", self.mount / "pg", "-A", "trust", "-N")
        run("umount", self.mount)
        self.start()
        self.sql(
            "create unlogged table t as select hashint8extended(i, 42) as r, repeat(md5(i::text), 34) as pad "
            f"from generate_series(1, {pages * ROWS_A_PAGE}) i",
            "create index t_r on t (r)",
            "analyze t",
        )
        self.sql("vacuum freeze t")
        self.sql("checkpoint")
        found = int(self.sql("select relpages from pg_class where relname = 't'"))
        assert 0.9 * pages < found < 131072, f"{found} pages"
        self.files = [self.mount / "pg" / self.sql(f"select pg_relation_filepath('{name}')") for name in ("t", "t_r")]
        return found

    def query(self, share):
        return f"select count(pad) from t where r < {round(-(2**63) + share * 2**64)}"

    def planned(self, share, cost):
        """Whether the planner takes the index."""
        plan = self.sql("set enable_bitmapscan = off", f"set random_page_cost = {cost}", "explain " + self.query(share))
        return "Index Scan" in plan

    def planner_crossover(self, cost):
        low, high = 1e-5, 1.0
        if self.planned(high, cost):
            return 1.0
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.planned(middle, cost) else (low, middle)
        return math.sqrt(low * high)

    def pages_of(self, share):
        rows = self.sql(f"select distinct (ctid::text::point)[0]::int from t where r < {round(-(2**63) + share * 2**64)}")
        return [int(row) for row in rows.split()]

    def warm(self, pages):
        """Reads these pages of the table, and all of its index."""
        self.files[1].read_bytes()
        with open(self.files[0], "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda page: os.pread(file.fileno(), 8192, page * 8192), pages))

    def seconds(self, share, is_index, warm_pages):
        """One scan, with nothing cached but these pages."""
        self.stop()
        self.start()
        if warm_pages:
            self.warm(warm_pages)
        off = "enable_seqscan" if is_index else "enable_indexscan"
        script = self.work / "scan.sql"
        # The explanation reads the catalogue, so that the scan does not.
        query = self.query(share)
        script.write_text(f"set enable_bitmapscan = off;\nset {off} = off;\nexplain {query};\n{query};\n")
        script.chmod(0o644)
        out = self.as_postgres(self.bin / "pgbench", "-n", "-r", "-t", "1", "-h", self.mount, "-f", script, "postgres")
        line = [line for line in out.splitlines() if line.rstrip(";").endswith(query)][-1]
        return float(line.split()[0]) / 1e3


def crossing(times):
    """Where the index scan takes as long as the sequential one; times: share -> (index, sequential)."""
    points = sorted((math.log(share), math.log(index / scan)) for share, (index, scan) in times.items())
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if y0 <= 0 < y1:
            return math.exp(x0 - y0 * (x1 - x0) / (y1 - y0))
    return None


def measure(database, shares, cached, rounds):
    """The median times of both scans at each share."""
    warm = {}
    for share in shares:
        hit = database.pages_of(share) if cached else []
        warm[share] = random.sample(hit, round(cached * len(hit)))
    found = {share: ([], []) for share in shares}
    for _ in range(rounds):
        for share in shares:
            for is_index in (True, False):
                found[share][0 if is_index else 1].append(database.seconds(share, is_index, warm[share]))
    return {share: tuple(statistics.median(side) for side in found[share]) for share in shares}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("flashlab")
    options.add_argument("--directory", default=".")
    options.add_argument("--device")
    options.add_argument("--cached", default="0,0.9")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--pages", type=int, default=120_000)
    options = options.parse_args()
    random.seed(1)
    # A termination cleans up, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
    work = pathlib.Path(tempfile.mkdtemp(prefix="flashlab-planner-", dir=options.directory)).resolve()
    device, database = options.device, None
    try:
        if not device:
            image = work / "image"
            run("dd", "if=/dev/urandom", f"of={image}", "bs=4M", f"count={options.pages // 394 + 100}", "conv=fsync")
            device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
        run("blockdev", "--setra", READ_AHEAD_KIB * 2, device)
        database = Database(device, work)
        pages = database.create(options.pages)
        database.stop()
        model = work / "model"
        run(options.flashlab, "model", "fit", device, "--read-only", "--output", model)
        database.start()
        for cached in map(float, options.cached.split(",")):
            tune = (options.flashlab, "model", "tune", model, "--for", "postgresql", "--json", "--cached", cached)
            value = json.loads(run(*tune, "--read-ahead", f"{READ_AHEAD_KIB}KiB"))["values"][0]
            assert value["name"] == "random_page_cost", value
            cost = float(value["value"])
            print(f"cached {cached:.0%}: random_page_cost = {cost} ({value['reason']})", flush=True)
            planned, usual = database.planner_crossover(cost), database.planner_crossover(4.0)
            times, shares = {}, sorted({min(planned * 2.0**step, 0.9) for step in range(-2, 3)})
            measured = None
            # Where the measured crossover is not among them, shares beyond follow.
            while measured is None and shares:
                times.update(measure(database, shares, cached, options.rounds))
                measured = crossing(times)
                least, most = min(times), max(times)
                shares = [least / 4] if times[least][0] > times[least][1] else [min(most * 2, 0.95)]
                shares = [share for share in shares if share not in times and share > 1e-4]
            for share, (index, scan) in sorted(times.items()):
                print(f"  {share:8.4%} of the rows: index scan {index:7.3f} s, sequential scan {scan:7.3f} s")
            words = "beyond these shares" if measured is None else f"{measured:.3%}, the planner's is {planned / measured:.2f} of it"
            print(f"  crossover: planner {planned:.3%} (at 4.0: {usual:.3%}), measured {words}; {pages} pages", flush=True)
    finally:
        if database:
            database.stop()
        if device and not options.device:
            run("losetup", "--detach", device)
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
