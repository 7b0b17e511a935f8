"""The same sweep on Ray, Dask or Spark, as the argument says. Of Ray, a worker is killed in the middle."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import flashlab
from support import writes

PLAN = writes(500)
SPACE = {"flash.over_provisioning": [0.07 + 0.01 * step for step in range(20)]}


def rows(**arguments):
    sweep = flashlab.sweep("tlc-sata", SPACE, workloads=PLAN, seeds=range(1, 6), capacity="64MiB", progress=False, **arguments)
    columns = sweep.table().to_dict()
    del columns["wall_s"]
    assert len(sweep) == 100 and columns["error"] == [None] * 100
    return columns


def kill_a_worker(killed):
    """Kills the first of Ray's workers of this user that computes a batch."""
    while not killed:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if b"ray::_batch" in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
                    killed.append(process.name)
                    return
            except OSError:
                # It has ended.
                continue
        time.sleep(0.01)


def on_ray(expected):
    killed = []
    killer = threading.Thread(target=kill_a_worker, args=(killed,), daemon=True)
    killer.start()
    assert rows(on="ray") == expected
    assert killed, "the sweep was done before a worker was seen"


if __name__ == "__main__":
    expected = rows()
    engine = sys.argv[1]
    if engine == "ray":
        on_ray(expected)
    else:
        assert rows(on=engine) == expected
