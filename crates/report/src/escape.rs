//! Outside bytes on their way into HTML.
//!
//! Invariant: what [`Text`] writes is text in any element and in any quoted attribute, and what
//! [`json`] writes neither ends nor comments out the `<script>` element that it stands in.

use std::fmt;

use serde::Serialize;

/// Displays a text so that HTML shows it and never interprets it.
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' => fmt::Write::write_char(f, c)?,
                // NUL and its kin are not allowed in HTML; direction overrides would let a device's
                // name rearrange the text around it.
                c if c.is_control() || is_direction_override(c) => f.write_str("\u{fffd}")?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

/// Whether `c` changes the direction of the text after it.
pub fn is_direction_override(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `value` as JSON that is safe inside a `<script>` element.
pub fn json<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("charts are maps with text keys, which JSON can hold");
    // Outside strings JSON has none of these characters, so an escape is right wherever one stands.
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let shown = Text("</script><img src=x onerror=\"a('b')\">&amp;\0\u{202e}").to_string();
        assert_eq!(
            shown,
            "&lt;/script&gt;&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;&amp;amp;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn json_stays_inside_its_script_and_means_the_same() {
        let text = "</script><!--<script>\u{2028}&\"";
        let shown = json(&text);
        assert!(!shown.contains(['<', '>', '&']), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
