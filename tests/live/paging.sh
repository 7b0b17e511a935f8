#!/usr/bin/env bash
# Paging to live disks, as Figures 8 and 9 of El Maghraoui and others (Modeling and Simulating Flash based Solid-State
# Disks for Operating Systems, section 6.2.2).
#
#   tests/live/paging.sh [FLASHLAB] [--csv FILE] [--pictures DIR] [--ftl NAME] [--disk NAME] [--seconds N] [--keep-model FILE]
#
# Two programs have less and less memory (a memory cgroup below this script's own): a Java program whose heap is a file
# on the live disk, which the kernel pages in and out, and a PostgreSQL server under load whose data are there. The
# disks are a hard disk of Ajwani's tables, the Zeus, a device with a translation layer, and the throughput model that
# the script fits to that one: it measures the live disk with fio, fits T = A + n B for the four classes, and serves it.
# Prints operations a second for each disk and memory, and how far the model is from the device that it was fitted to.
#
# The disks are never swap space: Linux would put pages of every program there, and those of the server, which is then
# waited for by itself.
set -euo pipefail
. "$(dirname "$0")/common.sh"

program='' csv='' pictures='' ftl=emmc hard_disk=barracuda seconds=1 keep_model=''
while [ $# -gt 0 ]; do
    case $1 in
        --csv) csv=$(realpath -m "$2"); shift 2 ;;
        --pictures) pictures=$(realpath -m "$2"); shift 2 ;;
        --ftl) ftl=$2; shift 2 ;;
        --disk) hard_disk=$2; shift 2 ;;
        --seconds) seconds=$2; shift 2 ;;
        --keep-model) keep_model=$(realpath -m "$2"); shift 2 ;;
        -*) fail "no option $1" ;;
        *) program=$1; shift ;;
    esac
done
postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
PATH=$PATH:$postgres
need_live_disk fio java javac mkfs.ext4 setpriv postgres initdb pgbench
id postgres >/dev/null 2>&1 || skip "no user postgres, whom the server runs as"
parent=$(awk -F: '$2 == "memory" { print $3 }' /proc/self/cgroup)
[ -n "$parent" ] && [ -w "/sys/fs/cgroup/memory$parent/cgroup.procs" ] || skip "no memory cgroup (version 1)"
find_flashlab "$program"
size=2GiB
cd "$work"
# The server's user has to reach its data.
chmod 711 "$work"
mkdir files
cp "$live/Heap.java" .

# The class data and the libraries are in the page cache, and charged to this script, before a limit holds.
java -version >/dev/null 2>&1
attend javac -d classes Heap.java

group=/sys/fs/cgroup/memory$parent/flashlab-live-$$
mkdir "$group"

# page_to NAME PROFILE: both programs with their pages on this disk; appends lines to points.csv.
page_to() {
    start_server "sim:$2" --size $size --loop
    mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$disk"
    mount -t ext4 -o noatime "$disk" files
    local of
    for of in java postgres; do
        note "$of, paging to $1"
        attend python3 "$live/paging.py" drive "$of" --name "$1" --group "$group" --seconds "$seconds" --work "$work" \
            --to points.csv
    done
    umount files
    stop_server
}

note "sim:$ftl: measured as a live disk, for its model"
start_server "sim:$ftl" --size $size --no-data --loop
python3 "$live/paging.py" fio-jobs "$disk" >fit.fio
attend "${prefer[@]}" fio fit.fio --output-format=json --output=fit.json
stop_server
python3 "$live/paging.py" fit fit.json "$ftl" $size >model.toml
[ -z "$keep_model" ] || cp model.toml "$keep_model"

page_to "$hard_disk" "$hard_disk"
page_to zeus zeus
page_to "$ftl" "$ftl"
page_to "model of $ftl" ./model.toml

[ -z "$pictures" ] || mkdir -p "$pictures"
python3 "$live/paging.py" table points.csv fit.json "$ftl" ${csv:+--csv "$csv"} ${pictures:+--pictures "$pictures"}
load
