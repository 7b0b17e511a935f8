//! Numbers behind a header, as the page decodes them (`assets/frame.js`).
//!
//! # Format
//! `u32` little endian, the length of the header; the header as JSON; zero bytes up to a multiple of 8; the arrays one after the other,
//! each at a multiple of 8. The header's `arrays` has the type, the start behind the header in bytes and the number of elements of each.
//! Types are `u32` and `f64`, little endian; `varint`, seven bits a byte from the lowest, where the eighth says that more follow; and
//! `signed`, a varint of `2 n` for a number that is not negative and of `-2 n - 1` for another.

use serde_json::{Map, Value, json};

/// The arrays behind a header.
#[derive(Default)]
pub struct Arrays {
    directory: Map<String, Value>,
    bytes: Vec<u8>,
}

/// Numbers of a fixed width that an array can have.
pub trait Number: Copy {
    /// What the header calls it.
    const TYPE: &'static str;
    /// Adds its bytes.
    fn put(self, bytes: &mut Vec<u8>);
}

impl Number for u32 {
    const TYPE: &'static str = "u32";
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Number for f64 {
    const TYPE: &'static str = "f64";
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Arrays {
    /// Adds an array of numbers of a fixed width.
    pub fn put<T: Number>(&mut self, name: &str, values: Vec<T>) {
        self.put_each(name, T::TYPE, values, T::put);
    }

    /// Adds an array of numbers that are mostly small. The page keeps them as floats: beyond 2^53 they are rounded.
    pub fn put_varints(&mut self, name: &str, values: impl IntoIterator<Item = u64>) {
        self.put_each(name, "varint", values, put_varint);
    }

    /// The same, of numbers of both signs.
    pub fn put_signed(&mut self, name: &str, values: impl IntoIterator<Item = i64>) {
        self.put_each(name, "signed", values, |value, bytes| {
            put_varint((value << 1 ^ value >> 63) as u64, bytes)
        });
    }

    fn put_each<T>(
        &mut self,
        name: &str,
        kind: &str,
        values: impl IntoIterator<Item = T>,
        put: impl Fn(T, &mut Vec<u8>),
    ) {
        let start = self.bytes.len();
        let mut length = 0;
        for value in values {
            put(value, &mut self.bytes);
            length += 1;
        }
        self.directory.insert(name.to_owned(), json!({ "type": kind, "start": start, "length": length }));
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// The bytes of all, with a header that is an object.
    pub fn framed(self, mut header: Value) -> Vec<u8> {
        header["arrays"] = Value::Object(self.directory);
        let header = header.to_string();
        let mut bytes = (header.len() as u32).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(self.bytes);
        bytes
    }
}

fn put_varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
