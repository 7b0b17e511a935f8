//! What the host wrote, page by page, and whether what a volume returns is the state after one of the writes.

use std::sync::Arc;

use flashlab_device::Device;

use crate::volume::Volume;

/// The page size of all scenarios.
pub(crate) const PAGE: usize = 4096;

/// More pages than the volume of any scenario has.
pub(crate) const PAGES_MAX: u64 = 60;

/// The content of a page. `None`: zeroes.
pub(crate) type Content = Option<Arc<[u8]>>;

/// The host's writes and discards, in order, each of one page.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    updates: Vec<(u64, Content)>,
}

impl History {
    pub fn push(&mut self, page: u64, content: Content) {
        self.updates.push((page, content));
    }

    pub fn len(&self) -> usize {
        self.updates.len()
    }

    pub fn truncate(&mut self, length: usize) {
        self.updates.truncate(length);
    }

    /// The content of a page after all updates.
    pub fn content(&self, page: u64) -> Content {
        self.updates.iter().rev().find(|update| update.0 == page).and_then(|update| update.1.clone())
    }

    /// Checks that the pages are those after `n` updates with `low <= n <= high`, and returns the highest such `n`. A page that
    /// could not be read (`Err`) fits if `lenient`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(
        &self,
        pages: &[Result<Vec<u8>, String>],
        (low, high): (usize, usize),
        lenient: bool,
    ) -> Result<usize, String> {
        let mut fits = vec![true; high - low + 1];
        for (page, read) in pages.iter().enumerate() {
            let read = match read {
                Ok(read) => read,
                Err(_) if lenient => continue,
                Err(error) => return Err(format!("page {page} cannot be read: {error}")),
            };
            let before = self.updates[..low].iter().rev().find(|update| update.0 == page as u64);
            let mut is_right = equals(read, before.and_then(|update| update.1.as_deref()));
            let mut ever = is_right;
            fits[0] &= is_right;
            for (at, (updated, content)) in self.updates[low..high].iter().enumerate() {
                if *updated == page as u64 {
                    is_right = equals(read, content.as_deref());
                    ever |= is_right;
                }
                fits[at + 1] &= is_right;
            }
            if !ever {
                let older = self.updates[..low]
                    .iter()
                    .rposition(|update| update.0 == page as u64 && equals(read, update.1.as_deref()));
                return Err(match older {
                    Some(at) => format!("page {page} is that of update {at}, but {low} updates were flushed"),
                    None => {
                        format!("page {page} has a content that the host did not write in {high} updates")
                    }
                });
            }
        }
        let newest = fits.iter().rposition(|&fits| fits).map(|at| low + at);
        newest.ok_or_else(|| format!("the pages are of no one state between updates {low} and {high}"))
    }
}

fn equals(read: &[u8], content: Option<&[u8]>) -> bool {
    match content {
        Some(content) => read == content,
        None => read.iter().all(|&byte| byte == 0),
    }
}

/// Reads the pages below [`PAGES_MAX`], each by itself. Those behind the volume's end count as zeroes: a volume that was not
/// resized, or was made smaller, must have nothing there.
pub(crate) fn read_pages<D: Device>(volume: &mut Volume<D>) -> Vec<Result<Vec<u8>, String>> {
    let end = volume.geometry().capacity.0 / PAGE as u64;
    let read = |page| {
        let mut data = vec![0; PAGE];
        if page >= end {
            return Ok(data);
        }
        match volume.read(page * PAGE as u64, &mut data) {
            Ok(()) => Ok(data),
            Err(error) => Err(error.to_string()),
        }
    };
    (0..PAGES_MAX).map(read).collect()
}
