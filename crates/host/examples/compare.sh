#!/bin/sh
# Compares flashlab's raw device loop with fio: 4 KiB random reads with O_DIRECT, alternating, and
# prints the ratio flashlab / fio of each round and the median ratios.
#
#     crates/host/examples/compare.sh FILE [ROUNDS [SECONDS]]
#
# FILE exists and is full of data. Needs fio, python3 and a release build of the example `compare`:
#     cargo build --release -p flashlab-host --example compare
set -eu
file=$1 rounds=${2:-5} seconds=${3:-5}
compare=${CARGO_TARGET_DIR:-target}/release/examples/compare

fio_figures() { # engine depth -> IOPS, mean, p50, p99 in ns
    fio --name=r --filename="$file" --rw=randread --bs=4k --direct=1 --ioengine="$1" --iodepth="$2" \
        --runtime="$seconds" --time_based --output-format=json --randrepeat=0 --norandommap --lat_percentiles=1 |
        python3 -c 'import json, sys
r = json.load(sys.stdin)["jobs"][0]["read"]
p = r["lat_ns"]["percentile"]
print(round(r["iops"]), round(r["lat_ns"]["mean"]), p["50.000000"], p["99.000000"])'
}

for case in "psync sync 1" "io_uring uring 1" "io_uring uring 32"; do
    set -- $case
    echo "== $2, depth $3: IOPS mean p50 p99 (ns)"
    for _ in $(seq "$rounds"); do
        a=$(fio_figures "$1" "$3")
        b=$("$compare" "$file" "$2" "$3" "$seconds")
        echo "$a $b"
    done | python3 -c 'import statistics, sys
rounds = [list(map(float, line.split())) for line in sys.stdin]
for r in rounds:
    print("  fio %8.0f %8.0f %8.0f %8.0f   flashlab %8.0f %8.0f %8.0f %8.0f" % tuple(r))
for name, i in (("IOPS", 0), ("mean", 1), ("p50", 2), ("p99", 3)):
    ratios = [r[4 + i] / r[i] for r in rounds]
    print("  %-4s flashlab / fio: median %.4f  (%.4f to %.4f)" % (name, statistics.median(ratios), min(ratios), max(ratios)))'
done
