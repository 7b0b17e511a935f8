//! Serves the page and its answers on the loopback interface.
//!
//! # Invariants
//! - The address has a random token. Without it every answer is 404: other users and other pages of the browser cannot guess it.
//! - A request whose Host is another name is refused, because a foreign site may point its name at 127.0.0.1. So is one with a foreign
//!   Origin.
//! - A few requests are computed at a time, the others wait; a request whose client has left is given up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::error::ViewError;
use crate::export::ExportFormat;
use crate::live::LiveRecording;
use crate::ratios::ratios_in_view;
use crate::recording::ViewedRecording;
use crate::table::{Order, Page, Sorting};
use crate::view::View;
use crate::{answer, assets, count, export, table};

/// Requests that are computed at a time. Each uses both CPUs of a small machine; a second one keeps a table from waiting for a picture.
const COMPUTED_MOST: usize = 2;
/// Requests that wait, at most: a page has one for each recording.
const WAITING_MOST: usize = 64;
/// A report has its scripts in itself. It is from a folder that may be somebody else's: it may ask nothing of this server.
const REPORT_POLICY: &str = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
/// What is answered after a panic.
const FAILED: &str = "this request failed: please report it";
/// What the browser may load: this server's own files.
const SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'";

/// Serves until it is dropped.
pub struct Server {
    url: String,
    runtime: Option<Runtime>,
}

/// Whose CPU time comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPace {
    /// The reader's: answers use all CPUs.
    Foreground,
    /// That of a measurement in this process: answers use one thread at a time, with the lowest priority.
    Background,
}

struct Shared {
    recordings: Vec<LiveRecording>,
    token: String,
    port: u16,
    computed: Semaphore,
    waiting: Semaphore,
    /// The threads that compute in the background.
    background: Option<rayon::ThreadPool>,
}

impl Shared {
    /// Computes on the threads that the pace allows.
    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.background {
            Some(threads) => threads.install(work),
            None => work(),
        }
    }
}

/// Gives this thread the lowest priority. Where that is refused it keeps its own.
fn lower_priority() {
    const LOWEST: i32 = 19;
    // On Linux no process means the calling thread.
    let _ = rustix::process::setpriority_process(None, LOWEST);
}

impl Server {
    /// Starts to serve these recordings; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ViewError::Listen`] if the port is taken.
    pub fn start(recordings: Vec<impl Into<LiveRecording>>, port: u16) -> Result<Server, ViewError> {
        Server::start_at(ServerPace::Foreground, recordings, port)
    }

    /// As [`Server::start`], at a pace.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_at(
        pace: ServerPace,
        recordings: Vec<impl Into<LiveRecording>>,
        port: u16,
    ) -> Result<Server, ViewError> {
        let failed = |source| ViewError::Listen { port, source };
        let is_background = pace == ServerPace::Background;
        let background = is_background.then(|| {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(1).start_handler(|_| lower_priority());
            threads.build().map_err(|error| failed(std::io::Error::other(error)))
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .on_thread_start(move || {
                if is_background {
                    lower_priority();
                }
            })
            .worker_threads(2)
            .max_blocking_threads(8)
            .thread_name("view")
            .enable_io()
            .build()
            .map_err(failed)?;
        let listener = runtime
            .block_on(TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
            .map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let token = random_token().map_err(failed)?;
        let url = format!("http://127.0.0.1:{port}/{token}/");
        let shared = Arc::new(Shared {
            recordings: recordings.into_iter().map(Into::into).collect(),
            token,
            port,
            computed: Semaphore::new(COMPUTED_MOST),
            waiting: Semaphore::new(WAITING_MOST),
            background: background.transpose()?,
        });
        let router = Router::new()
            .route("/{token}", get(to_folder))
            .route("/{token}/", get(index))
            .route("/{token}/{asset}", get(asset))
            .route("/{token}/api/recordings", get(recordings_of))
            .route("/{token}/api/panels", get(panels))
            .route("/{token}/api/ios", get(ios))
            .route("/{token}/api/export", get(export_of))
            .route("/{token}/api/ratios", get(ratios))
            .route("/{token}/report/{id}/", get(report))
            .fallback(nothing)
            .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
            .with_state(shared);
        runtime.spawn(async move {
            // It ends with the runtime.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Server { url, runtime: Some(runtime) })
    }

    /// The address of the page.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses requests that this page did not make.
async fn guard(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let own = [format!("127.0.0.1:{}", shared.port), format!("localhost:{}", shared.port)];
    let is_own_host = text(header::HOST).is_some_and(|host| own.iter().any(|own| own == host));
    let is_own_origin = text(header::ORIGIN)
        .is_none_or(|origin| own.iter().any(|own| origin.strip_prefix("http://") == Some(own)));
    let token = request.uri().path().split('/').nth(1).unwrap_or_default();
    let mut response = if !is_own_host || !is_own_origin {
        failure(StatusCode::FORBIDDEN, "this address answers only the page that it serves")
    } else if token != shared.token {
        failure(StatusCode::NOT_FOUND, "there is nothing here: use the address that flashlab view printed")
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn failure(status: StatusCode, message: &str) -> Response {
    let body = json!({ "error": message }).to_string();
    (status, json_response(body)).into_response()
}

fn json_response(document: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

async fn nothing() -> Response {
    failure(StatusCode::NOT_FOUND, "there is nothing here")
}

/// The page's own addresses count from a folder.
async fn to_folder(Path(token): Path<String>) -> Redirect {
    Redirect::permanent(&format!("/{token}/"))
}

async fn index() -> Response {
    serve_asset("index.html")
}

async fn asset(Path((_, name)): Path<(String, String)>) -> Response {
    serve_asset(&name)
}

fn serve_asset(name: &str) -> Response {
    match assets::named(name) {
        Some(asset) => ([(header::CONTENT_TYPE, asset.media_type())], asset.text).into_response(),
        None => failure(StatusCode::NOT_FOUND, "there is no such file"),
    }
}

async fn recordings_of(State(shared): State<Arc<Shared>>) -> Response {
    let document = tokio::task::spawn_blocking(move || {
        let now: Vec<Arc<ViewedRecording>> = shared.run(|| {
            shared
                .recordings
                .iter()
                .map(|recording| {
                    recording.refresh();
                    recording.now()
                })
                .collect()
        });
        let heads: Vec<_> =
            now.iter().enumerate().map(|(id, recording)| answer::RecordingHead::of(id, recording)).collect();
        json!({ "flashlab": env!("CARGO_PKG_VERSION"), "recordings": heads }).to_string()
    });
    match document.await {
        Ok(document) => json_response(document),
        Err(_) => failure(StatusCode::INTERNAL_SERVER_ERROR, FAILED),
    }
}

type Pairs = Query<Vec<(String, String)>>;

async fn panels(State(shared): State<Arc<Shared>>, Query(query): Pairs) -> Response {
    let answer = compute(shared, query, |recording, view, query, is_cancelled| {
        let width = query.number("width", 1000)?;
        let is_patient = query.flag("exact")?;
        count::count(recording, view, width, is_patient, is_cancelled).map(|counted| answer::panels(&counted))
    });
    match answer.await {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
        Err(response) => response,
    }
}

async fn ios(State(shared): State<Arc<Shared>>, Query(query): Pairs) -> Response {
    let answer = compute(shared, query, |recording, view, query, is_cancelled| {
        let page = Page {
            sorting: Sorting {
                order: Order::named(query.get("sort").unwrap_or("time_ns"))?,
                is_descending: query.flag("descending")?,
            },
            start: query.number("start", 0)?,
            count: query.number("count", 200)?,
        };
        table::page(recording, view, page, is_cancelled)
    });
    match answer.await {
        Ok(document) => json_response(document.to_string()),
        Err(response) => response,
    }
}

async fn export_of(State(shared): State<Arc<Shared>>, Query(query): Pairs) -> Response {
    let answer = compute(shared, query, |recording, view, query, is_cancelled| {
        let format = ExportFormat::named(query.get("format").unwrap_or("csv"))?;
        Ok((format, export::export(recording, view, format, is_cancelled)?))
    });
    match answer.await {
        Ok((format, bytes)) => {
            let headers = [
                (header::CONTENT_TYPE, format.media_type()),
                (header::CONTENT_DISPOSITION, format.disposition()),
            ];
            (headers, bytes).into_response()
        }
        Err(response) => response,
    }
}

async fn ratios(State(shared): State<Arc<Shared>>, Query(query): Pairs) -> Response {
    let of_others = Arc::clone(&shared);
    let answer = compute(shared, query, move |recording, view, query, is_cancelled| {
        let id = query.get("other").unwrap_or("1");
        let other = id.parse().ok().and_then(|id: usize| of_others.recordings.get(id));
        let other = other.ok_or_else(|| ViewError::NoRecording(id.to_owned()))?.now();
        ratios_in_view(recording, &other, view, is_cancelled)
    });
    match answer.await {
        Ok(document) => json_response(document.to_string()),
        Err(response) => response,
    }
}

/// The page that the run's own verb made, in which the page's scripts make links to here.
async fn report(State(shared): State<Arc<Shared>>, Path((_, id)): Path<(String, usize)>) -> Response {
    let file = shared.recordings.get(id).and_then(|recording| recording.now().source.report.clone());
    let Some(file) = file else { return failure(StatusCode::NOT_FOUND, "this recording has no report") };
    match tokio::task::spawn_blocking(move || std::fs::read(file)).await {
        Ok(Ok(page)) => {
            let headers = [
                (header::CONTENT_TYPE, "text/html; charset=utf-8"),
                (header::CONTENT_SECURITY_POLICY, REPORT_POLICY),
            ];
            (headers, page).into_response()
        }
        _ => failure(StatusCode::NOT_FOUND, "the report cannot be read: flashlab report makes it anew"),
    }
}

/// The pairs of a request.
struct RequestQuery(Vec<(String, String)>);

impl RequestQuery {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn number(&self, key: &str, default: usize) -> Result<usize, ViewError> {
        self.get(key).map_or(Ok(default), |text| {
            text.parse().map_err(|_| ViewError::query(key, text, "a number that is not negative"))
        })
    }

    fn flag(&self, key: &str) -> Result<bool, ViewError> {
        match self.get(key) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(ViewError::query(key, other, "0 or 1")),
        }
    }
}

/// Set when the client has left.
struct Cancellation(Arc<AtomicBool>);

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Computes an answer on another thread. An error is the response for it.
async fn compute<T: Send + 'static>(
    shared: Arc<Shared>,
    query: Vec<(String, String)>,
    answer: impl FnOnce(&ViewedRecording, &View, &RequestQuery, &AtomicBool) -> Result<T, ViewError>
    + Send
    + 'static,
) -> Result<T, Response> {
    let Ok(_waiting) = shared.waiting.try_acquire() else {
        let mut response =
            failure(StatusCode::SERVICE_UNAVAILABLE, "too many requests wait: try again in a moment");
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return Err(response);
    };
    let Ok(_computed) = shared.computed.acquire().await else {
        return Err(failure(StatusCode::SERVICE_UNAVAILABLE, "the server ends"));
    };
    let is_cancelled = Arc::new(AtomicBool::new(false));
    // The handler is dropped when its client leaves.
    let _cancellation = Cancellation(Arc::clone(&is_cancelled));
    let of_request = Arc::clone(&shared);
    let work = tokio::task::spawn_blocking(move || {
        let view = View::parse(&query)?;
        let query = RequestQuery(query);
        let id = query.get("recording").unwrap_or("0");
        let recording = id.parse().ok().and_then(|id: usize| of_request.recordings.get(id));
        let recording = recording.ok_or_else(|| ViewError::NoRecording(id.to_owned()))?.now();
        of_request.run(|| answer(&recording, &view, &query, &is_cancelled))
    });
    match work.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failure(status(&error), &error.to_string())),
        Err(_) => Err(failure(StatusCode::INTERNAL_SERVER_ERROR, FAILED)),
    }
}

fn status(error: &ViewError) -> StatusCode {
    match error {
        ViewError::Query { .. } | ViewError::TooMany { .. } => StatusCode::BAD_REQUEST,
        ViewError::NoRecording(_) => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
