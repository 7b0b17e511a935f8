#!/bin/busybox sh
# What the virtual machine of ublk_speed.sh does: its one process. Prints indented figures.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /tmp
exec </dev/ttyS0 >/dev/ttyS0 2>&1

for module in $(cat /modules/order); do insmod "/modules/$module.ko" 2>/dev/null; done

# profile NANOSECONDS: a device that takes the same time for every IO.
profile() {
    printf 'version = 2\nname = "constant"\ntitle = "constant"\nsource = "none"\nfit = "exact"\ncapacity = "128MiB"\n'
    for class in sequential_read random_read sequential_write random_write; do
        printf '[throughput.%s]\na = "%sns"\nb_us_per_kb = 0\n' $class "$1"
    done
}

# ours NANOSECONDS, or theirs: starts a server; its disk in $disk.
ours() {
    profile "$1" >/tmp/constant.toml
    start flashlab serve sim:/tmp/constant.toml --ublk
}
theirs() { start plain_ublk 128 2; }
start() {
    : >/tmp/ready
    "$@" >/tmp/ready 2>/tmp/told &
    server=$!
    tries=0
    until grep -q ublkb /tmp/ready || [ $tries -gt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
    disk=$(sed 's/ .*//' /tmp/ready)
    [ -b "$disk" ] || { echo "FAILED to start $1"; tail -n 5 /tmp/told | sed 's/^/    /'; }
}
stop() { kill -TERM $server; wait $server 2>/dev/null; sleep 0.3; }

# run MODE DEPTH: IOPS, median and 99th percentile in us.
run() {
    fio --name=a --filename="$disk" --direct=1 --rw=$1 --bs=4k --iodepth=$2 --ioengine=io_uring --size=128m --time_based \
        --runtime=3 --norandommap --lat_percentiles=1 --percentile_list=50:99 --output-format=terse --terse-version=3 |
        awk -F';' -v write=$([ $1 = randwrite ] && echo 41 || echo 0) '{
            split($(18 + write), middle, "="); split($(19 + write), tail, "=");
            print $(8 + write), middle[2], tail[2] }'
}

echo "    ceiling: IOPS without delay, ours / plain C, in turns"
for mode in randread randwrite; do
    for depth in 1 32; do
        for round in 1 2 3; do
            ours 0; set -- $(run $mode $depth); stop; mine=$1
            theirs; set -- $(run $mode $depth); stop
            echo "    $mode depth $depth: $(awk -v a="$mine" -v b="$1" 'BEGIN { printf "%.2f (%d / %d)", a / b, a, b }')"
        done
    done
done
echo "    precision: median and 99th percentile / asked"
for response in 2000 10000; do
    ours ${response}000
    for depth in 1 8; do
        for mode in randread randwrite; do
            set -- $(run $mode $depth)
            echo "    $response us depth $depth $mode: $(awk -v a="$2" -v b="$3" -v asked=$((response * depth)) \
                'BEGIN { printf "%.3f %.3f", a / asked, b / asked }')"
        done
    done
    stop
done
echo "ok the figures were taken"
echo "end of the checks"
poweroff -f
