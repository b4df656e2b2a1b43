//! The offset of the attribute fork within an inode.
//!
//! Linux accepts any offset that leaves the data fork what it needs, and each fork the space for
//! the root of an extent btree. Its own choice, and ours, is behind 192 bytes of data fork, or
//! before or behind that if it makes space for a short form.

use xfskit_units::Geometry;

use crate::layout::Layout;

/// The data fork's need of the inode's literal area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataNeed {
    /// A device number, or nothing for a pipe or a socket.
    Device,
    /// This many bytes of inline contents or extent records.
    Inline(usize),
    /// The root of an extent btree, which fits into any size.
    Btree,
}

/// Unit of forkoff, in bytes.
const UNIT: usize = 8;
/// Default size of a data fork, in units.
const DEFAULT: usize = 24;
/// Smallest data fork: the root of an extent btree with three records, in units.
const DATA_MIN: usize = 7;
/// Smallest attribute fork: the root of an extent btree with two records, in bytes.
const ATTR_MIN: usize = 36;

/// Returns the bytes of both forks together.
pub fn literal_len(geo: &Geometry) -> usize {
    geo.inodesize().saturating_sub(Layout::V5.inode_core)
}

/// Returns the default fork offset of an inode, in units of 8 bytes.
pub fn usual(need: DataNeed) -> u8 {
    let units = if need == DataNeed::Device { 1 } else { DEFAULT };
    u8::try_from(units).unwrap_or(u8::MAX)
}

/// Returns the fork offset for an attribute fork of `want` bytes, in units of 8 bytes into the
/// literal area; `None` if the data fork's need leaves less.
pub fn choose(geo: &Geometry, need: DataNeed, want: usize) -> Option<u8> {
    let literal = literal_len(geo);
    let most = literal.saturating_sub(ATTR_MIN) / UNIT;
    let (least, usual) = match need {
        DataNeed::Device => (1, 1),
        DataNeed::Inline(bytes) => (bytes.div_ceil(UNIT).max(DATA_MIN), DEFAULT),
        DataNeed::Btree => (DEFAULT, DEFAULT),
    };
    let capacity = literal.checked_sub(want)? / UNIT;
    let usual = usual.max(least).min(most);
    // A device's fork is not moved.
    let offset = if need == DataNeed::Device { usual } else { usual.min(capacity) };
    let fits = offset >= least && offset <= capacity;
    if fits { u8::try_from(offset).ok() } else { None }
}

/// Returns the maximum size of a data fork beside attributes, in bytes.
pub fn data_max(geo: &Geometry) -> usize {
    (literal_len(geo).saturating_sub(ATTR_MIN) / UNIT).saturating_mul(UNIT)
}

/// Returns the fork offset for an attribute fork with blocks of its own; `None` if the data fork
/// needs more than [`data_max`].
pub fn for_blocks(geo: &Geometry, need: DataNeed) -> Option<u8> {
    choose(geo, need, ATTR_MIN)
}
