//! Parses a [`Setup`] from keys and values, for example those of nbdkit's command line.
//!
//! # Keys
//!
//! | key | value |
//! | --- | --- |
//! | `target` | the device: `sim:NAME[@STATE]` or `sim:./FILE.toml[@STATE]` |
//! | `profile` | the device, as the file of its profile |
//! | `state` | a saved state to begin with |
//! | `size` | the capacity, such as `4GiB`; the profile's if not given |
//! | `backing` | the file that stores the data; memory if not given |
//! | `overwrite-file` | `true`: the backing file may be one that flashlab did not make |
//! | `no-data` | `true`: no data is stored, reads return zeroes |
//! | `volatile-cache` | the most data that a power loss undoes, such as `64MiB` |
//! | `fault` | a fault rule (module `fault_grammar`); may be repeated |
//! | `seed` | the seed of fault rules without a seed of their own; 1 if not given |
//! | `control` | the path of the control socket |
//! | `metrics` | the port of the metrics for Prometheus, on the loopback interface; 0 takes a free one |
//! | `record` | the folder into which every read and write is recorded |
//!
//! # Invariants
//! - parsing makes no file, and opens only profiles and saved states.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flashlab_base::{Bytes, Seed, Target};
use flashlab_input::InputKind;
use flashlab_sim::Profile;

use crate::error::ExportError;
use crate::recorder::RecordingDestination;
use crate::setup::{DataPlacement, Setup};

/// The most data that a power loss undoes, unless `volatile-cache` gives another size.
pub const VOLATILE: Bytes = Bytes::mib(64);

/// The help text of the keys.
pub const HELP: &str = "\
target=sim:NAME[@STATE]   the device: one of the zoo, or sim:./FILE.toml
profile=FILE.toml         the device: a profile, instead of target
state=FILE                a saved state of the device to begin with
size=SIZE                 the capacity; the profile's if not given
backing=FILE              keep the data in this file; in memory if not given
overwrite-file=true       the backing file may be one that flashlab did not make
no-data=true              keep no data: reads return zeroes
volatile-cache=SIZE       the most data that a power loss takes back (64MiB)
fault=KIND[,KEY=VALUE]... a fault rule; may be repeated
seed=N                    the seed of fault rules (1)
control=SOCKET            the path of the control socket
metrics=PORT              serve metrics for Prometheus on this port
record=DIR                record every read and write into this folder";

impl Setup {
    /// The setup for these keys and values; see the module.
    ///
    /// # Errors
    /// An unknown key, an illegal value, or a file that cannot be read; no device, or two.
    pub fn from_keys<'a>(keys: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Setup, ExportError> {
        let (mut profile, mut state, mut size, mut backing) = (None, None, None, None);
        let (mut may_overwrite, mut no_data, mut volatile, mut faults) = (false, false, VOLATILE, Vec::new());
        let (mut control, mut metrics, mut record, mut seed) = (None, None, None, Seed(1));
        for (key, value) in keys {
            let wrong = |what: &str| ExportError::Key(format!("{key}={value}: {what}"));
            match key {
                "target" | "profile" if profile.is_some() => return Err(wrong("a device is given already")),
                "target" => {
                    let Target::Simulated(target) =
                        value.parse().map_err(|error| ExportError::Key(format!("{error}")))?
                    else {
                        return Err(wrong(
                            "this is no simulated device: give sim:NAME (`flashlab sim list` names them)",
                        ));
                    };
                    profile = Some(Profile::named(&target.profile, read_profile)?);
                    state = target.state.map(PathBuf::from).or(state);
                }
                "profile" => {
                    profile = Some(Profile::parse(&read_profile(value)?, value)?);
                }
                "state" => state = Some(PathBuf::from(value)),
                "size" => size = Some(size_of(value).map_err(|error| wrong(&error))?),
                "volatile-cache" => volatile = size_of(value).map_err(|error| wrong(&error))?,
                "backing" => backing = Some(PathBuf::from(value)),
                "overwrite-file" => may_overwrite = flag(value).map_err(wrong)?,
                "no-data" => no_data = flag(value).map_err(wrong)?,
                "fault" => {
                    faults.push(value.parse().map_err(|error| ExportError::Key(format!("{error}")))?);
                }
                "seed" => {
                    seed = Seed(value.parse().map_err(|_| wrong("a seed is a whole number from 0"))?);
                }
                "control" => control = Some(PathBuf::from(value)),
                "metrics" => {
                    metrics = Some(value.parse().map_err(|_| wrong("a port is a number from 0 to 65535"))?);
                }
                "record" => record = Some(record_to(value)),
                _ => return Err(wrong(&format!("there is no such key; there are\n{HELP}"))),
            }
        }
        let Some(profile) = profile else {
            return Err(ExportError::Key(
                "which device? Give target=sim:NAME (`flashlab sim list` names them) or profile=FILE.toml"
                    .to_owned(),
            ));
        };
        let profile = match size {
            Some(_) if state.is_some() => {
                return Err(ExportError::Key(ExportError::STATE_AND_SIZE.to_owned()));
            }
            Some(size) => profile.resized(size)?,
            None => profile,
        };
        let state = state.map(|file| state_of(&file, &profile)).transpose()?;
        let data = match (backing, no_data) {
            (Some(_), true) => {
                return Err(ExportError::Key(
                    "backing keeps data, and no-data keeps none: leave out one of them".to_owned(),
                ));
            }
            (Some(path), false) => DataPlacement::File { path, may_overwrite },
            (None, true) => DataPlacement::Nowhere,
            (None, false) => DataPlacement::Memory,
        };
        Ok(Setup { profile, state, data, volatile, faults, seed, control, metrics, record })
    }
}

fn record_to(folder: &str) -> RecordingDestination {
    RecordingDestination {
        folder: PathBuf::from(folder),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    }
}

/// The text of a profile's file.
fn read_profile(file: &str) -> Result<String, ExportError> {
    let text = flashlab_input::read_text(Path::new(file), InputKind::PROFILE)
        .map_err(|error| ExportError::Key(format!("cannot read the profile {file}: {error}")))?;
    flashlab_samples::seal::PROFILE.verify_editable(&text, file).map_err(ExportError::Key)?;
    Ok(text)
}

fn state_of(file: &Path, profile: &Profile) -> Result<Vec<u8>, ExportError> {
    let kind = InputKind { name: "state of this device", largest: profile.largest_state()? };
    flashlab_input::read(file, kind)
        .map_err(|error| ExportError::Key(format!("cannot read the state {}: {error}", file.display())))
}

fn size_of(value: &str) -> Result<Bytes, String> {
    match value.parse::<Bytes>() {
        Ok(Bytes::ZERO) => Err("it must be more than 0".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

fn flag(value: &str) -> Result<bool, &'static str> {
    match value {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("give true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(keys: &[(&str, &str)]) -> Result<Setup, String> {
        Setup::from_keys(keys.iter().copied()).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_make_a_setup() {
        let setup = setup(&[
            ("target", "sim:zeus"),
            ("size", "1G"),
            ("backing", "/tmp/disk"),
            ("overwrite-file", "true"),
            ("fault", "torn,nth=3"),
            ("fault", "dead,nth=9"),
        ]);
        let setup = setup.unwrap();
        assert_eq!((setup.profile.name.as_str(), setup.profile.capacity), ("zeus", Bytes::gib(1)));
        assert_eq!(setup.data, DataPlacement::File { path: PathBuf::from("/tmp/disk"), may_overwrite: true });
        assert_eq!((setup.faults.len(), setup.volatile), (2, VOLATILE));
    }

    #[test]
    fn every_key_in_the_help_is_accepted() {
        let keys: Vec<&str> = HELP.lines().map(|line| line.split_once('=').unwrap().0).collect();
        for key in &keys {
            let refused = setup(&[(key, "")]).err().unwrap_or_default();
            assert!(!refused.contains("no such key"), "{key}: {refused}");
        }
        assert_eq!(keys.len(), 13);
    }

    #[test]
    fn a_wrong_key_or_value_is_refused_with_the_reason() {
        let wrong = |keys: &[(&str, &str)]| setup(keys).unwrap_err();
        insta::assert_snapshot!(wrong(&[]), @"which device? Give target=sim:NAME (`flashlab sim list` names them) or profile=FILE.toml");
        insta::assert_snapshot!(wrong(&[("target", "/dev/sda")]), @"target=/dev/sda: this is no simulated device: give sim:NAME (`flashlab sim list` names them)");
        insta::assert_snapshot!(wrong(&[("target", "sim:zeuss")]), @"there is no simulated device `zeuss`: `flashlab sim list` names them; or give a file as sim:./zeuss.toml");
        insta::assert_snapshot!(wrong(&[("profile", "/nowhere.toml")]), @"cannot read the profile /nowhere.toml: No such file or directory (os error 2)");
        insta::assert_snapshot!(wrong(&[("profile", "/dev/zero")]), @"cannot read the profile /dev/zero: it is a character device and not a file");
        insta::assert_snapshot!(wrong(&[("target", "sim:zeus"), ("size", "0")]), @"size=0: it must be more than 0");
        insta::assert_snapshot!(wrong(&[("target", "sim:zeus"), ("no-data", "perhaps")]), @"no-data=perhaps: give true or false");
        insta::assert_snapshot!(wrong(&[("target", "sim:zeus"), ("target", "sim:smi")]), @"target=sim:smi: a device is given already");
        insta::assert_snapshot!(wrong(&[("target", "sim:zeus"), ("backing", "a"), ("no-data", "1")]), @"backing keeps data, and no-data keeps none: leave out one of them");
    }
}
