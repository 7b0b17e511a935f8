//! `flashlab repair mount`: files on a volume, and databases in the directory whose server is killed.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flashlab_skip::{Need, skip};
use rustix::io::Errno;

use crate::live_disk::{first_line, pattern, send};
use crate::repair::{insert_until, json, new_volume};
use crate::support::{Directory, program};

/// A directory that every user may reach, with the mount in it.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(place.path().join("m")).unwrap();
        Place(place)
    }

    pub fn mount(&self) -> PathBuf {
        self.0.path().join("m")
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

/// A mounted volume.
pub struct Mounted {
    pub child: Child,
    pub directory: PathBuf,
    /// It is unmounted, or its dead mount is for the next one to replace.
    is_left: bool,
}

impl Mounted {
    /// Mounts it. `None`: not possible here.
    pub fn begin(directory: &Directory, volume: &str, place: &Place) -> Option<Mounted> {
        let mount = place.mount();
        let mut command = directory.command(&["repair", "mount", volume, mount.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let line = first_line(&mut child, &["FUSE needs"])?;
        assert_eq!(Path::new(line.trim()), mount.canonicalize().unwrap());
        Some(Mounted { child, directory: mount, is_left: false })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Ends the server in order. Returns its messages.
    pub fn end(mut self) -> String {
        send(&self.child, "TERM");
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        self.is_left = true;
        said
    }

    /// Waits for the end of a server that was killed. Its mount stays, and no program gets past it.
    pub fn reap(mut self) {
        self.child.wait().unwrap();
        let error = fs::write(self.path("after the kill"), b"").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
        self.is_left = true;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            send(&self.child, "KILL");
            let _ = self.child.wait();
        }
        if !self.is_left {
            // A failed test leaves nothing mounted.
            let _ = program("umount", &["-l", self.directory.to_str().unwrap()]);
        }
    }
}

#[test]
fn files_are_what_programs_expect_of_files_and_are_there_after_the_next_mount() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let data = pattern(1, 3 << 20);
    fs::create_dir_all(mounted.path("a/b")).unwrap();
    fs::write(mounted.path("a/b/new"), &data).unwrap();
    fs::write(mounted.path("a/old"), b"old").unwrap();
    let open = OpenOptions::new().read(true).write(true).open(mounted.path("a/old")).unwrap();
    fs::rename(mounted.path("a/b/new"), mounted.path("a/old")).unwrap();
    // The file that was replaced lives while it is open.
    open.write_all_at(b"still", 0).unwrap();
    let mut read = [0; 5];
    open.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"still");
    drop(open);
    fs::hard_link(mounted.path("a/old"), mounted.path("other name")).unwrap();
    assert_eq!(fs::metadata(mounted.path("a/old")).unwrap().nlink(), 2);
    let file = OpenOptions::new().write(true).open(mounted.path("other name")).unwrap();
    file.set_len(5 << 20).unwrap();
    file.write_all_at(b"end", (5 << 20) - 3).unwrap();
    fs::set_permissions(mounted.path("other name"), fs::Permissions::from_mode(0o640)).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::remove_dir(mounted.path("a")).unwrap_err().kind(), std::io::ErrorKind::DirectoryNotEmpty);
    fs::remove_dir(mounted.path("a/b")).unwrap();
    for number in 0..300 {
        fs::write(mounted.path(&format!("a/{number}")), number.to_string()).unwrap();
    }
    mounted.end();
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    let mut expected = data;
    expected.resize((5 << 20) - 3, 0);
    expected.extend_from_slice(b"end");
    assert!(fs::read(mounted.path("a/old")).unwrap() == expected);
    assert_eq!(fs::metadata(mounted.path("a/old")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(mounted.path("a")).unwrap().count(), 301);
    assert_eq!(fs::read_to_string(mounted.path("a/299")).unwrap(), "299");
    fs::remove_dir_all(mounted.path("a")).unwrap();
    fs::remove_file(mounted.path("other name")).unwrap();
    assert_eq!(fs::read_dir(&mounted.directory).unwrap().count(), 0);
    mounted.end();
    let served = directory.flashlab(&["repair", "mount", &volume, "/proc"]);
    assert!(served.code == Some(2) && served.err.contains("not empty"), "{}", served.err);
}

#[test]
fn symbolic_links_lead_where_they_say_and_files_survive_a_smaller_volume() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let data = pattern(3, 5 << 20);
    for name in ["removed 1", "removed 2", "removed 3", "kept"] {
        fs::write(mounted.path(name), &data).unwrap();
    }
    for number in 1..=3 {
        fs::remove_file(mounted.path(&format!("removed {number}"))).unwrap();
    }
    symlink("kept", mounted.path("link")).unwrap();
    symlink("nowhere", mounted.path("dangling")).unwrap();
    fs::create_dir(mounted.path("a")).unwrap();
    symlink("../link", mounted.path("a/link")).unwrap();
    symlink("a", mounted.path("b")).unwrap();
    let long = "x".repeat(4096);
    assert!(symlink(&long, mounted.path("long")).is_err(), "Linux has no longer ones than 4095 bytes");
    symlink(&long[1..], mounted.path("long")).unwrap();
    assert_eq!(symlink("kept", mounted.path("link")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    OpenOptions::new().append(true).open(mounted.path("b/link")).unwrap().write_all(b"end").unwrap();
    mounted.end();
    let refused = directory.flashlab(&["repair", "resize", &volume, "4MiB"]);
    assert!(refused.code != Some(0) && refused.err.contains("larger size"), "{}", refused.err);
    let resized = json(&directory.succeeds(&["repair", "resize", &volume, "16MiB", "--json"]).out);
    assert!(resized["moved_bytes"].as_u64().unwrap() > 1 << 20, "{resized}");
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    assert!(fs::read(mounted.path("a/link")).unwrap() == [&data[..], b"end"].concat());
    assert_eq!(fs::read_link(mounted.path("long")).unwrap().to_str(), Some(&long[1..]));
    assert_eq!(fs::read(mounted.path("dangling")).unwrap_err().kind(), ErrorKind::NotFound);
    let status = fs::symlink_metadata(mounted.path("a/link")).unwrap();
    assert!(status.is_symlink() && status.len() == 7 && status.mode() & 0o777 == 0o777, "{status:?}");
    fs::remove_file(mounted.path("link")).unwrap();
    assert_eq!(fs::metadata(mounted.path("kept")).unwrap().len(), (5 << 20) + 3);
    mounted.end();
}

/// A volume with files that is formatted as a disk has lost them, and files would destroy the data of a disk.
#[test]
fn a_volume_with_files_is_no_disk_and_a_disk_has_no_files() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    fs::write(mounted.path("kept"), pattern(6, 2 << 20)).unwrap();
    mounted.end();
    let serve = ["repair", "serve", &volume, "--fuse", &place.path("m")];
    for options in [&serve[..], &[&serve[..], &["--daemon"]].concat()] {
        let refused = directory.flashlab(options);
        assert_eq!(refused.code, Some(3), "{refused}");
        for text in ["1 files and directories with 2", "would lose them", "flashlab repair mount", "--uuid"] {
            assert!(refused.err.contains(text), "{text}: {refused}");
        }
    }
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    assert!(fs::read(mounted.path("kept")).unwrap() == pattern(6, 2 << 20));
    mounted.end();

    let disk = directory.path("disk").to_str().unwrap().to_owned();
    directory.succeeds(&["repair", "create", &disk, "--size", "64MiB", "--segment", "256KiB"]);
    let mut command = directory.command(&["repair", "serve", &disk, "--fuse", &place.path("m"), "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ready = first_line(&mut child, &["FUSE needs"]).unwrap();
    let path = json(&ready)["path"].as_str().unwrap().to_owned();
    let data = pattern(7, 1 << 20);
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&data, 0).unwrap();
    send(&child, "TERM");
    assert!(child.wait().unwrap().success());
    let refused = directory.flashlab(&["repair", "mount", &disk, &place.path("m")]);
    assert_eq!(refused.code, Some(3), "{refused}");
    assert!(refused.err.contains("the data of a block device, which files would destroy"), "{refused}");
    // Damage is seen best on a volume that was closed in order, and a refusal leaves it so.
    let checked = directory.flashlab(&["repair", "check", &disk]);
    assert!(checked.out.contains("closed in order") && !checked.out.contains("not closed"), "{checked}");
    let image = directory.path("image");
    directory.succeeds(&["repair", "dump", &disk, "-o", image.to_str().unwrap()]);
    assert!(fs::read(image).unwrap().starts_with(&data));
}

#[test]
fn a_mount_is_asked_and_stopped_through_its_control_socket() {
    let (directory, place) = (Directory::new(), Place::new());
    let volume = new_volume(&directory, "64MiB");
    let (mount, socket) = (place.path("m"), place.path("socket"));
    let mounted = directory.flashlab(&["repair", "mount", &volume, &mount, "--daemon", "--control", &socket]);
    if mounted.err.contains("FUSE needs") {
        return skip(Need::Fuse, "FUSE is not possible here");
    }
    assert_eq!(mounted.code, Some(0), "{mounted}");
    fs::write(place.path("m/file"), pattern(4, 1 << 20)).unwrap();
    let status = json(&directory.succeeds(&["repair", "status", &socket, "--json"]).out);
    assert!(status["counters"]["host_pages"].as_u64().unwrap() > 0, "{status}");
    let refused = directory.flashlab(&["live", "fault", &socket, "corrupt,from=0B,to=4KiB,count=1"]);
    assert!(refused.code != Some(0) && refused.err.contains("status and stop"), "{refused}");
    directory.succeeds(&["live", "stop", &socket]);
    assert!(!Path::new(&socket).exists() && !Path::new(&place.path("m/file")).exists());
    assert_eq!(json(&directory.succeeds(&["repair", "status", &volume, "--json"]).out)["is_clean"], true);
}

#[test]
fn a_database_keeps_what_it_committed_when_the_server_of_its_files_is_killed() {
    let (directory, place) = (Directory::new(), Place::new());
    if program("sh", &["-c", "command -v sqlite3"]).is_err() {
        return skip(Need::Programs, "sqlite3 is not installed");
    }
    let volume = new_volume(&directory, "96MiB");
    for journal in ["delete", "wal"] {
        let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
        let database = mounted.path(journal);
        let committed = insert_until(&database, journal, 30, || send(&mounted.child, "KILL"));
        mounted.reap();
        let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
        let query = "pragma integrity_check; select count(*) from t; select max(i) from t;";
        let found = program("sqlite3", &[database.to_str().unwrap(), query]).unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!((lines[0], lines[1]), ("ok", lines[2]), "{journal}");
        // The commit that was under way may have been durable.
        let last: u64 = lines[2].parse().unwrap();
        assert!(last == committed || last == committed + 1, "{journal}: {last}, acknowledged {committed}");
        mounted.end();
    }
    directory.succeeds(&["repair", "check", &volume]);
}

/// Runs a command of the shell as another user.
pub fn run_as(user: &str, command: &str) -> Result<String, String> {
    let output = Command::new("setpriv")
        .args(["--reuid", user, "--regid", "nogroup", "--clear-groups", "sh", "-c", command])
        .current_dir("/tmp")
        .output();
    let output = output.map_err(|error| format!("setpriv: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command}: {} {}", text(&output.stdout), text(&output.stderr))),
    }
}

/// The folder with PostgreSQL's programs. `None`: it cannot be run here.
pub fn postgresql() -> Option<String> {
    let found = program("sh", &["-c", "ls -d /usr/lib/postgresql/*/bin | tail -1"]);
    match found {
        Ok(folder) if !folder.is_empty() && run_as("postgres", "true").is_ok() => Some(folder),
        _ => {
            skip(Need::Postgresql, "PostgreSQL is not installed, or this user cannot become postgres");
            None
        }
    }
}

#[test]
fn postgresql_keeps_what_it_committed_when_the_server_of_its_files_is_killed() {
    let (directory, place) = (Directory::new(), Place::new());
    let Some(bin) = postgresql() else { return };
    let volume = new_volume(&directory, "256MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let sockets = place.path("sockets");
    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o777)).unwrap();
    let data = mounted.path("pg").display().to_string();
    program("sh", &["-c", &format!("mkdir -m 700 {data} && chown postgres {data}")]).unwrap();
    let postgres = |command: &str| run_as("postgres", &format!("PGHOST={sockets} {bin}/{command}"));
    let start = format!("pg_ctl -D {data} -l {sockets}/log -o '-h \"\" -k {sockets}' -w start");
    postgres(&format!("initdb -D {data} -A trust -N")).unwrap();
    postgres(&start).unwrap();
    postgres("pgbench -i -s 1 -q postgres").unwrap();
    // Each client writes its acknowledged transactions to a log.
    let log = format!("{sockets}/transactions");
    let kill = || {
        std::thread::sleep(Duration::from_millis(1500));
        send(&mounted.child, "KILL");
    };
    std::thread::scope(|scope| {
        scope.spawn(kill);
        let ended = postgres(&format!("pgbench -n -c 3 -T 60 -l --log-prefix={log} postgres"));
        assert!(ended.is_err(), "the server was killed: {ended:?}");
    });
    mounted.reap();
    let _ = run_as("postgres", &format!("kill -9 $(head -1 {sockets}/.s.PGSQL.5432.lock)"));
    let acknowledged = program("sh", &["-c", &format!("cat {log}.* | wc -l")]).unwrap();
    let acknowledged: u64 = acknowledged.parse().unwrap();
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    fs::remove_file(mounted.path("pg/postmaster.pid")).unwrap();
    let _ = fs::remove_file(format!("{sockets}/.s.PGSQL.5432.lock"));
    postgres(&start).unwrap();
    postgres("pg_amcheck --install-missing --heapallindexed postgres").unwrap();
    let query = "select count(*) from pgbench_history; \
                 select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)";
    let found = postgres(&format!("psql -At -c '{query}' postgres")).unwrap();
    postgres(&format!("pg_ctl -D {data} -m fast -w stop")).unwrap();
    mounted.end();
    let lines: Vec<&str> = found.lines().collect();
    let committed: u64 = lines[0].parse().unwrap();
    assert!(committed >= acknowledged && acknowledged > 0, "{committed} of {acknowledged} transactions");
    assert!(committed <= acknowledged + 3, "{committed} of {acknowledged} transactions");
    assert_eq!(lines[1], "t");
}

#[test]
fn mariadb_keeps_what_it_committed_when_the_server_of_its_files_is_killed() {
    let (directory, place) = (Directory::new(), Place::new());
    if program("sh", &["-c", "command -v mariadbd"]).is_err() || run_as("nobody", "true").is_err() {
        return skip(Need::Mariadb, "MariaDB is not installed, or this user cannot become nobody");
    }
    let volume = new_volume(&directory, "256MiB");
    let Some(mounted) = Mounted::begin(&directory, &volume, &place) else { return };
    let data = mounted.path("my").display().to_string();
    program("sh", &["-c", &format!("mkdir {data} && chown nobody {data}")]).unwrap();
    let sockets = place.path("sockets");
    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o777)).unwrap();
    let install = format!("mariadb-install-db --no-defaults --user=nobody --datadir={data} --skip-test-db");
    program("sh", &["-c", &install]).unwrap();
    let mut server = mariadb_start(&data, &sockets, "");
    let sql = |text: &str| program("mariadb", &["-S", &format!("{sockets}/s"), "-BNe", text]);
    sql("create database d; create table d.t(i int primary key, s varchar(500)) engine=innodb").unwrap();
    let insert = format!(
        "i=1; while mariadb -S {sockets}/s -e \"insert into d.t values($i, repeat('x',400))\" 2>/dev/null; \
         do echo $i > {sockets}/last; i=$((i+1)); done"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1500));
            send(&mounted.child, "KILL");
            // What it has open is gone; it may wait for its storage for ever.
            std::thread::sleep(Duration::from_millis(300));
            let _ = server.kill();
        });
        let _ = program("sh", &["-c", &insert]);
    });
    server.wait().unwrap();
    mounted.reap();
    let last: u64 = fs::read_to_string(format!("{sockets}/last")).unwrap().trim().parse().unwrap();
    let mounted = Mounted::begin(&directory, &volume, &place).unwrap();
    let mut server = mariadb_start(&data, &sockets, "");
    program("mariadb-check", &["-S", &format!("{sockets}/s"), "--extended", "d"]).unwrap();
    let found = sql("select count(*) from d.t; select max(i) from d.t").unwrap();
    sql("shutdown").unwrap();
    assert!(server.wait().unwrap().success());
    mounted.end();
    let lines: Vec<u64> = found.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lines[0], lines[1], "a row in the middle is lost");
    assert!(lines[0] == last || lines[0] == last + 1, "{lines:?}, acknowledged {last}");
}

/// Starts MariaDB and waits until it answers.
pub fn mariadb_start(data: &str, sockets: &str, prefix: &str) -> Child {
    let command = format!(
        "exec {prefix} mariadbd --no-defaults --user=nobody --datadir={data} --socket={sockets}/s --skip-networking \
         --skip-grant-tables --innodb-buffer-pool-size=16M --innodb-use-native-aio=0 --pid-file={sockets}/pid \
         >> {sockets}/log 2>&1"
    );
    let server = Command::new("sh").args(["-c", &command]).stdin(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while program("mariadb-admin", &["-S", &format!("{sockets}/s"), "ping"]).is_err() {
        let log = || fs::read_to_string(format!("{sockets}/log")).unwrap_or_default();
        assert!(begin.elapsed() < Duration::from_secs(60), "MariaDB does not answer: {}", log());
        std::thread::sleep(Duration::from_millis(100));
    }
    server
}
