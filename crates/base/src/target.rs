//! TARGET: the text that names the device of a command.
//!
//! | written | meaning |
//! | --- | --- |
//! | `sim:NAME`, `sim:NAME@STATE` | a simulated device of the zoo, new or in a saved state |
//! | `sim:./FILE.toml`, `sim:./FILE.toml@STATE` | the simulated device of a profile's file |
//! | anything else | the path of a block device or a regular file |
//!
//! A profile's name that contains `/` or ends in `.toml` is a file. `STATE` is a file, after the last `@`.
//!
//! Invariants: nothing is opened here; a parsed target is displayed as it was written.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The device that a command works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A simulated device, in virtual time.
    Simulated(SimulatedTarget),
    /// The path of a block device or a regular file.
    Path(String),
}

/// A simulated device and the state that it begins in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedTarget {
    /// Which device.
    pub profile: ProfileName,
    /// The file of a saved state; without one the device is new.
    pub state: Option<String>,
}

/// Which profile a simulated device is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileName {
    /// One of the zoo.
    Zoo(String),
    /// A file.
    File(String),
}

const SCHEME: &str = "sim:";

/// Why a text names no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("sim: names no device: flashlab sim list names them, or give a file as sim:./profile.toml")]
pub struct ParseTargetError;

impl Target {
    /// Whether the device is a simulated one.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Target::Simulated(_))
    }
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Target, ParseTargetError> {
        match text.starts_with(SCHEME) {
            true => text.parse().map(Target::Simulated),
            false => Ok(Target::Path(text.to_owned())),
        }
    }
}

/// Reads `NAME[@STATE]` or `./FILE.toml[@STATE]`, with or without `sim:`.
impl FromStr for SimulatedTarget {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<SimulatedTarget, ParseTargetError> {
        let name = text.strip_prefix(SCHEME).unwrap_or(text);
        let (profile, state) = match name.rsplit_once('@') {
            Some((profile, state)) if !name.ends_with(".toml") => (profile, Some(state.to_owned())),
            _ => (name, None),
        };
        Ok(SimulatedTarget { profile: profile.parse()?, state })
    }
}

/// Reads `NAME` or `./FILE.toml`, with or without `sim:`.
impl FromStr for ProfileName {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<ProfileName, ParseTargetError> {
        match text.strip_prefix(SCHEME).unwrap_or(text) {
            "" => Err(ParseTargetError),
            name if name.contains('/') || name.ends_with(".toml") => Ok(ProfileName::File(name.to_owned())),
            name => Ok(ProfileName::Zoo(name.to_owned())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Simulated(target) => target.fmt(f),
            Target::Path(path) => f.write_str(path),
        }
    }
}

/// With `sim:`.
impl fmt::Display for SimulatedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.profile)?;
        self.state.as_ref().map_or(Ok(()), |state| write!(f, "@{state}"))
    }
}

/// Without `sim:`.
impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileName::Zoo(name) | ProfileName::File(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulated(profile: ProfileName, state: Option<&str>) -> Target {
        Target::Simulated(SimulatedTarget { profile, state: state.map(str::to_owned) })
    }

    #[test]
    fn targets_are_parsed_and_displayed_as_they_were_written() {
        let zoo = |name: &str| ProfileName::Zoo(name.to_owned());
        let file = |name: &str| ProfileName::File(name.to_owned());
        for (text, expected) in [
            ("sim:zeus", simulated(zoo("zeus"), None)),
            ("sim:zeus@old", simulated(zoo("zeus"), Some("old"))),
            ("sim:zeus.toml", simulated(file("zeus.toml"), None)),
            ("sim:./a@b.toml", simulated(file("./a@b.toml"), None)),
            ("sim:./a@b.toml@old", simulated(file("./a@b.toml"), Some("old"))),
            ("/dev/sda", Target::Path("/dev/sda".to_owned())),
            ("a@b", Target::Path("a@b".to_owned())),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target, expected);
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn the_scheme_may_be_left_out_where_only_simulated_devices_are_meant() {
        assert_eq!("zeus@old".parse::<SimulatedTarget>(), "sim:zeus@old".parse());
        assert_eq!("zeus".parse::<ProfileName>(), "sim:zeus".parse());
    }

    #[test]
    fn a_scheme_alone_names_no_device() {
        assert_eq!("sim:".parse::<Target>(), Err(ParseTargetError));
        assert_eq!("sim:@state".parse::<Target>(), Err(ParseTargetError));
    }
}
