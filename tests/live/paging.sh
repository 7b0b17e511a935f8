#!/usr/bin/env bash
# Paging to live disks, as Figures 8 and 9 of El Maghraoui and others (Modeling and Simulating Flash based Solid-State
# Disks for Operating Systems, section 6.2.2).
#
#   tests/live/paging.sh [FLASHLAB] [--csv FILE] [--pictures DIR] [--ftl NAME] [--disk NAME] [--seconds N] [--keep-model FILE]
#
# Two programs have less and less memory (a memory cgroup below this script's own), and the live disk is the swap space:
# a Java program with a growing heap, and a PostgreSQL server under load. The disks are a hard disk of Ajwani's tables, the
# Zeus, a device with a translation layer, which was filled at random twice, and the throughput model that the script fits
# to that one: it measures the device, fits T = A + n B for the four classes, and serves that. Prints operations a second
# for each disk and memory, and how far the model is from the device that it was fitted to: live, and when the requests
# that the device was sent are replayed on both, which no load of this machine disturbs.
#
# Swap space is everybody's. Other programs keep their pages as long as the machine is not short of memory: the limit is
# the cgroup's. What waits for the disk is waited for with a limit; then the server is killed, and its IOs fail.
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
need_live_disk java javac mkswap swapon swapoff setpriv postgres initdb pgbench
id postgres >/dev/null 2>&1 || skip "no user postgres, whom the server runs as"
parent=$(awk -F: '$2 == "memory" { print $3 }' /proc/self/cgroup)
[ -n "$parent" ] && [ -w "/sys/fs/cgroup/memory$parent/cgroup.procs" ] || skip "no memory cgroup (version 1)"
find_flashlab "$program"
size=2GiB
cd "$work"
# The server's user has to reach its data.
chmod 711 "$work"
cp "$live/Heap.java" .

# The class data and the libraries are in the page cache, and charged to this script, before a limit holds.
java -version >/dev/null 2>&1
attend javac -d classes Heap.java

group=/sys/fs/cgroup/memory$parent/flashlab-live-$$
mkdir "$group"

# page_to NAME TARGET [OPTION...]: both programs with their swap space on this disk; appends lines to points.csv.
page_to() {
    local name=$1 of
    shift
    start_server "$@" --loop
    swap_on
    for of in java postgres; do
        note "$of, paging to $name"
        within 600 python3 "$live/paging.py" drive "$of" --name "$name" --group "$group" --seconds "$seconds" \
            --work "$work" --to points.csv
    done
    swap_off
    stop_server
}

# A device that is new has no garbage to collect: it would slow down while it is used.
"$flashlab" sim show "$ftl" | sed "s/^capacity = .*/capacity = \"$size\"/" >ftl.toml
"$flashlab" sim precondition ./ftl.toml --times 2 --output ftl.state >/dev/null
aged=sim:./ftl.toml@ftl.state
# In the device's own time: what the way to the live disk adds must not be in the model, to which it is added again.
python3 "$live/paging.py" plan >fit.toml
attend "$flashlab" sim run "$aged" --plan fit.toml --json >fit.json
python3 "$live/paging.py" fit fit.json "$ftl" $size >model.toml
[ -z "$keep_model" ] || cp model.toml "$keep_model"

page_to "$hard_disk" "sim:$hard_disk" --size $size
page_to zeus sim:zeus --size $size
page_to "$ftl" "$aged" --output record
page_to "model of $ftl" sim:./model.toml

note "the requests that sim:$ftl was sent, on both in their own time"
for depth in 1 4; do
    for of in "$aged" sim:./model.toml; do
        attend "$flashlab" sim run "$of" --trace record --as-fast-as-possible --depth $depth --json 2>/dev/null
    done
done >replayed.json

[ -z "$pictures" ] || mkdir -p "$pictures"
python3 "$live/paging.py" table points.csv fit.json replayed.json "$ftl" ${csv:+--csv "$csv"} ${pictures:+--pictures "$pictures"}
load
