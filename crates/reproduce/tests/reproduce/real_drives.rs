//! Some rows of a real drive against its model: `flashlab reproduce ssd-iq` has all of them, and takes minutes.

use flashlab_base::Seed;
use flashlab_reproduce::{DriveRows, Quantity, judge};

const STEADY: &str = "drive,workload,parameters,file_gib,written_gib,steady_mib_s,use\n\
    SK Hynix PE8110 960 GB,sequential,,894,892,1724.4,fit\n\
    SK Hynix PE8110 960 GB,uniform,,894,2700,326.7,fit\n";
const LATENCY: &str = "drive,offered_per_s,writes_per_s,read_p50_us,read_p99_us,write_p50_us,write_p99_us,use\n\
    SK Hynix PE8110 960 GB,40000,39650,71.0,411.0,10,13,fit\n";

#[test]
fn a_model_has_the_rates_and_the_reads_of_its_drive() {
    let mut rows = DriveRows::default();
    rows.add("steady.csv", STEADY).unwrap();
    rows.add("latency.csv", LATENCY).unwrap();
    let comparisons = judge(&rows, Seed(1)).unwrap();
    assert_eq!(comparisons.len(), 6);
    for one in &comparisons {
        let goal = match one.quantity {
            Quantity::SteadyRate => 0.05,
            Quantity::ReadP50 => 0.15,
            Quantity::ReadP99 => 0.3,
            _ => 1.0,
        };
        assert!(one.difference().abs() < goal, "{one:?}");
    }
}
