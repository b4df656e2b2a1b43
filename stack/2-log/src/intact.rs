//! The intact records of a ring, whatever lies between them.
//!
//! Every block is tried as the header of a record, and the record's checksum decides.

use xfskit_format::log::op::OpFlags;
use xfskit_units::{LogBlock, Lsn};

use crate::record::{Crc, Record};
use crate::ring::{Ring, Window};
use crate::{Error, Result};

/// The intact records of a ring, in the order of their blocks. The iterator ends after an error of
/// the device.
#[derive(Debug)]
pub(crate) struct IntactRecords<'r, 'd> {
    ring: &'r Ring<'d>,
    window: Window<'r, 'd>,
    next: LogBlock,
    /// Blocks left to read: the ring is read once.
    left: u32,
    is_behind_gap: bool,
}

impl<'r, 'd> IntactRecords<'r, 'd> {
    /// Iterates once over the whole ring, from block `from` on.
    pub(crate) fn new(ring: &'r Ring<'d>, from: LogBlock) -> Self {
        let (window, left) = (Window::new(ring), ring.blocks());
        Self { ring, window, next: from, left, is_behind_gap: false }
    }

    /// Returns the ring.
    pub(crate) fn ring(&self) -> &'r Ring<'d> {
        self.ring
    }

    /// Returns the number of blocks that have not been read yet.
    pub(crate) fn blocks_left(&self) -> u32 {
        self.left
    }

    /// Returns true if the last record does not follow the one before it.
    pub(crate) fn is_behind_gap(&self) -> bool {
        self.is_behind_gap
    }

    fn advance(&mut self, blocks: u32) {
        self.left = self.left.saturating_sub(blocks);
        self.next = self.ring.forward(self.next, blocks);
    }
}

impl Iterator for IntactRecords<'_, '_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let crc = Crc::for_replay(self.ring.geo().v5());
        self.is_behind_gap = false;
        while self.left > 0 {
            match Record::read(&mut self.window, self.ring, self.next, crc) {
                Ok(record) => {
                    self.advance(record.blocks());
                    return Some(Ok(record));
                }
                Err(Error::Corrupt(_)) => {
                    self.advance(1);
                    self.is_behind_gap = true;
                }
                Err(error) => {
                    self.left = 0;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The newest intact record of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its position.
    pub lsn: Lsn,
    /// The tail that it names.
    pub tail: Lsn,
    /// Its length in blocks.
    pub blocks: u32,
    /// It marks the journal clean.
    pub is_unmount: bool,
}

impl Newest {
    /// Reads the whole ring, and returns its newest intact record; `None` if there is none.
    ///
    /// # Errors
    /// If the device fails.
    pub fn find(ring: &Ring<'_>) -> Result<Option<Self>> {
        let mut newest: Option<Self> = None;
        for record in IntactRecords::new(ring, LogBlock(0)) {
            let record = record?;
            if newest.is_none_or(|newest| newest.lsn < record.lsn()) {
                newest = Some(Self::of(&record, ring));
            }
        }
        Ok(newest)
    }

    fn of(record: &Record, ring: &Ring<'_>) -> Self {
        let ctx = ring.ctx(record.at);
        let mut ops = record.ops(&ctx).flatten();
        let is_unmount = ops.next().is_some_and(|op| op.has(OpFlags::UNMOUNT));
        Self {
            lsn: record.lsn(),
            tail: record.header.tail_lsn(),
            blocks: record.blocks(),
            is_unmount,
        }
    }
}
