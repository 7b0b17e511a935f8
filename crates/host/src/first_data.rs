//! Where the data of a regular file begins: a file whose beginning is blank may hold data behind it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use flashlab_base::Bytes;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// How much of a file is read at most, holes apart: a second on a slow disk.
const READ_MAX: u64 = 256 << 20;
/// How much is read at a time.
const PIECE: u64 = 1 << 20;

/// The offset of the first piece of a file that is not zero, to within 1 MiB; none if there is none within what is read.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn first_data(file: &File, size: Bytes) -> io::Result<Option<Bytes>> {
    let (mut offset, mut left) = (0, READ_MAX);
    let mut piece = vec![0; PIECE as usize];
    while offset < size.0 && left > 0 {
        offset = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(None),
            // A file system without holes.
            Err(Errno::INVAL) => offset,
            Err(error) => return Err(error.into()),
        };
        let length = (size.0 - offset.min(size.0)).min(PIECE);
        let piece = &mut piece[..length as usize];
        file.read_exact_at(piece, offset)?;
        if piece.iter().any(|&byte| byte != 0) {
            return Ok(Some(Bytes(offset)));
        }
        offset += length;
        left = left.saturating_sub(length);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_found_behind_holes_and_zeroes() {
        let path = std::env::temp_dir().join(format!("flashlab-first-data-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let size = Bytes::mib(64);
        file.set_len(size.0).unwrap();
        assert_eq!(first_data(&file, size).unwrap(), None);
        file.write_all_at(&[0; 8192], 4 << 20).unwrap();
        assert_eq!(first_data(&file, size).unwrap(), None);
        file.write_all_at(b"data", size.0 - 4096).unwrap();
        let found = first_data(&file, size).unwrap().unwrap();
        assert!(found.0 > size.0 - (1 << 20) && found.0 <= size.0 - 4096, "{found}");
        std::fs::remove_file(&path).unwrap();
    }
}
