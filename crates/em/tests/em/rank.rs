//! List ranking: a random list is written, ranked with little memory, and every rank is compared with the list's order.

use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::MemoryDevice;
use flashlab_em::rank::{ListOrder, StoredList, rank_by_contraction, rank_by_hopping};
use flashlab_em::records::Workspace;
use flashlab_em::{EmError, ExtentAllocator, HostTime, Machine, Spread};

fn on_a_device(memory: Bytes, test: impl FnOnce(&mut Workspace<'_, '_>)) {
    let device = MemoryDevice::new(Bytes::mib(16), Nanos(1000));
    let mut machine = Machine::new(vec![Box::new(device)], memory, HostTime::Declared(Nanos(2))).unwrap();
    let space = ExtentAllocator::new(&machine);
    test(&mut Workspace { machine: &mut machine, space, block: Bytes::kib(4), ahead: 1 });
}

#[test]
fn contraction_gives_every_element_its_rank() {
    for (count, memory) in [(1, 256), (2, 256), (5000, 256), (60_000, 256), (60_000, 2048)] {
        let list = ListOrder::new(count, Seed(count)).unwrap();
        on_a_device(Bytes::kib(memory), |workspace| {
            let stored = StoredList::write(workspace, &list, Spread::On(0)).unwrap();
            let ranking = rank_by_contraction(workspace, &stored, Spread::On(0), Seed(3)).unwrap();
            // A quarter goes in each round, until 2048 elements, or 16,384, are left.
            let expected =
                if memory == 256 { (count as f64 / 2048.0).max(1.0) } else { count as f64 / 16_384.0 };
            let rounds = (expected.ln() / (4.0f64 / 3.0).ln()).ceil();
            assert!((f64::from(ranking.rounds) - rounds).abs() <= 1.0, "{count}: {} rounds", ranking.rounds);
            let mut ranks = workspace.read(&ranking.ranks).unwrap();
            for element in 0..count {
                let rank = ranks.next(workspace.machine).unwrap().unwrap();
                assert_eq!(u64::from(rank), list.rank(element), "element {element} of {count}");
            }
            assert_eq!(ranks.next(workspace.machine).unwrap(), None);
            drop(ranks);
            let budget = workspace.machine.budget();
            assert_eq!(budget.left(), budget.limit());
        });
    }
}

#[test]
fn hopping_reads_once_for_each_element() {
    let list = ListOrder::new(20_000, Seed(9)).unwrap();
    on_a_device(Bytes::kib(64), |workspace| {
        let stored = StoredList::write(workspace, &list, Spread::On(0)).unwrap();
        let mut see = |element, rank| match list.rank(element) == rank {
            true => Ok(()),
            false => Err(EmError::Wrong(format!("element {element} has not rank {rank}"))),
        };
        workspace.machine.begin_phase("hop");
        let hops = rank_by_hopping(workspace, &stored, Bytes(512), u64::MAX, &mut see).unwrap();
        assert_eq!((hops.visited, hops.is_at_end), (20_000, true));
        // A list of 313 blocks: one hop in 313 stays within the block.
        let reads = workspace.machine.ledger().phases().last().unwrap().issued.total();
        assert!((19_900..=20_000).contains(&reads), "{reads}");
        let some = rank_by_hopping(workspace, &stored, Bytes(512), 100, &mut see).unwrap();
        assert_eq!((some.visited, some.is_at_end), (100, false));
    });
}
