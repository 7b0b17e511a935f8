//! Machines on simulated devices that store data.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Device, StoringDevice};
use flashlab_em::{HostTime, Machine};
use flashlab_sim::{Profile, ProfileError};

/// A device of the zoo with this capacity, which stores data.
pub fn device(name: &str, capacity: Bytes) -> Box<dyn Device> {
    let in_no_file = |_: &str| -> Result<String, ProfileError> { unreachable!("the zoo has it") };
    let profile = Profile::named(&name.parse().unwrap(), in_no_file).unwrap();
    let profile = profile.resized(capacity).unwrap();
    Box::new(StoringDevice::new(profile.device().unwrap()))
}

/// A machine on one device of the zoo. Each element costs 2 ns.
pub fn machine(name: &str, capacity: Bytes, memory: Bytes) -> Machine<'static> {
    Machine::new(vec![device(name, capacity)], memory, HostTime::Declared(Nanos(2))).unwrap()
}
