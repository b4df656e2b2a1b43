//! Finds copies of the superblock without the primary. Every group except the first begins with
//! one.
//!
//! A copy counts if its checksum is correct and its own geometry has a group at its address. The
//! search tries the likely starts of groups, cheapest first:
//!
//! 1. the headers beside the lost primary: AGF and AGI hold the group's length, and so may the
//!    remains of the primary;
//! 2. the sizes that mkfs chooses: the device in 2, 4, … equal groups, rounded to a stripe;
//! 3. every sector, up to `SCAN_MAX` bytes of data.
//!
//! Of several candidates, the search takes the one with which most other copies agree. It sums the
//! counters from the group headers, and searches group 0 for a root directory that the copy does
//! not name.

use xfskit_units::features::VersionNum;
use xfskit_units::{AgNumber, Geometry};
use zerocopy::IntoBytes;

use crate::agf::{self, Agf};
use crate::agi::{self, Agi};
use crate::bytes::{be16, be32, be64};
use crate::inode::FileType;
use crate::sb::{CRC_OFFSET, MAGIC, Superblock};
use crate::{Ctx, Location};

/// Most bytes of data searched for a copy, if no header locates the groups.
const SCAN_MAX: u64 = 1 << 30;
/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// Bytes searched around each size that mkfs may have chosen, because it rounds to stripe units.
const AROUND: u64 = 2 << 20;
/// Groups that mkfs divides a device into by default are powers of two up to this one.
const GROUPS_MAX: u64 = 128;
/// Other groups whose copies are compared with a candidate.
const COMPARED: u32 = 32;
/// Most sectors with the correct magic that are verified.
const VERIFIED_MAX: u32 = 4096;
/// Largest sector, in bytes.
const SECTOR_MAX: usize = 32768;
/// Bytes of group 0 that are searched for the root directory.
const ROOT_MAX: u64 = 64 << 20;

/// A device, as the search reads it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Size in bytes.
    pub size: u64,
    /// Fills a buffer from a byte offset. Returns false if that fails.
    pub read: &'a dyn Fn(u64, &mut [u8]) -> bool,
    /// Returns the next byte at or after an offset that may differ from zero.
    pub skip_hole: &'a dyn Fn(u64) -> u64,
}

impl Source<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        (self.read)(offset, buf)
    }
}

/// A superblock made from a copy.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The superblock as the primary should be: counters and root included.
    pub sb: Superblock,
    /// The group whose copy it is.
    pub agno: AgNumber,
    /// Copies that agree with it, itself included.
    pub agreeing: u32,
    /// Copies that were compared.
    pub compared: u32,
}

/// Finds the best copy of the superblock on `source`. `None` if there is none, as on a device
/// without XFS.
pub fn find_copy(source: &Source<'_>) -> Option<Rebuilt> {
    let mut search = Search { source, verified: 0, best: None };
    search.beside_the_primary();
    if !search.has_majority() {
        search.usual_sizes();
    }
    if !search.has_majority() {
        search.scan(0, source.size, SCAN_MAX);
    }
    let mut found = search.best?;
    complete(source, &mut found.sb);
    Some(found)
}

impl Superblock {
    /// Returns the sector of this superblock, with its checksum.
    pub fn to_sector(&self) -> Vec<u8> {
        let len = usize::from(self.sectsize.get()).clamp(512, SECTOR_MAX);
        let mut sector = vec![0; len];
        let used = self.used_len();
        if let (Some(to), Some(from)) = (sector.get_mut(..used), self.as_bytes().get(..used)) {
            to.copy_from_slice(from);
        }
        if self.version() == 5 {
            xfskit_crc::update(&mut sector, CRC_OFFSET);
        }
        sector
    }
}

struct Search<'a> {
    source: &'a Source<'a>,
    verified: u32,
    best: Option<Rebuilt>,
}

impl Search<'_> {
    /// Returns true if more than half of the copies agree with the best.
    fn has_majority(&self) -> bool {
        self.verified >= VERIFIED_MAX
            || self.best.as_ref().is_some_and(|best| best.agreeing > best.compared / 2)
    }

    /// Tries the starts of the second group that AGF, AGI or the remains of the primary give.
    fn beside_the_primary(&mut self) {
        let mut lengths = Vec::new();
        let mut start = vec![0; usize::try_from(self.source.size).unwrap_or(PIECE).min(PIECE)];
        if !self.source.read(0, &mut start) {
            return;
        }
        if let Some(sb) = Superblock::parse(&start).filter(|sb| sb.magicnum.get() == MAGIC) {
            lengths.push(sb.agblocks.get());
        }
        for sectlog in 9..=15 {
            for (sector, magic) in [(1usize, agf::MAGIC), (2, agi::MAGIC)] {
                let at = sector << sectlog;
                if be32(&start, at) == Some(magic) {
                    lengths.extend(be32(&start, at.saturating_add(12)));
                }
            }
        }
        lengths.sort_unstable();
        lengths.dedup();
        for length in lengths {
            for blocklog in 9..=16 {
                self.try_at(u64::from(length) << blocklog);
            }
        }
    }

    /// Tries the starts of the second group on a device divided by powers of two; for large groups,
    /// 1 TiB.
    fn usual_sizes(&mut self) {
        let size = self.source.size;
        let mut groups = 2;
        while groups <= GROUPS_MAX && !self.has_majority() {
            let near = size.checked_div(groups).unwrap_or(size);
            let from = near.saturating_sub(AROUND) & !511;
            self.scan(from, near.saturating_add(AROUND).min(size), u64::MAX);
            groups <<= 1;
        }
        let largest = (1u64 << 40).saturating_sub(AROUND);
        if !self.has_majority() {
            self.scan(largest, largest.saturating_add(2 * AROUND).min(size), u64::MAX);
        }
    }

    /// Tries every sector of `[from, to)`, until `budget` bytes of data were read.
    fn scan(&mut self, from: u64, to: u64, mut budget: u64) {
        let mut piece = vec![0; PIECE];
        let mut at = from;
        while at < to && budget > 0 && !self.has_majority() {
            at = (self.source.skip_hole)(at) & !511;
            let len = to.saturating_sub(at).min(PIECE as u64);
            let Some(buf) = usize::try_from(len).ok().and_then(|len| piece.get_mut(..len)) else {
                return;
            };
            if !buf.is_empty() && self.source.read(at, buf) {
                let sectors = (at..).step_by(512).zip(buf.chunks(512));
                let magics = sectors.filter(|(_, sector)| be32(sector, 0) == Some(MAGIC));
                for (offset, _) in magics.collect::<Vec<_>>() {
                    self.try_at(offset);
                }
            }
            at = at.saturating_add(len.max(512));
            budget = budget.saturating_sub(len);
        }
    }

    /// Takes the superblock at byte `offset` if it is a copy, and better than the best so far.
    fn try_at(&mut self, offset: u64) {
        if self.verified >= VERIFIED_MAX {
            return;
        }
        let Some((agno, sb)) = self.copy_at(offset) else { return };
        let known = self.best.as_ref().is_some_and(|best| agree(&best.sb, &sb));
        if known {
            return;
        }
        let found = self.compared(agno, sb);
        let better = |best: &Rebuilt| {
            let share = |one: &Rebuilt, other: &Rebuilt| {
                u64::from(one.agreeing).saturating_mul(other.compared.into())
            };
            share(&found, best) > share(best, &found)
        };
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(found);
        }
    }

    /// Returns the copy at byte `offset`, if its own geometry has a group other than the first
    /// there.
    fn copy_at(&mut self, offset: u64) -> Option<(AgNumber, Superblock)> {
        let mut first = [0; 512];
        if offset == 0 || !self.source.read(offset, &mut first) {
            return None;
        }
        let sb = Superblock::parse(&first).filter(|sb| sb.magicnum.get() == MAGIC)?;
        let group = u64::from(sb.agblocks.get()).saturating_mul(sb.blocksize.get().into());
        let agno = offset.checked_div(group).filter(|_| offset.checked_rem(group) == Some(0))?;
        let agno = u32::try_from(agno).ok().filter(|agno| (1..sb.agcount.get()).contains(agno))?;
        self.verified = self.verified.saturating_add(1);
        let mut sector = vec![0; usize::from(sb.sectsize.get()).clamp(512, SECTOR_MAX)];
        if !self.source.read(offset, &mut sector) {
            return None;
        }
        let sb = Superblock::verify(&sector, AgNumber(agno)).ok()?;
        Some((AgNumber(agno), sb.clone()))
    }

    /// Compares the copy of group `agno` with others, first and last ones, and fills its missing
    /// inode numbers from them.
    fn compared(&mut self, agno: AgNumber, sb: Superblock) -> Rebuilt {
        let count = sb.agcount.get();
        let last = count.saturating_sub(COMPARED / 2).max(COMPARED / 2);
        let others = (1..count).filter(|other| *other < COMPARED / 2 || *other >= last);
        let middle = (count > COMPARED).then_some(count / 2);
        let group = u64::from(sb.agblocks.get()).saturating_mul(sb.blocksize.get().into());
        let mut found = Rebuilt { sb, agno, agreeing: 1, compared: 1 };
        for other in others.chain(middle).filter(|other| *other != agno.0) {
            found.compared = found.compared.saturating_add(1);
            match self.copy_at(group.saturating_mul(other.into())) {
                Some((_, copy)) if agree(&found.sb, &copy) => {
                    found.agreeing = found.agreeing.saturating_add(1);
                    take_inodes(&mut found.sb, &copy);
                }
                _ => {}
            }
        }
        found
    }
}

/// Returns true if both are of the same volume with the same geometry.
fn agree(one: &Superblock, other: &Superblock) -> bool {
    let fields = |sb: &Superblock| {
        let sizes = (sb.blocksize, sb.sectsize, sb.inodesize, sb.logstart, sb.logblocks);
        (sb.uuid, sb.dblocks, sb.agblocks, sb.agcount, sizes)
    };
    fields(one) == fields(other)
}

/// Returns true for an inode number that is not set.
fn is_none(ino: u64) -> bool {
    ino == 0 || ino == u64::MAX
}

/// Copies inode numbers that `sb` lacks: mkfs writes the root's number into few copies only.
fn take_inodes(sb: &mut Superblock, copy: &Superblock) {
    for (field, known) in [
        (&mut sb.rootino, copy.rootino),
        (&mut sb.rbmino, copy.rbmino),
        (&mut sb.rsumino, copy.rsumino),
        (&mut sb.metadirino, copy.metadirino),
    ] {
        if is_none(field.get()) {
            *field = known;
        }
    }
}

/// Adds the fields that only the primary has: the root, counters, the ATTR bit and the end of mkfs.
fn complete(source: &Source<'_>, sb: &mut Superblock) {
    sb.inprogress = 0;
    sb.versionnum = (sb.versionnum.get() | VersionNum::ATTR.bits()).into();
    let geo = sb.geometry();
    if !geo.valid_ino(geo.rootino) {
        sb.rootino = find_root(source, &geo).unwrap_or(0).into();
    }
    let root = sb.rootino.get();
    if root != 0 && !geo.features.metadir() {
        // mkfs allocates the three consecutively.
        for (field, place) in [(&mut sb.rbmino, 1), (&mut sb.rsumino, 2)] {
            if is_none(field.get()) {
                *field = root.saturating_add(place).into();
            }
        }
    }
    sum_counters(source, sb, &geo);
}

/// Returns the first directory of group 0, which is the root, because mkfs makes it first.
fn find_root(source: &Source<'_>, geo: &Geometry) -> Option<u64> {
    let group = u64::from(geo.agblocks) << geo.blocklog;
    let end = group.min(ROOT_MAX).min(source.size);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < end {
        let len = usize::try_from(end.saturating_sub(at)).unwrap_or(PIECE).min(PIECE);
        let buf = piece.get_mut(..len)?;
        if source.read(at, buf) {
            let places = (at..).step_by(geo.inodesize());
            let mut inodes = places.zip(buf.chunks_exact(geo.inodesize()));
            let found = inodes.find(|(place, bytes)| is_root(geo, *place, bytes));
            if let Some((place, _)) = found {
                return Some(place >> geo.inodelog);
            }
        }
        at = at.saturating_add(PIECE as u64);
    }
    None
}

/// Returns true if `bytes`, at byte `place` of group 0, are the inode of a directory.
fn is_root(geo: &Geometry, place: u64, bytes: &[u8]) -> bool {
    let is_dir = bytes.starts_with(b"IN")
        && be16(bytes, 2).and_then(FileType::from_mode) == Some(FileType::Directory);
    let is_here = || be64(bytes, 152) == Some(place >> geo.inodelog);
    is_dir && (!geo.v5() || (is_here() && xfskit_crc::verify(bytes, 100)))
}

/// Sums the counters from the headers of all groups that can be read.
fn sum_counters(source: &Source<'_>, sb: &mut Superblock, geo: &Geometry) {
    let (mut icount, mut ifree, mut fdblocks) = (0u64, 0u64, 0u64);
    let mut sector = vec![0; geo.sectsize()];
    for agno in geo.ags() {
        let start = geo.ag_header_daddr(agno, 0).byte_offset().0;
        if start >= source.size {
            break;
        }
        let (at_agf, at_agi) = (agf::location(geo, agno), agi::location(geo, agno));
        if read_header(source, at_agf, &mut sector)
            && let Ok(agf) = Agf::verify(&sector, &Ctx::new(geo, at_agf), agno)
        {
            for blocks in [agf.freeblks, agf.flcount, agf.btreeblks] {
                fdblocks = fdblocks.saturating_add(blocks.get().into());
            }
        }
        if read_header(source, at_agi, &mut sector)
            && let Ok(agi) = Agi::verify(&sector, &Ctx::new(geo, at_agi), agno)
        {
            icount = icount.saturating_add(agi.count.get().into());
            ifree = ifree.saturating_add(agi.freecount.get().into());
        }
    }
    (sb.icount, sb.ifree, sb.fdblocks) = (icount.into(), ifree.into(), fdblocks.into());
}

fn read_header(source: &Source<'_>, at: Location, sector: &mut [u8]) -> bool {
    at.daddr.is_some_and(|daddr| source.read(daddr.byte_offset().0, sector))
}
