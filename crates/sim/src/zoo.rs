//! The device profiles that flashlab brings along.

use crate::profile::Profile;

const PROFILES: [(&str, &str); 1] = [("zeus.toml", include_str!("../profiles/zeus.toml"))];

/// Every profile of the zoo.
pub fn zoo() -> Vec<Profile> {
    PROFILES
        .iter()
        .map(|(file, text)| Profile::parse(text, file).expect("a test parses every profile of the zoo"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_of_the_zoo_parses_and_is_named_as_its_file() {
        let profiles = zoo();
        assert_eq!(profiles.len(), PROFILES.len());
        for (profile, (file, _)) in profiles.iter().zip(PROFILES) {
            assert_eq!(format!("{}.toml", profile.name), file);
        }
    }
}
