//! A page with its recordings in one file, for a reader who has neither the runs nor the program.
//!
//! # Model
//! The file has the page's scripts and, of each recording, frames (module `frame`) as base64 of gzip: its slowest IOs, and a pyramid of all
//! of them if these are not all. `assets/own_file.js` answers the page from it, as the server would.
//!
//! # Invariants
//! - The file has at most [`FILE_BYTES_MOST`] bytes: columns of the pyramid are joined in pairs, and fewer IOs are taken, until it fits.
//! - What was left out is a note on the page.
//! - The file loads nothing from elsewhere.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flashlab_base::{Bytes, Nanos, Sample};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use crate::answer::RecordingHead;
use crate::assets::{self, ASSETS, Asset};
use crate::error::ViewError;
use crate::frame::Arrays;
use crate::ios::IoKind;
use crate::pyramid::{Pyramid, SparseTable};
use crate::recording::{ReadProgress, ViewedRecording};
use crate::summing;
use crate::table::{self, COLUMNS};

/// The most bytes of a file: what can be sent by mail or put into a ticket.
pub const FILE_BYTES_MOST: usize = 5_000_000;
/// The most IOs of all recordings together that a file has one by one.
const IOS_MOST: usize = 100_000;
/// The share of a recording's bytes that its single IOs may take where it has a pyramid, too.
const IOS_SHARE: f64 = 0.6;

/// The text of a page with these recordings in it. `state` is what it shows first: what follows `#` in the address of a page.
///
/// # Errors
/// If samples are damaged or cannot be read.
pub fn page_file(
    recordings: &mut [ViewedRecording],
    state: &str,
    progress: ReadProgress,
) -> Result<String, ViewError> {
    let count = recordings.len().max(1);
    let head = |(id, recording)| serde_json::to_value(RecordingHead::of(id, recording)).unwrap_or_default();
    let mut heads: Vec<Value> = recordings.iter().enumerate().map(head).collect();
    // Heads take what they need; the contents share the rest, with some room for the notes that are added to the heads.
    let share = FILE_BYTES_MOST.saturating_sub(page(&heads, &[], state).len() + 1000 * count) / count;
    let mut contents = Vec::new();
    let ios_most = shares(recordings.iter().map(|recording| recording.overview.ios()).collect());
    for ((recording, head), ios_most) in recordings.iter_mut().zip(&mut heads).zip(ios_most) {
        let (content, note) = content(recording, ios_most, share, progress)?;
        contents.push(content);
        // The file has neither, and does not grow.
        head["has_report"] = false.into();
        head["is_growing"] = false.into();
        if let Some(notes) = head["notes"].as_array_mut() {
            notes.push(note.into());
        }
    }
    let page = page(&heads, &contents, state);
    match page.len() <= FILE_BYTES_MOST {
        true => Ok(page),
        false => Err(ViewError::TooLarge { bytes: page.len(), most: FILE_BYTES_MOST }),
    }
}

/// Shares the IOs that a file has one by one among recordings with so many: small ones are whole, and the others share what is left.
fn shares(ios: Vec<u64>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ios.len()).collect();
    order.sort_by_key(|&index| ios[index]);
    let mut shares = vec![0; ios.len()];
    let mut left = IOS_MOST;
    for (done, index) in order.into_iter().enumerate() {
        let own = ios[index].min((left / (ios.len() - done)) as u64) as usize;
        shares[index] = own;
        left -= own;
    }
    shares
}

/// What the file has of a recording, in at most `share` bytes if that is possible, and a note that says what is left out.
fn content(
    recording: &mut ViewedRecording,
    ios_most: usize,
    share: usize,
    progress: ReadProgress,
) -> Result<(Value, String), ViewError> {
    let all = recording.overview.ios();
    let mut ios = table::slowest(recording, ios_most)?;
    let mut packed = pack_ios(recording, &ios);
    if ios.len() as u64 == all && packed.len() <= share {
        let content = json!({ "ios": packed, "pyramid": null });
        return Ok((content, "this page is a file that has every IO".to_owned()));
    }
    while packed.len() as f64 > IOS_SHARE * share as f64 && !ios.is_empty() {
        ios.truncate(ios.len() / 2);
        packed = pack_ios(recording, &ios);
    }
    let share = share.saturating_sub(packed.len());
    // What the kept one leaves out may fit into the file.
    let table_bytes = 0.5 * share as f64;
    if recording.pyramid.is_none() || summing::table_bytes(recording) < table_bytes {
        recording.pyramid = Some(summing::build(recording, table_bytes, progress)?);
    }
    let mut pyramid = recording.pyramid.clone().unwrap_or_default();
    let packed_pyramid = loop {
        let packed = pack_pyramid(&pyramid);
        // A table of one column cannot be made smaller.
        let (leaves, blocks) = (pyramid.leaves.columns.len() > 1, pyramid.blocks.columns.len() > 1);
        if packed.len() <= share || !(leaves || blocks) {
            break packed;
        }
        // The table that is larger is what takes the bytes.
        let is_leaf_larger = pyramid.leaves.keys.len() + 8 * pyramid.sums.len() > pyramid.blocks.keys.len();
        if leaves && (is_leaf_larger || !blocks) {
            pyramid = pyramid.with_coarser_leaves();
        } else {
            pyramid.blocks = pyramid.blocks.coarser();
        }
    };
    let content = json!({ "ios": packed, "pyramid": packed_pyramid });
    Ok((content, note(&ios, all, &pyramid)))
}

/// What a file without every IO has.
fn note(ios: &[(u32, Sample)], all: u64, pyramid: &Pyramid) -> String {
    format!(
        "this page is a file: one by one it has {} of {all} IOs, those from {} up; the others are counted in columns of {} (over offsets, \
         of {} and {}), beyond which nothing can be zoomed; flashlab view shows each IO of the run itself",
        ios.len(),
        Nanos(complete_from_ns(ios)),
        Nanos(1 << pyramid.leaves.shift),
        Nanos(1 << pyramid.blocks.shift),
        Bytes(1 << pyramid.offset_shift),
    )
}

/// The response time from which on every IO is among the slowest: others may be as fast as the last of these.
fn complete_from_ns(slowest: &[(u32, Sample)]) -> u64 {
    let response_ns = |sample: &Sample| table::response_ns(sample).max(0) as u64;
    slowest.iter().map(|(_, sample)| response_ns(sample) + 1).min().unwrap_or(u64::MAX)
}

/// Base64 of gzip of the frame with these IOs.
fn pack_ios(recording: &ViewedRecording, slowest: &[(u32, Sample)]) -> String {
    let mut ios: Vec<&(u32, Sample)> = slowest.iter().collect();
    ios.sort_by_key(|(_, sample)| sample.intended.0);
    let mut arrays = Arrays::default();
    let mut put = |name: &str, value: &dyn Fn(u32, &Sample) -> u64| {
        arrays.put_varints(&format!("io_{name}"), ios.iter().map(|(run, sample)| value(*run, sample)));
    };
    put("run", &|run, _| run.into());
    put("process", &|_, sample| sample.process.into());
    put("position", &|_, sample| sample.position);
    put("kind", &|_, sample| IoKind::new(sample.mode.is_write(), sample.errno != 0, sample.size.0).0.into());
    put("offset_bytes", &|_, sample| sample.offset.0);
    put("size_bytes", &|_, sample| sample.size.0);
    let samples = || ios.iter().map(|(_, sample)| sample);
    arrays.put_varints(
        "io_time_ns",
        differences(samples().map(|sample| table::time_ns(recording, sample) as u64)),
    );
    arrays.put_signed("io_submission_delay_ns", samples().map(table::submission_delay_ns));
    arrays.put_signed("io_response_ns", samples().map(table::response_ns));
    arrays.put_signed("io_errno", samples().map(|sample| i64::from(sample.errno)));
    let overview = &recording.overview;
    zipped(&arrays.framed(json!({
        "columns": COLUMNS,
        "complete_from_ns": complete_from_ns(slowest),
        "overview": {
            "time_end_ns": overview.time_end_ns,
            "offset_bytes": [overview.offset_first.min(overview.offset_last), overview.offset_last],
            "response_ns": [overview.response_ns.0.min(overview.response_ns.1), overview.response_ns.1],
        },
    })))
}

/// Base64 of gzip of the frame with this pyramid.
fn pack_pyramid(pyramid: &Pyramid) -> String {
    let mut arrays = Arrays::default();
    put_table(&mut arrays, "leaf", &pyramid.leaves);
    put_table(&mut arrays, "block", &pyramid.blocks);
    arrays.put_varints("sum_columns", differences(pyramid.sum_columns.iter().map(|&column| column.into())));
    arrays.put_varints("sums", pyramid.sums.iter().flat_map(|sums| sums.numbers()));
    zipped(&arrays.framed(json!({
        "leaf_shift": pyramid.leaves.shift,
        "block_shift": pyramid.blocks.shift,
        "offset_shift": pyramid.offset_shift,
    })))
}

/// Base64 of gzip.
fn zipped(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    BASE64.encode(written.expect("memory can be written to"))
}

fn put_table(arrays: &mut Arrays, name: &str, table: &SparseTable) {
    arrays.put_varints(
        &format!("{name}_columns"),
        differences(table.columns.iter().map(|&column| column.into())),
    );
    let cells = table.starts.windows(2).map(|two| u64::from(two[1] - two[0]));
    arrays.put_varints(&format!("{name}_cells"), cells);
    let keys = table.starts.windows(2).flat_map(|two| {
        differences(table.keys[two[0] as usize..two[1] as usize].iter().map(|&key| key.into()))
    });
    arrays.put_varints(&format!("{name}_keys"), keys);
    arrays.put_varints(&format!("{name}_counts"), table.counts.iter().map(|&count| count.into()));
}

/// The first of ascending numbers, and how much each is larger than the one before.
fn differences(numbers: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    let mut before = 0;
    numbers.map(move |number| number - std::mem::replace(&mut before, number))
}

/// The page as one text.
fn page(heads: &[Value], contents: &[Value], state: &str) -> String {
    let classic = ["early.js", "uPlot.js"];
    let modules = ASSETS.iter().filter(|asset| asset.name.ends_with(".js") && !classic.contains(&asset.name));
    // A module in an address of its own has no folder: the others have names instead of paths.
    let import = |module: &Asset| {
        let text = module.text.replace("from './", "from 'view/");
        (format!("view/{}", module.name), Value::String(data_address(module, &text)))
    };
    let imports = json!({ "imports": modules.map(import).collect::<Map<_, _>>() });
    let own = json!({ "heads": heads, "contents": contents });
    let scripts = format!(
        "<script>globalThis.flashlabFile = {};</script>\n<script type=\"importmap\">{}</script>\n\
         <script type=\"module\">import 'view/view.js';</script>",
        in_script(&own),
        in_script(&imports),
    );
    let first_state =
        format!("if (!location.hash) history.replaceState(null, '', '#' + {});", in_script(&json!(state)));
    let text = |name: &str| assets::named(name).map_or("", |asset| asset.text);
    let icon = assets::named("icon.svg").map_or(String::new(), |icon| data_address(icon, icon.text));
    let inlined = [
        ("href=\"icon.svg\"", format!("href=\"{icon}\"")),
        ("<link rel=\"stylesheet\" href=\"uPlot.css\">", format!("<style>{}</style>", text("uPlot.css"))),
        ("<link rel=\"stylesheet\" href=\"view.css\">", format!("<style>{}</style>", text("view.css"))),
        ("<script src=\"early.js\"></script>", format!("<script>{}{first_state}</script>", text("early.js"))),
        ("<script src=\"uPlot.js\" defer></script>", format!("<script>{}</script>", text("uPlot.js"))),
        ("<script src=\"view.js\" type=\"module\"></script>", scripts),
    ];
    inlined.into_iter().fold(text("index.html").to_owned(), |page, (linked, inlined)| {
        assert!(page.contains(linked), "index.html has {linked}");
        page.replacen(linked, &inlined, 1)
    })
}

fn data_address(asset: &Asset, text: &str) -> String {
    format!("data:{};base64,{}", asset.media_type().replace(' ', ""), BASE64.encode(text))
}

/// A value between `<script>` and `</script>`, which a name of a run in it must not end.
fn in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_recordings_are_whole_and_the_others_share_the_rest() {
        assert_eq!(shares(vec![60_000, 30_000]), [60_000, 30_000]);
        assert_eq!(shares(vec![1_000_000, 10, 500_000]), [49_995, 10, 49_995]);
        assert_eq!(shares(vec![]), Vec::<usize>::new());
    }
}
