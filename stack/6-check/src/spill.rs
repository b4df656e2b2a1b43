//! Records of extents that do not fit into memory: they go to a file without a name.
//!
//! Phase 3 finds the extents of all groups, and phase 5 needs those of one group at a time. So the
//! extents of a group are appended here in pieces, and read back when its turn comes.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xfskit_block::{BlockDevice, MemDevice, OverlayDevice, Result};
use xfskit_format::rmap;
use xfskit_units::{ByteLen, ByteOffset, index};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of a page, the unit in which records are stored.
const PAGE: u64 = 4096;
/// Least number of records that are stored together: they fill a page.
pub(crate) const RECORDS: usize = 4096 / size_of::<rmap::Rec>();
/// Bytes that can be stored. A volume has fewer extents.
const SIZE: u64 = 1 << 60;

/// The memory that a check takes for extents.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// About so many bytes; the extents of one group for each thread come beside them.
    pub bytes: ByteLen,
    /// More go to a file without a name in this directory, if one can be made there.
    pub dir: &'a Path,
}

/// Records of extents, in memory up to a bound.
#[derive(Debug)]
pub(crate) struct Spill {
    records: OverlayDevice,
    /// Bytes stored so far.
    end: AtomicU64,
}

/// The place of records that were stored, in bytes.
pub(crate) type Place = Range<u64>;

impl Spill {
    /// Makes an empty one.
    pub(crate) fn new(memory: Memory<'_>) -> Self {
        let records = OverlayDevice::new(Arc::new(MemDevice::new(ByteLen(SIZE))));
        Self { records: records.limited_to(memory.bytes, memory.dir), end: AtomicU64::new(0) }
    }

    /// Stores records.
    pub(crate) fn store(&self, records: &[rmap::Rec]) -> Result<Place> {
        let bytes = records.as_bytes();
        let len = bytes.len() as u64;
        let start = self.end.fetch_add(len.next_multiple_of(PAGE), Ordering::Relaxed);
        self.records.write_at(ByteOffset(start), bytes)?;
        Ok(start..start + len)
    }

    /// Returns the records of a place.
    pub(crate) fn load(&self, place: &Place) -> Result<Vec<rmap::Rec>> {
        let mut records = vec![rmap::Rec::new_zeroed(); records_in(place)];
        self.records.read_at(ByteOffset(place.start), records.as_mut_bytes())?;
        Ok(records)
    }

    /// Returns the bytes of memory that the records take.
    pub(crate) fn resident(&self) -> u64 {
        self.records.resident().0
    }
}

/// Returns the number of records of a place.
pub(crate) fn records_in(place: &Place) -> usize {
    index(place.end - place.start) / size_of::<rmap::Rec>()
}

/// Records in the order of the rmapbt.
#[derive(Debug)]
pub struct Owners(Stored);

#[derive(Debug)]
enum Stored {
    Kept(Vec<rmap::Rec>),
    Spilled(Arc<Spill>, Place),
}

impl Owners {
    /// Keeps records, or has `spill` store them.
    pub(crate) fn new(records: Vec<rmap::Rec>, spill: Option<&Arc<Spill>>) -> Self {
        let stored = spill.filter(|_| records.len() >= RECORDS);
        let stored = stored.and_then(|spill| Some((spill, spill.store(&records).ok()?)));
        Self(match stored {
            Some((spill, place)) => Stored::Spilled(Arc::clone(spill), place),
            None => Stored::Kept(records),
        })
    }

    /// Returns the records: all of them are in memory then.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn load(&self) -> Result<Cow<'_, [rmap::Rec]>> {
        match &self.0 {
            Stored::Kept(records) => Ok(records.into()),
            Stored::Spilled(spill, place) => spill.load(place).map(Cow::from),
        }
    }
}

impl From<Vec<rmap::Rec>> for Owners {
    fn from(records: Vec<rmap::Rec>) -> Self {
        Self(Stored::Kept(records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u32) -> rmap::Rec {
        rmap::Rec {
            startblock: n.into(),
            blockcount: 1.into(),
            owner: 77.into(),
            offset: u64::from(n).into(),
        }
    }

    #[test]
    fn records_come_back_from_memory_and_from_the_file() {
        let dir = std::env::temp_dir();
        let spill = Arc::new(Spill::new(Memory { bytes: ByteLen(2 * PAGE), dir: &dir }));
        let records: Vec<_> = (0..1000).map(record).collect();
        let places: Vec<_> =
            records.chunks(RECORDS).map(|piece| spill.store(piece).unwrap()).collect();
        assert!(spill.resident() <= 2 * PAGE, "{}", spill.resident());
        let loaded: Vec<_> = places.iter().flat_map(|place| spill.load(place).unwrap()).collect();
        assert_eq!(loaded, records);
        let owners = Owners::new(records.clone(), Some(&spill));
        assert!(matches!(owners.0, Stored::Spilled(..)));
        assert_eq!(*owners.load().unwrap(), records);
        let few = Owners::new(records[..3].to_vec(), Some(&spill));
        assert!(matches!(few.0, Stored::Kept(_)));
        assert_eq!(*few.load().unwrap(), records[..3]);
    }
}
