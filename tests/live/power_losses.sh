#!/usr/bin/env bash
# ext4 on a live disk whose power fails while files are written.
#
#   tests/live/power_losses.sh [FLASHLAB] [--losses N] [--seed N] [--lost-flush]
#
# After each power loss the server is ended and begun again on the same backing file, the file system is mounted (its
# journal is replayed), every file that was fsynced is there, and e2fsck has nothing to say. With --lost-flush the disk
# lies: it says that flushes are done and does none. Then files have to be missing, or the check would find nothing; the
# file system is made whole by e2fsck, or anew. 20 power losses take about a minute. Ends with 1 if anything failed.
set -euo pipefail
. "$(dirname "$0")/common.sh"

program='' losses=20 seed=1 lies=''
while [ $# -gt 0 ]; do
    case $1 in
        --losses) losses=$2; shift 2 ;;
        --seed) seed=$2; shift 2 ;;
        --lost-flush) lies=yes; shift ;;
        -*) fail "no option $1" ;;
        *) program=$1; shift ;;
    esac
done
need_live_disk mkfs.ext4 e2fsck
find_flashlab "$program"
cd "$work"
mkdir files
RANDOM=$seed

serve() { start_server sim:emmc --size 128MiB --loop --backing "$work/backing"; }

# Files of up to 40 KiB, each fsynced with its folder; the names and sums of those go to a file that is elsewhere.
write_files() {
    python3 - "$1" "$2" <<'PYTHON'
import hashlib, os, random, sys, time
seed, listed = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
draw, end = random.Random(seed), time.monotonic() + 30
folder = f"files/{seed}"
try:
    os.mkdir(folder)
    top = os.open("files", os.O_RDONLY)
    os.fsync(top)
    handle, number = os.open(folder, os.O_RDONLY), 0
    while time.monotonic() < end:
        content = draw.randbytes(draw.randrange(1, 40 << 10))
        with open(f"{folder}/{number}", "wb") as file:
            file.write(content)
            file.flush()
            if number % 3 == 0:
                os.fsync(file.fileno())
                os.fsync(handle)
                listed.write(f"{hashlib.sha256(content).hexdigest()}  {folder}/{number}\n")
        if number % 50 == 49 and number % 3 != 0:
            os.rename(f"{folder}/{number}", f"{folder}/renamed")
        number += 1
except OSError as error:
    sys.exit(0 if error.errno in (5, 30, 117) else f"an odd error: {error}")
sys.exit("the power did not fail")
PYTHON
}

serve
mkfs.ext4 -q "$disk"
stop_server
fsynced=0 missing=0 broken=0
for loss in $(seq "$losses"); do
    rm -f sums
    serve
    mount "$disk" files || fail "mount before power loss $loss"
    rm -rf files/[0-9]*
    sync -f files
    [ -z "$lies" ] || "$flashlab" live fault "$control" lost-flush
    write_files "$loss" sums & writer=$!
    for tries in $(seq 600); do
        [ ! -s sums ] || break
        sleep 0.1
    done
    sleep "0.$((RANDOM % 9 + 1))"
    "$flashlab" live power-loss "$control"
    wait "$writer" || fail "the program that writes, at power loss $loss"
    umount files || fail "the disk without power cannot be unmounted"
    stop_server
    serve
    each=$(wc -l <sums 2>/dev/null || echo 0)
    fsynced=$((fsynced + each))
    if ! mount "$disk" files 2>mount.err; then
        [ -n "$lies" ] || fail "mount after power loss $loss: $(cat mount.err)"
        missing=$((missing + each))
    elif [ "$each" -gt 0 ]; then
        lost=$(sha256sum --check --quiet sums 2>/dev/null | wc -l) || true
        [ "$lost" -eq 0 ] || [ -n "$lies" ] || fail "$lost fsynced files of $each are gone after power loss $loss"
        missing=$((missing + lost))
    fi
    ! mountpoint -q files || umount files
    if ! e2fsck -f -n "$disk" >fsck.log 2>&1; then
        [ -n "$lies" ] || fail "e2fsck after power loss $loss: $(tail -5 fsck.log)"
        broken=$((broken + 1))
        e2fsck -f -y "$disk" >fsck.log 2>&1 || e2fsck -f -n "$disk" >fsck.log 2>&1 || mkfs.ext4 -q -F "$disk"
    fi
    stop_server
done
echo "$losses power losses${lies:+, flushes lost}: $fsynced files were fsynced, $missing of them are gone, $broken times e2fsck found damage"
[ "$fsynced" -gt 0 ] || fail "no file was fsynced"
[ -z "$lies" ] || [ "$missing" -gt 0 ] || [ "$broken" -gt 0 ] || fail "a disk that loses flushes lost nothing: the check is blind"
