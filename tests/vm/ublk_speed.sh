#!/usr/bin/env bash
# ublk's precision, and its ceiling beside a plain C server (plain_ublk.c), in the virtual machine of run.sh.
#
#   tests/vm/ublk_speed.sh [FLASHLAB]
#
# The processor is emulated: times mean little there, and the ratio of two servers that take turns a little more.
# It needs what run.sh needs, and a C compiler.
set -euo pipefail
cd "$(dirname "$0")"
command -v cc >/dev/null || { echo "skipped: there is no C compiler for plain_ublk.c"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O2 -static -o "$folder/plain_ublk" plain_ublk.c -lpthread
FLASHLAB_VM_INIT=ublk_speed_inside.sh FLASHLAB_VM_PROGRAMS=$folder/plain_ublk ./run.sh "$@"
