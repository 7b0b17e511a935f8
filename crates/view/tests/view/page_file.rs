//! A page in a file answers as the server does, and is no larger than it may be.

use std::path::Path;

use flashlab_skip::chromium;
use flashlab_view::browser::Browser;
use flashlab_view::page_file::{FILE_BYTES_MOST, page_file};
use flashlab_view::{Server, ViewedRecording};
use serde_json::Value;

use crate::shared::{LARGE, Made, SMALL, serve};

/// Writes the page of a recording, which then has the pyramid that the page has.
fn write(made: &Made, state: &str, file: &Path) -> ViewedRecording {
    let mut recordings = [ViewedRecording::open(made.recording.source.clone(), &|_, _, _| {}).unwrap()];
    let page = page_file(&mut recordings, state, &|_, _, _| {}).unwrap();
    assert!(page.len() <= FILE_BYTES_MOST, "{} bytes", page.len());
    std::fs::write(file, &page).unwrap();
    let [recording] = recordings;
    recording
}

/// What the page that is open answers to queries, each from the module `source` of its scripts.
fn answers(browser: &mut Browser, source: &str, queries: &[String]) -> Vec<Value> {
    let queries = serde_json::to_string(queries).unwrap();
    let script = format!(
        "(async () => {{
            const {{ source }} = await import('{source}');
            const plain = (key, value) => (ArrayBuffer.isView(value) ? Array.from(value, (number) => (Number.isNaN(number) ? null : number)) : value);
            const found = [];
            for (const query of {queries}) {{
                const answer = await source.panels(query, query.includes('response_ns'));
                delete answer.could_be_finer;
                // The server finds points in the order of its row groups.
                const [time, offset] = [answer.arrays.point_time, answer.arrays.point_offset];
                const order = Array.from(time ?? [], (none, at) => at).sort((a, b) => time[a] - time[b] || offset[a] - offset[b]);
                for (const name of Object.keys(answer.arrays)) if (name.startsWith('point_')) answer.arrays[name] = order.map((at) => answer.arrays[name][at]);
                found.push(JSON.stringify(answer, plain));
            }}
            return found;
        }})()"
    );
    let found = browser.evaluate(&script).unwrap();
    found
        .as_array()
        .unwrap()
        .iter()
        .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap())
        .collect()
}

/// Whether both are the same, numbers to the last digits that their sums have.
fn compare(own: &Value, other: &Value, path: &str) {
    match (own, other) {
        (Value::Number(own), Value::Number(other)) => {
            let (own, other) = (own.as_f64().unwrap(), other.as_f64().unwrap());
            assert!((own - other).abs() <= 1e-6 + 1e-9 * other.abs(), "{path}: {own}, {other}");
        }
        (Value::Array(own), Value::Array(other)) => {
            assert_eq!(own.len(), other.len(), "{path}");
            own.iter()
                .zip(other)
                .enumerate()
                .for_each(|(at, (a, b))| compare(a, b, &format!("{path}[{at}]")));
        }
        (Value::Object(own), Value::Object(other)) => {
            assert_eq!(own.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{path}");
            own.iter().for_each(|(key, value)| compare(value, &other[key], &format!("{path}.{key}")));
        }
        _ => assert_eq!(own, other, "{path}"),
    }
}

/// Opens the page in the file and the server's, and compares their answers.
fn is_answered_alike(made: &Made, views: &[&str]) {
    if chromium().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let recording = write(made, "modes=write", &file);
    let mut browser = Browser::start(1400, 1000, 1).unwrap();
    browser.open(&format!("file://{}", file.display())).unwrap();
    let complaints = browser.evaluate("document.body.dataset.errors ?? ''").unwrap();
    assert_eq!(complaints, "", "errors on the page");
    assert_eq!(browser.evaluate("location.hash").unwrap(), "#modes=write");
    assert!(browser.evaluate("Number(document.body.dataset.painted)").unwrap().as_u64().unwrap() > 0);
    let queries: Vec<String> = views.iter().map(|view| format!("recording=0&width=700&{view}")).collect();
    let own = answers(&mut browser, "view/source.js", &queries);
    let server: Server = serve(vec![std::sync::Arc::new(recording)]);
    browser.open(server.url()).unwrap();
    let others = answers(&mut browser, "./source.js", &queries);
    for ((own, other), query) in own.iter().zip(&others).zip(&queries) {
        compare(own, other, query);
        assert!(
            other["ios"]["read"].as_u64().unwrap() + other["ios"]["write"].as_u64().unwrap() > 0,
            "{query}"
        );
    }
}

#[test]
fn a_page_in_a_file_with_every_io_answers_as_the_server() {
    is_answered_alike(
        &SMALL,
        &[
            "",
            "time_ns=100000000,300000000",
            "modes=read",
            "errors=only",
            "run=2",
            "offset_bytes=100000000,400000000&modes=write",
            "response_ns=100000,100000000",
            "time_ns=10000000,900000000&sizes=12",
        ],
    );
}

#[test]
fn a_page_in_a_file_with_a_pyramid_answers_as_the_server() {
    let mut slowest: Vec<i64> = LARGE
        .samples
        .iter()
        .map(|(_, sample)| sample.completed.0 as i64 - sample.intended.0 as i64)
        .collect();
    slowest.sort_unstable();
    // The slowest are in the file: these are counted one by one, as the server does when it is asked to be exact.
    let from = slowest[slowest.len() - 90_000];
    is_answered_alike(
        &LARGE,
        &[
            "",
            "modes=read",
            "errors=none",
            "sizes=12",
            "offset_bytes=100000000,400000000",
            &format!("response_ns={from},1000000000000"),
        ],
    );
}

#[test]
fn a_name_in_a_file_ends_no_script() {
    let mut source = SMALL.recording.source.clone();
    source.name = "</script><b>".to_owned();
    let mut recordings = [ViewedRecording::open(source, &|_, _, _| {}).unwrap()];
    let page = page_file(&mut recordings, "</script>", &|_, _, _| {}).unwrap();
    assert!(!page.contains("</script><b>"));
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
}
