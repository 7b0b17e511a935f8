#!/usr/bin/env bash
# File systems on a live disk: made, filled, remounted, checked, trimmed.
#
#   tests/live/file_systems.sh [FLASHLAB] [--target sim:NAME] [--csv FILE]
#
# For each of ext4, xfs and btrfs that this machine can make and mount: a disk of 2 GiB is served with a backing file;
# 3000 files of 1 to 40 KiB, and some large ones, are written, half of them are deleted and others written, a SQLite
# database is filled; it is unmounted, the file system's own checker has nothing to say; the server is ended and begun
# again on the same backing file; the files are what they were (sha256sum), the database as well (integrity_check);
# fstrim reaches the simulator (the discarded bytes of `flashlab serve --status`). Prints a line for each file system.
# Ends with 1 if anything failed.
set -euo pipefail
. "$(dirname "$0")/common.sh"

program='' target=sim:emmc csv=''
while [ $# -gt 0 ]; do
    case $1 in
        --target) target=$2; shift 2 ;;
        --csv) csv=$(realpath -m "$2"); shift 2 ;;
        -*) fail "no option $1" ;;
        *) program=$1; shift ;;
    esac
done
need_live_disk sha256sum fstrim blkdiscard
find_flashlab "$program"
cd "$work"
mkdir files
failed=0

make() {
    case $1 in
        ext4) mkfs.ext4 -q -E nodiscard "$disk" ;;
        xfs) mkfs.xfs -q -K "$disk" ;;
        btrfs) mkfs.btrfs -q --nodiscard "$disk" ;;
    esac
}

check() {
    case $1 in
        ext4) e2fsck -f -n "$disk" ;;
        xfs) xfs_repair -n "$disk" ;;
        btrfs) btrfs check --readonly "$disk" ;;
    esac
}

mount_disk() { mount -t "$1" "$disk" files; }

discarded() { status | python3 -c 'import json, sys
print(sum(c["bytes"] for c in json.load(sys.stdin)["served"]["classes"] if c["class"] == "discard"))'; }

# The files that are written, by seed: the same each time.
fill() {
    python3 - "$1" <<'PYTHON'
import os, random, sys
place, draw = sys.argv[1], random.Random(11)
def write(name, size):
    with open(f"{place}/{name}", "wb") as file:
        file.write(draw.randbytes(size))
for folder in range(30):
    os.makedirs(f"{place}/{folder}")
for number in range(3000):
    write(f"{number % 30}/{number}", draw.randrange(1 << 10, 40 << 10))
os.sync()
for number in range(0, 3000, 2):
    os.remove(f"{place}/{number % 30}/{number}")
for number in range(3000, 3500):
    write(f"{number % 30}/{number}", draw.randrange(1 << 10, 40 << 10))
for number in range(4):
    write(f"large-{number}", 16 << 20)
PYTHON
}

database() {
    python3 - "$1" <<'PYTHON'
import random, sqlite3, sys
draw, base = random.Random(12), sqlite3.connect(sys.argv[1])
base.execute("create table t (key integer primary key, value blob)")
for batch in range(20):
    with base:
        base.executemany("insert into t (value) values (?)", ((draw.randbytes(200),) for _ in range(500)))
    with base:
        base.execute("delete from t where key % 7 = ?", (batch % 7,))
base.close()
PYTHON
}

# each STEP COMMAND...: runs it quietly; when it fails, it says which step of which file system, and why.
each() {
    local step=$1
    shift
    attend "$@" >"$work/step.log" 2>&1 && return
    echo "$fs FAILED at: $step"
    sed 's/^/    /' "$work/step.log" | tail -5
    failed=1
    return 1
}

verified() { (cd files && sha256sum --check --quiet ../sums); }
integrity() { [ "$(python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("pragma integrity_check").fetchone()[0])' files/base.sqlite)" = ok ]; }

exercise() {
    local begin=$SECONDS files bytes before after
    start_server "$target" --size 2GiB --loop --backing "$work/backing"
    each mkfs make "$fs" && each mount mount_disk "$fs" || return
    each "writing files" fill files && each "writing a database" database files/base.sqlite || return
    (cd files && find . -type f ! -name 'base.sqlite*' -exec sha256sum {} +) >sums
    files=$(wc -l <sums)
    bytes=$(du -s --block-size=1M --apparent-size files | cut -f1)
    each umount umount files && each "check after writing" check "$fs" || return
    stop_server
    start_server "$target" --size 2GiB --loop --backing "$work/backing"
    each "mount after a restart" mount_disk "$fs" && each checksums verified && each integrity_check integrity || return
    rm -r files/1* files/large-*
    sync -f files
    before=$(discarded)
    each fstrim fstrim files || return
    after=$(discarded)
    [ "$after" -gt "$before" ] || { echo "$fs FAILED at: fstrim: no discard reached the simulator"; failed=1; return; }
    each umount umount files && each "check after fstrim" check "$fs" || return
    printf '%-8s%8d%8d%22d%10d  ok\n' "$fs" "$files" "$bytes" $(((after - before) >> 20)) $((SECONDS - begin))
    echo "$fs,$files,$bytes,$(((after - before) >> 20)),$((SECONDS - begin))" >>lines.csv
}

echo "$target, 2 GiB, with a backing file"
printf '%-8s%8s%8s%22s%10s\n' "" files MiB "discarded by fstrim, MiB" seconds
for fs in ext4 xfs btrfs; do
    case $fs in xfs) checker=xfs_repair ;; btrfs) checker=btrfs ;; *) checker=e2fsck ;; esac
    have "mkfs.$fs" && have $checker || { echo "$fs      skipped: no mkfs.$fs or $checker"; continue; }
    grep -qw "$fs" /proc/filesystems || modprobe "$fs" 2>/dev/null || { echo "$fs      skipped: not in this kernel"; continue; }
    exercise || true
    # What a failed step left behind.
    mountpoint -q files && umount files
    stop_server
    rm -f backing backing.flashlab
done
[ -z "$csv" ] || { echo "file system,files,MiB,trimmed MiB,seconds"; cat lines.csv; } >"$csv"
load
exit $failed
