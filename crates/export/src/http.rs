//! The status of a live disk over HTTP: `/metrics` for Prometheus and `/status` as JSON.
//!
//! # Method
//! 1. Each connection has a thread of its own (module `connections`), away from the threads that serve IOs.
//! 2. It reads one request head; `httparse` parses it.
//! 3. It sends one response and closes the connection.
//!
//! # Invariants
//! - Every client that sends anything gets a response, also to a bad request.
//! - A slow client gets status 408 after [`PATIENCE`], and occupies only its own thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connections;
use crate::live::LiveDisk;
use crate::metrics::{OPEN_METRICS, open_metrics};
use crate::status::Status;

/// The most bytes of a request head. Prometheus sends 300; a browser with many cookies for `127.0.0.1` some thousands.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most header fields of a request.
const FIELDS_MAX: usize = 64;
/// The time that a client has to send its request head, and again to receive the response.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of a request body that are read and ignored, so that the client receives the response before the
/// connection is closed.
const IGNORED_BYTES_MAX: u64 = 64 << 10;
const TEXT: &str = "text/plain; charset=utf-8";

/// The first line of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// The path, without a query.
    pub path: String,
}

/// Why bytes are no HTTP request that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpRequestError {
    /// They break the grammar of HTTP/1.1 (RFC 9112).
    #[error("this is no HTTP/1.1 request: {0}")]
    Malformed(httparse::Error),
    /// The head is longer than the server reads.
    #[error("the request head has more than {HEAD_BYTES_MAX} bytes or {FIELDS_MAX} fields")]
    TooLong,
    /// The client ended the connection within the head.
    #[error("the request head has no end: an empty line is missing")]
    Unfinished,
    /// The client sent no whole head in time.
    #[error("the request took more than {} s", PATIENCE.as_secs())]
    TooSlow,
}

impl HttpRequest {
    /// Parses the head of a request; `None` if it is still incomplete.
    ///
    /// # Errors
    /// [`HttpRequestError::Malformed`] and [`HttpRequestError::TooLong`].
    pub fn parse(head: &[u8]) -> Result<Option<HttpRequest>, HttpRequestError> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(head) {
            Ok(httparse::Status::Complete(_)) => {
                let target = request.path.unwrap_or_default();
                let path = target.split(['?', '#']).next().unwrap_or_default();
                Ok(Some(HttpRequest {
                    method: request.method.unwrap_or_default().to_owned(),
                    path: path.to_owned(),
                }))
            }
            Ok(httparse::Status::Partial) if head.len() >= HEAD_BYTES_MAX => Err(HttpRequestError::TooLong),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(httparse::Error::TooManyHeaders) => Err(HttpRequestError::TooLong),
            Err(error) => Err(HttpRequestError::Malformed(error)),
        }
    }
}

/// Serves the status of `disk` on the loopback interface; port 0 takes a free one. Returns the address. It ends with the
/// process.
///
/// # Errors
/// When the port is taken.
pub fn serve_metrics(port: u16, disk: Arc<LiveDisk>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    let accept = move || listener.accept().map(|(connection, _)| connection);
    connections::answer("metrics", accept, move |connection| {
        // A client that has left needs no response.
        let _ = converse(connection, &disk);
    })?;
    Ok(address)
}

/// Reads one request and sends the response.
fn converse(mut connection: &TcpStream, disk: &LiveDisk) -> io::Result<()> {
    let response = match read_request(connection)? {
        None => return Ok(()),
        Some(Ok(request)) => respond(&request, disk),
        Some(Err(error)) => refuse(error),
    };
    connection.set_write_timeout(Some(PATIENCE))?;
    connection.write_all(response.as_bytes())?;
    // With unread bytes in its queue the kernel would reset the connection, and the client might lose the response.
    connection.shutdown(Shutdown::Write)?;
    connection.set_read_timeout(Some(Duration::from_secs(1)))?;
    io::copy(&mut connection.take(IGNORED_BYTES_MAX), &mut io::sink()).map(drop)
}

/// One request, or why there is none; `None` if the client left without a byte.
fn read_request(mut connection: &TcpStream) -> io::Result<Option<Result<HttpRequest, HttpRequestError>>> {
    let begin = Instant::now();
    let mut head = vec![0; HEAD_BYTES_MAX];
    let mut length = 0;
    loop {
        let left = PATIENCE.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Ok(Some(Err(HttpRequestError::TooSlow)));
        }
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut head[length..]) {
            Ok(0) if length == 0 => return Ok(None),
            Ok(0) => return Ok(Some(Err(HttpRequestError::Unfinished))),
            Ok(more) => length += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error),
        }
        if let Some(request) = HttpRequest::parse(&head[..length]).transpose() {
            return Ok(Some(request));
        }
    }
}

fn respond(request: &HttpRequest, disk: &LiveDisk) -> String {
    let response = match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/metrics") => response("200 OK", OPEN_METRICS, "", &open_metrics(Status::of(disk))),
        ("GET" | "HEAD", "/status") => match serde_json::to_string(&Status::of(disk)) {
            Ok(status) => response("200 OK", "application/json", "", &status),
            Err(error) => response("500 Internal Server Error", TEXT, "", &format!("{error}\n")),
        },
        ("GET" | "HEAD", _) => response("404 Not Found", TEXT, "", "there are /metrics and /status\n"),
        _ => response("405 Method Not Allowed", TEXT, "Allow: GET, HEAD\r\n", "there are GET and HEAD\n"),
    };
    match (request.method.as_str(), response.find("\r\n\r\n")) {
        // The same head, without the body.
        ("HEAD", Some(end)) => response[..end + 4].to_owned(),
        _ => response,
    }
}

fn refuse(error: HttpRequestError) -> String {
    let status = match error {
        HttpRequestError::Malformed(httparse::Error::Version) => "505 HTTP Version Not Supported",
        HttpRequestError::Malformed(_) | HttpRequestError::Unfinished => "400 Bad Request",
        HttpRequestError::TooLong => "431 Request Header Fields Too Large",
        HttpRequestError::TooSlow => "408 Request Timeout",
    };
    response(status, TEXT, "", &format!("{error}\n"))
}

fn response(status: &str, content_type: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{fields}Connection: close\r\n\
         \r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn served() -> SocketAddr {
        let profile = flashlab_sim::zoo().into_iter().find(|profile| profile.name == "zeus").unwrap();
        serve_metrics(0, Arc::new(LiveDisk::new(Box::new(profile.device().unwrap()), None))).unwrap()
    }

    /// The whole response to `request`.
    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may have closed the connection already.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn status_line(address: SocketAddr, request: &[u8]) -> String {
        ask(address, request).lines().next().unwrap_or_default().to_owned()
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
        assert_eq!(status_line(address, b"GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
        let mut oldest = &crowd[0];
        assert!(matches!(oldest.read(&mut [0; 1]), Ok(0) | Err(_)), "the server closed it");
        let mut last = String::new();
        (&crowd[299]).read_to_string(&mut last).unwrap();
        assert!(last.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{last}");
    }

    #[test]
    fn a_bad_request_is_answered_with_its_error() {
        let address = served();
        let line = |request: &[u8]| status_line(address, request);
        assert_eq!(line(b"GET /metrics HTTP/1.1\r\n"), "HTTP/1.1 400 Bad Request");
        assert_eq!(line(b"\0\r\n\r\n"), "HTTP/1.1 400 Bad Request");
        assert_eq!(line(b"GET /metrics HTTP/2.0\r\n\r\n"), "HTTP/1.1 505 HTTP Version Not Supported");
        assert_eq!(line(&vec![b'a'; 1 << 15]), "HTTP/1.1 431 Request Header Fields Too Large");
        let fields = "a: b\r\n".repeat(FIELDS_MAX + 1);
        let long = format!("GET /metrics HTTP/1.1\r\n{fields}\r\n");
        assert_eq!(line(long.as_bytes()), "HTTP/1.1 431 Request Header Fields Too Large");
        assert_eq!(line(b"GET /else HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
        let post = ask(address, b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
        assert!(post.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{post}");
        assert!(post.contains("\r\nAllow: GET, HEAD\r\n"), "{post}");
        assert_eq!(ask(address, b""), "");
    }

    #[test]
    fn metrics_and_status_are_served() {
        let address = served();
        let ask = |method: &str, path: &str| {
            ask(address, format!("{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes())
        };
        let metrics = ask("GET", "/metrics?name=value");
        assert!(
            metrics.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0"),
            "{metrics}"
        );
        assert!(metrics.contains("\nflashlab_ios_total{class=\"read\"} 0\n"), "{metrics}");
        assert!(ask("GET", "/status").contains("\"target\":\"sim:zeus\""));
        let head = ask("HEAD", "/status");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_are_answered(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b' ')], 1..200),
        ) {
            static ADDRESS: std::sync::LazyLock<SocketAddr> = std::sync::LazyLock::new(served);
            let answer = ask(*ADDRESS, &bytes);
            prop_assert!(answer.starts_with("HTTP/1.1 "), "{}", answer);
        }
    }
}
