//! From what a person named to an open device, with consent where it is written to.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flashlab_bench::Settings;
use flashlab_device::Device;
use flashlab_host::{Consent, Inspection, OpenOptions};
use flashlab_sim::{Profile, zoo};

use crate::args;
use crate::exit::{Refused, Usage};

/// A device that is ready to be measured.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// By what right it is written to.
    pub consent: String,
    /// What to doubt about measuring it: kind and message.
    pub warnings: Vec<(String, String)>,
}

/// The profile that `sim:NAME` or `sim:./file.toml` names; `None` for another target.
pub fn profile(target: &str) -> Result<Option<Profile>> {
    let Some(name) = target.strip_prefix("sim:") else { return Ok(None) };
    profile_named(name).map(Some)
}

/// The profile of the zoo or in the file of this name.
pub fn profile_named(name: &str) -> Result<Profile> {
    if name.contains('/') || name.ends_with(".toml") {
        let text = std::fs::read_to_string(name)
            .map_err(|error| Usage(format!("cannot read the profile {name}: {error}")))?;
        return Ok(Profile::parse(&text, name)?);
    }
    let profiles = zoo();
    let names: Vec<String> = profiles.iter().map(|profile| profile.name.clone()).collect();
    let found = profiles.into_iter().find(|profile| profile.name == name);
    found.with_context(|| {
        let names = names.join(", ");
        Usage(format!(
            "there is no simulated device `{name}`; there are: {names}; or give a file as sim:./{name}.toml"
        ))
    })
}

/// What it takes to open a target that exists already.
pub struct Request<'a> {
    pub target: &'a str,
    pub engine: flashlab_host::Engine,
    pub depth: u32,
    pub buffered: bool,
    /// Whether the plans write.
    pub writes: bool,
    pub destroy_data_on: Option<&'a Path>,
    pub overwrite_file: bool,
}

impl<'a> Request<'a> {
    pub fn new(target: &'a str, arguments: &'a args::Target, writes: bool, depth: u32) -> Request<'a> {
        Request {
            target,
            engine: engine(arguments.engine, depth),
            depth,
            buffered: arguments.buffered,
            writes,
            destroy_data_on: arguments.destroy_data_on.as_deref(),
            overwrite_file: arguments.overwrite_file,
        }
    }

    /// Opens it.
    pub fn open(&self) -> Result<Opened> {
        if let Some(profile) = profile(self.target)? {
            let consent = "none needed: simulated".to_owned();
            return Ok(Opened { device: Box::new(profile.device()), consent, warnings: Vec::new() });
        }
        let inspection = flashlab_host::inspect(self.target)?;
        let consent = if self.writes { Some(self.consent(&inspection)?) } else { None };
        let given = consent.as_ref().map_or("none needed: read only".to_owned(), ToString::to_string);
        let options = OpenOptions {
            engine: self.engine,
            depth: self.depth,
            write: consent,
            buffered: self.buffered,
            name: None,
        };
        let device = flashlab_host::open(self.target, &options)?;
        let warnings = warnings(device.as_ref(), &inspection);
        Ok(Opened { device, consent: given, warnings })
    }

    fn consent(&self, inspection: &Inspection) -> Result<Consent> {
        if !inspection.refusals.is_empty() {
            let (path, refusals) = (inspection.path.clone(), inspection.refusals.clone());
            return Err(flashlab_host::HostError::Refused { path, refusals }.into());
        }
        if !inspection.is_block_device() {
            if !self.overwrite_file {
                return Err(Refused(format!(
                    "{} exists and would be overwritten: give --overwrite-file if its content is not needed, or \
                     no TARGET for a scratch file",
                    self.target
                ))
                .into());
            }
            return Ok(flashlab_host::consent_to_overwrite_file(inspection)?);
        }
        match self.destroy_data_on {
            Some(path) => Ok(flashlab_host::consent_by_flag(inspection, path)?),
            None => ask(inspection, self.target),
        }
    }
}

/// Asks the person at the terminal to type the device's model or serial number.
fn ask(inspection: &Inspection, target: &str) -> Result<Consent> {
    let phrases = inspection.consent_phrases().join(" or ");
    if !std::io::stdin().is_terminal() {
        return Err(Refused(format!(
            "all data on {target} ({phrases}) would be destroyed: consent with --destroy-data-on {target}"
        ))
        .into());
    }
    eprint!("All data on {target} will be destroyed. Type {phrases} to consent: ");
    std::io::stderr().flush()?;
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed)?;
    Ok(flashlab_host::consent_by_typing(inspection, typed.trim())?)
}

/// The engine for plans of this queue depth.
pub fn engine(chosen: Option<args::Engine>, depth: u32) -> flashlab_host::Engine {
    match chosen {
        Some(args::Engine::Sync) => flashlab_host::Engine::Synchronous,
        Some(args::Engine::IoUring) => flashlab_host::Engine::IoUring,
        None if depth > 1 => flashlab_host::Engine::IoUring,
        None => flashlab_host::Engine::Synchronous,
    }
}

/// What to doubt about a real target.
pub fn warnings(device: &dyn Device, inspection: &Inspection) -> Vec<(String, String)> {
    let mut warnings: Vec<(String, String)> =
        inspection.warnings.iter().map(|message| ("target".to_owned(), message.clone())).collect();
    let identity = device.identity();
    if identity.engine.as_deref().is_some_and(|engine| engine.contains("buffered")) {
        let message = format!(
            "{} is read and written through the page cache: the times are of memory and not of the device",
            identity.target
        );
        warnings.push(("buffered_io".to_owned(), message));
    }
    if let Some(by) = identity.virtual_machine.as_deref().and_then(|answer| answer.strip_prefix("yes, ")) {
        let message =
            format!("this machine is virtual ({by}): the device beneath is shared and partly cached");
        warnings.push(("virtual_machine".to_owned(), message));
    }
    warnings
}

/// A name for a run's folder.
pub fn short_name(target: &str) -> String {
    let name = match target {
        Settings::SCRATCH => "scratch".to_owned(),
        other => match other.strip_prefix("sim:") {
            Some(name) => format!("sim-{}", stem(name)),
            None => stem(other),
        },
    };
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

fn stem(path: &str) -> String {
    PathBuf::from(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or("target").to_owned()
}
