//! Bringing a device into a state without computing times.
//!
//! # Model
//! IOs are served in their order by the code that serves all IOs, over flash that takes no time. The map of a large device
//! is far larger than the CPU's caches, and cache misses would take most of the time. So the tables' entries for many IOs
//! are prefetched at once.
//!
//! A device under random writes is steady when its write amplification no longer changes. Before that, write
//! amplification oscillates: at first most blocks have about the same number of valid pages, and are collected at about
//! the same time.
//!
//! # Method
//! 1. Writes are counted in windows of an eighth of the capacity, and of 256 blocks at least, because garbage collection
//!    works by the block.
//! 2. The device is steady when the write amplifications of three consecutive windows agree, and each window erases as many
//!    pages as it programs. Without the second condition, a device with never-written blocks would be steady at 1.
//!
//! # Invariants
//! - prefetching changes nothing: the state is that of a device that served the IOs one by one.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};

use super::controller::RequestContext;
use super::{FlashDevice, stream_of};
use crate::flash::{Cause, Counts, LogicalPage};
use crate::layer::Layer;

/// The number of IOs, and about that of pages, that are prefetched together.
const LOOK_AHEAD: usize = 64;
/// The number of windows in the capacity of a large device.
const WINDOWS: u64 = 8;
/// The fewest writes in a window, in blocks: fewer collections give a write amplification that varies by chance.
const LEAST_BLOCKS: u64 = 256;
/// The number of consecutive windows that have to agree.
const AGREEING: usize = 3;
/// The largest difference of their write amplifications, as a share of the larger one.
const TOLERANCE: f64 = 0.01;

/// The result of conditioning a device until it is steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditioned {
    /// The bytes that were written.
    pub written: Bytes,
    /// The pages programmed for each page of the host, in the last windows; `None` if the host wrote none.
    pub write_amplification: Option<f64>,
    /// Whether these windows agree. If not, the IOs ended too early.
    pub steady: bool,
}

impl FlashDevice {
    /// Serves IOs without times until the device is steady, or the IOs end. It is steady when the write amplifications
    /// of three consecutive windows, each an eighth of the capacity in writes and at least 256 blocks, lie within 1 %.
    ///
    /// # Errors
    /// That of the first IO that fails; those before it were served.
    pub fn condition_until_steady(
        &mut self,
        ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>,
    ) -> Result<Conditioned, IoError> {
        let layout = self.flash.geometry();
        let block = layout.page().0 * u64::from(layout.pages_per_block());
        let window = (self.geometry.capacity.0 / WINDOWS).max(LEAST_BLOCKS * block);
        let mut ios = ios.fuse().peekable();
        let (mut written, mut before) = (0, vec![self.flash.counts().clone()]);
        loop {
            let end = written + window;
            let mut part = std::iter::from_fn(|| {
                let (operation, _, size) = *ios.peek().filter(|_| written < end)?;
                if operation == Operation::Write {
                    written += size.0;
                }
                ios.next()
            });
            self.serve_without_times(&mut part)?;
            before.push(self.flash.counts().clone());
            before.drain(..before.len().saturating_sub(AGREEING + 1));
            let steady = before.len() == AGREEING + 1 && self.agree(&before);
            if steady || ios.peek().is_none() {
                let since = self.flash.counts().since(&before[0]);
                let write_amplification = since.write_amplification();
                return Ok(Conditioned { written: Bytes(written), write_amplification, steady });
            }
        }
    }

    /// Whether the windows between these counts have the same write amplification, and each erased what it programmed.
    fn agree(&self, counts: &[Counts]) -> bool {
        let pages = u64::from(self.flash.geometry().pages_per_block());
        let agree = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * a.max(b);
        let windows: Vec<Counts> = counts.windows(2).map(|two| two[1].since(&two[0])).collect();
        let amplifications = windows.iter().filter_map(Counts::write_amplification);
        let (least, most) = amplifications.fold((f64::MAX, 0.0), |(a, b), x| (x.min(a), x.max(b)));
        windows.iter().all(|window| window.pages_programmed(Cause::Host) > 0)
            && windows.iter().all(|window| agree((window.erases() * pages) as f64, window.programs() as f64))
            && agree(least, most)
    }

    /// Serves IOs as if nothing took time.
    ///
    /// # Errors
    /// That of the first IO that fails; those before it were served.
    pub(super) fn serve_without_times(
        &mut self,
        ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>,
    ) -> Result<(), IoError> {
        let costs = std::mem::take(&mut self.controller.options.costs);
        let pipeline = self.controller.options.pipeline.take();
        let FlashDevice { controller, layer, flash, geometry, placement, .. } = self;
        let served = flash.without_times(|flash| {
            if geometry.data.is_used() {
                flash.set_host_contents(LogicalPage(0), std::iter::empty());
            }
            let page = flash.geometry().page();
            let mut ios = ios.fuse();
            let mut batch = Vec::with_capacity(LOOK_AHEAD);
            let mut pages = Vec::with_capacity(2 * LOOK_AHEAD);
            loop {
                batch.clear();
                pages.clear();
                let mut wrong = Ok(());
                while batch.len() < LOOK_AHEAD
                    && pages.len() < LOOK_AHEAD
                    && let Some(io) = ios.next()
                {
                    let (operation, offset, size) = io;
                    if operation != Operation::Flush {
                        wrong = geometry.check(offset, size);
                        if wrong.is_err() {
                            break;
                        }
                        pages.extend(first_pages(offset, size, page));
                    }
                    batch.push(io);
                }
                std::hint::black_box(layer.prefetch(flash.geometry(), &pages));
                for &(operation, offset, size) in &batch {
                    let mut context = RequestContext { layer, flash, stream: stream_of(placement, offset) };
                    controller.serve(&mut context, operation, (offset, size), Nanos::ZERO)?;
                }
                wrong?;
                if batch.is_empty() {
                    return Ok(());
                }
            }
        });
        self.controller.options.costs = costs;
        self.controller.options.pipeline = pipeline;
        served
    }
}

/// The pages of an IO, up to the number that is prefetched.
#[inline]
fn first_pages(offset: Bytes, size: Bytes, page: Bytes) -> impl Iterator<Item = LogicalPage> {
    // A page is a power of two.
    let shift = page.0.trailing_zeros();
    let (first, last) = ((offset.0 >> shift) as u32, ((offset.0 + size.0 - 1) >> shift) as u32);
    (first..=last.min(first + LOOK_AHEAD as u32 - 1)).map(LogicalPage)
}
