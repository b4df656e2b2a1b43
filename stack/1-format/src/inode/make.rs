//! Writes inodes of version 3.

use xfskit_units::{Geometry, Ino, Lsn};
use zerocopy::FromBytes;

use super::{CRC_OFFSET, CoreV3, MAGIC, NULLAGINO};

/// An inode of version 3 whose bytes may be changed. [`stamp`] it when done.
#[derive(Debug)]
pub struct InodeMut<'a> {
    /// The core.
    pub core: &'a mut CoreV3,
    /// Both forks.
    pub literal: &'a mut [u8],
}

impl<'a> InodeMut<'a> {
    /// Opens `bytes` (one inode) for changes; `None` if they are too few.
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        let (core, literal) = CoreV3::mut_from_prefix(bytes).ok()?;
        Some(Self { core, literal })
    }
}

/// Writes the CRC of a finished inode of version 3.
///
/// # Panics
/// If `bytes` is no longer than a core, which is the caller's mistake.
pub fn stamp(bytes: &mut [u8]) {
    xfskit_crc::update(bytes, CRC_OFFSET);
}

/// Returns true if the CRC of an inode of version 3 is right.
pub fn is_whole(bytes: &[u8]) -> bool {
    xfskit_crc::verify(bytes, CRC_OFFSET)
}

/// Writes the LSN of the last write, then the CRC, of an inode of version 3.
///
/// # Panics
/// Those of [`stamp`].
pub fn stamp_lsn(bytes: &mut [u8], lsn: Lsn) {
    if let Some(inode) = InodeMut::new(bytes) {
        inode.core.lsn = lsn.0.into();
    }
    stamp(bytes);
}

/// Does what [`stamp_lsn`] does, for an inode whose forks are known to be all zeroes.
///
/// # Panics
/// Those of [`stamp`].
pub fn stamp_empty_forks(bytes: &mut [u8], lsn: Lsn) {
    if let Some(inode) = InodeMut::new(bytes) {
        inode.core.lsn = lsn.0.into();
    }
    xfskit_crc::update_padded(bytes, CRC_OFFSET, size_of::<CoreV3>());
}

/// Initializes `bytes` as an inode that was never used: magic, version, generation, identity and
/// CRC, everything else 0. New chunks are filled with these, and every new inode starts from one.
///
/// # Panics
/// If `bytes` is shorter than a core, which is the caller's mistake.
pub fn template(bytes: &mut [u8], geo: &Geometry, ino: Ino, generation: u32) {
    template_unstamped(bytes, geo, ino, generation);
    stamp(bytes);
}

/// Does what [`template`] does, without the CRC: for chunks in memory, which are stamped when they
/// are written.
pub fn template_unstamped(bytes: &mut [u8], geo: &Geometry, ino: Ino, generation: u32) {
    bytes.fill(0);
    if let Some(inode) = InodeMut::new(bytes) {
        inode.core.core.magic = MAGIC.into();
        inode.core.core.version = 3;
        inode.core.core.generation = generation.into();
        inode.core.core.next_unlinked = NULLAGINO.into();
        inode.core.inumber = ino.0.into();
        inode.core.uuid = *geo.meta_uuid.as_bytes();
    }
}
