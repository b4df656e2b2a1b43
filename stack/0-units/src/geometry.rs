//! Sizes and counts of one volume, and every conversion between units.
//!
//! A [`Geometry`] is made from a superblock that passed its verifier (or from mkfs' decisions), so
//! its shifts and divisions cannot overflow: block sizes are 512 to 65536 bytes, an allocation
//! group has fewer than 2^32 blocks, the device fewer than 2^52. Methods that take numbers *from
//! the disk* nevertheless check them and return `Option`.

use std::cmp::Ordering;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    AgBlock, AgIno, AgNumber, ByteLen, ByteOffset, DaBlock, Daddr, ExtLen, Features, FilBlks,
    FileOff, FsBlock, Ino, RfsBlock, Sectors, Version,
};

/// Byte offset in a directory's data fork where hash leaves begin: 32 GiB.
pub const DIR_LEAF_OFFSET: u64 = 1 << 35;
/// Byte offset in a directory's data fork where the free index begins: 64 GiB.
pub const DIR_FREE_OFFSET: u64 = 1 << 36;

/// Sizes, counts and identities of one volume, all fixed. Field names are the superblock's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Feature words.
    pub features: Features,
    /// log2 of the filesystem block in bytes: 9 to 16 (10 to 16 on version 5).
    pub blocklog: u8,
    /// log2 of the sector in bytes: 9 to 15.
    pub sectlog: u8,
    /// log2 of the inode in bytes: 8 to 11.
    pub inodelog: u8,
    /// log2 of inodes in a block.
    pub inopblog: u8,
    /// Bits of an agbno: `ceil(log2(agblocks))`.
    pub agblklog: u8,
    /// log2 of blocks in a directory block.
    pub dirblklog: u8,
    /// Blocks of the data device.
    pub dblocks: RfsBlock,
    /// Blocks of the realtime device; 0 without one.
    pub rblocks: RfsBlock,
    /// Realtime extents.
    pub rextents: u64,
    /// Blocks of one realtime extent.
    pub rextsize: u32,
    /// Blocks of every realtime group but perhaps the last; 0 without groups.
    #[serde(default)]
    pub rgblocks: u64,
    /// Bits of a block's number within its realtime group.
    #[serde(default)]
    pub rgblklog: u8,
    /// First block of a realtime section on the data device itself; 0 if it has a device.
    #[serde(default)]
    pub rtstart: RfsBlock,
    /// Allocation groups.
    pub agcount: u32,
    /// Blocks of every allocation group but perhaps the last.
    pub agblocks: u32,
    /// First block of the internal log; `None` when the log is on a device of its own.
    pub logstart: Option<FsBlock>,
    /// Blocks of the log.
    pub logblocks: u32,
    /// log2 of the log's sector in bytes, at least 9.
    pub logsectlog: u8,
    /// Log stripe unit in bytes; at most 1 when there is none.
    pub logsunit: u32,
    /// Inode chunk alignment in blocks; 0 for none.
    pub inoalignmt: u32,
    /// Sparse inode alignment in blocks.
    pub spino_align: u32,
    /// Percentage of the volume that inodes may take; 0 for no limit.
    pub imax_pct: u8,
    /// Stripe unit in blocks; 0 for none.
    pub unit: u32,
    /// Stripe width in blocks; 0 for none.
    pub width: u32,
    /// Root directory.
    pub rootino: Ino,
    /// Realtime bitmap inode; `None` with a metadata directory.
    pub rbmino: Option<Ino>,
    /// Realtime summary inode; `None` with a metadata directory.
    pub rsumino: Option<Ino>,
    /// Root of the metadata directory tree.
    pub metadirino: Option<Ino>,
    /// The user-visible UUID, which the log carries.
    pub uuid: Uuid,
    /// The UUID that metadata blocks carry; equals `uuid` unless META_UUID is set.
    pub meta_uuid: Uuid,
}

/// The range of inode numbers that a volume can have: [`Geometry::valid_inos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidInos {
    /// Bits of an inode number within its group.
    bits: u32,
    /// The last group, which may be shorter than the others.
    last: AgNumber,
    /// First and last inode of every group but the last one.
    full: Option<(AgIno, AgIno)>,
    /// First and last inode of the last group.
    short: Option<(AgIno, AgIno)>,
}

impl ValidInos {
    /// Returns true if `ino` can be an inode of the volume.
    #[inline]
    pub fn contains(&self, ino: Ino) -> bool {
        let agno = ino.0.checked_shr(self.bits).unwrap_or(0);
        let range = match agno.cmp(&self.last.0.into()) {
            Ordering::Less => self.full,
            Ordering::Equal => self.short,
            Ordering::Greater => None,
        };
        let agino = ino.0 & low_mask(self.bits);
        range.is_some_and(|(first, last)| (first.0.into()..=last.0.into()).contains(&agino))
    }
}

/// Returns a mask of the low `bits` bits.
const fn low_mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Geometry {
    // ---- sizes -------------------------------------------------------------------------------

    /// Returns the size of a filesystem block, in bytes.
    pub fn blocksize(&self) -> usize {
        1 << self.blocklog
    }
    /// Returns the size of a sector, in bytes: that of each AG header.
    pub fn sectsize(&self) -> usize {
        1 << self.sectlog
    }
    /// Returns the size of an inode, in bytes.
    pub fn inodesize(&self) -> usize {
        1 << self.inodelog
    }
    /// Returns the number of inodes in one block.
    pub fn inopblock(&self) -> u32 {
        1 << self.inopblog
    }
    /// Returns the size of a directory block, in bytes.
    pub fn dirblksize(&self) -> usize {
        1 << (self.blocklog + self.dirblklog)
    }
    /// Returns the number of filesystem blocks in one directory block.
    pub fn dirblkfsbs(&self) -> u32 {
        1 << self.dirblklog
    }
    /// Returns the size of a block, in 512-byte units.
    pub fn block_sectors(&self) -> Sectors {
        Sectors(1 << (self.blocklog - 9))
    }
    /// Returns the size of a sector, in 512-byte units.
    pub fn sect_sectors(&self) -> Sectors {
        Sectors(1 << (self.sectlog - 9))
    }
    /// Returns the size of the log's sector, in bytes.
    pub fn logsectsize(&self) -> usize {
        1 << self.logsectlog.max(9)
    }
    /// Returns the length of the log, in 512-byte blocks.
    pub fn log_bbs(&self) -> u32 {
        self.logblocks << (self.blocklog - 9)
    }
    /// Returns true on version 5: metadata has CRC, LSN, UUID, address and owner.
    pub fn v5(&self) -> bool {
        self.features.version == Version::V5
    }

    /// Returns the length of group `agno`, in blocks; 0 for a group that does not exist.
    pub fn ag_length(&self, agno: AgNumber) -> u32 {
        let Some(last) = self.agcount.checked_sub(1) else { return 0 };
        match agno.0 {
            n if n < last => self.agblocks,
            n if n == last => {
                let before = u64::from(last) * u64::from(self.agblocks);
                u32::try_from(self.dblocks.0.saturating_sub(before)).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Iterates over the group numbers of the volume.
    pub fn ags(&self) -> impl DoubleEndedIterator<Item = AgNumber> + use<> {
        (0..self.agcount).map(AgNumber)
    }

    /// Returns the last block that holds any AG header: `AGFLB`. Blocks from the next one on may be
    /// allocated.
    pub fn ag_header_last(&self) -> AgBlock {
        AgBlock(u32::try_from(3 * self.sectsize() / self.blocksize()).unwrap_or(0))
    }

    // ---- inode chunks ------------------------------------------------------------------------

    /// Returns the number of blocks in one inode chunk: 64 inodes, or one block if a block holds
    /// more.
    pub fn chunk_blocks(&self) -> u32 {
        (64 / self.inopblock()).max(1)
    }

    /// Returns the number of blocks in one inode cluster, the unit of inode I/O and logging.
    pub fn cluster_blocks(&self) -> u32 {
        let raw = match self.features.version {
            Version::V5 => 8192 * (self.inodesize() / 256),
            Version::V4 => 8192,
        };
        let blocks = |bytes: usize| u32::try_from(bytes >> self.blocklog).unwrap_or(0).max(1);
        let raw_blocks = u32::try_from(raw >> self.blocklog).unwrap_or(0);
        if self.inoalignmt >= raw_blocks { blocks(raw) } else { blocks(8192) }
    }

    /// Returns the alignment of inode clusters, in blocks, at least 1.
    pub fn cluster_align(&self) -> u32 {
        let blocks = self.cluster_blocks();
        if self.inoalignmt >= blocks { self.inoalignmt } else { 1 }
    }

    /// Returns the first and last valid inode number of group `agno` (`None` for a group too short
    /// to hold any).
    pub fn agino_range(&self, agno: AgNumber) -> Option<(AgIno, AgIno)> {
        let align = self.cluster_align().max(1);
        let first = (self.ag_header_last().0 + 1).next_multiple_of(align);
        let end = self.ag_length(agno) / align * align;
        if end <= first {
            return None;
        }
        let last = (u64::from(end) << self.inopblog) - 1;
        Some((AgIno(first << self.inopblog), AgIno(u32::try_from(last).unwrap_or(u32::MAX))))
    }

    // ---- validity ---------------------------------------------------------------------------

    /// Returns true if `agbno` lies inside group `agno` and behind its headers.
    pub fn valid_agbno(&self, agno: AgNumber, agbno: AgBlock) -> bool {
        agbno > self.ag_header_last() && agbno.0 < self.ag_length(agno)
    }

    /// Returns true if all of `[agbno, agbno + len)` is valid and `len` is not 0.
    pub fn valid_agb_extent(&self, agno: AgNumber, agbno: AgBlock, len: ExtLen) -> bool {
        let Some(end) = agbno.0.checked_add(len.0) else { return false };
        len.0 > 0 && agbno > self.ag_header_last() && end <= self.ag_length(agno)
    }

    /// Returns true if `fsbno` names an existing block that is not an AG header.
    pub fn valid_fsbno(&self, fsbno: FsBlock) -> bool {
        self.fsb_split(fsbno).is_some_and(|(agno, agbno)| self.valid_agbno(agno, agbno))
    }

    /// Returns true if `[fsbno, fsbno + len)` lies in one group, behind its headers, and is not
    /// empty.
    pub fn valid_fsb_extent(&self, fsbno: FsBlock, len: u64) -> bool {
        let Some((agno, agbno)) = self.fsb_split(fsbno) else { return false };
        u32::try_from(len).is_ok_and(|len| self.valid_agb_extent(agno, agbno, ExtLen(len)))
    }

    /// Returns true if `agino` can be an inode of group `agno`.
    pub fn valid_agino(&self, agno: AgNumber, agino: AgIno) -> bool {
        self.agino_range(agno).is_some_and(|(first, last)| first <= agino && agino <= last)
    }

    /// Returns true if `ino` can be an inode of this volume.
    pub fn valid_ino(&self, ino: Ino) -> bool {
        self.ino_split(ino).is_some_and(|(agno, agino)| self.valid_agino(agno, agino))
    }

    /// Returns [`valid_ino`](Self::valid_ino) precomputed, for callers that check many numbers.
    pub fn valid_inos(&self) -> ValidInos {
        let bits = u32::from(self.agblklog + self.inopblog);
        let last = AgNumber(self.agcount.saturating_sub(1));
        ValidInos { bits, last, full: self.agino_range(AgNumber(0)), short: self.agino_range(last) }
    }

    // ---- blocks ------------------------------------------------------------------------------

    /// Returns the group and block of `fsbno`; `None` if the group does not exist or the block lies
    /// in the gap after it.
    pub fn fsb_split(&self, fsbno: FsBlock) -> Option<(AgNumber, AgBlock)> {
        let agno = AgNumber(u32::try_from(fsbno.0 >> self.agblklog).ok()?);
        let agbno = u32::try_from(fsbno.0 & low_mask(self.agblklog.into())).ok()?;
        (agbno < self.ag_length(agno)).then_some((agno, AgBlock(agbno)))
    }

    /// Returns the volume-wide address of block `agbno` of group `agno`.
    pub fn agb_to_fsb(&self, agno: AgNumber, agbno: AgBlock) -> FsBlock {
        FsBlock((u64::from(agno.0) << self.agblklog) | u64::from(agbno.0))
    }

    /// Returns the gapless number of block `agbno` of group `agno`.
    pub fn agb_to_rfs(&self, agno: AgNumber, agbno: AgBlock) -> RfsBlock {
        RfsBlock(u64::from(agno.0) * u64::from(self.agblocks) + u64::from(agbno.0))
    }

    /// Returns the address of block `agbno` of group `agno` on the data device, in 512-byte
    /// sectors.
    pub fn agb_to_daddr(&self, agno: AgNumber, agbno: AgBlock) -> Daddr {
        Daddr(self.agb_to_rfs(agno, agbno).0 << (self.blocklog - 9))
    }

    /// Returns the address of `fsbno` on the data device; `None` if no such block exists.
    pub fn fsb_to_daddr(&self, fsbno: FsBlock) -> Option<Daddr> {
        self.fsb_split(fsbno).map(|(agno, agbno)| self.agb_to_daddr(agno, agbno))
    }

    /// Returns the offset of `fsbno` on the data device, in bytes; `None` if no such block exists.
    pub fn fsb_to_byte(&self, fsbno: FsBlock) -> Option<ByteOffset> {
        self.fsb_to_daddr(fsbno).map(Daddr::byte_offset)
    }

    /// Returns the offset of a block of the realtime device, in bytes on the device that holds it:
    /// the data device where [`rtstart`](Self::rtstart) is not 0. With realtime groups the block's
    /// number has its group in the high bits. `None` if no such block exists.
    pub fn rtb_to_byte(&self, rtbno: FsBlock) -> Option<ByteOffset> {
        let linear = if self.rgblocks == 0 {
            rtbno.0
        } else {
            let group = rtbno.0.checked_shr(self.rgblklog.into())?;
            let within = rtbno.0 - (group << self.rgblklog);
            if within >= self.rgblocks {
                return None;
            }
            group.checked_mul(self.rgblocks)?.checked_add(within)?
        };
        let block = self.rtstart.0.checked_add(linear).filter(|_| linear < self.rblocks.0)?;
        block.checked_mul(1 << self.blocklog).map(ByteOffset)
    }

    /// Returns the group and block that hold the 512-byte address `daddr`; `None` behind the last
    /// block.
    pub fn daddr_to_agb(&self, daddr: Daddr) -> Option<(AgNumber, AgBlock)> {
        let rfs = daddr.0 >> (self.blocklog - 9);
        if rfs >= self.dblocks.0 || self.agblocks == 0 {
            return None;
        }
        let agno = u32::try_from(rfs / u64::from(self.agblocks)).ok()?;
        let agbno = u32::try_from(rfs % u64::from(self.agblocks)).ok()?;
        Some((AgNumber(agno), AgBlock(agbno)))
    }

    /// Returns the address of the header in sector `index` (0 superblock, 1 AGF, 2 AGI, 3 AGFL) of
    /// `agno`.
    pub fn ag_header_daddr(&self, agno: AgNumber, index: u32) -> Daddr {
        let start = self.agb_to_daddr(agno, AgBlock(0));
        Daddr(start.0 + (u64::from(index) << (self.sectlog - 9)))
    }

    /// Returns the size of the data device that the volume needs, in bytes.
    pub fn data_bytes(&self) -> ByteLen {
        ByteLen(self.dblocks.0 << self.blocklog)
    }

    /// Returns the first 512-byte unit of the internal log on the data device; `None` for an
    /// external log.
    pub fn log_daddr(&self) -> Option<Daddr> {
        self.logstart.and_then(|fsb| self.fsb_to_daddr(fsb))
    }

    // ---- inodes ------------------------------------------------------------------------------

    /// Returns the group and inode-in-group of `ino`; `None` where the group does not exist.
    pub fn ino_split(&self, ino: Ino) -> Option<(AgNumber, AgIno)> {
        let bits = u32::from(self.agblklog + self.inopblog);
        let agno = AgNumber(u32::try_from(ino.0.checked_shr(bits)?).ok()?);
        let agino = AgIno(u32::try_from(ino.0 & low_mask(bits)).ok()?);
        (agno.0 < self.agcount).then_some((agno, agino))
    }

    /// Returns the volume-wide number of `agino` of group `agno`.
    pub fn agino_to_ino(&self, agno: AgNumber, agino: AgIno) -> Ino {
        Ino((u64::from(agno.0) << (self.agblklog + self.inopblog)) | u64::from(agino.0))
    }

    /// Returns the block that holds `agino`.
    pub fn agino_to_agb(&self, agino: AgIno) -> AgBlock {
        AgBlock(agino.0 >> self.inopblog)
    }

    /// Returns the first inode of block `agbno`.
    pub fn agb_to_agino(&self, agbno: AgBlock) -> AgIno {
        AgIno(agbno.0 << self.inopblog)
    }

    /// Returns the byte offset of `agino` within its block.
    pub fn agino_block_offset(&self, agino: AgIno) -> usize {
        ((agino.0 & (self.inopblock() - 1)) as usize) << self.inodelog
    }

    /// Returns the offset of inode `ino` on the data device, in bytes; `None` if it cannot exist.
    pub fn ino_to_byte(&self, ino: Ino) -> Option<ByteOffset> {
        let (agno, agino) = self.ino_split(ino)?;
        let agbno = self.agino_to_agb(agino);
        if agbno.0 >= self.ag_length(agno) {
            return None;
        }
        let block = self.agb_to_daddr(agno, agbno).byte_offset();
        Some(ByteOffset(block.0 + self.agino_block_offset(agino) as u64))
    }

    // ---- files and directories ---------------------------------------------------------------

    /// Converts bytes to whole blocks, rounded up.
    pub fn bytes_to_blocks(&self, bytes: ByteLen) -> u64 {
        bytes.0.div_ceil(1 << self.blocklog)
    }

    /// Returns the first hash-leaf block of a directory, in filesystem blocks of its data fork.
    pub fn dir_leafblk(&self) -> DaBlock {
        DaBlock(u32::try_from(DIR_LEAF_OFFSET >> self.blocklog).unwrap_or(u32::MAX))
    }

    /// Returns the first free-index block of a directory, in filesystem blocks of its data fork.
    pub fn dir_freeblk(&self) -> DaBlock {
        DaBlock(u32::try_from(DIR_FREE_OFFSET >> self.blocklog).unwrap_or(u32::MAX))
    }

    /// Returns the block of a file that holds byte `offset`.
    #[inline]
    pub fn byte_to_fileoff(&self, offset: ByteOffset) -> FileOff {
        FileOff(offset.0 >> self.blocklog)
    }

    /// Returns the first block of a file that begins at byte `offset` or behind it.
    #[inline]
    pub fn byte_to_fileoff_ceil(&self, offset: ByteOffset) -> FileOff {
        FileOff(offset.0.div_ceil(1 << self.blocklog))
    }

    /// Returns the first byte of a block of a file; saturates.
    #[inline]
    pub fn fileoff_to_byte(&self, block: FileOff) -> ByteOffset {
        ByteOffset(block.0.saturating_mul(1 << self.blocklog))
    }

    /// Returns the size of blocks of a file, in bytes; saturates.
    #[inline]
    pub fn filblks_to_bytes(&self, blocks: FilBlks) -> ByteLen {
        ByteLen(blocks.0.saturating_mul(1 << self.blocklog))
    }

    /// Returns the blocks of a file that hold bytes of `range`.
    #[inline]
    pub fn file_blocks_around(&self, range: &Range<ByteOffset>) -> Range<FileOff> {
        self.byte_to_fileoff(range.start)..self.byte_to_fileoff_ceil(range.end)
    }

    /// Returns the blocks of a file that are wholly in `range`. The end lies before the start if
    /// the range is within one block.
    #[inline]
    pub fn file_blocks_inside(&self, range: &Range<ByteOffset>) -> Range<FileOff> {
        self.byte_to_fileoff_ceil(range.start)..self.byte_to_fileoff(range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Incompat, RoCompat};

    /// Returns the 300 MiB example of the format notes: 4 KiB blocks, 512-byte inodes, 4 AGs of
    /// 19200.
    fn small() -> Geometry {
        let one_gib = crate::example::geometry();
        Geometry {
            features: Features {
                ro_compat: RoCompat::from_bits_retain(0xd),
                incompat: Incompat::from_bits_retain(0xb),
                ..one_gib.features
            },
            agblklog: 15,
            dblocks: RfsBlock(76800),
            agblocks: 19200,
            logstart: Some(FsBlock(0x10006)),
            ..one_gib
        }
    }

    #[test]
    fn blocks_of_the_realtime_device_are_found_by_group_and_section() {
        let plain = Geometry { rblocks: RfsBlock(102_400), ..small() };
        assert_eq!(plain.rtb_to_byte(FsBlock(75)), Some(ByteOffset(75 * 4096)));
        assert_eq!(plain.rtb_to_byte(FsBlock(102_400)), None);
        // Two groups of 51200 blocks: block 75 of the second has the number 65536 + 75.
        let groups = Geometry { rgblocks: 51_200, rgblklog: 16, ..plain.clone() };
        let second = Some(ByteOffset((51_200 + 75) * 4096));
        assert_eq!(groups.rtb_to_byte(FsBlock(65_611)), second);
        assert_eq!(groups.rtb_to_byte(FsBlock(51_200)), None, "no block of the first group");
        assert_eq!(groups.rtb_to_byte(FsBlock(2 << 16)), None, "behind the last group");
        let inside = Geometry { rtstart: RfsBlock(1000), ..groups };
        assert_eq!(inside.rtb_to_byte(FsBlock(1)), Some(ByteOffset(1001 * 4096)));
    }

    #[test]
    fn addresses_agree_with_the_worked_example() {
        let geo = small();
        assert_eq!(geo.fsb_split(FsBlock(65542)), Some((AgNumber(2), AgBlock(6))));
        assert_eq!(geo.fsb_to_daddr(FsBlock(65542)), Some(Daddr(307_248)));
        assert_eq!(geo.ino_split(Ino(524_293)), Some((AgNumber(2), AgIno(5))));
        assert_eq!(geo.agino_to_ino(AgNumber(2), AgIno(5)), Ino(524_293));
        assert_eq!(geo.ino_to_byte(Ino(128)), Some(ByteOffset(16 * 4096)));
        assert_eq!(geo.daddr_to_agb(Daddr(307_248)), Some((AgNumber(2), AgBlock(6))));
    }

    #[test]
    fn numbers_in_the_gap_behind_a_group_do_not_exist() {
        let geo = small();
        assert_eq!(geo.fsb_split(FsBlock(19200)), None);
        assert_eq!(geo.fsb_split(FsBlock(4 << 15)), None);
        assert!(!geo.valid_fsbno(FsBlock(0)), "the AG headers are not file data");
        assert!(geo.valid_fsb_extent(FsBlock(19199), 1));
        assert!(!geo.valid_fsb_extent(FsBlock(19199), 2));
        assert!(!geo.valid_fsb_extent(FsBlock(u64::MAX), u64::MAX));
        assert!(!geo.valid_ino(Ino(u64::MAX)));
    }

    #[test]
    fn prepared_inode_checks_agree_with_the_plain_ones() {
        let geo = Geometry { dblocks: RfsBlock(76_000), ..small() };
        let prepared = geo.valid_inos();
        let edges = [0, 63, 64, 65, 127, 145_000, 147_199, 147_200, 153_599, 153_600, 262_143];
        for ino in (0..6).flat_map(|ag: u64| edges.map(|agino| Ino(ag << 18 | agino))) {
            assert_eq!(prepared.contains(ino), geo.valid_ino(ino), "inode {ino}");
        }
        assert!(!prepared.contains(Ino(u64::MAX)));
    }

    #[test]
    fn bytes_of_a_file_convert_to_the_blocks_around_and_inside() {
        let (geo, bytes) = (small(), ByteOffset(4000)..ByteOffset(12_288));
        assert_eq!(geo.file_blocks_around(&bytes), FileOff(0)..FileOff(3));
        assert_eq!(geo.file_blocks_inside(&bytes), FileOff(1)..FileOff(3));
        assert_eq!(geo.fileoff_to_byte(FileOff(3)), ByteOffset(12_288));
        assert_eq!(geo.fileoff_to_byte(FileOff::MAX), ByteOffset::MAX);
        assert_eq!(geo.filblks_to_bytes(FilBlks(2)), ByteLen(8192));
    }

    #[test]
    fn inode_clusters_follow_size_and_alignment() {
        let geo = small();
        assert_eq!(geo.cluster_blocks(), 4);
        assert_eq!(geo.chunk_blocks(), 8);
        assert_eq!(geo.agino_range(AgNumber(0)), Some((AgIno(64), AgIno(153_599))));
        assert_eq!(geo.ag_header_last(), AgBlock(0));
    }
}
