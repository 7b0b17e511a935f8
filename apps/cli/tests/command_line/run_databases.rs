//! Programs whose files live on a volume with `repair run`, and whose server is killed. What they acknowledged is there afterwards.
//!
//! Each program prints a number for each commit, or for each write that it synced, counted from 1. Afterwards the numbers that are
//! found are all those up to the last one that was printed, or one more, whose acknowledgement was under way.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use flashlab_skip::{Need, skip};

use crate::files::{postgresql, run_as};
use crate::live_disk::send;
use crate::repair::acknowledged_until;
use crate::run_programs::Run;
use crate::support::program;

fn has(name: &str, need: Need) -> bool {
    let found = program("sh", &["-c", &format!("command -v {name}")]);
    found.map_err(|_| skip(need, format_args!("{name} is not installed"))).is_ok()
}

impl Run {
    /// Kills the server when a script has acknowledged this number of writes. Another script finds how many there are, and the last
    /// number.
    fn keeps(&self, rows: u64, writes: &str, finds: &str) {
        let script = format!("cd {}; {writes}", self.data().display());
        let acknowledged =
            acknowledged_until(self.command(&["m"], &["bash", "-c", &script]), rows, |server| {
                send(server, "KILL")
            });
        let found = self.shell(finds);
        let numbers: Vec<u64> = found
            .split_whitespace()
            .map(|number| number.parse().unwrap_or_else(|_| panic!("{found}")))
            .collect();
        assert_eq!(numbers[0], numbers[1], "one in the middle is missing: {found}");
        assert!(
            numbers[1] == acknowledged || numbers[1] == acknowledged + 1,
            "{} are there, {acknowledged} were acknowledged: {writes}",
            numbers[1]
        );
    }

    /// A directory for sockets and logs, which every user may write to.
    fn sockets(&self) -> String {
        let sockets = self.place.path("sockets");
        fs::create_dir(&sockets).unwrap();
        fs::set_permissions(&sockets, fs::Permissions::from_mode(0o777)).unwrap();
        sockets
    }
}

#[test]
fn sqlite_keeps_its_commits_with_all_journals() {
    let Some(run) = Run::new("96MiB") else { return };
    if !has("sqlite3", Need::Programs) {
        return;
    }
    for journal in ["delete", "truncate", "persist", "wal"] {
        // Below `extra` the directory is not synced after the journal was removed, and the last commit may be undone.
        let writes = format!(
            "sqlite3 {journal} 'pragma journal_mode={journal}; create table t(i)' > /dev/null; i=1; \
             while sqlite3 -cmd 'pragma journal_mode={journal}; pragma synchronous=extra' {journal} \"insert into t values($i)\" \
             > /dev/null 2>&1; do echo $i; i=$((i+1)); done"
        );
        let finds = format!(
            "[ \"$(sqlite3 {journal} 'pragma integrity_check')\" = ok ]; sqlite3 -separator ' ' {journal} 'select count(*), max(i) from t'"
        );
        run.keeps(15, &writes, &finds);
    }
    // Without a durable journal it works, and promises nothing.
    for journal in ["memory", "off"] {
        let said = run.shell(&format!("sqlite3 {journal} 'pragma journal_mode={journal}; create table t(i); insert into t values(1); select * from t'"));
        assert_eq!(said, format!("{journal}\n1"));
    }
    // Several processes with a log, whose index is a shared mapping.
    let said = run.shell(
        "sqlite3 shared 'pragma journal_mode=wal; create table t(i)' > /dev/null; \
         one() { for i in $(seq 8); do sqlite3 -cmd '.timeout 30000' shared 'insert into t values(1)'; done; }; \
         (echo 'select count(*) from t;'; sleep 1) | sqlite3 shared > /dev/null & \
         one & one & one & wait; sqlite3 shared 'select count(*) from t; pragma integrity_check'",
    );
    assert_eq!(said, "24\nok");
    run.is_left_in_order();
}

#[test]
fn postgresql_keeps_its_commits_with_all_methods_of_sync() {
    let Some(run) = Run::new("256MiB") else { return };
    let Some(bin) = postgresql() else { return };
    let (data, sockets) = (run.path("pg"), run.sockets());
    let as_postgres = "setpriv --reuid postgres --regid nogroup --clear-groups";
    run.shell(&format!(
        "mkdir -m 700 pg; chown postgres pg; cd /tmp; {as_postgres} {bin}/initdb -D {data} -A trust -N > /dev/null"
    ));
    let psql = format!("{as_postgres} {bin}/psql -h {sockets} -qAt postgres");
    // The server ends with the script, whatever its files do.
    let start = |method: &str| {
        format!(
            "cd /tmp; rm -f {data}/postmaster.pid {sockets}/.s.*; \
             {as_postgres} {bin}/postgres -D {data} -h '' -k {sockets} -c wal_sync_method={method} > {sockets}/log 2>&1 & \
             trap \"kill -9 $!\" EXIT; until {psql} -c 'select 1' > /dev/null 2>&1; do kill -0 $! || exit 1; sleep 0.1; done; "
        )
    };
    let stop = format!("{psql} -c checkpoint; kill -INT %1; wait %1; trap - EXIT; ");
    run.shell(&format!("{}{psql} -c 'create table t(method text, i int)'; {stop}", start("fsync")));
    // What this kernel has: the fifth, fsync_writethrough, PostgreSQL does not offer on Linux.
    for method in ["open_datasync", "fdatasync", "fsync", "open_sync"] {
        let writes = format!(
            "{}i=1; while :; do echo \"insert into t values('{method}', $i) returning i;\"; i=$((i+1)); done 2> /dev/null | \
             {psql} -v ON_ERROR_STOP=1 2> /dev/null",
            start(method)
        );
        let finds = format!(
            "{}{psql} -F ' ' -c \"select count(*), max(i) from t where method = '{method}'\"; {stop}",
            start(method)
        );
        run.keeps(40, &writes, &finds);
    }
    run.is_left_in_order();
}

#[test]
fn mariadb_keeps_its_commits() {
    let Some(run) = Run::new("256MiB") else { return };
    if !has("mariadbd", Need::Mariadb) || run_as("nobody", "true").is_err() {
        return;
    }
    let (data, sockets) = (run.path("my"), run.sockets());
    run.shell(&format!(
        "mkdir my; chown nobody my; mariadb-install-db --no-defaults --user=nobody --datadir={data} --skip-test-db > /dev/null"
    ));
    // With its own asynchronous IO (io_uring or libaio).
    let start = format!(
        "mariadbd --no-defaults --user=nobody --datadir={data} --socket={sockets}/s --skip-networking --skip-grant-tables \
         --innodb-buffer-pool-size=16M --pid-file={sockets}/pid >> {sockets}/log 2>&1 & trap \"kill -9 $!\" EXIT; \
         until mariadb-admin -S {sockets}/s ping > /dev/null 2>&1; do kill -0 $! || exit 1; sleep 0.1; done; "
    );
    let sql = format!("mariadb -S {sockets}/s -BN");
    let stop = format!("mariadb-admin -S {sockets}/s shutdown; wait; trap - EXIT; ");
    run.shell(&format!(
        "{start}{sql} -e 'create database d; create table d.t(i int primary key) engine=innodb'; {stop}"
    ));
    let writes = format!(
        "{start}i=1; while {sql} -e \"insert into d.t values($i)\" 2> /dev/null; do echo $i; i=$((i+1)); done"
    );
    let finds = format!(
        "{start}mariadb-check -S {sockets}/s --extended d > /dev/null; {sql} -e 'select count(*), max(i) from d.t'; {stop}"
    );
    run.keeps(20, &writes, &finds);
    run.is_left_in_order();
}

#[test]
fn redis_keeps_what_it_acknowledged() {
    let Some(run) = Run::new("96MiB") else { return };
    if !has("redis-server", Need::Redis) || !has("redis-cli", Need::Redis) {
        return;
    }
    let sockets = run.sockets();
    let start = format!(
        "redis-server --dir {} --appendonly yes --appendfsync always --save '' --port 0 --unixsocket {sockets}/s > {sockets}/log & \
         trap \"kill -9 $!\" EXIT; until redis-cli -s {sockets}/s ping > /dev/null 2>&1; do kill -0 $! || exit 1; sleep 0.05; done; ",
        run.data().display()
    );
    let cli = format!("redis-cli -s {sockets}/s");
    let writes = format!(
        "{start}i=1; while [ \"$({cli} rpush l $i 2> /dev/null)\" = $i ]; do echo $i; i=$((i+1)); done"
    );
    let finds = format!("{start}{cli} llen l; {cli} lindex l -1; {cli} shutdown; trap - EXIT");
    run.keeps(40, &writes, &finds);
    run.is_left_in_order();
}

#[test]
fn rocksdb_keeps_what_it_synced() {
    let Some(run) = Run::new("128MiB") else { return };
    if !has("db_bench", Need::Rocksdb) || !has("ldb", Need::Rocksdb) {
        return;
    }
    // It says after each write how many there were: `thread 0: (1,7) ops`.
    let writes = "db_bench --benchmarks=fillseq --sync=1 --num=1000000 --db=r --stats_interval=1 2>&1 > /dev/null | \
                  sed -un 's/.*thread 0: (1,\\([0-9]*\\)) ops.*/\\1/p'";
    // Keys are numbers from 0 in their first eight bytes.
    let finds = "ldb --db=r scan --hex 2> /dev/null > ../scan; wc -l < ../scan; \
                 echo $(( $(tail -1 ../scan | cut -c 1-18) + 1 ))";
    run.keeps(200, writes, finds);
    run.is_left_in_order();
}

#[test]
fn git_keeps_its_commits() {
    let Some(run) = Run::new("96MiB") else { return };
    if !has("git", Need::Programs) {
        return;
    }
    // Git syncs what it writes, but not the directory in which it renames the branch, so the script does.
    let writes = "git init -q g; cd g; git config user.name n; git config user.email e; git config core.fsync all; i=1; \
                  while echo $i > file && git add file && git commit -qm $i && sync .git/refs/heads/*; do echo $i; i=$((i+1)); done 2> /dev/null";
    let finds = "cd g; rm -f .git/*.lock .git/refs/heads/*.lock; git fsck > /dev/null 2>&1; git rev-list --count HEAD; git log --format=%s -1";
    run.keeps(8, writes, finds);
    run.is_left_in_order();
}

#[test]
fn shells_python_go_and_static_programs_keep_what_they_synced() {
    let Some(run) = Run::new("96MiB") else { return };
    let finds = |file: &str| format!("wc -l < {file}; tail -1 {file}");
    run.keeps(
        30,
        "i=1; while echo $i >> bash && sync bash; do echo $i; i=$((i+1)); done 2> /dev/null",
        &finds("bash"),
    );
    if has("python3", Need::Python) {
        let script = "import os, subprocess\nf = os.open('python', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\ni = 1\n\
                      while True:\n    subprocess.run(['echo', str(i)], stdout=f, check=True)\n    os.fsync(f)\n    print(i, flush=True)\n    i += 1\n";
        let script = run.directory.write("script.py", script);
        run.keeps(10, &format!("python3 {} 2> /dev/null", script.display()), &finds("python"));
    }
    if has("cc", Need::Programs) {
        // Each write is synced by a flag of its file.
        for (name, flag) in [("datasync", "O_DSYNC"), ("sync", "O_SYNC"), ("direct", "O_DSYNC | O_DIRECT")] {
            let source = format!(
                "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
                 static char page[4096] __attribute__((aligned(4096)));\n\
                 int main(void) {{ int f = open(\"{name}\", O_WRONLY | O_CREAT | {flag}, 0644);\n\
                 for (int i = 1;; i++) {{ memset(page, ' ', 4096); sprintf(page, \"%4094d\", i); page[4094] = ' '; page[4095] = '\\n';\n\
                 if (write(f, page, 4096) != 4096) return 1; printf(\"%d\\n\", i); fflush(stdout); }} }}\n"
            );
            let source = run.directory.write("static.c", source);
            let binary = run.directory.path(name);
            let built = program("cc", &["-static", "-o", binary.to_str().unwrap(), source.to_str().unwrap()]);
            built.unwrap_or_else(|error| panic!("{error}"));
            run.keeps(40, binary.to_str().unwrap(), &finds(name));
        }
    }
    if has("go", Need::Go) {
        let source = "package main\nimport (\"fmt\"; \"os\")\nfunc main() {\n f, err := os.OpenFile(\"go\", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0644)\n \
                      for i := 1; err == nil; i++ {\n  if _, err = fmt.Fprintln(f, i); err == nil { err = f.Sync() }\n  if err == nil { fmt.Println(i) }\n }\n}\n";
        let source = run.directory.write("main.go", source);
        let binary = run.directory.path("go program");
        let built = Command::new("go")
            .args(["build", "-o", binary.to_str().unwrap(), source.to_str().unwrap()])
            .env("GOCACHE", run.directory.path("gocache"))
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        run.keeps(40, &format!("'{}'", binary.display()), &finds("go"));
    }
    run.is_left_in_order();
}

/// System calls that write, read past the cache, or sync.
const CALLS: &str = "write,pwrite64,writev,pwritev,pwritev2,read,pread64,fsync,fdatasync";

/// What strace saw on the managed files: calls and bytes by name.
fn traced(run: &Run, command: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let trace = run.place.path("trace");
    let calls = format!("trace={CALLS}");
    let strace = ["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-s", "0", "-o", &trace, "-e", &calls];
    run.succeeds(&["m"], &[&strace, command].concat());
    let text = String::from_utf8_lossy(&fs::read(&trace).unwrap()).into_owned();
    let data = run.data().canonicalize().unwrap();
    let mut begun: BTreeMap<String, String> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let Some((process, line)) = line.trim_start().split_once(' ') else { continue };
        let line = line.trim_start();
        // Calls that another process interrupts are in two lines.
        let whole = if let Some(first) = line.strip_suffix(" <unfinished ...>") {
            begun.insert(process.to_owned(), first.to_owned());
            continue;
        } else if let Some((_, last)) = line.split_once(" resumed>").filter(|_| line.starts_with("<... ")) {
            begun.remove(process).unwrap_or_default() + last
        } else {
            line.to_owned()
        };
        let Some((name, rest)) = whole.split_once('(') else { continue };
        if !rest.split_once('<').is_some_and(|(_, path)| path.starts_with(data.to_str().unwrap())) {
            continue;
        }
        let result = whole
            .rsplit_once(" = ")
            .and_then(|(_, result)| result.split([' ', '<']).next()?.parse::<u64>().ok());
        let Some(result) = result else { continue };
        let (count, bytes): &mut (u64, u64) = counts.entry(name.to_owned()).or_default();
        (*count, *bytes) = (*count + 1, *bytes + result);
    }
    counts
}

fn sum(counts: &BTreeMap<String, (u64, u64)>, names: &[&str]) -> (u64, u64) {
    let named = counts.iter().filter(|(name, _)| names.contains(&name.as_str()));
    named.fold((0, 0), |(count, bytes), (_, (calls, moved))| (count + calls, bytes + moved))
}

#[test]
fn the_volume_serves_what_strace_sees_on_the_files() {
    let Some(run) = Run::new("96MiB") else { return };
    if program("strace", &["-o", "/dev/null", "true"]).is_err() {
        return skip(Need::Strace, "strace does not work here");
    }
    let writes = ["write", "pwrite64", "writev", "pwritev", "pwritev2"];
    let served = |run: &Run| {
        (
            (run.count("writes"), run.count("written_bytes")),
            (run.count("reads"), run.count("read_bytes")),
            run.count("syncs"),
        )
    };
    if has("sqlite3", Need::Programs) {
        let sql = "pragma journal_mode=delete; create table t(i integer primary key, s); \
                   insert into t select value, hex(zeroblob(300)) from generate_series(1, 300); \
                   update t set s = 'short' where i % 3 = 0; select count(*), sum(length(s)) from t; pragma integrity_check;";
        let counts = traced(&run, &["sqlite3", &run.path("a.db"), sql]);
        let (written, _, syncs) = served(&run);
        let (calls, bytes) = sum(&counts, &writes);
        // The kernel may make several requests of a call.
        assert!(bytes == written.1 && calls <= written.0, "{written:?} {counts:?}");
        assert_eq!(sum(&counts, &["fsync", "fdatasync"]).0, syncs, "{counts:?}");
        assert!(written.0 > 100 && syncs > 5, "{counts:?}");
    }
    // Past the kernel's cache each read is one of the volume's, too; a write with O_DSYNC is a write and a sync.
    let file = run.path("file");
    let script = format!(
        "dd if=/dev/urandom of={file} bs=64k count=20 oflag=direct status=none; \
         dd if=/dev/zero of={file} bs=4k count=10 seek=3 conv=notrunc oflag=dsync status=none; \
         dd if={file} of=/dev/null bs=128k iflag=direct status=none"
    );
    let counts = traced(&run, &["sh", "-c", &script]);
    let (written, read, syncs) = served(&run);
    assert_eq!(
        (sum(&counts, &writes).1, written.1),
        (20 * 65536 + 10 * 4096, 20 * 65536 + 10 * 4096),
        "{counts:?}"
    );
    assert_eq!((sum(&counts, &["read", "pread64"]).1, read.1), (20 * 65536, 20 * 65536), "{counts:?}");
    assert_eq!(syncs, 10);
}
