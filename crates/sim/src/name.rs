//! From the name of a profile to the profile. Nothing is opened here.

use flashlab_base::ProfileName;

use crate::profile::{Profile, ProfileError};
use crate::zoo::zoo;

impl Profile {
    /// The zoo's profile of this name, or the profile in the file of this name, whose text `read` returns.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] for a name that is not in the zoo; those of `read` and of [`Profile::parse`].
    pub fn named<E: From<ProfileError>>(
        name: &ProfileName,
        read: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<Profile, E> {
        match name {
            ProfileName::File(file) => Ok(Profile::parse(&read(file)?, file)?),
            ProfileName::Zoo(name) => {
                let found = zoo().into_iter().find(|profile| profile.name == *name);
                Ok(found.ok_or_else(|| ProfileError::Unknown { name: name.clone() })?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_files_are_read() {
        let unread = |_: &str| -> Result<String, ProfileError> { panic!("no file is meant") };
        let name = |text: &str| text.parse::<ProfileName>().unwrap();
        assert_eq!(Profile::named(&name("zeus"), unread).unwrap().name, "zeus");
        assert_eq!(
            Profile::named(&name("zeuss"), unread).unwrap_err().to_string(),
            "there is no simulated device `zeuss`: `flashlab sim list` names them; or give a file as sim:./zeuss.toml"
        );
        let read = |file: &str| -> Result<String, ProfileError> { Ok(format!("file {file}")) };
        assert!(
            Profile::named(&name("./zeus"), read).unwrap_err().to_string().starts_with("profile ./zeus:")
        );
    }
}
