//! Floor 2: the journal as a ring of records.
//!
//! This floor knows where the journal's records are, which of them count, and which bytes belong to
//! which transaction. It does not know the meaning of the bytes: that is left to recovery, on floor
//! 4.
//!
//! ```text
//!        tail                                   head
//!  ──────┬──────────┬────────────┬──────────────┬────────────────────────
//!   old  │ record   │ record     │ record       │  previous cycle
//!  ──────┴──────────┴────────────┴──────────────┴────────────────────────
//! ```
//!
//! Writers append at the *head*. The *tail* is the oldest record whose changes may not yet be
//! written in place. Neither is stored anywhere. The head is found from the cycle numbers, of which
//! every block of the ring carries one: blocks of this cycle have number c, those of the previous
//! one c-1, and the head is where the number falls. The newest record then gives the tail.
//!
//! | module | content |
//! | --- | --- |
//! | [`ring`] | the blocks of the journal, read in large pieces across the end |
//! | [`head`] | finds head and tail, torn writes, and whether the journal is clean |
//! | `heal` | heals records that are bad on one member of an array |
//! | [`record`] | the records from tail to head, verified and unpacked |
//! | [`transaction`] | committed transactions, assembled from records |
//! | `stale` | clears blocks that an interrupted write left ahead of the head |
//! | `intact` | intact records, whatever lies between them |
//! | [`history`] | all transactions that the ring still holds, also those before the tail |
//! | `cleared` | a journal of which only that it is clean is left |
//! | [`payload`] | the regions of a checkpoint before they are written |
//! | [`writer`] | writes checkpoints at the head |
//!
//! Every length and count here comes from the disk. So reading ends after one cycle whatever the
//! records say, a record is at most [`RECORD_MAX`](ring::RECORD_MAX) blocks, and the memory of
//! unfinished transactions is bounded.

mod cleared;
pub mod head;
mod heal;
pub mod history;
mod intact;
pub mod payload;
pub mod record;
pub mod ring;
mod stale;
#[cfg(test)]
mod testing;
pub mod transaction;
pub mod writer;

use std::ops::Range;

use xfskit_block::BlockDevice;
use xfskit_format::log::record::{next_cycle, previous_cycle};
use xfskit_format::{Corruption, log};
use xfskit_units::{Daddr, Geometry, LogBlock, Lsn, Uuid};

pub use cleared::Cleared;
pub use head::{Search, Torn};
pub use heal::HealedRecord;
pub use history::{History, Seen};
pub use intact::Newest;
pub use payload::Payload;
pub use record::{Record, Records};
pub use ring::Ring;
pub use transaction::{Transaction, Transactions};
pub use writer::{AppendError, BUFFERS_MAX, Committed, FlushBefore, LogWriter, RECORD_SIZE, Stats};

/// An error of a journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// A check failed.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
}

/// The result of a request to a journal.
pub type Result<T> = std::result::Result<T, Error>;

/// An open journal: its ring, and the positions of head and tail.
#[derive(Debug)]
pub struct Log<'d> {
    ring: Ring<'d>,
    search: Search,
    healed: Vec<HealedRecord>,
}

impl<'d> Log<'d> {
    /// Opens the journal of the volume `geo`, which begins at `start` of `dev`, and finds head and
    /// tail.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if no head can be found or the records near it are inconsistent. Damage
    /// further back is found when it is read. Bad blocks that the device holds intact in another
    /// source are taken from there, and rewritten if the device can be written.
    pub fn open(dev: &'d dyn BlockDevice, start: Daddr, geo: &'d Geometry) -> Result<Self> {
        let mut ring = Ring::new(dev, start, geo)?;
        let (search, healed) = heal::search(&mut ring)?;
        Ok(Self { ring, search, healed })
    }

    /// Returns the records that were bad in the first source of the device and intact in another.
    pub fn healed(&self) -> &[HealedRecord] {
        &self.healed
    }

    /// Makes a device whose members differ in these bytes of the journal rewrite the wrong ones, as
    /// far as records and cycles reveal them. For a journal that is clean, or was replayed.
    ///
    /// # Errors
    /// If the device fails.
    pub fn heal_blocks(
        dev: &dyn BlockDevice,
        start: Daddr,
        geo: &Geometry,
        bytes: Range<u64>,
    ) -> Result<()> {
        let block = |byte: u64| u32::try_from(byte / 512).unwrap_or(u32::MAX);
        heal::heal_blocks(
            &mut Ring::new(dev, start, geo)?,
            block(bytes.start)..block(bytes.end + 511),
        )
    }

    /// Returns the ring of blocks.
    pub fn ring(&self) -> &Ring<'d> {
        &self.ring
    }

    /// Returns the position of the next record. No LSN on the volume may lie ahead of it.
    pub fn head(&self) -> Lsn {
        self.search.head
    }

    /// Returns the position where recovery starts; equals the head of a clean journal.
    pub fn tail(&self) -> Lsn {
        self.search.tail
    }

    /// Returns the cycle in which block `at`, which lies before the head, was written.
    pub fn cycle_of(&self, at: LogBlock) -> u32 {
        heal::cycle_before_head(self.head(), at)
    }

    /// Returns the cycle of the first block, if Linux does not find the head by it: Linux expects
    /// that of the head, or one beside it. The block may belong to a record that nothing needs any
    /// more.
    ///
    /// # Errors
    /// If the device fails.
    pub fn misleading_cycle(&self) -> Result<Option<u32>> {
        let head = self.head().cycle();
        let known = [previous_cycle(head), head, next_cycle(head)];
        let first = self.ring.cycle(LogBlock(0))?;
        Ok(Some(first).filter(|first| !known.contains(first)))
    }

    /// Returns true if nothing needs to be recovered.
    pub fn is_clean(&self) -> bool {
        self.search.clean
    }

    /// Returns the block of the newest record; `None` in a journal never written.
    pub fn last_record(&self) -> Option<LogBlock> {
        self.search.last_record
    }

    /// Returns the incomplete record that was cut off at the head.
    pub fn torn(&self) -> Option<&Torn> {
        self.search.torn.as_ref()
    }

    /// Overwrites blocks that an interrupted write of this cycle may have left ahead of the head
    /// with blocks of the previous cycle, as far as nothing there is needed. Otherwise they would
    /// be taken for records once the head comes near. Writes nothing if there are none.
    ///
    /// # Errors
    /// If the device fails.
    pub fn clear_ahead(&self) -> Result<()> {
        stale::clear(&self.ring, &self.search)
    }

    /// Marks the journal clean by an unmount record at the head. The caller has written everything
    /// that the journal holds in place, and made it durable.
    ///
    /// # Errors
    /// If the device fails.
    pub fn mark_clean(self) -> Result<()> {
        let uuid = self.ring.geo().uuid;
        self.mark_clean_as(uuid)
    }

    /// Does what [`mark_clean`](Self::mark_clean) does, with another UUID in the record: one that
    /// the volume is about to get, or nil, which matches every volume.
    ///
    /// # Errors
    /// If the device fails.
    pub fn mark_clean_as(self, uuid: Uuid) -> Result<()> {
        self.clear_ahead()?;
        let prev = self.last_record().map_or(u32::MAX, |block| block.0);
        let geo = Geometry { uuid, ..self.ring.geo().clone() };
        let record = log::unmount_record(&geo, self.head(), prev);
        self.ring.write(self.head().block(), &record)?;
        self.ring.flush()
    }

    /// Returns the records from tail to head, oldest first. None in a clean journal.
    pub fn records(&self) -> Records<'_, 'd> {
        Records::new(&self.ring, self.tail().block(), self.head().block())
    }

    /// Returns the committed transactions from tail to head, in the order of their commits.
    pub fn transactions(&self) -> Transactions<'_, 'd> {
        Transactions::new(self.records())
    }

    /// Returns all committed transactions that the ring still holds, oldest first. Those before the
    /// tail are in place, and mostly overwritten by later changes.
    pub fn history(&self) -> History<'_, 'd> {
        History::new(&self.ring, self.head().block())
    }
}

#[cfg(test)]
mod tests;
