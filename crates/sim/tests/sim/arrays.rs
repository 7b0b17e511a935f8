//! Times for the arrays of these tests.

use flashlab_base::Nanos;
use flashlab_sim::flash::{CellTimes, FlashGeometry, PageTimes, Resources, Times};

/// 50 us to read a page, 500 us to program it, 2 ms to erase a block, 10 us to transfer a page; SLC cells
/// take 20 us, 100 us and 1 ms.
pub fn times() -> Times {
    let cells = |read, program, erase| CellTimes {
        read: PageTimes::new(&[Nanos::from_micros(read)]),
        program: PageTimes::new(&[Nanos::from_micros(program)]),
        erase: Nanos::from_micros(erase),
    };
    Times {
        transfer: Nanos::from_micros(10),
        cells: cells(50, 500, 2000),
        slc_cells: cells(20, 100, 1000),
        ..Times::default()
    }
}

/// The resources of an array with these times, all work in the foreground.
pub fn resources(geometry: &FlashGeometry) -> Resources {
    Resources::new(geometry, times(), None)
}
