use flashlab_analysis::inference::Finding;
use flashlab_base::Identity;

use super::*;

fn inference(findings: Vec<Finding>) -> Inference {
    let identity = Identity {
        target: "/dev/my disk".to_owned(),
        kind: "block device".to_owned(),
        logical_block: Some(Bytes(512)),
        ..Identity::default()
    };
    let target = identity.target.clone();
    Inference { findings, ..Inference::begun(&target, identity, Bytes::gib(1)) }
}

fn all_known(unit: Bytes, confidence: f64) -> Inference {
    let found = |parameter, value: u64| Finding::found(parameter, value, confidence, "measured");
    inference(vec![
        found(Parameter::EraseBlockSize, unit.0),
        found(Parameter::WritePageSize, 8192),
        found(Parameter::OpenBlocks, 5),
        found(Parameter::WriteSaturationSize, 65536),
        found(Parameter::MappingGranularity, 8192),
        found(Parameter::UsefulQueueDepth, 16),
    ])
}

fn commands(inference: &Inference) -> String {
    let advised = advice(inference, None);
    let given = advised.given.iter().map(|advice| advice.command.clone());
    let withheld = advised.withheld.iter().map(|one| {
        let measurement = one.measurement.as_deref().unwrap_or("nothing");
        format!("{}: withheld: {}; brought by {measurement}", one.subject, one.reason)
    });
    given.chain(withheld).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_known_becomes_commands() {
    insta::assert_snapshot!(commands(&all_known(Bytes::mib(4), 0.99)), @r"
sgdisk --set-alignment=8192 --new=1:0:0 '/dev/my disk'
mkfs.ext4 -b 4096 -E stride=2,stripe_width=1024 '/dev/my disk'
mkfs.f2fs -s 2 -z 1 '/dev/my disk'
mount -t f2fs -o active_logs=4 '/dev/my disk' DIRECTORY
dd if=FILE of='/dev/my disk' bs=65536 oflag=direct
fio --name=random --filename='/dev/my disk' --rw=randwrite --bs=8192 --direct=1
fio --name=reads --filename='/dev/my disk' --rw=randread --direct=1 --ioengine=io_uring --iodepth=16 --readonly
");
}

#[test]
fn units_that_are_no_powers_of_two_are_kept_whole() {
    insta::assert_snapshot!(commands(&all_known(Bytes::mib(3), 0.99)), @r"
sgdisk --set-alignment=6144 --new=1:0:0 '/dev/my disk'
mkfs.ext4 -b 4096 -E stride=2,stripe_width=768 '/dev/my disk'
mkfs.f2fs -s 3 -z 1 '/dev/my disk'
mount -t f2fs -o active_logs=4 '/dev/my disk' DIRECTORY
dd if=FILE of='/dev/my disk' bs=65536 oflag=direct
fio --name=random --filename='/dev/my disk' --rw=randwrite --bs=8192 --direct=1
fio --name=reads --filename='/dev/my disk' --rw=randread --direct=1 --ioengine=io_uring --iodepth=16 --readonly
");
}

#[test]
fn a_page_mapped_device_is_told_nothing_of_erase_blocks() {
    let mut known = all_known(Bytes::mib(128), 0.99);
    known.findings.push(Finding::found(Parameter::TranslationFamily, Family::Page, 0.99, "measured"));
    insta::assert_snapshot!(commands(&known), @r"
    sgdisk --set-alignment=2048 --new=1:0:0 '/dev/my disk'
    mkfs.ext4 -b 4096 '/dev/my disk'
    mkfs.f2fs '/dev/my disk'
    dd if=FILE of='/dev/my disk' bs=65536 oflag=direct
    fio --name=reads --filename='/dev/my disk' --rw=randread --direct=1 --ioengine=io_uring --iodepth=16 --readonly
    random writes: withheld: requests of 8 KiB cost the same at random offsets as in sequence only before garbage collection limits the device, and the probes did not make it steady; brought by flashlab bench '/dev/my disk' --state steady --only granularity
    ");
}

#[test]
fn no_command_is_advised_that_would_end_the_same_way() {
    let undetermined = inference(vec![Finding::undetermined(Parameter::WriteSaturationSize, "noise")]);
    let of = |subject: &str, write_budget| {
        let withheld = advice(&undetermined, write_budget).withheld;
        withheld.into_iter().find(|one| one.subject == subject).unwrap().measurement
    };
    // The capacity is 1 GiB, and an inference writes twice that at most.
    assert_eq!(of("sequential writes", Some(Bytes::gib(2))), None);
    let again = "flashlab infer '/dev/my disk' --only write_saturation_size --write";
    assert_eq!(of("sequential writes", Some(Bytes::gib(1))).as_deref(), Some(again));
    assert_eq!(of("sequential writes", None).as_deref(), Some(again));
    // It was never looked for.
    assert!(of("random writes", Some(Bytes::gib(2))).is_some());
}

#[test]
fn a_section_of_f2fs_fits_the_device() {
    let sections = |unit| {
        commands(&all_known(unit, 0.99)).lines().find(|line| line.contains("f2fs")).unwrap().to_owned()
    };
    insta::assert_snapshot!(sections(Bytes::mib(16)), @"mkfs.f2fs -s 8 -z 1 '/dev/my disk'");
    let withheld = advice(&all_known(Bytes::mib(32), 0.99), None).withheld;
    insta::assert_snapshot!(withheld[0].reason, @"the device has only 32 sections of 32 MiB, and f2fs needs 64 for its logs and for cleaning");
}

#[test]
fn advice_with_too_little_confidence_is_withheld() {
    // Each finding has enough confidence alone, and two together do not.
    insta::assert_snapshot!(commands(&all_known(Bytes::mib(4), 0.94)), @r"
    sgdisk --set-alignment=8192 --new=1:0:0 '/dev/my disk'
    mkfs.f2fs -s 2 -z 1 '/dev/my disk'
    dd if=FILE of='/dev/my disk' bs=65536 oflag=direct
    fio --name=random --filename='/dev/my disk' --rw=randwrite --bs=8192 --direct=1
    fio --name=reads --filename='/dev/my disk' --rw=randread --direct=1 --ioengine=io_uring --iodepth=16 --readonly
    ext4: withheld: write page with erase block: the confidence is 88 %, and advice needs 90 %; brought by flashlab infer '/dev/my disk' --only write_page_size,erase_block_size --write
    write streams: withheld: open blocks with erase block: the confidence is 88 %, and advice needs 90 %; brought by flashlab infer '/dev/my disk' --only open_blocks,erase_block_size --write
    ");
    assert!(advice(&all_known(Bytes::mib(4), 0.899), None).given.is_empty());
    assert!(advice(&inference(Vec::new()), None).given.is_empty());
}

#[test]
fn what_cannot_be_is_withheld() {
    let odd = inference(vec![
        Finding::found(Parameter::EraseBlockSize, Bytes(1000), 0.99, "measured"),
        Finding::found(Parameter::WritePageSize, Bytes(0), 0.99, "measured"),
        Finding::undetermined(Parameter::OpenBlocks, "noise"),
        Finding::not_identifiable(Parameter::UsefulQueueDepth, 0.99, "one at a time"),
    ]);
    insta::assert_snapshot!(commands(&odd), @r"
    partition alignment: withheld: an erase block of 1000 B is no multiple of the sector of 512 B; brought by nothing
    ext4: withheld: write page: 0 B; brought by nothing
    f2fs: withheld: sections of whole erase blocks of 1000 B would be as large as 250 MiB; brought by nothing
    write streams: withheld: open blocks: undetermined; brought by flashlab infer '/dev/my disk' --only open_blocks,erase_block_size --write
    sequential writes: withheld: write saturation: not looked for; brought by flashlab infer '/dev/my disk' --only write_saturation_size --write
    random writes: withheld: mapping granularity: not looked for; brought by flashlab infer '/dev/my disk' --only mapping_granularity --write
    queue depth: withheld: useful queue depth: not identifiable; brought by nothing
    ");
}

#[test]
fn no_measurement_is_advised_that_finds_nothing_in_a_disk_that_is_no_flash() {
    let undetermined = || Finding::undetermined(Parameter::UsefulQueueDepth, "seeks scatter");
    let advised = |not_flash: Option<&str>| {
        let disk = Inference { not_flash: not_flash.map(str::to_owned), ..inference(vec![undetermined()]) };
        let withheld = advice(&disk, None).withheld;
        withheld.into_iter().find(|one| one.subject == "queue depth").unwrap().measurement
    };
    assert!(advised(None).is_some_and(|command| command.contains("--only useful_queue_depth")));
    assert_eq!(advised(Some("The disk is not flash")), None);
}

#[test]
fn one_read_in_flight_is_no_advice_to_keep_several() {
    let found = inference(vec![Finding::found(Parameter::UsefulQueueDepth, 1, 0.99, "measured")]);
    let given = advice(&found, None).given;
    assert_eq!(given[0].advice, "send one read at a time: more in flight gain nothing");
}
