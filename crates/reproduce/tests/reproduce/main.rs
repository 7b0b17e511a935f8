//! The papers' tables that take seconds: what flashlab measures stands beside what the paper printed.

mod ajwani;
mod drives_and_volumes;
