#!/bin/busybox sh
# What the virtual machine of run.sh does: its one process. It tests that `flashlab devices` shows drives of
# every kind as they are; that each drive that is in use, or carries something, is refused and not written to;
# a drive that is taken away in the middle ends the measurement with an error; and what was
# measured until then can be resumed. And a simulated disk is served as a block device, whose server is killed.
#
# Prints `ok NAME`, `FAILED NAME` with what was seen indented beneath it, or `skipped NAME`.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /tmp
exec </dev/ttyS0 >/dev/ttyS0 2>&1

ok() { echo "ok $1"; }
failed() {
    echo "FAILED $1"
    shift
    printf '%s\n' "$@" | tail -n 40 | sed 's/^/    /'
}
equal() { if [ "$2" = "$3" ]; then ok "$1"; else failed "$1" "expected: $3" "found: $2"; fi; }

# Runs flashlab for at most 90 s; its exit code in $code, what it said in $said.
flash() {
    timeout -s KILL 90 flashlab "$@" </dev/null >/tmp/out 2>/tmp/err
    code=$?
    said=$(cat /tmp/out /tmp/err | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep -v '% left')
}
says() { case $said in *panicked*) return 1 ;; *"$1"*) return 0 ;; *) return 1 ;; esac; }

# ends NAME CODE WORDS...: how the last flashlab ended, and what it must have said.
ends() {
    local name=$1 expected=$2 words
    shift 2
    for words in "$@" ""; do
        if [ "$code" != "$expected" ] || ! says "$words"; then
            failed "$name" "expected: exit code $expected, and: $words" "found: exit code $code" "$said"
            return
        fi
    done
    ok "$name"
}

name_of() { basename "$(readlink -f "$1")"; }
sectors_written() { awk '{ print $7 }' "/sys/class/block/$(name_of "$1")/stat"; }

# refused NAME DEVICE FINDING...: consent or not, it is refused, for these reasons, and not written to.
refused() {
    local name=$1 device=$2 before after
    shift 2
    before=$(sectors_written "$device")
    flash bench "$device" --quick --destroy-data-on "$device" --output /tmp/refused
    after=$(sectors_written "$device")
    if [ "$before" != "$after" ]; then
        failed "$name" "sectors written before: $before, after: $after" "$said"
    elif [ -e /tmp/refused ]; then
        failed "$name" "a run's folder was made" "$said"
    else
        ends "$name" 3 "$@"
    fi
    rm -rf /tmp/refused
}

# told DEVICE KEY: what `flashlab devices --json`, as it was last run, says of it.
told() {
    awk -v path="\"$1\"," -v key="\"$2\":" '
        $1 == "\"path\":" { mine = $2 == path }
        mine && $1 == key { sub(/^[^:]*: /, ""); sub(/,$/, ""); gsub(/^"|"$/, ""); print; exit }' /tmp/devices
}
look() { flashlab devices --json >/tmp/devices; }
tells() { equal "$1 has the $2 $3" "$(told "$1" "$2")" "$3"; }
not_refused() { look; equal "$1" "$(told "$2" would_refuse)" false; }

measure() { # measure DEVICE FOLDER PLAN OPTIONS...
    local device=$1 folder=$2 plan=$3
    shift 3
    flash run "$plan" "$device" --destroy-data-on "$device" --repetitions 1 --output "$folder" "$@"
}

# Where the drives are: the kernel numbers them in the order in which they happen to answer.
find_drives() {
    for _ in $(seq 150); do
        PLAIN=$(nvme_drive PLAIN-0001) LARGE=$(nvme_drive LARGE-0002)
        PARTED=$(nvme_drive PARTED-0003) FORMATTED=$(nvme_drive FORMATTED-0004)
        SATA=$(scsi_drive /ata) USB=$(scsi_drive /usb)
        [ -b "$PLAIN" ] && [ -b "$LARGE" ] && [ -b "$PARTED" ] && [ -b "$FORMATTED" ] && [ -b "$SATA" ] &&
            [ -b "$USB" ] && [ -b /dev/vda ] && [ -b /dev/mmcblk0 ] && return
        sleep 0.1
    done
}
nvme_drive() { # by what the kernel read of its serial number
    local disk
    for disk in /sys/block/nvme*; do
        grep -qs "^$1 *$" "$disk/device/serial" && echo "/dev/$(basename "$disk")"
    done
}
scsi_drive() { # by what it is attached to
    local disk
    for disk in /sys/block/sd*; do
        case $(readlink -f "$disk") in *"$1"*) echo "/dev/$(basename "$disk")" ;; esac
    done
}

load_modules() {
    local module options
    for module in $(cat /modules/order); do
        case $module in null_blk) options="memory_backed=1 gb=1" ;; *) options= ;; esac
        # shellcheck disable=SC2086 # Each is an option of its own.
        insmod "/modules/$module.ko" $options || echo "    no module $module"
    done
    find_drives
    for drive in "$PLAIN" "$LARGE" "$PARTED" "$FORMATTED" "$SATA" "$USB" /dev/vda /dev/mmcblk0 /dev/nullb0; do
        [ -b "$drive" ] || failed "every drive is there" "no $drive" "$(ls /sys/block)"
    done
}

every_drive_is_told_as_it_is() {
    look
    tells "$PLAIN" serial PLAIN-0001
    tells "$LARGE" serial LARGE-0002
    tells "$PLAIN" logical_block 512B
    tells "$LARGE" logical_block 4KiB
    for device in "$PLAIN" "$LARGE" "$PARTED" "$FORMATTED"; do
        tells "$device" transport nvme
        # The kernel's own reading of the same page.
        tells "$device" model "$(sed 's/ *$//' "/sys/block/$(name_of "$device")/device/model")"
        tells "$device" firmware "$(sed 's/ *$//' "/sys/block/$(name_of "$device")/device/firmware_rev")"
    done
    tells $PLAIN capacity 64MiB
    tells $PLAIN critical_warning 0x04
    tells $LARGE critical_warning 0x00
    tells $PLAIN temperature_celsius 50
    tells /dev/vda serial VIRTIO-0005
    tells /dev/vda transport virtio
    tells $SATA serial SATA-0006
    tells $SATA model A-SATA-DISK-WITH-A-LONG-NAME
    tells $SATA firmware FW-1.2.3
    tells $SATA transport sata
    tells $USB serial USB-0007
    tells $USB transport usb
    tells /dev/mmcblk0 transport mmc
    tells /dev/nullb0 transport memory
}

the_health_log_counts_what_is_written() {
    look
    local before after
    before=$(told $PLAIN data_written_bytes)
    dd if=/dev/zero of=$PLAIN bs=1M count=50 2>/dev/null
    sync
    look
    after=$(told $PLAIN data_written_bytes)
    # 50 MiB, in units of 512000 bytes.
    written=$(((after - before) / 1000000))
    if [ $written -ge 51 ] && [ $written -le 53 ]; then
        ok "the health log counts what is written"
    else
        failed "the health log counts what is written" "from $before to $after bytes after 52.4 million"
    fi
}

nobody_without_rights_is_let_in() {
    chmod 600 $PLAIN
    chmod 777 /tmp
    printf 'root::0:0::/:/bin/sh\nnobody::65534:65534::/:/bin/sh\n' >/etc/passwd
    said=$(su nobody -c 'flashlab devices --json' 2>&1 >/tmp/devices)
    code=$?
    ends "a user without rights may list the devices" 0
    tells $PLAIN serial PLAIN-0001
    tells $PLAIN capacity 64MiB
    tells $PLAIN health null
    equal "what may not be read is refused" "$(told $PLAIN would_refuse)" true
}

without_consent_nothing_is_written() {
    before=$(sectors_written $PLAIN)
    flash bench $PLAIN --quick --output /tmp/refused
    ends "no consent, no measurement" 3 PLAIN-0001 --destroy-data-on
    flash bench $PLAIN --quick --destroy-data-on $LARGE --output /tmp/refused
    ends "consent for another drive is none" 3 $PLAIN $LARGE
    equal "nothing was written without consent" "$(sectors_written $PLAIN)" "$before"
}

a_partitioned_drive_is_refused() {
    # A table with one partition of Linux's kind, of 31 MiB at 1 MiB.
    { dd if=/dev/zero bs=446 count=1; printf '\0\0\2\0\203\0\2\0\0\10\0\0\0\370\0\0'
        dd if=/dev/zero bs=48 count=1; printf '\125\252'; } 2>/dev/null | dd of=$PARTED 2>/dev/null
    sync
    blockdev --rereadpt $PARTED
    sleep 1
    refused "a drive with a partition is refused" $PARTED "partitions ${PARTED#/dev/}p1" "MBR partition table"
    not_refused "a partition that nobody uses is not" ${PARTED}p1
    mkfs.ext4 -q ${PARTED}p1
    mkdir -p /tmp/mounted
    mount -t ext4 -o ro ${PARTED}p1 /tmp/mounted
    refused "a drive is refused while its partition is mounted" $PARTED "${PARTED}p1 is mounted on /tmp/mounted"
    refused "and so is the partition" ${PARTED}p1 "${PARTED}p1 is mounted on /tmp/mounted"
    umount /tmp/mounted
    wipefs -q --all $PARTED && partx -d $PARTED
    not_refused "what the refusal advises helps: wipefs and partx" $PARTED
}

a_mounted_drive_is_refused_by_every_name() {
    mkfs.ext4 -q $FORMATTED
    refused "a drive with a file system is refused" $FORMATTED "a signature: ext2, ext3 or ext4"
    mkdir -p /dev/disk/by-id
    ln -s "$FORMATTED" /dev/disk/by-id/nvme-QEMU_FORMATTED-0004
    mount -t ext4 -o ro $FORMATTED /tmp/mounted
    refused "a mounted drive is refused" $FORMATTED "$FORMATTED is mounted on /tmp/mounted"
    refused "by its link by-id too" /dev/disk/by-id/nvme-QEMU_FORMATTED-0004 "$FORMATTED is mounted"
    # Where neither the mount nor a signature is to be seen, the kernel still holds the drive.
    wipefs -q --all --force $FORMATTED
    export FORMATTED
    said=$(unshare -m sh -c 'umount /tmp/mounted; flashlab bench $FORMATTED --quick --output /tmp/refused \
        --destroy-data-on $FORMATTED' 2>&1)
    code=$?
    ends "also where the mount is not to be seen" 3 "held exclusively"
    umount /tmp/mounted
    not_refused "what the refusal advises helps: wipefs" $FORMATTED
}

what_others_are_built_upon_is_refused() {
    if [ ! -e /bin/dmsetup ]; then
        echo "skipped the device mapper: no dmsetup on the machine that made this one"
        return
    fi
    echo "0 65536 linear $LARGE 0" | dmsetup --noudevsync create -u LVM-abc volume
    refused "a member of a volume is refused" $LARGE "$LARGE is a part of /dev/dm-0 (device mapper, LVM)"
    not_refused "the volume itself is not" /dev/dm-0
    tells /dev/dm-0 capacity 32MiB
    tells /dev/dm-0 logical_block 4KiB
    tells /dev/dm-0 serial LARGE-0002
    mkfs.ext4 -q /dev/dm-0
    mount -t ext4 -o ro /dev/dm-0 /tmp/mounted
    refused "a mounted volume is refused" /dev/dm-0 "/dev/dm-0 is mounted on /tmp/mounted"
    umount /tmp/mounted
    wipefs -q --all /dev/dm-0
}

a_member_of_an_md_array_is_refused() {
    # By sysfs, as mdadm would: a mirror without a superblock, and without a resync that writes.
    echo md_mirror >/sys/module/md_mod/parameters/new_array
    cd /sys/block/md_mirror/md || return
    echo none >metadata_version
    echo raid1 >level
    echo 2 >raid_disks
    cat /sys/block/vda/dev >new_dev
    cat /sys/block/${FORMATTED#/dev/}/dev >new_dev
    echo 32768 >component_size
    echo 0 >dev-vda/slot
    echo 1 >dev-${FORMATTED#/dev/}/slot
    echo 32768 >dev-vda/size
    echo 32768 >dev-${FORMATTED#/dev/}/size
    echo none >resync_start
    echo active >array_state
    cd /
    equal "an md array runs" "$(sed -n 's/^md_mirror : \(active raid1\).*/\1/p' /proc/mdstat)" "active raid1"
    refused "a member of an md array is refused" /dev/vda "/dev/vda is a part of /dev/md_mirror (md raid1)"
    refused "and the other" $FORMATTED "$FORMATTED is a part of /dev/md_mirror (md raid1)"
    not_refused "the array itself is not" /dev/md_mirror
    echo clear >/sys/block/md_mirror/md/array_state
    not_refused "a member that was set free is not" /dev/vda
}

swap_space_is_refused() {
    mkswap /dev/nullb0 >/dev/null
    swapon /dev/nullb0
    refused "swap space is refused" /dev/nullb0 "in use as swap space"
    swapoff /dev/nullb0
    dd if=/dev/zero of=/dev/nullb0 bs=4k count=1 2>/dev/null
    sync
}

a_drive_that_a_program_holds_is_refused() {
    # A measurement holds its drive for itself.
    flashlab run /tmp/writes.toml $PLAIN --destroy-data-on $PLAIN --repetitions 1 \
        --output /tmp/holds >/tmp/holder 2>&1 &
    local holder=$!
    until_measuring /tmp/holds
    flash run /tmp/writes.toml $PLAIN --destroy-data-on $PLAIN --output /tmp/second
    ends "a drive that is being measured is refused" 3 "held exclusively"
    kill -INT $holder
    wait $holder
    rm -rf /tmp/holds
}

a_drive_is_measured_to_the_end() {
    [ -e /bin/dmsetup ] && dmsetup --noudevsync remove volume
    flash bench $LARGE --quick --destroy-data-on $LARGE --json --output /tmp/whole --repetitions 1 \
        --only granularity --state none
    ends "a drive with blocks of 4 KiB is measured to the end" 0 '"serial": "LARGE-0002"' granularity
    [ -s /tmp/whole/report.html ] && ok "and there is a report" || failed "and there is a report" "$(ls /tmp/whole)"
}

write_plans() {
    printf 'version = 1\nname = "reads"\nmode = "read"\nlocation = "random"\nio_size = "4KiB"\nduration = "8s"\n' \
        >/tmp/reads.toml
    sed 's/reads/writes/; s/"read"/"write"/' /tmp/reads.toml >/tmp/writes.toml
    { cat /tmp/reads.toml; echo 'queue_depth = 16'; } >/tmp/deep-reads.toml
    { cat /tmp/writes.toml; echo 'queue_depth = 16'; } >/tmp/deep-writes.toml
}

# Waits until the run in this folder does IOs.
until_measuring() {
    for _ in $(seq 200); do
        [ -e "$1"/samples/run-00001-00000.parquet ] && break
        sleep 0.1
    done
    sleep 1
}

# in_the_middle PLAN DEVICE COMMAND: measures, and does something to the drive meanwhile.
in_the_middle() {
    rm -rf /tmp/middle
    (until_measuring /tmp/middle; eval "$3") >/tmp/did 2>&1 &
    measure "$2" /tmp/middle "/tmp/$1.toml"
    wait $!
}

# taken_away NAME PLAN DEVICE COMMAND: a drive that is taken away is told to be gone, and all is kept.
taken_away() {
    echo "step $1 at $(cut -d. -f1 /proc/uptime) s"
    in_the_middle "$2" "$3" "$4"
    ends "$1: told, with exit code 1" 1 "$3" "No such device" "resume with: flashlab resume /tmp/middle"
    flash report /tmp/middle
    ends "$1: what was measured is shown" 0
    flash resume /tmp/middle --destroy-data-on "$3"
    ends "$1: no going on without it" 2 "$3" "check the path"
}

drives_that_are_taken_away() {
    local plan place nvme
    nvme=$(basename "$(readlink -f /sys/block/${PLAIN#/dev/}/device/device)")
    for plan in reads writes deep-reads deep-writes; do
        taken_away "an NVMe drive taken away from $plan" $plan $PLAIN "echo 1 >/sys/bus/pci/devices/$nvme/remove"
        echo 1 >/sys/bus/pci/rescan
        for _ in 1 2 3 4 5 6 7 8 9 10; do [ -b $PLAIN ] || sleep 1; done
    done
    flash resume /tmp/middle
    ends "a drive that is back needs consent again" 3 --destroy-data-on
    echo "step resume at $(cut -d. -f1 /proc/uptime) s"
    flash resume /tmp/middle --destroy-data-on $PLAIN
    ends "with consent the measurement goes on" 0
    place=$(readlink -f /sys/block/${USB#/dev/}/device)
    taken_away "a USB drive taken away" reads $USB "echo 1 >$(echo "$place" | sed 's#/[^/]*/host.*##')/remove"
    place=$(basename "$(readlink -f /sys/block/vda/device/..)")
    taken_away "a virtio drive taken away" writes /dev/vda "echo 1 >/sys/bus/pci/devices/$place/remove"
    place=$(basename "$(readlink -f /sys/block/mmcblk0/device/../../..)")
    taken_away "an SD card taken away" writes /dev/mmcblk0 "echo 1 >/sys/bus/pci/devices/$place/remove"
}

a_controller_that_is_reset_is_waited_for() {
    in_the_middle deep-reads $PLAIN 'echo 1 >"$(readlink -f /sys/block/${PLAIN#/dev/}/device)/reset_controller"'
    ends "a controller that is reset is waited for" 0
}

a_drive_that_fails_ends_the_run() {
    [ -e /bin/dmsetup ] || return
    in_the_middle reads /dev/dm-0 'dmsetup --noudevsync suspend volume
        echo "0 65536 error" | dmsetup --noudevsync reload volume; dmsetup --noudevsync resume volume'
    ends "a drive that fails every IO ends the run" 1 /dev/dm-0 "Input/output error" "kernel's log"
}

# serve OPTIONS...: a server in the background; sets $server, $disk and $control when it is ready.
serve() {
    rm -f /tmp/ready
    flashlab serve "$@" --json >/tmp/ready 2>/tmp/served &
    server=$!
    for _ in $(seq 600); do
        [ -s /tmp/ready ] && break
        kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    disk=$(sed -n 's/.*"path":"\([^"]*\)".*/\1/p' /tmp/ready)
    control=$(sed -n 's/.*"control":"\([^"]*\)".*/\1/p' /tmp/ready)
    said=$(cat /tmp/served)
}
# served CLASS FIELD: what the server counted of a class of IOs.
served() {
    flashlab live status "$control" --json |
        awk -v class="\"$1\"," -v field="\"$2\":" '
            $1 == "\"class\":" { mine = $2 == class }
            mine && $1 == field { sub(/,$/, "", $2); print $2; exit }'
}
# does NAME COMMAND...: the command must succeed.
does() {
    local name=$1 words
    shift
    if words=$("$@" 2>&1); then ok "$name"; else failed "$name" "$*" "$words" "$(cat /tmp/served)" "$(dmesg | tail -n 5)"; fi
}

a_simulated_disk_is_served_through_ublk() {
    if [ ! -e /dev/ublk-control ]; then
        echo "skipped ublk: this kernel has none"
        return
    fi
    serve sim:uflip-mtron --size 128MiB --ublk --backing /tmp/disk.img
    if [ ! -b "$disk" ]; then
        failed "a simulated disk is a block device" "$said"
        return
    fi
    ok "a simulated disk is a block device"
    equal "it has the size that was asked for" "$(blockdev --getsize64 "$disk")" 134217728
    equal "and says that it has a write cache" "$(cat "/sys/block/$(name_of "$disk")/queue/write_cache")" "write back"
    mkdir -p /tmp/mounted
    does "a file system is made on it" mkfs.ext4 -q "$disk"
    does "and mounted" mount -t ext4 "$disk" /tmp/mounted
    dd if=/dev/urandom of=/tmp/data bs=1M count=24 2>/dev/null
    cp /tmp/data /tmp/mounted/data
    sync
    umount /tmp/mounted
    does "it is whole" e2fsck -fn "$disk"
    mount -t ext4 "$disk" /tmp/mounted
    does "what was written is there" cmp /tmp/data /tmp/mounted/data
    rm /tmp/mounted/data
    sync
    local before
    before=$(served discard ios)
    does "fstrim goes through" fstrim /tmp/mounted
    if [ "$(served discard ios)" -gt "$before" ]; then ok "and reaches the simulator"; else
        failed "and reaches the simulator" "discards before: $before" "$(served discard ios)"
    fi
    umount /tmp/mounted
    [ "$(served flush ios)" -gt 0 ] && ok "flushes reach the simulator" || failed "flushes reach the simulator"
    if [ -e /bin/fio ]; then
        does "fio reads back what it wrote" fio --name=a --filename="$disk" --direct=1 --rw=randrw --bs=4k-64k \
            --ioengine=io_uring --iodepth=16 --size=64m --io_size=48m --verify=crc32c --verify_fatal=1 --fallocate=none
    else
        echo "skipped fio: it is not on the machine that made this one"
    fi
    a_killed_server_is_taken_over
    kill -TERM $server
    wait $server
    equal "SIGTERM ends it well" $? 0
    sleep 1
    [ -e "$disk" ] && failed "and the block device is gone" "$(ls /dev/ublk*)" || ok "and the block device is gone"
}

a_killed_server_is_taken_over() {
    local number writer
    number=${disk#/dev/ublkb}
    # Writes are under way when the server is killed, and wait for the next one.
    dd if=/tmp/data of="$disk" bs=64k oflag=direct 2>/tmp/writer &
    writer=$!
    sleep 0.3
    kill -KILL $server
    wait $server 2>/dev/null
    kill -0 $writer 2>/dev/null && ok "writes wait for a server" || failed "writes wait for a server" "$(cat /tmp/writer)"
    serve sim:uflip-mtron --size 128MiB --ublk --recover "$number" --backing /tmp/disk.img
    equal "a killed server's device is taken over" "$disk" "/dev/ublkb$number"
    wait $writer
    equal "and no write failed" $? 0
    sync
    echo 3 >/proc/sys/vm/drop_caches
    dd if="$disk" of=/tmp/back bs=1M count=24 iflag=direct 2>/dev/null
    does "what was written over the kill is there" cmp /tmp/data /tmp/back
}

write_plans
for step in load_modules every_drive_is_told_as_it_is the_health_log_counts_what_is_written \
    nobody_without_rights_is_let_in without_consent_nothing_is_written a_partitioned_drive_is_refused \
    a_mounted_drive_is_refused_by_every_name what_others_are_built_upon_is_refused \
    a_member_of_an_md_array_is_refused swap_space_is_refused a_drive_that_a_program_holds_is_refused \
    a_drive_that_fails_ends_the_run a_controller_that_is_reset_is_waited_for drives_that_are_taken_away \
    a_drive_is_measured_to_the_end a_simulated_disk_is_served_through_ublk; do
    echo "step $step at $(cut -d. -f1 /proc/uptime) s"
    $step
done
dmesg | grep -q 'Oops\|BUG:' && failed "the kernel is well" "$(dmesg | tail -n 30)"
echo "    $(cut -d. -f1 /proc/uptime) s after the machine was started"
echo "end of the checks"
poweroff -f
