//! Random arrays of flash with random ways of keeping time.

use flashlab_base::{Bytes, Nanos};
use flashlab_sim::flash::{Background, CellTimes, FlashGeometry, PageTimes, Resources, Times};
use proptest::prelude::*;

/// An array of flash, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Array {
    pub dies: u32,
    pub planes: u32,
    pub multi_plane_pages: u32,
    pub blocks_per_die: u32,
    pub cache_mode: bool,
    pub copy_back: bool,
    /// How many merges a die may defer.
    pub max_backlog: Option<usize>,
}

impl Array {
    pub fn geometry(&self) -> FlashGeometry {
        let (blocks, pages) = (self.dies * self.blocks_per_die, self.planes * self.multi_plane_pages);
        FlashGeometry::new(Bytes::kib(4), pages, self.planes, blocks, self.dies, self.dies.div_ceil(2))
            .unwrap()
    }

    pub fn resources(&self) -> Resources {
        let micros = |micros: u64| Nanos(1000 * micros);
        let cells = CellTimes {
            read: PageTimes::new(&[micros(50)]),
            program: PageTimes::new(&[micros(300), micros(900)]),
            erase: micros(2000),
        };
        let times = Times {
            command: micros(1),
            transfer: micros(40),
            register_move: micros(2),
            cache_mode: self.cache_mode,
            copy_back: self.copy_back,
            cells,
            slc_cells: cells,
            ..Times::default()
        };
        let background = self.max_backlog.map(|max_backlog| Background {
            idle_after: micros(100),
            slice: micros(200),
            read_slice: micros(200),
            max_backlog,
        });
        Resources::new(&self.geometry(), times, background)
    }
}

prop_compose! {
    pub fn any_array()(
        dies in 1u32..4,
        planes in 1u32..3,
        multi_plane_pages in 2u32..7,
        blocks_per_die in 6u32..13,
        cache_mode: bool,
        copy_back: bool,
        max_backlog in prop::option::of(1usize..4),
    ) -> Array {
        Array { dies, planes, multi_plane_pages, blocks_per_die, cache_mode, copy_back, max_backlog }
    }
}
