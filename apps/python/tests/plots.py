"""Figures of a run and of a sweep; matplotlib draws them without a screen."""

import os
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import flashlab
from flashlab._plot import SweepPlots, _thinned
from support import raises


def runs():
    run = flashlab.bench("sim:tlc-sata", only=["granularity"], output="run", arguments=["--size", "256MiB"])
    response = run.plot.response_time("RR")
    samples = flashlab.Table(run.samples())
    summary = run.summary.to_dict()
    rows = [dict(zip(summary, values)) for values in zip(*summary.values())]
    row = next(row for row in rows if row["experiment"] == "RR" and not row["parameter"])
    drawn = response.lines[0].get_ydata()
    assert max(drawn) == row["max_ns"] / 1e3, "the slowest IO is drawn"
    assert len(drawn) <= samples["run"].count(row["run"])
    response.figure.savefig("response.svg")
    assert b"random reads" in Path("response.svg").read_bytes()
    tail = run.plot.cdf(["SR", "RR"])
    assert len(tail.lines) == 2 and "longer" in tail.get_ylabel()
    means = run.plot.micro_benchmark("granularity")
    assert means.get_xlabel() == "IOSize" and {"SR", "RR"} <= {text.get_text() for text in means.get_legend().texts}
    load = run.plot.load("granularity")
    means = {line.get_label(): line for line in load.lines if not line.get_label().startswith("_")}
    reads = [row for row in rows if row["plan"] == "granularity" and row["experiment"] == "RR"]
    assert list(means["RR"].get_xdata()) == [row["ios_per_s"] for row in sorted(reads, key=lambda row: row["value"])]
    raises(flashlab.InputError, "no micro-benchmark `parallelism`", run.plot.load)
    assert run.plot.cdf(ax=response) is response
    raises(flashlab.InputError, "no baseline XX", lambda: run.plot.response_time("XX"))
    raises(flashlab.InputError, "it has granularity", lambda: run.plot.micro_benchmark("locality"))


def sweeps():
    table = flashlab.Table({"a": [1, 1, 2, None], "b": [2.0, 4.0, 8.0, 1.0], "c": ["x", "x", "y", "x"]})
    lines = SweepPlots(table).over("a", "b").lines
    assert list(lines[0].get_ydata()) == [3.0, 8.0], "rows with the same x have a mean"
    assert len(SweepPlots(table).over("a", "b", by="c").get_legend().texts) == 2
    front = SweepPlots(table).pareto("a", "b", maximise=["b"])
    assert list(front.lines[1].get_xdata()) == [1, 2]
    raises(flashlab.InputError, "no column `d`", lambda: SweepPlots(table).over("d"))
    raises(flashlab.InputError, "has texts", lambda: SweepPlots(table).over("a", "c"))


def many_points():
    values = [1.0] * 100_000
    values[54_321], values[77] = 9.0, 0.1
    positions, drawn = _thinned(values)
    assert len(drawn) <= 20_000 and max(drawn) == 9.0 and min(drawn) == 0.1 and 54_321 in positions


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in (runs, sweeps, many_points):
        part()
    os.chdir("/")
