//! Random drives of today: a write buffer of 0 to 256 MiB, an SLC cache of 0 to 20 %, a page map or a demand map, background work or none.
//!
//! # Invariants
//! - A drive follows from its seed alone.
//! - Its parts fit together: what the simulator refuses is drawn again.

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_sim::Profile;

/// The drive of a seed.
pub fn drive(seed: u64) -> Profile {
    (0..).find_map(|attempt| legal(&text(seed, attempt))).expect("there is always another draw")
}

fn legal(text: &str) -> Option<Profile> {
    let profile = Profile::parse(text, "a random drive").ok()?;
    profile.device().ok()?;
    Some(profile)
}

struct Draw(Prng);

impl Draw {
    fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    fn uniform(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.unit()
    }

    fn logarithmic(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.0.unit())
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize]
    }
}

/// The profile of a drive, as its file would be.
fn text(seed: u64, attempt: u64) -> String {
    let mut draw = Draw(Prng::new(Seed(seed).derive("drive of today", attempt)));
    let capacity = Bytes::mib(draw.of(&[1024, 2048]));
    let dies = draw.of(&[8, 16, 16, 32]);
    let planes = draw.of(&[1, 2, 4]);
    let pages = draw.of(&[64, 64, 128]);
    let program_us = draw.logarithmic(200.0, 2000.0) as u64;
    let read_us = draw.logarithmic(25.0, 90.0) as u64;
    let mut text = format!(
        "version = 2\nname = \"hidden\"\ntitle = \"hidden\"\nsource = \"random\"\nfit = \"none\"\ncapacity = \"{}\"\n[flash]\n\
         page = \"4KiB\"\npages_per_block = {pages}\nplanes = {planes}\ngathers_multi_plane_pages = {}\ndies = {dies}\nchannels = {}\n\
         over_provisioning = {:.3}\nread = \"{read_us}us\"\nprogram = \"{program_us}us\"\nerase = \"{}us\"\nchannel_bandwidth = \"{}MB/s\"\n",
        capacity.exact(),
        planes > 1 && draw.chance(0.5),
        dies / draw.of(&[1, 2, 4]),
        draw.uniform(0.07, 0.35),
        draw.uniform(2000.0, 6000.0) as u64,
        draw.logarithmic(400.0, 2400.0) as u64,
    );
    if draw.chance(0.4) {
        let size = Bytes((capacity.0 as f64 * draw.uniform(0.02, 0.2)) as u64).round_up(Bytes::mib(1));
        let program = (program_us as f64 * draw.uniform(0.15, 0.35)) as u64;
        text += &format!(
            "[flash.slc_cache]\nsize = \"{}\"\nread = \"{}us\"\nprogram = \"{program}us\"\nerase = \"2ms\"\n",
            size.exact(),
            read_us * 3 / 4
        );
        if draw.chance(0.4) {
            let reclaim = Bytes((size.0 as f64 * draw.uniform(0.2, 0.7)) as u64).round_up(Bytes::mib(1));
            text += &format!("idle_reclaim = \"{}\"\n", reclaim.exact());
        }
    }
    text += &format!(
        "[controller]\nread_command = \"{:.1}us\"\nwrite_command = \"{:.1}us\"\nread_bandwidth = \"{}MB/s\"\nwrite_bandwidth = \"{}MB/s\"\ndepth = 64\n",
        draw.uniform(1.0, 10.0),
        draw.uniform(1.0, 10.0),
        draw.logarithmic(500.0, 7000.0) as u64,
        draw.logarithmic(500.0, 5000.0) as u64,
    );
    if draw.chance(0.8) {
        let size = Bytes(draw.logarithmic(1024.0, 262_144.0) as u64 * 1024).min(Bytes(capacity.0 / 8));
        text += &format!("write_buffer = {{ size = \"{}\" }}\n", size.round_down(Bytes::kib(64)).exact());
    }
    if draw.chance(0.4) {
        text += &format!(
            "background = {{ idle_after = \"{}ms\", slice = \"1ms\", read_slice = \"0ns\", max_backlog = {} }}\n",
            draw.of(&[1, 10, 100]),
            draw.of(&[8, 32, 64])
        );
    }
    if draw.chance(0.3) {
        let entries = capacity.0 / 4096 / draw.of(&[2, 5, 10]);
        text += &format!("[translation.demand_map]\ncached_entries = {entries}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_drive_and_the_drives_have_all_parts() {
        let drives: Vec<Profile> = (0..60).map(drive).collect();
        assert_eq!(drive(7).to_toml(), drives[7].to_toml());
        let count = |has: &dyn Fn(&Profile) -> bool| drives.iter().filter(|profile| has(profile)).count();
        let cached = count(&|profile| profile.flash.as_ref().is_some_and(|flash| flash.slc_cache.is_some()));
        let buffered = count(&|profile| profile.controller.write_buffer.is_some());
        assert!((10..40).contains(&cached), "{cached} of 60 have an SLC cache");
        assert!((35..60).contains(&buffered), "{buffered} of 60 have a write buffer");
    }
}
