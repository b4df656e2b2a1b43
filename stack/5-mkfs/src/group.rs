//! The bytes of one allocation group: superblock, AGF, AGI, AGFL and the roots of its trees.

use xfskit_format::agbtree::{self, Header, NULLAGBLOCK, SelfDescription, Tree};
use xfskit_format::agf::{self, Agf};
use xfskit_format::agfl::{self, AgflHeader};
use xfskit_format::agi::{self, Agi, NULLAGINO};
use xfskit_format::alloc;
use xfskit_format::inobt::{self, Chunk, INODES_PER_CHUNK};
use xfskit_format::rmap::{self, owner};
use xfskit_format::sb::{self, Superblock};
use xfskit_units::features::versionnum;
use xfskit_units::{AgBlock, AgIno, AgNumber, ExtLen, Geometry, Ino};
use zerocopy::big_endian::U32;
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::geometry::Plan;
use crate::layout::{AgLayout, Extent};

/// Inodes of the first chunk that are in use: the root directory and two realtime inodes.
const USED_INODES: u32 = 3;
/// Low nibble of the superblock's `versionnum`.
const VERSION_5: u16 = 5;
/// `versionnum` of AGF and AGI.
const AG_VERSION: u32 = 1;

/// Sums over all groups, for the superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Free blocks of the finished volume, the AGFL's among them.
    fdblocks: u64,
    /// Blocks of the first inode chunk.
    chunk: u64,
    icount: u64,
}

impl Totals {
    /// Adds up the groups. Only the first, the log's and the last differ from the others.
    pub fn of(geo: &Geometry) -> Self {
        let free = |agno| {
            let layout = AgLayout::of(geo, agno);
            u64::from(layout.free_blocks() + layout.agfl_len())
        };
        Self {
            fdblocks: geo.ags().map(free).sum(),
            chunk: geo.chunk_blocks().into(),
            icount: u64::from(geo.chunk_blocks()) * u64::from(geo.inopblock()),
        }
    }
}

/// Blocks 0 to the last root of group `agno`.
pub fn image(plan: &Plan, agno: AgNumber, totals: &Totals) -> Vec<u8> {
    let geo = &plan.geometry;
    let layout = AgLayout::of(geo, agno);
    let blocks = layout.headers as usize + layout.roots.len();
    let mut image = vec![0; blocks * geo.blocksize()];
    let ss = geo.sectsize();
    for (sector, bytes) in [
        superblock(plan, agno, totals, true),
        agf_sector(geo, agno, &layout),
        agi_sector(geo, agno, &layout),
        agfl_sector(geo, agno, &layout),
    ]
    .into_iter()
    .enumerate()
    {
        image[sector * ss..][..ss].copy_from_slice(&bytes);
    }
    for &(tree, agbno) in &layout.roots {
        let block = root_block(geo, agno, &layout, tree, agbno);
        image[agbno.0 as usize * geo.blocksize()..][..block.len()].copy_from_slice(&block);
    }
    image
}

/// The superblock's sector in group `agno`. While mkfs works, and for ever in the secondaries, it
/// says "in progress", and its counters know nothing of the first inodes. The one in the middle and
/// the last name the root directory, should the primary be lost.
pub fn superblock(plan: &Plan, agno: AgNumber, totals: &Totals, inprogress: bool) -> Vec<u8> {
    let geo = &plan.geometry;
    let features = &geo.features;
    let sector = features.sector();
    let last = geo.agcount - 1;
    let names_root = !inprogress || agno.0 == last || agno.0 == last / 2;
    let ino = |ino: Option<Ino>, known: bool| {
        if known { ino.map_or(0, |ino| ino.0) } else { u64::MAX }
    };
    // The root directory gets its property when the secondaries are written already.
    let with_property = !inprogress && plan.autofsck.is_some();
    let attr = if with_property { versionnum::ATTR } else { 0 };
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
    sb.versionnum = (features.versionnum | VERSION_5 | u16::try_from(attr).unwrap_or(0)).into();
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
        sb.ifree = (totals.icount - u64::from(USED_INODES)).into();
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
    sb.features2 = features.features2.into();
    sb.bad_features2 = features.features2.into();
    sb.features_ro_compat = features.ro_compat.into();
    sb.features_incompat = features.incompat.into();
    sb.spino_align = geo.spino_align.into();
    padded(sb.as_bytes(), geo.sectsize(), sb::CRC_OFFSET)
}

fn agf_sector(geo: &Geometry, agno: AgNumber, layout: &AgLayout) -> Vec<u8> {
    let root = |tree| U32::new(layout.root(tree).map_or(0, |agbno| agbno.0));
    let one_if = |tree| U32::new(u32::from(layout.root(tree).is_some()));
    let mut agf = Agf::new_zeroed();
    agf.magicnum = agf::MAGIC.into();
    agf.versionnum = AG_VERSION.into();
    agf.seqno = agno.0.into();
    agf.length = geo.ag_length(agno).into();
    agf.bnoroot = root(Tree::Bno);
    agf.cntroot = root(Tree::Cnt);
    agf.rmaproot = root(Tree::Rmap);
    agf.bnolevel = 1.into();
    agf.cntlevel = 1.into();
    agf.rmaplevel = one_if(Tree::Rmap);
    agf.flfirst = 1.into();
    agf.fllast = layout.agfl_len().into();
    agf.flcount = layout.agfl_len().into();
    agf.freeblks = layout.free_blocks().into();
    agf.longest = layout.longest().into();
    agf.uuid = *geo.meta_uuid.as_bytes();
    agf.rmapblocks = one_if(Tree::Rmap);
    agf.refcntblocks = one_if(Tree::Refcount);
    agf.refcntroot = root(Tree::Refcount);
    agf.refcntlevel = one_if(Tree::Refcount);
    padded(agf.as_bytes(), geo.sectsize(), agf::CRC_OFFSET)
}

fn agi_sector(geo: &Geometry, agno: AgNumber, layout: &AgLayout) -> Vec<u8> {
    let finobt = layout.root(Tree::Fino);
    let counted = geo.features.inobtcount();
    let mut agi = Agi::new_zeroed();
    agi.magicnum = agi::MAGIC.into();
    agi.versionnum = AG_VERSION.into();
    agi.seqno = agno.0.into();
    agi.length = geo.ag_length(agno).into();
    agi.root = layout.root(Tree::Ino).map_or(0, |agbno| agbno.0).into();
    agi.level = 1.into();
    agi.newino = NULLAGINO.into();
    agi.dirino = NULLAGINO.into();
    if let Some(chunk) = layout.chunk {
        let inodes = chunk.len.0 << geo.inopblog;
        agi.count = inodes.into();
        agi.freecount = (inodes - USED_INODES).into();
        agi.newino = geo.agb_to_agino(chunk.start).0.into();
    }
    agi.unlinked = [NULLAGINO.into(); agi::UNLINKED_BUCKETS];
    agi.uuid = *geo.meta_uuid.as_bytes();
    agi.free_root = finobt.map_or(0, |agbno| agbno.0).into();
    agi.free_level = u32::from(finobt.is_some()).into();
    agi.ino_blocks = u32::from(counted).into();
    agi.fino_blocks = u32::from(counted && finobt.is_some()).into();
    padded(agi.as_bytes(), geo.sectsize(), agi::CRC_OFFSET)
}

fn agfl_sector(geo: &Geometry, agno: AgNumber, layout: &AgLayout) -> Vec<u8> {
    let mut head = AgflHeader::new_zeroed();
    head.magicnum = agfl::MAGIC.into();
    head.seqno = agno.0.into();
    head.uuid = *geo.meta_uuid.as_bytes();
    let mut slots = vec![U32::new(agfl::NULLAGBLOCK); agfl::slots(geo) as usize];
    if let Some(agfl) = layout.agfl {
        // Slot 0 stays unused: the list begins at slot 1.
        for (slot, agbno) in slots.iter_mut().skip(1).zip(agfl.start.0..agfl.end()) {
            *slot = agbno.into();
        }
    }
    let bytes = [head.as_bytes(), slots.as_bytes()].concat();
    padded(&bytes, geo.sectsize(), agfl::CRC_OFFSET)
}

/// The root of `tree`, a leaf.
fn root_block(
    geo: &Geometry,
    agno: AgNumber,
    layout: &AgLayout,
    tree: Tree,
    agbno: AgBlock,
) -> Vec<u8> {
    let free = |extents: &[Extent]| {
        extents.iter().map(|e| alloc::Rec::new(e.start, e.len)).collect::<Vec<_>>()
    };
    let (count, records) = match tree {
        Tree::Bno => records(&free(&layout.free)),
        Tree::Cnt => {
            let mut by_size = layout.free.clone();
            by_size.sort_by_key(|extent| (extent.len, extent.start));
            records(&free(&by_size))
        }
        Tree::Ino | Tree::Fino => records(&chunk_records(geo, layout)),
        Tree::Rmap => records(&owners(layout)),
        Tree::Refcount => (0, Vec::new()),
    };
    let head = Header {
        magic: tree.magic(geo).into(),
        level: 0.into(),
        numrecs: u16_of(count).into(),
        leftsib: NULLAGBLOCK.into(),
        rightsib: NULLAGBLOCK.into(),
    };
    let own = SelfDescription {
        bno: geo.agb_to_daddr(agno, agbno).0.into(),
        lsn: 0.into(),
        uuid: *geo.meta_uuid.as_bytes(),
        owner: agno.0.into(),
        crc: [0; 4],
    };
    let bytes = [head.as_bytes(), own.as_bytes(), &records].concat();
    padded(&bytes, geo.blocksize(), agbtree::CRC_OFFSET)
}

fn records<R: IntoBytes + Immutable>(records: &[R]) -> (usize, Vec<u8>) {
    (records.len(), records.as_bytes().to_vec())
}

/// The first chunk's records: one, or more where a block holds more than 64 inodes.
fn chunk_records(geo: &Geometry, layout: &AgLayout) -> Vec<inobt::Rec> {
    let Some(chunk) = layout.chunk else { return Vec::new() };
    let first = geo.agb_to_agino(chunk.start).0;
    let end = first + (chunk.len.0 << geo.inopblog);
    (first..end)
        .step_by(INODES_PER_CHUNK as usize)
        .map(|startino| {
            let used = if startino == first { USED_INODES } else { 0 };
            let chunk = Chunk {
                startino: AgIno(startino),
                holemask: 0,
                count: INODES_PER_CHUNK,
                freecount: INODES_PER_CHUNK - used,
                free: u64::MAX << used,
            };
            chunk.encode(geo)
        })
        .collect()
}

/// The reverse mappings: every used block of the group.
fn owners(layout: &AgLayout) -> Vec<rmap::Rec> {
    let block = |agbno: AgBlock| Extent { start: agbno, len: ExtLen(1) };
    let headers = Extent { start: AgBlock(0), len: ExtLen(layout.headers) };
    let mut owned = vec![(headers, owner::FS)];
    owned.extend(layout.roots.iter().map(|&(tree, agbno)| {
        let owner = match tree {
            Tree::Bno | Tree::Cnt | Tree::Rmap => owner::AG,
            Tree::Ino | Tree::Fino => owner::INOBT,
            Tree::Refcount => owner::REFC,
        };
        (block(agbno), owner)
    }));
    owned.extend(layout.log.map(|extent| (extent, owner::LOG)));
    owned.extend(layout.agfl.map(|extent| (extent, owner::AG)));
    owned.extend(layout.chunk.map(|extent| (extent, owner::INODES)));
    owned.sort_by_key(|(extent, _)| extent.start);
    let mut merged: Vec<(Extent, u64)> = Vec::new();
    for (extent, owner) in owned {
        match merged.last_mut() {
            Some((last, last_owner)) if *last_owner == owner && last.end() == extent.start.0 => {
                last.len.0 += extent.len.0;
            }
            _ => merged.push((extent, owner)),
        }
    }
    merged
        .into_iter()
        .map(|(extent, owner)| rmap::Rec {
            startblock: extent.start.0.into(),
            blockcount: extent.len.0.into(),
            owner: owner.into(),
            offset: 0.into(),
        })
        .collect()
}

/// `bytes`, filled up with zeroes to `len`, with its CRC at byte `crc`.
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
