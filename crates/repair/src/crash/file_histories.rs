//! What directories a crash may leave, and what is checked of each.

use flashlab_base::Prng;

use super::file_model::FileModel;
use super::history::PAGE;
use super::media::CrashMedia;
use crate::error::RepairError;
use crate::files::{FileAttributes, FileId, FileKind, Files};
use crate::volume::Volume;

/// Digests behind all steps; a history is continued from a shorter one where the server was killed.
pub(crate) struct FileHistories(pub Vec<Vec<u64>>);

/// The number of steps after which the newest state with a digest is reached, not before `low` and not behind `high`.
pub(crate) fn newest(digests: &[u64], (low, high): (usize, usize), digest: u64) -> Option<usize> {
    (low.max(1)..=high).rev().find(|steps| digests[steps - 1] == digest)
}

impl FileHistories {
    /// Checks the files of a crash state. Returns further states that were tried. `None`: the files of a damaged state were refused.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(
        &self,
        history: usize,
        media: CrashMedia,
        (range, is_damaged): ((usize, usize), bool),
        random: &mut Prng,
        mount: impl Fn(CrashMedia) -> Result<Volume<CrashMedia>, RepairError>,
    ) -> Result<Option<u64>, String> {
        let digests = &self.0[history];
        let opened = mount(media).and_then(Files::open);
        let read = opened.and_then(|mut files| Ok((FileModel::read(&mut files, Vec::new())?, files)));
        let (read, files) = match read {
            Ok(read) => read,
            Err(_) if is_damaged => return Ok(None),
            Err(error) => return Err(format!("the files cannot be read: {error}")),
        };
        if newest(digests, range, read.digest()).is_none() {
            return Err(match newest(digests, (0, range.0), read.digest()) {
                Some(steps) => {
                    format!("the files are those after step {steps}, but {} were flushed", range.0)
                }
                None => format!("the files are those of no step up to {}", range.1),
            });
        }
        match random.below(8) {
            0 if !is_damaged => check_use((files, read), random, mount).map(|()| Some(1)),
            _ => Ok(Some(0)),
        }
    }
}

/// Files that are written and synced after recovery survive the next power failure.
fn check_use(
    (mut files, read): (Files<CrashMedia>, FileModel),
    random: &mut Prng,
    mount: impl Fn(CrashMedia) -> Result<Volume<CrashMedia>, RepairError>,
) -> Result<(), String> {
    let fails = |error: RepairError| format!("after recovery: {error}");
    let attributes = FileAttributes::new(0o644, 0, 0, 0);
    for name in [b"after1", b"after2"] {
        let id = files.create(FileId::ROOT, name, FileKind::Regular, attributes).map_err(fails)?;
        let data = vec![random.next_u64() as u8; 1 + random.below(PAGE as u64) as usize];
        match files.write(id, None, &data, 1) {
            Ok(_) | Err(RepairError::File(_)) => {}
            Err(error) => return Err(fails(error)),
        }
    }
    files.sync(false).map_err(fails)?;
    let before = FileModel::read(&mut files, Vec::new()).map_err(fails)?.digest();
    let mut files = mount(files.abandon()).and_then(Files::open).map_err(fails)?;
    let after = FileModel::read(&mut files, Vec::new()).map_err(fails)?.digest();
    match before == after && after != read.digest() {
        true => Ok(()),
        false => Err("what was synced after recovery is not there after the next mount".to_owned()),
    }
}
