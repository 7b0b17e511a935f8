"""The design space: all combinations of some values, on one process, an executor or a cluster.

The rows of a sweep are numbered. A batch is a range of them, and evaluate computes it, here or on a worker. With a folder, each batch
is kept as a Parquet file whose name has the range. So a sweep that was killed goes on with the ranges that are missing: no row is lost, and none is
computed twice.

What the caller's process does for a batch does not depend on its rows: it sends the values of the batch's combinations, and gets the content of the
Parquet file, which it writes. A worker that sees the folder writes the file itself. Tables are read when somebody asks for them.
"""

from __future__ import annotations

import builtins
import fcntl
import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, Protocol

from ._engines import engine
from ._flashlab import FailedError, InputError, Table, __version__, _check, _combinations, _text, evaluate
from ._plot import SweepPlots
from ._progress import Progress

# A batch takes about this long: so much longer than what an engine needs for a task that the engine's part is a few percent, and short
# enough that little is computed again after a kill.
_BATCH_S = 2.0
# With many workers it takes so much longer that the caller's process keeps up: it needs 1 to 3 ms for a batch (docs/scale.md).
_BATCH_S_PER_WORKER = 0.004
# At the end batches are shorter, so that all workers end at about the same time, down to this share of the time above.
_LEAST_SHARE = 0.4
# Rows of the first batches, whose times are not known.
_FIRST_ROWS = 4
# Memory, and rows of a file.
_MOST_ROWS = 4096
# So many rows have a number of 12 digits, as the files' names have.
_MOST_IN_ALL = 10**12
# Rows that are built before any is computed.
_LOOKED_AT = 32
_DEFINITION = "sweep.json"
_PART = re.compile(r"rows-(\d{12})-(\d{12})\.parquet")


class _Submits(Protocol):
    def submit(self, fn: Any, /, *args: Any) -> Future[Any]: ...


class Sweep:
    """The results of a sweep, one row for each combination, seed and workload."""

    def __init__(self, count: int, store: _Memory) -> None:
        self._count, self._store = count, store

    def table(self) -> Table:
        """The rows in their order: profile, workload, seed, the keys that vary, and the results that docs/python.md lists.

        With output, they are read from the folder each time.
        """
        return self._store.table()

    @property
    def folder(self) -> Path | None:
        """The folder with the Parquet files; None without output."""
        return self._store.folder

    def pareto(self, *, minimise: Sequence[str] = (), maximise: Sequence[str] = ()) -> Table:
        """The rows of which no other one is better; see pareto."""
        return pareto(self.table(), minimise=minimise, maximise=maximise)

    @property
    def plot(self) -> SweepPlots:
        """Figures of the results: over, pareto."""
        return SweepPlots(self.table())

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<flashlab.Sweep of {len(self)} rows>"


class _Space:
    """The rows of a sweep by their numbers: the overrides change last, and the workloads first, so that neighbours share a state."""

    def __init__(
        self,
        profile: str,
        overrides: dict[str, list[Any]],
        workloads: list[str],
        seeds: list[int],
        fixed: dict[str, Any],
        is_sample: bool,
    ) -> None:
        """is_sample: the overrides have a value for each combination, and not the values that are combined."""
        self.profile, self.overrides, self.workloads, self.seeds = profile, overrides, workloads, seeds
        self.fixed, self.is_sample = fixed, is_sample
        counts = [len(values) for values in overrides.values()]
        self.count = counts[0] if is_sample and counts else math.prod(counts)

    def __len__(self) -> int:
        return self.count * len(self.seeds) * len(self.workloads)

    def rows(self, begin: int, end: int) -> dict[str, Any]:
        """What _columns makes rows of. It has each combination once, however many seeds and workloads there are."""
        each = len(self.seeds) * len(self.workloads)
        first, behind = begin // each, -(-end // each)
        values, stride = {}, 1
        for name, some in reversed(self.overrides.items()):
            if self.is_sample:
                values[name] = some[first:behind]
            else:
                count = len(some)
                values[name] = [some[combination // stride % count] for combination in range(first, behind)]
                stride *= count
        return {
            "begin": begin % each,
            "count": end - begin,
            "profile": self.profile,
            "workloads": self.workloads,
            "seeds": self.seeds,
            "fixed": self.fixed,
            "values": {name: values[name] for name in self.overrides},
        }

    def definition(self) -> dict[str, Any]:
        return {
            "flashlab": __version__,
            "profile": self.profile,
            "overrides": self.overrides,
            "workloads": self.workloads,
            "seeds": self.seeds,
            "fixed": self.fixed,
            "is_sample": self.is_sample,
        }


def _columns(rows: dict[str, Any]) -> dict[str, list[Any]]:
    """The columns of a batch, as evaluate takes them."""
    workloads, seeds, count = rows["workloads"], rows["seeds"], rows["count"]
    numbers = range(rows["begin"], rows["begin"] + count)
    some, each = len(workloads), len(workloads) * len(seeds)
    return {
        "profile": [rows["profile"]] * count,
        "workload": [workloads[number % some] for number in numbers],
        "seed": [seeds[number // some % len(seeds)] for number in numbers],
        **{name: [value] * count for name, value in rows["fixed"].items()},
        **{name: [values[number // each] for number in numbers] for name, values in rows["values"].items()},
    }


def sweep(
    profile: str | os.PathLike[str] | dict[str, Any],
    overrides: Mapping[str, Iterable[Any]],
    *,
    workloads: Sequence[str | os.PathLike[str] | dict[str, Any]],
    seeds: Iterable[int] = (1,),
    capacity: int | str | None = None,
    state: str | None = None,
    sample: tuple[Literal["sobol", "random"], int] | None = None,
    sample_seed: int = 1,
    output: str | os.PathLike[str] | None = None,
    on: Executor | Literal["ray", "dask", "spark"] | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Computes simulated experiments: all combinations of the overrides, with each seed and each workload.

    profile: as that of Simulator.

    overrides: keys of the profile and their values, as {"flash.over_provisioning": [0.07, 0.28]}.

    workloads: as those of Simulator.run, without traces.

    capacity, state: as the columns of evaluate.

    sample: ("sobol", 200) or ("random", 200) takes so many combinations of a large space, each with all seeds and workloads.
    sample_seed decides which.

    output: a folder for Parquet files, which is made. A sweep that was interrupted goes on when it is called again with the same
    arguments and folder.

    on: None computes on all CPUs of this process. An executor of concurrent.futures, or "ray", "dask" or "spark", computes batches of
    about two seconds on its workers. Results do not depend on it.

    progress: True prints a line that is updated, False prints nothing. None prints it in a terminal and in a notebook.

    Raises InputError for arguments that mean nothing, for a folder of another sweep, and for an engine that is not installed. Raises
    FailedError if a worker failed. What is wrong with a row is in its column error.
    """
    space = _space(profile, overrides, workloads, seeds, capacity, state, sample, sample_seed)
    _check_some(space)
    store = _Memory() if output is None else _Folder(Path(output), space)
    with store, Progress(len(space), sum(end - begin for begin, end in store.ranges.items()), progress) as told:
        missing = _missing(sorted(store.ranges.items()), len(space))
        if on is None:
            _here(space, missing, store, told)
        else:
            with engine(on) as (executor, workers):
                _elsewhere(space, missing, store, told, executor, workers)
        assert not _missing(sorted(store.ranges.items()), len(space)), "a range of rows is missing"
        store.finish()
        return Sweep(len(space), store)


def _check_some(space: _Space) -> None:
    """Refuses a sweep of which no row can be computed, as far as the first and the last rows and some between them show."""
    looked_at = sorted({row * (len(space) - 1) // max(1, _LOOKED_AT - 1) for row in range(_LOOKED_AT)})
    columns = [_columns(space.rows(row, row + 1)) for row in looked_at]
    try:
        _check({name: [value for one in columns for value in one[name]] for name in columns[0]})
    except InputError as error:
        raise InputError(f"no row of the sweep can be computed: {error}") from None


def pareto(table: Any, *, minimise: Sequence[str] = (), maximise: Sequence[str] = ()) -> Table:
    """The rows of which no other one is at least as good in each column and better in one, in the table's order.

    table: an Arrow table of any library, or a dictionary of lists.

    Rows without a value in one of the columns are left out.

    Raises InputError if no column is named, or the table has none of this name, or it is no number.
    """
    own: Table = table if isinstance(table, Table) else Table(table)
    for names in (minimise, maximise):
        if isinstance(names, str):
            raise InputError(f"the columns are one text: give a list, as [{names!r}]")
    signs = [(name, 1) for name in minimise] + [(name, -1) for name in maximise]
    if not signs:
        raise InputError("no column is named: give minimise=[...] or maximise=[...]")
    for name, _ in signs:
        if name not in own.columns:
            raise InputError(f"the table has no column `{name}`; it has {', '.join(own.columns)}")
        if any(isinstance(value, str) for value in own[name]):
            raise InputError(f"the column `{name}` has texts: no value is better than another")
    columns = [[None if value is None else sign * value for value in own[name]] for name, sign in signs]
    points = [(point, row) for row, point in enumerate(zip(*columns)) if None not in point and not any(map(_is_nan, point))]
    # In this order no later point is better than an earlier one in all columns, so that what was kept stays.
    points.sort()
    front: list[tuple[tuple[Any, ...], int]] = []
    for point, row in points:
        if not any(_dominates(other, point) for other, _ in front):
            front.append((point, row))
    return own.rows(sorted(row for _, row in front))


def _is_nan(value: float) -> bool:
    return value != value


def _dominates(other: tuple[Any, ...], point: tuple[Any, ...]) -> bool:
    return other != point and all(theirs <= own for theirs, own in zip(other, point))


def _space(
    profile: Any,
    overrides: Mapping[str, Iterable[Any]],
    workloads: Any,
    seeds: Iterable[int],
    capacity: int | str | None,
    state: str | None,
    sample: tuple[str, int] | None,
    sample_seed: int,
) -> _Space:
    if isinstance(workloads, (str, os.PathLike, dict)):
        workloads = [workloads]
    if not isinstance(overrides, Mapping):
        raise InputError("overrides are no dictionary: give keys and their values, as {'flash.channels': [2, 4]}")
    if isinstance(seeds, int):
        raise InputError(f"seeds are one number: give a list, as [{seeds}]")
    values: dict[str, Sequence[Any]] = {}
    for key, some in overrides.items():
        if not isinstance(key, str) or not isinstance(some, Iterable):
            raise InputError(f"{key!r}: {some!r} is no key of a profile with a list of values, as 'flash.channels': [2, 4]")
        if isinstance(some, (str, bytes)):
            raise InputError(f"the values of {key} are one text: give a list, as [{some!r}]")
        # Of a large space most values are never looked at.
        values[key] = some if isinstance(some, (range, list, tuple)) else list(some)
        if not values[key]:
            raise InputError(f"{key} has no values: give some, or leave it out")
        if "." not in key and key != "capacity":
            raise InputError(f"`{key}` is no key of a profile with its section, as flash.over_provisioning")
    texts, numbers = [_text(workload, "workload") for workload in workloads], [_plain(seed) for seed in seeds]
    if any(type(seed) is not int or not 0 <= seed < 2**63 for seed in numbers):
        raise InputError("a seed is a whole number from 0 to 2^63 - 1")
    for name, given in [("workloads", texts), ("seeds", numbers)]:
        if not given:
            raise InputError(f"{name} is empty: give at least one")
    fixed: dict[str, Any] = {}
    if capacity is not None and "capacity" in values:
        raise InputError("capacity is an argument and one of the overrides: give one of them")
    if capacity is not None:
        fixed["capacity"] = str(capacity)
    if state is not None:
        fixed["state"] = state
    if sample is None:
        chosen = {key: [_plain(value) for value in some] for key, some in values.items()}
    else:
        if not (isinstance(sample, tuple) and len(sample) == 2 and isinstance(sample[1], int) and 0 < sample[1] < 2**63):
            raise InputError(f'sample is {sample!r}: give a method and how many combinations, as ("sobol", 200)')
        combinations, stride = _combinations(sample[0], [len(some) for some in values.values()], sample[1], sample_seed), 1
        chosen = {}
        for key, some in reversed(values.items()):
            chosen[key] = [_plain(some[combination // stride % len(some)]) for combination in combinations]
            stride *= len(some)
        chosen = {key: chosen[key] for key in values}
    space = _Space(_text(profile, "profile"), chosen, texts, numbers, fixed, sample is not None)
    rows = space.count * len(numbers) * len(texts)
    if rows > _MOST_IN_ALL:
        raise InputError(f"the sweep has {rows} rows: give fewer values, or a sample")
    for key, all_of_it in chosen.items():
        # A column that mixes kinds of values is refused before anything is computed.
        Table({key: all_of_it})
    return space


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value


def _missing(present: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """The ranges that no batch has yet."""
    missing, begin = [], 0
    for first, behind in present:
        if first > begin:
            missing.append((begin, first))
        begin = max(begin, behind)
    if begin < end:
        missing.append((begin, end))
    return missing


class _Sizes:
    """How many rows the next batch has: so many that it takes about _BATCH_S, by the rows that were computed; at the end fewer."""

    def __init__(self, missing: list[tuple[int, int]], threads: int, workers: int = 1) -> None:
        """threads: how many rows a batch computes at a time. workers: how many batches are computed at a time."""
        self.missing = missing[::-1]
        self.left = sum(end - begin for begin, end in missing)
        self.threads, self.workers = threads, workers
        self.row_s: float | None = None

    def measured(self, row_s: float | None) -> None:
        """The mean time of the rows of a batch."""
        if row_s is not None:
            # The latest batches count most: rows far apart may differ.
            self.row_s = row_s if self.row_s is None else 0.7 * self.row_s + 0.3 * row_s

    def next(self) -> tuple[int, int] | None:
        if not self.missing:
            return None
        begin, end = self.missing.pop()
        rows: float = _FIRST_ROWS * self.threads
        if self.row_s is not None:
            a_second = self.threads / max(self.row_s, 1e-6)
            rows = max(_BATCH_S, _BATCH_S_PER_WORKER * self.workers) * a_second
            if self.workers > 1:
                rows = min(rows, max(_LEAST_SHARE * rows, self.left / (2 * self.workers)))
        behind = min(end, begin + max(1, min(round(rows), _MOST_ROWS)))
        self.left -= behind - begin
        if behind < end:
            self.missing.append((behind, end))
        return begin, behind


def _mean_s(table: Table) -> float | None:
    """The mean time of the rows that have results."""
    times = [time for time in table["wall_s"] if time is not None]
    return sum(times) / len(times) if times else None


def _here(space: _Space, missing: list[tuple[int, int]], store: _Memory, told: Progress) -> None:
    threads = os.cpu_count() or 1
    sizes = _Sizes(missing, threads)
    while (batch := sizes.next()) is not None:
        table = evaluate(_columns(space.rows(*batch)), threads=threads)
        sizes.measured(_mean_s(table))
        store.keep(*batch, table)
        told.advance(len(table))


def _elsewhere(
    space: _Space,
    missing: list[tuple[int, int]],
    store: _Memory,
    told: Progress,
    executor: _Submits,
    workers: int,
) -> None:
    sizes = _Sizes(missing, 1, workers)
    running: dict[Future[Any], tuple[int, int]] = {}
    # wait() would look at all batches that run for each one that ends.
    finished: SimpleQueue[Future[Any]] = SimpleQueue()
    try:
        while True:
            # What has ended is looked at first: the first batches say how large the others are.
            if finished.empty() and len(running) < _in_flight(workers) and (batch := sizes.next()) is not None:
                future = executor.submit(_batch, space.rows(*batch), __version__, store.target(*batch))
                running[future] = batch
                future.add_done_callback(finished.put)
                continue
            if not running:
                return
            future = finished.get()
            begin, end = running.pop(future)
            row_s, content = future.result()
            sizes.measured(row_s)
            store.keep(begin, end, content)
            told.advance(end - begin)
    except Exception as error:
        failure = _failure(error, store)
        if failure is error:
            raise
        raise failure from error
    finally:
        for future in running:
            future.cancel()


def _in_flight(workers: int) -> int:
    """Batches that are sent: some more than there are workers, so that none waits for its next batch."""
    return workers + max(1, workers // 8)


def _batch(rows: dict[str, Any], version: str, target: tuple[str, str] | None = None) -> tuple[float | None, bytes | None]:
    """What a worker computes: the mean time of a row, and the table as Parquet, or None if it wrote the file.

    target: the path of the file, and the digest of the sweep's definition beside it.
    """
    if version != __version__:
        raise InputError(f"this worker has flashlab {__version__}, and the sweep is of {version}: install the same")
    table = evaluate(_columns(rows))
    if target is not None and _digest(Path(target[0]).parent / _DEFINITION) == target[1]:
        table.write_parquet(target[0])
        return _mean_s(table), None
    return _mean_s(table), table._parquet()


def _digest(path: Path) -> str | None:
    """The digest of a file, kept until the file changes; None if it is not there."""
    try:
        status = path.stat()
        key = (str(path), status.st_ino, status.st_mtime_ns, status.st_size)
        if key not in _digests:
            _digests.clear()
            _digests[key] = hashlib.sha256(path.read_bytes()).hexdigest()
        return _digests[key]
    except OSError:
        return None


_digests: dict[tuple[str, int, int, int], str] = {}


def _failure(error: Exception, store: _Memory) -> Exception:
    """The exception for what an engine or a worker raised. Ray and Dask have a class of their own around what the worker raised."""
    for one in (error, getattr(error, "cause", None)):
        if isinstance(one, (InputError, FailedError)):
            return one
    kept = "give an output, so that nothing is lost"
    if store.folder is not None:
        kept = f"what was computed is in {store.folder}: call it again to go on"
    return FailedError(f"a worker failed: {type(error).__name__}: {error}; {kept}")


class _Memory:
    """The ranges of rows that are there, by their first rows, and their tables."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.ranges: dict[int, int] = {}
        self.parts: dict[int, Table | bytes] = {}

    def target(self, begin: int, end: int) -> tuple[str, str] | None:
        """Where a worker may write its batch."""
        return None

    def keep(self, begin: int, end: int, part: Table | bytes | None) -> None:
        assert part is not None
        self.ranges[begin], self.parts[begin] = end, part

    def finish(self) -> None:
        pass

    def table(self) -> Table:
        parts = [self.parts[begin] for begin in sorted(self.parts)]
        table = Table.concat([part if isinstance(part, Table) else Table._of_parquet(part) for part in parts])
        self.parts = {0: table}
        return table

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Folder(_Memory):
    """The batches, each in a Parquet file, too. One sweep at a time uses the folder."""

    def __init__(self, folder: Path, space: _Space) -> None:
        super().__init__()
        self.folder = self.place = folder = folder.absolute()
        definition = folder / _DEFINITION
        wanted = json.dumps(space.definition(), indent=1)
        self.digest = ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not definition.exists():
                if any(folder.iterdir()):
                    raise InputError(f"{folder} has files, and is no folder of a sweep: give a new one")
                part = folder / (_DEFINITION + ".part")
                part.write_text(wanted)
                part.replace(definition)
            self.lock = builtins.open(definition, errors="replace")
        except OSError as error:
            raise InputError(f"the folder {folder} cannot be used: {error}") from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.lock.close()
            raise InputError(f"another sweep uses {folder}: wait for it, or give another folder") from error
        if (differences := _differences(self.lock.read(), wanted)) is not None:
            self.lock.close()
            raise InputError(f"{folder} has another sweep ({differences}): give a new folder")
        self.digest = hashlib.sha256(definition.read_bytes()).hexdigest()
        self._read(space)

    def _read(self, space: _Space) -> None:
        behind = 0
        for path in sorted(self.place.iterdir()):
            if (match := _PART.fullmatch(path.name)) is None:
                continue
            begin, end = int(match[1]), int(match[2])
            try:
                table = Table.read_parquet(path)
            except InputError as error:
                warnings.warn(f"{error}; its rows are computed again", stacklevel=4)
                continue
            if begin < behind or end > len(space) or not _is_result(table, _columns(space.rows(begin, end))):
                warnings.warn(f"{path} does not have this sweep's rows of its name; they are computed again", stacklevel=4)
                continue
            behind = end
            self.ranges[begin] = end

    def _path(self, begin: int, end: int) -> Path:
        return self.place / f"rows-{begin:012}-{end:012}.parquet"

    def target(self, begin: int, end: int) -> tuple[str, str] | None:
        return str(self._path(begin, end)), self.digest

    def keep(self, begin: int, end: int, part: Table | bytes | None) -> None:
        path = self._path(begin, end)
        if isinstance(part, Table):
            part.write_parquet(path)
        elif part is not None:
            # It is not waited for until the disk has it. What a power failure damages is computed again.
            unfinished = path.with_suffix(".part")
            unfinished.write_bytes(part)
            unfinished.replace(path)
        self.ranges[begin] = end

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def finish(self) -> None:
        """Removes batches that are in others, too: damaged ones, and those of workers that outlived an earlier call."""
        kept = {self._path(begin, end).name for begin, end in self.ranges.items()}
        for path in self.place.iterdir():
            if _PART.fullmatch(path.name) and path.name not in kept:
                path.unlink()

    def table(self) -> Table:
        return Table.concat([Table.read_parquet(self._path(*part)) for part in sorted(self.ranges.items())])

    def __exit__(self, *_: object) -> None:
        # A worker that was forked meanwhile has the file, too.
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        self.lock.close()


def _is_result(table: Table, rows: dict[str, list[Any]]) -> bool:
    """Whether the table has the results of these rows."""
    columns = [*rows, "wall_s", "error"]
    return all(name in table.columns for name in columns) and all(table[name] == rows[name] for name in rows)


def _differences(found: str, wanted: str) -> str | None:
    if found == wanted:
        return None
    try:
        before, now = json.loads(found), json.loads(wanted)
        words = {"fixed": "capacity or state", "is_sample": "sample"}
        names = [words.get(name, name) for name in now if before.get(name) != now[name]]
    except (ValueError, AttributeError):
        return "its sweep.json is damaged"
    return "other " + ", ".join(names) if names else None
