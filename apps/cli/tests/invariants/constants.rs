//! Each number of inference says what it bounds, in which unit, where it comes from, and what breaks when it is off.
//!
//! 1. A constant of crate `infer` counts if its value contains a number. Rules, labels and names of parameters do not.
//! 2. Its type is a unit ([`UNITS`]), or its comment has a sentence "Unit: ..".
//! 3. Its comment has a sentence "Source: ..": a paper, a derivation, or a calibration with its command. The words
//!    `tuned` and `choice` are defined in crates/infer/src/thresholds.rs.
//! 4. Its comment says what breaks: "Too high: ..", "Too small: .." and their like.
//!
//! Both numbers below may only shrink. To see the constants: `cargo test --workspace --test invariants constants -- --nocapture`.

use std::fs;

use crate::sources::{collect, test_modules, without_texts, workspace};

/// The constants of `infer` that are left.
const CONSTANTS_MOST: usize = 549;
/// Those of them that lack one of the three sentences.
const UNEXPLAINED_MOST: usize = 25;

/// Types that are a unit.
const UNITS: &[&str] = &["Bytes", "Nanos"];
/// What a sentence about a wrong value begins with.
const CONSEQUENCES: &[&str] =
    &["high", "low", "large", "small", "long", "short", "many", "few", "wide", "narrow"];

/// A constant, with its comment.
struct Constant {
    name: String,
    kind: String,
    value: String,
    comment: String,
}

impl Constant {
    /// Whether a number is in its value, and not only in names.
    fn is_number(&self) -> bool {
        let mut before = ' ';
        without_texts(&self.value).chars().any(|c| {
            let is_number = c.is_ascii_digit() && !before.is_alphanumeric() && before != '_';
            before = c;
            is_number
        })
    }

    /// The sentences that its comment lacks.
    fn lacks(&self) -> Vec<&'static str> {
        let has_unit = UNITS.iter().any(|unit| self.kind.contains(unit)) || self.comment.contains("Unit: ");
        let says = |word: &&str| {
            self.comment.contains(&format!("Too {word}: ")) || self.comment.contains(&format!("too {word}: "))
        };
        let sentences = [
            (has_unit, "a unit"),
            (self.comment.contains("Source: "), "a source"),
            (CONSEQUENCES.iter().any(says), "what breaks when it is off"),
        ];
        sentences.into_iter().filter(|(is_there, _)| !is_there).map(|(_, sentence)| sentence).collect()
    }
}

/// The constants of a file, without those of its tests.
fn constants_of(text: &str) -> Vec<Constant> {
    let end = text.find("#[cfg(test)]\nmod tests {").or(text.find("#[cfg(test)]\npub(crate) mod tests {"));
    let (mut constants, mut comment) = (Vec::new(), String::new());
    let mut lines = text[..end.unwrap_or(text.len())].lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(sentence) = line.strip_prefix("///") {
            comment = format!("{comment}{sentence}");
            continue;
        }
        let comment = std::mem::take(&mut comment);
        let declared = ["const ", "pub const ", "pub(crate) const ", "pub(super) const "];
        let Some(declaration) = declared.iter().find_map(|start| line.strip_prefix(start)) else { continue };
        let Some((name, rest)) = declaration.split_once(": ").filter(|(name, _)| !name.contains('(')) else {
            continue;
        };
        let mut rest = rest.to_owned();
        while !without_texts(&rest).trim_end().ends_with(';') {
            let Some(next) = lines.next() else { break };
            rest.push_str(next);
        }
        let (kind, value) = rest.split_once(" =").unwrap_or((&rest, ""));
        let is_word = ["Rule", "Probe", "Parameter", "str"].iter().any(|word| kind.contains(word));
        if !is_word {
            let [name, kind, value] = [name, kind, value].map(str::to_owned);
            constants.push(Constant { name, kind, value, comment });
        }
    }
    constants.retain(Constant::is_number);
    constants
}

#[test]
fn constants_of_inference_are_few_and_explain_themselves() {
    let mut files = Vec::new();
    collect(&workspace().join("crates/infer/src"), &mut files);
    files.sort();
    let texts: Vec<_> = files.iter().map(|path| (path, fs::read_to_string(path).unwrap())).collect();
    let tests: Vec<String> = texts.iter().flat_map(|(_, text)| test_modules(text)).collect();
    let (mut count, mut unexplained) = (0, 0);
    for (path, text) in &texts {
        if tests.iter().any(|test| path.file_stem().is_some_and(|name| name == test.as_str())) {
            continue;
        }
        for constant in constants_of(text) {
            let lacks = constant.lacks();
            count += 1;
            unexplained += usize::from(!lacks.is_empty());
            if !lacks.is_empty() {
                let path = path.strip_prefix(workspace()).unwrap();
                println!("{}: {} lacks {}", path.display(), constant.name, lacks.join(", "));
            }
        }
    }
    println!("{count} constants, {unexplained} without their sentences");
    assert!(count > 100, "only {count} constants were found: the test is broken");
    assert!(
        count <= CONSTANTS_MOST,
        "{count} constants in crates/infer, and at most {CONSTANTS_MOST} may be left"
    );
    assert!(
        unexplained <= UNEXPLAINED_MOST,
        "{unexplained} constants in crates/infer lack a unit, a source or what breaks, and at most {UNEXPLAINED_MOST} \
         may be left; they are printed above, and crates/infer/src/priors.rs shows how"
    );
}

#[test]
fn what_a_constant_lacks_is_named() {
    let text = "/// A size. Source: ONFI.\n/// Too small: so.\npub const A: Bytes = Bytes::kib(4);\n\
                /// A share.\nconst B: [f64; 2] =\n    [0.1, 0.2];\nconst C: usize = A1;\nconst D: Rule = Rule::weak(\"2\");\n\
                const fn e(x: u32) -> u32 { 1 }\n#[cfg(test)]\nmod tests {\nconst F: u32 = 1;\n}";
    let constants = constants_of(text);
    let names: Vec<(&str, usize)> =
        constants.iter().map(|constant| (constant.name.as_str(), constant.lacks().len())).collect();
    assert_eq!(names, [("A", 0), ("B", 3)]);
}
