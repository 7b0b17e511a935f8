//! Every type that a crate exports has a name that no other crate's type has.

use std::collections::BTreeMap;

use crate::sources::{code_of, crates};

#[test]
fn one_name_stands_for_one_type() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in crates() {
        for (path, code) in code_of(&format!("crates/{name}")) {
            // Of `infer`, what it shows to others.
            if name == "infer" && !["lib.rs", "group.rs"].iter().any(|file| path.ends_with(file)) {
                continue;
            }
            for (number, line) in code {
                if let Some(name) = public_type(&line) {
                    found.entry(name.to_owned()).or_default().push(format!("{}:{number}", path.display()));
                }
            }
        }
    }
    assert!(found.len() > 100, "only {} types were found: the test is broken", found.len());
    let several = found.iter().filter(|(_, places)| places.len() > 1);
    let several: Vec<String> =
        several.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    assert!(several.is_empty(), "these names stand for several types:\n{}", several.join("\n"));
}

/// The type that this line exports.
fn public_type(line: &str) -> Option<&str> {
    let declared = line.trim_start().strip_prefix("pub ")?;
    let name = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|kind| declared.strip_prefix(kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn types_are_seen() {
    assert_eq!(public_type("pub struct Seen<T>(T);"), Some("Seen"));
    assert_eq!(public_type("    pub trait Layer {"), Some("Layer"));
    assert_eq!(public_type("pub(crate) struct Seen;"), None);
    assert_eq!(public_type("struct Seen;"), None);
}
