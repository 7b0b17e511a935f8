"""Policies that are written in Python. With the word "no-numpy" NumPy is not there."""

import importlib.util
import os
import signal
import sys
import threading

import flashlab
from support import raises

if "no-numpy" in sys.argv:
    found = importlib.util.find_spec
    importlib.util.find_spec = lambda name, package=None: None if name == "numpy" else found(name, package)

SMALL = {"segments": 256, "pages_per_segment": 32, "settle": 1, "measure": 1}


def simulate(policy, workload="hot-cold:90/10", **others):
    return flashlab.simulate_repair(workload=workload, policy=policy, seed=5, **{**SMALL, **others})


def first_of_fewest(valid):
    return min(range(len(valid)), key=valid.__getitem__)


class Greedy:
    def victim(self, segments):
        assert len(segments) == len(segments.valid) == len(segments.age) == len(segments.log)
        assert segments.valid[0] + segments.free[0] == segments.pages_per_segment and segments.age[0] >= segments.age[len(segments) - 1]
        return first_of_fewest(segments.valid)


class Oldest:
    def victim(self, segments):
        return 0


def equal_to_the_programs():
    """The same results, to the last digit."""
    for name, policy in [("greedy", Greedy()), ("fifo", Oldest())]:
        for workload, move in [("uniform", False), ("zipf:0.99", True)]:
            ours, theirs = (simulate(one, workload, move=move) for one in (policy, name))
            assert ours.pop("policy") == type(policy).__name__ and theirs.pop("policy") == name
            assert ours == theirs, (ours, theirs)


class Separating(Greedy):
    """A page that was written lately goes to log 1. It knows when each page was written, and what it is shown has to agree."""

    logs = 3

    def __init__(self):
        self.written, self.copied = {}, 0

    def place_writes(self, pages):
        for at, (page, age) in enumerate(zip(pages.page, pages.age)):
            now = pages.now + at
            assert age == (now - self.written[int(page)] if int(page) in self.written else -1), (page, age)
            self.written[int(page)] = now
        return [int(0 <= age < 1500) for age in pages.age]

    def place_copies(self, pages):
        self.copied += len(pages)
        assert all(age >= 0 for age in pages.age)
        return [2] * len(pages)


def logs_of_ones_own():
    policy = Separating()
    separated, together = (simulate(one, fill=0.7, settle=5, measure=2) for one in (policy, "greedy"))
    assert len(separated["logs"]) == 3 and policy.copied > 1000
    assert separated["write_amplification"] < 0.9 * together["write_amplification"], (separated, together)


def victim_of(answer):
    return type("Answering", (), {"victim": lambda self, segments: answer(segments)})()


def placing(logs, answer):
    return type("Placing", (Oldest,), {"logs": logs, "place_writes": lambda self, pages: answer(pages)})()


def wrong_policies():
    def refused(words, policy, **others):
        raises(flashlab.InputError, words, lambda: simulate(policy, **others))

    refused("which is no full segment", victim_of(len))
    refused("which is no full segment", victim_of(lambda _: -1))
    refused("returned 0.5, a float: return a place", victim_of(lambda _: 0.5))
    refused("returned None, a NoneType", victim_of(lambda _: None))
    refused("give an instance, as Greedy()", Greedy)
    refused("has no method `victim(segments)`", object())
    refused("logs is 0", placing(0, lambda pages: []))
    refused("returned log 2: the policy has 2", placing(2, lambda pages: [2] * len(pages)))
    refused("returned log -1", placing(2, lambda pages: [-1] * len(pages)))
    refused("for each of the 1024 pages", placing(2, lambda pages: [0]))
    refused("for each of the 1024 pages", placing(2, lambda pages: [0.5] * len(pages)))
    refused("whose pages are all valid", victim_of(lambda segments: max(range(len(segments)), key=segments.valid.__getitem__)))
    refused("a fill of 1.5 is not between 0 and 1", Greedy(), fill=1.5)
    refused("do not fit in a volume of 256 segments", Greedy(), fill=0.999)
    refused("segments is 3", Greedy(), segments=3)
    refused("leave them out", Greedy(), arguments=["--pauses"])
    # What the policy raises comes through.
    raises(ZeroDivisionError, "division", lambda: simulate(victim_of(lambda _: 1 // 0)))
    raises(KeyError, "page", lambda: simulate(placing(1, lambda pages: {}["page"])))
    # Its views are read, and not written.
    raises((TypeError, ValueError), "read", lambda: simulate(victim_of(lambda segments: segments.valid.__setitem__(0, 1))))


def a_policy_without_end():
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def forever(_):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            pass

    try:
        simulate(victim_of(forever))
    except KeyboardInterrupt:
        return
    raise AssertionError("Ctrl-C was not heard")


if "no-numpy" not in sys.argv:
    wrong_policies()
    a_policy_without_end()
    logs_of_ones_own()
else:
    raises(flashlab.InputError, "for each of the 1024 pages", lambda: simulate(placing(2, lambda pages: [0])))
    raises(flashlab.InputError, "returned log 300", lambda: simulate(placing(2, lambda pages: [300] * len(pages))))
    logs_of_ones_own()
equal_to_the_programs()
