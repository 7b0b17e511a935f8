"""flashlab: a laboratory for flash storage.

Simulated devices in virtual time (Simulator), the runs that the program measured as Arrow tables (open), and the design space,
one experiment a row (evaluate). See docs/python.md.
"""

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

__all__ = [
    "FailedError",
    "FlashlabError",
    "InputError",
    "Run",
    "Samples",
    "Simulation",
    "Simulator",
    "Table",
    "__version__",
    "evaluate",
    "open",
    "profiles",
]


def _restored(profile: str, seed: int, state: bytes | None) -> Simulator:
    """A Simulator that was pickled."""
    return Simulator(profile, seed, state=state)
