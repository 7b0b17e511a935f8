//! Makes texts from outside safe in a page, in XML, in Markdown and on a terminal. One function a format.
//!
//! maud makes every text safe as markup. Two dangers are left in a page: characters that HTML forbids or that change
//! the order of the text around them, and JSON that ends its `<script>` element.

use maud::{Markup, html};
use serde::Serialize;

/// `page` with a replacement character in place of each control character and each direction override.
///
/// HTML does not allow NUL and similar characters. A direction override in a device's name would change the
/// order of the text around it.
pub fn without_controls(page: String) -> String {
    let is_forbidden = |c: char| (c.is_control() && !matches!(c, '\t' | '\n')) || is_direction_override(c);
    if page.contains(is_forbidden) { page.replace(is_forbidden, "\u{fffd}") } else { page }
}

/// A sentence whose commands stand in back-ticks, as it is read on a terminal: on a page they are code.
pub fn with_code(sentence: &str) -> Markup {
    let parts = sentence.split('`').enumerate();
    html! { @for (index, part) in parts { @if index % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// What a report writes before and behind a text that has a style.
const STYLES: [&str; 6] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

/// `text` without characters that a terminal would execute instead of show.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_direction_override(c) { '\u{fffd}' } else { c }).collect()
}

/// A text of several lines without characters that a terminal would execute instead of show. Line ends and tabs stay, and so do
/// the styles of reports if the text is `styled`.
pub fn printable_text(text: &str, styled: bool) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let style = STYLES.iter().find(|style| styled && rest.starts_with(**style));
        let length = match (style, c) {
            (Some(style), _) => {
                cleaned.push_str(style);
                style.len()
            }
            (None, '\n' | '\t') => {
                cleaned.push(c);
                1
            }
            (None, _) => {
                cleaned.push_str(&printable(&rest[..c.len_utf8()]));
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    cleaned
}

/// `text` inside a JSON document, with escapes in place of what [`printable`] removes. JSON has such characters in strings only.
pub fn printable_json(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => c.to_string(),
        c if c.is_control() || is_direction_override(c) => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// `text` for Markdown, in which nothing of it is markup: no link, no picture, no mention of a user, no HTML.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '#' | '|' | '~' => escaped.extend(['\\', c]),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            c => escaped.push(c),
        }
    }
    // GitHub makes a link of an address that stands alone.
    escaped.replace("://", "&#58;//").replace("www.", "www&#46;").replace("WWW.", "WWW&#46;")
}

/// `text` for code between back-ticks in a cell of a table of Markdown: a bar would end the cell, even in code, and a back-tick the
/// code.
pub fn markdown_code(text: &str) -> String {
    printable(text).replace('|', "\\|").replace('`', "'")
}

/// `text` for an element or attribute of XML 1.0, before maud escapes it. XML forbids control characters and two others, even
/// escaped, and a reader refuses the whole file for one of them.
pub fn xml(text: &str) -> String {
    printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Whether `c` changes the direction of the text after it.
pub fn is_direction_override(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `value` as JSON that is safe inside a `<script>` element.
pub fn json<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("charts are maps with text keys, which JSON can hold");
    // In JSON these characters occur only inside strings, so an escape is correct everywhere.
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Texts with what the formats give a meaning to.
    pub(crate) fn hostile_text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            any::<char>().prop_map(String::from),
            proptest::sample::select(vec![
                "\n",
                "\r",
                "\0",
                "\u{1b}[2J",
                "\u{9b}",
                "\u{202e}",
                "\u{fffe}",
                "\u{ffff}",
                "<",
                ">",
                "&",
                "]]>",
                "<!--",
                "-->",
                "</testcase>",
                "</script>",
                "&lt;",
                "\"",
                "'",
                "`",
                "``",
                "|",
                "\\",
                "\\|",
                "[x](y)",
                "![x](y)",
                "@someone",
                "#1",
                "*",
                "_",
                "~",
                "http://x",
                "www.x.y",
                " ",
                "a",
            ])
            .prop_map(str::to_owned),
        ];
        proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_text_is_one_line_of_a_terminal(text in hostile_text()) {
            let shown = printable(&text);
            prop_assert!(!shown.contains(|c: char| c.is_control() || is_direction_override(c)), "{shown:?}");
            prop_assert_eq!(shown.chars().count(), text.chars().count());
        }

        #[test]
        fn a_text_is_no_markup_of_markdown(text in hostile_text()) {
            let shown = markdown(&text);
            prop_assert!(!shown.contains(['\n', '<', '@']) && !shown.contains("://"), "{shown:?}");
            let mut escaped = false;
            for c in shown.chars() {
                prop_assert!(escaped || !"`*_[]|~".contains(c), "{c} in {shown:?}");
                escaped = c == '\\' && !escaped;
            }
            let code = markdown_code(&text);
            prop_assert!(!code.contains(['\n', '`']), "{code:?}");
            prop_assert!(code.replace("\\|", "").chars().all(|c| c != '|'), "{code:?}");
        }

        #[test]
        fn a_text_is_one_text_of_xml(text in hostile_text()) {
            let written = maud::html! { (xml(&text)) }.into_string();
            // The characters of XML 1.0, section 2.2, and no markup among them.
            let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
            prop_assert!(written.chars().all(is_allowed) && !written.contains(['<', '>']), "{written:?}");
            let entities = ["&amp;", "&lt;", "&gt;", "&quot;"];
            for (at, _) in written.match_indices('&') {
                prop_assert!(entities.iter().any(|entity| written[at..].starts_with(entity)), "{written:?}");
            }
            let read = entities.iter().zip(["&", "<", ">", "\""]).rev();
            let read = read.fold(written.clone(), |read, (entity, c)| read.replace(entity, c));
            prop_assert_eq!(read, xml(&text));
        }

        #[test]
        fn a_text_is_one_value_in_a_script(text in hostile_text()) {
            let shown = json(&text);
            prop_assert!(!shown.contains(['<', '>', '&', '\n']), "{shown:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }

    #[test]
    fn a_command_in_back_ticks_is_code() {
        let shown = with_code("write `--state <b>` before").into_string();
        assert_eq!(shown, "write <code>--state &lt;b&gt;</code> before");
    }

    #[test]
    fn a_terminal_executes_nothing() {
        assert_eq!(printable("a\u{1b}[2Jb\r\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        let coloured = "\u{1b}[31mred\u{1b}[0m\n\tend\n";
        assert_eq!(printable_text(coloured, true), coloured);
        assert_eq!(printable_text(coloured, false), "\u{fffd}[31mred\u{fffd}[0m\n\tend\n");
        let hostile = "\u{1b}]0;title\u{7}\u{9b}8m\u{1b}[8mhidden\r\u{2066}";
        let cleaned = printable_text(hostile, true);
        assert_eq!(cleaned, "\u{fffd}]0;title\u{fffd}\u{fffd}8m\u{fffd}[8mhidden\u{fffd}\u{fffd}");
        assert_eq!(printable_json("{\n\"a\": \"\u{9b}\u{7f}\"}"), "{\n\"a\": \"\\u009b\\u007f\"}");
    }

    #[test]
    fn nothing_is_markup_in_markdown() {
        let hostile = "[free](http://x) ![](y) <a href=z> @someone #1 www.x.y `code` **a** | b\u{1b}\n";
        assert_eq!(
            markdown(hostile),
            "\\[free\\](http&#58;//x) \\!\\[\\](y) &lt;a href=z> &#64;someone \\#1 www&#46;x.y \\`code\\` \\*\\*a\\*\\* \
             \\| b\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn text_cannot_become_markup() {
        let text = "</script><img src=x onerror=\"a('b')\">&amp;\0\u{202e}\n";
        let shown = without_controls(maud::html! { (text) }.into_string());
        assert_eq!(
            shown,
            "&lt;/script&gt;&lt;img src=x onerror=&quot;a('b')&quot;&gt;&amp;amp;\u{fffd}\u{fffd}\n"
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
