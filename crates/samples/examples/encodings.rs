//! Measures how many bytes per IO each column needs with each encoding. The encodings of segment_writer.rs
//! were chosen with it.
//!
//!     cargo run --release -p flashlab-samples --example encodings

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use flashlab_base::{Bytes, Seed};
use flashlab_samples::{Columns, for_each_batch};
use parquet::basic::{BrotliLevel, Compression, Encoding, ZstdLevel};
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

#[path = "../tests/samples/synthetic.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod synthetic;

/// What a device does in the time of a segment.
const IOS: u64 = 12_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    for space in [Bytes::gib(1), Bytes::gib(64), Bytes::gib(1024)] {
        let directory = tempfile::tempdir()?;
        let folder = synthetic::folder(&directory.path().join("run"));
        synthetic::record(&folder, 1, synthetic::random_reads(space, IOS, Seed(1)));
        let segments = folder.segments(1);
        let largest = segments.iter().max_by_key(|path| path.metadata().map_or(0, |data| data.len()));
        let largest = largest.ok_or("no segment")?;
        println!("\n{IOS} random 4 KiB reads over {space}, bytes an IO");
        as_chosen(largest)?;
        alternatives(largest)?;
    }
    Ok(())
}

/// The size of each column in the file, with the chosen encodings.
fn as_chosen(path: &Path) -> Result<(), Failure> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let ios = reader.metadata().file_metadata().num_rows() as f64;
    let mut columns = 0;
    for column in reader.metadata().row_group(0).columns() {
        columns += column.compressed_size();
        let each = column.compressed_size() as f64 / ios;
        println!("  {:<20} {each:>8.3}", column.column_path().string());
    }
    let whole = path.metadata()?.len();
    println!("  {:<20} {:>8.3}", "footer", (whole as f64 - columns as f64) / ios);
    println!("  {:<20} {:>8.3}", "all", whole as f64 / ios);
    Ok(())
}

/// The size of the largest columns with other encodings.
fn alternatives(path: &Path) -> Result<(), Failure> {
    let mut all = Columns::default();
    for_each_batch(path, |columns| {
        all.offset_bytes.extend(&columns.offset_bytes);
        all.intended_ns.extend(&columns.intended_ns);
        all.response_ns.extend(&columns.response_ns);
    })?;
    let compressions = [
        ("none", Compression::UNCOMPRESSED),
        ("zstd 1", Compression::ZSTD(ZstdLevel::try_new(1)?)),
        ("zstd 3", Compression::ZSTD(ZstdLevel::try_new(3)?)),
        ("zstd 19", Compression::ZSTD(ZstdLevel::try_new(19)?)),
        ("brotli 1", Compression::BROTLI(BrotliLevel::try_new(1)?)),
        ("brotli 4", Compression::BROTLI(BrotliLevel::try_new(4)?)),
        ("brotli 5", Compression::BROTLI(BrotliLevel::try_new(5)?)),
        ("brotli 6", Compression::BROTLI(BrotliLevel::try_new(6)?)),
        ("brotli 9", Compression::BROTLI(BrotliLevel::try_new(9)?)),
    ];
    print!("  {:<32}", "");
    compressions.iter().for_each(|(name, _)| print!("{name:>18}"));
    println!();
    for (name, values) in [
        ("offset_bytes", &all.offset_bytes),
        ("intended_ns", &all.intended_ns),
        ("response_ns", &all.response_ns),
    ] {
        for encoding in [
            Encoding::PLAIN,
            Encoding::BYTE_STREAM_SPLIT,
            Encoding::DELTA_BINARY_PACKED,
            Encoding::RLE_DICTIONARY,
        ] {
            print!("  {name:<12} {encoding:<19}");
            for (_, compression) in compressions {
                let begin = std::time::Instant::now();
                let size = size_of(values, encoding, compression)?;
                let each = begin.elapsed().as_nanos() as f64 / values.len() as f64;
                print!("{:>8.3} {each:>6.0} ns", size as f64 / values.len() as f64);
            }
            println!();
        }
    }
    Ok(())
}

fn size_of(values: &[i64], encoding: Encoding, compression: Compression) -> Result<i64, Failure> {
    let schema = Arc::new(parse_message_type("message one { required int64 value; }")?);
    let properties = WriterProperties::builder().set_compression(compression);
    let properties = match encoding {
        Encoding::RLE_DICTIONARY => properties.set_dictionary_enabled(true),
        _ => properties.set_dictionary_enabled(false).set_encoding(encoding),
    };
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    let mut column = group.next_column()?.ok_or("no column")?;
    column.typed::<Int64Type>().write_batch(values, None, None)?;
    column.close()?;
    Ok(group.close()?.compressed_size())
}
