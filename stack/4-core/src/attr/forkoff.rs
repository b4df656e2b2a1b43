//! The offset of the attribute fork within an inode.
//!
//! Linux accepts any offset that leaves the data fork what it needs, and each fork the space for
//! the root of an extent btree. Its own choice, and ours, is behind 192 bytes of data fork, or
//! before or behind that if it makes space for a short form.

use xfskit_format::Layout;
use xfskit_units::Geometry;

/// What the data fork needs of the inode's literal area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataNeed {
    /// A device number, or nothing for a pipe or a socket.
    Device,
    /// This many bytes of content or extent records.
    Inline(usize),
    /// The root of an extent btree, which takes what it gets.
    Btree,
}

/// forkoff counts in units of this many bytes.
const UNIT: usize = 8;
/// Data fork of an inode whose forks have no special wishes, in units.
const DEFAULT: usize = 24;
/// Smallest data fork: the root of an extent btree with three records, in units.
const DATA_MIN: usize = 7;
/// Smallest attribute fork: the root of an extent btree with two records, in bytes.
const ATTR_MIN: usize = 36;

/// Bytes of both forks together.
pub(crate) fn literal_len(geo: &Geometry) -> usize {
    geo.inodesize().saturating_sub(Layout::V5.inode_core)
}

/// Where the attribute fork of an inode without special wishes begins, in units of 8 bytes.
pub(crate) fn usual(need: DataNeed) -> u8 {
    let units = if need == DataNeed::Device { 1 } else { DEFAULT };
    u8::try_from(units).unwrap_or(u8::MAX)
}

/// Where an attribute fork begins that wants `want` bytes, in units of 8 bytes into the literal
/// area; `None` where the data fork's need leaves less.
pub(crate) fn choose(geo: &Geometry, need: DataNeed, want: usize) -> Option<u8> {
    let literal = literal_len(geo);
    let most = literal.saturating_sub(ATTR_MIN) / UNIT;
    let (least, usual) = match need {
        DataNeed::Device => (1, 1),
        DataNeed::Inline(bytes) => (bytes.div_ceil(UNIT).max(DATA_MIN), DEFAULT),
        DataNeed::Btree => (DEFAULT, DEFAULT),
    };
    let room = literal.checked_sub(want)? / UNIT;
    let usual = usual.max(least).min(most);
    // A device's fork is not moved.
    let offset = if need == DataNeed::Device { usual } else { usual.min(room) };
    let fits = offset >= least && offset <= room;
    if fits { u8::try_from(offset).ok() } else { None }
}

/// Bytes that a data fork beside attributes has at most.
pub fn data_max(geo: &Geometry) -> usize {
    literal_len(geo).saturating_sub(ATTR_MIN) / UNIT * UNIT
}

/// Where an attribute fork with blocks of its own begins; `None` where the data fork needs more
/// than [`data_max`].
pub(crate) fn for_blocks(geo: &Geometry, need: DataNeed) -> Option<u8> {
    choose(geo, need, ATTR_MIN)
}
