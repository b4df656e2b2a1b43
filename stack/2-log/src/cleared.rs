//! A journal of which nothing is left but that it is clean: an unmount record, and in the first
//! word of each other block the cycle that finds the head.

use xfskit_format::log::record::{BLOCK, next_cycle, previous_cycle};
use xfskit_format::log::unmount_record;
use xfskit_units::{Geometry, LogBlock, Lsn};

/// The blocks of a cleared journal.
#[derive(Clone, Debug)]
pub struct Cleared {
    /// The unmount record, which ends at the head.
    record: Vec<u8>,
    /// Its first block.
    start: u32,
    head: Lsn,
    /// Blocks of the journal.
    blocks: u32,
}

impl Cleared {
    /// Returns the blocks of the journal of `geo`, with its unmount record at `start`.
    pub fn new(geo: &Geometry, start: Lsn) -> Self {
        let record = unmount_record(geo, start, u32::MAX);
        let blocks = geo.log_bbs();
        let len = u32::try_from(record.len() / BLOCK).unwrap_or(u32::MAX);
        let end = start.block().0.saturating_add(len);
        let head = match end.checked_sub(blocks) {
            None => Lsn::new(start.cycle(), LogBlock(end)),
            Some(wrapped) => Lsn::new(next_cycle(start.cycle()), LogBlock(wrapped)),
        };
        Self { record, start: start.block().0, head, blocks }
    }

    /// Returns the position of the next record.
    pub fn head(&self) -> Lsn {
        self.head
    }

    /// Fills block `at` of the journal.
    pub fn fill(&self, at: LogBlock, block: &mut [u8; BLOCK]) {
        let LogBlock(number) = at;
        let from_start =
            if number >= self.start { number } else { number + self.blocks } - self.start;
        let (record, _) = self.record.as_chunks::<BLOCK>();
        if let Some(part) = record.get(from_start as usize) {
            *block = *part;
            return;
        }
        let head = self.head;
        let cycle = if at < head.block() { head.cycle() } else { previous_cycle(head.cycle()) };
        *block = [0; BLOCK];
        block[..4].copy_from_slice(&cycle.to_be_bytes());
    }
}
