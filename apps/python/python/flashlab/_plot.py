"""Figures for papers: run.plot and sweep.plot. They need matplotlib (pip install flashlab[plot]).

matplotlib, because its figures are vectors in the formats that papers take (PDF, SVG, PGF), and its axes can be changed afterwards. Each
function draws on `ax`, or makes a figure, and returns the axes. Colours are those of Okabe and Ito (2008), which colour-blind readers tell
apart; each line has a mark of its own, too.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from ._flashlab import InputError, Run, Table

_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_MARKS = ["o", "s", "^", "D", "v", "P", "X"]
# More points than this are drawn as the extremes of bins, so that no outlier is lost.
_MOST_POINTS = 20_000
_PATTERNS = {"SR": "sequential reads", "RR": "random reads", "SW": "sequential writes", "RW": "random writes"}


class RunPlots:
    """The figures of a run of bench or run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def response_time(self, pattern: str = "RW", *, ax: Any = None) -> Any:
        """Response time over the IOs of a baseline, with its start-up phase (uFLIP, Figures 3 and 4).

        pattern: SR, RR, SW or RW. Raises InputError if the run has no such baseline.
        """
        ax = _axes(ax)
        [(_, response_us)] = self._baselines([pattern])
        positions, values = _thinned(response_us)
        ax.plot(positions, values, ".", markersize=2, color=_COLOURS[0], rasterized=len(values) > 5000)
        startup = next(
            (one["phases"]["startup_ios"] for one in self._run.findings["baselines"] if one["pattern"] == pattern), 0
        )
        if startup:
            ax.axvspan(0, startup, color="0.85", zorder=0, label=f"start-up phase, {startup} IOs")
            ax.legend(frameon=False)
        ax.set_yscale("log")
        ax.set_xlabel(f"IO ({_PATTERNS.get(pattern, pattern)})")
        ax.set_ylabel("response time (µs)")
        return ax

    def cdf(self, patterns: Sequence[str] = ("SR", "RR", "SW", "RW"), *, ax: Any = None) -> Any:
        """The share of IOs of each baseline that take longer than a time, on two logarithmic axes: the tail is as wide as the middle."""
        ax = _axes(ax)
        for index, (pattern, response_us) in enumerate(self._baselines(patterns)):
            times = sorted(response_us)
            count = len(times)
            # From the median on, each power of ten of the tail has as many points.
            shares = [2.0 ** (-step / 8) for step in range(1 + int(8 * math.log2(count)))]
            quantiles = [times[min(count - 1, int(count * (1 - share)))] for share in shares]
            ax.step(quantiles, shares, where="post", color=_COLOURS[index % 7], label=_PATTERNS.get(pattern, pattern))
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("response time (µs)")
        ax.set_ylabel("share of IOs that take longer")
        ax.legend(frameon=False)
        return ax

    def micro_benchmark(self, name: str = "granularity", *, ax: Any = None) -> Any:
        """Mean response times of a micro-benchmark over its parameter, with their intervals at 95 %.

        name: as granularity. Writes have a line for each regime. Raises InputError if the run has no such micro-benchmark.
        """
        ax = _axes(ax)
        found = {one["name"]: one for one in self._run.findings["micro_benchmarks"]}
        if name not in found:
            raise InputError(f"the run has no micro-benchmark `{name}`; it has {', '.join(found) or 'none'}")
        benchmark = found[name]
        lines = [one for one in benchmark["experiments"] if any(_is_known(point) for point in one["points"])]
        for index, one in enumerate(lines):
            points = [point for point in one["points"] if _is_known(point)]
            means = [point["response_ns_mean"] / 1e3 for point in points]
            ax.errorbar(
                [point["value"] for point in points],
                means,
                yerr=[mean * (point.get("precision") or 0.0) for mean, point in zip(means, points)],
                color=_COLOURS[index % 7],
                marker=_MARKS[index % 7],
                markersize=4,
                capsize=2,
                label=one["pattern"] + (f", {one['regime']}" if one.get("regime") else ""),
            )
        values = [point["value"] for one in lines for point in one["points"]]
        if values and min(values) > 0 and max(values) > 16 * min(values):
            ax.set_xscale("log", base=2)
        if benchmark["unit"] == "bytes":
            ax.xaxis.set_major_formatter(lambda value, _: _bytes(value))
        ax.set_yscale("log")
        unit = benchmark["unit"]
        ax.set_xlabel(benchmark["parameter"] + (f" ({unit})" if unit not in ("", "bytes") else ""))
        ax.set_ylabel("mean response time (µs)")
        ax.legend(frameon=False)
        return ax

    def load(self, name: str = "parallelism", *, percentile: str = "p99", ax: Any = None) -> Any:
        """Response times over the load: the mean, and a percentile as a dashed line, over the IOs a second that were served.

        name: a micro-benchmark that varies the load, as parallelism. percentile: p50, p99 or p999. Raises InputError if the run has no such
        micro-benchmark.
        """
        ax = _axes(ax)
        rows = self._run.summary
        if f"{percentile}_ns" not in rows.columns:
            raise InputError(f"there is no percentile `{percentile}`: give p50, p99 or p999")
        columns = ("plan", "experiment", "regime", "parameter", "value", "ios_per_s", "mean_ns", f"{percentile}_ns")
        lines: dict[str, list[tuple[float, float, float, float]]] = {}
        for plan, experiment, regime, parameter, value, load, mean, tail in zip(*(rows[column] for column in columns)):
            if plan == name and parameter and mean:
                line = experiment + (f", {regime}" if regime else "")
                lines.setdefault(line, []).append((value, load, mean / 1e3, tail / 1e3))
        if not lines:
            raise InputError(f"the run has no micro-benchmark `{name}`: bench(..., only=[{name!r}]) measures it")
        for index, (label, points) in enumerate(lines.items()):
            _, loads, means, tails = zip(*sorted(points))
            colour = _COLOURS[index % 7]
            ax.plot(loads, means, color=colour, marker=_MARKS[index % 7], markersize=4, label=label)
            ax.plot(loads, tails, color=colour, linestyle="--")
        ax.set_yscale("log")
        ax.set_xlabel("load (IO/s)")
        ax.set_ylabel(f"response time (µs): mean, {percentile} dashed")
        ax.legend(frameon=False)
        return ax

    def _baselines(self, patterns: Sequence[str]) -> list[tuple[str, list[float]]]:
        """The response times of the baselines in microseconds, in the order of the IOs."""
        rows = self._run.summary
        named = zip(rows["experiment"], rows["run"], rows["parameter"])
        runs = {experiment: run for experiment, run, parameter in reversed(list(named)) if not parameter}
        if missing := [pattern for pattern in patterns if pattern not in runs]:
            raise InputError(f"the run has no baseline {', '.join(missing)}; it has {', '.join(runs) or 'none'}")
        table = Table(self._run.samples())
        times: dict[int, list[float]] = {runs[pattern]: [] for pattern in patterns}
        for run, response in zip(table["run"], table["response_ns"]):
            if run in times:
                times[run].append(response / 1e3)
        return [(pattern, times[runs[pattern]]) for pattern in patterns]


class SweepPlots:
    """The figures of a sweep, or of any table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def over(self, x: str, y: str = "write_amplification", *, by: str | None = None, ax: Any = None) -> Any:
        """A column over another one: the mean of the rows with the same x, and the range of them.

        by: a column whose values have a line each. Raises InputError for a column that is not there or has no numbers.
        """
        ax = _axes(ax)
        for name in (x, y, *([by] if by else [])):
            if name not in self._table.columns:
                raise InputError(f"the table has no column `{name}`; it has {', '.join(self._table.columns)}")
        groups = self._table[by] if by else [None] * len(self._table)
        points: dict[Any, dict[Any, list[float]]] = {}
        for group, at, value in zip(groups, self._table[x], self._table[y]):
            if at is not None and value is not None:
                if isinstance(value, str):
                    raise InputError(f"the column `{y}` has texts: choose one with numbers")
                points.setdefault(group, {}).setdefault(at, []).append(value)
        if not points:
            raise InputError(f"no row has both {x} and {y}")
        for index, (group, line) in enumerate(points.items()):
            xs = sorted(line)
            means = [sum(line[at]) / len(line[at]) for at in xs]
            below = [mean - min(line[at]) for mean, at in zip(means, xs)]
            above = [max(line[at]) - mean for mean, at in zip(means, xs)]
            ax.errorbar(
                xs,
                means,
                yerr=[below, above],
                color=_COLOURS[index % 7],
                marker=_MARKS[index % 7],
                markersize=4,
                capsize=2,
                label=None if by is None else f"{by} = {group}",
            )
        ax.set_xlabel(_label(x))
        ax.set_ylabel(_label(y))
        if by is not None:
            ax.legend(frameon=False)
        return ax

    def pareto(self, x: str, y: str, *, maximise: Sequence[str] = (), ax: Any = None) -> Any:
        """All rows as points, and those of which no other one is better. Both columns are minimised, but those in maximise."""
        from ._sweep import pareto

        ax = _axes(ax)
        front = pareto(self._table, minimise=[name for name in (x, y) if name not in maximise], maximise=maximise)
        ax.plot(self._table[x], self._table[y], ".", color="0.6", label="all rows")
        best = sorted(zip(front[x], front[y]))
        ax.plot([at for at, _ in best], [value for _, value in best], "o-", color=_COLOURS[1], label="no other row is better")
        ax.set_xlabel(_label(x))
        ax.set_ylabel(_label(y))
        ax.legend(frameon=False)
        return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise InputError("plots need another package: pip install matplotlib") from error
    # A column of a paper is about so wide.
    _, ax = pyplot.subplots(figsize=(4.5, 3.0), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _is_known(point: dict[str, Any]) -> bool:
    mean = point["response_ns_mean"]
    return mean is not None and mean > 0


def _thinned(values: list[float]) -> tuple[list[int], list[float]]:
    """The values by their positions; of many, the least and the greatest of each bin."""
    if len(values) <= _MOST_POINTS:
        return list(range(len(values))), values
    size = -(-2 * len(values) // _MOST_POINTS)
    positions = []
    for begin in range(0, len(values), size):
        window = range(begin, min(begin + size, len(values)))
        positions += sorted({min(window, key=values.__getitem__), max(window, key=values.__getitem__)})
    return positions, [values[position] for position in positions]


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:g} {unit}"
        value /= 1024
    return f"{value:g} GiB"


def _label(column: str) -> str:
    """The words of a column, with its unit: write_p99_ns is "write p99 (ns)"."""
    units = {"_ns": "ns", "_us": "µs", "_s": "s", "_j": "J", "_bytes": "bytes"}
    if column.endswith("_mb_per_s"):
        return column.removesuffix("_mb_per_s").replace("_", " ") + " throughput (MB/s)"
    for end, unit in units.items():
        if column.endswith(end):
            return f"{column.removesuffix(end).replace('_', ' ')} ({unit})"
    return column.rsplit(".", 1)[-1].replace("_", " ").replace("iops", "IO/s")
