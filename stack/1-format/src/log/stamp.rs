//! The offsets of CRC, LSN and UUID in a block of metadata, determined by its magic alone.
//!
//! Recovery uses them twice. The LSN on disk tells whether a logged change is already in place.
//! When a changed buffer is written, LSN and CRC must be stamped again, because the journal holds
//! stale ones. Version 4 has neither.

use xfskit_units::{Geometry, Lsn};

use super::item::buf::BufType;
use crate::bytes;

/// The offsets of the fields of a self-describing block, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// CRC32c, little-endian.
    pub crc: usize,
    /// LSN of the last write.
    pub lsn: usize,
    /// UUID of the volume's metadata.
    pub uuid: usize,
    /// The type of buffer that such a block is logged as.
    pub buf_type: BufType,
}

impl Stamp {
    const fn new(crc: usize, lsn: usize, uuid: usize, buf_type: BufType) -> Self {
        Self { crc, lsn, uuid, buf_type }
    }

    /// Returns the offsets in `block`; `None` on version 4 and for blocks without such fields, such
    /// as inode clusters.
    pub fn of(block: &[u8], geo: &Geometry) -> Option<Self> {
        if !geo.v5() {
            return None;
        }
        let found = match &bytes::array::<4>(block, 0)? {
            b"XFSB" => {
                let uuid = if geo.features.meta_uuid() { 248 } else { 32 };
                Self::new(224, 240, uuid, BufType::Superblock)
            }
            b"XAGF" => Self::new(216, 208, 64, BufType::Agf),
            b"XAGI" => Self::new(312, 320, 296, BufType::Agi),
            b"XAFL" => Self::new(32, 24, 8, BufType::Agfl),
            b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" => {
                Self::new(52, 24, 32, BufType::Btree)
            }
            b"BMA3" => Self::new(64, 32, 40, BufType::Btree),
            b"XSLM" => Self::new(12, 48, 16, BufType::Symlink),
            b"XDB3" => Self::new(4, 16, 24, BufType::DirBlock),
            b"XDD3" => Self::new(4, 16, 24, BufType::DirData),
            b"XDF3" => Self::new(4, 16, 24, BufType::DirFree),
            _ => Self::new(12, 24, 32, da_type(bytes::be16(block, 8)?)?),
        };
        Some(found)
    }

    /// Returns the LSN in `block`.
    pub fn lsn(&self, block: &[u8]) -> Lsn {
        Lsn(bytes::be64(block, self.lsn).unwrap_or(0))
    }

    /// Returns true if `block` belongs to the volume `geo`.
    pub fn belongs(&self, block: &[u8], geo: &Geometry) -> bool {
        bytes::array(block, self.uuid) == Some(*geo.meta_uuid.as_bytes())
    }

    /// Returns true if the CRC in `block` is right.
    pub fn is_whole(&self, block: &[u8]) -> bool {
        xfskit_crc::verify(block, self.crc)
    }

    /// Writes `lsn` and then the CRC of all of `block`.
    pub fn write(&self, block: &mut [u8], lsn: Lsn) {
        let end = self.lsn.saturating_add(8);
        if let Some(field) = block.get_mut(self.lsn..end) {
            field.copy_from_slice(&lsn.0.to_be_bytes());
            xfskit_crc::update(block, self.crc);
        }
    }
}

/// Returns the type of a block of a hash tree, whose two-byte magic follows its siblings.
fn da_type(magic: u16) -> Option<BufType> {
    Some(match magic {
        0x3df1 => BufType::DirLeaf1,
        0x3dff => BufType::DirLeafn,
        0x3ebe => BufType::DaNode,
        0x3bee => BufType::AttrLeaf,
        _ => return None,
    })
}
