//! `flashlab repair run`: unmodified programs whose files live on a volume. If the library was not built (`cargo test --workspace`
//! builds it), the tests report that they are skipped.
//!
//! What covers the files is proven with strace. It sees each call of the library as a message to the server; their number and bytes
//! are those that the server counted. And it sees no system call with data on a managed file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use flashlab_skip::{Need, skip};
use serde_json::Value;

use crate::files::{Place, postgresql, run_as};
use crate::live_disk::send;
use crate::repair::{acknowledged_until, insert_script, new_volume};
use crate::support::{Directory, Ran, program};

/// System calls that move or sync data of a file.
const DATA_CALLS: &str = "read,write,pread64,pwrite64,readv,writev,preadv,pwritev,preadv2,pwritev2,sendfile,\
                          copy_file_range,splice,mmap,fsync,fdatasync,ftruncate,fallocate,sync_file_range,sendmsg";

/// A volume, and a directory whose files live on it.
struct Run {
    directory: Directory,
    place: Place,
    volume: String,
    library: String,
}

impl Run {
    /// `None`: the library was not built.
    fn new(size: &str) -> Option<Run> {
        let built = std::env::current_exe().unwrap();
        let built = built.with_file_name("libflashlab_preload.so");
        if !built.is_file() {
            skip(Need::Programs, format_args!("{} was not built", built.display()));
            return None;
        }
        let (directory, place) = (Directory::new(), Place::new());
        // Where every user may read it.
        let library = place.path("library.so");
        fs::copy(built, &library).unwrap();
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
        let volume = new_volume(&directory, size);
        Some(Run { directory, place, volume, library })
    }

    /// Where the managed files are.
    fn data(&self) -> PathBuf {
        self.place.mount()
    }

    fn path(&self, name: &str) -> String {
        self.data().join(name).to_str().unwrap().to_owned()
    }

    /// A command that runs a program with these files.
    fn command(&self, patterns: &[&str], command: &[&str]) -> Command {
        let report = self.place.path("report");
        let mut arguments = vec!["repair", "run", "--report", &report];
        let patterns: Vec<String> = patterns.iter().map(|pattern| self.path(pattern)).collect();
        patterns.iter().for_each(|pattern| arguments.extend(["--files", pattern]));
        arguments.extend([&self.volume, "--"]);
        arguments.extend(command);
        let mut made = self.directory.command(&arguments);
        made.env("FLASHLAB_PRELOAD", &self.library);
        made
    }

    fn run(&self, patterns: &[&str], command: &[&str]) -> Ran {
        self.directory.ran(self.command(patterns, command).output().unwrap())
    }

    fn succeeds(&self, patterns: &[&str], command: &[&str]) -> String {
        let ran = self.run(patterns, command);
        assert_eq!(ran.code, Some(0), "{command:?}\n{ran}");
        ran.out.trim().to_owned()
    }

    fn count(&self, key: &str) -> u64 {
        let report = fs::read_to_string(self.place.path("report")).unwrap();
        serde_json::from_str::<Value>(&report).unwrap()[key].as_u64().unwrap()
    }

    /// Runs a command under strace, and checks that all data went through the library.
    fn is_covered(&self, patterns: &[&str], command: &[&str]) -> String {
        let trace = self.place.path("trace");
        let calls = format!("trace={DATA_CALLS}");
        let strace = ["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-s", "0", "-o", &trace, "-e", &calls];
        let said = self.succeeds(patterns, &[&strace, command].concat());
        let trace = Trace::read(&trace);
        let data = self.data().canonicalize().unwrap();
        let past = trace.of_files(&|path| {
            path.starts_with("/memfd:flashlab-file-") || path.starts_with(data.to_str().unwrap())
        });
        // Directories are the kernel's.
        let past: Vec<&Call> = past.into_iter().filter(|call| !Path::new(&call.path).is_dir()).collect();
        assert!(
            past.is_empty(),
            "{} system calls with data on managed files: {:?}",
            past.len(),
            past.first()
        );
        let sent: Vec<&Call> = trace.calls.iter().filter(|call| call.name == "sendmsg").collect();
        // strace itself, and its shell, have the library, too, but no managed files.
        assert_eq!(
            sent.len() as u64,
            self.count("calls"),
            "calls that strace saw, and that the server answered"
        );
        assert_eq!(sent.iter().map(|call| call.result).sum::<u64>(), self.count("call_bytes"));
        assert!(self.count("writes") > 0 && self.count("reads") > 0 && self.count("syncs") > 0);
        said
    }
}

/// A system call with a descriptor.
#[derive(Debug)]
struct Call {
    name: String,
    path: String,
    result: u64,
}

struct Trace {
    calls: Vec<Call>,
}

impl Trace {
    /// Reads the output of `strace -f -y`. Calls that another process interrupts are in two lines.
    fn read(path: &str) -> Trace {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let mut begun: BTreeMap<String, String> = BTreeMap::new();
        let mut calls = Vec::new();
        for line in text.lines() {
            let Some((process, line)) = line.trim_start().split_once(' ') else { continue };
            let line = line.trim_start();
            let whole = if let Some(first) = line.strip_suffix(" <unfinished ...>") {
                begun.insert(process.to_owned(), first.to_owned());
                continue;
            } else if let Some((_, last)) = line.split_once(" resumed>").filter(|_| line.starts_with("<... "))
            {
                begun.remove(process).unwrap_or_default() + last
            } else {
                line.to_owned()
            };
            calls.extend(Trace::call(&whole));
        }
        assert!(!calls.is_empty(), "strace saw nothing: {text}");
        Trace { calls }
    }

    fn call(line: &str) -> Option<Call> {
        let (name, rest) = line.split_once('(')?;
        let path =
            rest.split_once('<').map_or("", |(_, path)| path.split_once('>').map_or("", |(path, _)| path));
        let result = line.rsplit_once(" = ")?.1.split([' ', '<']).next()?.parse().unwrap_or(0);
        Some(Call { name: name.to_owned(), path: path.to_owned(), result })
    }

    fn of_files(&self, is_managed: &dyn Fn(&str) -> bool) -> Vec<&Call> {
        let calls = self.calls.iter().filter(|call| call.name != "sendmsg");
        calls.filter(|call| is_managed(&call.path)).collect()
    }
}

fn has_strace() -> bool {
    let works = program("strace", &["-o", "/dev/null", "true"]);
    works.map_err(|reason| skip(Need::Strace, reason)).is_ok()
}

fn has_sqlite() -> bool {
    program("sh", &["-c", "command -v sqlite3"])
        .map_err(|_| skip(Need::Programs, "sqlite3 is not installed"))
        .is_ok()
}

#[test]
fn programs_see_ordinary_files_and_others_see_none() {
    let Some(run) = Run::new("96MiB") else { return };
    let data = run.data().display().to_string();
    let script = format!(
        "set -e; cd {data}; mkdir -p sub; echo one > a; echo two >> a; cp a sub/b; mv sub/b sub/c; ln a d; \
         cat a sub/c; wc -c < d; stat -c '%s %F %h' a; head -c 3000000 /dev/zero > big; truncate -s 10 big; \
         stat -c %s big; chmod 600 a; stat -c %a d; ls; rm big; ( echo x; echo y ) > shared; cat shared"
    );
    let said = run.succeeds(&["*"], &["sh", "-c", &script]);
    let expected = "one\ntwo\none\ntwo\n8\n8 regular file 2\n10\n600\na\nbig\nd\nsub\nx\ny";
    assert_eq!(said, expected);
    // The next run finds them, also when the placeholders are lost; without the library nobody can open them.
    assert_eq!(run.succeeds(&["*"], &["cat", &run.path("sub/c")]), "one\ntwo");
    assert!(fs::metadata(run.path("a")).unwrap().file_type().is_socket());
    let error = fs::read(run.path("a")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(6), "ENXIO: {error}");
    fs::remove_dir_all(run.path("sub")).unwrap();
    fs::remove_file(run.path("d")).unwrap();
    assert_eq!(run.succeeds(&["*"], &["cat", &run.path("sub/c"), &run.path("d")]), "one\ntwo\none\ntwo");
    // The exit code is the program's.
    assert_eq!(run.run(&["*"], &["sh", "-c", "exit 7"]).code, Some(7));
}

#[test]
fn links_of_the_volume_are_there_and_a_control_socket_answers_meanwhile() {
    let Some(run) = Run::new("96MiB") else { return };
    let (file, socket, mount) = (run.path("a"), run.place.path("socket"), run.place.path("other"));
    run.succeeds(&["*"], &["sh", "-c", &format!("echo one > {file}")]);
    fs::create_dir(&mount).unwrap();
    let arguments = ["repair", "mount", &run.volume, &mount, "--daemon", "--control", &socket];
    let mounted = run.directory.flashlab(&arguments);
    if mounted.err.contains("FUSE needs") {
        return skip(Need::Fuse, "FUSE is not possible here");
    }
    assert_eq!(mounted.code, Some(0), "{mounted}");
    symlink("a", format!("{mount}{}", run.data().canonicalize().unwrap().join("link").display())).unwrap();
    run.directory.succeeds(&["live", "stop", &socket]);
    let status =
        format!("cat {}; {} repair status {socket} --json", run.path("link"), env!("CARGO_BIN_EXE_flashlab"));
    let pattern = run.path("*");
    let arguments =
        ["repair", "run", "--control", &socket, "--files", &pattern, &run.volume, "--", "sh", "-c", &status];
    let made = run.directory.command(&arguments).env("FLASHLAB_PRELOAD", &run.library).output().unwrap();
    let ran = run.directory.ran(made);
    let status = ran.out.strip_prefix("one\n").unwrap_or_else(|| panic!("{ran}"));
    assert!(
        serde_json::from_str::<Value>(status).unwrap()["counters"]["host_pages"].as_u64() > Some(0),
        "{ran}"
    );
    assert!(fs::symlink_metadata(run.path("link")).unwrap().is_symlink());
}

#[test]
fn what_would_pass_by_is_refused() {
    let Some(run) = Run::new("96MiB") else { return };
    let refused = |patterns: &[&str], command: &[&str], code: i32, text: &str| {
        let ran = run.run(patterns, command);
        assert!(ran.code == Some(code) && ran.err.contains(text), "{command:?}: {ran}");
    };
    refused(&["nowhere/*"], &["true"], 2, "make the directory first");
    refused(&["*"], &["no such program"], 2, "there is no program");
    fs::write(run.path("ordinary"), "data").unwrap();
    refused(&["*"], &["true"], 3, "move them to the same paths there");
    fs::remove_file(run.path("ordinary")).unwrap();
    // A program without the library leaves an ordinary file.
    let passing = format!("env -u LD_PRELOAD sh -c 'echo past > {}'", run.path("past"));
    refused(&["*"], &["sh", "-c", &passing], 3, "past the library");
    fs::remove_file(run.path("past")).unwrap();
    let source = run.directory.write("static.c", "int main(void) { return 0; }");
    let binary = run.directory.path("static");
    let (source, binary) = (source.to_str().unwrap(), binary.to_str().unwrap());
    if program("cc", &["-static", "-o", binary, source]).is_ok() {
        refused(&["*"], &[binary], 3, "static program");
        refused(&["*"], &["sh", "-c", &format!("{binary} || exit 5")], 5, "static program");
    }
    let Some(python) = ["python3"].into_iter().find(|python| program(python, &["--version"]).is_ok()) else {
        return skip(Need::Python, "python3 is not installed");
    };
    let script = format!(
        "import ctypes, errno, mmap, os\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         for number in (425, 206):\n\
         \x20   assert libc.syscall(number, 8, 0) == -1 and ctypes.get_errno() == errno.EPERM\n\
         file = os.open('{path}', os.O_RDWR | os.O_CREAT, 0o644)\n\
         os.write(file, b'x' * 5000)\n\
         try:\n\
         \x20   mmap.mmap(file, 4096)\n\
         \x20   raise SystemExit('it was mapped')\n\
         except OSError as error:\n\
         \x20   assert error.errno == errno.ENODEV, error\n\
         # Past the library, the descriptor takes no data.\n\
         assert libc.syscall(1, file, b'data', 4) == -1 and ctypes.get_errno() == errno.EPERM\n\
         copy = os.dup(file)\n\
         process = os.fork()\n\
         if process == 0:\n\
         \x20   os.write(copy, b'child')\n\
         \x20   os._exit(0)\n\
         os.waitpid(process, 0)\n\
         os.write(file, b'parent')\n\
         assert os.pread(copy, 20, 4999) == b'xchildparent'\n\
         os.execvp('sh', ['sh', '-c', 'echo exec >&%d; tail -c 5 {path}' % (os.set_inheritable(copy, True) or copy)])",
        path = run.path("file")
    );
    let ran = run.run(&["*"], &[python, "-c", &script]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "exec"), "{ran}");
    assert!(ran.err.contains("mmap of a managed file"), "{ran}");
}

#[test]
fn sqlite_writes_on_the_volume_what_it_would_write_to_files() {
    let Some(run) = Run::new("96MiB") else { return };
    if !has_sqlite() || !has_strace() {
        return;
    }
    let sql = |path: &str| {
        let text = "pragma journal_mode=delete; create table t(i integer primary key, s); \
                    insert into t select value, hex(zeroblob(300)) from generate_series(1, 300); \
                    update t set s = 'short' where i % 3 = 0; select count(*), sum(length(s)) from t; pragma integrity_check;";
        [vec!["sqlite3".to_owned(), path.to_owned()], vec![text.to_owned()]].concat()
    };
    let managed = sql(&run.path("a.db"));
    let managed: Vec<&str> = managed.iter().map(String::as_str).collect();
    let said = run.is_covered(&["*.db*"], &managed);
    // The same without the library: the kernel has the same writes and reads.
    let native = run.directory.path("a.db").canonicalize().unwrap_or_else(|_| run.directory.path("a.db"));
    let trace = run.place.path("native");
    let calls = format!("trace={DATA_CALLS}");
    let native_sql = sql(native.to_str().unwrap());
    let mut arguments = vec!["-f", "-y", "-qq", "-s", "0", "-o", &trace, "-e", &calls];
    arguments.extend(native_sql.iter().map(String::as_str));
    assert_eq!(program("strace", &arguments).unwrap(), said);
    let trace = Trace::read(&trace);
    let kernel = trace.of_files(&|path| path.contains("/a.db"));
    let sum = |names: &[&str]| {
        let calls = kernel.iter().filter(|call| names.contains(&call.name.as_str()));
        calls.fold((0, 0), |(count, bytes), call| (count + 1, bytes + call.result))
    };
    assert_eq!(sum(&["pwrite64", "write"]), (run.count("writes"), run.count("written_bytes")));
    assert_eq!(sum(&["pread64", "read"]), (run.count("reads"), run.count("read_bytes")));
}

#[test]
fn several_processes_share_a_sqlite_database() {
    let Some(run) = Run::new("96MiB") else { return };
    if !has_sqlite() {
        return;
    }
    let database = run.path("a.db");
    let script = format!(
        "set -e; sqlite3 {database} 'create table t(i)'; \
         one() {{ for i in 1 2 3 4 5 6 7 8; do sqlite3 -cmd '.timeout 30000' {database} 'insert into t values(1)'; done; }}; \
         one & one & one & wait; sqlite3 {database} 'select count(*) from t; pragma integrity_check'"
    );
    assert_eq!(run.succeeds(&["*.db*"], &["sh", "-c", &script]), "24\nok");
}

#[test]
fn a_database_keeps_what_it_committed_when_the_owner_of_its_files_is_killed() {
    let Some(run) = Run::new("96MiB") else { return };
    if !has_sqlite() {
        return;
    }
    // The index of the log is mapped, so it stays in the file system.
    for (journal, patterns) in [("delete", &["delete.db*"][..]), ("wal", &["wal.db", "wal.db-wal"])] {
        let database = run.path(&format!("{journal}.db"));
        let script = insert_script(Path::new(&database), journal);
        let command = run.command(patterns, &["sh", "-c", &script]);
        let committed = acknowledged_until(command, 30, |owner| send(owner, "KILL"));
        let query = "pragma integrity_check; select count(*) from t; select max(i) from t;";
        let found = run.succeeds(patterns, &["sqlite3", &database, query]);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!((lines[0], lines[1]), ("ok", lines[2]), "{journal}");
        // The commit that was under way may have been durable.
        let last: u64 = lines[2].parse().unwrap();
        assert!(last == committed || last == committed + 1, "{journal}: {last}, acknowledged {committed}");
    }
    run.directory.succeeds(&["repair", "check", &run.volume]);
}

#[test]
fn postgresql_runs_with_all_its_files_on_the_volume() {
    let Some(run) = Run::new("256MiB") else { return };
    let Some(bin) = postgresql() else { return };
    if !has_strace() {
        return;
    }
    let data = run.path("pg");
    let sockets = run.place.path("sockets");
    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o777)).unwrap();
    program("sh", &["-c", &format!("mkdir -m 700 {data} && chown postgres {data}")]).unwrap();
    let as_postgres = ["setpriv", "--reuid", "postgres", "--regid", "nogroup", "--clear-groups"];
    let initdb = format!("cd /tmp; {bin}/initdb -D {data} -A trust -N");
    run.succeeds(&["pg/*"], &[&as_postgres[..], &["sh", "-c", &initdb]].concat());
    let script = format!(
        "set -e; cd /tmp; export PGHOST={sockets}; \
         {bin}/pg_ctl -D {data} -l {sockets}/log -o '-h \"\" -k {sockets}' -w start > /dev/null; \
         {bin}/pgbench -i -s 1 -q postgres 2> /dev/null > /dev/null; {bin}/pgbench -n -c 2 -t 20 postgres > /dev/null; \
         {bin}/pg_amcheck --install-missing postgres; {bin}/psql -Atc 'select count(*) from pgbench_history' postgres; \
         {bin}/pg_ctl -D {data} -m fast -w stop > /dev/null"
    );
    let command = [&as_postgres[..], &["sh", "-c", &script]].concat();
    let said = run.is_covered(&["pg/*"], &command);
    assert_eq!(said, "40");
    assert!(
        run_as("postgres", &format!("{bin}/pg_controldata {data}")).is_err(),
        "its files are not in the file system"
    );
}

#[test]
fn mariadb_runs_with_all_its_files_on_the_volume() {
    let Some(run) = Run::new("256MiB") else { return };
    if program("sh", &["-c", "command -v mariadbd"]).is_err() || run_as("nobody", "true").is_err() {
        return skip(Need::Mariadb, "MariaDB is not installed, or this user cannot become nobody");
    }
    if !has_strace() {
        return;
    }
    let data = run.path("my");
    let sockets = run.place.path("sockets");
    program("sh", &["-c", &format!("mkdir {data} {sockets} && chown nobody {data} {sockets}")]).unwrap();
    let install =
        format!("mariadb-install-db --no-defaults --user=nobody --datadir={data} --skip-test-db > /dev/null");
    run.succeeds(&["my/*"], &["sh", "-c", &install]);
    let script = format!(
        "set -e; mariadbd --no-defaults --user=nobody --datadir={data} --socket={sockets}/s --skip-networking \
         --skip-grant-tables --innodb-buffer-pool-size=16M --innodb-use-native-aio=0 --pid-file={sockets}/pid \
         > {sockets}/log 2>&1 & \
         until mariadb-admin -S {sockets}/s ping > /dev/null 2>&1; do kill -0 $! || exit 1; sleep 0.1; done; \
         mariadb -S {sockets}/s -BNe \"create database d; create table d.t(i int primary key, s varchar(200)) engine=innodb; \
         insert into d.t select seq, repeat('x', 100) from d.seq_1_to_2000; select count(*) from d.t\"; \
         mariadb-check -S {sockets}/s --extended d > /dev/null; mariadb-admin -S {sockets}/s shutdown; wait"
    );
    assert_eq!(run.is_covered(&["my/*"], &["sh", "-c", &script]), "2000");
}
