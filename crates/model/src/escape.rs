//! Texts from outside in the formats of other programs, so that nothing in a name becomes a line or a rule of its own.
//!
//! Model names and firmware come from devices and model files, mount points from the command line. One function a format. The
//! other formats of `tune` (postgresql.conf, RocksDB's options, ceph.conf, fio's job files, the kernel's lines) have numbers only,
//! and TOML is written by its library.

use std::fmt::Write as _;

/// The pattern for a name in a match line of systemd's hwdb; `None` if no letter or digit is left to match.
///
/// A line of hwdb ends at its line break, and at `#`. `*`, `?` and `[` are wildcards, and a backslash does not protect them: the
/// index compares it as it is. So `?` stands for each of these, and `*` for what is no printable ASCII.
pub(crate) fn hwdb_pattern(name: &str) -> Option<String> {
    let mut pattern = String::with_capacity(name.len());
    for c in name.trim().chars() {
        match c {
            '*' | '?' | '[' | ']' | '\\' | '#' => pattern.push('?'),
            ' '..='~' => pattern.push(c),
            _ if pattern.ends_with('*') => {}
            _ => pattern.push('*'),
        }
    }
    pattern.contains(|c: char| c.is_ascii_alphanumeric()).then_some(pattern)
}

/// A text as a scalar of YAML: plain if it is an ordinary path, else between double quotes with the escapes of JSON, which YAML
/// 1.2 has as well (section 5.7).
pub(crate) fn yaml_text(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if text.starts_with('/') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        let is_escaped = |c: char| {
            c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_escaped(c) => {
                // All of these are in the basic plane: one escape each.
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names with what the formats give a meaning to.
    fn hostile_name() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            any::<char>().prop_map(String::from),
            proptest::sample::select(vec![
                "\n",
                "\r",
                "\r\n",
                "\0",
                "\u{85}",
                "\u{2028}",
                "#",
                "*",
                "?",
                "[",
                "]",
                "\\",
                ":",
                "'",
                "\"",
                "- ",
                "{",
                "}",
                "%",
                "@",
                "`",
                "!",
                "&",
                "|",
                ">",
                "=",
                ",",
                " ",
                "\t",
                "\u{1b}[2J",
                "\u{202e}",
                "\u{feff}",
                "SSD 1",
                "/mnt",
                "\n  SYSTEMD_WANTS=pwn.service\n",
                "\ndisks: []\n",
                "block:*",
                "\u{ffff}",
            ])
            .prop_map(str::to_owned),
        ];
        proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_name_is_one_pattern_of_hwdb(name in hostile_name()) {
            let Some(pattern) = hwdb_pattern(&name) else { return Ok(()) };
            prop_assert!(pattern.chars().all(|c| (' '..='~').contains(&c)), "{pattern:?}");
            prop_assert!(!pattern.contains(['#', '[', ']', '\\']), "{pattern:?}");
            prop_assert!(pattern.contains(|c: char| c.is_ascii_alphanumeric()), "it matches everything: {pattern:?}");
            // It matches the name that it was made of.
            prop_assert!(matches_pattern(&pattern, name.trim()), "{pattern:?} {name:?}");
        }

        #[test]
        fn a_title_is_one_text_of_a_profile(title in hostile_name()) {
            let mut profile = flashlab_sim::zoo().into_iter().next().expect("the zoo has devices");
            (profile.title, profile.source) = (title.clone(), title);
            let read = flashlab_sim::Profile::parse(&profile.to_toml(), "hostile").unwrap();
            prop_assert_eq!((read.title, read.source), (profile.title.clone(), profile.source.clone()));
        }

        #[test]
        fn a_text_is_one_scalar_of_yaml(text in hostile_name()) {
            let scalar = yaml_text(&text);
            prop_assert!(!scalar.contains(|c: char| c.is_control()), "{scalar:?}");
            match scalar.starts_with('"') {
                // YAML 1.2 contains JSON.
                true => prop_assert_eq!(serde_json::from_str::<String>(&scalar).unwrap(), text),
                false => prop_assert!(scalar == text && scalar.starts_with('/') && !scalar.contains([':', '#', ' '])),
            }
        }
    }

    /// Whether a pattern of `*` and `?` matches, as fnmatch does.
    fn matches_pattern(pattern: &str, name: &str) -> bool {
        match pattern.chars().next() {
            None => name.is_empty(),
            Some('*') => name
                .char_indices()
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| matches_pattern(&pattern[1..], &name[at..])),
            Some(wanted) => name.chars().next().is_some_and(|c| {
                (wanted == '?' || c == wanted) && matches_pattern(&pattern[1..], &name[c.len_utf8()..])
            }),
        }
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        assert_eq!(hwdb_pattern(" Samsung SSD 970 EVO 500GB ").unwrap(), "Samsung SSD 970 EVO 500GB");
        assert_eq!(hwdb_pattern("a\n  SYSTEMD_WANTS=pwn.service").unwrap(), "a*  SYSTEMD_WANTS=pwn.service");
        assert_eq!((hwdb_pattern("\n*"), hwdb_pattern("")), (None, None));
        assert_eq!(yaml_text("/var/lib/scylla"), "/var/lib/scylla");
        assert_eq!(yaml_text("/mnt/a: b\n# c"), "\"/mnt/a: b\\u000a# c\"");
    }
}
