"""Sweeps here and on executors, their folders, samples and fronts. Needs no other library."""

import concurrent.futures
import json
import multiprocessing
import os
import pickle
import tempfile
import warnings
from pathlib import Path

import flashlab
from flashlab import _sweep
from support import raises, writes

PLAN = writes(500)
SPACE = {"flash.over_provisioning": [0.07, 0.15, 0.28], "controller.write_buffer.size": ["64KiB", "1MiB"]}
ARGUMENTS = dict(workloads=[PLAN, "baselines/RW"], seeds=range(1, 3), capacity="64MiB", progress=False)


def rows(sweep):
    """Everything but the time that it took."""
    columns = sweep.table().to_dict()
    del columns["wall_s"]
    return columns


def combinations():
    sweep = flashlab.sweep("tlc-sata", SPACE, **ARGUMENTS)
    columns = rows(sweep)
    assert len(sweep) == 3 * 2 * 2 * 2 and columns["error"] == [None] * 24, columns["error"]
    keys = list(zip(columns["flash.over_provisioning"], columns["controller.write_buffer.size"], columns["seed"], columns["workload"]))
    assert len(set(keys)) == 24 and keys[0][:3] == (0.07, "64KiB", 1) and keys[-1][:3] == (0.28, "1MiB", 2)
    # The same rows, each by itself.
    alone = flashlab.evaluate({name: [columns[name][17]] for name in ["profile", "workload", "seed", "capacity", *SPACE]})
    assert alone["write_mean_ns"] == [columns["write_mean_ns"][17]]
    return columns


def executors(expected):
    fork = multiprocessing.get_context("fork")
    for executor in [
        concurrent.futures.ThreadPoolExecutor(2),
        concurrent.futures.ProcessPoolExecutor(2, mp_context=fork),
    ]:
        with executor:
            assert rows(flashlab.sweep("tlc-sata", SPACE, on=executor, **ARGUMENTS)) == expected, executor


def partitions(expected):
    """Workers write the files where they see the folder, and the caller where they do not."""
    fork = multiprocessing.get_context("fork")
    own = _sweep._digest
    _sweep._MOST_ROWS = 5
    for sees in (own, lambda path: None):
        _sweep._digest = sees
        with tempfile.TemporaryDirectory() as parent, concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as executor:
            folder = Path(parent) / "sweep"
            sweep = flashlab.sweep("tlc-sata", SPACE, on=executor, output=folder, **ARGUMENTS)
            assert rows(sweep) == rows(pickle.loads(pickle.dumps(sweep))) == expected and len(sweep) == 24
            parts = sorted(part.name for part in folder.glob("rows-*.parquet"))
            # A batch of a worker that outlived an earlier call, and which overlaps others.
            (folder / "rows-000000000001-000000000009.parquet").write_bytes(b"PAR1")
            with warnings.catch_warnings(record=True):
                assert rows(flashlab.sweep("tlc-sata", SPACE, on=executor, output=folder, **ARGUMENTS)) == expected
            assert sorted(part.name for part in folder.iterdir()) == [*parts, "sweep.json"]
    _sweep._digest, _sweep._MOST_ROWS = own, 4096


def batches_end_together():
    """A thousand workers, and a driver that gets each batch when it was computed."""
    sizes, rows = _sweep._Sizes([(0, 1_000_000)], 1, 1000), []
    sizes.measured(0.01)
    while (batch := sizes.next()) is not None:
        rows.append(batch[1] - batch[0])
    assert sum(rows) == 1_000_000 and max(rows) == 400 and rows[-1] <= 160 and len(rows) < 6000, (rows[-1], len(rows))


def folders(expected):
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "sweep"
        # Batches of one row each.
        _sweep._MOST_ROWS = 1
        assert rows(flashlab.sweep("tlc-sata", SPACE, output=folder, **ARGUMENTS)) == expected
        _sweep._MOST_ROWS = 4096
        parts = sorted(folder.glob("rows-*.parquet"))
        assert len(parts) == 24, parts
        # What a kill leaves: batches that are missing, and one that has no name yet.
        for part in parts[3:7] + parts[20:]:
            part.unlink()
        (folder / "rows-000000000003-000000000004.part").write_bytes(b"PAR1")
        parts[0].write_bytes(parts[0].read_bytes()[:-10])
        # A batch of another sweep, and a table of something else.
        flashlab.Table({"a": [1]}).write_parquet(parts[1])
        parts[7].write_bytes(parts[8].read_bytes())
        kept = {part: part.stat().st_mtime_ns for part in parts[2:3] + parts[8:20]}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            again = flashlab.sweep("tlc-sata", SPACE, output=folder, **ARGUMENTS)
        assert [str(one.message).endswith("computed again") for one in told] == [True] * 3, told
        assert rows(again) == expected and again.folder == folder
        assert {part: part.stat().st_mtime_ns for part in kept} == kept, "what was whole is not computed again"
        raises(
            flashlab.InputError,
            "has another sweep (other seeds)",
            lambda: flashlab.sweep("tlc-sata", SPACE, output=folder, **{**ARGUMENTS, "seeds": [7]}),
        )
        with _sweep._Folder(folder, _sweep._space("tlc-sata", SPACE, ARGUMENTS["workloads"], ARGUMENTS["seeds"], "64MiB", None, None, 1)):
            raises(
                flashlab.InputError,
                "another sweep uses",
                lambda: flashlab.sweep("tlc-sata", SPACE, output=folder, **ARGUMENTS),
            )
        raises(flashlab.InputError, "is no folder of a sweep", lambda: flashlab.sweep("tlc-sata", SPACE, output=parent, **ARGUMENTS))
        assert json.loads((folder / "sweep.json").read_text())["flashlab"] == flashlab.__version__
        assert sorted(os.listdir(parent)) == ["sweep"]


def samples():
    space = {"flash.over_provisioning": [0.07 + 0.001 * step for step in range(200)], "flash.channels": [1, 2, 4, 8]}
    for method in ["sobol", "random"]:
        sweep = flashlab.sweep("tlc-sata", space, workloads=PLAN, sample=(method, 9), capacity="64MiB", progress=False)
        columns = sweep.table().to_dict()
        pairs = set(zip(columns["flash.over_provisioning"], columns["flash.channels"]))
        assert len(sweep) == len(pairs) == 9, pairs
    assert set(columns["flash.channels"]) != {1}
    # Of a space whose values nobody could keep in memory.
    huge = {"flash.reliability.endurance": range(1000, 10**9), "flash.over_provisioning": [0.28, 0.4]}
    sweep = flashlab.sweep("tlc-sata", huge, workloads=PLAN, sample=("random", 3), capacity="64MiB", progress=False)
    assert len(set(sweep.table()["flash.reliability.endurance"])) == 3
    raises(flashlab.InputError, "-1 is no whole number", lambda: flashlab.sweep("tlc-sata", space, workloads=PLAN, sample=("sobol", 2), sample_seed=-1))
    raises(flashlab.InputError, "`sobol` or `random`", lambda: flashlab.sweep("tlc-sata", space, workloads=PLAN, sample=("grid", 9)))


def fronts():
    table = flashlab.Table({"a": [3.0, 1.0, 2.0, None, 2.0, 1.0], "b": [1, 3, 2, 0, 3, 3], "c": ["x"] * 6})
    front = flashlab.pareto(table, minimise=["a", "b"])
    assert list(zip(front["a"], front["b"])) == [(3.0, 1), (1.0, 3), (2.0, 2), (1.0, 3)]
    best = flashlab.pareto(table, minimise=["a"], maximise=["b"])
    assert set(zip(best["a"], best["b"])) == {(1.0, 3)}
    raises(flashlab.InputError, "no column `d`", lambda: flashlab.pareto(table, minimise=["d"]))
    raises(flashlab.InputError, "has texts", lambda: flashlab.pareto(table, minimise=["c"]))
    raises(flashlab.InputError, "no column is named", lambda: flashlab.pareto(table))


def errors():
    sweep = lambda space, **other: lambda: flashlab.sweep("tlc-sata", space, **{**ARGUMENTS, **other})
    raises(flashlab.InputError, "no simulated device", lambda: flashlab.sweep("no-such", SPACE, **ARGUMENTS))
    raises(flashlab.InputError, "give a list", sweep({"flash.channels": "2"}))
    raises(flashlab.InputError, "has no values", sweep({"flash.channels": []}))
    raises(flashlab.InputError, "mixes kinds", sweep({"flash.channels": [1, "2"]}))
    raises(flashlab.InputError, "no key of a profile", sweep({"channels": [1]}))
    raises(flashlab.InputError, "there is no plan", sweep(SPACE, workloads=["no"]))
    raises(flashlab.InputError, "seeds is empty", sweep(SPACE, seeds=[]))
    raises(flashlab.InputError, "how many combinations", sweep(SPACE, sample=("sobol", 0)))
    raises(flashlab.InputError, "a seed is a whole number", sweep(SPACE, seeds=[1.5]))
    raises(flashlab.InputError, "give fewer values, or a sample", sweep({f"a.b{key}": [1, 2] for key in range(70)}))
    raises(flashlab.InputError, "is no engine", sweep(SPACE, on="slurm"))
    # What is wrong for all rows is refused before anything is computed; a row that is wrong has its error.
    raises(flashlab.InputError, "no row of the sweep can be computed", sweep({"flash.chanels": [2]}))
    raises(flashlab.InputError, "the capacity `many`", sweep(SPACE, capacity="many"))
    raises(flashlab.InputError, "steady, random or sequential", sweep(SPACE, state="fresh"))
    mixed = flashlab.sweep("tlc-sata", {"flash.channels": [2, 0]}, **ARGUMENTS).table()
    assert [error is None for error in mixed["error"]] == [True] * 4 + [False] * 4, mixed["error"]
    try:
        _sweep._batch({}, "0.0.0")
    except flashlab.InputError as error:
        assert "0.0.0" in str(error) and flashlab.__version__ in str(error)
    else:
        raise AssertionError("a worker of another version computes")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"), initializer=os._exit, initargs=(1,)) as broken:
        raises(flashlab.FailedError, "a worker failed", sweep(SPACE, on=broken))


everything = combinations()
executors(everything)
partitions(everything)
batches_end_together()
folders(everything)
samples()
fronts()
errors()
