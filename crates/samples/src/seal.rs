//! The checksum in a text of a run, so that a damaged text is refused and not read as other figures.
//!
//! # Model
//! A sealed text is the text with a CRC-32 of itself near its end, where other readers take it for one more key or a comment.
//! A CRC-32 finds each change of up to 32 neighbouring bits. It is no protection against people.
//!
//! # Invariants
//! - A text that was sealed and then changed in one bit is refused, or its content is the same.
//! - A text without a checksum is accepted: a person may have removed it to edit the text. Where a text may lose its end, as a file that
//!   is copied, its first line says that a checksum follows ([`PROFILE`]): without one it is refused.

use std::path::Path;

use crate::SamplesError;

/// How a kind of text carries its checksum: the checksum stands between `before` and `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// What a sealed text begins with: it says that a checksum follows.
    head: &'static str,
    /// What a text of this kind ends with, where it can be sealed.
    end: &'static str,
    /// Whether the checksum is a comment behind the text, and no key within it.
    is_comment: bool,
    before: &'static str,
    after: &'static str,
    /// What no text of this kind contains but in its seal.
    key: &'static str,
}

/// A JSON document, an object, as `serde_json` prints it for people.
pub const DOCUMENT: Seal = Seal {
    head: "",
    end: "\n}\n",
    is_comment: false,
    before: ",\n  \"crc32\": \"",
    after: "\"\n}\n",
    key: "\"crc32\":",
};
/// An object on one line of JSON, without the end of the line.
pub const LINE: Seal =
    Seal { head: "", end: "}", is_comment: false, before: ",\"crc32\":\"", after: "\"}", key: "\"crc32\":" };
/// A plan in TOML, in a folder that lists it with its length.
pub const TOML: Seal =
    Seal { head: "", end: "\n", is_comment: true, before: "# crc32: ", after: "\n", key: "# crc32: " };
/// A profile in TOML, which people copy and edit.
pub const PROFILE: Seal = Seal {
    head: "# The last line is a checksum of this file. To edit the file, remove that line and this one.\n",
    ..TOML
};

/// The digits of a checksum.
const DIGITS: usize = 8;

impl Seal {
    /// The text with its checksum. What has no place for one stays as it is: a number, or an empty object.
    pub fn sealed(self, text: &str) -> String {
        let Some(body) = text.strip_suffix(self.end).filter(|body| body.len() > 1) else {
            return text.to_owned();
        };
        // A comment follows the end of the last line; a key comes before the end of the object.
        let body = if self.is_comment { text } else { body };
        let mut hasher = crc32fast::Hasher::new();
        [self.head, text].iter().for_each(|part| hasher.update(part.as_bytes()));
        format!("{}{body}{}{:08x}{}", self.head, self.before, hasher.finalize(), self.after)
    }

    /// The text without the line that announces its checksum.
    pub fn without_head(self, text: &str) -> &str {
        text.strip_prefix(self.head).unwrap_or(text)
    }

    /// Compares a text with its checksum, if it has one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(self, text: &str) -> Result<(), &'static str> {
        let parts = text.strip_suffix(self.after).and_then(|text| {
            let (body, digits) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
            Some((body.strip_suffix(self.before)?, digits))
        });
        let Some((body, found)) = parts else {
            return match () {
                () if text.contains(self.key) => Err("its checksum is not at its end: the file was changed"),
                () if self.without_head(text) != text => {
                    Err("the checksum that its first line announces is missing: the file was cut or changed")
                }
                () => Ok(()),
            };
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(body.as_bytes());
        if !self.is_comment {
            hasher.update(self.end.as_bytes());
        }
        match format!("{:08x}", hasher.finalize()) == found {
            true => Ok(()),
            false => Err("its checksum does not match: the file is damaged or was changed"),
        }
    }

    /// As [`Seal::verify`], of a file that a person may edit and whose checksum is a comment.
    ///
    /// # Errors
    /// What is wrong with the file of this name, and what to do.
    pub fn verify_editable(self, text: &str, file: &str) -> Result<(), String> {
        self.verify(text).map_err(|damage| {
            format!("{file}: {damage}; restore it, or remove its comments about the checksum if you changed it yourself")
        })
    }

    /// As [`Seal::verify`], with the file in the error.
    pub(crate) fn verify_file(self, path: &Path, text: &str) -> Result<(), SamplesError> {
        self.verify(text).map_err(|wrong| SamplesError::format(path, format!("{wrong}; {REMEDY}")))
    }

    /// Whether a torn text begins with a complete sealed one and goes on. No write that was cut short leaves that.
    pub(crate) fn has_more_behind(self, torn: &str) -> bool {
        let end = torn.find(self.before).map(|at| at + self.before.len() + DIGITS + self.after.len());
        end.is_some_and(|end| torn.len() > end)
    }
}

/// What can be done about a damaged file of a run.
pub const REMEDY: &str = "restore it, or measure again";

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> [(Seal, String); 4] {
        let value = serde_json::json!({"name": "Grundzustand", "ns": 17, "of": {"crc": "\"crc32\":"}});
        let document = serde_json::to_string_pretty(&value).unwrap() + "\n";
        let toml = "name = \"x\"\n# a comment\n".to_owned();
        [(DOCUMENT, document), (LINE, value.to_string()), (TOML, toml.clone()), (PROFILE, toml)]
    }

    #[test]
    fn a_sealed_text_has_the_same_content_and_is_accepted() {
        for (seal, text) in texts() {
            let sealed = seal.sealed(&text);
            assert!(sealed != text && seal.verify(&sealed).is_ok() && seal.verify(&text).is_ok(), "{sealed}");
            if !seal.is_comment {
                let mut value: serde_json::Value = serde_json::from_str(&sealed).unwrap();
                value.as_object_mut().unwrap().remove("crc32").unwrap();
                assert_eq!(value, serde_json::from_str::<serde_json::Value>(&text).unwrap());
            }
        }
        assert_eq!((LINE.sealed("17"), LINE.sealed("{}")), ("17".to_owned(), "{}".to_owned()));
    }

    #[test]
    fn each_flipped_bit_is_refused_or_changes_nothing() {
        for (seal, text) in texts() {
            let sealed = seal.sealed(&text);
            // Flips of the key's name are harmless: the rest is what it was.
            let own = sealed.len() - text.len() - seal.head.len();
            for (place, bit) in (0..sealed.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
                let mut damaged = sealed.clone().into_bytes();
                damaged[place] ^= 1 << bit;
                let Ok(damaged) = String::from_utf8(damaged) else { continue };
                let at_end = place + own + seal.end.len() >= sealed.len();
                assert!(at_end || seal.verify(&damaged).is_err(), "{damaged}");
            }
        }
    }

    #[test]
    fn a_profile_that_was_cut_is_refused_and_one_that_a_person_edited_is_not() {
        let sealed = PROFILE.sealed("name = \"x\"\nsize = 12\n");
        for end in PROFILE.head.len()..sealed.len() {
            assert!(PROFILE.verify(&sealed[..end]).is_err(), "{}", &sealed[..end]);
        }
        let lines: Vec<&str> = sealed.lines().collect();
        assert!(PROFILE.verify(&lines[1..lines.len() - 1].join("\n")).is_ok());
        // A profile of an earlier flashlab does not announce its checksum.
        assert!(PROFILE.verify(&TOML.sealed("name = \"x\"\n")).is_ok());
    }

    #[test]
    fn a_checksum_that_was_moved_is_refused() {
        let (seal, text) = &texts()[0];
        let moved = text.replacen("{\n", "{\n  \"crc32\": \"00000000\",\n", 1);
        assert!(seal.verify(&moved).unwrap_err().contains("changed"));
    }
}
