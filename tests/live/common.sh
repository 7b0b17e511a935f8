# What the validations on live disks share. Sourced: sets `flashlab` (the program), `work` (a folder of our own) and
# the clean-up. Everything that is made is taken down when the script ends, also by SIGINT and SIGTERM.
#
# A disk has its own electronics and does not wait for a CPU. So the server, and the client where it is the disk
# that is measured, run with real-time priority where that is allowed (`prefer`).

PATH=$PATH:/usr/sbin:/sbin
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
live=$root/tests/live
server='' disk='' control='' work='' group='' fuse_pages=''
attended='' swap='' prefer=()

skip() { echo "skipped: $*"; exit 0; }
have() { command -v "$1" >/dev/null 2>&1; }
note() { echo "$*" >&2; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# need_live_disk PROGRAM...: root, FUSE, loop devices and these programs.
need_live_disk() {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    [ -c /dev/fuse ] || skip "no /dev/fuse"
    [ -c /dev/loop-control ] || skip "no loop devices"
    local program
    for program in losetup mount python3 pkill ps "$@"; do have "$program" || skip "no program $program"; done
}

# find_flashlab [PROGRAM]: the program to check; a release build is made if it is not given.
find_flashlab() {
    flashlab=${1:-}
    if [ -z "$flashlab" ]; then
        (cd "$root" && cargo build --release --quiet --package flashlab) || fail "flashlab cannot be built"
        flashlab=${CARGO_TARGET_DIR:-$root/target}/release/flashlab
    fi
    flashlab=$(realpath "$flashlab")
    [ -x "$flashlab" ] || fail "there is no program $flashlab"
    have chrt && chrt --fifo 10 true 2>/dev/null && prefer=(chrt --fifo 10)
    work=$(mktemp -d /tmp/flashlab-live.XXXXXX)
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

clean_up() {
    set +e
    trap '' INT TERM HUP
    # What it runs, if it is a function of ours, and then it.
    [ -z "$attended" ] || { pkill -P "$attended"; end "$attended"; }
    restore_fuse_pages
    end_group
    swap_off
    ! mountpoint -q "$work/files" || umount "$work/files" || umount --lazy "$work/files"
    stop_server
    rm -rf "$work"
} 2>/dev/null

# start_server ARGUMENTS...: serves a disk, and sets `server` (its process), `disk` and `control`.
start_server() {
    : >"$work/ready"
    # Without the limits and signals of this script: it must outlive what uses its disk.
    setsid "${prefer[@]}" "$flashlab" serve "$@" --json >"$work/ready" 2>"$work/server.err" &
    server=$!
    local tries
    for tries in $(seq 300); do
        [ -s "$work/ready" ] && break
        kill -0 "$server" 2>/dev/null || { server=''; skip_or_fail; }
        sleep 0.1
    done
    [ -s "$work/ready" ] || fail "the server was not ready after 30 s"
    disk=$(field "$work/ready" path)
    control=$(field "$work/ready" control)
}

# No room or no right for FUSE and loop devices is the machine's affair, everything else ours.
skip_or_fail() {
    grep -qi 'permission\|not permitted\|no free loop' "$work/server.err" && skip "$(tail -1 "$work/server.err")"
    fail "the server ended: $(cat "$work/server.err")"
}

stop_server() {
    [ -n "$server" ] || return 0
    end "$server"
    server=''
}

# field FILE KEY...: a value of a JSON document.
field() {
    python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2:]: value = value[key]
print(value)' "$@"
}

status() { "$flashlab" live status "$control" --json; }

# raise_fuse_pages PAGES: how many pages a FUSE request may have, for mounts that follow; restored at the end.
raise_fuse_pages() {
    local limit=/proc/sys/fs/fuse/max_pages_limit
    [ -w "$limit" ] || return 1
    fuse_pages=$(cat "$limit")
    [ "$fuse_pages" -ge "$1" ] && { fuse_pages=''; return 0; }
    echo "$1" >"$limit"
}

restore_fuse_pages() {
    [ -z "$fuse_pages" ] || echo "$fuse_pages" >/proc/sys/fs/fuse/max_pages_limit
    fuse_pages=''
}

# end PROCESS: asks it to end, and after 20 s makes it.
end() {
    kill "$1" 2>/dev/null || return 0
    local tries
    for tries in $(seq 200); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$1"
}

# attend COMMAND...: runs it to its end. A signal to this script ends it at once, and not when the command is done.
attend() {
    local result=0
    "$@" &
    attended=$!
    wait "$attended" || result=$?
    attended=''
    return "$result"
}

# within SECONDS COMMAND...: as attend, for what waits for the disk. When it takes longer, what hangs is shown and the
# server is killed: then all IOs to its disk fail, and nothing waits for it any more.
within() {
    local seconds=$1 result=0 tries
    shift
    "$@" &
    attended=$!
    for tries in $(seq $((seconds * 5))); do
        kill -0 "$attended" 2>/dev/null || break
        sleep 0.2
    done
    if kill -0 "$attended" 2>/dev/null; then
        stuck
        kill -KILL "$server" "$attended"
        server=''
        fail "$1 was not done after $seconds s"
    fi
    wait "$attended" || result=$?
    attended=''
    return "$result"
}

# stuck: where in the kernel those are who wait there and cannot be killed.
stuck() {
    local process
    for process in $(ps -eLo state=,tid= | awk '$1 == "D" { print $2 }'); do
        note "--- $(cat "/proc/$process/comm"), $process, waits in the kernel:"
        head -12 "/proc/$process/stack" >&2
    done
}

# swap_on: the live disk is swap space.
swap_on() {
    mkswap "$disk" >/dev/null
    swap=$disk
    within 30 swapon "$disk"
}

swap_off() {
    [ -n "$swap" ] || return 0
    local disk=$swap
    swap=''
    ! grep -q "^$disk " /proc/swaps || within 60 swapoff "$disk"
}

# Whatever still runs in our own cgroup ends, and then the cgroup.
end_group() {
    [ -n "$group" ] || return 0
    local tries process
    for tries in $(seq 100); do
        rmdir "$group" && break
        while read -r process; do kill -KILL "$process"; done <"$group/cgroup.procs"
        sleep 0.1
    done
    group=''
}

# load: how busy the machine is, as the table's last line.
load() { echo "load of this machine: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors, $(date -u +%FT%RZ)"; }
