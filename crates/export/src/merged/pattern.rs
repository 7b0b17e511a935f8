//! Patterns of names.

/// Whether a name matches a pattern, byte for byte: `*` is anything; `?` is one byte; `[abc]`, `[a-z]` and `[!a]` are one of those
/// bytes, or none of them; a backslash makes the byte behind it ordinary. As in a shell, a name that begins with a dot matches only a
/// pattern that does, and `.` and `..` match none.
pub fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    let is_hidden = name.first() == Some(&b'.') && !pattern.starts_with(b".") && !pattern.starts_with(b"\\.");
    if is_hidden || matches!(name, b"." | b"..") {
        return false;
    }
    let (mut pattern_at, mut name_at) = (0, 0);
    // Behind the last star, and how much of the name it takes.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = &pattern[pattern_at..];
        if rest.first() == Some(&b'*') {
            pattern_at += 1;
            star = Some((pattern_at, name_at));
            continue;
        }
        match name.get(name_at).map(|&byte| one_matches(rest, byte)) {
            None if rest.is_empty() => return true,
            Some(Some(length)) => {
                pattern_at += length;
                name_at += 1;
            }
            _ => match &mut star {
                Some((behind, taken)) if *taken < name.len() => {
                    *taken += 1;
                    (pattern_at, name_at) = (*behind, *taken);
                }
                _ => return false,
            },
        }
    }
}

/// The length of the pattern's first element, if the byte matches it.
fn one_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', set @ ..] => {
            let is_negated = matches!(set.first(), Some(b'!' | b'^'));
            let set = if is_negated { &set[1..] } else { set };
            // A bracket that is the first of its set is in the set.
            let end = set.iter().skip(1).position(|&end| end == b']')? + 1;
            let mut is_in = false;
            let mut at = 0;
            while at < end {
                let range = at + 2 < end && set[at + 1] == b'-';
                is_in |= if range { (set[at]..=set[at + 2]).contains(&byte) } else { set[at] == byte };
                at += if range { 3 } else { 1 };
            }
            (is_in != is_negated).then_some(end + 2 + usize::from(is_negated))
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_documented() {
        let matches = |pattern: &str, name: &str| name_matches(pattern.as_bytes(), name.as_bytes());
        for (pattern, name) in [
            ("*.db", "a.db"),
            ("a*.db*", "ab.db-wal"),
            ("db?wal", "db-wal"),
            ("*[a-c]x*[!0-9]", "e-bx12y"),
            ("a\\*", "a*"),
            ("*", ""),
            ("[]a]", "]"),
            (".*", ".a"),
            ("\\.a", ".a"),
            ("a*", "a.b"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.db", "a.db-wal"),
            ("a\\*", "ab"),
            ("[a", "a"),
            ("[!a]", "a"),
            ("", "a"),
            ("a?", "a"),
            ("*", ".a"),
            ("?a", ".a"),
            ("[.]a", ".a"),
            (".*", "."),
            (".*", ".."),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
