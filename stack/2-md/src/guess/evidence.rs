//! XFS structures that carry their own address.
//!
//! Allocation group headers carry their group's number, inodes their inode number, blocks of trees,
//! directories, attributes and symbolic links the sector they were written to, and each record of
//! the journal its block there. Each one that is found on a member is evidence: *this piece of the
//! array lies here*. Blocks of version 5 carry the volume's UUID, too. On version 4 only group
//! headers and journal records count.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, ByteOffset, Daddr, index};

use super::MemberDevices;

/// Bytes read from a member at once.
const PIECE: usize = 1 << 20;
/// Volumes that are counted separately.
const VOLUMES_MAX: usize = 64;
/// Blocks that are kept.
const BLOCKS_MAX: usize = 8192;

/// The bit of a superblock's `features_incompat` for metadata with a UUID of its own.
const INCOMPAT_META_UUID: u32 = 1 << 2;

/// The superblock fields that are needed to interpret other structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    uuid: [u8; 16],
    /// The UUID in metadata blocks: another one if the volume's was changed.
    meta_uuid: [u8; 16],
    is_v5: bool,
    blocklog: u32,
    inodelog: u32,
    inopblog: u32,
    agblklog: u32,
    agblocks: u64,
    agcount: u64,
    sectors_per_header: u64,
    rootino: u64,
    /// The journal's first block, and its size in blocks; 0 for an external journal.
    logstart: u64,
    logblocks: u64,
}

/// An address that a block claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A sector of the array, from a partition table.
    Array(ArraySector),
    /// A sector of the volume, wherever in the array the volume lies.
    Volume(ArraySector),
    /// A sector of LVM's physical volume with this id, wherever in the array that lies.
    PhysicalVolume(PvId, ArraySector),
}

/// The id of a physical volume: 32 characters.
pub type PvId = [u8; 32];

/// A block with a self-address, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FoundBlock {
    /// The address that it claims.
    pub address: Address,
    /// The member it lies on.
    pub member: usize,
    /// Its sector on that member.
    pub at: Daddr,
}

/// A possible location of the volume in the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The part of the array that the volume fills, as written after the `#` of a target; empty for
    /// the whole array.
    pub part: String,
    /// The pieces in the volume's order: their sectors, and where they begin in the array.
    pub pieces: Vec<(u64, ArraySector)>,
    /// Where physical volumes begin in the array, if the volume is a logical volume.
    pub physical_volumes: Vec<(PvId, ArraySector)>,
}

impl Placement {
    /// Returns the placement of a volume that begins where the array does.
    pub fn whole() -> Self {
        Self::of(String::new(), vec![(u64::MAX, ArraySector(0))])
    }

    /// Returns the placement of a volume in these pieces of the array.
    pub fn of(part: String, pieces: Vec<(u64, ArraySector)>) -> Self {
        Self { part, pieces, physical_volumes: Vec::new() }
    }

    /// Returns the sector of the array that an address means; `None` if the placement has no such
    /// address.
    pub fn sector(&self, address: Address) -> Option<ArraySector> {
        let mut rest = match address {
            Address::Array(at) => return Some(at),
            Address::Volume(at) => at.0,
            Address::PhysicalVolume(id, at) => {
                let (_, start) = self.physical_volumes.iter().find(|(known, _)| *known == id)?;
                return start.checked_add(at.0);
            }
        };
        for (len, start) in &self.pieces {
            match rest.checked_sub(*len) {
                None => return start.checked_add(rest),
                Some(behind) => rest = behind,
            }
        }
        None
    }
}

/// Receives the progress of a scan in bytes, or of a search in geometries (done and total), and
/// decides whether it continues.
pub type ScanProgress<'a> = dyn Fn(u64, u64) -> ControlFlow<()> + 'a;

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_be_bytes)
}

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_be_bytes)
}

impl Volume {
    /// Reads the superblock at the start of `bytes`, if there is one.
    fn read(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(b"XFSB") {
            return None;
        }
        let uuid = bytes.get(32..48)?.try_into().ok()?;
        let is_v5 = be16(bytes, 100)? & 0xf == 5;
        let has_meta_uuid = is_v5 && be32(bytes, 216)? & INCOMPAT_META_UUID != 0;
        let meta_uuid = if has_meta_uuid { bytes.get(248..264)?.try_into().ok()? } else { uuid };
        let log = |at: usize| bytes.get(at).map(|log| u32::from(*log));
        let (blocklog, sectlog, inodelog) = (log(120)?, log(121)?, log(122)?);
        let (inopblog, agblklog) = (log(123)?, log(124)?);
        let (agblocks, agcount) = (u64::from(be32(bytes, 84)?), u64::from(be32(bytes, 88)?));
        let (logstart, rootino) = (be64(bytes, 48)?, be64(bytes, 56)?);
        let logblocks = u64::from(be32(bytes, 96)?);
        let possible = (9..=16).contains(&blocklog)
            && (9..=15).contains(&sectlog)
            && inodelog + inopblog == blocklog
            && agblklog <= 32
            && agblocks > 0
            && agcount > 0;
        let sectors_per_header = 1 << (sectlog - 9).min(6);
        possible.then_some(Self {
            uuid,
            meta_uuid,
            is_v5,
            blocklog,
            inodelog,
            inopblog,
            agblklog,
            agblocks,
            agcount,
            sectors_per_header,
            rootino,
            logstart,
            logblocks,
        })
    }

    /// Returns the sectors of the headers of at most `groups` groups, and of the root directory's
    /// inode.
    pub fn landmarks(&self, groups: u64) -> Vec<ArraySector> {
        let starts = (0..self.agcount.min(groups)).filter_map(|agno| self.block(agno, 0));
        let headers =
            starts.flat_map(|at| [1, 2].map(|h| at.saturating_add(h * self.sectors_per_header)));
        headers.chain(self.inode_at(self.rootino)).collect()
    }

    /// Returns the volume's size, in sectors; that of a last group that is as large as the others.
    pub(super) fn sectors(&self) -> u64 {
        self.agcount.saturating_mul(self.agblocks).saturating_mul(1 << (self.blocklog - 9))
    }

    /// Returns the sector of block `agbno` of group `agno`.
    fn block(&self, agno: u64, agbno: u64) -> Option<ArraySector> {
        let inside = agno < self.agcount && agbno < self.agblocks;
        let block = agno.checked_mul(self.agblocks)?.checked_add(agbno)?;
        inside.then_some(())?;
        block.checked_mul(1 << (self.blocklog - 9)).map(ArraySector)
    }

    /// Returns the sector that the structure at the start of `bytes`, one sector, claims.
    pub fn address(&self, bytes: &[u8]) -> Option<ArraySector> {
        let group = |header: u64| {
            let start = self.block(u64::from(be32(bytes, 8)?), 0)?;
            start.checked_add(header * self.sectors_per_header)
        };
        let matches = |at: usize| bytes.get(at..at + 16) == Some(self.meta_uuid.as_slice());
        let has_uuid = |at: usize| bytes.get(at..at + 16) == Some(self.uuid.as_slice());
        let own = |at: usize, uuid: usize| {
            matches(uuid).then(|| be64(bytes, at).filter(|at| *at < 1 << 54).map(ArraySector))?
        };
        match bytes.get(..4)? {
            b"XAGF" if matches(64) || !self.is_v5 => group(1),
            b"XAGI" if matches(296) || !self.is_v5 => group(2),
            b"XAFL" if matches(8) => {
                let start = self.block(u64::from(be32(bytes, 4)?), 0)?;
                start.checked_add(3 * self.sectors_per_header)
            }
            // Empty records, with which a mount clears what is ahead of the head, are no evidence:
            // the sum of three of them, as P holds it, is the same as another one.
            [0xfe, 0xed, 0xba, 0xbe] if has_uuid(304) && be32(bytes, 12)? > 0 => {
                self.log_block(be32(bytes, 20)?)
            }
            b"XSLM" | b"XARM" => own(40, 16),
            b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" => own(16, 32),
            b"BMA3" => own(24, 40),
            b"XDB3" | b"XDD3" | b"XDF3" => own(8, 24),
            magic if magic.starts_with(b"IN") => self.inode(bytes),
            _ if matches!(be16(bytes, 8)?, 0x3df1 | 0x3dff | 0x3ebe | 0x3bee) => own(16, 32),
            _ => None,
        }
    }

    /// Returns the sector of a block of the journal. These have 512 bytes each.
    fn log_block(&self, block: u32) -> Option<ArraySector> {
        let agbno = self.logstart & self.agbno_mask();
        let blocks = self.logblocks.checked_mul(1 << (self.blocklog - 9))?;
        (self.logstart > 0 && u64::from(block) < blocks).then_some(())?;
        self.block(self.logstart >> self.agblklog, agbno)?.checked_add(u64::from(block))
    }

    fn agbno_mask(&self) -> u64 {
        (1 << self.agblklog) - 1
    }

    /// Returns the sector that the inode at the start of `bytes` claims.
    fn inode(&self, bytes: &[u8]) -> Option<ArraySector> {
        let matches = bytes.get(4) == Some(&3) && bytes.get(160..176)? == self.meta_uuid;
        self.inode_at(be64(bytes, 152).filter(|_| matches)?)
    }

    /// Returns the sector of inode `ino`.
    fn inode_at(&self, ino: u64) -> Option<ArraySector> {
        let slot = ino & ((1 << self.inopblog) - 1);
        let block = ino >> self.inopblog;
        let agbno = block & self.agbno_mask();
        let start = self.block(block >> self.agblklog, agbno)?;
        start.checked_add((slot << self.inodelog) / 512)
    }
}

/// Volumes, with the number of superblocks found of each.
#[derive(Debug, Default)]
pub struct Volumes(Vec<(Volume, usize)>);

impl Volumes {
    /// Counts a superblock if one begins here.
    pub fn visit(&mut self, bytes: &[u8]) {
        let Some(volume) = Volume::read(bytes) else { return };
        let has_room = self.0.len() < VOLUMES_MAX;
        match self.0.iter_mut().find(|(known, _)| known.uuid == volume.uuid) {
            Some((_, count)) => *count += 1,
            None if has_room => self.0.push((volume, 1)),
            None => {}
        }
    }

    /// Returns the volume with the most superblocks; the first one found if several have as many.
    pub fn best(&self) -> Option<Volume> {
        let most = self.0.iter().map(|(_, count)| *count).max()?;
        self.0.iter().find(|(_, count)| *count == most).map(|(volume, _)| *volume)
    }
}

/// A bounded sample of blocks. The copies of a block are kept or dropped together.
#[derive(Debug, Default)]
pub struct FoundBlocks {
    /// Blocks, with a hash of what they hold.
    kept: Vec<(FoundBlock, u64)>,
    /// One of `2^sparseness` addresses is kept.
    sparseness: u32,
}

impl FoundBlocks {
    /// Adds a block that begins with these bytes, or drops it to keep the sample bounded.
    pub fn push(&mut self, block: FoundBlock, bytes: &[u8]) {
        if self.is_kept(block.address) {
            self.kept.push((block, hash(bytes)));
        }
        while self.kept.len() > BLOCKS_MAX && self.sparseness < u64::BITS {
            self.sparseness += 1;
            let kept = std::mem::take(&mut self.kept);
            self.kept = kept.into_iter().filter(|(block, _)| self.is_kept(block.address)).collect();
        }
        self.kept.truncate(BLOCKS_MAX);
    }

    fn is_kept(&self, address: Address) -> bool {
        hash(address).trailing_zeros() >= self.sparseness
    }

    /// Returns the sample, without addresses that blocks of different content claim. The sum of an
    /// odd number of inodes, as P may hold it, looks like one more inode, and has a valid checksum.
    pub fn into_kept(mut self) -> Vec<FoundBlock> {
        self.kept.sort_by_key(|(block, content)| (block.address, *content));
        let claims = self.kept.chunk_by(|(one, _), (other, _)| one.address == other.address);
        let agreed = claims.filter(|claims| claims.iter().all(|claim| claim.1 == claims[0].1));
        agreed.flatten().map(|(block, _)| *block).collect()
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns where the pieces of a member of `size` bytes begin that are read within `limit` bytes.
/// Three quarters of the limit are read from the start of a larger member, and the other quarter in
/// pieces from all over the rest, with the last one.
fn pieces(size: u64, limit: u64) -> impl Iterator<Item = u64> {
    let piece = PIECE as u64;
    let (all, read) = (size.div_ceil(piece), limit.div_ceil(piece).max(1));
    let first = if all <= read { all } else { read - read / 4 };
    let spread = read.min(all) - first;
    let place = move |i: u64| {
        let rest = u128::from(all - first) * u128::from(i + 1) / u128::from(spread.max(1));
        first + u64::try_from(rest).unwrap_or(u64::MAX) - 1
    };
    (0..first).chain((0..spread).map(place)).map(move |i| i * piece)
}

/// Passes the sectors within `limit` bytes of each member to `visit`, except sectors of zeroes.
/// Skips what cannot be read.
pub fn scan(
    members: &MemberDevices,
    limit: u64,
    progress: &ScanProgress<'_>,
    visit: &mut dyn FnMut(usize, Daddr, &[u8]),
) -> ControlFlow<()> {
    let size = |device: &Arc<dyn BlockDevice>| device.size().0;
    let total = members.iter().flatten().map(|device| size(device).min(limit)).sum();
    let (mut piece, mut done) = (vec![0; PIECE], 0);
    for (member, device) in members.iter().enumerate() {
        let Some(device) = device else { continue };
        for at in pieces(size(device), limit) {
            progress(done.min(total), total)?;
            let part = &mut piece[..index((size(device) - at).min(PIECE as u64))];
            done += part.len() as u64;
            if device.read_at(ByteOffset(at), part).is_err() {
                continue;
            }
            for (i, sector) in (0u64..).zip(part.chunks_exact(512)) {
                if sector.iter().any(|byte| *byte != 0) {
                    visit(member, Daddr(at / 512 + i), sector);
                }
            }
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_records_of_a_journal_are_no_evidence() {
        let mut sb = [0; 512];
        sb[..4].copy_from_slice(b"XFSB");
        sb[32..48].fill(7);
        // A journal of 1000 blocks at block 64; four groups of 10,000 blocks of 4096 bytes.
        for (at, value) in [(48, 0), (52, 64), (84, 10_000), (88, 4), (96, 1000), (100, 5)] {
            sb[at..at + 4].copy_from_slice(&u32::to_be_bytes(value));
        }
        (sb[101], sb[103]) = (5, 0);
        sb[120..125].copy_from_slice(&[12, 9, 9, 3, 14]);
        let volume = Volume::read(&sb).unwrap();
        let record = |block: u32, len: u32| {
            let mut sector = [0; 512];
            sector[..4].copy_from_slice(&[0xfe, 0xed, 0xba, 0xbe]);
            sector[12..16].copy_from_slice(&len.to_be_bytes());
            sector[20..24].copy_from_slice(&block.to_be_bytes());
            sector[304..320].fill(7);
            sector
        };
        assert_eq!(volume.address(&record(10, 512)), Some(ArraySector(64 * 8 + 10)));
        assert_eq!(volume.address(&record(10, 0)), None);
        let sum: Vec<u8> = (0..512)
            .map(|i| [4, 5, 6].map(|b| record(b, 0)[i]).iter().fold(0, |a, b| a ^ b))
            .collect();
        assert_eq!(sum, record(7, 0), "a sum of three is the same as another record");
    }

    #[test]
    fn pieces_come_from_all_over_a_large_member() {
        let mib = 1 << 20;
        let starts = |size: u64, limit: u64| -> Vec<u64> {
            pieces(size * mib - 512, limit * mib).map(|at| at / mib).collect()
        };
        assert_eq!(starts(4, 8), [0, 1, 2, 3]);
        assert_eq!(starts(8, 8), (0..8).collect::<Vec<_>>());
        assert_eq!(starts(100, 8), [0, 1, 2, 3, 4, 5, 52, 99]);
        assert_eq!(starts(100, 0), [0]);
        assert_eq!(starts(1 << 30, 4).last(), Some(&((1 << 30) - 1)));
    }
}
