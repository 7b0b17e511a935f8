//! Small examples computed by hand: how many pages are read and programmed and blocks erased for a sequence of writes.
//!
//! Blocks have four pages and there is one die, unless it says otherwise. `fill` writes all pages in order, each to
//! its data block. A cost is what the flash did in addition to the host's own programs.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_sim::flash::{Cause, Counts, Flash, FlashGeometry, LogicalPage, Untimed};
use flashlab_sim::layer::{
    Layer, LogBlocks, LogBlocksOptions, LogOrder, Pages, Replacement, SharedLogs, SharedLogsOptions,
};

/// A layer on its flash.
struct Bench<L> {
    flash: Flash<Untimed>,
    layer: L,
}

impl<L: Layer> Bench<L> {
    fn fill(mut self) -> Bench<L> {
        let pages = self.layer.pages();
        assert_eq!(self.write(0, pages), "");
        self
    }

    /// Writes `count` pages from `first` on with one request; returns the cost.
    fn write(&mut self, first: u32, count: u32) -> String {
        let before = self.flash.counts().clone();
        let pages = Pages { first: LogicalPage(first), count };
        self.layer.write(&mut self.flash, pages, 0, Nanos::ZERO).unwrap();
        let done = self.flash.counts().since(&before);
        assert_eq!(done.pages_programmed(Cause::Host), u64::from(count));
        cost(&done)
    }

    /// Writes single pages; returns the cost of each.
    fn write_each(&mut self, pages: impl IntoIterator<Item = u32>) -> Vec<String> {
        pages.into_iter().map(|page| self.write(page, 1)).collect()
    }

    fn trim(&mut self, first: u32, count: u32) -> String {
        let before = self.flash.counts().clone();
        self.layer.trim(&mut self.flash, Pages { first: LogicalPage(first), count });
        cost(&self.flash.counts().since(&before))
    }
}

/// As `4 copied, 2 erased: full`; empty when there was none.
fn cost(done: &Counts) -> String {
    let (copied, erased) = (done.pages_programmed(Cause::Reclaim), done.blocks_erased(Cause::Reclaim));
    assert_eq!(done.pages_read(Cause::Reclaim), copied);
    assert_eq!((done.reads(), done.erases()), (copied, erased), "all for reclaiming");
    let mut text = Vec::new();
    if copied + erased > 0 {
        text.push(format!("{copied} copied, {erased} erased"));
    }
    let merges =
        [("switch", done.switch_merges), ("partial", done.partial_merges), ("full", done.full_merges)];
    text.extend(merges.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind}")));
    text.join(", ")
}

fn geometry(pages_per_block: u32, blocks: u32) -> FlashGeometry {
    FlashGeometry::new(Bytes::kib(4), pages_per_block, 1, blocks, 1, 1).unwrap()
}

/// `blocks` logical blocks of four pages.
fn options(blocks: u32, logs: u32) -> LogBlocksOptions {
    LogBlocksOptions { logical_pages: 4 * blocks, logs, ..LogBlocksOptions::default() }
}

fn log_blocks(pages_per_block: u32, options: &LogBlocksOptions) -> Bench<LogBlocks> {
    let blocks = options.logical_pages / pages_per_block + options.extra_blocks();
    let geometry = geometry(pages_per_block, blocks);
    let flash = Flash::new(geometry, Untimed).with_ledger(options.logical_pages);
    Bench { flash, layer: LogBlocks::new(&geometry, options).unwrap() }
}

fn shared_logs(blocks: u32, logs: u32) -> Bench<SharedLogs> {
    shared_logs_reclaiming(1, blocks, logs)
}

fn shared_logs_reclaiming(reclaim_batch: u32, blocks: u32, logs: u32) -> Bench<SharedLogs> {
    let logical_pages = 4 * blocks;
    let options = SharedLogsOptions { logical_pages, logs, reclaim_batch, ..SharedLogsOptions::default() };
    let geometry = geometry(4, blocks + options.extra_blocks());
    let flash = Flash::new(geometry, Untimed).with_ledger(options.logical_pages);
    Bench { flash, layer: SharedLogs::new(&geometry, &options).unwrap() }
}

#[test]
fn a_data_block_takes_what_it_has_room_for() {
    let mut bench = log_blocks(4, &options(2, 1));
    // Page 2 goes to its data block, whose pages 0 and 1 are lost; page 3 follows.
    assert_eq!(bench.write_each([2, 3, 6, 7]), ["", "", "", ""]);
    // Page 0 needs a log; page 4 as well, and there is one: page 0 is in order, and 2 and 3 are copied behind it.
    assert_eq!(bench.write(0, 1), "");
    assert_eq!(bench.write(4, 1), "2 copied, 1 erased, 1 partial");
    // The log of the second block has page 4; with page 5 it is merged with 6 and 7 when page 1 needs the log. That
    // is not in order any more: the merge copies the block that now holds 0, 2 and 3, and page 1.
    assert_eq!(bench.write(5, 1), "");
    assert_eq!(bench.write(1, 1), "2 copied, 1 erased, 1 partial");
    assert_eq!(bench.write(4, 1), "4 copied, 2 erased, 1 full");
}

#[test]
fn switch_partial_and_full_merges() {
    let mut bench = log_blocks(4, &options(2, 1)).fill();
    // The whole block in order: the log becomes the data block, which is erased.
    assert_eq!(bench.write(0, 4), "0 copied, 1 erased, 1 switch");
    assert_eq!(bench.write_each([4, 5, 6, 7]), ["", "", "", "0 copied, 1 erased, 1 switch"]);
    // Two pages in order: the other two are copied behind them when the second block needs the log.
    assert_eq!(bench.write(0, 2), "");
    assert_eq!(bench.write(5, 1), "2 copied, 1 erased, 1 partial");
    // Page 5 alone is not in order: four pages go to a free block; the data block and the log are erased.
    assert_eq!(bench.write(0, 1), "4 copied, 2 erased, 1 full");
}

#[test]
fn a_log_that_is_full_is_merged_before_the_next_write_to_its_block() {
    let mut bench = log_blocks(4, &options(2, 1)).fill();
    assert_eq!(bench.write_each([1, 1, 1, 1]), ["", "", "", ""]);
    assert_eq!(bench.write(1, 1), "4 copied, 2 erased, 1 full");
    // A request of three pages: two fill the log up, then comes the merge, and the third opens another log.
    assert_eq!(bench.write(2, 1), "");
    assert_eq!(bench.write(1, 3), "4 copied, 2 erased, 1 full");
}

#[test]
fn without_switch_merges_every_merge_copies_the_block() {
    let options = LogBlocksOptions { switch_merges: false, ..options(2, 1) };
    let mut bench = log_blocks(4, &options).fill();
    assert_eq!(bench.write(0, 4), "");
    assert_eq!(bench.write(4, 4), "4 copied, 2 erased, 1 full");
}

#[test]
fn trimmed_pages_are_not_copied() {
    let mut bench = log_blocks(4, &options(3, 1)).fill();
    assert_eq!(bench.trim(3, 1), "");
    assert_eq!(bench.write(1, 1), "");
    assert_eq!(bench.write(4, 1), "3 copied, 2 erased, 1 full");
    // All of the block: its data block and its log are erased, and it is as new.
    assert_eq!(bench.trim(4, 4), "0 copied, 2 erased");
    assert_eq!(bench.write(6, 2), "");
    // The block that lost page 3 has room there.
    assert_eq!(bench.write(3, 1), "");
    // Nothing is left to copy behind page 8: the merge is a switch.
    assert_eq!(bench.write(8, 1), "");
    assert_eq!(bench.trim(9, 3), "");
    assert_eq!(bench.write(0, 1), "0 copied, 1 erased, 1 switch");
}

#[test]
fn round_robin_and_least_recently_used() {
    let after = |replacement| {
        let mut bench = log_blocks(4, &LogBlocksOptions { replacement, ..options(3, 2) }).fill();
        // Logs for the blocks 0 and 1; block 0 uses its log again; block 2 needs one.
        let costs = bench.write_each([1, 5, 1, 9]);
        assert_eq!(costs, ["", "", "", "4 copied, 2 erased, 1 full"]);
        bench.write(1, 1)
    };
    // Block 0 was first, so its log went, and now it merges that of block 1.
    assert_eq!(after(Replacement::RoundRobin), "4 copied, 2 erased, 1 full");
    // Block 1 was not used for longer, so block 0 has kept its log.
    assert_eq!(after(Replacement::LeastRecentlyUsed), "");
}

#[test]
fn a_block_map_pays_a_whole_block_for_a_write_elsewhere() {
    let options = LogBlocksOptions { order: LogOrder::Next, ..options(2, 1) };
    let mut bench = log_blocks(4, &options).fill();
    // Page 0 is copied before page 1 can follow.
    assert_eq!(bench.write(1, 1), "1 copied, 0 erased");
    assert_eq!(bench.write(2, 1), "");
    // The other block: page 3 completes the first one, and page 4 is copied before 5. The merge copied pages on
    // both sides of the host's, a whole block.
    assert_eq!(bench.write(5, 1), "2 copied, 1 erased, 1 full");
    // In place: pages 6 and 7 are copied behind 5, then 4 before the new 5.
    assert_eq!(bench.write(5, 1), "3 copied, 1 erased, 1 full");
    // Forward, but not the next one: page 6 and 7 are copied, then 4, 5 and 6 before the new 7, which is the last.
    assert_eq!(bench.write(7, 1), "5 copied, 2 erased, 2 full");
    // A sequential write of the whole block copies nothing.
    assert_eq!(bench.write(0, 4), "0 copied, 1 erased, 1 switch");
}

#[test]
fn a_replacement_block_that_fills_gaps() {
    let options = LogBlocksOptions { order: LogOrder::Forward, ..options(2, 1) };
    let mut bench = log_blocks(4, &options).fill();
    // Pages 1 and 2 are copied between 0 and 3, which completes the block.
    assert_eq!(bench.write(0, 1), "");
    assert_eq!(bench.write(3, 1), "2 copied, 1 erased, 1 full");
    // Backwards. Before 7 come 4, 5 and 6, and the block is complete; before 6 come 4 and 5.
    assert_eq!(bench.write(7, 1), "3 copied, 1 erased, 1 full");
    assert_eq!(bench.write(6, 1), "2 copied, 0 erased");
    // 7 behind the old log and 4 in the new one; then 6 and 7 behind that one.
    assert_eq!(bench.write(5, 1), "2 copied, 1 erased, 1 full");
    assert_eq!(bench.write(4, 1), "2 copied, 1 erased, 1 full");
    // Nothing was copied before page 4, so copying 5, 6 and 7 behind it is a partial merge.
    assert_eq!(bench.write(0, 1), "3 copied, 1 erased, 1 partial");
}

#[test]
fn a_replacement_block_that_knows_only_from_where_to_where_it_holds_pages() {
    let options = LogBlocksOptions { order: LogOrder::Adjoining, ..options(2, 1) };
    let mut bench = log_blocks(4, &options).fill();
    // Backwards, page by page, and then the other block: the first one is complete, but not in order.
    assert_eq!(bench.write_each([3, 2, 1, 0]), [""; 4]);
    assert_eq!(bench.write(5, 1), "4 copied, 2 erased, 1 full");
    // Behind page 5, and before it.
    assert_eq!(bench.write_each([6, 4]), [""; 2]);
    // All three again, and the page behind them: nothing of the old log is needed.
    assert_eq!(bench.write(4, 4), "0 copied, 2 erased, 1 switch");
    // In place.
    assert_eq!(bench.write_each([1, 1, 1]), ["", "0 copied, 1 erased", "0 copied, 1 erased"]);
    // Elsewhere in the block, and then a part of what the log holds.
    assert_eq!(bench.write(3, 1), "4 copied, 2 erased, 1 full");
    assert_eq!(bench.write(2, 1), "");
    assert_eq!(bench.write(3, 1), "4 copied, 2 erased, 1 full");
}

#[test]
fn a_block_map_without_logs_pays_a_whole_block_for_each_request() {
    for order in [LogOrder::Any, LogOrder::Adjoining, LogOrder::Forward, LogOrder::Next] {
        let mut bench = log_blocks(4, &LogBlocksOptions { order, ..options(3, 0) }).fill();
        let merge = match order {
            // The log is merged into a third block.
            LogOrder::Any | LogOrder::Adjoining => "4 copied, 2 erased, 1 full",
            // One page is copied before and two behind.
            LogOrder::Forward | LogOrder::Next => "3 copied, 1 erased, 1 full",
        };
        assert_eq!(bench.write_each([1, 1, 5]), [merge; 3], "{order:?}");
        // A request over the end of a block and the beginning of the next pays for both: a log with page 3 alone (a
        // full merge, 4 copies, or 0 to 2 copied before it), and one with page 4 (a partial one, 3 copies).
        let both = match order {
            LogOrder::Any | LogOrder::Adjoining => "7 copied, 3 erased, 1 partial, 1 full",
            LogOrder::Forward | LogOrder::Next => "6 copied, 2 erased, 1 partial, 1 full",
        };
        assert_eq!(bench.write(3, 2), both, "{order:?}");
        // A whole block copies nothing.
        assert_eq!(bench.write(8, 4), "0 copied, 1 erased, 1 switch", "{order:?}");
    }
}

#[test]
fn a_chunk_map_writes_whole_chunks_without_reading() {
    // Chunks of 128 pages of 4 KiB, 512 KiB, of which one is active (Ajwani et al., section 3.3).
    let options =
        LogBlocksOptions { logical_pages: 16 * 128, logs: 1, order: LogOrder::Next, ..options(0, 1) };
    let chunk = |index: u32| index * 128;
    let mut bench = log_blocks(128, &options).fill();
    assert_eq!(bench.write(chunk(7), 128), "0 copied, 1 erased, 1 switch");
    assert_eq!(bench.write(chunk(3), 128), "0 copied, 1 erased, 1 switch");
    // 128 KiB at the beginning of a chunk; leaving it costs the other 96 pages.
    assert_eq!(bench.write(chunk(5), 32), "");
    assert_eq!(bench.write(chunk(9), 32), "96 copied, 1 erased, 1 partial");
    // 128 KiB in the middle: 64 pages are copied before it, and 96 close the chunk that is left.
    assert_eq!(bench.write(chunk(2) + 64, 32), "160 copied, 1 erased, 1 partial");
    // 32 pages close that one.
    assert_eq!(bench.write(chunk(1), 128), "32 copied, 2 erased, 1 switch, 1 full");
}

/// Sun and Zhang, Table 2 (`reference/sun_zhang_table2_log_list.csv`): microseconds for each write of the first and of
/// the second round over 3 and over 4 positions, a segment apart. 28 ms is a merge.
const TABLE_2: [(u32, [&[u32]; 2]); 2] = [
    (3, [&[28_994, 28_750, 28_657], &[2_600, 2_722, 2_598]]),
    (4, [&[29_296, 28_495, 28_723, 28_919], &[28_594, 28_726, 28_719, 28_797]]),
];

#[test]
fn the_log_list_of_sun_and_zhang() {
    for replacement in [Replacement::RoundRobin, Replacement::LeastRecentlyUsed] {
        let segment = 64;
        let options = LogBlocksOptions { logical_pages: 16 * segment, replacement, ..options(0, 3) };
        for (positions, rounds) in TABLE_2 {
            let mut bench = log_blocks(segment, &options).fill();
            // What was written before has all the logs.
            bench.write_each([9, 10, 11].map(|block| block * segment + 1));
            for (round, microseconds) in rounds.iter().enumerate() {
                let costs = bench.write_each((0..positions).map(|i| i * segment + 5));
                let expected = microseconds.iter().map(|&time| match time {
                    10_000.. => "64 copied, 2 erased, 1 full",
                    _ => "",
                });
                assert_eq!(costs, expected.collect::<Vec<_>>(), "{positions} positions, round {}", round + 1);
            }
        }
    }
}

#[test]
fn shared_logs_take_pages_of_all_blocks() {
    let mut bench = shared_logs(4, 2).fill();
    // Eight pages of four blocks fill both logs, none of them the first of its block.
    assert_eq!(bench.write_each([1, 5, 9, 13, 2, 6, 10, 14]), [""; 8]);
    // The first log is reclaimed: each of the four blocks is merged, so the second log has no valid page either.
    assert_eq!(bench.write(3, 1), "16 copied, 5 erased, 4 full");
    assert_eq!(bench.write_each([7, 11, 15]), [""; 3]);
    // So the second log is only erased.
    assert_eq!(bench.write(1, 1), "0 copied, 1 erased");
    // The next victim holds the pages 3, 7, 11 and 15. Page 3 is overwritten in the newer log, so block 0 is not merged.
    assert_eq!(bench.write_each([3, 3, 3]), [""; 3]);
    assert_eq!(bench.write(5, 1), "12 copied, 4 erased, 3 full");
}

#[test]
fn several_shared_logs_are_reclaimed_in_a_batch() {
    let mut bench = shared_logs_reclaiming(2, 4, 2).fill();
    assert_eq!(bench.write_each([1, 5, 9, 13, 2, 6, 10, 14]), [""; 8]);
    // As with one at once, and the second log is erased with the first.
    assert_eq!(bench.write(3, 1), "16 copied, 6 erased, 4 full");
    assert_eq!(bench.write_each([7, 11, 15, 2, 6, 10, 14]), [""; 7]);
    assert_eq!(bench.write(3, 1), "16 copied, 6 erased, 4 full");
}

#[test]
fn blocks_that_lost_their_order_cost_a_merge_each_request_until_they_are_rewritten() {
    let forward = LogBlocksOptions { disordered_after: 2, order: LogOrder::Forward, ..options(4, 1) };
    let mut bench = log_blocks(4, &forward).fill();
    // The first stray page; the second one disorders all blocks, and its log is merged at once.
    assert_eq!(bench.write(1, 1), "1 copied, 0 erased");
    assert_eq!(bench.write(6, 1), "5 copied, 2 erased, 2 full");
    // Block 0 page by page: each write costs the copy of the other pages of the block.
    assert_eq!(bench.write(0, 1), "3 copied, 1 erased, 1 partial");
    assert_eq!(bench.write_each(1..4), ["3 copied, 1 erased, 1 full"; 3]);
    // It is in order now; block 1 is not, and neither is it when it is written with a gap.
    assert_eq!(bench.write(0, 4), "0 copied, 1 erased, 1 switch");
    assert_eq!(bench.write(4, 2), "2 copied, 1 erased, 1 partial");
    assert_eq!(bench.write(7, 1), "3 copied, 1 erased, 1 full");
    assert_eq!(bench.write(4, 4), "0 copied, 1 erased, 1 switch");
    assert_eq!(bench.write_each([4, 5, 6]), ["", "", ""]);
}

#[test]
fn the_sequential_log_is_switched_or_merged() {
    let mut bench = shared_logs(4, 2).fill();
    assert_eq!(bench.write(0, 4), "0 copied, 1 erased, 1 switch");
    // The first two pages of a block; the other two are copied when another block begins.
    assert_eq!(bench.write_each([0, 1]), ["", ""]);
    assert_eq!(bench.write(4, 1), "2 copied, 1 erased, 1 partial");
    // A page that does not continue the log, and one that does.
    assert_eq!(bench.write_each([6, 5]), ["", ""]);
    // Page 6 comes from the random log.
    assert_eq!(bench.write(8, 1), "2 copied, 1 erased, 1 partial");
}

#[test]
fn a_sequential_log_with_an_old_page_is_merged_as_a_whole() {
    let mut bench = shared_logs(4, 2).fill();
    // Page 0 is the sequential log's first; written again it is so once more, after a merge. Page 1 is not.
    assert_eq!(bench.write_each([0, 1, 1]), ["", "", ""]);
    assert_eq!(bench.write(4, 1), "4 copied, 2 erased, 1 full");
    assert_eq!(bench.write(4, 1), "3 copied, 1 erased, 1 partial");
}

/// Host programs and copies for each of many random writes of single pages among the first `area` pages.
fn pages_for_each_write(area: u32) -> f64 {
    let geometry = FlashGeometry::new(Bytes::kib(4), 64, 1, 1024, 4, 4).unwrap();
    let options = LogBlocksOptions {
        logical_pages: 900 * 64,
        stripe_pages: 64,
        logs: 8,
        ..LogBlocksOptions::default()
    };
    let mut flash = Flash::new(geometry, Untimed);
    let mut layer = LogBlocks::new(&geometry, &options).unwrap();
    let mut random = Prng::new(Seed(3));
    let all = Pages { first: LogicalPage(0), count: options.logical_pages };
    layer.write(&mut flash, all, 0, Nanos::ZERO).unwrap();
    let before = flash.counts().clone();
    for _ in 0..20_000 {
        let first = LogicalPage(random.below(area.into()) as u32);
        layer.write(&mut flash, Pages { first, count: 1 }, 0, Nanos::ZERO).unwrap();
    }
    flash.counts().since(&before).write_amplification().unwrap()
}

#[test]
fn random_writes_are_cheap_within_the_area_that_the_logs_cover() {
    // 4 dies x 8 logs x 64 pages: each log takes 64 writes before a merge copies 64 pages.
    let within = pages_for_each_write(4 * 8 * 64);
    assert!((1.9..2.1).contains(&within), "{within} pages for each write within the area");
    // Eight times the area: seven of eight writes find no log and merge one.
    let beyond = pages_for_each_write(8 * 4 * 8 * 64);
    assert!((50.0..62.0).contains(&beyond), "{beyond} pages for each write beyond the area");
}

#[test]
fn wrong_options_are_told() {
    let log_blocks = |options| LogBlocks::new(&geometry(4, 16), &options).unwrap_err().to_string();
    let shared = |options| SharedLogs::new(&geometry(4, 16), &options).unwrap_err().to_string();
    insta::assert_snapshot!(log_blocks(options(2, 15)), @"`logs` is 15; it may be at most 14: a die has 16 blocks, 1 in reserve for merges and at least 1 for data");
    insta::assert_snapshot!(log_blocks(options(2, u32::MAX)), @"`logs` is 4294967295; it may be at most 14: a die has 16 blocks, 1 in reserve for merges and at least 1 for data");
    insta::assert_snapshot!(log_blocks(options(12, 4)), @"`logical_pages` is 48; it may be 1 to 44: each of 1 dies needs 5 of its 16 blocks as spares");
    insta::assert_snapshot!(log_blocks(options(0, 4)), @"`logical_pages` is 0; it may be 1 to 44: each of 1 dies needs 5 of its 16 blocks as spares");
    insta::assert_snapshot!(log_blocks(LogBlocksOptions { stripe_pages: 0, ..options(2, 4) }), @"`stripe_pages` is 0; it may be 1 to 44, the pages of a die for data");
    insta::assert_snapshot!(log_blocks(LogBlocksOptions { stripe_pages: 45, ..options(2, 4) }), @"`stripe_pages` is 45; it may be 1 to 44, the pages of a die for data");
    insta::assert_snapshot!(shared(SharedLogsOptions { logical_pages: 8, logs: 0, ..SharedLogsOptions::default() }), @"`logs` is 0; it may be at least 1");
    insta::assert_snapshot!(shared(SharedLogsOptions { logical_pages: 44, ..SharedLogsOptions::default() }), @"`logical_pages` is 44; it may be 1 to 40: each of 1 dies needs 6 of its 16 blocks as spares");
}
