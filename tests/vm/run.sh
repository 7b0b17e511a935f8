#!/usr/bin/env bash
# flashlab on drives that a test may break: NVMe, SATA, USB, SD and virtio disks of a virtual machine.
#
#   tests/vm/run.sh [FLASHLAB]
#
# FLASHLAB is the program to check; a release build is made if it is not given. What is checked stands in
# inside.sh, which the machine runs as its only process. Neither root nor KVM is needed: qemu emulates
# the processor. Response times in there mean nothing, and nothing depends on them.
#
# qemu, busybox and a kernel are taken from the machine's own package sources, by apt-get's download mode
# into target/vm: nothing is installed, and nothing outside of that folder is changed. The kernel is the
# one of the release's backports, which is derived from those sources. The first time that is 125 MB.
#
# FLASHLAB_VM_INIT names another script of this folder for the machine, and FLASHLAB_VM_PROGRAMS programs that it needs.
#
# Prints a line for each check, `ok` or `FAILED`. Ends with 0 when all hold, or when there can be no
# machine here (it says `skipped` and why); with 1 otherwise.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin:/sbin

here=$PWD/tests/vm
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/vm
packages=$folder/packages
seconds_at_most=${FLASHLAB_VM_SECONDS:-600}

skip() { echo "skipped: $*"; exit 0; }
have() { command -v "$1" >/dev/null 2>&1; }

# apt-get and apt-cache with sources, lists and packages of our own.
apt_here() {
    "$1" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$folder/apt/sources" \
        -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" \
        -o Debug::NoLocking=true -o APT::Keep-Downloaded-Packages=true "${@:2}" >>"$folder/apt.log" 2>&1
}

# The machine's sources, and from those of its release the same for the release's backports.
derive_sources() {
    local release file
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mkdir -p "$folder"/apt/{sources,lists/partial,cache/archives/partial}
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -s "$file" ] || continue
        cp "$file" "$folder/apt/sources/machine-$(basename "$file")"
        sed -n "s/^\(deb .*[^ ]\) $release /\1 $release-backports /p" "$file"
    done >"$folder/apt/sources/backports.list"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -s "$file" ] || continue
        cp "$file" "$folder/apt/sources/machine-$(basename "$file")"
        awk -v release="$release" 'BEGIN { RS = ""; ORS = "\n\n" }
            $0 ~ "Suites:[^\n]*[ \t]" release "([ \t\n]|$)" {
                sub(/Suites:[^\n]*/, "Suites: " release "-backports"); print }' "$file"
    done >"$folder/apt/sources/backports.sources"
    apt_here apt-get update || true
}

sources_are_here() {
    [ -n "${derived:-}" ] || derive_sources
    derived=yes
}

# Unpacks a package, and what it needs that is not installed.
unpack_with_needs() {
    have apt-get && have dpkg-deb || skip "no $1, and no apt-get to download it with"
    sources_are_here
    apt_here apt-get clean || true
    apt_here apt-get install --yes --no-install-recommends --download-only "$1" ||
        skip "no $1, and it cannot be downloaded (see $folder/apt.log)"
    for package in "$folder"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$packages"; done
}

# Unpacks the kernel that a virtual machine can boot, with its modules but for the bulky ones.
unpack_kernel() {
    have apt-get && have dpkg-deb || skip "no apt-get to download a kernel with"
    sources_are_here
    local work=$folder/kernel-package release name
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    rm -rf "$work" && mkdir -p "$work" && cd "$work"
    apt_here apt-get download --target-release "$release-backports" linux-image-amd64 ||
        apt_here apt-get download linux-image-amd64 ||
        skip "no kernel package can be downloaded (see $folder/apt.log)"
    name=$(dpkg-deb -f linux-image-amd64_*.deb Depends | sed 's/[ ,(].*//')
    apt_here apt-get download --target-release "$release-backports" "$name" ||
        apt_here apt-get download "$name" || skip "the kernel cannot be downloaded (see $folder/apt.log)"
    rm -rf "$folder/kernel.new" && mkdir -p "$folder/kernel.new"
    dpkg-deb --fsys-tarfile "$name"_*.deb | tar -x -C "$folder/kernel.new" --exclude='*/drivers/net' \
        --exclude='*/drivers/gpu' --exclude='*/drivers/media' --exclude='*/sound' --exclude='*/kernel/net'
    cd - >/dev/null
    rm -rf "$work"
    mv "$folder/kernel.new" "$folder/kernel"
}

# The machine's qemu, or the unpacked one with the libraries that came with it.
qemu() {
    if have qemu-system-x86_64; then
        qemu-system-x86_64 "$@"
    else
        LD_LIBRARY_PATH=$packages/usr/lib/x86_64-linux-gnu:$packages/lib/x86_64-linux-gnu \
            QEMU_MODULE_DIR=$packages/usr/lib/x86_64-linux-gnu/qemu "$packages/usr/bin/qemu-system-x86_64" \
            -L "$packages/usr/share/qemu" -L "$packages/usr/share/seabios" "$@"
    fi
}

busybox_program() { command -v busybox || echo "$packages/bin/busybox"; }

# Copies a program into the machine, with the libraries that it loads.
put_program() {
    local library
    cp -L "$1" "$root/bin/$2"
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
}

# Copies a module into the machine, after those that it depends on.
put_module() {
    local file depends
    [ -e "$root/modules/$1.ko" ] && return
    file=$(find "$folder/kernel" -name "$1.ko*" -o -name "${1//_/-}.ko*" | head -n 1)
    [ -n "$file" ] || return 0 # It is built in.
    case $file in *.xz) xz -dc "$file" ;; *.zst) zstd -dc "$file" ;; *) cat "$file" ;; esac >"$root/modules/$1.ko"
    depends=$(tr '\0' '\n' <"$root/modules/$1.ko" | sed -n 's/^depends=//p' | tr , ' ')
    for depend in $depends; do put_module "$depend"; done
    echo "$1" >>"$root/modules/order"
}

make_initramfs() {
    root=$folder/root
    rm -rf "$root" && mkdir -p "$root"/{bin,etc,modules,proc,sys,dev,tmp,run}
    local program module
    put_program "$(busybox_program)" busybox
    put_program "$flashlab" flashlab
    for program in mkfs.ext4 e2fsck fio wipefs partx dmsetup; do
        have "$program" && put_program "$(command -v "$program")" "$program"
    done
    for module in nvme virtio_blk ahci sd_mod usb_storage xhci_pci sdhci_pci mmc_block dm_mod raid1 null_blk \
        ublk_drv crc32c_generic ext4; do
        put_module "$module"
    done
    for program in ${FLASHLAB_VM_PROGRAMS:-}; do put_program "$program" "$(basename "$program")"; done
    cp "$here/${FLASHLAB_VM_INIT:-inside.sh}" "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | "$(busybox_program)" cpio -o -H newc 2>/dev/null) | gzip -1 >"$folder/initramfs.gz"
}

# A new empty disk image, and the option that names it.
drive() {
    rm -f "$folder/$1.img"
    truncate -s 64M "$folder/$1.img"
    printf -- '-drive\nif=none,id=%s,file=%s,format=raw\n' "$1" "$folder/$1.img"
}

# What the drives are told to be here, inside.sh expects of flashlab.
boot() {
    local drives
    mapfile -t drives < <(for name in plain large parted formatted virtio sata usb card; do drive "$name"; done)
    qemu -machine q35 -accel tcg -cpu max -smp 2 -m 1024 -nodefaults -no-reboot -display none -serial stdio \
        -kernel "$(echo "$folder"/kernel/boot/vmlinuz-*)" -initrd "$folder/initramfs.gz" \
        -append "console=ttyS0 quiet panic=-1" "${drives[@]}" \
        -device nvme,serial=PLAIN-0001,drive=plain,smart_critical_warning=4 \
        -device nvme,id=large-blocks,serial=LARGE-0002 \
        -device nvme-ns,bus=large-blocks,drive=large,logical_block_size=4096,physical_block_size=4096 \
        -device nvme,serial=PARTED-0003,drive=parted -device nvme,serial=FORMATTED-0004,drive=formatted \
        -device virtio-blk-pci,serial=VIRTIO-0005,drive=virtio \
        -device ide-hd,bus=ide.0,drive=sata,serial=SATA-0006,model=A-SATA-DISK-WITH-A-LONG-NAME,ver=FW-1.2.3 \
        -device qemu-xhci -device usb-storage,serial=USB-0007,drive=usb \
        -device sdhci-pci -device sd-card,drive=card </dev/null
}

[ "$(uname -sm)" = "Linux x86_64" ] || skip "the machine that is emulated is x86-64 Linux, and this is not"
have xz || skip "no xz to unpack the kernel's modules with"
mkdir -p "$folder" "$packages"
[ -x "$packages/usr/bin/qemu-system-x86_64" ] || have qemu-system-x86_64 || unpack_with_needs qemu-system-x86
[ -x "$packages/bin/busybox" ] || have busybox || unpack_with_needs busybox-static
[ -d "$folder/kernel" ] || unpack_kernel
if [ $# -eq 0 ]; then
    cargo build --release
    flashlab=$(realpath "${CARGO_TARGET_DIR:-target}/release/flashlab")
else
    flashlab=$(realpath "$1")
fi

make_initramfs
export -f boot drive qemu have
export folder packages
status=0
timeout "$seconds_at_most" bash -c boot >"$folder/log" 2>&1 || status=$?
tr -d '\r' <"$folder/log" | sed -n '/^\(ok\|FAILED\|skipped\|    \)/p'
if ! tr -d '\r' <"$folder/log" | grep -qx 'end of the checks'; then
    tail -n 15 "$folder/log" | sed 's/^/    /'
    echo "FAILED: the machine did not get to the end within $seconds_at_most s (status $status; see $folder/log)"
    exit 1
fi
if grep -q '^FAILED' "$folder/log"; then
    echo "FAILED: $(grep -c '^FAILED' "$folder/log") checks (the whole story: $folder/log)"
    exit 1
fi
echo "ok: $(grep -c '^ok' "$folder/log") checks in a virtual machine with $(basename "$folder"/kernel/boot/vmlinuz-*)"
