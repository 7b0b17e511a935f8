//! Parses the fields of a line.

use flashlab_base::Bytes;

/// What a line should contain, for the error message.
pub(crate) type Expected = &'static str;

/// The sector size of block traces, whatever the device's block size is.
const SECTOR: u64 = 512;

/// The words of a line, between blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A word that is a whole number, in decimal digits and nothing else.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// The next word as a number.
pub(crate) fn next_number<'a>(
    words: &mut impl Iterator<Item = &'a [u8]>,
    expected: Expected,
) -> Result<u64, Expected> {
    words.next().and_then(number).ok_or(expected)
}

/// A range in sectors as one in bytes, if it ends within 64 bits.
pub(crate) fn sectors(first: u64, count: u64, expected: Expected) -> Result<(Bytes, Bytes), Expected> {
    let (offset, size) = (first.checked_mul(SECTOR), count.checked_mul(SECTOR));
    let (Some(offset), Some(size)) = (offset, size) else { return Err(expected) };
    range(offset, size, expected)
}

/// A range that is not empty and ends within 64 bits.
pub(crate) fn range(offset: u64, size: u64, expected: Expected) -> Result<(Bytes, Bytes), Expected> {
    match offset.checked_add(size) {
        Some(_) if size > 0 => Ok((Bytes(offset), Bytes(size))),
        _ => Err(expected),
    }
}
