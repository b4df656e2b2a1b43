//! Floor 2: the journal as a ring of records.
//!
//! This floor knows where the journal's records are, which of them count, and which bytes belong to
//! which transaction. It does not know what the bytes mean: that is recovery's business, on floor 4.
//!
//! ```text
//!        tail                                   head
//!  ──────┬──────────┬────────────┬──────────────┬────────────────────────
//!   old  │ record   │ record     │ record       │  older lap of the ring
//!  ──────┴──────────┴────────────┴──────────────┴────────────────────────
//! ```
//!
//! Writers append at the *head*; the *tail* is the oldest record whose changes may not yet be in
//! place. Neither is stored anywhere. The head is found from the cycle numbers, of which every block
//! of the ring carries one: blocks of this lap have cycle c, those of the last one c-1, and the head
//! is where the number falls. The newest record then says where the tail is.
//!
//! | module | what |
//! | --- | --- |
//! | [`ring`] | the blocks of the journal, read in large pieces across the end |
//! | [`head`] | finding head and tail; torn writes; is it clean? |
//! | `heal` | records that one member of an array has wrong, read from the others |
//! | [`record`] | the records from tail to head, checked and unpacked |
//! | [`transaction`] | committed transactions, put together from records |
//! | `stale` | what an interrupted write left ahead of the head |
//! | [`payload`] | what a checkpoint carries, on its way into records |
//! | [`writer`] | checkpoints written at the head |
//!
//! Every length and count here comes from the disk. Reading ends after one lap whatever the records
//! say; a record is at most [`RECORD_MAX`](ring::RECORD_MAX) blocks; and what unfinished
//! transactions may hold in memory is bounded.

pub mod head;
mod heal;
pub mod payload;
pub mod record;
pub mod ring;
mod stale;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod transaction;
pub mod writer;

use std::ops::Range;

use xfskit_block::BlockDevice;
use xfskit_format::{Corruption, log};
use xfskit_units::{Daddr, Geometry, LogBlock, Lsn, Uuid};

pub use head::{Search, Torn};
pub use heal::HealedRecord;
pub use payload::Payload;
pub use record::{Record, Records};
pub use ring::Ring;
pub use transaction::{Transaction, Transactions};
pub use writer::{AppendError, BUFFERS_MAX, Before, Committed, LogWriter, RECORD_SIZE, Stats};

/// What can go wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The bytes are wrong.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
}

/// A journal's answer.
pub type Result<T> = std::result::Result<T, Error>;

/// An opened journal: its ring, and where head and tail are.
#[derive(Debug)]
pub struct Log<'d> {
    ring: Ring<'d>,
    search: Search,
    healed: Vec<HealedRecord>,
}

impl<'d> Log<'d> {
    /// Opens the journal of the volume `geo`, which begins at `start` of `dev`: find head and tail.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where no head can be found or the records near it make no sense; damage
    /// further back is found when it is read. What the device has right in another way is taken from there, and
    /// rewritten where the device can be written.
    pub fn open(dev: &'d dyn BlockDevice, start: Daddr, geo: &'d Geometry) -> Result<Self> {
        let mut ring = Ring::new(dev, start, geo)?;
        let (search, healed) = heal::search(&mut ring)?;
        Ok(Self { ring, search, healed })
    }

    /// What was bad as the device gave it, and was had in another of its ways.
    pub fn healed(&self) -> &[HealedRecord] {
        &self.healed
    }

    /// Has a device whose members do not agree on these bytes of the journal's own rewrite those that are wrong, as far
    /// as records and cycles tell. For a journal that is clean, or was replayed.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn mend(
        dev: &dyn BlockDevice,
        start: Daddr,
        geo: &Geometry,
        bytes: Range<u64>,
    ) -> Result<()> {
        let block = |byte: u64| u32::try_from(byte / 512).unwrap_or(u32::MAX);
        heal::mend(&mut Ring::new(dev, start, geo)?, block(bytes.start)..block(bytes.end + 511))
    }

    /// The blocks.
    pub fn ring(&self) -> &Ring<'d> {
        &self.ring
    }

    /// Where the next record would be written. No LSN on the volume may lie ahead of it.
    pub fn head(&self) -> Lsn {
        self.search.head
    }

    /// Where recovery starts; equals the head of a clean journal.
    pub fn tail(&self) -> Lsn {
        self.search.tail
    }

    /// The cycle in which block `at`, which lies before the head, was written.
    pub fn cycle_of(&self, at: LogBlock) -> u32 {
        heal::lap_of(self.head(), at)
    }

    /// True where nothing needs to be recovered.
    pub fn is_clean(&self) -> bool {
        self.search.clean
    }

    /// Block of the newest record; `None` in a journal never written.
    pub fn last_record(&self) -> Option<LogBlock> {
        self.search.last_record
    }

    /// What was cut off at the head because it was not written to its end.
    pub fn torn(&self) -> Option<&Torn> {
        self.search.torn.as_ref()
    }

    /// Overwrites what an interrupted write of this lap may have left ahead of the head with blocks of
    /// the lap before, as far as nothing there is needed: once the head comes near, they would be
    /// taken for records. Writes nothing where there is nothing.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn clear_ahead(&self) -> Result<()> {
        stale::clear(&self.ring, &self.search)
    }

    /// Marks the journal clean: an unmount record at the head. The caller has put in place, and made
    /// durable, all that the journal holds.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn seal(self) -> Result<()> {
        let uuid = self.ring.geo().uuid;
        self.seal_as(uuid)
    }

    /// The same with another UUID in the record: that which the volume is about to get, or nil, which
    /// fits every volume.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn seal_as(self, uuid: Uuid) -> Result<()> {
        self.clear_ahead()?;
        let prev = self.last_record().map_or(u32::MAX, |block| block.0);
        let geo = Geometry { uuid, ..self.ring.geo().clone() };
        let record = log::unmount_record(&geo, self.head(), prev);
        self.ring.write(self.head().block(), &record)?;
        self.ring.flush()
    }

    /// The records from tail to head, oldest first. None in a clean journal.
    pub fn records(&self) -> Records<'_, 'd> {
        Records::new(&self.ring, self.tail().block(), self.head().block())
    }

    /// The committed transactions from tail to head, in the order of their commits.
    pub fn transactions(&self) -> Transactions<'_, 'd> {
        Transactions::new(self.records())
    }
}
