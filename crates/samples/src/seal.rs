//! The checksum in a text of a run, so that a damaged text is refused and not read as other figures.
//!
//! # Model
//! A sealed text is the text with a CRC-32 of itself near its end, where other readers take it for one more key or a comment.
//! A CRC-32 finds each change of up to 32 neighbouring bits. It is no protection against people.
//!
//! # Invariants
//! - A text that was sealed and then changed in one bit is refused, or its content is the same.
//! - A text without a checksum is accepted: a person may have removed it to edit the text.

use std::path::Path;

use crate::SamplesError;

/// How a kind of text carries its checksum: the checksum stands between `before` and `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// What a text of this kind ends with, where it can be sealed.
    end: &'static str,
    before: &'static str,
    after: &'static str,
    /// What no text of this kind contains but in its seal.
    key: &'static str,
}

/// A JSON document, an object, as `serde_json` prints it for people.
pub const DOCUMENT: Seal =
    Seal { end: "\n}\n", before: ",\n  \"crc32\": \"", after: "\"\n}\n", key: "\"crc32\":" };
/// An object on one line of JSON, without the end of the line.
pub const LINE: Seal = Seal { end: "}", before: ",\"crc32\":\"", after: "\"}", key: "\"crc32\":" };
/// A plan or a profile in TOML.
pub const TOML: Seal = Seal { end: "\n", before: "# crc32: ", after: "\n", key: "# crc32: " };

/// The digits of a checksum.
const DIGITS: usize = 8;

impl Seal {
    /// The text with its checksum. What has no place for one stays as it is: a number, or an empty object.
    pub fn sealed(self, text: &str) -> String {
        let Some(body) = text.strip_suffix(self.end).filter(|body| body.len() > 1) else {
            return text.to_owned();
        };
        // A comment follows the end of the last line; a key comes before the end of the object.
        let body = if self == TOML { text } else { body };
        format!("{body}{}{:08x}{}", self.before, crc32fast::hash(text.as_bytes()), self.after)
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
            let is_moved = text.contains(self.key);
            return if is_moved {
                Err("its checksum is not at its end: the file was changed")
            } else {
                Ok(())
            };
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(body.as_bytes());
        if self != TOML {
            hasher.update(self.end.as_bytes());
        }
        match format!("{:08x}", hasher.finalize()) == found {
            true => Ok(()),
            false => Err("its checksum does not match: the file is damaged or was changed"),
        }
    }

    /// As [`Seal::verify`], of a file that a person may edit and whose checksum is its last line.
    ///
    /// # Errors
    /// What is wrong with the file of this name, and what to do.
    pub fn verify_editable(self, text: &str, file: &str) -> Result<(), String> {
        self.verify(text).map_err(|damage| {
            format!("{file}: {damage}; restore it, or remove its last line if you changed it yourself")
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

    fn texts() -> [(Seal, String); 3] {
        let value = serde_json::json!({"name": "Grundzustand", "ns": 17, "of": {"crc": "\"crc32\":"}});
        let document = serde_json::to_string_pretty(&value).unwrap() + "\n";
        [(DOCUMENT, document), (LINE, value.to_string()), (TOML, "name = \"x\"\n# a comment\n".to_owned())]
    }

    #[test]
    fn a_sealed_text_has_the_same_content_and_is_accepted() {
        for (seal, text) in texts() {
            let sealed = seal.sealed(&text);
            assert!(sealed != text && seal.verify(&sealed).is_ok() && seal.verify(&text).is_ok(), "{sealed}");
            if seal != TOML {
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
            let own = sealed.len() - text.len();
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
    fn a_checksum_that_was_moved_is_refused() {
        let (seal, text) = &texts()[0];
        let moved = text.replacen("{\n", "{\n  \"crc32\": \"00000000\",\n", 1);
        assert!(seal.verify(&moved).unwrap_err().contains("changed"));
    }
}
