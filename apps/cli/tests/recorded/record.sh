#!/usr/bin/env bash
# Records the inferences that the test `recorded_inferences` replays, again: after a change of what a probe asks for.
# Run it in this folder: ./record.sh FLASHLAB, where FLASHLAB is the program. The live cases need FUSE and, for the loop
# device, root; the last case is a file on the disk of this folder's machine. All of these only read, but for the one over FUSE.
set -euo pipefail
flashlab=$(realpath "$1")
cases=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp ./*.toml "$work"
cd "$work"

# Pictures and reports are not compared, and are most of a folder.
pack() {
    rm -f "$1"/report.* "$1"/under-way.json
    python3 - "$1/inference.json" "$1/checkpoint.json" <<'PYTHON'
import json, sys
for path in sys.argv[1:]:
    document = json.load(open(path))
    document.pop("crc32", None)
    for finding in document.get("findings", []) + document.get("provisional", []):
        finding["picture"] = None
    json.dump(document, open(path, "w"))
PYTHON
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "$1" | gzip -9n >"$cases/$1.tar.gz"
}

# With the live device at disk/disk, runs a command and packs the case of this name.
live() {
    mkdir disk
    "$flashlab" serve sim:./page-map.toml --fuse disk --daemon --control control >/dev/null 2>&1
    "${@:2}" || true
    "$flashlab" live stop control
    rmdir disk
    pack "$1"
}

over_fuse() {
    "$flashlab" infer disk/disk --write --overwrite-file --output live-fuse "$@" >/dev/null 2>&1
}

over_loop() {
    local device
    device=$(losetup --find --show --direct-io=on disk/disk)
    "$flashlab" infer "$device" --output live-loop "$@" >/dev/null 2>&1 || true
    losetup --detach "$device"
}

"$flashlab" infer sim:./page-map.toml --time-limit 10s --output page-map >/dev/null 2>&1
pack page-map
"$flashlab" infer sim:./log-blocks.toml --time-limit 10s --output log-blocks >/dev/null 2>&1
pack log-blocks
live live-fuse over_fuse --only useful_queue_depth --time-limit 20s
live live-loop over_loop --only useful_queue_depth --time-limit 10s
"$flashlab" infer --directory . --size 64MiB --only useful_queue_depth --time-limit 10s --output disk >/dev/null 2>&1
pack disk
ls -l "$cases"/*.tar.gz
