#!/usr/bin/env bash
# Raw IO on a live disk beside its model, as Table 2 of El Maghraoui and others (Modeling and Simulating Flash based
# Solid-State Disks for Operating Systems, section 6.2.1).
#
#   tests/live/raw_io.sh [FLASHLAB] [--csv FILE] [--pictures DIR] [--repetitions N]
#
# sim:zeus is served, and read and written sequentially and at random in sizes of 4 KiB to 8 MiB, one IO at a time: by
# fio and by `flashlab run` on the FUSE file, and by fio on a loop device. The model is T = A + n B of the profile. The
# kernel splits what is larger than 1280 KiB or 128 segments of memory on its way to a loop device, and each piece costs
# an A of its own; so loop devices are measured up to 512 KiB. To a FUSE file, 8 MiB go in one request where
# fs.fuse.max_pages_limit can be set to 2048 (Linux 6.13), which the script does while it mounts; otherwise it ends at
# 1 MiB, and says so.
#
# Server and clients run with real-time priority where that is allowed (chrt --fifo 10): the disk is to be checked, and
# not what else runs on the machine. The loop device's own threads are the kernel's and have none.
set -euo pipefail
. "$(dirname "$0")/common.sh"

program='' csv='' pictures='' repetitions=3
while [ $# -gt 0 ]; do
    case $1 in
        --csv) csv=$(realpath -m "$2"); shift 2 ;;
        --pictures) pictures=$(realpath -m "$2"); shift 2 ;;
        --repetitions) repetitions=$2; shift 2 ;;
        -*) fail "no option $1" ;;
        *) program=$1; shift ;;
    esac
done
need_live_disk fio
find_flashlab "$program"
cd "$work"
mkdir mount results

"$flashlab" sim show zeus >profile.toml
largest=8192
raise_fuse_pages 2048 || { largest=1024; note "Linux cannot raise fs.fuse.max_pages_limit here: sizes end at 1 MiB"; }
size=8GiB

note "the FUSE file, 4 KiB to $largest KiB: fio"
start_server sim:zeus --size $size --no-data --fuse mount
restore_fuse_pages
python3 "$live/raw_io.py" fio-jobs "$disk" profile.toml "$largest" >file.fio
for repetition in $(seq "$repetitions"); do
    attend "${prefer[@]}" fio file.fio --output-format=json --output="results/file-$repetition.json"
done
note "the FUSE file: flashlab run"
python3 "$live/raw_io.py" plan "$largest" >plan.toml
attend "${prefer[@]}" "$flashlab" run plan.toml "$disk" --overwrite-file --repetitions "$repetitions" -o run --json \
    >results/run.json 2>run.err || fail "flashlab run: $(tail -3 run.err)"
status >results/status-file.json
stop_server

note "the loop device, 4 KiB to 512 KiB: fio"
start_server sim:zeus --size $size --no-data --loop
python3 "$live/raw_io.py" fio-jobs "$disk" profile.toml 512 >loop.fio
for repetition in $(seq "$repetitions"); do
    attend "${prefer[@]}" fio loop.fio --output-format=json --output="results/loop-$repetition.json"
done
stop_server

[ -z "$pictures" ] || mkdir -p "$pictures"
python3 "$live/raw_io.py" table profile.toml results ${csv:+--csv "$csv"} ${pictures:+--pictures "$pictures"}
load
