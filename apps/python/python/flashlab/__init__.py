"""flashlab: a laboratory for flash storage.

Simulated devices in virtual time (Simulator), the runs that the program measured as Arrow tables (open), and the design space,
one experiment a row (evaluate), or all combinations of some values, on this machine or a cluster (sweep). bench, run, infer, fit and simulate_repair do what
the program does. See docs/python.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._flashlab import (
    FailedError,
    FlashlabError,
    InputError,
    Run,
    Samples,
    Simulation,
    Simulator,
    Table,
    __version__,
    evaluate,
    open,
    profiles,
)

if TYPE_CHECKING:
    from ._policy import FullSegments, Pages
    from ._program import Finding, Fit, Inference, Prediction, bench, fit, infer, run, simulate_repair
    from ._sweep import Sweep, pareto, sweep

# What is imported when it is first used: these need much of the standard library, and evaluate on a worker needs none of it.
_LATER = {
    "_policy": ("FullSegments", "Pages"),
    "_program": ("Finding", "Fit", "Inference", "Prediction", "bench", "fit", "infer", "run", "simulate_repair"),
    "_sweep": ("Sweep", "pareto", "sweep"),
}

__all__ = [
    "FailedError",
    "Finding",
    "Fit",
    "FlashlabError",
    "FullSegments",
    "Inference",
    "InputError",
    "Pages",
    "Prediction",
    "Run",
    "Samples",
    "Simulation",
    "Simulator",
    "Sweep",
    "Table",
    "__version__",
    "bench",
    "evaluate",
    "fit",
    "infer",
    "open",
    "pareto",
    "profiles",
    "run",
    "simulate_repair",
    "sweep",
]


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'flashlab' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__


def _restored(profile: str, seed: int, state: bytes | None) -> Simulator:
    """A Simulator that was pickled."""
    return Simulator(profile, seed, state=state)
