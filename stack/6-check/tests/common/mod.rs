//! Kept images that the kernel filled, their blocks, and faults with checksums made right.
#![allow(unreachable_pub, clippy::unwrap_used)]

pub mod planted;

use std::collections::BTreeSet;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_check::{Finding, Options, Report, check};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::sb::Superblock;
use xfskit_test_support::kept;
use xfskit_units::{AgNumber, ByteOffset, Geometry};

/// An unpacked image.
pub struct Image {
    pub bytes: Vec<u8>,
    pub geo: Geometry,
    base: Arc<dyn BlockDevice>,
}

/// A metadata structure: its offset, its length, and the offset of its CRC.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub offset: usize,
    pub len: usize,
    pub crc: Option<usize>,
}

impl Image {
    /// Unpacks the kept image `name`.
    pub fn kept(name: &str) -> Self {
        Self::of(kept::unpack(name))
    }

    /// Takes the bytes of a volume.
    pub fn of(bytes: Vec<u8>) -> Self {
        let geo = Superblock::verify(&bytes[..512], AgNumber(0)).unwrap().geometry();
        Self { geo, base: Arc::new(kept::memory(&bytes)), bytes }
    }

    /// Returns a view of the image that can be damaged.
    pub fn copy(&self) -> OverlayDevice {
        OverlayDevice::new(Arc::clone(&self.base))
    }

    fn with_crc(&self, offset: usize, len: usize, crc: usize) -> Block {
        Block { offset, len, crc: self.geo.v5().then_some(crc) }
    }

    /// Returns sector `index` of group `agno`.
    pub fn header(&self, agno: u32, index: u32) -> Block {
        let daddr = self.geo.ag_header_daddr(AgNumber(agno), index);
        let crc = [224, 216, 312, 32][index as usize];
        self.with_crc(usize::try_from(daddr.0).unwrap() * 512, self.geo.sectsize(), crc)
    }

    /// Returns the `nth` structure whose first bytes are `magic`.
    pub fn magic(&self, magic: &[u8], nth: usize) -> Block {
        let mut found = self.metadata();
        found.retain(|block| self.bytes[block.offset..].starts_with(magic));
        found[nth]
    }

    /// Returns the `nth` structure whose bytes from 8 on are `magic`: a hash leaf or node.
    pub fn da(&self, magic: u16, nth: usize) -> Block {
        let mut found = self.metadata();
        found.retain(|block| {
            let head = &self.bytes[block.offset..];
            head[8..10] == magic.to_be_bytes() && !head.starts_with(b"X")
        });
        found[nth]
    }

    /// Returns the first inode that `fits` accepts.
    pub fn inode(&self, fits: impl Fn(&Dinode<'_>) -> bool) -> Block {
        let mut found = self.metadata();
        found.retain(|block| {
            let bytes = &self.bytes[block.offset..];
            bytes.starts_with(b"IN")
                && Dinode::parse(bytes, &self.geo).is_some_and(|inode| fits(&inode))
        });
        found[0]
    }

    /// Returns a regular file with `extents` extents in its inode.
    pub fn file(&self, extents: u64) -> Block {
        self.inode(|i| {
            i.is_regular() && i.nextents() == extents && i.format() == Some(Format::Extents)
        })
    }

    /// Returns every metadata structure that is known by its magic.
    pub fn metadata(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let (blocksize, dirblk) = (self.geo.blocksize(), self.geo.dirblksize());
        let log = self.geo.log_daddr().map_or(0, |d| usize::try_from(d.0).unwrap() * 512);
        let log_len = self.geo.logblocks as usize * blocksize;
        for offset in (0..self.bytes.len()).step_by(512) {
            let bytes = &self.bytes[offset..];
            if bytes.len() < blocksize || (log..log + log_len).contains(&offset) {
                continue;
            }
            let block = offset % blocksize == 0;
            let block = match &bytes[..4] {
                b"XFSB" => self.with_crc(offset, 512, 224),
                b"XAGF" => self.with_crc(offset, 512, 216),
                b"XAGI" => self.with_crc(offset, 512, 312),
                b"XAFL" => self.with_crc(offset, 512, 32),
                b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" if block => {
                    self.with_crc(offset, blocksize, 52)
                }
                b"ABTB" | b"ABTC" | b"IABT" | b"BMAP" if block => {
                    Block { offset, len: blocksize, crc: None }
                }
                b"BMA3" if block => self.with_crc(offset, blocksize, 64),
                b"XDB3" | b"XDD3" | b"XDF3" | b"XD2B" | b"XD2D" | b"XD2F" if block => {
                    self.with_crc(offset, dirblk, 4)
                }
                b"XARM" | b"XSLM" if block => self.with_crc(offset, blocksize, 12),
                [b'I', b'N', ..] if offset % self.geo.inodesize() == 0 => {
                    self.with_crc(offset, self.geo.inodesize(), 100)
                }
                _ => match u16::from_be_bytes([bytes[8], bytes[9]]) {
                    0x3df1 | 0x3dff | 0xd2f1 | 0xd2ff if block => self.with_crc(offset, dirblk, 12),
                    0x3bee | 0xfbee if block => self.with_crc(offset, blocksize, 12),
                    0x3ebe | 0xfebe if block => self.with_crc(offset, self.node_len(bytes), 12),
                    _ => continue,
                },
            };
            blocks.push(block);
        }
        blocks
    }

    /// Returns the length of a node: a directory block or a filesystem block, depending on its
    /// children.
    fn node_len(&self, bytes: &[u8]) -> usize {
        let first = if self.geo.v5() { 64 } else { 16 };
        let before = u32::from_be_bytes(bytes[first + 4..first + 8].try_into().unwrap());
        if before >= self.geo.dir_leafblk().0 {
            self.geo.dirblksize()
        } else {
            self.geo.blocksize()
        }
    }

    /// Returns the image with `change` applied to the structure `block` and its checksum made
    /// right.
    pub fn damaged(&self, block: Block, change: impl FnOnce(&mut [u8])) -> OverlayDevice {
        let dev = self.copy();
        damage(&dev, block, change);
        dev
    }
}

/// Damages one more structure of `dev`.
pub fn damage(dev: &OverlayDevice, block: Block, change: impl FnOnce(&mut [u8])) {
    let at = ByteOffset(block.offset as u64);
    let mut bytes = vec![0; block.len];
    dev.read_at(at, &mut bytes).unwrap();
    change(&mut bytes);
    if let Some(crc) = block.crc {
        xfskit_crc::update(&mut bytes, crc);
    }
    dev.write_at(at, &bytes).unwrap();
}

/// Checks `dev`. Returns the report and all findings.
pub fn check_all(dev: &dyn BlockDevice) -> (Report, Vec<Finding>) {
    let mut findings = Vec::new();
    let options = Options { threads: 2, ..Options::default() };
    let report = check(dev, None, &options, &mut |finding| findings.push(finding)).unwrap();
    (report, findings)
}

/// Returns the ids of all findings of `dev`.
pub fn ids(dev: &dyn BlockDevice) -> BTreeSet<&'static str> {
    check_all(dev).1.iter().map(|finding| finding.corruption.check.0).collect()
}
