"""What tests/live/kills.sh does; see there. Arguments: FLASHLAB FOLDER KILLS SEED."""

import collections
import json
import os
import random
import select
import signal
import subprocess
import sys
import time

FLASHLAB, FOLDER, KILLS, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
BLOCK = 4096
PATIENCE = 60  # Seconds; what hangs hangs for ever.
MOMENTS = ["start", "mount", "load", "end"]
TEMPORARY = f"{FOLDER}/tmp"
draw = random.Random(SEED)

# Writes blocks of a file, or files of a folder, and says on its output what was flushed.
WRITER = """
import os, random, sys
path, seed = sys.argv[1], int(sys.argv[2])
draw = random.Random(seed)
if os.path.isdir(path):
    for number in range(10**9):
        name, fill = f"{seed}-{number}", draw.randrange(1, 256)
        with open(f"{path}/{name}", "wb") as file:
            file.write(bytes([fill]) * 4096)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        print(name, fill, flush=True)
        if number % 64 == 63:
            for old in range(number - 63, number - 31):
                os.remove(f"{path}/{seed}-{old}")
                print(f"{seed}-{old}", 0, flush=True)
file = os.open(path, os.O_RDWR)
while True:
    writes = [(draw.randrange(2048), draw.randrange(1, 256)) for _ in range(draw.randrange(1, 9))]
    for block, fill in writes:
        print("writes", block, flush=True)
        os.pwrite(file, bytes([fill]) * 4096, block * 4096)
    os.fsync(file)
    for block, fill in writes:
        print(block, fill, flush=True)
"""


def fail(why):
    print(f"FAILED: {why} (seed {SEED})")
    sys.exit(1)


def wait_until(done, what):
    begin = time.monotonic()
    while not done():
        if time.monotonic() - begin > PATIENCE:
            fail(f"{what} after {PATIENCE} s")
        time.sleep(0.005)


def ended(process, what):
    wait_until(lambda: process.poll() is not None, f"{what} hangs")


def run(*command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    ended(process, " ".join(command))
    return process.returncode, process.stdout.read().decode(errors="replace")


def left():
    """Mounts and loop devices of our servers, and their folders."""
    found = [line for line in open("/proc/mounts") if f" {FOLDER}/disk " in line or f" {TEMPORARY}/" in line]
    for device in os.listdir("/sys/block"):
        try:
            file = open(f"/sys/block/{device}/loop/backing_file").read()
        except OSError:
            continue
        if file.startswith(FOLDER + "/"):
            found.append(f"{device} over {file}")
    return found + os.listdir(TEMPORARY)


counts = collections.Counter()


class Kept:
    """What has to be on a backing file: fills by block or file; None where a write was never flushed."""

    def __init__(self, name, options, is_file_system):
        self.name, self.options, self.is_file_system = name, options, is_file_system
        self.fills, self.verified = {}, 0

    def hear(self, lines):
        for line in lines.splitlines():
            first, second = line.split()
            if first == "writes":
                self.fills[second] = None
            else:
                self.fills[first] = int(second)

    def verify(self, path):
        for name, fill in self.fills.items():
            if fill is None:
                continue
            self.verified += 1
            if self.is_file_system:
                if fill == 0:
                    continue
                try:
                    data = open(f"{path}/{name}", "rb").read()
                except FileNotFoundError:
                    fail(f"{self.name}: the file {name} was flushed and is gone")
            else:
                with open(path, "rb") as file:
                    file.seek(int(name) * BLOCK)
                    data = file.read(BLOCK)
            if data != bytes([fill]) * BLOCK:
                fail(f"{self.name}: {name} was flushed and is another")


class Server:
    def __init__(self, kept):
        command = [FLASHLAB, "serve", "sim:emmc", "--size", "64MiB", "--json", "--backing", f"{FOLDER}/{kept.name}"]
        self.process = subprocess.Popen(command + kept.options, stdout=subprocess.PIPE, stderr=open(f"{FOLDER}/log", "w"),
                                        env=dict(os.environ, TMPDIR=TEMPORARY))
        self.path = None

    def ready(self):
        """Waits until it is, and returns the disk's path; None if it ended."""
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if readable else fail("the server is not ready")
        if not line:
            return None
        self.path = json.loads(line)["path"]
        return self.path

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        ended(self.process, "the killed server")


def write(path):
    return subprocess.Popen([sys.executable, "-c", WRITER, path, str(draw.randrange(1 << 30))],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def starts(kept):
    """A server that is ready. The one before may have been killed a moment ago."""
    begin = time.monotonic()
    while True:
        server = Server(kept)
        if server.ready():
            return server
        ended(server.process, "a server that does not start")
        said = open(f"{FOLDER}/log").read()
        if time.monotonic() - begin > PATIENCE:
            fail(f"no server takes over what the killed one left: {said}")
        time.sleep(0.01)


def kill_at(moment, kept):
    files = f"{FOLDER}/files"
    if moment == "start":
        server = Server(kept)
        time.sleep(draw.uniform(0, 0.3))
        return server.kill()
    server = starts(kept)
    if not kept.is_file_system:
        kept.verify(server.path)
        writer = write(server.path)
        if moment == "mount":
            moment = "load"
    else:
        if moment == "mount":
            mount = subprocess.Popen(["mount", server.path, files], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0, 0.05))
            server.kill()
            ended(mount, "mount")
            if os.path.ismount(files):
                run("umount", files)
            return
        code, said = run("mount", server.path, files)
        if code != 0:
            fail(f"the file system cannot be mounted: {said}")
        kept.verify(files)
        writer = write(files)
    time.sleep(draw.uniform(0, 0.4))
    if moment == "end":
        server.process.send_signal(signal.SIGTERM)
        time.sleep(draw.uniform(0, 0.2))
    server.kill()
    if kept.is_file_system:
        # ext4 may go on in its cache until something is flushed.
        time.sleep(0.05)
    try:
        kept.hear(writer.communicate(timeout=PATIENCE)[0].decode())
    except subprocess.TimeoutExpired:
        fail("the program that writes hangs")
    if kept.is_file_system:
        code, said = run("umount", files)
        if code != 0:
            fail(f"the dead disk cannot be unmounted: {said}")


def main():
    os.mkdir(TEMPORARY)
    os.mkdir(f"{FOLDER}/files")
    os.mkdir(f"{FOLDER}/disk")
    kinds = [Kept("by-file", ["--fuse", f"{FOLDER}/disk"], False), Kept("by-loop", ["--loop"], False),
             Kept("ext4", ["--loop"], True)]
    server = starts(kinds[2])
    code, said = run("mkfs.ext4", "-q", server.path)
    if code != 0:
        fail(f"mkfs.ext4: {said}")
    server.process.terminate()
    ended(server.process, "the server that is told to end")
    for number in range(KILLS):
        kept, moment = kinds[number % 3], MOMENTS[number // 3 % 4]
        kill_at(moment, kept)
        counts[(kept.name, moment)] += 1
        wait_until(lambda: not left(), f"{kept.name}, killed at {moment}: left: {left()}")
    for kept in kinds:
        server = starts(kept)
        if kept.is_file_system:
            run("mount", server.path, f"{FOLDER}/files")
            kept.verify(f"{FOLDER}/files")
            run("umount", f"{FOLDER}/files")
            code, said = run("e2fsck", "-f", "-n", server.path)
            if code != 0:
                fail(f"e2fsck after all kills: {said}")
        else:
            kept.verify(server.path)
        server.process.terminate()
        ended(server.process, "the server that is told to end")
        if server.process.returncode != 0:
            fail(f"a server that is told to end: {open(f'{FOLDER}/log').read()}")
    wait_until(lambda: not left(), "something is left")
    for kept in kinds:
        moments = ", ".join(f"{count} at {moment}" for (name, moment), count in counts.items() if name == kept.name)
        print(f"{kept.name:<8} killed {moments}; {kept.verified} flushed blocks were looked at and there")


main()
