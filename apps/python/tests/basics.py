"""What needs no other library: simulators, tables, errors, signals, threads, fork and pickle."""

import copy
import os
import pickle
import signal
import tempfile
import threading
import time

import flashlab
from support import raises, writes

PLAN = writes(2000)


def columns(samples):
    return flashlab.Table(samples).to_dict()


def simulators():
    sim = flashlab.Simulator("tlc-sata", seed=7, capacity="64MiB")
    assert sim.capacity == 64 << 20 and sim.seed == 7 and sim.write_amplification is None
    filled = sim.precondition()
    assert filled["written_bytes"] > 64 << 20 and sim.write_amplification > 1
    state = sim.state()
    first = sim.run(PLAN)
    assert first.names == ["w W"] and first.write_amplification > 1 and first.first_failure is None
    samples = columns(first.samples())
    assert len(samples["response_ns"]) == 2000 and set(samples["mode"]) == {"write"}
    again = flashlab.Simulator(sim.profile, seed=7, state=state)
    assert columns(again.run(PLAN).samples()) == samples, "a restored state gives the same samples"
    other = flashlab.Simulator(sim.profile, seed=7, state=state)
    assert columns(other.run(PLAN, seed=8).samples()) != samples
    for made in (pickle.loads(pickle.dumps(sim)), copy.deepcopy(sim)):
        assert made.state() == sim.state() and made.seed == 7
    assert pickle.loads(pickle.dumps(flashlab.Simulator("zeus"))).capacity > 0
    plan = {"version": 1, "name": "d", "experiment": [{"name": "R", "pattern": "RR", "io_count": 10}]}
    assert len(columns(sim.run(plan).samples())["mode"]) == 10


def traces():
    trace = flashlab.Table({
        "time_ns": [0, 1000, 2000],
        "mode": ["write", "read", "flush"],
        "offset_bytes": [0, 4096, 0],
        "size_bytes": [4096, 4096, 0],
    })
    run = flashlab.Simulator("tlc-sata", capacity="64MiB").run(trace)
    assert columns(run.samples())["offset_bytes"] == [0, 4096]
    far = {"time_ns": [0], "mode": ["write"], "offset_bytes": [1 << 40], "size_bytes": [4096]}
    sim = flashlab.Simulator("tlc-sata", capacity="64MiB")
    raises(flashlab.InputError, 'row 1 of the trace', lambda: sim.run(flashlab.Table(far)))
    sim.run(flashlab.Table(far), fit="wrap")
    for column, value, words in [
        ("mode", "erase", "mode is erase"),
        ("size_bytes", 0, "no IO can have this range"),
        ("time_ns", -1, "a whole number from 0 on"),
    ]:
        wrong = flashlab.Table({**far, column: [value]})
        raises(flashlab.InputError, words, lambda: sim.run(wrong, fit="wrap"))
    del far["mode"]
    raises(flashlab.InputError, "no column `mode`", lambda: sim.run(flashlab.Table(far)))


def design_space():
    trials = {
        "profile": ["tlc-sata"] * 4,
        "workload": [PLAN] * 4,
        "seed": [1, 2, 1, 1],
        "capacity": ["64MiB", "64MiB", "64MiB", "1EiB"],
        "flash.over_provisioning": [0.07, 0.07, 0.28, 0.07],
    }
    results = flashlab.evaluate(trials)
    errors = results["error"]
    assert errors[:3] == [None] * 3 and "it may be less" in errors[3], errors
    amplification = results["write_amplification"]
    assert amplification[2] < amplification[0] and amplification[3] is None
    again = flashlab.evaluate(flashlab.Table(trials), threads=2).to_dict()
    assert {**again, "wall_s": 0} == {**results.to_dict(), "wall_s": 0}, "threads change nothing"
    assert pickle.loads(pickle.dumps(results)).to_dict() == results.to_dict()
    raises(flashlab.InputError, "no column `workload`", lambda: flashlab.evaluate({"profile": ["tlc-sata"]}))
    raises(flashlab.InputError, "no table", lambda: flashlab.evaluate(3))
    raises(flashlab.InputError, "means nothing", lambda: flashlab.evaluate({**trials, "sede": [1] * 4}))
    # The same experiment, by hand.
    sim = flashlab.Simulator("tlc-sata", capacity="64MiB")
    profile = sim.profile.replace("over_provisioning = 0.07", "over_provisioning = 0.28")
    sim = flashlab.Simulator(profile)
    sim.precondition()
    sim = flashlab.Simulator(profile, state=sim.state())
    if profile != flashlab.Simulator("tlc-sata", capacity="64MiB").profile:
        assert sim.run(PLAN).write_amplification == amplification[2]


def errors():
    wrong = raises(flashlab.InputError, "no simulated device `no-such`", lambda: flashlab.Simulator("no-such"))
    assert isinstance(wrong, flashlab.FlashlabError) and wrong.exit_code == 2
    assert flashlab.FailedError.exit_code == 1
    raises(flashlab.InputError, "many", lambda: flashlab.Simulator("tlc-sata", capacity="many"))
    raises(flashlab.InputError, "there is no plan `no`", lambda: flashlab.Simulator("zeus").run("no"))
    raises(flashlab.InputError, "no state", lambda: flashlab.Simulator("zeus").state())
    raises(flashlab.InputError, "", lambda: flashlab.Simulator("tlc-sata", state=b"no state"))
    for seed in (-1, 2**64, 1.5, "1", True):
        raises(flashlab.InputError, "whole number", lambda: flashlab.Simulator("tlc-sata", seed=seed))
    assert flashlab.Simulator("zeus", seed=2**64 - 1).seed == 2**64 - 1
    raises(flashlab.InputError, "-5 is no size", lambda: flashlab.Simulator("tlc-sata", capacity=-5))
    raises(flashlab.InputError, "depth is 0", lambda: flashlab.Simulator("zeus").run("granularity", depth=0))
    row = {"profile": ["tlc-sata"], "workload": ["baselines/RW"]}
    raises(flashlab.InputError, "threads is 0", lambda: flashlab.evaluate(row, threads=0))
    raises(flashlab.InputError, "-1 is no whole number", lambda: flashlab.evaluate(row, threads=-1))
    raises(flashlab.InputError, "between -2^63 and 2^63", lambda: flashlab.evaluate({**row, "seed": [2**63]}))
    raises(flashlab.InputError, "is no list", lambda: flashlab.evaluate({**row, "profile": "tlc-sata"}))
    raises(TypeError, "no workload", lambda: flashlab.Simulator("zeus").run(3))
    with tempfile.TemporaryDirectory() as folder:
        raises(flashlab.InputError, "contains no run", lambda: flashlab.open(folder))
    assert ("tlc-sata" in dict(flashlab.profiles())) and flashlab.__version__


def signals():
    # A shell starts what it puts in the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sim = flashlab.Simulator("tlc-sata", capacity="16GiB")
    sent = []

    def send():
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    raises(KeyboardInterrupt, "", lambda: [sim.precondition() for _ in range(1000)])
    # Bounded loosely: this machine may be busy.
    assert time.monotonic() - sent[0] < 10
    thread.join()


def processes():
    child = os.fork()
    if child == 0:
        flashlab.Simulator("tlc-sata", capacity="64MiB").run(PLAN)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    sims = [flashlab.Simulator("tlc-sata", capacity="64MiB") for _ in range(2)]
    threads = [threading.Thread(target=sim.run, args=(PLAN,)) for sim in sims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sims[0].state() == sims[1].state()


for part in (simulators, traces, design_space, errors, signals, processes):
    part()
