//! The formats of traces, each recognised by its first line.

use crate::fields::Expected;
use crate::{blkparse, fio, mqsim, msr};

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's `write_iolog`, versions 2 and 3.
    Fio,
    /// blkparse's text, in its default format.
    Blkparse,
    /// The CSV files of Microsoft Research Cambridge.
    Msr,
    /// MQSim's text.
    Mqsim,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Fio, Format::Blkparse, Format::Msr, Format::Mqsim];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Fio => "fio",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
            Format::Mqsim => "mqsim",
        }
    }

    /// A description of its first line.
    pub(crate) const fn line(self) -> Expected {
        match self {
            Format::Fio => fio::HEADER,
            Format::Blkparse => blkparse::LINE,
            Format::Msr => msr::LINE,
            Format::Mqsim => mqsim::LINE,
        }
    }

    /// The format of a text that begins with `head`, which may end within a line.
    pub fn of_head(head: &[u8]) -> Option<Format> {
        let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.find(|line| !line.is_empty() && !blkparse::is_preamble(line))?;
        Format::recognised(first)
    }

    /// The format of a trace with this first line.
    pub(crate) fn recognised(line: &[u8]) -> Option<Format> {
        let is = |format: Format| match format {
            Format::Fio => line.starts_with(b"fio version"),
            Format::Blkparse => blkparse::is_line(line),
            Format::Msr => msr::is_line(line),
            Format::Mqsim => mqsim::is_line(line),
        };
        Format::ALL.into_iter().find(|&format| is(format))
    }
}
