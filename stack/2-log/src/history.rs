//! All that the ring still holds: also the records before the tail, whose changes are in place.
//!
//! The oldest record begins somewhere behind the head, where the newest has overwritten a part of
//! the one before. So every block is tried as the header of a record. Its checksum decides, and a
//! transaction of which a record is missing is left out.

use xfskit_format::Ctx;
use xfskit_units::LogBlock;

use crate::record::{Crc, Record};
use crate::ring::{Ring, Window};
use crate::transaction::{Assembly, Transaction};
use crate::{Error, Result};

/// The committed transactions that the ring still holds, oldest first. The iterator ends after an
/// error of the device, and skips damaged records.
#[derive(Debug)]
pub struct History<'r, 'd> {
    ring: &'r Ring<'d>,
    window: Window<'r, 'd>,
    next: LogBlock,
    /// Blocks left to read: the ring is read once.
    left: u32,
    assembly: Assembly,
}

impl<'r, 'd> History<'r, 'd> {
    /// Iterates over the whole ring, whose next record would be written at `head`.
    pub(crate) fn new(ring: &'r Ring<'d>, head: LogBlock) -> Self {
        let (window, assembly) = (Window::new(ring), Assembly::default());
        Self { ring, window, next: head, left: ring.blocks(), assembly }
    }

    /// Returns the number of blocks of the ring that have not been read yet.
    pub fn blocks_left(&self) -> u32 {
        self.left
    }

    /// Returns the verifier's context for `transaction`.
    pub fn ctx(&self, transaction: &Transaction) -> Ctx<'d> {
        self.ring.ctx(transaction.at)
    }

    /// Reads the record at the current block, if there is one, and moves behind it.
    fn step(&mut self) -> Result<()> {
        let crc = Crc::for_replay(self.ring.geo().v5());
        let blocks = match Record::read(&mut self.window, self.ring, self.next, crc) {
            Err(Error::Device(error)) => return Err(error.into()),
            Err(Error::Corrupt(_)) => {
                self.assembly.interrupt();
                1
            }
            Ok(record) => {
                if self.assembly.take(&record, &self.ring.ctx(record.at)).is_err() {
                    self.assembly.interrupt();
                }
                u32::try_from(record.header.blocks()).unwrap_or(u32::MAX).max(1)
            }
        };
        self.left = self.left.saturating_sub(blocks);
        self.next = self.ring.forward(self.next, blocks);
        Ok(())
    }
}

impl Iterator for History<'_, '_> {
    type Item = Result<Transaction>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ready) = self.assembly.pop() {
                return Some(Ok(ready));
            }
            if self.left == 0 {
                return None;
            }
            if let Err(error) = self.step() {
                self.left = 0;
                return Some(Err(error));
            }
        }
    }
}
