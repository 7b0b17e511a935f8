"""Policies of flashlab repair that are written in Python: what simulate_repair shows them, and what it takes from them.

The memory of the views is bytearrays that the native module fills before each call. NumPy makes arrays of it without a copy; without NumPy
the views are memoryviews. A view that a policy keeps shows later values.
"""

from __future__ import annotations

import importlib.util
import operator
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from ._flashlab import InputError

# How many logs a policy may have.
MOST_LOGS = 64


class FullSegments:
    """The segments that are full, the one that was filled first first. Each attribute but the last two has a value for each of them.

    valid: pages whose newest version lies there. free: pages that collecting it would free. age: host writes since it was filled. log: its
    log. pages_per_segment, and now: the host writes so far.
    """

    __slots__ = ("age", "free", "log", "now", "pages_per_segment", "valid")

    def __init__(self, valid: Any, free: Any, age: Any, log: Any, pages_per_segment: int, now: int) -> None:
        self.valid, self.free, self.age, self.log = valid, free, age, log
        self.pages_per_segment, self.now = pages_per_segment, now

    def __len__(self) -> int:
        return len(self.valid)


class Pages:
    """Pages that are placed: those that the host writes next, or those that are copied out of a segment, in their order.

    page: the logical page. age: host writes since the host wrote it last, -1 if never. now: the host writes so far.
    """

    __slots__ = ("age", "now", "page")

    def __init__(self, page: Any, age: Any, now: int) -> None:
        self.page, self.age, self.now = page, age, now

    def __len__(self) -> int:
        return len(self.page)


class VictimPolicy(Protocol):
    """What a policy needs. It may have more: see simulate_repair."""

    def victim(self, segments: FullSegments, /) -> Any: ...


class Bridge:
    """Calls a policy with views of memory that the native module fills."""

    def __init__(self, policy: Any, segments: int, batch: int, pages_per_segment: int) -> None:
        self.policy = policy
        if isinstance(policy, type):
            raise InputError(f"the policy is the class {policy.__name__}: give an instance, as {policy.__name__}()")
        self.name = type(policy).__name__
        if not callable(getattr(policy, "victim", None)):
            raise InputError(f"the policy {self.name} has no method `victim(segments)`, which chooses the segment that is collected next")
        self.logs = _logs(self.name, getattr(policy, "logs", 1))
        self.places_writes = callable(getattr(policy, "place_writes", None))
        self.places_copies = callable(getattr(policy, "place_copies", None))
        self.pages_per_segment = pages_per_segment
        pages = max(batch, pages_per_segment)
        self.valid, self.free = bytearray(4 * segments), bytearray(4 * segments)
        self.age, self.log = bytearray(8 * segments), bytearray(segments)
        self.page, self.page_age = bytearray(8 * pages), bytearray(8 * pages)
        self.numpy: Any = importlib.import_module("numpy") if importlib.util.find_spec("numpy") else None
        self.segment_views = [self._view(self.valid, "i"), self._view(self.free, "i"), self._view(self.age, "q"), self._view(self.log, "B")]
        self.page_views = [self._view(self.page, "q"), self._view(self.page_age, "q")]

    def _view(self, memory: bytearray, kind: Literal["i", "q", "B"]) -> Any:
        if self.numpy is None:
            return memoryview(memory).cast("B").cast(kind).toreadonly()
        array = self.numpy.frombuffer(memory, dtype=kind)
        array.flags.writeable = False
        return array

    def victim(self, count: int, now: int) -> int:
        """The place of the victim in the list of full segments."""
        valid, free, age, log = (view[:count] for view in self.segment_views)
        chosen = self.policy.victim(FullSegments(valid, free, age, log, self.pages_per_segment, now))
        try:
            place = operator.index(chosen)
        except TypeError:
            raise InputError(
                f"{self.name}.victim returned {_short(chosen)}, a {type(chosen).__name__}: return a place in the list of full segments, from 0"
            ) from None
        if not 0 <= place < count:
            raise InputError(f"{self.name}.victim returned {place}, which is no full segment: there are {count}, from 0 to {count - 1}")
        return place

    def place_writes(self, count: int, now: int) -> bytes:
        return self._placed("place_writes", self.policy.place_writes, count, now)

    def place_copies(self, count: int, now: int) -> bytes:
        return self._placed("place_copies", self.policy.place_copies, count, now)

    def _placed(self, method: str, place: Any, count: int, now: int) -> bytes:
        """The log of each page, one byte each."""
        page, age = (view[:count] for view in self.page_views)
        logs = place(Pages(page, age, now))
        if self.numpy is not None:
            logs = self.numpy.asarray(logs)
            if logs.shape != (count,) or logs.dtype.kind not in "iub":
                raise self._no_logs(method, f"an array of {logs.dtype} with the shape {logs.shape}", count)
            low, high = int(logs.min()), int(logs.max())
            packed: bytes = logs.astype("B").tobytes()
        else:
            if not isinstance(logs, Sequence) or len(logs) != count or not all(hasattr(log, "__index__") for log in logs):
                raise self._no_logs(method, _short(logs), count)
            low, high = min(logs), max(logs)
            packed = bytes(logs) if 0 <= low and high < 256 else b""
        if low < 0 or high >= self.logs:
            wrong = low if low < 0 else high
            raise InputError(f"{self.name}.{method} returned log {wrong}: the policy has {self.logs} (its attribute `logs`), from 0 on")
        return packed

    def _no_logs(self, method: str, returned: str, count: int) -> InputError:
        return InputError(f"{self.name}.{method} returned {returned}: return a whole number, the log, for each of the {count} pages")


def _logs(name: str, logs: Any) -> int:
    try:
        number = operator.index(logs)
    except TypeError:
        number = 0
    if not 1 <= number <= MOST_LOGS:
        raise InputError(f"{name}.logs is {_short(logs)}: it may be a whole number from 1 to {MOST_LOGS}")
    return number


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."
