//! A flash device in virtual time: controller, translation layer and flash.
//!
//! # Model
//! A request passes the controller, which asks the translation layer ([`crate::layer`]) to read and
//! write pages, which works on the flash ([`crate::flash`]), whose dies and channels are busy until a time. When a
//! request is submitted its completion time is known; requests in flight overlap as the resources allow. Between
//! requests the layer may collect, fold or refresh, but not before the last request is answered. Noise may delay that answer.
//!
//! # Invariants
//! - a device that was conditioned without times ends in the same state as one that served the same IOs one after
//!   the other;
//! - an IO is served or fails with a reason: a device without a block to write to is read-only from then on.

mod activity;
mod conditioning;
mod controller;
mod limit;
mod read_buffer;
mod state;
mod statistics;
mod write_buffer;

use flashlab_base::{Activity, Bytes, Identity, Nanos};
use flashlab_device::{
    Completion, Conditioning, DataHandling, Device, DisturbanceCounters, Geometry, Health, IoError,
    Operation, Request, Telemetry, VirtualQueue, VirtualTime,
};

use crate::flash::{CAUSES, Counts, Flash, FlashGeometry, LogicalPage, PageContent, PageContents, Resources};
use crate::illegal::Illegal;
use crate::layer::{FrontLayer, Layer};
use crate::noise::NoiseSource;
use crate::profile::{FlashSection, Placement, Profile, translation};
use activity::ActivityLog;
use controller::{Buffers, Controller, Costs, Groups, Options, Pipeline, RequestContext};
use limit::Bucket;

pub use crate::profile::{FlushPolicy, Limit};
pub use conditioning::Conditioned;
pub use state::StateError;
pub use statistics::{Operations, Statistics};

/// A flash device in virtual time. Copies start where the original is.
#[derive(Debug)]
pub struct FlashDevice {
    identity: Identity,
    geometry: Geometry,
    energy: crate::profile::Energy,
    controller: Controller,
    layer: FrontLayer,
    flash: Flash<Resources>,
    counts_media_writes: bool,
    placement: Vec<Placement>,
    limit: Option<Bucket>,
    noise: NoiseSource,
    noisy: bool,
    queue: VirtualQueue,
    fingerprint: u64,
    remembered: Option<Box<Remembered>>,
    /// Only while somebody wants to know.
    activity: Option<Box<ActivityLog>>,
}

/// What decides about the response times to come, at a moment that a measurement wants to return to.
#[derive(Debug)]
struct Remembered {
    controller: Controller,
    layer: FrontLayer,
    flash: Flash<Resources>,
}

impl FlashDevice {
    /// The device that a profile describes, with nothing written to it.
    pub(crate) fn new(profile: &Profile) -> Result<FlashDevice, Illegal> {
        FlashDevice::with_layer(profile, |section, geometry| {
            translation::build(&profile.translation, section, profile.capacity, geometry)
        })
    }

    /// The device that a profile describes, over erased flash, with the layer that `layer` makes for the array.
    fn with_layer(
        profile: &Profile,
        layer: impl FnOnce(&FlashSection, &FlashGeometry) -> Result<FrontLayer, Illegal>,
    ) -> Result<FlashDevice, Illegal> {
        let section = profile.flash.clone().unwrap_or_default();
        let layout = section.geometry(profile.capacity, profile.translation.extra_blocks())?;
        let background = profile.controller.background.map(|background| background.for_dies());
        let data = if section.sees_content() { DataHandling::AffectsTiming } else { DataHandling::Ignored };
        let mut flash = Flash::new(layout, Resources::new(&layout, section.times(), background));
        if data.is_used() {
            let (zeros, ones) = (section.zeros_program_share as f32, section.ones_program_share as f32);
            flash = flash.with_contents(PageContents::new(layout.pages(), zeros, ones));
        }
        if let Some(reliability) = section.reliability {
            flash = flash.with_reliability(reliability);
        }
        let capacity = profile.capacity.round_down(profile.block);
        Ok(FlashDevice {
            identity: profile.identity(),
            geometry: Geometry { capacity, block: profile.block, depth: profile.controller.depth, data },
            energy: section.energy,
            controller: new_controller(profile, &section),
            layer: layer(&section, &layout)?,
            flash,
            counts_media_writes: profile.controller.counts_media_writes,
            placement: profile.controller.placement.clone(),
            limit: profile.controller.limit.map(Bucket::new),
            noise: NoiseSource::new(profile.noise.unwrap_or_default()),
            noisy: profile.noise.is_some(),
            queue: VirtualQueue::new(profile.controller.depth),
            fingerprint: profile.fingerprint(),
            remembered: None,
            activity: None,
        })
    }

    /// The statistics since the device was made.
    pub fn statistics(&self) -> Statistics {
        self.statistics_since(&Counts::default())
    }

    /// The statistics since [`Flash::counts`] were `earlier`. Times count from when the device was made or restored.
    pub fn statistics_since(&self, earlier: &Counts) -> Statistics {
        Statistics::of(&self.flash, &self.controller, &self.energy, self.queue.now(), earlier)
    }

    /// The flash, for a close look.
    pub fn flash(&self) -> &Flash<Resources> {
        &self.flash
    }

    /// Why nothing can be written any more, if that is so.
    pub fn exhausted(&self) -> Option<&str> {
        self.controller.exhausted()
    }

    /// The power fails and returns: what was only in volatile memory is lost. Nothing is in flight.
    pub fn power_cut(&mut self) {
        self.controller.power_cut();
        self.layer.power_cut();
    }

    /// Submits a request with the host's hint for its stream (NVMe flexible data placement: the placement handle).
    pub fn submit_placed(&mut self, request: Request, stream: u16) {
        let now = self.queue.now();
        let arrives = match &mut self.limit {
            Some(bucket) => bucket.admit(request.operation, request.size, now),
            None => now,
        };
        let served = self.serve(&request, stream, arrives);
        let mut completed = served.unwrap_or(arrives);
        if let Some(bucket) = &self.limit {
            completed += bucket.latency();
        }
        if self.noisy {
            completed = now + self.noise.disturbed(completed.since(now).0 as f64);
            self.controller.works_until(completed);
        }
        if let Some(log) = &mut self.activity {
            log.note(self.flash.counts(), now, completed);
        }
        self.queue.push(request, completed, served.map(drop));
    }

    #[inline]
    fn serve(&mut self, request: &Request, stream: u16, now: Nanos) -> Result<Nanos, IoError> {
        if request.operation != Operation::Flush {
            self.geometry.check(request.offset, request.size)?;
        }
        if self.geometry.data.is_used() && request.operation == Operation::Write {
            let page = self.flash.geometry().page().0;
            let length = request.buffer.len().min(request.size.0 as usize);
            let (head, rest) =
                request.buffer[..length].split_at(length.min((page - request.offset.0 % page) as usize));
            let kinds = std::iter::once(head).chain(rest.chunks(page as usize)).map(PageContent::of);
            self.flash.set_host_contents(LogicalPage((request.offset.0 / page) as u32), kinds);
        }
        let FlashDevice { controller, layer, flash, .. } = self;
        let mut context = RequestContext { layer, flash, stream };
        controller.serve(&mut context, request.operation, (request.offset, request.size), now)
    }
}

/// The stream that a host with these hints gives a write.
#[inline]
fn stream_of(placement: &[Placement], offset: Bytes) -> u16 {
    placement.iter().find(|hint| (hint.from..hint.to).contains(&offset)).map_or(0, |hint| hint.stream)
}

fn new_controller(profile: &Profile, flash: &FlashSection) -> Controller {
    let section = &profile.controller;
    let page = flash.page;
    let costs = Costs {
        read_command: section.read_command,
        write_command: section.write_command,
        read_ns_per_byte: section.read_bandwidth.map_or(0.0, |link| link.ns_per_byte()),
        write_ns_per_byte: section.write_bandwidth.map_or(0.0, |link| link.ns_per_byte()),
        write_jump: section.write_jump,
        read_jump: section.read_jump,
        read_switch: section.segment_groups.map_or(Nanos::ZERO, |groups| groups.switch),
        write_switch: section
            .segment_groups
            .map_or(Nanos::ZERO, |groups| groups.write_switch.unwrap_or(groups.switch)),
    };
    let groups =
        section.segment_groups.map(|groups| Groups { count: u64::from(groups.count), span: groups.span });
    let pages = |size: Bytes| (size.0 / page.0) as u32;
    let buffers = Buffers {
        write: section.write_buffer.map(|buffer| (buffer.flush, pages(buffer.size))),
        in_flight: section.write_buffer.and_then(|buffer| buffer.in_flight).map(pages),
        flush_group: section
            .write_buffer
            .and_then(|buffer| buffer.flush_group)
            .map_or(flash.block_pages(), pages),
        read: section.read_buffer.map_or(0, |buffer| pages(buffer.size)),
        read_ahead: section.read_buffer.map_or(0, |buffer| pages(buffer.read_ahead)),
    };
    let options = Options {
        costs,
        groups,
        largest_command: section.largest_command,
        reach: section.jump_reach,
        pipeline: section.pipeline.map(|pipeline| Pipeline {
            read: pipeline.read,
            write: pipeline.write,
            write_ns_per_byte: pipeline.write_bandwidth.map_or(0.0, |bandwidth| bandwidth.ns_per_byte()),
        }),
        reads_behind_writes: section.reads_behind_writes,
        idle_after: section.background.map_or(Nanos::ZERO, |background| background.idle_after),
        idle_sleeps: section.background.is_some_and(|background| !background.while_idle),
    };
    Controller::new(page, profile.block, options, buffers)
}

impl Device for FlashDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn now(&mut self) -> Nanos {
        self.queue.now()
    }

    #[inline]
    fn submit(&mut self, request: Request) {
        let stream = stream_of(&self.placement, request.offset);
        self.submit_placed(request, stream);
    }

    #[inline]
    fn wait(&mut self, until: Nanos) -> Option<Completion> {
        self.queue.wait(until)
    }

    fn virtual_time(&mut self) -> Option<&mut dyn VirtualTime> {
        Some(&mut self.queue)
    }

    fn conditioning(&mut self) -> Option<&mut dyn Conditioning> {
        Some(self)
    }

    fn health(&mut self) -> Option<&mut dyn Health> {
        Some(self)
    }

    fn telemetry(&mut self) -> Option<&mut dyn Telemetry> {
        Some(self)
    }
}

impl Conditioning for FlashDevice {
    fn condition(&mut self, ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>) -> Result<(), IoError> {
        self.serve_without_times(ios)
    }

    fn remember(&mut self) {
        let FlashDevice { controller, layer, flash, .. } = &*self;
        let kept = Remembered { controller: controller.clone(), layer: layer.clone(), flash: flash.clone() };
        self.remembered = Some(Box::new(kept));
    }

    /// The noise goes on: a repetition has the same state and other noise.
    fn recall(&mut self) {
        let Some(kept) = &self.remembered else { return };
        self.controller.clone_from(&kept.controller);
        self.layer.clone_from(&kept.layer);
        self.flash.clone_from(&kept.flash);
    }
}

impl Health for FlashDevice {
    fn loss(&mut self) -> Option<String> {
        None
    }

    fn refusal(&mut self) -> Option<String> {
        self.exhausted().map(|reason| format!("takes no writes any more, because {reason}"))
    }
}

impl Telemetry for FlashDevice {
    fn media_written(&mut self) -> Option<Bytes> {
        self.counts_media_writes.then(|| self.programmed()).flatten()
    }

    fn programmed(&mut self) -> Option<Bytes> {
        let pages = CAUSES.map(|cause| self.flash.counts().pages_programmed(cause)).iter().sum::<u64>();
        Some(self.flash.geometry().page() * pages)
    }

    fn erased(&mut self) -> Option<Bytes> {
        let (counts, layout) = (self.flash.counts(), self.flash.geometry());
        Some(layout.page() * (counts.erases() * u64::from(layout.pages_per_block())))
    }

    fn note_activity(&mut self) {
        self.activity = Some(Box::new(ActivityLog::new(self.flash.counts())));
    }

    fn take_activity(&mut self, most: usize) -> Vec<Activity> {
        self.activity.as_mut().map_or(Vec::new(), |log| log.take(most))
    }

    /// Nothing else uses a simulated device.
    fn disturbance(&mut self) -> DisturbanceCounters {
        DisturbanceCounters::default()
    }
}
