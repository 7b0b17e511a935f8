//! Damaged volumes of `flashlab repair`: what is shown is right, or the volume is refused and `dump` says what is missing.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flashlab_base::{Prng, Seed};
use serde_json::Value;

use crate::live_disk::{Server, first_line, pattern, send};
use crate::repair::json;
use crate::support::{Directory, program};

const PAGE: usize = 4096;
/// Where the ring of checkpoints begins.
const RING: u64 = 128 << 10;

/// A small volume that no program has open.
struct Volume {
    directory: Directory,
    path: String,
}

impl Volume {
    fn new() -> Volume {
        let directory = Directory::new();
        let path = directory.path("volume").to_str().unwrap().to_owned();
        directory.succeeds(&["repair", "create", &path, "--size", "16MiB", "--segment", "64KiB"]);
        Volume { directory, path }
    }

    /// Writes pages at random places of its disk, syncs each tenth, and closes it. `false`: not possible here.
    fn write_disk(&self, pages: u64, seed: u64) -> bool {
        let arguments = ["repair", "serve", &self.path, "--loop", "--json"];
        let Some(server) = Server::begin(&self.directory, &arguments) else { return false };
        let disk = server.open();
        let mut random = Prng::new(Seed(seed));
        for number in 0..pages {
            let page = random.below(2500);
            disk.write_all_at(&pattern(page + seed, PAGE), page * PAGE as u64).unwrap();
            if number % 10 == 0 {
                disk.sync_all().unwrap();
            }
        }
        disk.sync_all().unwrap();
        drop(disk);
        server.end();
        true
    }

    /// Mounts its files for this work, and closes it. `false`: not possible here.
    fn with_files(&self, work: impl FnOnce(&Path)) -> bool {
        let mount = self.directory.path("mounted");
        fs::create_dir_all(&mount).unwrap();
        let mut command = self.directory.command(&["repair", "mount", &self.path, mount.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if first_line(&mut child, &["FUSE needs"]).is_none() {
            return false;
        }
        work(&mount);
        send(&child, "TERM");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        true
    }

    fn write_files(&self) -> bool {
        self.with_files(|mount| {
            for number in 0..12 {
                let data = pattern(number, 20_000 + 999 * number as usize);
                fs::write(mount.join(format!("file {number}")), data).unwrap();
            }
        })
    }

    fn dump(&self, name: &str) -> (Option<i32>, Value, String) {
        let image = self.directory.path(name);
        let _ = fs::remove_file(&image);
        let ran =
            self.directory.flashlab(&["repair", "dump", &self.path, "-o", image.to_str().unwrap(), "--json"]);
        (ran.code, json(&ran.out), ran.err)
    }

    fn image(&self, name: &str) -> Vec<u8> {
        fs::read(self.directory.path(name)).unwrap()
    }

    fn check(&self) -> (Option<i32>, String, String) {
        let ran = self.directory.flashlab(&["repair", "check", &self.path, "--json"]);
        (ran.code, ran.out, ran.err)
    }

    /// Flips bits of its checkpoints, one at a time. The check is as before, or refuses; then `dump` has all pages, and does not vouch for it.
    fn flip(&self, flips: usize, seed: u64) {
        let (code, whole, _) = self.check();
        assert_eq!(code, Some(0));
        assert_eq!(self.dump("right").0, Some(0));
        let intact = fs::read(&self.path).unwrap();
        let used: Vec<u64> =
            (RING..1 << 20).filter(|&at| at % 4096 < 1024 && intact[at as usize] != 0).collect();
        let file = OpenOptions::new().write(true).open(&self.path).unwrap();
        let mut random = Prng::new(Seed(seed));
        let mut refused = 0;
        for _ in 0..flips {
            let at = used[random.below(used.len() as u64) as usize];
            let bit = random.below(8);
            file.write_all_at(&[intact[at as usize] ^ 1 << bit], at).unwrap();
            let (code, out, err) = self.check();
            match code {
                Some(0) => assert_eq!(out, whole, "bit {bit} of byte {at}"),
                Some(1) => {
                    assert!(err.contains("a checkpoint at byte"), "bit {bit} of byte {at}: {err}");
                    refused += 1;
                    if refused % 8 == 1 {
                        let (code, dumped, err) = self.dump("salvaged");
                        assert_eq!((code, &dumped["missing_pages"]), (Some(1), &Value::from(0)), "{err}");
                        assert!(dumped["map"] != "newest" && err.contains("is not known"), "{err}");
                        assert!(self.image("salvaged") == self.image("right"), "bit {bit} of byte {at}");
                    }
                }
                _ => panic!("bit {bit} of byte {at}: {code:?} {err}"),
            }
            file.write_all_at(&[intact[at as usize]], at).unwrap();
        }
        assert!(refused > flips / 3, "{refused} of {flips} were refused");
    }
}

#[test]
fn a_flipped_bit_of_a_checkpoint_of_a_disk_is_not_an_older_disk() {
    let volume = Volume::new();
    if volume.write_disk(200, 5) && volume.write_disk(100, 6) {
        volume.flip(42, 1);
    }
}

#[test]
fn a_flipped_bit_of_a_checkpoint_of_files_is_no_older_directory() {
    let volume = Volume::new();
    if volume.write_files() {
        volume.flip(42, 2);
    }
}

/// A volume of version 2 with 164 pages, which was closed in order. One bit of a checkpoint was flipped then.
fn shared_image() -> Option<(PathBuf, u64)> {
    let shared = "../../../shared/data/volumes/checkpoint-bit-flipped.img.gz";
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join(shared);
    if !image.exists() {
        flashlab_skip::skip(flashlab_skip::Need::Reference, "the shared volume is not there");
        return None;
    }
    Some((image, 131_112))
}

#[test]
fn the_volume_that_a_flipped_bit_emptied_is_refused_and_dumped_and_without_the_flip_it_is_right() {
    let Some((image, flipped)) = shared_image() else { return };
    let directory = Directory::new();
    let path = directory.path("volume").to_str().unwrap().to_owned();
    program("sh", &["-c", &format!("gunzip -c {} > {path}", image.display())]).unwrap();
    let volume = Volume { directory, path };
    let mount = volume.directory.path("refused").to_str().unwrap().to_owned();
    fs::create_dir(&mount).unwrap();
    let serve = ["repair", "serve", &volume.path, "--loop"];
    let mount = ["repair", "mount", &volume.path, &mount];
    let tasks: [&[&str]; 4] =
        [&["repair", "check", &volume.path], &["repair", "status", &volume.path], &serve, &mount];
    for arguments in tasks {
        let ran = volume.directory.flashlab(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("checkpoint 1"), "{arguments:?}: {}", ran.err);
    }
    let (code, dumped, err) = volume.dump("salvaged");
    assert_eq!((code, &dumped["pages"], &dumped["map"]), (Some(1), &164.into(), &"none".into()), "{err}");
    assert!(err.contains("what is missing is not known without a map"), "{err}");
    let file = OpenOptions::new().read(true).write(true).open(&volume.path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, flipped).unwrap();
    let bits: Vec<u32> = (0..8)
        .filter(|bit| {
            file.write_all_at(&[byte[0] ^ 1 << bit], flipped).unwrap();
            volume.check().0 == Some(0)
        })
        .collect();
    assert_eq!(bits.len(), 1, "exactly one bit is the one that was flipped");
    file.write_all_at(&[byte[0] ^ 1 << bits[0]], flipped).unwrap();
    drop(file);
    let right = |what: &str| {
        let (code, out, err) = volume.check();
        assert_eq!((code, &json(&out)["right_pages"]), (Some(0), &164.into()), "{what}: {err}");
        let (code, dumped, err) = volume.dump("right");
        assert_eq!((code, &dumped["map"]), (Some(0), &"newest".into()), "{what}: {err}");
        assert!(volume.image("right") == volume.image("salvaged"), "{what}");
    };
    right("version 2");
    if volume.with_files(|mount| assert!(fs::read_dir(mount).unwrap().count() > 0)) {
        let (code, _, err) = volume.check();
        assert_eq!(code, Some(0), "version 3: {err}");
    }
}

#[test]
fn a_dump_of_a_truncated_volume_lists_what_is_missing() {
    let volume = Volume::new();
    if !volume.write_disk(900, 7) {
        return;
    }
    let (code, whole, _) = volume.dump("right");
    assert_eq!((code, &whole["missing_pages"]), (Some(0), &0.into()));
    fs::OpenOptions::new().write(true).open(&volume.path).unwrap().set_len(4 << 20).unwrap();
    let (code, cut, err) = volume.dump("cut");
    assert_eq!((code, &cut["map"]), (Some(1), &"newest".into()), "{err}");
    assert!(err.contains("is not all of"), "{err}");
    let number = |dumped: &Value, key: &str| dumped[key].as_u64().unwrap();
    let (missing, older) = (number(&cut, "missing_pages"), number(&cut, "older_pages"));
    assert!(missing > 100, "{cut}");
    assert_eq!(number(&cut, "pages") + missing, number(&whole, "pages"), "{cut}");
    // Exactly the pages that differ are listed.
    let pages = |key: &str| -> Vec<u64> {
        let ranges = cut[key].as_array().unwrap().iter();
        ranges
            .flat_map(|range| (0..number(range, "pages")).map(|at| number(range, "first_page") + at))
            .collect()
    };
    let (right, cut_image) = (volume.image("right"), volume.image("cut"));
    let differ = right.chunks(PAGE).zip(cut_image.chunks(PAGE)).enumerate();
    let differ: Vec<u64> = differ.filter(|(_, (a, b))| a != b).map(|(page, _)| page as u64).collect();
    let mut listed = [pages("missing"), pages("older")].concat();
    listed.sort_unstable();
    assert!(differ.iter().all(|page| listed.binary_search(page).is_ok()), "{cut}");
    assert_eq!(listed.len() as u64, missing + older);
    let text = volume.directory.flashlab(&["repair", "dump", &volume.path, "-o", "as text"]);
    assert!(text.code == Some(1) && text.out.contains(" are missing\n"), "{}", text.out);
}

/// What lies in a folder: paths, and what each is.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, u64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let status = fs::symlink_metadata(&path).unwrap();
        let content = match status.file_type() {
            kind if kind.is_dir() => {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_vec(),
            _ => fs::read(&path).unwrap(),
        };
        let links = if status.is_dir() { 0 } else { status.nlink() };
        let path = path.strip_prefix(folder).unwrap().to_owned();
        found.insert(path, (status.mode(), links, status.mtime(), content));
    }
    found
}

/// The content of the file with this number.
fn numbered(number: u64) -> Vec<u8> {
    pattern(number, 20_000 + 999 * number as usize)
}

#[test]
fn files_are_copied_out_of_a_volume_and_what_is_damaged_is_listed() {
    let volume = Volume::new();
    let mut expected = BTreeMap::new();
    let is_possible = volume.with_files(|mount| {
        fs::create_dir(mount.join("folder")).unwrap();
        for number in 0..40 {
            fs::write(mount.join(format!("folder/file {number}")), numbered(number)).unwrap();
        }
        fs::hard_link(mount.join("folder/file 3"), mount.join("other name")).unwrap();
        std::os::unix::fs::symlink("folder/file 4", mount.join("link")).unwrap();
        fs::set_permissions(mount.join("folder/file 5"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(mount.join("folder"), fs::Permissions::from_mode(0o750)).unwrap();
        expected = tree(mount);
    });
    if !is_possible {
        return;
    }
    let out = volume.directory.path("out");
    let dump = |name: &str| {
        let ran = volume.directory.flashlab(&["repair", "dump", &volume.path, "--files", name, "--json"]);
        (ran.code, ran.out, ran.err)
    };
    // What a killed copy leaves has another name. No process has this number: it is above the kernel's limit.
    fs::create_dir(volume.directory.path("out.flashlab-99999999.part")).unwrap();
    let (code, printed, err) = dump("out");
    assert_eq!((code, &json(&printed)["files"]), (Some(0), &Value::from(40)), "{err}");
    assert!(err.contains("out.flashlab-99999999.part was left by a flashlab that was killed"), "{err}");
    let parts = volume.directory.names().into_iter().filter(|name| name.ends_with(".part")).count();
    assert_eq!(parts, 1, "a complete copy has its name");
    assert!(tree(&out) == expected, "{:?}", tree(&out).keys());
    let (code, _, err) = dump("out");
    assert!(code == Some(2) && err.contains("choose another folder"), "{err}");
    assert!(tree(&out) == expected, "nothing is overwritten");
    let (code, printed, _) = volume.check();
    assert_eq!((code, &json(&printed)["files"]["files"]), (Some(0), &Value::from(42)));

    // A page of a file's data is damaged: it alone is missing.
    let intact = fs::read(&volume.path).unwrap();
    let page = &numbered(7)[PAGE..2 * PAGE];
    let at = intact.chunks(PAGE).position(|found| found == page).unwrap() * PAGE;
    // Closed at once, because a mount refuses a volume that another process may write to.
    let write = |bytes: &[u8], at: usize| {
        OpenOptions::new().write(true).open(&volume.path).unwrap().write_all_at(bytes, at as u64).unwrap()
    };
    write(&[0x5a; PAGE], at);
    let (code, printed, err) = dump("damaged data");
    assert!(code == Some(1) && err.contains("1 files or directories are not as they were"), "{err}");
    let incomplete = &json(&printed)["incomplete"];
    assert_eq!(incomplete[0]["path"], "folder/file 7");
    assert_eq!(incomplete[0]["missing"][0], serde_json::json!({ "offset": PAGE, "length": PAGE }));
    let mut left = expected.clone();
    left.get_mut(Path::new("folder/file 7")).unwrap().3[PAGE..2 * PAGE].fill(0);
    assert!(tree(&volume.directory.path("damaged data")) == left);
    write(&intact[at..at + PAGE], at);

    // So is each page of the catalogue that counts: a check finds it, a mount is refused and leaves the volume closed in order.
    let pages = (0..intact.len()).step_by(PAGE).filter(|&at| intact[at..].starts_with(b"FLCATLOG"));
    let mut found = 0;
    for at in pages {
        write(&[intact[at + 40] ^ 1], at + 40);
        let (code, printed, err) = volume.check();
        if code == Some(1) {
            found += 1;
            assert!(err.contains("the catalogue of the files"), "{err}");
            assert!(!json(&printed)["files"]["faults"].as_array().unwrap().is_empty(), "{printed}");
            let folder = format!("damaged catalogue {found}");
            let (code, printed, err) = dump(&folder);
            assert!(code == Some(1) && err.contains("the catalogue of its files is damaged"), "{err}");
            assert!(json(&printed)["files"].as_u64() > Some(0), "{printed}");
            let ran = volume.directory.flashlab(&["repair", "mount", &volume.path, "mounted"]);
            assert!(ran.code == Some(1), "{}", ran.err);
            let status = volume.directory.succeeds(&["repair", "status", &volume.path, "--json"]);
            assert_eq!(json(&status.out)["is_clean"], true, "{}", status.out);
            write(&intact, 0);
        }
        write(&[intact[at + 40]], at + 40);
    }
    assert!(found > 0, "no page of the catalogue counts");
}

#[test]
fn a_dump_gets_its_name_when_it_is_complete() {
    let volume = Volume::new();
    if !volume.write_disk(300, 8) {
        return;
    }
    let before = volume.directory.names();
    let image = volume.directory.path("image");
    // The page at the volume's end does not fit.
    let limited = format!(
        "ulimit -f 16; exec {} repair dump {} -o {}",
        env!("CARGO_BIN_EXE_flashlab"),
        volume.path,
        image.display()
    );
    let ran = Command::new("sh").args(["-c", &limited]).output().unwrap();
    assert!(!ran.status.success());
    assert_eq!(volume.directory.names(), before, "{}", String::from_utf8_lossy(&ran.stderr));
    fs::write(&image, "mine").unwrap();
    let ran = volume.directory.flashlab(&["repair", "dump", &volume.path, "-o", image.to_str().unwrap()]);
    assert!(ran.code == Some(2) && ran.err.contains("exists"), "{}", ran.err);
    assert_eq!(fs::read(&image).unwrap(), b"mine");
}
