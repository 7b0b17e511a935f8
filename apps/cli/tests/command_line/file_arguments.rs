//! Gives every argument that names a file one that it should refuse: pipes, devices, endless and huge files, files that somebody
//! uses. `../file_arguments.tsv` lists the arguments.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::support::{
    COLLECTING_PROFILE, Directory, LoopDevice, Mount, Ran, SHORT_RUNS, SMALL_PROFILE, program,
};

/// A line of the table.
pub struct FileArgument {
    pub verb: &'static str,
    pub name: &'static str,
    pub usage: &'static str,
    command: &'static str,
}

pub fn file_arguments() -> impl Iterator<Item = FileArgument> {
    let rows = include_str!("../file_arguments.tsv").lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('\t').collect();
        FileArgument { verb: cells[0], name: cells[1], usage: cells[2], command: cells[3] }
    })
    .filter(|argument| !argument.command.is_empty())
}

/// No command of these tests takes longer than a second; one that waits for ever is ended after this time.
const FOR_EVER: Duration = Duration::from_secs(120);
/// The address space of a command, in KiB. What reads a file of 8 GiB, or an endless one, into memory does not fit.
const ADDRESS_SPACE: u64 = 3 << 20;

/// Runs the command of an argument with this file.
fn run(directory: &Directory, argument: &FileArgument, file: &str) -> Ran {
    for made in ["out", "made", "sorted", "state", "twin", "dumped", "flashlab-runs"] {
        let path = directory.path(made);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
    let words: Vec<String> = argument.command.split(' ').map(|word| word.replace('@', file)).collect();
    end_in_time(directory, &words)
}

/// Runs a command in a bounded address space, and ends it if it goes on for ever.
pub fn end_in_time(directory: &Directory, words: &[String]) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {ADDRESS_SPACE}; exec \"$0\" \"$@\"")]);
    command.arg(env!("CARGO_BIN_EXE_flashlab")).args(words).current_dir(directory.path("."));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("RUST_BACKTRACE", "0");
    directory.ran(ended(command.spawn().unwrap(), words))
}

/// The output of a command that ends by itself.
fn ended(child: Child, words: &[String]) -> Output {
    let process = child.id().to_string();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(FOR_EVER) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            program("kill", &["-KILL", &process]).unwrap();
            panic!("it does not end: {words:?}");
        }
    }
}

/// What the commands of the table need.
pub fn fixtures() -> Directory {
    let directory = Directory::new();
    directory.write("profile.toml", SMALL_PROFILE);
    directory.write("flash.toml", COLLECTING_PROFILE);
    directory.write("plan.toml", SHORT_RUNS);
    directory.write("records", vec![7; 512_000]);
    directory.write("trace.log", TRACE);
    directory.write("writes.log", TRACE.replace("read", "write"));
    fs::create_dir(directory.path("mnt")).unwrap();
    directory.succeeds(&["run", "plan.toml", "sim:./profile.toml", "--output", "run"]);
    directory.succeeds(&["run", "plan.toml", "sim:./profile.toml", "--seed", "2", "--output", "other"]);
    directory.succeeds(&["model", "fit", "sim:./profile.toml", "--output", "fit"]);
    directory.succeeds(&["em", "graph", "grid", "graph", "--nodes", "100"]);
    directory.succeeds(&["repair", "create", "vol", "--size", "64MiB", "--segment", "1MiB"]);
    directory
}

const TRACE: &str =
    "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n/dev/sda close\n";

/// Makes the file of this name, whose name says what it is.
fn make(directory: &Directory, kind: &str) {
    let path = directory.path(kind);
    let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
    match kind {
        "pipe" => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        "zero" => symlink("/dev/zero", &path).unwrap(),
        // The kernel's random device takes what is written to it.
        "device" => {
            mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, makedev(1, 9)).unwrap()
        }
        "folder" => fs::create_dir(&path).unwrap(),
        "sparse" => drop(directory.file(kind, 8 << 30)),
        "empty" => drop(directory.file(kind, 0)),
        _ => drop(directory.write(kind, RANDOM)),
    }
}

/// Bytes that begin as no format does.
const RANDOM: [u8; 5000] = [0xA7; 5000];

/// The kinds of files that no argument of this usage takes.
fn hostile_kinds(usage: &str) -> &'static [&'static str] {
    match usage {
        // Any regular file is a device.
        "write" | "backing" | "volume" | "device" => &["pipe", "folder", "zero"],
        // A device that swallows what is written to it, as /dev/null, and an empty file may be an output.
        "output" => &["pipe", "folder", "device", "sparse", "random"],
        "place" => &["pipe", "zero", "random"],
        "stream" => &["folder", "zero", "sparse", "empty", "random"],
        _ => &["pipe", "folder", "zero", "sparse", "empty", "random"],
    }
}

#[test]
fn files_of_the_wrong_kind_are_refused_at_once_and_stay_as_they_are() {
    let directory = fixtures();
    let can_make_devices = rustix::process::geteuid().is_root();
    let mut wrong = String::new();
    for argument in file_arguments() {
        for &kind in hostile_kinds(argument.usage) {
            let is_records = argument.name == "INPUT" && matches!(kind, "sparse" | "empty");
            let is_no_edge = argument.name == "--from" && kind == "empty";
            if is_records || is_no_edge || (kind == "device" && !can_make_devices) {
                continue;
            }
            make(&directory, kind);
            let ran = run(&directory, &argument, kind);
            let is_refused = matches!(ran.code, Some(2 | 3)) && ran.err.contains(kind);
            if !is_refused || !is_as_made(&directory.path(kind), kind) {
                wrong += &format!("{} {} with a {kind}: {ran}\n", argument.verb, argument.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whether the file is still what [`make`] made.
fn is_as_made(path: &Path, kind: &str) -> bool {
    let found = fs::symlink_metadata(path).unwrap();
    match kind {
        "pipe" => found.file_type().is_fifo(),
        "zero" => found.is_symlink(),
        "device" => found.file_type().is_char_device(),
        "folder" => found.is_dir() && fs::read_dir(path).unwrap().next().is_none(),
        "sparse" => found.len() == 8 << 30,
        "empty" => found.is_file() && found.len() == 0,
        _ => fs::read(path).unwrap() == RANDOM,
    }
}

/// A pipe may be a trace. It waits for its writer, and a signal ends that.
#[test]
fn a_pipe_without_a_writer_is_waited_for_until_a_signal_comes() {
    let directory = Directory::new();
    directory.write("profile.toml", SMALL_PROFILE);
    directory.file("records", 1 << 20);
    make(&directory, "pipe");
    for argument in file_arguments().filter(|argument| argument.usage == "stream") {
        let words = argument.command.replace('@', "pipe");
        let words: Vec<&str> = words.split(' ').collect();
        let mut child =
            directory.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "{words:?}");
        program("kill", &[&child.id().to_string()]).unwrap();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        assert!(!ended(child, &words).status.success());
    }
}

/// A use of a file by somebody else; it ends when this is dropped, a mount before its device.
#[derive(Default)]
struct InUse {
    mount: Option<Mount>,
    disk: Option<LoopDevice>,
    swap: Option<Swap>,
    process: Option<Holder>,
}

struct Swap(String);

impl Drop for Swap {
    fn drop(&mut self) {
        program("swapoff", &[&self.0]).unwrap();
    }
}

/// A process that has a file open.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Begins a use of the file. `None`, with the reason on standard output, where that is not possible here.
fn begin_use(directory: &Directory, usage: &str, file: &Path) -> Option<InUse> {
    let mut in_use = InUse::default();
    match usage {
        "mounted" => {
            let disk = LoopDevice::over(file, &[])?;
            in_use.mount = Some(Mount::new(&[&disk.0], &directory.path("mounted"))?);
            in_use.disk = Some(disk);
        }
        "loop device" => in_use.disk = Some(LoopDevice::over(file, &[])?),
        "swap space" => {
            let name = file.to_str().unwrap();
            if let Err(reason) = program("swapon", &[name]) {
                flashlab_skip::skip(flashlab_skip::Need::Root, &reason);
                return None;
            }
            in_use.swap = Some(Swap(name.to_owned()));
        }
        "open for writing" => {
            let opened = fs::OpenOptions::new().append(true).open(file).unwrap();
            in_use.process = Some(Holder(Command::new("sleep").arg("600").stdin(opened).spawn().unwrap()));
        }
        _ => {
            let name = file.to_str().unwrap();
            let holder = Command::new("flock").args(["--no-fork", "--shared", name, "sleep", "600"]).spawn();
            in_use.process = Some(Holder(holder.unwrap()));
            // Until it has the lock.
            while File::open(file).unwrap().try_lock().is_ok() {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
    Some(in_use)
}

/// Makes a file with the content that a use needs; `None` where a program is missing.
fn used_file(directory: &Directory, usage: &str, is_volume: bool) -> Option<std::path::PathBuf> {
    let path = directory.path("used");
    let _ = fs::remove_file(&path);
    if is_volume {
        fs::copy(directory.path("vol"), &path).unwrap();
        return Some(path);
    }
    // Swap space has no holes.
    fs::write(&path, vec![0x55; 16 << 20]).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let name = path.to_str().unwrap();
    let made = match usage {
        "mounted" => program("mkfs.ext4", &["-q", "-F", name]),
        "swap space" => program("mkswap", &[name]),
        _ => Ok(String::new()),
    };
    if let Err(reason) = made {
        flashlab_skip::skip(flashlab_skip::Need::Programs, &reason);
        return None;
    }
    Some(path)
}

#[test]
fn what_somebody_uses_is_not_opened_for_writing() {
    let directory = fixtures();
    let mut wrong = String::new();
    for usage in ["mounted", "loop device", "swap space", "open for writing", "locked"] {
        for is_volume in [false, true] {
            // A volume is neither a file system nor swap space.
            if is_volume && matches!(usage, "mounted" | "swap space") {
                continue;
            }
            let Some(file) = used_file(&directory, usage, is_volume) else { continue };
            let Some(_in_use) = begin_use(&directory, usage, &file) else { continue };
            let before = fs::read(&file).unwrap();
            let mut names = other_names(&directory, &file);
            // The last name leads to the file through another mount of the directory.
            let bound =
                Mount::new(&["--bind", directory.path(".").to_str().unwrap()], &directory.path("bound"));
            if bound.is_some() {
                names.push(format!("bound/{}", file.file_name().unwrap().to_str().unwrap()));
            }
            let concerned = file_arguments().filter(|argument| match argument.usage {
                "volume" => is_volume,
                "write" | "backing" => !is_volume,
                _ => false,
            });
            for argument in concerned {
                // A file is recognised by its inode in one place, so some arguments stand for all.
                let stands_for_all = matches!(argument.verb, "serve" | "bench" | "repair resize");
                let tried = if stands_for_all { &names[..] } else { &names[..1] };
                for name in tried {
                    let ran = run(&directory, &argument, name);
                    if ran.code != Some(3) || fs::read(&file).unwrap() != before {
                        wrong += &format!("{} {} of {name} ({usage}): {ran}\n", argument.verb, argument.name);
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The file by its own name, by a hard link, and by a symbolic one. A file beside the last two says that flashlab made them.
fn other_names(directory: &Directory, file: &Path) -> Vec<String> {
    let (hard, soft) = (directory.path("hard"), directory.path("soft"));
    for name in [&hard, &soft] {
        let _ = fs::remove_file(name);
        fs::write(name.with_extension("flashlab"), "").unwrap();
    }
    fs::hard_link(file, &hard).unwrap();
    symlink(file, &soft).unwrap();
    [file.to_str().unwrap(), "hard", "soft"].map(str::to_owned).to_vec()
}
