//! What the choice of a plan by noisy bandwidth curves loses against the best plan by the true ones, on devices of the zoo that the rule
//! was not made with.

use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed, median};
use flashlab_device::StoringDevice;
use flashlab_sim::{Profile, ProfileError};

use super::{SortMethod, SortPlan, SortRates, SortTask};
use crate::extent::{ExtentAllocator, Spread};
use crate::machine::{HostTime, Machine};
use crate::record_format::RecordFormat;
use crate::tuning::{BandwidthCurve, ProbeOrder, Tuning};

const SIZES: [Bytes; 5] = [Bytes::kib(4), Bytes::kib(16), Bytes::kib(64), Bytes::kib(256), Bytes::mib(1)];

/// The curves of a device, without noise.
fn measured(name: &str) -> SortRates {
    let no_file = |_: &str| -> Result<String, ProfileError> { unreachable!("the zoo has it") };
    let profile = Profile::named(&name.parse().unwrap(), no_file).unwrap().resized(Bytes::mib(512)).unwrap();
    let device = Box::new(StoringDevice::new(profile.device().unwrap()));
    let mut machine = Machine::new(vec![device], Bytes::mib(16), HostTime::Declared(Nanos(2))).unwrap();
    let mut free = ExtentAllocator::new(&machine);
    let region = free.allocate(Bytes::mib(64), Spread::On(0)).unwrap();
    let writes = BandwidthCurve::measure(&mut machine, &region, Mode::Write, ProbeOrder::Sequential).unwrap();
    let reads =
        BandwidthCurve::measure(&mut machine, &region, Mode::Read, ProbeOrder::Random(Seed(1))).unwrap();
    SortRates { reads, writes }
}

/// The curve as it is measured in five rounds with this scatter: each probe is off by a normal factor, and one of twenty by a half.
fn noisy(curve: &BandwidthCurve, scatter: f64, random: &mut Prng) -> BandwidthCurve {
    BandwidthCurve::through(SIZES.map(|size| {
        let mut probe = || {
            let sum: f64 = (0..12).map(|_| random.unit() - 0.5).sum();
            let disturbed = if random.unit() < 0.05 { 0.5 } else { 1.0 };
            curve.at(size) * disturbed * (scatter * sum).exp()
        };
        let rounds: Vec<f64> = (0..5).map(|_| probe()).collect();
        (size, median(rounds).unwrap_or_default())
    }))
}

#[test]
fn noise_costs_little_on_devices_that_the_rule_was_not_made_with() {
    let format = RecordFormat::new(Bytes(16), 0..8).unwrap();
    let tuning = Tuning { read_window: Bytes::mib(1), write_window: Bytes::mib(1), is_noisy: false };
    let mut random = Prng::new(Seed(50));
    for device in ["cloud-local", "qlc-sata", "emmc", "zeus", "deskstar"] {
        let truth = measured(device);
        for (memories, memory) in [(8, Bytes::mib(32)), (64, Bytes::mib(8))] {
            let task = SortTask {
                format: format.clone(),
                length: memory * memories,
                method: SortMethod::Sorting,
                threads: 2,
                unit: Bytes(512),
                memory,
                tuning,
                stripe: None,
                temporary: Bytes(u64::MAX),
            };
            let cost = |plan: &SortPlan| task.cost(plan, Some(&truth));
            let best = task.plans().iter().map(cost).fold(f64::INFINITY, f64::min);
            let mut losses: Vec<f64> = Vec::new();
            let mut blocks = std::collections::BTreeMap::new();
            for _ in 0..1000 {
                let rates = SortRates {
                    reads: noisy(&truth.reads, 0.2, &mut random),
                    writes: noisy(&truth.writes, 0.2, &mut random),
                };
                let plan = task.plan(Some(&rates)).unwrap();
                losses.push(cost(&plan) / best - 1.0);
                *blocks.entry(plan.block).or_insert(0) += 1;
            }
            losses.sort_by(f64::total_cmp);
            let (median, worst) = (losses[500], losses[990]);
            let what =
                format!("{device}, {memories} memories of {memory}: {median:.3}, {worst:.3}, {blocks:?}");
            println!("{what}");
            assert!(median <= 0.1 && worst < 0.3, "{what}");
        }
    }
}
