//! The server as programs see it: what it answers, to whom, and what it refuses.

use std::sync::Arc;

use flashlab_view::{Mark, MarkKind, MarkedTime};
use serde_json::Value;

use crate::shared::{LARGE, SMALL, ask, open, send, serve, split};

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

/// The header of panels.
fn header(body: &[u8]) -> Value {
    let length = u32::from_le_bytes(body[..4].try_into().unwrap()) as usize;
    json(&body[4..4 + length])
}

#[test]
fn recordings_and_panels_are_answered() {
    let server = serve(vec![Arc::clone(&SMALL.recording), Arc::clone(&LARGE.recording)]);
    let (status, body) = ask(&server, "api/recordings");
    assert_eq!(status, 200);
    let document = json(&body);
    let small = &document["recordings"][0];
    assert_eq!(small["ios"], 20_000);
    assert_eq!(small["runs"][1]["name"], "random writes");
    assert_eq!(small["process_count"], 2);
    assert_eq!(document["recordings"][1]["ios"], 1_080_000);
    let (status, body) = ask(&server, "api/panels?recording=1&width=300&modes=write");
    assert_eq!(status, 200);
    let header = header(&body);
    assert_eq!((&header["ios"]["read"], &header["ios"]["write"]), (&0.into(), &540_000.into()));
    let arrays = header["arrays"].as_object().unwrap();
    let behind = 4 + header.to_string().len();
    let behind = body.len() - behind.next_multiple_of(8);
    for (name, array) in arrays {
        let bytes = if array["type"] == "u32" { 4 } else { 8 };
        let end = array["start"].as_u64().unwrap() + bytes * array["length"].as_u64().unwrap();
        assert!(end <= behind as u64, "{name} ends at {end} of {behind}");
    }
}

#[test]
fn the_worst_ios_are_found_and_the_table_is_in_its_order() {
    for made in [&SMALL, &LARGE] {
        let server = serve(vec![Arc::clone(&made.recording)]);
        let (status, body) = ask(&server, "api/ios?sort=response_ns&descending=1&count=50");
        assert_eq!(status, 200);
        let table = json(&body);
        let column =
            table["columns"].as_array().unwrap().iter().position(|name| name == "response_ns").unwrap();
        let found: Vec<u64> =
            table["rows"].as_array().unwrap().iter().map(|row| row[column].as_u64().unwrap()).collect();
        let mut expected: Vec<u64> =
            made.samples.iter().map(|(_, sample)| sample.completed.0 - sample.intended.0).collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.truncate(50);
        assert_eq!(found, expected);
    }
}

#[test]
fn a_view_is_exported_as_comma_separated_values() {
    let server = serve(vec![Arc::clone(&SMALL.recording)]);
    let (status, body) = ask(&server, "api/export?format=csv&run=2&errors=none");
    assert_eq!(status, 200);
    let text = String::from_utf8(body).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let expected = SMALL.samples.iter().filter(|(run, sample)| *run == 2 && sample.errno == 0).count();
    assert_eq!(rows.len(), expected);
    let time: Vec<u64> = rows.iter().map(|row| row[4].parse().unwrap()).collect();
    assert!(time.is_sorted());
    let server = serve(vec![Arc::clone(&LARGE.recording)]);
    let (status, body) = ask(&server, "api/export");
    assert_eq!(status, 400);
    assert!(json(&body)["error"].as_str().unwrap().contains("narrow the view"));
}

#[test]
fn wrong_requests_are_refused_in_words() {
    let server = serve(vec![Arc::clone(&SMALL.recording)]);
    for (path, status, words) in [
        ("api/panels?recording=7", 404, "no recording 7"),
        ("api/panels?recording=x", 404, "no recording x"),
        ("api/panels?time_ns=9,1", 400, "time_ns=9,1 is not understood"),
        ("api/panels?width=-4", 400, "width=-4"),
        ("api/panels?exact=2", 400, "exact=2"),
        ("api/ios?sort=colour", 400, "sort=colour"),
        ("api/export?format=xls", 400, "format=xls"),
        ("../../etc/passwd", 404, "there is nothing here"),
        ("samples.pyramid", 404, "there is no such file"),
    ] {
        let (found, body) = ask(&server, path);
        assert_eq!(found, status, "{path}");
        assert!(json(&body)["error"].as_str().unwrap().contains(words), "{path}: {}", json(&body));
    }
    // A panel of any width is bounded.
    assert_eq!(ask(&server, "api/panels?width=4000000000").0, 200);
}

#[test]
fn only_the_page_itself_is_answered() {
    let server = serve(vec![Arc::clone(&SMALL.recording)]);
    let (host, path) = split(server.url());
    let request = |path: &str, fields: &str| {
        send(host, &format!("GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n")).0
    };
    let own = format!("Host: {host}\r\n");
    assert_eq!(request(path, &own), 200);
    assert_eq!(request(path, &format!("{own}Origin: http://{host}\r\n")), 200);
    assert_eq!(request(path, &format!("{own}Origin: http://example.org\r\n")), 403);
    assert_eq!(request(path, &format!("{own}Origin: null\r\n")), 403);
    assert_eq!(request(path, "Host: example.org\r\n"), 403);
    assert_eq!(request(path, ""), 403);
    assert_eq!(request("/", &own), 404);
    assert_eq!(request("/0123456789abcdef0123456789abcdef/", &own), 404);
    assert_eq!(request("/0123456789abcdef0123456789abcdef/api/recordings", &own), 404);
    assert_eq!(send(host, &format!("POST {path} HTTP/1.1\r\n{own}Connection: close\r\n\r\n")).0, 405);
    let other = serve(vec![Arc::clone(&SMALL.recording)]);
    assert_ne!(split(other.url()).1, path, "each server has a token of its own");
}

#[test]
fn a_thousand_requests_at_once_are_all_answered() {
    let server = serve(vec![Arc::clone(&SMALL.recording)]);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| (0..20).map(|_| ask(&server, "api/panels?width=800").0).collect::<Vec<u16>>())
            })
            .collect();
        asked.into_iter().flat_map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(statuses.len(), 1000);
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200));
    assert_eq!(ask(&server, "api/panels").0, 200);
}

#[test]
fn a_port_that_is_taken_is_refused_with_advice() {
    let server = serve(vec![Arc::clone(&SMALL.recording)]);
    let port: u16 = split(server.url()).0.rsplit(':').next().unwrap().parse().unwrap();
    let taken = flashlab_view::Server::start(Vec::<flashlab_view::LiveRecording>::new(), port);
    let message = taken.err().expect("the port is taken").to_string();
    assert!(message.contains(&port.to_string()) && message.contains("--port"), "{message}");
}

#[test]
fn recordings_are_compared_with_the_intervals_of_compare() {
    let server =
        serve(vec![Arc::clone(&SMALL.recording), Arc::clone(&SMALL.recording), Arc::clone(&LARGE.recording)]);
    let (status, body) = ask(&server, "api/ratios?recording=0&other=1&modes=write");
    assert_eq!(status, 200);
    let answer = json(&body);
    assert_eq!(answer["read"], Value::Null, "no read is in view");
    let writes = answer["write"].as_array().unwrap();
    let statistics: Vec<&str> = writes.iter().map(|row| row["statistic"].as_str().unwrap()).collect();
    assert_eq!(statistics, ["p50", "p90", "p99", "p99.9", "mean"]);
    let mut responses: Vec<u64> = SMALL
        .samples
        .iter()
        .filter(|(_, sample)| sample.mode.is_write() && sample.errno == 0)
        .map(|(_, sample)| sample.completed.0 - sample.intended.0)
        .collect();
    responses.sort_unstable();
    let median = writes[0]["first_ns"].as_f64().unwrap();
    assert!((median - responses[responses.len() / 2] as f64).abs() <= 0.01 * median, "{median}");
    for row in writes {
        assert_eq!(row["ratio"], 1.0);
        assert!(row["low"].as_f64().unwrap() <= 1.0, "{row}");
        assert!(row["high"].as_f64().is_none_or(|high| high >= 1.0), "{row}");
        assert!(["equal", "cannot_be_told"].contains(&row["verdict"].as_str().unwrap()), "{row}");
    }
    // All of the large one is too much, a part of its time is not.
    let (status, body) = ask(&server, "api/ratios?recording=0&other=2");
    assert_eq!(status, 400);
    assert!(json(&body)["error"].as_str().unwrap().contains("narrow the view"));
    assert_eq!(ask(&server, "api/ratios?recording=0&other=2&time_ns=0,500000000").0, 200);
    assert_eq!(ask(&server, "api/ratios?recording=0&other=7").0, 404);
}

#[test]
fn marks_show_failures_and_what_the_source_knows() {
    let mut source = SMALL.recording.source.clone();
    let mark = |when, kind, text: &str| Mark { when, kind, text: text.to_owned() };
    let begin = SMALL.origin_ns();
    source.marks = vec![
        mark(MarkedTime::Clock(begin + 1000, begin + 5000), MarkKind::Collection, "garbage collection"),
        mark(MarkedTime::Clock(0, begin), MarkKind::Collection, "before the first IO"),
        mark(MarkedTime::Runs(1, 2), MarkKind::Finding, "of two runs"),
        mark(MarkedTime::Runs(90, 91), MarkKind::Finding, "of no run"),
    ];
    let server = serve(vec![open(source)]);
    let document = json(&ask(&server, "api/recordings").1);
    let head = &document["recordings"][0];
    let of = |kind: &str| -> Vec<&Value> {
        head["marks"].as_array().unwrap().iter().filter(|mark| mark["kind"] == kind).collect()
    };
    assert_eq!(of("collection").len(), 1);
    assert_eq!(of("collection")[0]["time_ns"], serde_json::json!([1000, 5000]));
    assert_eq!(of("finding").len(), 1);
    assert_eq!(of("finding")[0]["time_ns"][0], head["runs"][1]["time_ns"][0]);
    assert_eq!(of("finding")[0]["time_ns"][1], head["runs"][2]["time_ns"][1]);
    let count = |mark: &&Value| {
        let text = mark["text"].as_str().unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap_or(1)
    };
    let failed = SMALL.samples.iter().filter(|(_, sample)| sample.errno != 0).count() as u64;
    assert!(failed > 0);
    assert_eq!(of("fault").iter().map(count).sum::<u64>(), failed);
}
