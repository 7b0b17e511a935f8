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
    writer.write_record(&columns)?;
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
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

/// A text that a spreadsheet shows and does not compute: a text that begins as a formula gets an apostrophe, as
/// OWASP's page on CSV injection says. Numbers are no texts, so a negative one stays as it is.
fn guarded(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.len() > 1;
    if is_formula { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

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
