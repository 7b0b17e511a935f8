//! Runs the scripts of this folder with the package, laid out as in the wheel. Without a Python they are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flashlab_skip::{Need, skip};

/// The package in a folder of its own: the Python files, and the extension that Cargo built next to this test.
fn package() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("flashlab");
    fs::create_dir(&package).unwrap();
    for file in fs::read_dir(sources().join("python/flashlab")).unwrap().map(Result::unwrap) {
        if file.path().is_file() {
            fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    let test = std::env::current_exe().unwrap();
    let extension = test.with_file_name("libflashlab_python.so");
    assert!(
        extension.is_file(),
        "Cargo builds the extension with its tests, but there is no {}",
        extension.display()
    );
    fs::copy(extension, package.join("_flashlab.abi3.so")).unwrap();
    folder
}

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Python of 3.10 or later that has these modules; `None` after a message if there is none.
fn python(need: Need, modules: &[&str]) -> Option<PathBuf> {
    let python = std::env::var("FLASHLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports: String = modules.iter().map(|module| format!("import {module}\n")).collect();
    let script = format!("import sys\nassert sys.version_info >= (3, 10)\n{imports}");
    match Command::new(&python).args(["-c", &script]).output() {
        Ok(output) if output.status.success() => Some(python.into()),
        _ => {
            skip(need, format_args!("{python} is no Python of 3.10 or later with {modules:?}"));
            None
        }
    }
}

fn run(python: &Path, package: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(python);
    command.args(arguments).env("PYTHONPATH", package).current_dir(package);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.env(
        "FLASHLAB_PROGRAM",
        std::env::current_exe().unwrap().parent().unwrap().with_file_name("flashlab"),
    );
    command.output().unwrap()
}

/// Runs a script of this folder, which ends with an error if it finds one.
fn script(name: &str, modules: &[&str]) {
    let Some(python) = python(Need::Python, modules) else { return };
    run_script(&python, name, &[]);
}

/// A sweep on an engine is the sweep of one process.
fn engine(need: Need, name: &str, module: &str) {
    let Some(python) = python(need, &[module]) else { return };
    run_script(&python, "engines.py", &[name]);
}

fn run_script(python: &Path, name: &str, arguments: &[&str]) {
    let package = package();
    let file = sources().join("tests").join(name);
    let output = run(python, package.path(), &[&[file.to_str().unwrap()], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{name}:\n{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn simulators_tables_and_errors() {
    script("basics.py", &[]);
}

#[test]
fn the_reference_is_up_to_date() {
    let Some(python) = python(Need::Python, &[]) else { return };
    let file = sources().join("../../docs/python-reference.md");
    run_script(&python, "reference.py", &[file.to_str().unwrap()]);
}

#[test]
fn sweeps_here_and_on_executors() {
    script("sweeps.py", &[]);
}

#[test]
fn what_the_program_does() {
    script("program.py", &[]);
}

#[test]
fn policies_of_ones_own() {
    let Some(python) = python(Need::Python, &["numpy"]) else { return };
    run_script(&python, "policies.py", &[]);
    run_script(&python, "policies.py", &["no-numpy"]);
}

#[test]
fn figures_of_runs_and_sweeps() {
    script("plots.py", &["matplotlib"]);
}

/// Runs a notebook of the manual.
fn notebook(need: Need, name: &str, modules: &[&str]) {
    let Some(python) = python(need, modules) else { return };
    let file = sources().join("../../docs/notebooks").join(name);
    run_script(&python, "notebooks.py", &[file.to_str().unwrap()]);
}

#[test]
fn the_notebook_characterise() {
    notebook(Need::Python, "characterise.ipynb", &["matplotlib", "polars"]);
}

#[test]
fn the_notebook_design_space() {
    notebook(Need::Ray, "design_space.ipynb", &["matplotlib", "polars", "ray"]);
}

#[test]
fn the_notebook_papers() {
    notebook(Need::Python, "papers.ipynb", &["matplotlib", "polars"]);
}

#[test]
fn the_notebook_policy() {
    notebook(Need::Python, "policy.ipynb", &["matplotlib", "numpy"]);
}

#[test]
fn sweeps_on_ray() {
    engine(Need::Ray, "ray", "ray");
}

#[test]
fn sweeps_on_dask() {
    engine(Need::Dask, "dask", "distributed");
}

#[test]
fn sweeps_on_spark() {
    if Command::new("java").arg("-version").output().is_err() {
        return skip(Need::Spark, "there is no JVM");
    }
    engine(Need::Spark, "spark", "pyspark");
}

#[test]
fn other_libraries_take_samples_and_give_tables() {
    script("libraries.py", &["polars", "duckdb", "pandas", "pyarrow"]);
}

#[test]
fn the_types_are_right() {
    let Some(python) = python(Need::Python, &["mypy"]) else { return };
    let package = package();
    fs::copy(sources().join("tests/typed.py"), package.path().join("typed.py")).unwrap();
    for arguments in [
        &["-m", "mypy", "--strict", "--no-incremental", "typed.py"][..],
        &["-m", "mypy.stubtest", "flashlab", "--ignore-disjoint-bases"],
    ] {
        let output = run(&python, package.path(), arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
