//! What a running server says of itself: as a document, and as Prometheus has it.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use flashlab_sim::Statistics;
use serde::Serialize;

use crate::connections;
use crate::fault_rules::FaultRule;
use crate::live::LiveDisk;
use crate::statistics::{ClassSummary, IoSummary, Percentiles};
use crate::transport_latency::TransportLatency;

/// The version of the document.
pub const STATUS_VERSION: u32 = 2;

/// What a server did so far.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// [`STATUS_VERSION`].
    pub version: u32,
    /// What is served.
    pub target: String,
    /// Its size.
    pub capacity_bytes: u64,
    /// How long it is served.
    pub uptime_s: f64,
    /// What the way to the program costs, which is taken off.
    pub transport_latency: TransportLatency,
    /// The IOs.
    pub served: IoSummary,
    /// What the device counted; absent when it counts nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Statistics>,
    /// What is armed.
    pub faults: Vec<ArmedFault>,
}

/// A fault that is armed.
#[derive(Clone, Debug, Serialize)]
pub struct ArmedFault {
    /// Which.
    #[serde(flatten)]
    pub fault: FaultRule,
    /// How many IOs it struck.
    pub struck: u64,
}

impl Status {
    /// Of this disk, at this moment.
    pub fn of(disk: &LiveDisk) -> Status {
        let faults = disk.with_faults(|faults| {
            let armed = faults.armed().map(|(fault, struck)| ArmedFault { fault: fault.clone(), struck });
            armed.collect()
        });
        Status {
            version: STATUS_VERSION,
            target: disk.identity().target.clone(),
            capacity_bytes: disk.geometry().capacity.0,
            uptime_s: disk.clock().now().as_secs_f64(),
            transport_latency: disk.transport_latency(),
            served: disk.summary(),
            device: disk.device_statistics(),
            faults,
        }
    }

    /// The document in Prometheus's text format (version 0.0.4).
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, lines: Vec<(String, f64)>| {
            let _ = writeln!(text, "# HELP flashlab_{name} {help}\n# TYPE flashlab_{name} {kind}");
            for (labels, value) in lines {
                let _ = writeln!(text, "flashlab_{name}{labels} {value}");
            }
        };
        let classes = &self.served.classes;
        let of_classes = |value: fn(&ClassSummary) -> u64| {
            let line = |class: &ClassSummary| (format!("{{class=\"{}\"}}", class.class), value(class) as f64);
            classes.iter().map(line).collect::<Vec<_>>()
        };
        family("ios_total", "counter", "IOs that were answered.", of_classes(|class| class.ios));
        family(
            "bytes_total",
            "counter",
            "Bytes of the IOs that were answered.",
            of_classes(|class| class.bytes),
        );
        family("errors_total", "counter", "IOs that failed.", of_classes(|class| class.errors));
        family(
            "late_total",
            "counter",
            "IOs that were answered more than 5 us after they were due.",
            of_classes(|class| class.late),
        );
        family(
            "faster_than_the_transport_total",
            "counter",
            "IOs that the model wanted faster than the transport can be.",
            of_classes(|class| class.faster_than_the_transport),
        );
        let quantiles = |of: fn(&ClassSummary) -> Percentiles| {
            let lines = |class: &ClassSummary| {
                let times = of(class);
                let quantiles = [("0.5", times.p50_ns), ("0.99", times.p99_ns), ("0.999", times.p999_ns)];
                let name = class.class;
                quantiles.map(|(quantile, ns)| {
                    (format!("{{class=\"{name}\",quantile=\"{quantile}\"}}"), ns as f64 / 1e9)
                })
            };
            classes.iter().flat_map(lines).collect::<Vec<_>>()
        };
        family(
            "response_asked_seconds",
            "gauge",
            "Response times that the model asked for, since the start.",
            quantiles(|class| class.asked),
        );
        family(
            "response_delivered_seconds",
            "gauge",
            "Response times that programs saw, since the start.",
            quantiles(|class| class.delivered),
        );
        let one = |value: f64| vec![(String::new(), value)];
        family("in_flight", "gauge", "IOs that are being served.", one(self.served.in_flight as f64));
        family("uptime_seconds", "gauge", "How long the disk is served.", one(self.uptime_s));
        if let Some(device) = &self.device {
            if let Some(amplification) = device.write_amplification {
                let help = "Pages programmed for each page that was written.";
                family("write_amplification", "gauge", help, one(amplification));
            }
            let erases = [
                ("min", f64::from(device.block_erases_min)),
                ("mean", device.block_erases_mean),
                ("max", f64::from(device.block_erases_max)),
            ];
            let erases = erases.map(|(of, value)| (format!("{{of=\"{of}\"}}"), value)).to_vec();
            family("block_erases", "gauge", "Erases of the blocks of the flash.", erases);
        }
        text
    }
}

/// The longest request, in bytes.
const LONGEST: u64 = 16 << 10;

/// Serves the status at `http://127.0.0.1:PORT/metrics`, and as JSON at `/status`; port 0 takes a free one. Returns where
/// it listens. It ends with the process.
///
/// # Errors
/// When the port is taken.
pub fn serve_metrics(port: u16, disk: Arc<LiveDisk>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    let accept = move || listener.accept().map(|(connection, _)| connection);
    connections::answer("metrics", accept, move |connection| {
        // A client that has gone away needs no answer.
        let _ = answer(connection, &disk);
    })?;
    Ok(address)
}

/// Answers the one request of a connection (RFC 9112), which is closed then. What is no request is not answered.
fn answer(mut connection: &TcpStream, disk: &LiveDisk) -> io::Result<()> {
    let mut lines = BufReader::new(connection.take(LONGEST)).lines();
    let request = lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
    loop {
        match lines.next().transpose()? {
            Some(header) if header.is_empty() => break,
            Some(_) => {}
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let text = "text/plain; version=0.0.4";
    let (status, kind, body) = match (method, target.split('?').next().unwrap_or_default()) {
        ("GET", "/metrics") => ("200 OK", text, Status::of(disk).to_prometheus()),
        ("GET", "/status") => match serde_json::to_string(&Status::of(disk)) {
            Ok(status) => ("200 OK", "application/json", status),
            Err(error) => ("500 Internal Server Error", text, error.to_string()),
        },
        ("GET", _) => ("404 Not Found", text, "there are /metrics and /status\n".to_owned()),
        _ => ("405 Method Not Allowed", text, "only GET is answered\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all((head + &body).as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn served() -> SocketAddr {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "zeus").unwrap();
        serve_metrics(0, Arc::new(LiveDisk::new(Box::new(profile.device().unwrap()), None))).unwrap()
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // It may have hung up already.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn slow_clients_keep_nobody_out() {
        let address = served();
        let crowd: Vec<TcpStream> = (0..300)
            .map(|_| {
                let mut one = TcpStream::connect(address).unwrap();
                one.write_all(b"GET /metrics HTTP/1.1\r\nHost").unwrap();
                one
            })
            .collect();
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
        let mut oldest = &crowd[0];
        assert!(matches!(oldest.read(&mut [0; 1]), Ok(0) | Err(_)), "it was hung up on");
    }

    #[test]
    fn only_requests_are_answered() {
        let address = served();
        assert_eq!(ask(address, b"GET /metrics HTTP/1.1\r\n"), "");
        assert_eq!(ask(address, &vec![b'a'; 1 << 20]), "");
        assert!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_are_answered_or_end_the_connection(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b' ')], 0..200),
        ) {
            static ADDRESS: std::sync::LazyLock<SocketAddr> = std::sync::LazyLock::new(served);
            let answer = ask(*ADDRESS, &bytes);
            prop_assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 "), "{}", answer);
        }
    }

    #[test]
    fn prometheus_reads_it() {
        let address = served();
        let get = |path: &str| ask(address, format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes());
        let metrics = get("/metrics");
        assert!(metrics.contains("\nflashlab_ios_total{class=\"read\"} 0\n"), "{metrics}");
        assert!(get("/status").contains("\"target\":\"sim:zeus\""));
        assert!(get("/else").starts_with("HTTP/1.1 404"));
    }
}
