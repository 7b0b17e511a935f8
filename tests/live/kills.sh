#!/usr/bin/env bash
# A server is killed (SIGKILL) at random moments: while it starts, while its disk is mounted, under load, while it ends.
#
#   tests/live/kills.sh [FLASHLAB] [--kills N] [--seed N]
#
# After each kill: no process hangs, no mount, loop device or folder of the server is left, a new server takes the same
# backing file, and whatever was flushed is there; a file system that was mounted can be unmounted and mounted again.
# Prints a line for each kind of moment. Ends with 1 if anything failed. 50 kills take about two minutes.
set -euo pipefail
. "$(dirname "$0")/common.sh"

program='' kills=50 seed=1
while [ $# -gt 0 ]; do
    case $1 in
        --kills) kills=$2; shift 2 ;;
        --seed) seed=$2; shift 2 ;;
        -*) fail "no option $1" ;;
        *) program=$1; shift ;;
    esac
done
need_live_disk mkfs.ext4 umount
find_flashlab "$program"
attend python3 "$live/kills.py" "$flashlab" "$work" "$kills" "$seed"
