//! What the library exports, next to what libc exports: a function that has several names is replaced under each of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use flashlab_skip::{Need, skip};

fn exported(library: &Path) -> Result<BTreeSet<String>, String> {
    let output = Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library).output();
    let output = output.map_err(|error| format!("nm: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Private names are for glibc's own libraries.
    let public = text.lines().filter(|line| !line.contains("@GLIBC_PRIVATE"));
    let names = public.filter_map(|line| line.split([' ', '@']).next());
    Ok(names.map(str::to_owned).collect())
}

#[test]
fn no_name_of_a_replaced_function_is_left_to_libc() {
    let library = std::env::current_exe().unwrap();
    let library = library.with_file_name("libflashlab_preload.so");
    let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        libc.lines().find_map(|line| line.split(' ').next_back().filter(|path| path.ends_with("/libc.so.6")));
    let Some(libc) = libc else { return skip(Need::Programs, "this test is not linked with glibc") };
    let (ours, libc) = match (exported(&library), exported(Path::new(libc))) {
        (Ok(ours), Ok(libc)) => (ours, libc),
        (Err(reason), _) | (_, Err(reason)) => return skip(Need::Programs, reason),
    };
    let ours: BTreeSet<String> = ours.into_iter().filter(|name| !name.starts_with("_R")).collect();
    assert!(
        ours.len() > 120 && ["open", "pwritev2", "fileno"].iter().all(|&name| ours.contains(name)),
        "{ours:?}"
    );
    let mut left = Vec::new();
    for name in &ours {
        let others = ["{}64", "__{}", "__{}_chk", "__{}_2", "_IO_{}"].map(|other| other.replace("{}", name));
        left.extend(others.into_iter().filter(|other| libc.contains(other) && !ours.contains(other)));
    }
    assert!(left.is_empty(), "libc's own function would be called under these names: {left:?}");
}
