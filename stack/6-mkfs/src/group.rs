//! The bytes of one allocation group: superblock, AGF, AGI, AGFL and its trees, of an empty volume
//! or of one that is filled before it is finished. A [`Group`] has all they record.

use xfskit_bulk::btree::{self, Shape};
use xfskit_format::agbtree::Tree;
use xfskit_format::agf::{self, Agf};
use xfskit_format::agfl::{self, AgflHeader};
use xfskit_format::agi::{self, Agi, NULLAGINO};
use xfskit_format::alloc;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_format::refcount;
use xfskit_format::rmap::{self, owner};
use xfskit_format::sb::{self, Superblock};
use xfskit_units::features::VersionNum;
use xfskit_units::{AgBlock, AgIno, AgNumber, ExtLen, Geometry, Ino};
use zerocopy::big_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

use crate::geometry::Plan;
use crate::layout::{self, AgLayout, Extent};

/// Inodes of the first chunk that are in use: the root directory and two realtime inodes.
const USED_INODES: u32 = 3;
/// Low nibble of the superblock's `versionnum`.
const VERSION_5: u16 = 5;
/// `versionnum` of AGF and AGI.
const AG_VERSION: u32 = 1;

/// Sums over all groups, for the superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Free blocks of the finished volume, those of AGFL and free-space btrees among them.
    pub fdblocks: u64,
    /// Blocks of the first inode chunk.
    chunk: u64,
    /// Inodes that exist.
    pub icount: u64,
    /// Inodes that exist and are free.
    pub ifree: u64,
    /// True if some inode has attributes, which the finished superblock records.
    pub has_attrs: bool,
}

impl Totals {
    /// Returns the sums of an empty volume. Only the first group, the log's and the last differ
    /// from the others.
    pub fn of(plan: &Plan) -> Self {
        let geo = &plan.geometry;
        let free = |agno| {
            let layout = AgLayout::of(geo, agno);
            u64::from(layout.free_blocks() + layout.agfl_len())
        };
        let icount = u64::from(geo.chunk_blocks()) * u64::from(geo.inopblock());
        Self {
            fdblocks: geo.ags().map(free).sum(),
            chunk: geo.chunk_blocks().into(),
            icount,
            ifree: icount - u64::from(USED_INODES),
            has_attrs: plan.autofsck.is_some(),
        }
    }

    /// Returns the sums of a volume whose groups are filled.
    pub fn filled(geo: &Geometry, groups: &[Group], has_attrs: bool) -> Self {
        let chunk = geo.chunk_blocks().into();
        let mut totals = Self { fdblocks: 0, chunk, icount: 0, ifree: 0, has_attrs };
        for group in groups {
            let (count, free) = group.inodes();
            totals.fdblocks += u64::from(group.freeblks() + u32_of(group.agfl.len()));
            totals.fdblocks += u64::from(group.btreeblks());
            totals.icount += u64::from(count);
            totals.ifree += u64::from(free);
        }
        totals
    }
}

/// One group of a finished volume, with all that its headers and trees record.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its number.
    pub agno: AgNumber,
    /// The trees that the volume has, and where their blocks are, the root's first.
    pub trees: Vec<(Tree, Vec<AgBlock>)>,
    /// The free list, in order.
    pub agfl: Vec<AgBlock>,
    /// Free extents, by block.
    pub free: Vec<Extent>,
    /// Inode chunks, by number.
    pub chunks: Vec<Chunk>,
    /// First inode of the newest chunk.
    pub newino: Option<AgIno>,
    /// Owners of all used blocks, in the order of the rmapbt. Empty if there is no rmapbt.
    pub owners: Vec<rmap::Rec>,
    /// Blocks that several files map, by block.
    pub shared: Vec<refcount::Rec>,
    /// Heads of the lists of unlinked inodes.
    pub unlinked: [u32; agi::UNLINKED_BUCKETS],
}

impl Group {
    /// Returns group `agno` of an empty volume.
    pub fn empty(geo: &Geometry, agno: AgNumber) -> Self {
        let layout = AgLayout::of(geo, agno);
        Self {
            agno,
            trees: layout.roots.iter().map(|&(tree, root)| (tree, vec![root])).collect(),
            agfl: layout
                .agfl
                .iter()
                .flat_map(|agfl| agfl.start.0..agfl.end())
                .map(AgBlock)
                .collect(),
            chunks: layout.chunk.map_or(Vec::new(), |chunk| first_chunks(geo, chunk)),
            newino: layout.chunk.map(|chunk| geo.agb_to_agino(chunk.start)),
            owners: owners(&layout),
            free: layout.free,
            shared: Vec::new(),
            unlinked: [NULLAGINO; agi::UNLINKED_BUCKETS],
        }
    }

    /// Returns the shape of `tree` with its present records.
    pub fn shape(&self, geo: &Geometry, tree: Tree) -> Shape {
        let records = match tree {
            Tree::Bno | Tree::Cnt => self.free.len(),
            Tree::Ino => self.chunks.len(),
            Tree::Fino => self.chunks_with_free_inodes().count(),
            Tree::Rmap => self.owners.len(),
            Tree::Refcount => self.shared.len(),
        };
        Shape::new(geo, tree, records)
    }

    fn chunks_with_free_inodes(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().filter(|chunk| chunk.freecount > 0)
    }

    /// Returns root, levels and blocks of `tree`; zeroes if the volume does not have it.
    fn numbers(&self, geo: &Geometry, tree: Tree) -> [U32; 3] {
        let Some((_, places)) = self.trees.iter().find(|(known, _)| *known == tree) else {
            return [0.into(); 3];
        };
        let root = places.first().map_or(0, |root| root.0);
        [root, self.shape(geo, tree).levels(), u32_of(places.len())].map(U32::new)
    }

    /// Returns the number of blocks of free-space btrees and the rmapbt, without their roots.
    pub fn btreeblks(&self) -> u32 {
        let counted = |tree: Tree| matches!(tree, Tree::Bno | Tree::Cnt | Tree::Rmap);
        self.trees
            .iter()
            .filter(|(tree, _)| counted(*tree))
            .map(|(_, places)| u32_of(places.len()) - 1)
            .sum()
    }

    /// Returns the number of free blocks, without those of AGFL and btrees.
    pub fn freeblks(&self) -> u32 {
        self.free.iter().map(|extent| extent.len.0).sum()
    }

    /// Returns the number of inodes, and the number of free ones.
    pub fn inodes(&self) -> (u32, u32) {
        self.chunks
            .iter()
            .fold((0, 0), |(count, free), chunk| (count + chunk.count, free + chunk.freecount))
    }

    /// Returns every block of headers and trees of a new volume, in order; the first has all
    /// headers.
    pub fn blocks(&self, plan: &Plan, totals: &Totals) -> Vec<(AgBlock, Vec<u8>)> {
        self.blocks_below(&plan.geometry, &superblock(plan, self.agno, totals, true))
    }

    /// Returns every block of headers and trees, in order; the first has all headers, of which
    /// `superblock` is the first sector.
    pub fn blocks_below(&self, geo: &Geometry, superblock: &[u8]) -> Vec<(AgBlock, Vec<u8>)> {
        let ss = geo.sectsize();
        let mut headers = vec![0; layout::header_blocks(geo) as usize * geo.blocksize()];
        let sectors = [
            superblock.to_vec(),
            self.agf_sector(geo),
            self.agi_sector(geo),
            self.agfl_sector(geo),
        ];
        for (sector, bytes) in sectors.into_iter().enumerate() {
            headers[sector * ss..][..ss].copy_from_slice(&bytes);
        }
        let mut blocks = vec![(AgBlock(0), headers)];
        for (tree, places) in &self.trees {
            blocks.extend(self.load(geo, *tree, places));
        }
        blocks.sort_by_key(|(agbno, _)| *agbno);
        blocks
    }

    fn load(&self, geo: &Geometry, tree: Tree, places: &[AgBlock]) -> Vec<(AgBlock, Vec<u8>)> {
        let shape = self.shape(geo, tree);
        let free = |extents: &[Extent]| {
            extents.iter().map(|e| alloc::Rec::new(e.start, e.len)).collect::<Vec<_>>()
        };
        let encode = |chunk: &Chunk| chunk.encode(geo);
        match tree {
            Tree::Bno => btree::load(geo, self.agno, &shape, &free(&self.free), places),
            Tree::Cnt => {
                let mut by_size = self.free.clone();
                by_size.sort_by_key(|extent| (extent.len, extent.start));
                btree::load(geo, self.agno, &shape, &free(&by_size), places)
            }
            Tree::Ino => {
                let records: Vec<_> = self.chunks.iter().map(encode).collect();
                btree::load(geo, self.agno, &shape, &records, places)
            }
            Tree::Fino => {
                let records: Vec<_> = self.chunks_with_free_inodes().map(encode).collect();
                btree::load(geo, self.agno, &shape, &records, places)
            }
            Tree::Rmap => btree::load(geo, self.agno, &shape, &self.owners, places),
            Tree::Refcount => btree::load(geo, self.agno, &shape, &self.shared, places),
        }
    }

    fn agf_sector(&self, geo: &Geometry) -> Vec<u8> {
        let length = |n: usize| U32::new(u32_of(n));
        let mut agf = Agf::new_zeroed();
        agf.magicnum = agf::MAGIC.into();
        agf.versionnum = AG_VERSION.into();
        agf.seqno = self.agno.0.into();
        agf.length = geo.ag_length(self.agno).into();
        [agf.bnoroot, agf.bnolevel, _] = self.numbers(geo, Tree::Bno);
        [agf.cntroot, agf.cntlevel, _] = self.numbers(geo, Tree::Cnt);
        [agf.rmaproot, agf.rmaplevel, agf.rmapblocks] = self.numbers(geo, Tree::Rmap);
        [agf.refcntroot, agf.refcntlevel, agf.refcntblocks] = self.numbers(geo, Tree::Refcount);
        // Slot 0 stays unused: the list begins at slot 1.
        agf.flfirst = 1.into();
        agf.fllast = length(self.agfl.len());
        agf.flcount = length(self.agfl.len());
        agf.freeblks = self.freeblks().into();
        agf.longest = self.free.iter().map(|extent| extent.len.0).max().unwrap_or(0).into();
        agf.btreeblks = self.btreeblks().into();
        agf.uuid = *geo.meta_uuid.as_bytes();
        padded(agf.as_bytes(), geo.sectsize(), agf::CRC_OFFSET)
    }

    fn agi_sector(&self, geo: &Geometry) -> Vec<u8> {
        let counted = geo.features.inobtcount();
        let (count, free) = self.inodes();
        let mut agi = Agi::new_zeroed();
        agi.magicnum = agi::MAGIC.into();
        agi.versionnum = AG_VERSION.into();
        agi.seqno = self.agno.0.into();
        agi.length = geo.ag_length(self.agno).into();
        [agi.root, agi.level, agi.ino_blocks] = self.numbers(geo, Tree::Ino);
        [agi.free_root, agi.free_level, agi.fino_blocks] = self.numbers(geo, Tree::Fino);
        if !counted {
            (agi.ino_blocks, agi.fino_blocks) = (0.into(), 0.into());
        }
        agi.count = count.into();
        agi.freecount = free.into();
        agi.newino = self.newino.map_or(NULLAGINO, |agino| agino.0).into();
        agi.dirino = NULLAGINO.into();
        agi.unlinked = self.unlinked.map(U32::new);
        agi.uuid = *geo.meta_uuid.as_bytes();
        padded(agi.as_bytes(), geo.sectsize(), agi::CRC_OFFSET)
    }

    fn agfl_sector(&self, geo: &Geometry) -> Vec<u8> {
        let mut head = AgflHeader::new_zeroed();
        head.magicnum = agfl::MAGIC.into();
        head.seqno = self.agno.0.into();
        head.uuid = *geo.meta_uuid.as_bytes();
        let mut slots = vec![U32::new(agfl::NULLAGBLOCK); agfl::slots(geo) as usize];
        for (slot, agbno) in slots.iter_mut().skip(1).zip(&self.agfl) {
            *slot = agbno.0.into();
        }
        let bytes = [head.as_bytes(), slots.as_bytes()].concat();
        padded(&bytes, geo.sectsize(), agfl::CRC_OFFSET)
    }
}

/// Returns the superblock's sector in group `agno`. While mkfs works, and always in the
/// secondaries, it has "in progress" set, and its counters leave out the first inodes. The one in
/// the middle and the last have the root directory's number, in case the primary is lost.
pub fn superblock(plan: &Plan, agno: AgNumber, totals: &Totals, inprogress: bool) -> Vec<u8> {
    let geo = &plan.geometry;
    let features = &geo.features;
    let sector = features.sector();
    let last = geo.agcount - 1;
    let names_root = !inprogress || agno.0 == last || agno.0 == last / 2;
    let ino = |ino: Option<Ino>, known: bool| {
        if known { ino.map_or(0, |ino| ino.0) } else { u64::MAX }
    };
    // Attributes are made after the secondaries were written.
    let has_attrs = !inprogress && totals.has_attrs;
    let attr = if has_attrs { VersionNum::ATTR } else { VersionNum::empty() };
    let mut sb = Superblock::new_zeroed();
    sb.magicnum = sb::MAGIC.into();
    sb.blocksize = u32_of(geo.blocksize()).into();
    sb.dblocks = geo.dblocks.0.into();
    sb.uuid = *geo.uuid.as_bytes();
    sb.logstart = geo.logstart.map_or(0, |fsb| fsb.0).into();
    sb.rootino = ino(Some(geo.rootino), names_root).into();
    sb.rbmino = ino(geo.rbmino, !inprogress).into();
    sb.rsumino = ino(geo.rsumino, !inprogress).into();
    sb.rextsize = geo.rextsize.into();
    sb.agblocks = geo.agblocks.into();
    sb.agcount = geo.agcount.into();
    sb.logblocks = geo.logblocks.into();
    sb.versionnum = ((features.versionnum | attr).bits() | VERSION_5).into();
    sb.sectsize = u16_of(geo.sectsize()).into();
    sb.inodesize = u16_of(geo.inodesize()).into();
    sb.inopblock = u16_of(geo.inopblock() as usize).into();
    sb.fname = plan.label;
    sb.blocklog = geo.blocklog;
    sb.sectlog = geo.sectlog;
    sb.inodelog = geo.inodelog;
    sb.inopblog = geo.inopblog;
    sb.agblklog = geo.agblklog;
    sb.inprogress = inprogress.into();
    sb.imax_pct = geo.imax_pct;
    if inprogress {
        sb.fdblocks = (totals.fdblocks + totals.chunk).into();
    } else {
        sb.icount = totals.icount.into();
        sb.ifree = totals.ifree.into();
        sb.fdblocks = totals.fdblocks.into();
    }
    sb.inoalignmt = geo.inoalignmt.into();
    sb.unit = geo.unit.into();
    sb.width = geo.width.into();
    sb.dirblklog = geo.dirblklog;
    if sector {
        sb.logsectlog = geo.logsectlog;
        sb.logsectsize = u16_of(geo.logsectsize()).into();
    }
    sb.logsunit = geo.logsunit.into();
    sb.features2 = features.features2.bits().into();
    sb.bad_features2 = features.features2.bits().into();
    sb.features_ro_compat = features.ro_compat.bits().into();
    sb.features_incompat = features.incompat.bits().into();
    sb.spino_align = geo.spino_align.into();
    padded(sb.as_bytes(), geo.sectsize(), sb::CRC_OFFSET)
}

/// Returns the records of the first chunk: one, or more if a block has more than 64 inodes.
fn first_chunks(geo: &Geometry, chunk: Extent) -> Vec<Chunk> {
    let first = geo.agb_to_agino(chunk.start).0;
    let end = first + (chunk.len.0 << geo.inopblog);
    (first..end)
        .step_by(INODES_PER_CHUNK as usize)
        .map(|startino| {
            let used = if startino == first { USED_INODES } else { 0 };
            Chunk {
                startino: AgIno(startino),
                holemask: 0,
                count: INODES_PER_CHUNK,
                freecount: INODES_PER_CHUNK - used,
                free: u64::MAX << used,
            }
        })
        .collect()
}

/// Returns the reverse mapping of an owner's blocks.
pub fn owned(extent: Extent, owner: u64) -> rmap::Rec {
    rmap::Rec {
        startblock: extent.start.0.into(),
        blockcount: extent.len.0.into(),
        owner: owner.into(),
        offset: 0.into(),
    }
}

/// Returns the owner of the blocks of `tree`.
pub fn tree_owner(tree: Tree) -> u64 {
    match tree {
        Tree::Bno | Tree::Cnt | Tree::Rmap => owner::AG,
        Tree::Ino | Tree::Fino => owner::INOBT,
        Tree::Refcount => owner::REFC,
    }
}

/// Returns the reverse mappings of an empty group: every used block.
fn owners(layout: &AgLayout) -> Vec<rmap::Rec> {
    let block = |agbno: AgBlock| Extent { start: agbno, len: ExtLen(1) };
    let headers = Extent { start: AgBlock(0), len: ExtLen(layout.headers) };
    let mut records = vec![owned(headers, owner::FS)];
    records.extend(layout.roots.iter().map(|&(tree, agbno)| owned(block(agbno), tree_owner(tree))));
    records.extend(layout.log.map(|extent| owned(extent, owner::LOG)));
    records.extend(layout.agfl.map(|extent| owned(extent, owner::AG)));
    records.extend(layout.chunk.map(|extent| owned(extent, owner::INODES)));
    in_order(records)
}

/// Sorts `records` as the rmapbt has them, and merges neighbours: of one owner and, for files, of
/// one fork and consecutive there.
pub fn in_order(mut records: Vec<rmap::Rec>) -> Vec<rmap::Rec> {
    records.sort_by_key(|record| record.low_key().sort_key());
    records.dedup_by(|next, last| {
        let goes_on = next.start().0 == last.start().0 + last.len().0 && next.owner == last.owner;
        let flags = |record: &rmap::Rec| record.offset.get() & !rmap::OFF_MASK;
        let no_offset = last.inode().is_none() || last.offset.get() & rmap::OFF_BMBT_BLOCK != 0;
        let follows = no_offset || next.offset.get() == last.offset.get() + u64::from(last.len().0);
        let merges = goes_on && flags(next) == flags(last) && follows;
        if merges {
            last.blockcount = (last.len().0 + next.len().0).into();
        }
        merges
    });
    records
}

/// Pads `bytes` with zeroes to `len`, and sets its CRC at byte `crc`.
fn padded(bytes: &[u8], len: usize, crc: usize) -> Vec<u8> {
    let mut block = vec![0; len];
    let n = bytes.len().min(len);
    block[..n].copy_from_slice(&bytes[..n]);
    xfskit_crc::update(&mut block, crc);
    block
}

fn u32_of(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

fn u16_of(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(0)
}
