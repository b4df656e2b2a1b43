//! XFS structures that say where they belong.
//!
//! Metadata of XFS carries its own address: allocation group headers their group's number, inodes
//! their inode number, blocks of trees and directories the sector they were written to. Found on a
//! member, each is a witness: *this piece of the array lies here*. Blocks of version 5 carry the
//! volume's UUID too; without it (version 4) only group headers testify.

use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, Daddr};

/// Bytes read from a member at once.
const PIECE: usize = 1 << 20;

/// What a superblock says that the others need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    uuid: [u8; 16],
    blocklog: u32,
    inodelog: u32,
    inopblog: u32,
    agblklog: u32,
    agblocks: u64,
    agcount: u64,
    sectors_per_header: u64,
    rootino: u64,
}

/// A piece of the array, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    /// Where it belongs.
    pub sector: ArraySector,
    /// Which member it lies on.
    pub member: usize,
    /// Where on that member, from its first sector.
    pub at: Daddr,
}

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
    /// What the superblock at the start of `bytes` says, where there is one.
    fn read(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(b"XFSB") {
            return None;
        }
        let uuid = bytes.get(32..48)?.try_into().ok()?;
        let log = |at: usize| bytes.get(at).map(|log| u32::from(*log));
        let (blocklog, sectlog, inodelog) = (log(120)?, log(121)?, log(122)?);
        let (inopblog, agblklog) = (log(123)?, log(124)?);
        let (agblocks, agcount) = (u64::from(be32(bytes, 84)?), u64::from(be32(bytes, 88)?));
        let rootino = be64(bytes, 56)?;
        let possible = (9..=16).contains(&blocklog)
            && (9..=15).contains(&sectlog)
            && inodelog + inopblog == blocklog
            && agblklog <= 32
            && agblocks > 0
            && agcount > 0;
        let sectors_per_header = 1 << (sectlog - 9).min(6);
        possible.then_some(Self {
            uuid,
            blocklog,
            inodelog,
            inopblog,
            agblklog,
            agblocks,
            agcount,
            sectors_per_header,
            rootino,
        })
    }

    /// Where headers of at most `groups` groups and the root directory's inode belong.
    pub fn landmarks(&self, groups: u64) -> Vec<ArraySector> {
        let starts = (0..self.agcount.min(groups)).filter_map(|agno| self.block(agno, 0));
        let headers =
            starts.flat_map(|at| [1, 2].map(|h| at.saturating_add(h * self.sectors_per_header)));
        headers.chain(self.inode_at(self.rootino)).collect()
    }

    /// The sector of block `agbno` of group `agno`.
    fn block(&self, agno: u64, agbno: u64) -> Option<ArraySector> {
        let inside = agno < self.agcount && agbno < self.agblocks;
        let block = agno.checked_mul(self.agblocks)?.checked_add(agbno)?;
        inside.then_some(())?;
        block.checked_mul(1 << (self.blocklog - 9)).map(ArraySector)
    }

    /// Where the structure at the start of `bytes` belongs.
    pub fn home(&self, bytes: &[u8]) -> Option<ArraySector> {
        let group = |header: u64| {
            let start = self.block(u64::from(be32(bytes, 8)?), 0)?;
            start.checked_add(header * self.sectors_per_header)
        };
        let ours = |at: usize| bytes.get(at..at + 16) == Some(self.uuid.as_slice());
        let own = |at: usize, uuid: usize| {
            ours(uuid).then(|| be64(bytes, at).filter(|at| *at < 1 << 54).map(ArraySector))?
        };
        match bytes.get(..4)? {
            b"XAGF" => group(1),
            b"XAGI" => group(2),
            b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" => own(16, 32),
            b"BMA3" => own(24, 40),
            b"XDB3" | b"XDD3" | b"XDF3" => own(8, 24),
            magic if magic.starts_with(b"IN") => self.inode(bytes),
            _ if matches!(be16(bytes, 8)?, 0x3df1 | 0x3dff | 0x3ebe | 0x3bee) => own(16, 32),
            _ => None,
        }
    }

    /// Where the inode at the start of `bytes` belongs.
    fn inode(&self, bytes: &[u8]) -> Option<ArraySector> {
        let ours = bytes.get(4) == Some(&3) && bytes.get(160..176)? == self.uuid;
        self.inode_at(be64(bytes, 152).filter(|_| ours)?)
    }

    /// The sector of inode `ino`.
    fn inode_at(&self, ino: u64) -> Option<ArraySector> {
        let slot = ino & ((1 << self.inopblog) - 1);
        let block = ino >> self.inopblog;
        let agbno = block & ((1 << self.agblklog) - 1);
        let start = self.block(block >> self.agblklog, agbno)?;
        start.checked_add((slot << self.inodelog) / 512)
    }
}

/// The volume whose superblock, of any group, is found first within `limit` bytes of each member.
pub fn volume(members: &[&dyn BlockDevice], limit: u64) -> Option<Volume> {
    let mut found = None;
    for member in members {
        scan(*member, limit, &mut |_, bytes| {
            found = found.or_else(|| Volume::read(bytes));
            found.is_none()
        });
        if found.is_some() {
            break;
        }
    }
    found
}

/// All witnesses of `volume` within `limit` bytes of each member.
pub fn witnesses(members: &[&dyn BlockDevice], volume: &Volume, limit: u64) -> Vec<Witness> {
    let mut found = Vec::new();
    for (member, device) in members.iter().enumerate() {
        scan(*device, limit, &mut |at, bytes| {
            let home = volume.home(bytes);
            found.extend(home.map(|sector| Witness { sector, member, at }));
            true
        });
    }
    found
}

/// Shows every sector within `limit` bytes to `see`, with what follows it, until that is enough. What
/// cannot be read is passed over.
fn scan(device: &dyn BlockDevice, limit: u64, see: &mut dyn FnMut(Daddr, &[u8]) -> bool) {
    let end = device.size().0.min(limit);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let part = &mut piece[..len];
        if device.read_at(xfskit_units::ByteOffset(at), part).is_ok() {
            for (i, sector) in (0u64..).zip(part.chunks_exact(512)) {
                // Nothing that testifies begins with a zero word, but trees of names: their magic is at 8.
                if sector[..12].iter().any(|byte| *byte != 0) && !see(Daddr(at / 512 + i), sector) {
                    return;
                }
            }
        }
        at += len as u64;
    }
}
