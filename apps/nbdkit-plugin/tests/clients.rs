//! Serves a simulated device with nbdkit to NBD clients of other projects. They see the disk, read and write
//! data, get its errors, and do not hang when the server is killed. If nbdkit or a client is missing, the
//! test reports that it was skipped.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_export::nbd::{NbdClient, PROBE_EXPORT};

const SIZE: usize = 16 << 20;

/// A flash device, which has a state to be saved.
const PROFILE: &str = "target=sim:uflip-mtron";

struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

/// Whether these programs are installed; prints a message if not.
fn have(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
    });
    if let Some(program) = missing {
        flashlab_skip::skip(flashlab_skip::Need::Nbdkit, format_args!("there is no program {program}"));
    }
    missing.is_none()
}

/// The plugin, which Cargo built next to this test.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let plugin = test.with_file_name("libflashlab_nbdkit.so");
    assert!(plugin.is_file(), "Cargo builds the plugin with its tests, but there is no {}", plugin.display());
    plugin
}

impl Server {
    fn start(options: &[&str], keys: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        Server::start_in(folder, options, keys)
    }

    fn start_in(folder: tempfile::TempDir, options: &[&str], keys: &[&str]) -> Server {
        let _ = fs::remove_file(folder.path().join("socket"));
        let mut command = Command::new("nbdkit");
        command.args(["-f", "--exit-with-parent", "-U", "socket"]).args(options).arg(plugin());
        command.args([PROFILE, "size=16M"]).args(keys).current_dir(folder.path());
        let mut server = Server { process: command.spawn().unwrap(), folder };
        loop {
            match NbdClient::connect(&server.path("socket"), "") {
                Ok(client) => {
                    assert_eq!(client.size(), Bytes(SIZE as u64));
                    return server;
                }
                Err(error) => {
                    let ended = server.process.try_wait().unwrap();
                    assert!(ended.is_none(), "nbdkit ended, {ended:?}: {error}");
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.path("socket").display())
    }

    /// Runs a client in the server's folder.
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program).args(arguments).current_dir(self.folder.path()).output().unwrap()
    }

    /// As [`Server::run`], and it must succeed.
    fn succeeds(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.run(program, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// A file with content and holes.
    fn image(&self, name: &str, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        Prng::new(Seed(seed)).fill(&mut bytes[..SIZE / 2]);
        Prng::new(Seed(seed)).fill(&mut bytes[SIZE / 2 + 512 * 5..SIZE / 2 + 512 * 800]);
        fs::write(self.path(name), &bytes).unwrap();
        bytes
    }

    fn first_bytes(&self, export: &str) -> [u8; 4096] {
        let mut data = [0; 4096];
        NbdClient::connect(&self.path("socket"), export).unwrap().read(Bytes::ZERO, &mut data).unwrap();
        data
    }

    fn signal(&mut self, name: &str) -> Option<i32> {
        let command = format!("kill -{name} {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn nbdinfo_sees_the_disk_as_it_is() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let server = Server::start(&[], &[]);
    let told = server.succeeds("nbdinfo", &[&server.uri()]);
    for line in [
        "export-size: 16777216 (16M)",
        "is_read_only: false",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
    ] {
        assert!(told.contains(line), "no `{line}` in\n{told}");
    }
}

#[test]
fn nbdcopy_and_qemu_bring_data_there_and_back() {
    if !have(&["nbdkit", "nbdcopy", "qemu-img"]) {
        return;
    }
    let server = Server::start(&[], &[]);
    let uri = server.uri();
    let first = server.image("first", 1);
    server.succeeds("nbdcopy", &["--flush", "first", &uri]);
    server.succeeds("nbdcopy", &[&uri, "back"]);
    assert!(fs::read(server.path("back")).unwrap() == first);
    server.image("second", 2);
    server.succeeds("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "second", &uri]);
    server.succeeds("qemu-img", &["compare", "-f", "raw", "-F", "raw", "second", &uri]);
    assert!(!server.run("qemu-img", &["compare", "-f", "raw", "-F", "raw", "first", &uri]).status.success());
}

#[test]
fn nbdkits_filters_go_on_top() {
    if !have(&["nbdkit", "nbdcopy"]) {
        return;
    }
    let server = Server::start(&["--filter=cow", "--filter=delay"], &["rdelay=1ms"]);
    let image = server.image("image", 3);
    server.succeeds("nbdcopy", &["image", &server.uri()]);
    server.succeeds("nbdcopy", &[&server.uri(), "back"]);
    assert!(fs::read(server.path("back")).unwrap() == image);
}

#[test]
fn faults_reach_the_client_as_errors() {
    if !have(&["nbdkit"]) {
        return;
    }
    let server = Server::start(&[], &["fault=error,on=read,errno=ENOSPC,nth=1", "fault=dead,on=read,nth=2"]);
    let mut client = NbdClient::connect(&server.path("socket"), "").unwrap();
    let mut read = || client.read(Bytes::ZERO, &mut [0; 512]).map_err(|error| error.raw_os_error());
    assert_eq!(read(), Ok(()));
    assert_eq!(read(), Err(Some(28)));
    // NBD has no error number for a device that is gone.
    assert_eq!(read(), Err(Some(5)));
}

#[test]
fn the_export_that_is_measured_reaches_no_data() {
    if !have(&["nbdkit", "nbdcopy"]) {
        return;
    }
    let server = Server::start(&[], &[]);
    let image = server.image("image", 4);
    server.succeeds("nbdcopy", &["image", &server.uri()]);
    assert_eq!(server.first_bytes(""), image[..4096]);
    assert_eq!(server.first_bytes(PROBE_EXPORT), [0; 4096]);
    let other = format!("nbd+unix:///{PROBE_EXPORT}?socket={}", server.path("socket").display());
    // Writes during the measurement of the transport latency are not stored.
    server.run("nbdcopy", &["image", &other]);
    assert_eq!(server.first_bytes(""), image[..4096]);
    assert_eq!(server.first_bytes(PROBE_EXPORT), [0; 4096]);
}

#[test]
fn an_idle_client_does_not_keep_data_and_state_from_being_saved() {
    if !have(&["nbdkit", "nbdcopy"]) {
        return;
    }
    let mut server = Server::start(&[], &["backing=disk"]);
    let image = server.image("image", 5);
    server.succeeds("nbdcopy", &["image", &server.uri()]);
    let idle = NbdClient::connect(&server.path("socket"), "").unwrap();
    assert_eq!(server.signal("TERM"), Some(0));
    drop(idle);
    assert!(fs::read(server.path("disk")).unwrap() == image);
    assert!(fs::metadata(server.path("disk.flashlab")).unwrap().len() > 0, "no state beside the data");
}

#[test]
fn a_killed_server_leaves_what_was_flushed_and_no_hanging_client() {
    if !have(&["nbdkit", "nbdcopy"]) {
        return;
    }
    let mut server = Server::start(&[], &["backing=disk"]);
    let image = server.image("image", 6);
    server.succeeds("nbdcopy", &["--flush", "image", &server.uri()]);
    let socket = server.path("socket");
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let mut client = NbdClient::connect(&socket, "").unwrap();
            thread::spawn(move || {
                loop {
                    if let Err(error) = client.read(Bytes::ZERO, &mut [0; 4096]) {
                        return error.kind();
                    }
                }
            })
        })
        .collect();
    server.signal("KILL");
    for reader in readers {
        let kind = reader.join().unwrap();
        let hung_up = [ErrorKind::UnexpectedEof, ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        assert!(hung_up.contains(&kind), "{kind:?}");
    }
    assert!(fs::read(server.path("disk")).unwrap() == image);
    // The next server takes it over.
    let folder = std::mem::replace(&mut server.folder, tempfile::tempdir().unwrap());
    let server = Server::start_in(folder, &[], &["backing=disk"]);
    assert_eq!(server.first_bytes(""), image[..4096]);
}

#[test]
fn what_is_wrong_is_told_before_anything_is_made() {
    if !have(&["nbdkit"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("foreign"), "somebody's").unwrap();
    let refused = |keys: &[&str]| {
        let output = Command::new("nbdkit")
            .args(["-f", "-U", "socket"])
            .arg(plugin())
            .args(keys)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["sim:zeuss"]).contains("there is no simulated device `zeuss`"));
    assert!(refused(&["sim:zeus", "backing=foreign"]).contains("was not made by flashlab"));
    assert!(refused(&["sim:zeus", "speed=11"]).contains("speed=11: there is no such key"));
    assert!(refused(&["sim:zeus", "size=1E"]).contains("does not fit"));
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [Path::new("foreign").as_os_str()]);
}
