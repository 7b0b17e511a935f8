//! What a person calls a simulated device, behind `sim:`: a name of the zoo or the file of a profile, and behind an `@` the
//! file of a saved state. Nothing is opened here.

use crate::profile::{Profile, ProfileError};
use crate::zoo::zoo;

/// A simulated device's name, and the file of its state behind an `@`.
pub fn split_state(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('@') {
        Some((device, state)) if !name.ends_with(".toml") => (device, Some(state)),
        _ => (name, None),
    }
}

/// Whether a name is that of a file and not one of the zoo.
pub fn is_profile_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

impl Profile {
    /// The zoo's profile of this name, or the one in the file of this name, whose text `read` gets.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] for a name that is not in the zoo; those of `read` and of [`Profile::parse`].
    pub fn named<E: From<ProfileError>>(
        name: &str,
        read: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<Profile, E> {
        if is_profile_file(name) {
            return Ok(Profile::parse(&read(name)?, name)?);
        }
        let found = zoo().into_iter().find(|profile| profile.name == name);
        Ok(found.ok_or_else(|| ProfileError::Unknown { name: name.to_owned() })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_stands_behind_the_last_at_sign() {
        assert_eq!(split_state("zeus"), ("zeus", None));
        assert_eq!(split_state("./a@b.toml"), ("./a@b.toml", None));
        assert_eq!(split_state("./a@b.toml@old"), ("./a@b.toml", Some("old")));
    }

    #[test]
    fn names_are_looked_up_and_files_are_read() {
        let unread = |_: &str| -> Result<String, ProfileError> { panic!("no file is meant") };
        assert_eq!(Profile::named("zeus", unread).unwrap().name, "zeus");
        assert_eq!(
            Profile::named("zeuss", unread).unwrap_err().to_string(),
            "there is no simulated device `zeuss`: `flashlab sim list` names them; or give a file as sim:./zeuss.toml"
        );
        let read = |file: &str| -> Result<String, ProfileError> { Ok(format!("file {file}")) };
        assert!(Profile::named("./zeus", read).unwrap_err().to_string().starts_with("profile ./zeus:"));
    }
}
