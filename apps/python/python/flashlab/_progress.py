"""How far a sweep is: a line that is updated in a terminal, or in a notebook's cell."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

_EVERY_S = 0.2


class Progress:
    """Prints the share that is done, the rate and the time left."""

    def __init__(self, total: int, kept: int, wanted: bool | None) -> None:
        """kept: the rows of an earlier call, which do not count for the rate."""
        self.total, self.done, self.kept = total, kept, kept
        self.cell = _cell() if wanted is not False else None
        self.wanted = wanted if wanted is not None else (self.cell is not None or sys.stderr.isatty())
        self.began = self.told = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.wanted and self.cell is None:
            self._tell("\n")

    def advance(self, rows: int) -> None:
        """More rows are done."""
        self.done += rows
        if self.wanted and (time.monotonic() - self.told > _EVERY_S or self.done == self.total):
            self.told = time.monotonic()
            self._tell("")

    def _tell(self, end: str) -> None:
        passed = max(time.monotonic() - self.began, 1e-9)
        rate = (self.done - self.kept) / passed
        left = f", {(self.total - self.done) / rate:.0f} s left" if rate > 0 and self.done < self.total else ""
        line = f"{self.done} of {self.total} rows, {rate:.3g} rows/s{left}"
        if self.cell is not None:
            self.cell.update({"text/plain": line}, raw=True)
        else:
            sys.stderr.write(f"\r{line:<70}{end}")
            sys.stderr.flush()


def _cell() -> Any:
    """A place in the output of a notebook's cell; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = importlib.import_module("IPython.display").display
    return display({"text/plain": ""}, raw=True, display_id=True)
