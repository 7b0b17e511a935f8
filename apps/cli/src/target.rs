//! Opens the device that the user names, with consent if it is written to.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use flashlab_base::{Bytes, Identity, ParseTargetError, ProfileName, SimulatedTarget, Target};
use flashlab_device::Device;
use flashlab_export::ExportError;
use flashlab_host::{Consent, HostError, Inspection, IoEngine, OpenOptions};
use flashlab_input::{FileContent, InputKind};
use flashlab_report::{printable, shell_word};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

use crate::arguments::{ConsentOptions, EngineChoice, EngineOptions};
use crate::exit::{Refused, Usage};
use crate::files;

/// An open device. A simulated one has statistics.
pub enum OpenDevice {
    Simulated(Box<SimulatedDevice>),
    Real(Box<dyn Device>),
}

impl OpenDevice {
    pub fn as_mut(&mut self) -> &mut dyn Device {
        match self {
            OpenDevice::Simulated(device) => device.as_mut(),
            OpenDevice::Real(device) => device.as_mut(),
        }
    }

    /// The device as a simulated flash device, if it is one.
    pub fn as_flash(&self) -> Option<&FlashDevice> {
        match self {
            OpenDevice::Simulated(device) => device.as_flash(),
            OpenDevice::Real(_) => None,
        }
    }
}

/// A device that is ready to be measured.
pub struct Opened {
    /// The device.
    pub device: OpenDevice,
    /// How the user consented to writing.
    pub consent: String,
    /// Warnings about measuring it: kind and message.
    pub warnings: Vec<(String, String)>,
}

/// A simulated device, new or in a saved state.
pub struct Simulation {
    pub profile: Profile,
    pub state: Option<PathBuf>,
}

impl Simulation {
    /// The device with the profile and the state of the target.
    pub fn new(target: &SimulatedTarget) -> Result<Simulation> {
        let state = target.state.as_ref().map(PathBuf::from);
        Ok(Simulation { profile: profile_named(&target.profile)?, state })
    }

    /// The same device with another capacity ([`Profile::resized`]). A saved state does not fit another
    /// capacity.
    pub fn resized(mut self, capacity: Bytes) -> Result<Simulation> {
        if self.state.is_some() {
            bail!(Usage(ExportError::STATE_AND_SIZE.to_owned()));
        }
        self.profile = self.profile.resized(capacity)?;
        Ok(self)
    }

    pub fn device(&self) -> Result<SimulatedDevice> {
        let Some(file) = &self.state else { return new_device(&self.profile) };
        check_memory(&self.profile)?;
        let kind = InputKind { name: "state of this device", largest: self.profile.largest_state()? };
        let bytes = flashlab_input::read(file, kind)
            .map_err(|error| Usage(format!("cannot read the state {}: {error}", file.display())))?;
        let device = FlashDevice::restore(&self.profile, &bytes).map_err(|error| {
            let name = &self.profile.name;
            Usage(format!("{}: {error}; flashlab sim precondition {name} makes another one", file.display()))
        });
        Ok(SimulatedDevice::Flash(Box::new(device?)))
    }
}

/// A new device of a profile, if this machine has enough memory for it.
pub fn new_device(profile: &Profile) -> Result<SimulatedDevice> {
    check_memory(profile)?;
    Ok(profile.device()?)
}

fn check_memory(profile: &Profile) -> Result<()> {
    if let Some(available) = flashlab_host::available_memory() {
        profile.fits_memory(available)?;
    }
    Ok(())
}

/// The profile with this name in the zoo, or in the file.
pub fn profile_named(name: &ProfileName) -> Result<Profile> {
    Profile::named(name, files::profile)
}

/// How a target is opened.
#[derive(Clone, Copy)]
pub struct Opening {
    engine: IoEngine,
    depth: u32,
    buffered: bool,
}

impl Opening {
    /// From the options of the command line, for plans with this queue depth.
    pub fn new(options: EngineOptions, depth: u32) -> Result<Opening> {
        let engine = match options.engine {
            Some(EngineChoice::Sync) if depth > 1 => bail!(Usage(format!(
                "--engine sync does one IO at a time, but the plan has a queue depth of {depth}: leave out --engine"
            ))),
            Some(EngineChoice::Sync) => IoEngine::Synchronous,
            Some(EngineChoice::IoUring) => IoEngine::IoUring,
            None if depth > 1 => IoEngine::IoUring,
            None => IoEngine::Synchronous,
        };
        Ok(Opening { engine, depth, buffered: options.buffered })
    }

    /// As a run was begun.
    pub fn as_before(identity: &Identity, depth: u32) -> Opening {
        let before = identity.engine.as_deref().unwrap_or_default();
        let engine = if before.starts_with("io_uring") { IoEngine::IoUring } else { IoEngine::Synchronous };
        Opening { engine, depth, buffered: before.contains("buffered") }
    }

    pub fn options(self, write: Option<Consent>, name: Option<String>) -> OpenOptions {
        let Opening { engine, depth, buffered } = self;
        OpenOptions { engine, depth, write, buffered, name }
    }
}

/// A target that exists but is not open yet.
pub enum Candidate<'a> {
    Simulated(Box<Simulation>),
    Real { path: &'a str, inspection: Box<Inspection>, by: Option<By> },
}

/// How the user consents to losing the content of a target.
pub enum By {
    /// By an option, which named this target.
    Option(Consent),
    /// By typing, after the amount of writes is known.
    Typing,
}

impl<'a> Candidate<'a> {
    /// Finds the target, and refuses it if it has to be written to and must not be.
    pub fn find(target: &'a Target, writes: bool, consent: &ConsentOptions) -> Result<Candidate<'a>> {
        let path = match target {
            Target::Simulated(target) => {
                return Ok(Candidate::Simulated(Box::new(Simulation::new(target)?)));
            }
            Target::Path(path) => path.as_str(),
        };
        let inspection = Box::new(flashlab_host::inspect(path)?);
        if !writes {
            return Ok(Candidate::Real { path, inspection, by: None });
        }
        if !inspection.refusals.is_empty() {
            let (path, refusals) = (inspection.path, inspection.refusals);
            return Err(HostError::Refused { path, refusals }.into());
        }
        let by = Some(By::of(path, &inspection, consent)?);
        Ok(Candidate::Real { path, inspection, by })
    }

    /// The same simulated device with another capacity. If it has a saved state, [`Simulation::resized`]
    /// refuses another capacity.
    ///
    /// Only simulated devices have a capacity to choose.
    pub fn resized(self, capacity: Option<Bytes>) -> Result<Candidate<'a>> {
        Ok(match (self, capacity) {
            (Candidate::Simulated(simulation), Some(capacity)) if simulation.profile.capacity != capacity => {
                Candidate::Simulated(Box::new(simulation.resized(capacity)?))
            }
            (unchanged, _) => unchanged,
        })
    }

    /// Whether it is a simulated device with zones.
    pub fn is_zoned(&self) -> bool {
        matches!(self, Candidate::Simulated(simulation) if simulation.profile.is_zoned())
    }

    /// Its identity, as far as it is known.
    pub fn identity(&self) -> Identity {
        match self {
            Candidate::Simulated(simulation) => simulation.profile.identity(),
            Candidate::Real { inspection, .. } => inspection.identity.clone(),
        }
    }

    /// Opens it, with consent if it is written to.
    pub fn open(self, opening: Opening) -> Result<Opened> {
        let (path, inspection, by) = match self {
            Candidate::Simulated(simulation) => {
                let consent = "none needed: simulated".to_owned();
                let device = OpenDevice::Simulated(Box::new(simulation.device()?));
                return Ok(Opened { device, consent, warnings: Vec::new() });
            }
            Candidate::Real { path, inspection, by } => (path, inspection, by),
        };
        let consent = by.map(|by| by.consent(path, &inspection)).transpose()?;
        let given = consent.as_ref().map_or("none needed: read only".to_owned(), ToString::to_string);
        let device = flashlab_host::open(path, &opening.options(consent, None))?;
        let warnings = warnings(device.as_ref(), &inspection);
        Ok(Opened { device: OpenDevice::Real(device), consent: given, warnings })
    }
}

impl By {
    /// Refuses a target that nobody can consent to here, and a consent for another target.
    fn of(name: &str, inspection: &Inspection, options: &ConsentOptions) -> Result<By> {
        match &options.destroy_data_on {
            _ if !inspection.is_block_device() && options.overwrite_file => {
                Ok(By::Option(flashlab_host::consent_to_overwrite_file(inspection)?))
            }
            _ if !inspection.is_block_device() => bail!(Refused(would_be_lost(name, inspection))),
            Some(path) => Ok(By::Option(flashlab_host::consent_by_flag(inspection, path)?)),
            None if std::io::stdin().is_terminal() => Ok(By::Typing),
            None => bail!(Refused(format!(
                "all data on {} would be destroyed: consent with --destroy-data-on {}",
                in_words(name, inspection),
                shell_word(name)
            ))),
        }
    }

    pub fn consent(self, name: &str, inspection: &Inspection) -> Result<Consent, anyhow::Error> {
        Ok(match self {
            By::Option(consent) => consent,
            By::Typing => {
                let phrases = inspection.consent_phrases().join(" or ");
                eprint!(
                    "All data on {} will be destroyed. Type {phrases} to consent: ",
                    in_words(name, inspection)
                );
                std::io::stderr().flush()?;
                let mut typed = String::new();
                std::io::stdin().lock().read_line(&mut typed)?;
                flashlab_host::consent_by_typing(inspection, &typed)?
            }
        })
    }
}

/// Why a regular file is not written to, what would be lost, and what to do instead. A file that somebody filled is not offered for
/// overwriting.
fn would_be_lost(name: &str, inspection: &Inspection) -> String {
    let size = inspection.identity.capacity;
    let holds = inspection.holds();
    if holds.is_empty() {
        return format!(
            "{name} exists ({size}; its beginning is blank) and would be overwritten: give another file, no TARGET for a scratch \
             file, or --overwrite-file if nothing behind its beginning is needed"
        );
    }
    let content = FileContent::of_file(&inspection.path);
    let advice = content.map_or(String::new(), |content| files::advice_on(name, content));
    format!(
        "{name} exists and holds {holds} ({size}), which would be lost: give another file, or no TARGET for a scratch file{advice}"
    )
}

/// A device by its path and, if they are known, its model and serial number.
fn in_words(name: &str, inspection: &Inspection) -> String {
    let identity = &inspection.identity;
    let known: Vec<&str> =
        [&identity.model, &identity.serial].into_iter().flatten().map(String::as_str).collect();
    let words = if known.is_empty() { name.to_owned() } else { format!("{name} ({})", known.join(" ")) };
    printable(&words)
}

/// Warnings about a real target.
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
            format!("this machine is virtual ({by}): the underlying device is shared and partly cached");
        warnings.push(("virtual_machine".to_owned(), message));
    }
    warnings
}

/// What is measured of a target: its whole blocks. A file may end within one.
pub fn whole_blocks(identity: &Identity) -> Bytes {
    identity.capacity.round_down(identity.logical_block.unwrap_or(Bytes(512)))
}

/// Refuses a device that holds less than one block.
pub fn check_medium(target: &Target, identity: &Identity) -> Result<()> {
    if !target.is_simulated() && identity.capacity < identity.logical_block.unwrap_or(Bytes(512)) {
        let what = if identity.capacity == Bytes::ZERO { "empty" } else { "smaller than one block" };
        bail!(Usage(format!(
            "{target} is {what}: give a device with a medium in it, or a file with content"
        )));
    }
    Ok(())
}

/// The target that a manifest names.
pub fn parsed(name: &str) -> Result<Target> {
    Ok(name.parse().map_err(|error: ParseTargetError| Usage(error.to_string()))?)
}

/// The target by a path that works from every directory. Links stay links, because a link by serial number is
/// the better name.
pub fn absolute(target: &Target) -> Result<Target> {
    let absolute = |path: &str| -> Result<String> {
        Ok(std::path::absolute(path).with_context(|| format!("cannot find {path}"))?.display().to_string())
    };
    Ok(match target {
        Target::Simulated(SimulatedTarget { profile, state }) => {
            let profile = match profile {
                ProfileName::File(file) => ProfileName::File(absolute(file)?),
                zoo => zoo.clone(),
            };
            let state = state.as_deref().map(absolute).transpose()?;
            Target::Simulated(SimulatedTarget { profile, state })
        }
        Target::Path(path) => Target::Path(absolute(path)?),
    })
}
