"""What the program does: bench, run, infer, fit and simulate_repair call it, and read its folders and its JSON.

The program has the guards: it writes to no device with data, and asks for the options that it would ask for on a command line.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from ._flashlab import FailedError, FlashlabError, InputError, Run, __version__, _simulate_policy, open
from ._policy import Bridge, VictimPolicy

# Exit codes of a run that was done: an expectation may not be met, or not be decided.
_DONE = (0, 4, 5)
_REFUSED = (2, 3)
# Requests in flight that the program takes.
_MOST_DEPTH = 1024


@dataclass(frozen=True)
class Finding:
    """What is known of a parameter: its value in a unit, how likely it is right, and why."""

    value: Any
    unit: str
    confidence: float
    verdict: str
    evidence: str


class Inference(Mapping[str, Finding]):
    """The parameters of a device that infer found, by their names. `folder` has the report."""

    def __init__(self, folder: Path, findings: dict[str, Finding]) -> None:
        self.folder, self._findings = folder, findings

    def __getitem__(self, name: str) -> Finding:
        return self._findings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __repr__(self) -> str:
        return f"<flashlab.Inference of {len(self)} parameters in {self.folder}>"


@dataclass(frozen=True)
class Prediction:
    """The median response time and the throughput, with intervals at 95 %, and the equation. Intervals are None where no error is known."""

    p50_us: float | None
    p50_us_interval: tuple[float, float] | None
    ios_per_s: float | None
    bytes_per_s: float | None
    bytes_per_s_interval: tuple[float, float] | None
    equation: str | None


class Fit:
    """Equations that were fitted to a device or a run. `folder` has them and a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def predict(
        self,
        *,
        mode: Literal["sr", "rr", "sw", "rw"],
        size: int | str,
        depth: int = 1,
        write_share: float | None = None,
        regime: Literal["burst", "sustained"] | None = None,
    ) -> Prediction:
        """What the equations say of requests.

        mode: sequential or random reads or writes. size: of a request. depth: requests in flight. write_share: of random requests, from
        0 to 1. regime: of writes, if the model has two.

        Raises InputError for what the model does not know.
        """
        if depth != int(depth) or not 1 <= depth <= _MOST_DEPTH:
            raise InputError(f"the depth is {depth}: it may be a whole number from 1 to {_MOST_DEPTH}")
        words = ["model", "predict", str(self.folder), "--class", mode, "--io-size", _size(size), "--depth", str(int(depth))]
        words += _options(write_share=write_share, regime=regime)
        row = json.loads(_call([*words, "--json"], False))[0]

        def interval(name: str) -> tuple[float, float] | None:
            low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
            return None if low is None or high is None else (low, high)

        return Prediction(
            row.get("p50_us"),
            interval("p50_us"),
            row.get("ios_per_s"),
            row.get("bytes_per_s"),
            interval("bytes_per_s"),
            row.get("equation"),
        )

    def __repr__(self) -> str:
        return f"<flashlab.Fit in {self.folder}>"


def bench(
    target: str | os.PathLike[str] | None = None,
    *,
    only: Sequence[str] | None = None,
    full: bool = False,
    state: Literal["steady", "random", "sequential", "none"] | None = None,
    seed: int | None = None,
    repetitions: int | None = None,
    output: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    progress: bool | None = None,
) -> Run:
    """Characterises a device with uFLIP's micro-benchmarks, as `flashlab bench`.

    target: sim:NAME, a profile as sim:./profile.toml, a file, or a block device; a scratch file if not given.

    only: the names of micro-benchmarks. full: all values of each, not the quick ones.

    output: the folder of the run, a new one in flashlab-runs if not given. arguments: further words for the program, as
    ["--size", "1GiB"].

    progress: whether the program's lines are printed; None prints them in a terminal.

    Raises InputError if the program refuses, and FailedError if it fails, with its text.
    """
    words = ["bench", *_target(target), "--full" if full else "--quick"]
    words += _options(only=_names(only), state=state, seed=seed, repetitions=repetitions)
    return open(_done(words, target, output, arguments, progress)[0])


def run(
    plan: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    state: Literal["steady", "random", "sequential", "none"] | None = None,
    seed: int | None = None,
    repetitions: int | None = None,
    output: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    progress: bool | None = None,
) -> Run:
    """Runs a plan on a device, as `flashlab run`.

    plan: the name of a shipped plan, or a file. The other arguments are those of bench.
    """
    words = ["run", os.fspath(plan), *_target(target)]
    words += _options(state=state, seed=seed, repetitions=repetitions)
    return open(_done(words, target, output, arguments, progress)[0])


def infer(
    target: str | os.PathLike[str] | None = None,
    *,
    only: Sequence[str] | None = None,
    seed: int | None = None,
    output: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    progress: bool | None = None,
) -> Inference:
    """Infers the hidden parameters of a device, as `flashlab infer`.

    only: the names of parameters. The other arguments are those of bench.
    """
    words = ["infer", *_target(target), *_options(only=_names(only), seed=seed)]
    folder, printed = _done(words, target, output, [*arguments, "--json"], progress)
    fields = ("value", "unit", "confidence", "verdict", "evidence")
    findings = {name: Finding(*(one[field] for field in fields)) for name, one in json.loads(printed).items()}
    return Inference(folder, findings)


def fit(
    source: Run | str | os.PathLike[str],
    *,
    seed: int | None = None,
    output: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    progress: bool | None = None,
) -> Fit:
    """Fits equations to a device or to a run, as `flashlab model fit`.

    source: a target, as that of bench, or a run, or its folder. The other arguments are those of bench.
    """
    if source is None:
        raise InputError("nothing is named to fit: give a run, its folder, or a device as sim:tlc-sata")
    name = source.path if isinstance(source, Run) else source
    words = ["model", "fit", *_target(name), *_options(seed=seed)]
    return Fit(_done(words, name, output, arguments, progress)[0])


def simulate_repair(
    *,
    workload: str = "zipf:0.99",
    fill: float = 0.8,
    policy: str | VictimPolicy | None = None,
    segments: int | None = None,
    pages_per_segment: int | None = None,
    settle: int | None = None,
    measure: int | None = None,
    move: bool = False,
    seed: int | None = None,
    arguments: Sequence[str] = (),
) -> dict[str, Any]:
    """The write amplification of a policy of flashlab repair, in virtual time and without data, as `flashlab repair simulate`.

    workload: uniform, zipf:EXPONENT, or hot-cold:WRITES/PAGES in percent. fill: logical pages for each physical one, between 0 and 1.
    segments, pages_per_segment: the volume, 8192 and 128 if not given. settle, measure: volumes written before the measurement and while it
    lasts, 6 and 4 if not given. move: the hot set moves afterwards.

    policy: its name, multi-log if not given; or an object with these methods, of which only the first is needed:

    - victim(segments: FullSegments) -> int: the place, in the list of full segments, of the one that is collected next. It is called once
      a segment.
    - place_writes(pages: Pages): for each page that the host writes next the log that it goes to. It is called once for 1,024 pages.
    - place_copies(pages: Pages): the same for the valid pages of a segment that is collected.

    Its attribute logs is the number of logs, 1 if there is none. Without place_writes or place_copies, pages go to log 0. The attributes
    of FullSegments and Pages are NumPy arrays, or memoryviews if NumPy is not installed; they are overwritten before the next call.

    Returns the program's JSON: write_amplification, predicted, and a dictionary for each log.

    Raises InputError for a policy that returns no full segment, or no log; what the policy raises comes through.
    """
    if policy is None or isinstance(policy, str):
        words = ["repair", "simulate", *_options(workload=workload, fill=fill, policy=policy, segments=segments)]
        words += _options(pages_per_segment=pages_per_segment, settle=settle, measure=measure, seed=seed)
        words += ["--move"] if move else []
        result: dict[str, Any] = json.loads(_call([*words, *arguments, "--json"], False))
        return result
    if arguments:
        raise InputError("arguments are the program's, which does not know a policy of Python: leave them out")
    return _simulate_policy(
        functools.partial(Bridge, policy),
        workload,
        fill,
        8192 if segments is None else segments,
        128 if pages_per_segment is None else pages_per_segment,
        6 if settle is None else settle,
        4 if measure is None else measure,
        move,
        1 if seed is None else seed,
    )


def _options(**options: Any) -> list[str]:
    named = {name: value for name, value in options.items() if value is not None}
    return [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def _names(only: Sequence[str] | None) -> str | None:
    if not only:
        return None
    return only if isinstance(only, str) else ",".join(only)


def _target(target: str | os.PathLike[str] | None) -> list[str]:
    return [] if target is None else [os.fspath(target)]


def _size(size: int | str) -> str:
    return size if isinstance(size, str) else f"{int(size)}B"


def _done(
    words: list[str],
    target: str | os.PathLike[str] | None,
    output: str | os.PathLike[str] | None,
    arguments: Sequence[str],
    progress: bool | None,
) -> tuple[Path, str]:
    """Calls the program, and returns the folder that it wrote and what it printed."""
    if isinstance(arguments, str):
        raise InputError(f"arguments are one text: give a list, as {arguments.split()}")
    if output is None:
        name = re.sub(r"[^A-Za-z0-9._]+", "-", Path(os.fspath(target or "scratch")).name)
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%S.%f")
        output = Path("flashlab-runs") / f"{now}Z-{name}"
    printed = _call([*words, *arguments, "--output", os.fspath(output)], progress)
    return Path(output), printed


def _program() -> str:
    """The program of this package, or the one that FLASHLAB_PROGRAM names, or that of the path."""
    named = os.environ.get("FLASHLAB_PROGRAM")
    own = Path(sysconfig.get_path("scripts")) / "flashlab"
    found = named or (str(own) if own.exists() else shutil.which("flashlab"))
    if found is None:
        raise InputError(
            "the program flashlab is not installed: this wheel was built without it; `cargo xtask dist` builds one with it, "
            "or set FLASHLAB_PROGRAM"
        )
    return found


_checked: set[str] = set()


def _call(words: list[str], progress: bool | None) -> str:
    """Runs the program, and returns what it printed."""
    program = _program()
    if program not in _checked:
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()
        if version != ["flashlab", __version__]:
            raise InputError(f"{program} is `{' '.join(version)}`, and this package is of {__version__}: install the same")
        _checked.add(program)
    wanted = sys.stderr.isatty() if progress is None else progress
    told: list[str] = []
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [program, *words],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Ctrl-C of the terminal comes here alone, so that the program gets one signal.
            start_new_session=True,
        )
        assert process.stderr is not None

        def listen(lines: Any) -> None:
            for line in lines:
                told.append(line.rstrip("\n"))
                if wanted:
                    print(line, end="", file=sys.stderr, flush=True)

        listener = threading.Thread(target=listen, args=(process.stderr,), daemon=True)
        listener.start()
        try:
            code = process.wait()
        except BaseException:
            # It ends its run so that `flashlab resume` goes on with it.
            process.send_signal(signal.SIGINT)
            raise
        listener.join()
        if code in _DONE:
            printed.seek(0)
            return printed.read()
    raise _error(code, told)


def _error(code: int, told: list[str]) -> FlashlabError:
    """The exception for an exit code, with the program's last words."""
    begins = [at for at, line in enumerate(told) if line.startswith(("flashlab:", "error:"))]
    text = "\n".join(told[begins[-1] if begins else -20 :]).removeprefix("flashlab: ").removeprefix("error: ")
    kind = InputError if code in _REFUSED else FailedError
    error: FlashlabError = kind(text or f"the program ended with {code} and said nothing")
    error.exit_code = code
    return error
