//! The flash and the controller of a random device.

use flashlab_base::{Bytes, Nanos};
use flashlab_sim::flash_device::FlushPolicy;
use flashlab_sim::profile::{
    BackgroundSection, Bandwidth, ControllerSection, FlashSection, PerPage, ReadBufferSection, SegmentGroups,
    SlcCacheSection, WriteBufferSection,
};

use super::draw::Draw;
use super::{Class, DeviceFamily};

/// The time to read one page from the flash, without command and link.
pub fn page_read(flash: &FlashSection) -> Nanos {
    flash.command + shortest(&flash.read) + flash.channel_bandwidth.time(flash.page)
}

fn scaled(time: Nanos, factor: f64) -> Nanos {
    Nanos((time.0 as f64 * factor) as u64)
}

fn shortest(times: &PerPage) -> Nanos {
    match times {
        PerPage::All(time) => *time,
        PerPage::Alternating(times) => times.iter().copied().min().unwrap_or_default(),
    }
}

pub fn flash(
    draw: &mut Draw,
    class: Class,
    family: DeviceFamily,
    capacity: Bytes,
    block: Bytes,
) -> FlashSection {
    let page = Bytes::kib(match class {
        Class::Stick => draw.of(&[2, 4, 4, 8, 16]),
        Class::Sata | Class::Nvme | Class::Modern => draw.of(&[4, 4, 8, 8, 16]),
    });
    let planes = match class {
        Class::Modern => draw.weighted(&[(1, 2), (4, 4), (1, 6), (4, 8), (1, 16)]),
        _ => draw.weighted(&[(5, 1), (4, 2), (2, 4)]),
    };
    let dies = match class {
        Class::Stick => draw.of(&[1, 1, 1, 2, 2, 4]),
        Class::Sata => draw.of(&[2, 3, 4, 4, 6, 8, 8, 12, 16]),
        Class::Nvme => draw.of(&[4, 8, 8, 12, 16, 16]),
        Class::Modern => draw.of(&[2, 4, 8, 16, 16, 24, 32, 64]),
    };
    let divisors: Vec<u32> = (1..=dies).filter(|channels| dies % channels == 0).collect();
    let channels = draw.of(&divisors);
    // Enough blocks per die that over-provisioning is only a part of them.
    let die = capacity.0 / u64::from(dies);
    let fits = |pages: &u32| u64::from(*pages) * u64::from(planes) * page.0.max(block.0) * 24 <= die;
    let all = [16, 24, 32, 48, 64, 64, 96, 128, 128, 192, 256, 256, 320, 384, 512];
    let pages: Vec<u32> = all.into_iter().filter(fits).collect();
    let pages_per_block = if pages.is_empty() { 16 } else { draw.of(&pages) };
    let (read, program, channel) = match class {
        Class::Stick => (draw.micros(25.0, 120.0), draw.micros(200.0, 1000.0), draw.bandwidth(25.0, 60.0)),
        Class::Sata => (draw.micros(25.0, 90.0), draw.micros(200.0, 1300.0), draw.bandwidth(60.0, 400.0)),
        Class::Nvme => (draw.micros(15.0, 60.0), draw.micros(150.0, 900.0), draw.bandwidth(300.0, 1200.0)),
        Class::Modern => {
            (draw.micros(30.0, 100.0), draw.micros(300.0, 2000.0), draw.bandwidth(400.0, 2400.0))
        }
    };
    let program = if draw.chance(0.2) {
        PerPage::Alternating(vec![program, Nanos((program.0 as f64 * draw.uniform(1.5, 4.0)) as u64)])
    } else {
        PerPage::All(program)
    };
    let read = match class {
        // Each further bit of a cell takes longer.
        Class::Modern if draw.chance(0.6) => {
            let more = draw.uniform(0.1, 0.25);
            let bits = draw.of(&[2, 3, 3, 4]);
            PerPage::Alternating((0..bits).map(|bit| scaled(read, 1.0 + more * f64::from(bit))).collect())
        }
        _ => PerPage::All(read),
    };
    let sees_content = draw.chance(0.25);
    FlashSection {
        page,
        pages_per_block,
        planes,
        dies,
        channels,
        over_provisioning: (draw.uniform(0.07, 0.35) * 1000.0).round() / 1000.0,
        read,
        program,
        erase: draw.micros(1500.0, 6000.0),
        channel_bandwidth: channel,
        cache_mode: draw.chance(0.2),
        gathers_multi_plane_pages: planes > 1 && draw.chance(0.5),
        copy_back: !family.maps_pages() && draw.chance(0.3),
        zeros_program_share: if sees_content { draw.share(0.05, 0.9) } else { 1.0 },
        ones_program_share: if sees_content { draw.share(0.05, 1.0) } else { 1.0 },
        slc_cache: None,
        ..FlashSection::default()
    }
    .with_slc_cache(draw, family, capacity)
}

trait WithSlcCache {
    fn with_slc_cache(self, draw: &mut Draw, family: DeviceFamily, capacity: Bytes) -> FlashSection;
}

impl WithSlcCache for FlashSection {
    /// A fifth of the devices with a page map have an SLC cache.
    fn with_slc_cache(self, draw: &mut Draw, family: DeviceFamily, capacity: Bytes) -> FlashSection {
        if !family.maps_pages() || !draw.chance(0.2) {
            return self;
        }
        let (read, program) = (shortest(&self.read), self.program.longest());
        let size = Bytes((capacity.0 as f64 * draw.uniform(0.04, 0.15)) as u64).round_up(self.page);
        let refill = draw
            .chance(0.3)
            .then(|| Bytes((size.0 as f64 * draw.uniform(0.2, 0.7)) as u64).round_up(self.page));
        let fast = SlcCacheSection {
            size,
            read: PerPage::All(scaled(read, draw.uniform(0.6, 0.9))),
            program: PerPage::All(scaled(program, draw.uniform(0.15, 0.35))),
            erase: self.erase,
            bypass_from: None,
            idle_reclaim: refill,
        };
        FlashSection { slc_cache: Some(fast), ..self }
    }
}

pub fn controller(
    draw: &mut Draw,
    class: Class,
    family: DeviceFamily,
    flash: &FlashSection,
    capacity: Bytes,
) -> ControllerSection {
    let read = page_read(flash);
    let (read_command, write_command, depth) = match class {
        Class::Stick => (draw.micros(80.0, 400.0), draw.micros(80.0, 500.0), draw.of(&[1, 1, 2])),
        Class::Sata => (draw.micros(15.0, 80.0), draw.micros(15.0, 80.0), 32),
        Class::Nvme => (draw.micros(2.0, 8.0), draw.micros(2.0, 8.0), draw.of(&[64, 128, 256])),
        Class::Modern => (draw.micros(1.0, 10.0), draw.micros(1.0, 10.0), draw.of(&[32, 128, 1024])),
    };
    let (down, up) = match class {
        Class::Stick => (draw.bandwidth(18.0, 40.0), draw.bandwidth(12.0, 40.0)),
        Class::Sata => (draw.bandwidth(150.0, 540.0), draw.bandwidth(100.0, 500.0)),
        Class::Nvme => (draw.bandwidth(1500.0, 7000.0), draw.bandwidth(1000.0, 5000.0)),
        Class::Modern => (draw.bandwidth(500.0, 14000.0), draw.bandwidth(400.0, 10000.0)),
    };
    // The transfer of a page over the link takes no longer than the flash needs to read it.
    let least = (flash.page.0 as f64 / read.as_secs_f64()).ceil() as u64;
    let at_least = |link: Bandwidth| Some(Bandwidth(Bytes(link.0.0.max(least))));
    let jumps = draw.chance(0.2);
    let write_buffer = write_buffer(draw, class, flash, capacity);
    let read_buffer = draw.chance(0.35).then(|| read_buffer(draw, class, flash));
    ControllerSection {
        read_command: read_command.min(read),
        write_command,
        read_jump: if jumps { Nanos(read.0 / draw.between(4, 20)) } else { Nanos::ZERO },
        write_jump: match class {
            _ if !jumps => Nanos::ZERO,
            Class::Modern => draw.micros(1.0, 20.0),
            _ => draw.micros(5.0, 300.0),
        },
        read_bandwidth: at_least(down),
        write_bandwidth: at_least(up),
        depth,
        write_buffer,
        read_buffer,
        segment_groups: draw.chance(0.2).then(|| segment_groups(draw, read, capacity)),
        background: background(draw, family, flash),
        ..ControllerSection::default()
    }
}

fn write_buffer(
    draw: &mut Draw,
    class: Class,
    flash: &FlashSection,
    capacity: Bytes,
) -> Option<WriteBufferSection> {
    let (share, most) = match class {
        Class::Stick => (0.2, 256e3),
        Class::Sata => (0.6, 4e6),
        Class::Nvme => (0.8, 16e6),
        Class::Modern => (0.9, 64e6),
    };
    if !draw.chance(share) {
        return None;
    }
    let most = f64::min(most, capacity.0 as f64 / 100.0);
    let size = draw.logarithmic(flash.page.0 as f64 * 8.0, most.max(flash.page.0 as f64 * 16.0));
    let flush = draw.weighted(&[(2, FlushPolicy::Immediately), (1, FlushPolicy::WhenFull)]);
    Some(WriteBufferSection {
        size: Bytes(size as u64).round_down(flash.page * 2),
        flush,
        flush_group: None,
        in_flight: None,
    })
}

fn read_buffer(draw: &mut Draw, class: Class, flash: &FlashSection) -> ReadBufferSection {
    let most = if class == Class::Stick { 64 } else { 512 };
    let pages = draw.logarithmic(4.0, f64::from(most)) as u64;
    let ahead = if draw.chance(0.6) { draw.between(1, pages / 2) } else { 0 };
    ReadBufferSection { size: flash.page * pages, read_ahead: flash.page * ahead }
}

/// Several groups, all of which the addresses reach, and each more than once if requested.
fn segment_groups(draw: &mut Draw, read: Nanos, capacity: Bytes) -> SegmentGroups {
    let count = draw.of(&[2, 3, 4, 4, 6, 8]);
    let turns = draw.of(&[1, 1, 2, 4, 16]);
    let span = Bytes(capacity.0 / (u64::from(count) * turns)).round_down(Bytes::mib(1)).0.max(1 << 20);
    let switch = Nanos((read.0 as f64 * draw.uniform(0.3, 2.0)) as u64);
    let write_switch = draw.chance(0.3).then(|| switch * draw.between(2, 10));
    SegmentGroups { count, span: Bytes(span), switch, write_switch }
}

/// Deferred merges; with an SLC cache, the time after which it is folded.
fn background(draw: &mut Draw, family: DeviceFamily, flash: &FlashSection) -> Option<BackgroundSection> {
    let idle_after = draw.micros(1000.0, 200_000.0);
    if flash.slc_cache.is_some() {
        return Some(BackgroundSection {
            idle_after,
            slice: Nanos::ZERO,
            read_slice: None,
            while_idle: true,
            max_backlog: 0,
        });
    }
    if family.maps_pages() || !draw.chance(0.35) {
        return None;
    }
    let slice = draw.micros(100.0, 2000.0);
    Some(BackgroundSection {
        idle_after,
        slice,
        read_slice: None,
        while_idle: draw.chance(0.8),
        max_backlog: draw.between(1, 24) as u32,
    })
}
