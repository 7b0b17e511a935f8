//! What an algorithm would do and take, without running it.
//!
//! # Method
//! 1. A [`CostSource`] says what the devices charge: it measures a part of a device (`measured_costs.rs`), or knows it from a
//!    recorded run.
//! 2. The algorithm is planned as its experiment plans it, and its IOs follow from their formula.
//!
//! # Invariants
//! - No algorithm runs and no input is generated, but for what a source measures on.

use flashlab_base::{Bytes, Nanos};

use super::placement::SequencePlacement;
use super::search_graph::SearchGraph;
use crate::bfs::{SearchIos, SearchTask};
use crate::cost::{AlgorithmIos, CostSizes, DeviceCosts, InFlight};
use crate::error::EmError;
use crate::extent::Spread;
use crate::sort::{ReplayedTimes, SortPlan, SortRates, SortTask};
use crate::tuning::{BandwidthCurve, Tuning};

/// What is known of the devices that an algorithm would run on.
pub trait CostSource {
    /// How many devices there are.
    fn device_count(&self) -> usize;

    /// The memory of the algorithm.
    fn memory(&self) -> Bytes;

    /// The unit of IOs.
    fn unit(&self) -> Bytes;

    /// What computation on an element costs by declaration; zero on a real device.
    fn host_cost(&self) -> Nanos;

    /// What a device charges, by its index.
    ///
    /// # Errors
    /// Those of measuring it; [`EmError::Parameter`] where it is not known.
    fn costs(&mut self, device: usize, sizes: CostSizes) -> Result<DeviceCosts, EmError>;

    /// How much has to be in flight for sequences.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn tuning(&mut self) -> Result<Tuning, EmError>;

    /// How many random reads of this size saturate the device.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn saturation(&mut self, block: Bytes) -> Result<u32, EmError>;

    /// Measures the levels of a search where that is possible, and puts their costs in place of those of other IOs.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn levels(
        &mut self,
        search: (&SearchGraph, &SearchTask),
        ios: &SearchIos,
        costs: &mut [DeviceCosts],
    ) -> Result<(), EmError>;

    /// What a random read of a list takes, in nanoseconds, where that can be measured; `list` has the number of its elements. The costs
    /// are those of other data, which was overwritten meanwhile.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn list_read(&mut self, list: (u64, Spread), block: Bytes) -> Result<Option<f64>, EmError>;

    /// The bandwidths of random reads by size.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn read_curve(&mut self) -> Result<BandwidthCurve, EmError>;

    /// The bandwidths that sorts are planned by, where they are known.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn rates(&mut self) -> Result<Option<SortRates>, EmError>;

    /// The space for the runs of a sort beside its input and output, each of this length.
    ///
    /// # Errors
    /// [`EmError::Space`] where there is none for the input and the output, as a run would say.
    fn space_for_runs(&self, length: Bytes, placement: SequencePlacement) -> Result<Bytes, EmError>;

    /// How long the IOs of a sort take, where they can be issued.
    ///
    /// # Errors
    /// As [`CostSource::costs`].
    fn replay(&mut self, sort: (&SortTask, &SortPlan)) -> Result<Option<ReplayedTimes>, EmError>;
}

/// What an algorithm would do on devices.
#[derive(Clone, Debug)]
pub struct AlgorithmPrediction {
    /// Its IOs.
    pub ios: AlgorithmIos,
    /// The block of the models.
    pub block: Bytes,
    /// What each device charges, by its index.
    pub costs: Vec<DeviceCosts>,
    /// What was chosen: names and values, for people.
    pub choices: Vec<(&'static str, String)>,
}

fn sizes(small: Bytes, in_flight: InFlight) -> CostSizes {
    CostSizes { small, large: small * 4, in_flight }
}

/// What each device of a placement charges.
pub(super) fn costs(
    source: &mut dyn CostSource,
    placement: SequencePlacement,
    (small, in_flight): (Bytes, InFlight),
) -> Result<Vec<DeviceCosts>, EmError> {
    let devices = source.device_count();
    let in_flight = in_flight.shared(placement.data.devices(devices).len());
    (0..devices).map(|device| source.costs(device, sizes(small, in_flight))).collect()
}
