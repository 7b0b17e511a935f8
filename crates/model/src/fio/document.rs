//! The JSON of fio, as it is in a file: one document or several, with other text around them.
//!
//! With `--status-interval` fio writes a document each time, whose counts go on; with `normal,json` there is text around it.
//! The last document is the result.

use serde::Deserialize;
use serde_json::{Map, Value};

/// fio's result.
#[derive(Deserialize)]
pub(super) struct Document {
    #[serde(rename = "fio version")]
    pub version: String,
    #[serde(rename = "global options", default)]
    global: Value,
    #[serde(default)]
    pub jobs: Vec<Job>,
    /// The jobs of each client, where fio ran as their server.
    #[serde(default)]
    pub client_stats: Vec<Job>,
}

/// An entry: a process, or a group of them with `group_reporting`.
#[derive(Deserialize)]
pub(super) struct Job {
    #[serde(default)]
    pub jobname: String,
    #[serde(default)]
    pub groupid: u64,
    #[serde(default)]
    pub error: i64,
    /// Seconds since fio began.
    pub elapsed: Option<f64>,
    /// When it began, in milliseconds; since fio 3.37.
    pub job_start: Option<f64>,
    /// With a server: the machine that it ran on, and its port.
    pub hostname: Option<String>,
    pub port: Option<u64>,
    #[serde(rename = "job options", default)]
    pub options: Map<String, Value>,
    pub read: Option<Direction>,
    pub write: Option<Direction>,
    pub trim: Option<Direction>,
    /// Reads and writes together, with `unified_rw_reporting`.
    pub mixed: Option<Direction>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Direction {
    pub io_bytes: Option<f64>,
    #[serde(default)]
    pub total_ios: u64,
    pub iops: Option<f64>,
    /// Milliseconds.
    #[serde(default)]
    pub runtime: f64,
    pub slat_ns: Option<Latency>,
    pub clat_ns: Option<Latency>,
    pub lat_ns: Option<Latency>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Latency {
    pub mean: Option<f64>,
    #[serde(default)]
    pub percentile: Map<String, Value>,
    /// Of `json+`: how many IOs took so many nanoseconds.
    #[serde(default)]
    pub bins: Map<String, Value>,
}

impl Document {
    /// The options of all jobs of a machine. fio writes an object, and as the client of several servers a list with one for each.
    pub(super) fn global_of(&self, job: &Job) -> Result<Map<String, Value>, String> {
        let mut options = match &self.global {
            Value::Null => Map::new(),
            Value::Object(options) => options.clone(),
            Value::Array(servers) => {
                let is_of = |options: &&Value| {
                    options["hostname"].as_str() == job.hostname.as_deref()
                        && options["port"].as_u64() == job.port
                };
                match servers.iter().find(is_of) {
                    Some(Value::Object(options)) => options.clone(),
                    _ => return Err("the document does not have the global options of its server".to_owned()),
                }
            }
            _ => return Err("the global options of the document are no options".to_owned()),
        };
        options.remove("hostname");
        options.remove("port");
        Ok(options)
    }

    /// The last document in a text.
    pub(super) fn last(text: &str) -> Result<Document, String> {
        let text = without_nan(text);
        let mut begins =
            text.match_indices('{').map(|(begin, _)| begin).filter(|&begin| is_begin(&text, begin));
        let Some(begin) = begins.next_back() else {
            return Err("has no JSON: make it with fio --output-format=json --output=FILE".to_owned());
        };
        let mut values = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) if error.is_eof() => {
                return Err(
                    "is cut off: its last document has no end; repeat the job, or take an older result"
                        .to_owned(),
                );
            }
            Some(Err(error)) => {
                return Err(format!(
                    "is no JSON output of fio ({error}): make it with fio --output-format=json --output=FILE"
                ));
            }
            None => return Err("has no JSON: make it with fio --output-format=json --output=FILE".to_owned()),
        };
        let version = value["fio version"].as_str().unwrap_or("a program without a version").to_owned();
        if !version.starts_with("fio-3.") {
            return Err(format!(
                "was written by {version}; flashlab reads the JSON of fio 3, whose latencies are in nanoseconds: run the job \
                 with it"
            ));
        }
        serde_json::from_value(value)
            .map_err(|error| format!("is not the JSON of {version} that flashlab reads: {error}"))
    }
}

/// Whether a document begins at this brace: it is the first of its line, and its first key is one of fio's.
fn is_begin(text: &str, begin: usize) -> bool {
    let line = text[..begin].rsplit('\n').next().unwrap_or_default();
    let key = text[begin + 1..].trim_start();
    (line.is_empty() || key.starts_with("\"fio version\"")) && key.starts_with('"')
}

/// The text with `null` where fio wrote a number that JSON does not have: a mean of no IO.
fn without_nan(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped, mut rest) = (false, false, text);
    while let Some(c) = rest.chars().next() {
        if is_string {
            (is_string, is_escaped) = (is_escaped || c != '"', !is_escaped && c == '\\');
        } else if c == '"' {
            is_string = true;
        } else if let Some(word) = NOT_NUMBERS.iter().find(|word| rest.starts_with(**word)) {
            let before = out.trim_end();
            if before.ends_with([':', '[', ',']) {
                out.push_str("null");
                rest = &rest[word.len()..];
                continue;
            }
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// As C and other languages print them.
const NOT_NUMBERS: [&str; 10] =
    ["-nan", "nan", "-NaN", "NaN", "-inf", "inf", "-Infinity", "Infinity", "-NAN", "NAN"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_document_is_taken() {
        let one = |version: &str| format!("{{\n \"fio version\": \"{version}\", \"jobs\": []\n}}\n");
        let text = format!("a: (g=0): {{rw}}\n{}{}Run status group 0\n", one("fio-3.1"), one("fio-3.2"));
        assert_eq!(Document::last(&text).unwrap().version, "fio-3.2");
        let torn = format!("{}{}", one("fio-3.1"), "{\n \"fio version\": \"fio-3.1\", \"jobs\": [");
        assert!(Document::last(&torn).err().unwrap().starts_with("is cut off"));
        assert!(Document::last("fio: nothing").err().unwrap().starts_with("has no JSON"));
    }

    #[test]
    fn what_is_no_number_becomes_null_outside_of_strings() {
        assert_eq!(
            without_nan(r#"{"a": -nan, "b nan": [inf, 1], "c": "x\": nan"}"#),
            r#"{"a": null, "b nan": [null, 1], "c": "x\": nan"}"#
        );
    }
}
