"""The design space: all combinations of some values, on one process, an executor or a cluster.

The rows of a sweep are numbered. A batch is a range of them, and evaluate computes it, here or on a worker. With a folder, each batch
is kept as a Parquet file whose name has the range. So a sweep that was killed goes on with the ranges that are missing: no row is lost, and none is
computed twice.
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
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any, Literal, Protocol

from ._engines import engine
from ._flashlab import FailedError, InputError, Table, __version__, _combinations, _text, evaluate
from ._plot import SweepPlots
from ._progress import Progress

# A batch takes about this long: so much longer than what an engine needs for a task that the engine's part is a few percent, and short
# enough that little is computed again after a kill.
_BATCH_S = 2.0
# Rows of the first batches, whose times are not known.
_FIRST_ROWS = 4
# Memory, and rows of a file.
_MOST_ROWS = 4096
# So many rows have a number of 12 digits, as the files' names have.
_MOST_IN_ALL = 10**12
_DEFINITION = "sweep.json"
_PART = re.compile(r"rows-(\d{12})-(\d{12})\.parquet")


class _Submits(Protocol):
    def submit(self, fn: Any, /, *args: Any) -> Future[Any]: ...


class Sweep:
    """The results of a sweep, one row for each combination, seed and workload."""

    def __init__(self, table: Table, folder: Path | None) -> None:
        self._table = table
        self._folder = folder

    def table(self) -> Table:
        """The rows in their order: profile, workload, seed, the keys that vary, and the results that docs/python.md lists."""
        return self._table

    @property
    def folder(self) -> Path | None:
        """The folder with the Parquet files; None without output."""
        return self._folder

    def pareto(self, *, minimise: Sequence[str] = (), maximise: Sequence[str] = ()) -> Table:
        """The rows of which no other one is better; see pareto."""
        return pareto(self._table, minimise=minimise, maximise=maximise)

    @property
    def plot(self) -> SweepPlots:
        """Figures of the results: over, pareto."""
        return SweepPlots(self._table)

    def __len__(self) -> int:
        return len(self._table)

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
        combinations: list[int] | None,
    ) -> None:
        self.profile, self.overrides, self.workloads, self.seeds = profile, overrides, workloads, seeds
        self.fixed, self.combinations = fixed, combinations
        self.count = math.prod(len(values) for values in overrides.values())
        if combinations is not None:
            self.count = len(combinations)

    def __len__(self) -> int:
        return self.count * len(self.seeds) * len(self.workloads)

    def rows(self, begin: int, end: int) -> dict[str, list[Any]]:
        names = ["profile", "workload", "seed", *self.fixed, *self.overrides]
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for row in range(begin, end):
            left, workload = divmod(row, len(self.workloads))
            combination, seed = divmod(left, len(self.seeds))
            if self.combinations is not None:
                combination = self.combinations[combination]
            columns["profile"].append(self.profile)
            columns["workload"].append(self.workloads[workload])
            columns["seed"].append(self.seeds[seed])
            for name, value in self.fixed.items():
                columns[name].append(value)
            for name, values in reversed(self.overrides.items()):
                combination, value = divmod(combination, len(values))
                columns[name].append(values[value])
        return columns

    def definition(self) -> dict[str, Any]:
        chosen = None
        if self.combinations is not None:
            text = json.dumps(self.combinations)
            chosen = {"count": self.count, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        return {
            "flashlab": __version__,
            "profile": self.profile,
            "overrides": self.overrides,
            "workloads": self.workloads,
            "seeds": self.seeds,
            "fixed": self.fixed,
            "sample": chosen,
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
    store = _Memory() if output is None else _Folder(Path(output), space)
    kept = sum(len(table) for table in store.tables.values())
    with store, Progress(len(space), kept, progress) as told:
        missing = _missing(sorted((begin, begin + len(table)) for begin, table in store.tables.items()), len(space))
        if on is None:
            _here(space, missing, store, told)
        else:
            with engine(on) as (executor, workers):
                _elsewhere(space, missing, store, told, executor, workers)
        tables = [store.tables[begin] for begin in sorted(store.tables)]
        table = Table.concat(tables)
        assert len(table) == len(space), "a range of rows is missing"
        return Sweep(table, store.folder)


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
    values: dict[str, list[Any]] = {}
    for key, some in overrides.items():
        if not isinstance(key, str) or not isinstance(some, Iterable):
            raise InputError(f"{key!r}: {some!r} is no key of a profile with a list of values, as 'flash.channels': [2, 4]")
        if isinstance(some, (str, bytes)):
            raise InputError(f"the values of {key} are one text: give a list, as [{some!r}]")
        values[key] = [_plain(value) for value in some]
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
    combinations = None
    if sample is not None:
        if not (isinstance(sample, tuple) and len(sample) == 2 and isinstance(sample[1], int) and 0 < sample[1] < 2**63):
            raise InputError(f'sample is {sample!r}: give a method and how many combinations, as ("sobol", 200)')
        method, number = sample
        combinations = _combinations(method, [len(some) for some in values.values()], number, sample_seed)
    space = _Space(_text(profile, "profile"), values, texts, numbers, fixed, combinations)
    rows = space.count * len(numbers) * len(texts)
    if rows > _MOST_IN_ALL:
        raise InputError(f"the sweep has {rows} rows: give fewer values, or a sample")
    for key, some in values.items():
        # A column that mixes kinds of values is refused before anything is computed.
        Table({key: some})
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
    """How many rows the next batch has: so many that it takes about _BATCH_S, by the rows that were computed."""

    def __init__(self, missing: list[tuple[int, int]], threads: int) -> None:
        self.missing = missing[::-1]
        self.threads = threads
        self.row_s: float | None = None

    def measured(self, table: Table) -> None:
        times = [time for time in table["wall_s"] if time is not None]
        if times:
            mean = sum(times) / len(times)
            # The latest batches count most: rows far apart may differ.
            self.row_s = mean if self.row_s is None else 0.7 * self.row_s + 0.3 * mean

    def next(self) -> tuple[int, int] | None:
        if not self.missing:
            return None
        begin, end = self.missing.pop()
        rows = _FIRST_ROWS * self.threads
        if self.row_s is not None:
            rows = round(_BATCH_S * self.threads / max(self.row_s, 1e-6))
        behind = min(end, begin + max(1, min(rows, _MOST_ROWS)))
        if behind < end:
            self.missing.append((behind, end))
        return begin, behind


def _here(space: _Space, missing: list[tuple[int, int]], store: _Memory, told: Progress) -> None:
    threads = os.cpu_count() or 1
    sizes = _Sizes(missing, threads)
    while (batch := sizes.next()) is not None:
        table = evaluate(space.rows(*batch), threads=threads)
        sizes.measured(table)
        store.keep(batch[0], table)
        told.advance(len(table))


def _elsewhere(
    space: _Space,
    missing: list[tuple[int, int]],
    store: _Memory,
    told: Progress,
    executor: _Submits,
    workers: int,
) -> None:
    sizes = _Sizes(missing, 1)
    running: dict[Future[Any], int] = {}
    try:
        while True:
            # One more than there are workers, so that none waits for its next batch.
            while len(running) < workers + 1 and (batch := sizes.next()) is not None:
                running[executor.submit(_batch, space.rows(*batch), __version__)] = batch[0]
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                begin = running.pop(future)
                table = future.result()
                assert isinstance(table, Table)
                sizes.measured(table)
                store.keep(begin, table)
                told.advance(len(table))
    except Exception as error:
        failure = _failure(error, store)
        if failure is error:
            raise
        raise failure from error
    finally:
        for future in running:
            future.cancel()


def _batch(rows: dict[str, list[Any]], version: str) -> Table:
    """What a worker computes."""
    if version != __version__:
        raise InputError(f"this worker has flashlab {__version__}, and the sweep is of {version}: install the same")
    return evaluate(rows)


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
    """The batches by their first rows."""

    folder: Path | None = None

    def __init__(self) -> None:
        self.tables: dict[int, Table] = {}

    def keep(self, begin: int, table: Table) -> None:
        self.tables[begin] = table

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Folder(_Memory):
    """The batches, each in a Parquet file, too. One sweep at a time uses the folder."""

    def __init__(self, folder: Path, space: _Space) -> None:
        super().__init__()
        self.folder = folder
        definition = folder / _DEFINITION
        wanted = json.dumps(space.definition(), indent=1)
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
        self._read(space)

    def _read(self, space: _Space) -> None:
        assert self.folder is not None
        behind = 0
        for path in sorted(self.folder.iterdir()):
            if (match := _PART.fullmatch(path.name)) is None:
                continue
            begin, end = int(match[1]), int(match[2])
            try:
                table = Table.read_parquet(path)
            except InputError as error:
                warnings.warn(f"{error}; its rows are computed again", stacklevel=4)
                continue
            if begin < behind or end > len(space) or not _is_result(table, space.rows(begin, end)):
                warnings.warn(f"{path} does not have this sweep's rows of its name; they are computed again", stacklevel=4)
                continue
            behind = end
            self.tables[begin] = table

    def keep(self, begin: int, table: Table) -> None:
        assert self.folder is not None
        table.write_parquet(self.folder / f"rows-{begin:012}-{begin + len(table):012}.parquet")
        super().keep(begin, table)

    def __exit__(self, *_: object) -> None:
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
        words = {"fixed": "capacity or state"}
        names = [words.get(name, name) for name in now if before.get(name) != now[name]]
    except (ValueError, AttributeError):
        return "its sweep.json is damaged"
    return "other " + ", ".join(names) if names else None
