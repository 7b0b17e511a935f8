//! What a wrapper passes on: everything, unless it intercepts it.

use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{
    Buffer, CompleteDevice, Device, FaultyDevice, InjectedFault, IoError, MemoryDevice, Request,
};

const ALL: [&str; 5] = ["virtual_time", "conditioning", "parallel", "health", "telemetry"];

fn memory() -> MemoryDevice {
    MemoryDevice::new(Bytes::kib(64), Nanos(100))
}

fn complete() -> CompleteDevice {
    CompleteDevice::new(memory())
}

fn read(tag: u64) -> Request {
    let (operation, offset, size) = (Operation::Read, Bytes::ZERO, Bytes(512));
    Request { tag, operation, offset, size, buffer: Buffer::empty() }
}

/// A wrapper that overrides nothing.
struct Transparent<D>(D);

impl<D: Device> flashlab_device::Wrapper for Transparent<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.0
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.0
    }
}

/// Calls every method of a device in front of a [`CompleteDevice`].
fn assert_forwards_everything(device: &mut dyn Device) {
    assert_eq!(device.geometry(), memory().geometry());
    assert_eq!(device.identity(), memory().identity());
    assert_eq!(CompleteDevice::capabilities(device), ALL);

    device.submit(read(1));
    assert!(device.wait(Nanos(40)).is_none());
    assert_eq!(device.now(), Nanos(40));
    let done = device.virtual_time().unwrap().next_completion().unwrap();
    assert_eq!((done.tag, done.completed), (1, Nanos(100)));
    assert_eq!(device.now(), Nanos(40));

    let outside = (Operation::Write, Bytes::kib(64), Bytes(512));
    let conditioned = device.conditioning().unwrap().condition(&mut [outside].into_iter());
    assert_eq!(conditioned, Err(IoError::OUT_OF_RANGE));
    assert_eq!(device.parallel().unwrap().lanes(3).unwrap().len(), 3);
    let health = device.health().unwrap();
    assert_eq!(health.loss().as_deref(), Some(CompleteDevice::LOSS));
    assert_eq!(health.refusal().as_deref(), Some(CompleteDevice::REFUSAL));
    let telemetry = device.telemetry().unwrap();
    assert_eq!(telemetry.media_written(), Some(CompleteDevice::MEDIA_WRITTEN));
    assert_eq!(telemetry.disturbance().device_traffic, Some(CompleteDevice::DEVICE_TRAFFIC));
}

#[test]
fn a_wrapper_that_overrides_nothing_forwards_everything() {
    assert_forwards_everything(&mut complete());
    assert_forwards_everything(&mut Transparent(complete()));
    assert_forwards_everything(&mut Transparent(Transparent(complete())));
    // A box and a borrow are wrappers as well.
    let boxed: Box<dyn Device> = Box::new(complete());
    assert_forwards_everything(&mut Transparent(boxed));
    assert_forwards_everything(&mut Transparent(&mut complete()));
}

#[test]
fn a_wrapper_adds_no_capability() {
    assert_eq!(CompleteDevice::capabilities(&mut Transparent(memory())), ["virtual_time"]);
    let fault = InjectedFault::GoneFrom(0);
    let virtual_time = CompleteDevice::capabilities(&mut FaultyDevice::new(memory(), fault));
    assert_eq!(virtual_time, ["virtual_time"]);
}

#[test]
fn a_fault_injector_lets_no_completion_bypass_the_fault() {
    let mut device = FaultyDevice::new(complete(), InjectedFault::Nth(1, IoError::IO));
    // Lanes would bypass it, so there are none.
    let capabilities: Vec<&str> = ALL.into_iter().filter(|&name| name != "parallel").collect();
    assert_eq!(CompleteDevice::capabilities(&mut device), capabilities);

    for tag in 0..3 {
        device.submit(read(tag));
    }
    assert_eq!(device.wait(Nanos::MAX).unwrap().result, Ok(()));
    let early = device.virtual_time().unwrap().next_completion().unwrap();
    assert_eq!(early.result, Err(IoError::IO));
    assert_eq!(device.wait(Nanos::MAX).unwrap().result, Ok(()));
    assert_eq!(device.health().unwrap().loss().as_deref(), Some(CompleteDevice::LOSS));
    assert_eq!(device.telemetry().unwrap().media_written(), Some(CompleteDevice::MEDIA_WRITTEN));
}
