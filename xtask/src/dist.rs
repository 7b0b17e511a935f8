//! Makes what is given to users: an archive of the program, and the wheel for Python, which has the program too.
//!
//! # Model
//! Both have the same tree: `bin/flashlab`, and below `share` the completions of three shells and the manual pages. The built program
//! writes these itself, so that they say what it takes. maturin puts the folder `flashlab.data` that lies beside pyproject.toml into
//! the wheel; what is added to it is there only while the wheel is built, so that no other build takes an old program.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

/// Makes an archive of the program with completions and manual pages, and the wheel for Python
#[derive(Args)]
pub struct Dist {
    /// The folder for both
    #[arg(long, default_value = "target/dist")]
    output: PathBuf,
    /// The archive alone, which needs no Python
    #[arg(long)]
    no_wheel: bool,
}

/// Where each shell looks for completions, below `share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/flashlab"),
    ("fish", "fish/vendor_completions.d/flashlab.fish"),
    ("zsh", "zsh/site-functions/_flashlab"),
];

/// What pyproject.toml names: its `scripts` come onto the path, and its `data` below the prefix.
const WHEEL_DATA: &str = "apps/python/flashlab.data";
/// What is added to it.
const ADDED: [&str; 5] =
    ["scripts", "data/share/bash-completion", "data/share/fish", "data/share/zsh", "data/share/man"];

/// Builds, and prints the files with their sizes.
///
/// # Errors
/// When a program is not there or fails, and when a file cannot be written.
pub fn dist(arguments: &Dist) -> Result<()> {
    // Symbols are left out of the program alone: the other crates are those of any release build.
    run(
        "cargo",
        ["rustc", "--release", "--package", "flashlab", "--bin", "flashlab", "--", "-Clink-arg=-s"],
    )?;
    let program = target_folder().join("release/flashlab");
    let name = format!("flashlab-{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    fs::create_dir_all(&arguments.output)?;
    let archive = arguments.output.join(format!("{name}.tar.gz"));
    let tree = Tree::new(arguments.output.join(&name))?;
    fs::create_dir(tree.0.join("bin"))?;
    fs::copy(&program, tree.0.join("bin/flashlab"))?;
    write_shared(&program, &tree.0.join("share"))?;
    let archived =
        [OsStr::new("-czf"), archive.as_os_str(), "-C".as_ref(), arguments.output.as_os_str(), name.as_ref()];
    run("tar", archived)?;
    tell_size(&archive)?;
    if arguments.no_wheel {
        return Ok(());
    }
    let data = Path::new(WHEEL_DATA);
    let added = ADDED.map(|folder| Tree::new(data.join(folder)));
    let _added = added.into_iter().collect::<Result<Vec<Tree>>>()?;
    fs::copy(&program, data.join("scripts/flashlab"))?;
    write_shared(&program, &data.join("data/share"))?;
    let wheel = Tree::new(arguments.output.join("wheel"))?;
    let options = ["build", "--release", "--manifest-path", "apps/python/Cargo.toml", "--out"];
    run("maturin", options.iter().map(OsStr::new).chain([wheel.0.as_os_str()]))
        .context("the wheel is built by maturin (pip install maturin); --no-wheel leaves it out")?;
    for file in fs::read_dir(&wheel.0)? {
        let file = file?;
        let path = arguments.output.join(file.file_name());
        fs::rename(file.path(), &path)?;
        tell_size(&path)?;
    }
    Ok(())
}

/// A folder that is removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(path: PathBuf) -> Result<Tree> {
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(Tree(path))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

/// Completions and manual pages, as the program writes them.
fn write_shared(program: &Path, share: &Path) -> Result<()> {
    for (shell, file) in COMPLETIONS {
        let output = Command::new(program).args(["completions", shell]).output()?;
        ensure!(output.status.success(), "flashlab completions {shell} failed");
        let file = share.join(file);
        fs::create_dir_all(file.parent().context("a file has a parent")?)?;
        fs::write(file, output.stdout)?;
    }
    run(program, [OsStr::new("manual"), "--output".as_ref(), share.join("man/man1").as_os_str()])
}

fn run(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<()> {
    let program = program.as_ref();
    let status = Command::new(program)
        .args(arguments)
        .status()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    if !status.success() {
        bail!("{} failed: {status}", program.display());
    }
    Ok(())
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

fn tell_size(path: &Path) -> Result<()> {
    println!("{}: {:.2} MB", path.display(), fs::metadata(path)?.len() as f64 / 1e6);
    Ok(())
}
