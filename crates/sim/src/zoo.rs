//! The device profiles that flashlab brings along.

use crate::profile::Profile;

/// The file's name and text.
macro_rules! profiles {
    ($($file:literal)*) => { &[$(($file, include_str!(concat!("../profiles/", $file)))),*] };
}

const PROFILES: &[(&str, &str)] = profiles! {
    "sun-zhang-unknown.toml"
    "sun-zhang-kingston.toml"
    "sun-zhang-pny.toml"
    "dt-secure.toml"
    "mini-traveldrive.toml"
    "transmemory-512m.toml"
    "cruzer-micro.toml"
    "mdrive.toml"
    "mdrive-100.toml"
    "transmemory-1g.toml"
    "smi.toml"
    "kingston-cf.toml"
    "dt-elite-2g.toml"
    "dt-elite-4g.toml"
    "td-classic.toml"
    "cf-120x.toml"
    "supertalent.toml"
    "hama.toml"
    "deskstar.toml"
    "barracuda.toml"
    "uflip-memoright.toml"
    "uflip-mtron.toml"
    "uflip-samsung.toml"
    "uflip-transcend-ide.toml"
    "uflip-transcend-mlc.toml"
    "uflip-dt-hyperx.toml"
    "uflip-dti.toml"
    "zeus.toml"
    "iodrive.toml"
    "sdcard.toml"
    "emmc.toml"
    "qlc-sata.toml"
    "tlc-sata.toml"
    "nvme-consumer.toml"
    "nvme-enterprise.toml"
    "sk-hynix-pe8110.toml"
    "samsung-pm9a3.toml"
    "solidigm-p5520.toml"
    "micron-7450-pro.toml"
    "micron-7450-max.toml"
    "kioxia-cm7-r.toml"
    "wd-dc-pcie3.toml"
    "cloud-gp.toml"
    "cloud-local.toml"
};

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
            assert_eq!(format!("{}.toml", profile.name), *file);
        }
    }
}
