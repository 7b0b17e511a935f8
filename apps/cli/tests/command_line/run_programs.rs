//! `flashlab repair run`: programs whose files live on a volume, in a mount that they alone see. What they may do with files, what is
//! beneath, and what is refused.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use flashlab_skip::{Need, skip};
use serde_json::Value;

use crate::files::Place;
use crate::live_disk::send;
use crate::repair::{json, new_volume};
use crate::support::{Directory, Ran, program};

/// A volume, and a directory whose files live on it.
pub struct Run {
    pub directory: Directory,
    pub place: Place,
    pub volume: String,
}

impl Run {
    /// `None`: FUSE is not possible here.
    pub fn new(size: &str) -> Option<Run> {
        let (directory, place) = (Directory::new(), Place::new());
        let volume = new_volume(&directory, size);
        let run = Run { directory, place, volume };
        let tried = run.run(&["m"], &["true"]);
        if tried.code == Some(3) && tried.err.contains("needs /dev/fuse") {
            skip(Need::Fuse, &tried.err);
            return None;
        }
        assert_eq!(tried.code, Some(0), "{tried}");
        Some(run)
    }

    /// The directory whose files live on the volume.
    pub fn data(&self) -> PathBuf {
        self.place.mount()
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.data().join(name).to_str().unwrap().to_owned()
    }

    /// A command that runs a program with these files, which are relative to the place.
    pub fn command_with(&self, options: &[&str], files: &[&str], command: &[&str]) -> Command {
        let report = self.place.path("report");
        let mut arguments = vec!["repair", "run", "--report", &report];
        arguments.extend(options);
        let files: Vec<String> = files.iter().map(|files| self.place.path(files)).collect();
        files.iter().for_each(|files| arguments.extend(["--files", files]));
        arguments.extend([&self.volume, "--"]);
        arguments.extend(command);
        self.directory.command(&arguments)
    }

    pub fn command(&self, files: &[&str], command: &[&str]) -> Command {
        self.command_with(&[], files, command)
    }

    pub fn run_with(&self, options: &[&str], files: &[&str], command: &[&str]) -> Ran {
        self.directory.ran(self.command_with(options, files, command).output().unwrap())
    }

    pub fn run(&self, files: &[&str], command: &[&str]) -> Ran {
        self.run_with(&[], files, command)
    }

    pub fn succeeds(&self, files: &[&str], command: &[&str]) -> String {
        let ran = self.run(files, command);
        assert_eq!(ran.code, Some(0), "{command:?}\n{ran}");
        ran.out.trim().to_owned()
    }

    /// Runs a script of the shell in the directory.
    pub fn shell(&self, script: &str) -> String {
        self.succeeds(&["m"], &["bash", "-c", &format!("set -e; cd {}; {script}", self.data().display())])
    }

    pub fn refuses(&self, (options, files): (&[&str], &[&str]), command: &[&str], code: i32, text: &str) {
        let ran = self.run_with(options, files, command);
        assert!(ran.code == Some(code) && ran.err.contains(text), "{files:?} {command:?}: {ran}");
    }

    /// A count that the volume has of what it served.
    pub fn count(&self, key: &str) -> u64 {
        let report = fs::read_to_string(self.place.path("report")).unwrap();
        serde_json::from_str::<Value>(&report).unwrap()[key].as_u64().unwrap()
    }

    /// Nothing is mounted where others see it, and the volume is whole.
    pub fn is_left_in_order(&self) {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(&self.place.path("")), "{mounts}");
        let checked = self.directory.succeeds(&["repair", "check", &self.volume]);
        assert!(checked.out.contains(" 0 are damaged"), "{checked}");
    }
}

#[test]
fn programs_see_ordinary_files_and_others_see_none() {
    let Some(run) = Run::new("96MiB") else { return };
    let script = "mkdir -p sub; echo one > a; echo two >> a; cp a sub/b; mv sub/b sub/c; ln a d; cat a sub/c; wc -c < d; \
                  stat -c '%s %F %h' a; head -c 3000000 /dev/zero > big; truncate -s 10 big; stat -c %s big; chmod 600 a; \
                  stat -c %a d; ls; rm big; ( echo x; echo y ) > shared; cat shared; ln -s a link; cat link";
    let expected = "one\ntwo\none\ntwo\n8\n8 regular file 2\n10\n600\na\nbig\nd\nsub\nx\ny\none\ntwo";
    assert_eq!(run.shell(script), expected);
    assert_eq!(fs::read_dir(run.data()).unwrap().count(), 0, "nothing is beneath");
    // The next run finds them, and the exit code is the program's.
    assert_eq!(run.succeeds(&["m"], &["cat", &run.path("sub/c")]), "one\ntwo");
    assert_eq!(run.run(&["m"], &["sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(run.run(&["m"], &["sh", "-c", "kill -KILL $$"]).code, Some(137));
    // Started in the directory, it works in the mounted one.
    let mut inside = run.command(&["m"], &["cat", "a"]);
    let inside = run.directory.ran(inside.current_dir(run.data()).output().unwrap());
    assert_eq!((inside.code, inside.out.as_str()), (Some(0), "one\ntwo\n"), "{inside}");
    run.is_left_in_order();
}

/// What a library in the program could not do: each of these failed, most of them in silence.
#[test]
fn descriptors_are_the_kernels() {
    let Some(run) = Run::new("96MiB") else { return };
    // Several processes append through one inherited descriptor.
    let lines = run.shell("for i in 1 2 3 4; do ( for j in $(seq 1000); do echo line $i $j; done ) & done > lines; wait; wc -l < lines");
    assert_eq!(lines, "4000");
    // The shell's redirections, descriptors with names, an empty environment, standard input from a file.
    let script = "echo one > a; exec 5< a; cat /proc/self/fd/5 /dev/fd/5 - < a; cat /dev/stdin < a; env -i /bin/cat a; \
                  exec 6>> a; echo two >&6; exec 6>&-; exec 3<> a; read x <&3; echo $x; cat <&3; : > empty; wc -c < empty";
    assert_eq!(run.shell(script), "one\none\none\none\none\none\ntwo\n0");
    if program("python3", &["--version"]).is_err() {
        return skip(Need::Python, "python3 is not installed");
    }
    let script = r#"
import ctypes, ctypes.util, mmap, os, subprocess, sys
os.chdir(sys.argv[1])
# A child of vfork closes and changes its descriptors; the parent's stay.
file = os.open('p', os.O_RDWR | os.O_CREAT, 0o644)
os.write(file, b'begin ')
for _ in range(20):
    subprocess.run(['sh', '-c', 'exec 1>&-; exec 0<&-'], close_fds=True, check=True)
    subprocess.run(['sh', '-c', 'echo -n x'], stdout=file, check=True)
os.write(file, b' end')
os.lseek(file, 0, 0)
assert os.read(file, 100) == b'begin ' + b'x' * 20 + b' end', os.pread(file, 100, 0)
# A lock outlives a child that closes the file.
import fcntl
fcntl.lockf(file, fcntl.LOCK_EX)
subprocess.run(['true'], check=True)
held = subprocess.run([sys.executable, '-c',
    "import fcntl; f = open('p', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"], stderr=subprocess.DEVNULL)
assert held.returncode != 0, 'the lock was lost'
# Standard output of the C library after dup2.
libc = ctypes.CDLL(None, use_errno=True)
saved = os.dup(1)
out = os.open('stdio', os.O_WRONLY | os.O_CREAT, 0o644)
os.dup2(out, 1)
libc.puts(b'through stdio')
libc.fflush(None)
os.dup2(saved, 1)
assert open('stdio').read() == 'through stdio\n'
# Wide characters of the C library.
libc.fopen.restype = ctypes.c_void_p
stream = libc.fopen(b'wide', b'w')
libc.fputws(ctypes.c_wchar_p('wide'), ctypes.c_void_p(stream))
libc.fclose(ctypes.c_void_p(stream))
assert open('wide').read() == 'wide'
# A write that appends wherever it is told to write.
RWF_APPEND = 16
class Slice(ctypes.Structure):
    _fields_ = [('base', ctypes.c_char_p), ('length', ctypes.c_size_t)]
with open('appended', 'wb') as f:
    f.write(b'first ')
file = os.open('appended', os.O_RDWR)
slice = Slice(b'last', 4)
written = libc.pwritev2(file, ctypes.byref(slice), 1, ctypes.c_long(0), RWF_APPEND)
if written < 0:
    assert ctypes.get_errno() == 95, ctypes.get_errno()
    written = os.pwrite(file, b'last', 6)
assert written == 4 and open('appended').read() == 'first last', open('appended').read()
# A shared mapping, and what another process reads.
with open('mapped', 'wb') as f:
    f.truncate(8192)
with open('mapped', 'r+b') as f:
    mapped = mmap.mmap(f.fileno(), 0)
    mapped[4096:4100] = b'data'
    mapped.flush()
assert subprocess.check_output(['tail', '-c', '4096', 'mapped'])[:4] == b'data'
# Asynchronous IO of POSIX.
class Aiocb(ctypes.Structure):
    _fields_ = [('file', ctypes.c_int), ('opcode', ctypes.c_int), ('priority', ctypes.c_int), ('buffer', ctypes.c_void_p),
                ('length', ctypes.c_size_t), ('rest', ctypes.c_char * 256)]
buffer = ctypes.create_string_buffer(10)
request = Aiocb(file=file, buffer=ctypes.cast(buffer, ctypes.c_void_p), length=10)
assert libc.aio_read(ctypes.byref(request)) == 0
while libc.aio_error(ctypes.byref(request)) == 115:
    pass
assert libc.aio_return(ctypes.byref(request)) == 10 and buffer.raw == b'first last', buffer.raw
print('all')
"#;
    let script = run.directory.write("script.py", script);
    let said = run.succeeds(&["m"], &["python3", script.to_str().unwrap(), run.data().to_str().unwrap()]);
    assert_eq!(said, "all");
}

#[test]
fn static_programs_and_go_programs_are_as_any() {
    let Some(run) = Run::new("96MiB") else { return };
    let source = run.directory.write(
        "static.c",
        "#include <fcntl.h>\n#include <unistd.h>\nint main(int n, char **a) { char b[5]; int f = open(a[1], O_RDWR | O_CREAT, 0644); \
         return n != 2 || write(f, \"data\\n\", 5) != 5 || fsync(f) || pread(f, b, 5, 0) != 5 || write(1, b, 5) != 5; }",
    );
    let binary = run.directory.path("static");
    let built = program("cc", &["-static", "-o", binary.to_str().unwrap(), source.to_str().unwrap()]);
    match built {
        Ok(_) => assert_eq!(run.succeeds(&["m"], &[binary.to_str().unwrap(), &run.path("static")]), "data"),
        Err(error) => skip(Need::Programs, format_args!("no static program: {error}")),
    }
    let source = run.directory.write(
        "main.go",
        "package main\nimport (\"fmt\"; \"os\")\nfunc main() {\n f, err := os.Create(os.Args[1]); if err != nil { panic(err) }\n \
         for i := 0; i < 1000; i++ { fmt.Fprintf(f, \"line %d\\n\", i) }\n if err := f.Sync(); err != nil { panic(err) }\n \
         if err := os.Rename(os.Args[1], os.Args[1] + \".done\"); err != nil { panic(err) }\n \
         b, err := os.ReadFile(os.Args[1] + \".done\"); if err != nil { panic(err) }\n fmt.Println(len(b))\n}\n",
    );
    let binary = run.directory.path("go");
    let built = Command::new("go")
        .args(["build", "-o", binary.to_str().unwrap(), source.to_str().unwrap()])
        .env("GOCACHE", run.directory.path("gocache"))
        .env("GOFLAGS", "-mod=mod")
        .output();
    match built {
        Ok(built) if built.status.success() => {
            assert_eq!(run.succeeds(&["m"], &[binary.to_str().unwrap(), &run.path("go")]), "8890");
            assert_eq!(run.shell("tail -1 go.done; cat static || true"), "line 999\ndata");
        }
        Ok(built) => panic!("{}", String::from_utf8_lossy(&built.stderr)),
        Err(error) => skip(Need::Go, format_args!("go: {error}")),
    }
}

#[test]
fn names_that_match_live_on_the_volume_and_others_beneath() {
    let Some(run) = Run::new("96MiB") else { return };
    fs::create_dir(run.path("sub")).unwrap();
    fs::write(run.path("settings"), "beneath\n").unwrap();
    fs::write(run.path("sub/file"), "deeper\n").unwrap();
    symlink("settings", run.path("link")).unwrap();
    let script = format!(
        "set -e; cd {}; cat settings sub/file link; echo data > app.db; echo log > app.log; mv app.db app.old; ls; cat app.old; \
         mv app.old app.db; ln app.db x 2> /dev/null && echo linked; ln app.log y; rm y; mkdir -p sub/a/b app.dir; \
         echo in > app.dir/f; chmod 640 settings; echo more >> settings; rmdir sub/a/b; mkfifo pipe; \
         (echo piped > pipe &); cat pipe; rm pipe; touch -d @5 sub/file; touch -d @-1.5 settings; truncate -s 3 app.log; ls",
        run.data().display()
    );
    let said =
        run.succeeds(&["m/app.d*"], &["bash", "-c", &script.replace("&& echo linked;", "|| echo apart;")]);
    let expected = "beneath\ndeeper\nbeneath\napp.log\napp.old\nlink\nsettings\nsub\ndata\napart\npiped\n\
                    app.db\napp.dir\napp.log\nlink\nsettings\nsub";
    assert_eq!(said, expected);
    let mut beneath: Vec<String> = fs::read_dir(run.data())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    beneath.sort();
    assert_eq!(beneath, ["app.log", "link", "settings", "sub"]);
    assert_eq!(fs::read_to_string(run.path("settings")).unwrap(), "beneath\nmore\n");
    assert_eq!(fs::metadata(run.path("settings")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(fs::metadata(run.path("sub/file")).unwrap().mtime(), 5);
    let settings = fs::metadata(run.path("settings")).unwrap();
    assert_eq!((settings.mtime(), settings.mtime_nsec()), (-2, 500_000_000));
    assert_eq!(fs::read_to_string(run.path("app.log")).unwrap(), "log");
    // What is on the volume and not named by a pattern is not hidden in silence.
    let other = run.run(&["m/app.db*"], &["ls", &run.path("")]);
    assert!(other.err.contains("not shown, because no pattern names"), "{other}");
    // A whole directory, and a name that lies on both sides.
    run.refuses((&[], &["m"]), &["true"], 3, "--copy-in");
    fs::write(run.path("app.db"), "beneath").unwrap();
    run.refuses((&[], &["m/app.d*"]), &["true"], 3, "holds a file that the volume's files would hide");
    let hidden = run.run_with(&["--hide"], &["m/app.d*"], &["cat", &run.path("app.db")]);
    assert_eq!(hidden.out, "data\n", "{hidden}");
    run.refuses((&["--copy-in"], &["m/app.d*"]), &["true"], 3, "app.db already");
    assert_eq!(fs::read_to_string(run.path("app.db")).unwrap(), "beneath");
    run.is_left_in_order();
}

#[test]
fn another_user_makes_its_own_files_beneath_and_clears_set_id_bits() {
    const USER: u32 = 4321;
    let Some(run) = Run::new("48MiB") else { return };
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root starts programs of others");
    }
    fs::create_dir(run.path("sub")).unwrap();
    for name in ["sub/cut", "sub/allocated"] {
        fs::write(run.path(name), "data").unwrap();
        std::os::unix::fs::chown(run.path(name), Some(USER), Some(USER)).unwrap();
        fs::set_permissions(run.path(name), fs::Permissions::from_mode(0o6755)).unwrap();
    }
    std::os::unix::fs::chown(run.path("sub"), Some(USER), Some(USER)).unwrap();
    fs::write(run.path("sub/secret"), "of root").unwrap();
    let script = "umask 0; truncate -s 1 cut; fallocate -l 9 allocated; echo > new; mkdir d; ln -s new link; mkfifo p; \
                  echo more >> new; chmod 666 secret 2> /dev/null || echo refused";
    let as_user = format!(
        "cd {}; exec setpriv --reuid {USER} --regid {USER} --clear-groups sh -c '{script}'",
        run.path("sub")
    );
    assert_eq!(run.succeeds(&["m/app*"], &["sh", "-c", &as_user]), "refused");
    let found = |name: &str| {
        let found = fs::symlink_metadata(run.path(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    for (name, mode) in [
        ("sub/cut", 0o755),
        ("sub/allocated", 0o755),
        ("sub/new", 0o666),
        ("sub/d", 0o777),
        ("sub/link", 0o777),
        ("sub/p", 0o666),
    ] {
        assert_eq!(found(name), (USER, USER, mode), "{name}");
    }
    run.is_left_in_order();
}

#[test]
fn files_are_copied_in_whole_or_not_at_all() {
    let Some(run) = Run::new("48MiB") else { return };
    fs::create_dir(run.path("sub")).unwrap();
    fs::write(run.path("sub/file"), vec![7; 100_000]).unwrap();
    fs::hard_link(run.path("sub/file"), run.path("linked")).unwrap();
    symlink("linked", run.path("symbolic")).unwrap();
    fs::set_permissions(run.path("linked"), fs::Permissions::from_mode(0o604)).unwrap();
    // More than the volume has space for.
    fs::write(run.path("large"), vec![1; 60 << 20]).unwrap();
    run.refuses((&["--copy-in"], &["m"]), &["true"], 1, "nothing of it is there");
    fs::remove_file(run.path("large")).unwrap();
    assert!(program("mkfifo", &[&run.path("pipe")]).is_ok());
    run.refuses((&["--copy-in"], &["m"]), &["true"], 3, "pipe is a socket, a pipe or a device");
    fs::remove_file(run.path("pipe")).unwrap();
    let script = format!(
        "cd {}; ls; stat -c '%s %a %h' linked; readlink symbolic; echo new > sub/new",
        run.data().display()
    );
    let copied = run.run_with(&["--copy-in"], &["m"], &["sh", "-c", &script]);
    assert_eq!(copied.out, "linked\nsub\nsymbolic\n100000 604 2\nlinked\n", "{copied}");
    assert!(copied.err.contains("copied to the volume: 3 files"), "{copied}");
    // The originals are as they were; a second time neither side is chosen in silence.
    assert!(!fs::exists(run.path("sub/new")).unwrap());
    run.refuses((&[], &["m"]), &["true"], 3, "holds 3 files that the volume's files would hide");
    run.refuses((&["--copy-in"], &["m"]), &["true"], 3, "the volume holds");
    let hidden = run.run_with(&["--hide"], &["m"], &["cat", &run.path("sub/new")]);
    assert_eq!(hidden.out, "new\n", "{hidden}");
    run.is_left_in_order();
}

#[test]
fn what_is_not_possible_is_refused_and_leaves_nothing() {
    let Some(run) = Run::new("48MiB") else { return };
    run.refuses((&[], &["nowhere"]), &["true"], 2, "make it first");
    fs::write(run.place.path("file"), "").unwrap();
    run.refuses((&[], &["file"]), &["true"], 2, "it is no directory");
    run.refuses((&[], &["m", "m"]), &["no such program"], 2, "cannot start no such program");
    // A volume among its own files, however it is named.
    let within = run.directory.path(&run.volume).canonicalize().unwrap();
    symlink(&within, run.place.path("volume")).unwrap();
    let (folder, name) = (within.parent().unwrap().display(), within.file_name().unwrap().to_str().unwrap());
    for files in [format!("{folder}"), format!("{folder}/{}*", &name[..1])] {
        for option in ["--copy-in", "--hide"] {
            let volume = run.place.path("volume");
            let ran =
                run.directory.flashlab(&["repair", "run", option, "--files", &files, &volume, "--", "true"]);
            assert_eq!(ran.code, Some(3), "{ran}");
            assert!(ran.err.contains("lies among the files"), "{ran}");
        }
    }
    // A pattern that nothing matches: files may come.
    run.succeeds(&["m/none*"], &["true"]);
    // The volume has one opener, and another volume's run may begin in a run.
    let second = format!(
        "{} repair run --files {} {} -- true; echo $?",
        env!("CARGO_BIN_EXE_flashlab"),
        run.path(""),
        run.volume
    );
    let said = run.run(&["m"], &["sh", "-c", &second]);
    assert_eq!(said.out, "3\n", "{said}");
    let other = Run::new("48MiB").unwrap();
    let nested = format!(
        "echo outer > {0}; {1} repair run --files {2} {3} -- sh -c 'cat {0}; echo inner > {2}/i; cat {2}/i'; ls {2} | wc -l",
        run.path("o"),
        env!("CARGO_BIN_EXE_flashlab"),
        other.path(""),
        other.volume
    );
    assert_eq!(run.succeeds(&["m"], &["sh", "-c", &nested]), "outer\ninner\n0");
    other.is_left_in_order();
    run.is_left_in_order();
}

#[test]
fn a_user_without_fuse_or_namespaces_gets_the_reason() {
    let Some(run) = Run::new("48MiB") else { return };
    let unprivileged = |prefix: &str| {
        let flashlab = run.place.path("flashlab");
        // The build's directory may be closed to other users.
        if !fs::exists(&flashlab).unwrap() {
            fs::copy(env!("CARGO_BIN_EXE_flashlab"), &flashlab).unwrap();
            let volume = run.place.path("volume");
            run.directory.succeeds(&["repair", "create", &volume, "--size", "48MiB", "--segment", "1MiB"]);
            program("chown", &["nobody", &volume, &run.place.path("m")]).unwrap();
        }
        let script = format!(
            "cd {0}; {prefix} setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs \
             ./flashlab repair run --files m volume -- sh -c 'echo mine > m/a; cat m/a; id -un'",
            run.place.path("")
        );
        let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        run.directory.ran(output)
    };
    if program("setpriv", &["--reuid=nobody", "--regid=nogroup", "--clear-groups", "unshare", "-Um", "true"])
        .is_ok()
    {
        let ran = unprivileged("");
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "mine\nnobody\n"), "{ran}");
    }
    // In a user namespace that may have none in it, and with FUSE's device hidden.
    let (mapped, limit) = (run.place.path("mapped"), "echo 0 > /proc/sys/user/max_user_namespaces");
    let no_namespaces = format!(
        "f() {{ unshare -U sh -c 'until [ -e {mapped} ]; do sleep 0.02; done; exec sh -c \"$0\" - \"$@\"' '{limit} && exec \"$@\"' \"$@\" & \
         p=$!; sleep 0.3; echo 0 0 65536 > /proc/$p/uid_map; echo 0 0 65536 > /proc/$p/gid_map; : > {mapped}; wait $p; }}; f"
    );
    let no_fuse = "unshare -m sh -c 'mount --bind /dev/null /dev/fuse; exec \"$@\"' -";
    for (prefix, text) in [(no_namespaces.as_str(), "unshare"), (no_fuse, "FUSE")] {
        let _ = fs::remove_file(&mapped);
        if program("sh", &["-c", &format!("{prefix} true")]).is_err() {
            skip(Need::Root, format_args!("not possible here: {prefix}"));
            continue;
        }
        let _ = fs::remove_file(&mapped);
        let ran = unprivileged(prefix);
        assert_eq!(ran.code, Some(3), "{prefix}: {ran}");
        assert!(ran.err.contains(text) && ran.err.contains("nothing was started"), "{prefix}: {ran}");
    }
    run.is_left_in_order();
}

/// Waits until a condition holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited a minute until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until it says something on standard error, and returns the rest of what it says.
fn said_until(mut child: Child, text: &str) -> (BufReader<ChildStderr>, Child) {
    let said = BufReader::new(child.stderr.take().unwrap());
    said_until_more(said, child, text)
}

fn said_until_more(
    mut said: BufReader<ChildStderr>,
    child: Child,
    text: &str,
) -> (BufReader<ChildStderr>, Child) {
    let mut seen = String::new();
    while !seen.contains(text) {
        assert_ne!(said.read_line(&mut seen).unwrap(), 0, "it ended before it said `{text}`: {seen}");
    }
    (said, child)
}

#[test]
fn processes_that_a_program_leaves_behind_are_served_until_they_end() {
    let Some(run) = Run::new("48MiB") else { return };
    let go_on = run.place.path("go on");
    let script = format!(
        "(until [ -e '{go_on}' ]; do sleep 0.02; done; echo late > {}) > /dev/null & exit 4",
        run.path("late")
    );
    let child = started(run.command(&["m"], &["bash", "-c", &script]));
    let (mut said, child) = said_until(child, "its files are served to what it left behind: bash (");
    fs::write(&go_on, "").unwrap();
    said.read_to_string(&mut String::new()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4));
    assert_eq!(run.succeeds(&["m"], &["cat", &run.path("late")]), "late");
    // What is left behind gets the first signal; the second one ends the files, with what was served.
    let ready = run.place.path("ready");
    let script = format!(
        "(trap '' TERM; echo kept > {}; : > {ready}; while :; do sleep 0.05; done) > /dev/null 2>&1 & exit 0",
        run.path("kept")
    );
    let child = started(run.command(&["m"], &["bash", "-c", &script]));
    let (said, child) = said_until(child, "its files are served to what it left behind: bash (");
    until("it is ready", || fs::exists(&ready).unwrap());
    send(&child, "TERM");
    let (mut said, child) = said_until_more(said, child, "the signal was passed on");
    send(&child, "TERM");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let code = child.wait_with_output().unwrap().status.code();
    assert!(code == Some(1) && rest.contains("may be lost"), "{code:?} {rest}");
    let left = rest.rsplit_once("bash (").unwrap().1.split_once(')').unwrap().0.to_owned();
    program("kill", &["-KILL", &left]).unwrap();
    assert_eq!(run.succeeds(&["m"], &["cat", &run.path("kept")]), "kept");
    run.is_left_in_order();
}

#[test]
fn a_directory_that_is_removed_or_renamed_from_outside_ends_the_program_and_is_said() {
    let Some(run) = Run::new("48MiB") else { return };
    let data = run.data();
    for change in ["rmdir", "rename"] {
        let ready = run.place.path(change);
        let script = format!(
            "echo {change} > {0}/{change}; sync {0}/{change}; : > {ready}; while :; do sleep 0.05; done",
            data.display()
        );
        let mut child = started(run.command(&["m"], &["bash", "-c", &script]));
        let mut said = BufReader::new(child.stderr.take().unwrap());
        until("it is ready", || fs::exists(&ready).unwrap());
        match change {
            "rmdir" => fs::remove_dir(&data).unwrap(),
            _ => fs::rename(&data, run.place.path("elsewhere")).unwrap(),
        }
        fs::create_dir(&data).unwrap();
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        let code = child.wait().unwrap().code();
        assert!(code == Some(1) && text.contains("removed or renamed"), "{change}: {code:?} {text}");
        assert_eq!(run.succeeds(&["m"], &["cat", &run.path(change)]), change);
    }
    run.is_left_in_order();
}

#[test]
fn programs_get_errors_and_not_the_directory_beneath_when_the_server_is_killed() {
    let Some(run) = Run::new("48MiB") else { return };
    let (go_on, said) = (run.place.path("go on"), run.place.path("said"));
    let script = format!(
        "cd {0}; echo on > volume; sync volume; exec 7>> volume; echo ready > {said}; \
         until [ -e '{go_on}' ]; do sleep 0.02; done; \
         (echo past > {0}/past; echo past >&7; cat volume; ls {0}) > {said} 2>&1; echo end >> {said}",
        run.data().display()
    );
    let mut child = started(run.command(&["m"], &["bash", "-c", &script]));
    until("it is ready", || fs::read_to_string(&said).is_ok_and(|said| said.contains("ready")));
    send(&child, "KILL");
    child.wait().unwrap();
    fs::write(&go_on, "").unwrap();
    until("it has ended", || fs::read_to_string(&said).is_ok_and(|said| said.ends_with("end\n")));
    let said = fs::read_to_string(&said).unwrap();
    assert_eq!(
        said.lines()
            .filter(|line| line.contains("not connected")
                || line.contains("aborted")
                || line.contains("rror"))
            .count(),
        4,
        "{said}"
    );
    assert_eq!(fs::read_dir(run.data()).unwrap().count(), 0);
    assert_eq!(run.succeeds(&["m"], &["cat", &run.path("volume")]), "on");
    run.is_left_in_order();
}

#[test]
fn a_full_volume_is_an_error_and_loses_nothing() {
    let Some(run) = Run::new("48MiB") else { return };
    let script = "for i in $(seq 100); do head -c 1000000 /dev/zero | tr '\\0' x > f$i 2> /dev/null || { echo full; break; }; sync f$i; done; \
                  rm -f f$i; ls | wc -l";
    let said = run.shell(script);
    let (full, count) = said.split_once('\n').unwrap();
    assert_eq!(full, "full");
    assert!(count.parse::<u32>().unwrap() > 10, "{said}");
    let sums = run.shell("cat f* | tr -d x | wc -c; rm f*; echo fits > new; cat new");
    assert_eq!(sums, "0\nfits");
    let Ok(_) = program("sh", &["-c", "command -v sqlite3"]) else {
        return skip(Need::Programs, "sqlite3 is not installed");
    };
    let script = "sqlite3 a.db 'create table t(i integer primary key, s)'; n=0; \
                  while sqlite3 a.db \"insert into t(s) values(hex(zeroblob(500000)))\" 2> /dev/null; do n=$((n+1)); done; \
                  echo $n $(sqlite3 a.db 'select count(*) from t; pragma integrity_check')";
    let said = run.shell(&format!("set +e; {script}"));
    let found: Vec<&str> = said.split(' ').collect();
    assert_eq!((found[0], found[2]), (found[1], "ok"), "{said}");
    assert!(found[0].parse::<u32>().unwrap() > 5, "{said}");
    run.is_left_in_order();
}

#[test]
fn a_control_socket_answers_while_the_program_runs() {
    let Some(run) = Run::new("48MiB") else { return };
    let socket = run.place.path("socket");
    let script = format!(
        "echo a > {}; {} repair status {socket} --json",
        run.path("a"),
        env!("CARGO_BIN_EXE_flashlab")
    );
    let ran = run.run_with(&["--control", &socket], &["m"], &["sh", "-c", &script]);
    assert!(json(&ran.out)["counters"]["host_pages"].as_u64() > Some(0), "{ran}");
    assert!(!fs::exists(&socket).unwrap());
}
