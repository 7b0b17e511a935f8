"""What the program does for the package: FLASHLAB_PROGRAM names it."""

import os
import pickle
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import flashlab
from support import raises


def refused(words, code, work):
    assert raises(flashlab.InputError, words, work).exit_code == code


def folders():
    run = flashlab.bench("sim:tlc-sata", only=["granularity"], seed=3, output="bench", arguments=["--size", "256MiB"])
    assert run.is_finished and run.manifest["settings"]["seed"] == 3 and run.path.name == "bench"
    assert len(flashlab.Table(run.samples())) > 1000
    fitted = flashlab.fit(run)
    assert fitted.folder.parent == Path("flashlab-runs")
    predicted = fitted.predict(mode="rr", size="16KiB")
    low, high = predicted.bytes_per_s_interval
    assert low <= predicted.bytes_per_s <= high and predicted.equation
    assert fitted.predict(mode="rr", size=16384) == predicted
    refused("", 2, lambda: fitted.predict(mode="xx", size=4096))
    refused("the depth is 0: it may be", 2, lambda: fitted.predict(mode="rr", size=4096, depth=0))
    again = pickle.loads(pickle.dumps(run))
    assert again.summary.to_dict() == run.summary.to_dict() and "mean_ns" in run.summary.columns
    Path("plan.toml").write_text('version = 1\nname = "w"\n[[experiment]]\nname = "W"\npattern = "RW"\nio_count = 100\n')
    assert len(flashlab.Table(flashlab.run("plan.toml", "sim:tlc-sata", state="none", repetitions=1).samples())) == 100


def same_samples():
    """The same seed gives the samples of the program, byte for byte."""
    plan = "version = 1\nname = 'w'\n[[experiment]]\nname = 'W'\npattern = 'RW'\nio_size = '4KiB'\nio_count = 5000\n"
    Path("same.toml").write_text(plan)
    words = "sim run tlc-sata --plan same.toml --seed 7 --capacity 64MiB --output same"
    subprocess.run([os.environ["FLASHLAB_PROGRAM"], *words.split()], check=True, capture_output=True)
    ours = flashlab.Table(flashlab.Simulator("tlc-sata", seed=7, capacity="64MiB").run(plan).samples())
    assert len(ours) == 5000 and ours._parquet() == flashlab.Table(flashlab.open("same").samples())._parquet()


def findings():
    found = flashlab.infer("sim:sdcard", only=["read_page_size"])
    page = found["read_page_size"]
    assert page.value == 8192 and page.unit == "bytes" and page.confidence > 0.9 and "page" in page.evidence, page
    assert "read_page_size" in found and (found.folder / "report.html").is_file()
    simulated = flashlab.simulate_repair(workload="uniform", fill=0.5, policy="greedy", segments=256)
    assert simulated["write_amplification"] > 1, simulated


def errors():
    refused("no simulated device `nope`", 2, lambda: flashlab.bench("sim:nope"))
    refused("unexpected argument", 2, lambda: flashlab.bench("sim:zeus", arguments=["--nope"]))
    Path("data").write_bytes(b"x" * (1 << 20))
    refused("data", 3, lambda: flashlab.bench("data"))
    assert Path("data").read_bytes() == b"x" * (1 << 20)


def interruption():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        flashlab.bench("sim:tlc-sata", full=True, output="long")
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("Ctrl-C was not heard")
    # The program ends its run. Bounded loosely: this machine may be busy.
    began = time.monotonic()
    while time.monotonic() - began < 60:
        try:
            assert not flashlab.open("long").is_finished
            return
        except flashlab.FlashlabError:
            time.sleep(0.1)
    raise AssertionError("the interrupted run cannot be opened")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in (folders, same_samples, findings, errors, interruption):
        part()
    os.chdir("/")
