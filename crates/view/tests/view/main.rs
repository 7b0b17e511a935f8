//! Recordings are looked at as a reader does: counts against a look at each IO, the server, the page in a browser.

mod browser;
mod counts;
mod duckdb;
mod export;
mod growing;
mod import;
mod made;
mod page_file;
mod pyramid_file;
mod server;
mod shared;
