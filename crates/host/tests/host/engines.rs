//! The engines on real files and devices. What is written is read back, in any order, at any depth, on any
//! lane. Errors are in the completion.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::OpenOptions as File;
use std::ops::ControlFlow;
use std::thread;

use crate::support::{Directory, LoopDevice, Undo, run};
use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Arena, Buffer, Completion, Device, IoError, Operation, Request};
use flashlab_host::{
    HostError, IoEngine, OpenOptions, ScratchFile, consent_to_overwrite_file, inspect, open,
};

const ENGINES: [(IoEngine, u32); 4] =
    [(IoEngine::Synchronous, 1), (IoEngine::IoUring, 1), (IoEngine::IoUring, 32), (IoEngine::Threads, 8)];
const BLOCK: Bytes = Bytes::kib(4);

fn scratch(test: &str, size: Bytes) -> (Directory, ScratchFile) {
    let directory = Directory::new(test);
    let scratch =
        ScratchFile::create(&directory.0, size, Seed(1), &mut |_| ControlFlow::Continue(())).unwrap();
    (directory, scratch)
}

fn writable(scratch: &ScratchFile, engine: IoEngine, depth: u32) -> OpenOptions {
    OpenOptions { engine, depth, write: Some(scratch.consent()), ..OpenOptions::default() }
}

fn buffer() -> Buffer {
    Arena::buffers(1, BLOCK).remove(0)
}

fn request(tag: u64, operation: Operation, offset: u64, size: Bytes, buffer: Buffer) -> Request {
    Request { tag, operation, offset: Bytes(offset), size, buffer }
}

/// Serves one request.
fn serve(device: &mut dyn Device, request: Request) -> Completion {
    device.submit(request);
    device.wait(Nanos::MAX).expect("every request is answered")
}

/// Fills a block with its number and its version.
fn stamp(buffer: &mut [u8], block: u64, version: u64) {
    for word in buffer.chunks_exact_mut(16) {
        word[..8].copy_from_slice(&block.to_le_bytes());
        word[8..].copy_from_slice(&version.to_le_bytes());
    }
}

/// Writes and reads random blocks with the queue full, and checks every read against the last write
/// that was completed before it was submitted. Blocks with an IO in flight are left alone.
fn stress(device: &mut dyn Device, first: u64, blocks: u64, ios: u64, seed: Seed) {
    let depth = device.geometry().depth;
    let mut prng = Prng::new(seed);
    let mut buffers = Arena::buffers(depth as usize, BLOCK);
    let mut versions: HashMap<u64, u64> = HashMap::new();
    let mut in_flight: HashMap<u64, (Operation, u64)> = HashMap::new();
    let mut last = Nanos::ZERO;
    let mut submitted = 0;
    while submitted < ios || !in_flight.is_empty() {
        if submitted < ios
            && let Some(mut buffer) = buffers.pop()
        {
            let block = first + prng.below(blocks);
            let Entry::Vacant(vacant) = in_flight.entry(block) else {
                buffers.push(buffer);
                continue;
            };
            submitted += 1;
            let is_write = !versions.contains_key(&block) || prng.below(2) == 0;
            let operation = if is_write { Operation::Write } else { Operation::Read };
            let version = if is_write { submitted } else { versions[&block] };
            if is_write {
                stamp(&mut buffer, block, version);
            }
            vacant.insert((operation, version));
            device.submit(request(block, operation, block * BLOCK.0, BLOCK, buffer));
            continue;
        }
        let mut done = device.wait(Nanos::MAX).unwrap();
        assert_eq!(done.result, Ok(()), "seed {seed}");
        assert!(done.submitted <= done.completed && done.completed <= device.now());
        assert!(done.completed >= last, "completions come in the order of their stamps");
        last = done.completed;
        let (operation, version) = in_flight.remove(&done.tag).expect("a tag comes back once");
        if operation == Operation::Write {
            versions.insert(done.tag, version);
        } else {
            let mut expected = vec![0; BLOCK.0 as usize];
            stamp(&mut expected, done.tag, version);
            assert!(
                done.buffer[..] == expected[..],
                "block {} is not what was written, seed {seed}",
                done.tag
            );
        }
        done.buffer.fill(0xEE);
        buffers.push(done.buffer);
    }
    assert!(device.wait(Nanos::MAX).is_none());
}

#[test]
fn what_is_written_is_read_back_by_every_engine() {
    let (_directory, scratch) = scratch("read-back", Bytes::mib(4));
    for (index, (engine, depth)) in ENGINES.into_iter().enumerate() {
        let mut device = open(scratch.path(), &writable(&scratch, engine, depth)).unwrap();
        let geometry = device.geometry();
        assert_eq!((geometry.capacity, geometry.depth), (Bytes::mib(4), depth));
        assert!(BLOCK.is_multiple_of(geometry.block), "{geometry:?}");
        stress(&mut *device, 0, 1024, 4000, Seed(index as u64));
        assert_eq!(
            serve(&mut *device, request(u64::MAX, Operation::Flush, 0, Bytes::ZERO, buffer())).result,
            Ok(())
        );
    }
}

#[test]
fn lanes_serve_a_thread_each_on_one_clock() {
    let (_directory, scratch) = scratch("lanes", Bytes::mib(4));
    for (engine, depth) in ENGINES {
        let mut device = open(scratch.path(), &writable(&scratch, engine, depth)).unwrap();
        let before = device.now();
        let lanes = device.parallel().unwrap().lanes(4).unwrap();
        let threads: Vec<_> = lanes
            .into_iter()
            .enumerate()
            .map(|(index, mut lane)| {
                thread::spawn(move || {
                    lane.telemetry().unwrap().disturbance();
                    stress(&mut *lane, index as u64 * 256, 256, 500, Seed(index as u64));
                    assert!(
                        lane.telemetry()
                            .unwrap()
                            .disturbance()
                            .device_traffic
                            .is_none_or(|bytes| bytes > Bytes::ZERO)
                    );
                    lane.now()
                })
            })
            .collect();
        for thread in threads {
            let now = thread.join().unwrap();
            assert!(before <= now && now <= device.now());
        }
    }
}

#[test]
fn a_buffered_device_says_so_and_serves_the_same() {
    let (_directory, scratch) = scratch("buffered", Bytes::mib(1));
    for (engine, depth) in ENGINES {
        let options = OpenOptions {
            buffered: true,
            name: Some("mine".to_owned()),
            ..writable(&scratch, engine, depth)
        };
        let mut device = open(scratch.path(), &options).unwrap();
        let identity = device.identity();
        assert!(identity.engine.unwrap().contains("buffered"));
        assert_eq!(identity.target, "mine");
        stress(&mut *device, 0, 256, 1000, Seed(3));
    }
}

#[test]
fn a_file_in_memory_is_marked_as_such() {
    let directory = std::path::Path::new("/dev/shm");
    let Ok(scratch) = ScratchFile::create(directory, BLOCK, Seed(1), &mut |_| ControlFlow::Continue(()))
    else {
        flashlab_skip::skip(flashlab_skip::Need::Kernel, format_args!("no tmpfs at /dev/shm"));
        return;
    };
    let device = open(scratch.path(), &writable(&scratch, IoEngine::Synchronous, 1)).unwrap();
    let identity = device.identity();
    assert!(identity.engine.as_ref().unwrap().ends_with("in memory"), "{identity:?}");
    assert_eq!((identity.file_system.as_deref(), identity.backing_device), (Some("tmpfs"), None));
    let warnings = inspect(scratch.path()).unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("memory")), "{warnings:?}");
}

#[test]
fn impossible_requests_are_errors_of_the_io() {
    let directory = Directory::new("impossible");
    let path = directory.file("file", Bytes::mib(1));
    for (engine, depth) in ENGINES {
        let mut device = open(&path, &OpenOptions { engine, depth, ..OpenOptions::default() }).unwrap();
        for (operation, offset, size, buffer, expected) in [
            (Operation::Read, 0, Bytes::ZERO, buffer(), IoError::INVALID),
            (Operation::Read, 1, BLOCK, buffer(), IoError::INVALID),
            (Operation::Read, 0, BLOCK, Buffer::empty(), IoError::INVALID),
            (Operation::Read, 0, Bytes::kib(8), buffer(), IoError::INVALID),
            (Operation::Read, 1 << 20, BLOCK, buffer(), IoError::OUT_OF_RANGE),
            (Operation::Read, u64::MAX - 4095, BLOCK, buffer(), IoError::OUT_OF_RANGE),
            (Operation::Write, 0, BLOCK, buffer(), IoError::READ_ONLY),
            (Operation::Discard, 0, BLOCK, buffer(), IoError::READ_ONLY),
        ] {
            let done = serve(&mut *device, request(5, operation, offset, size, buffer));
            assert_eq!(
                (done.tag, done.result),
                (5, Err(expected)),
                "{engine:?} {operation:?} {offset} {size}"
            );
        }
        assert_eq!(serve(&mut *device, request(0, Operation::Read, 0, BLOCK, buffer())).result, Ok(()));
    }
}

#[test]
fn discarded_blocks_of_a_file_read_as_zeros() {
    let (_directory, scratch) = scratch("discard", Bytes::mib(1));
    for (index, (engine, depth)) in ENGINES.into_iter().enumerate() {
        let mut device = open(scratch.path(), &writable(&scratch, engine, depth)).unwrap();
        let offset = index as u64 * 65536;
        let before = serve(&mut *device, request(0, Operation::Read, offset, BLOCK, buffer()));
        assert!(before.buffer.iter().any(|&byte| byte != 0), "a scratch file is full of data");
        let done = serve(&mut *device, request(0, Operation::Discard, offset, BLOCK, Buffer::empty()));
        if done.result == Err(IoError { errno: libc::EOPNOTSUPP }) {
            flashlab_skip::skip(flashlab_skip::Need::Kernel, format_args!("this file system has no holes"));
            continue;
        }
        assert_eq!(done.result, Ok(()));
        let after = serve(&mut *device, request(0, Operation::Read, offset, BLOCK, buffer()));
        assert!(after.buffer.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_target_that_shrinks_fails_its_ios_and_nothing_else() {
    let directory = Directory::new("shrinks");
    for (engine, depth) in ENGINES {
        let path = directory.file("file", Bytes::mib(1));
        let mut device = open(&path, &OpenOptions { engine, depth, ..OpenOptions::default() }).unwrap();
        File::new().write(true).open(&path).unwrap().set_len(BLOCK.0 + 512).unwrap();
        let read = |offset, size: Bytes| {
            request(0, Operation::Read, offset, size, Arena::buffers(1, size).remove(0))
        };
        assert_eq!(serve(&mut *device, read(0, BLOCK)).result, Ok(()));
        assert_eq!(serve(&mut *device, read(65536, BLOCK)).result, Err(IoError::IO));
        // A short read in the middle: the remaining part is requested, and is not there.
        let cut = serve(&mut *device, read(0, Bytes::kib(64)));
        assert!(cut.result.is_err(), "{:?}", cut.result);
    }
}

#[test]
fn a_device_that_vanishes_fails_its_ios_and_nothing_else() {
    let Some(disk) = LoopDevice::new("vanishes", Bytes::mib(1)) else { return };
    let options =
        |engine, depth| OpenOptions { engine, depth, write: Some(disk.consent()), ..OpenOptions::default() };
    for (engine, depth) in ENGINES {
        File::new().write(true).open(disk.file()).unwrap().set_len(1 << 20).unwrap();
        let mut device = open(&disk.path, &options(engine, depth)).unwrap();
        assert_eq!(serve(&mut *device, request(0, Operation::Read, 0, BLOCK, buffer())).result, Ok(()));
        File::new().write(true).open(disk.file()).unwrap().set_len(0).unwrap();
        for tag in 0..u64::from(depth) {
            device.submit(request(tag, Operation::Read, tag * BLOCK.0, BLOCK, buffer()));
        }
        for _ in 0..depth {
            assert_eq!(device.wait(Nanos::MAX).unwrap().result, Err(IoError::IO), "{engine:?}");
        }
        assert!(device.wait(Nanos::MAX).is_none());
    }
}

#[test]
fn a_device_that_lost_its_capacity_is_gone() {
    // A removed disk looks like this: it is still open, and its capacity is zero.
    for (engine, depth) in ENGINES {
        let Some(disk) = LoopDevice::new("gone", Bytes::mib(1)) else { return };
        let options = OpenOptions { engine, depth, write: Some(disk.consent()), ..OpenOptions::default() };
        let mut device = open(&disk.path, &options).unwrap();
        File::new().write(true).open(disk.file()).unwrap().set_len(0).unwrap();
        run("losetup", &["--set-capacity", disk.name()]).unwrap();
        for operation in [Operation::Read, Operation::Write, Operation::Discard] {
            let done = serve(&mut *device, request(0, operation, 0, BLOCK, buffer()));
            assert_eq!(done.result, Err(IoError::GONE), "{engine:?} {operation:?}");
        }
    }
}

#[test]
fn a_file_that_is_cut_short_or_removed_is_lost() {
    let directory = Directory::new("lost");
    for (engine, depth) in ENGINES {
        let path = directory.file("file", Bytes::mib(1));
        let mut device = open(&path, &OpenOptions { engine, depth, ..OpenOptions::default() }).unwrap();
        assert_eq!(device.health().unwrap().loss(), None);
        File::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        let cut = "was cut short while it was measured: to 4 KiB; 1 MiB were to be used";
        assert_eq!(device.health().unwrap().loss().as_deref(), Some(cut));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(device.health().unwrap().loss().as_deref(), Some("was removed while it was measured"));
    }
    let (_directory, scratch) = scratch("not-lost", Bytes::mib(1));
    let mut device = open(scratch.path(), &writable(&scratch, IoEngine::Synchronous, 1)).unwrap();
    assert_eq!(device.health().unwrap().loss(), None, "a scratch file needs no name");
}

#[test]
fn a_file_is_measured_by_one_at_a_time() {
    let directory = Directory::new("locked");
    let path = directory.file("file", Bytes::mib(1));
    let first = open(&path, &OpenOptions::default()).unwrap();
    let error = open(&path, &OpenOptions::default()).err().unwrap();
    assert!(matches!(error, HostError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("is in use by another flashlab"), "{error}");
    drop(first);
    // A process that another test starts holds a copy of the lock from its fork to its exec.
    let again = (0..1000).map(|_| open(&path, &OpenOptions::default())).find(|opened| {
        let locked = matches!(opened, Err(HostError::Locked { .. }));
        if locked {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        !locked
    });
    assert!(again.is_some_and(|opened| opened.is_ok()));

    let (_directory, scratch) = scratch("locked-scratch", Bytes::mib(1));
    let first = open(scratch.path(), &writable(&scratch, IoEngine::Synchronous, 1)).unwrap();
    drop(first);
    let consent = consent_to_overwrite_file(&inspect(scratch.path()).unwrap()).unwrap();
    let stranger = open(scratch.path(), &OpenOptions { write: Some(consent), ..OpenOptions::default() });
    assert!(matches!(stranger.err().unwrap(), HostError::Locked { .. }));
}

#[test]
fn another_file_of_the_same_name_is_told_from_the_first() {
    let directory = Directory::new("another");
    let name = |path: &std::path::Path| {
        let file = inspect(path).unwrap().identity.file.unwrap();
        let opened = open(path, &OpenOptions::default()).unwrap().identity().file;
        assert_eq!(opened, Some(file.clone()), "looked at or opened, it is the same");
        file
    };
    let path = directory.file("file", Bytes::mib(1));
    let first = name(&path);
    File::new().write(true).open(&path).unwrap().set_len(8192).unwrap();
    std::fs::rename(&path, directory.0.join("moved")).unwrap();
    assert_eq!(name(&directory.0.join("moved")), first, "its size and its name do not matter");
    // With the first one removed, its inode is free for the second.
    std::fs::remove_file(directory.0.join("moved")).unwrap();
    // Files are stamped with the time of the kernel's last tick.
    thread::sleep(std::time::Duration::from_millis(20));
    assert_ne!(name(&directory.file("file", Bytes::mib(1))), first);
}

#[test]
fn lanes_together_have_as_many_ios_in_flight_as_a_ring() {
    let (_directory, scratch) = scratch("many-lanes", Bytes::mib(1));
    let mut device = open(scratch.path(), &writable(&scratch, IoEngine::IoUring, 1024)).unwrap();
    assert_eq!(device.parallel().unwrap().lanes(4).unwrap().len(), 4);
    let error = device.parallel().unwrap().lanes(5).err().unwrap().to_string();
    assert_eq!(error, "5 queues of 1024 are more than 4096 IOs in flight");
}

#[test]
fn a_scratch_file_is_kept_where_there_are_no_hard_links() {
    let directory = Directory::new("fat");
    // Larger than the space that stays free on every file system.
    let image = directory.file("image", Bytes::mib(100));
    if let Err(reason) = run("mkfs.vfat", &[image.to_str().unwrap()]) {
        flashlab_skip::skip(flashlab_skip::Need::Kernel, &reason);
        return;
    }
    let mounted = directory.0.join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    let at = mounted.to_str().unwrap().to_owned();
    if let Err(reason) = run("mount", &["-o", "loop", image.to_str().unwrap(), &at]) {
        flashlab_skip::skip(flashlab_skip::Need::Kernel, &reason);
        return;
    }
    let _mount = Undo("umount", vec![at]);
    let make = || ScratchFile::create(&mounted, Bytes::mib(1), Seed(1), &mut |_| ControlFlow::Continue(()));
    let scratch = make().unwrap();
    let data = std::fs::read(scratch.path()).unwrap();
    let kept = scratch.keep("kept.bin").unwrap();
    assert!(std::fs::read(&kept).unwrap() == data);
    assert!(make().unwrap().keep("kept.bin").is_err(), "nothing is replaced");
    assert!(std::fs::read(&kept).unwrap() == data);
    assert_eq!(std::fs::read_dir(&mounted).unwrap().count(), 1);
}

#[test]
fn a_loop_device_is_written_discarded_and_read_back() {
    let Some(disk) = LoopDevice::new("loop", Bytes::mib(2)) else { return };
    for (engine, depth) in ENGINES {
        let options = OpenOptions { engine, depth, write: Some(disk.consent()), ..OpenOptions::default() };
        let mut device = open(&disk.path, &options).unwrap();
        assert_eq!(device.geometry().capacity, Bytes::mib(2));
        let identity = device.identity();
        assert_eq!(identity.kind, "block device");
        // And the disk under its file, if it is known.
        assert!(identity.transport.as_deref().is_some_and(|transport| transport.starts_with("loop")));
        assert_eq!(identity.backing_device, Some(disk.file().display().to_string()));
        stress(&mut *device, 0, 512, 1000, Seed(9));
        let done = serve(&mut *device, request(0, Operation::Discard, 0, Bytes::mib(2), Buffer::empty()));
        assert_eq!(done.result, Ok(()));
        let done = serve(&mut *device, request(0, Operation::Read, 8192, BLOCK, buffer()));
        assert!(done.buffer.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_loop_device_with_large_blocks_takes_no_smaller_ios() {
    let directory = Directory::new("large-blocks");
    let image = directory.file("image", Bytes::mib(1));
    let Some(disk) = LoopDevice::over(&image, &["--sector-size", "4096"]) else { return };
    let mut device = open(&disk.path, &OpenOptions::default()).unwrap();
    assert_eq!(device.geometry().block, BLOCK);
    let done = serve(&mut *device, request(0, Operation::Read, 512, Bytes(512), buffer()));
    assert_eq!(done.result, Err(IoError::INVALID));
}

#[test]
fn dropping_a_device_waits_for_what_is_in_flight() {
    let (_directory, scratch) = scratch("dropped", Bytes::mib(4));
    for round in 0..20 {
        let mut device = open(scratch.path(), &writable(&scratch, IoEngine::IoUring, 32)).unwrap();
        for tag in 0..32 {
            device.submit(request(tag, Operation::Read, (round + tag) * BLOCK.0, BLOCK, buffer()));
        }
        // The memory is freed with the device: the kernel must not write to it any more.
        drop(device);
    }
}

#[test]
fn waiting_ends_at_the_asked_time_with_and_without_ios_in_flight() {
    let (_directory, scratch) = scratch("waiting", Bytes::mib(1));
    for (engine, depth) in ENGINES {
        let mut device = open(scratch.path(), &writable(&scratch, engine, depth)).unwrap();
        for wait in [0, 20_000, 400_000] {
            let until = device.now() + Nanos(wait);
            assert!(device.wait(until).is_none());
            assert!(device.now() >= until);
            let until = device.now() + Nanos(wait);
            device.submit(request(1, Operation::Read, 0, BLOCK, buffer()));
            match device.wait(until) {
                Some(done) => assert_eq!(done.result, Ok(())),
                None => {
                    assert!(device.now() >= until);
                    assert!(device.wait(Nanos::MAX).is_some());
                }
            }
        }
    }
}

#[test]
fn a_device_may_move_to_other_threads_when_nothing_is_in_flight() {
    let (_directory, scratch) = scratch("moves", Bytes::mib(1));
    for (engine, depth) in ENGINES {
        let mut device = open(scratch.path(), &writable(&scratch, engine, depth)).unwrap();
        for _ in 0..3 {
            let on_another_thread = thread::spawn(move || {
                let mut last = device.now();
                for round in 0..3 {
                    for tag in 0..u64::from(depth) {
                        device.submit(request(tag, Operation::Read, tag * BLOCK.0, BLOCK, buffer()));
                    }
                    let done: Vec<_> = std::iter::from_fn(|| device.wait(Nanos::MAX)).collect();
                    assert_eq!(done.len(), depth as usize, "{engine:?}, round {round}");
                    for done in done {
                        assert_eq!(done.result, Ok(()));
                        assert!(last <= done.submitted && done.submitted <= done.completed);
                    }
                    last = device.now();
                }
                device
            });
            device = on_another_thread.join().unwrap();
        }
        assert_eq!(serve(&mut *device, request(0, Operation::Read, 0, BLOCK, buffer())).result, Ok(()));
    }
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let directory = Directory::new("errors");
    let empty = directory.file("empty", Bytes::ZERO);
    let errors: Vec<String> = [
        open(&empty, &OpenOptions::default()),
        open(&directory.0, &OpenOptions::default()),
        open("/nowhere", &OpenOptions::default()),
        open(&empty, &OpenOptions { depth: 0, ..OpenOptions::default() }),
    ]
    .map(|result| result.err().unwrap().to_string())
    .into();
    for (error, part) in
        errors.iter().zip(["smaller than one block", "directory", "check the path", "from 1 to 4096"])
    {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_existing_file_needs_consent_for_that_file() {
    let directory = Directory::new("overwrite");
    let mine = directory.file("mine", Bytes::mib(1));
    let other = directory.file("other", Bytes::mib(1));
    let write = Some(consent_to_overwrite_file(&inspect(&mine).unwrap()).unwrap());
    let options = OpenOptions { write, ..OpenOptions::default() };
    let mut device = open(&mine, &options).unwrap();
    assert_eq!(serve(&mut *device, request(0, Operation::Write, 0, BLOCK, buffer())).result, Ok(()));
    assert!(matches!(open(&other, &options), Err(HostError::TargetChanged { .. })));
    // Its name leads to another file by now. The first is still open, so that its inode is not reused.
    std::fs::rename(&other, &mine).unwrap();
    assert!(matches!(open(&mine, &options), Err(HostError::TargetChanged { .. })));
    // A second name of the same file is the same file.
    let consent = consent_to_overwrite_file(&inspect(&mine).unwrap()).unwrap();
    std::fs::hard_link(&mine, directory.0.join("second")).unwrap();
    assert!(
        open(directory.0.join("second"), &OpenOptions { write: Some(consent), ..OpenOptions::default() })
            .is_ok()
    );
}
