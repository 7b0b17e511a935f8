//! Rows as CSV on standard output: what `--csv` prints.
//!
//! The columns are the fields of the rows in their order. A field of a nested object is named `outer.inner`.
//! A list of plain values becomes one text, and null an empty cell.

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::output;

/// Prints `rows`, which serialize to a list of objects.
pub fn print(rows: &impl Serialize) -> Result<()> {
    output::text(&text(&serde_json::to_value(rows)?)?)
}

fn text(rows: &Value) -> Result<String> {
    let rows: Vec<Map<String, Value>> =
        rows.as_array().into_iter().flatten().map(|row| flat("", row)).collect();
    // The columns, in the order of their first appearance.
    let mut columns: Vec<&String> = Vec::new();
    for name in rows.iter().flat_map(Map::keys) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    if columns.is_empty() {
        return Ok(String::new());
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    // The names of a map's fields may come from outside, as those of a device's health log do.
    writer.write_record(columns.iter().map(|name| guarded(name)))?;
    for row in &rows {
        writer.write_record(columns.iter().map(|&name| row.get(name).map_or(String::new(), cell)))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn flat(outer: &str, value: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
        match value {
            Value::Object(_) => fields.extend(flat(&name, value)),
            Value::Array(values) if values.iter().any(|value| value.is_object() || value.is_array()) => {}
            _ => _ = fields.insert(name, value.clone()),
        }
    }
    fields
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => guarded(text),
        Value::Array(values) => {
            let plain = |value: &Value| value.as_str().map_or_else(|| cell(value), str::to_owned);
            let joined = values.iter().map(plain).collect::<Vec<_>>().join("; ");
            if values.first().is_some_and(Value::is_string) { guarded(&joined) } else { joined }
        }
        other => other.to_string(),
    }
}

/// What begins a formula, as it is and in the wide form of East Asian keyboards, which spreadsheets take for the same.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// A text that a spreadsheet shows and does not compute: a text that begins as a formula gets an apostrophe, as
/// OWASP's page on CSV injection says, also behind characters that a spreadsheet skips. Numbers are no texts, so a negative one stays
/// as it is.
fn guarded(text: &str) -> String {
    let begun = text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}');
    let is_formula = begun.starts_with(FORMULA) && text.chars().count() > 1;
    if is_formula { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts with what CSV and spreadsheets give a meaning to.
    fn hostile_text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            any::<char>().prop_map(String::from),
            proptest::sample::select(vec![
                "=",
                "+",
                "-",
                "@",
                "\u{ff1d}",
                "\t",
                "\r",
                "\n",
                "\0",
                "\u{feff}",
                "\"",
                "\"\"",
                ",",
                ";",
                "|",
                "'",
                " ",
                "1",
                "=cmd|' /C calc'!A0",
                "HYPERLINK(\"http://x\")",
            ])
            .prop_map(str::to_owned),
        ];
        proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn every_text_is_one_cell_and_no_formula(texts in proptest::collection::vec(hostile_text(), 1..4), name in hostile_text()) {
            let mut row = Map::new();
            row.insert(format!("{name}."), Value::String(texts[0].clone()));
            row.insert("list".to_owned(), Value::from(texts.clone()));
            row.insert("n".to_owned(), Value::from(-1));
            let printed = text(&Value::from(vec![row])).unwrap();
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(printed.as_bytes());
            let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            prop_assert_eq!(records.iter().map(csv::StringRecord::len).collect::<Vec<_>>(), [3, 3]);
            for cell in records[0].iter().chain(records[1].iter().take(2)) {
                let shown = cell.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}');
                prop_assert!(!shown.starts_with(FORMULA) || cell.chars().count() == 1, "{cell:?}");
            }
            // Nothing of the text is lost: only an apostrophe is put in front of it.
            let marked = format!("'{}", texts[0]);
            prop_assert!(records[1][0] == texts[0] || records[1][0] == marked);
            prop_assert_eq!(&records[1][2], "-1");
        }
    }

    #[test]
    fn a_text_is_no_formula() {
        let rows = serde_json::json!([
            {"name": "=HYPERLINK(\"http://x\")", "list": ["@x", "y"], "n": -2.5, "none": "-"},
            {"name": "+1", "list": [], "n": -1, "none": "a=b"},
        ]);
        let printed = text(&rows).unwrap();
        assert_eq!(
            printed,
            "name,list,n,none\n\"'=HYPERLINK(\"\"http://x\"\")\",'@x; y,-2.5,-\n'+1,,-1,a=b\n"
        );
    }

    #[test]
    fn rows_keep_their_order_and_quote_what_has_to_be_quoted() {
        let rows = serde_json::json!([
            {"z": 1, "a": {"b": null, "c": [1, "x"]}, "list": [{"no": 1}]},
            {"z": 2.5, "a": {"b": "say \"hi\", you", "c": []}, "new": true},
        ]);
        let printed = text(&rows).unwrap();
        assert_eq!(printed, "z,a.b,a.c,new\n1,,1; x,\n2.5,\"say \"\"hi\"\", you\",,true\n");
        assert_eq!(text(&serde_json::json!([])).unwrap(), "");
    }
}
