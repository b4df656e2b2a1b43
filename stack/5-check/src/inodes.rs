//! Phase 3: every inode, in use or free, with the maps of its forks.
//!
//! Inode chunks are read in large pieces and each inode is judged where it lies. What its forks
//! use is put down for phase 5; what it says of itself goes to the table for phases 4 and 6.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use xfskit_format::bmbt::Extent;
use xfskit_format::inobt::INODES_PER_CHUNK;
use xfskit_format::inode::{self, Dinode, FileType, Format, flags, flags2};
use xfskit_format::{Corruption, Ctx, Expected, Fork, Location, Value, rmap};
use xfskit_units::{AgBlock, AgIno, AgNumber, Daddr, Ino};

use crate::attrs;
use crate::census::{OFF_REFLINK, OFF_REGULAR, Used};
use crate::chunks;
use crate::datree;
use crate::forks::{self, Mapped};
use crate::groups::Group;
use crate::parallel;
use crate::parents;
use crate::report::{Phase, Progress};
use crate::symlinks;
use crate::table::{InodeTable, Kind, rank_in};
use crate::volume::Volume;

/// Bytes of inodes read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Extents a worker keeps before it hands them to their groups.
const CLAIMS: usize = 8192;

/// What all workers of this phase and the next share.
pub(crate) struct Inodes<'a, 'v> {
    pub vol: &'a Volume<'v>,
    pub groups: &'a [Group],
    pub table: &'a InodeTable,
    /// The same volume, for reading again without reporting again.
    pub quiet: &'a Volume<'v>,
    /// False once some fork could not be followed to its end.
    pub forks_known: &'a AtomicBool,
    /// False once some attributes could not be read: then parent pointers are missing.
    pub attrs_known: &'a AtomicBool,
    /// True once some inode has an attribute fork.
    pub attrs_found: &'a AtomicBool,
}

impl Inodes<'_, '_> {
    /// Some blocks of some inode could not be found out.
    pub(crate) fn lose_forks(&self) {
        self.forks_known.store(false, Ordering::Relaxed);
    }
}

/// A run of blocks that hold inodes.
#[derive(Clone, Copy)]
struct Piece {
    agno: AgNumber,
    start: u32,
    len: u32,
}

fn pieces(shared: &Inodes<'_, '_>) -> Vec<Piece> {
    let step = u32::try_from(PIECE_BYTES >> shared.vol.geo.blocklog).unwrap_or(1).max(1);
    let mut pieces = Vec::new();
    for (agno, group) in shared.vol.geo.ags().zip(shared.groups) {
        for run in chunks::claims(shared.vol, &group.chunks.list) {
            for start in (run.start..run.end()).step_by(step as usize) {
                pieces.push(Piece { agno, start, len: step.min(run.end() - start) });
            }
        }
    }
    pieces
}

/// Judges all inodes; answers with the directories, in order.
pub(crate) fn judge(
    shared: &Inodes<'_, '_>,
    threads: usize,
    progress: &dyn Progress,
) -> (Vec<Ino>, Counts) {
    let pieces = pieces(shared);
    let done = AtomicU64::new(0);
    let workers = parallel::for_each(
        threads,
        pieces.len(),
        || Worker::new(shared),
        |worker, index| {
            worker.judge_piece(pieces[index]);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(16) || done == pieces.len() as u64 {
                progress.report(Phase::Inodes, done, pieces.len() as u64);
            }
        },
    );
    let mut directories = Vec::new();
    let mut counts = Counts::default();
    for mut worker in workers {
        worker.hand_over();
        directories.append(&mut worker.directories);
        counts.used += worker.counts.used;
        counts.free += worker.counts.free;
    }
    directories.sort_unstable();
    (directories, counts)
}

/// Inodes counted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub used: u64,
    pub free: u64,
}

struct Worker<'w, 'v> {
    shared: &'w Inodes<'w, 'v>,
    buf: Vec<u8>,
    scratch: forks::Scratch,
    tree: datree::Scratch,
    map: Vec<Extent>,
    claims: Vec<(AgNumber, Used)>,
    directories: Vec<Ino>,
    counts: Counts,
}

/// One inode and its place.
#[derive(Clone, Copy)]
struct Place {
    ino: Ino,
    rank: usize,
    /// What the inode btree says.
    in_use: bool,
    at: Location,
}

impl<'w, 'v> Worker<'w, 'v> {
    fn new(shared: &'w Inodes<'w, 'v>) -> Self {
        Self {
            shared,
            buf: Vec::new(),
            scratch: forks::Scratch::default(),
            tree: datree::Scratch::default(),
            map: Vec::new(),
            claims: Vec::with_capacity(CLAIMS),
            directories: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn judge_piece(&mut self, piece: Piece) {
        let vol = self.shared.vol;
        let geo = &vol.geo;
        let mut buf = std::mem::take(&mut self.buf);
        buf.resize((piece.len as usize) << geo.blocklog, 0);
        let daddr = geo.agb_to_daddr(piece.agno, AgBlock(piece.start));
        let at = Location::of("inodes").ag(piece.agno).agb(AgBlock(piece.start));
        let sectors = geo.block_sectors().0 * u64::from(piece.len);
        if vol.read(at.daddr(daddr, xfskit_units::Sectors(sectors)), &mut buf) {
            for (agbno, block) in (piece.start..).zip(buf.chunks_exact(geo.blocksize())) {
                self.judge_block(piece.agno, AgBlock(agbno), block);
            }
        } else {
            self.shared.lose_forks();
        }
        self.buf = buf;
        if self.claims.len() >= CLAIMS {
            self.hand_over();
        }
    }

    fn judge_block(&mut self, agno: AgNumber, agbno: AgBlock, block: &[u8]) {
        let geo = &self.shared.vol.geo;
        let daddr = geo.agb_to_daddr(agno, agbno);
        let at = Location::of("inode").ag(agno).agb(agbno).daddr(daddr, geo.block_sectors());
        let first = geo.agb_to_agino(agbno);
        let chunks = &self.shared.groups[agno.0 as usize].chunks;
        let mut found = None;
        for (slot, bytes) in (0u32..).zip(block.chunks_exact(geo.inodesize())) {
            let agino = AgIno(first.0.saturating_add(slot));
            if slot % INODES_PER_CHUNK == 0 {
                found = chunks.find(agino);
            }
            let Some((place, chunk)) = found else { continue };
            let Some(bit) = agino.since(chunk.startino) else { continue };
            if chunk.present() >> bit & 1 == 0 {
                continue;
            }
            let ino = geo.agino_to_ino(agno, agino);
            let place = Place {
                ino,
                rank: (chunks.base + place) * INODES_PER_CHUNK as usize + bit as usize,
                in_use: chunk.free >> bit & 1 == 0,
                at: at.ino(ino),
            };
            self.judge_inode(bytes, &place);
        }
    }

    /// Judges one inode, whose checksum alone may be wrong.
    fn judge_inode(&mut self, bytes: &[u8], place: &Place) {
        let vol = self.shared.vol;
        let ctx = vol.ctx(place.at);
        match Dinode::verify(bytes, &ctx, place.ino) {
            Ok(inode) if !vol.is_suspect(inode_place(vol, place), bytes) => {
                self.judge_sound(&inode, &ctx, place);
            }
            _ => self.judge_faulty(bytes, &ctx, place),
        }
    }

    /// An inode that does not pass, or that is in doubt: another copy of it may, or its content but
    /// for the checksum.
    #[cold]
    fn judge_faulty(&mut self, bytes: &[u8], ctx: &Ctx<'_>, place: &Place) {
        let vol = self.shared.vol;
        let at = inode_place(vol, place);
        let mut copy = bytes.to_vec();
        let judged = vol.judge_in(at, &mut copy, inode::CRC_OFFSET, |bytes| {
            let inode = Dinode::verify(bytes, ctx, place.ino).map_err(|fault| {
                if place.in_use { without_mode(bytes, ctx).unwrap_or(fault) } else { fault }
            })?;
            self.judge_sound(&inode, ctx, place);
            Ok(())
        });
        if judged.is_none() {
            self.shared.table.set(place.rank, Kind::Broken, 0);
            self.shared.lose_forks();
        }
    }

    fn judge_sound(&mut self, inode: &Dinode<'_>, ctx: &Ctx<'_>, place: &Place) {
        let sink = &self.shared.vol.sink;
        let holds = inode.nlink() != 0 || inode.nblocks().0 != 0;
        if place.in_use && inode.is_free() && holds {
            sink.error(Err(no_mode(ctx)));
            self.shared.table.set(place.rank, Kind::Broken, 0);
            self.shared.lose_forks();
            return;
        }
        if inode.is_free() == place.in_use {
            let found = if place.in_use {
                "its record in the inobt says that it is in use, its mode that it is free"
            } else {
                "its record in the inobt says that it is free, its mode that it is in use"
            };
            sink.error(ctx.fail("inobt.free", "the same in both", found));
        }
        sink.error(ctx.lsn("inode.lsn", inode.lsn()));
        let Some(file_type) = inode.file_type() else {
            self.counts.free += 1;
            self.judge_free(inode, ctx);
            return;
        };
        self.counts.used += 1;
        self.shared.table.set(place.rank, Kind::Used(file_type), inode.nlink());
        self.judge_core(inode, ctx, file_type);
        self.judge_forks(inode, ctx, place, file_type);
        if file_type == FileType::Directory {
            self.directories.push(place.ino);
        }
    }

    /// A free inode holds nothing and is on no list.
    fn judge_free(&self, inode: &Dinode<'_>, ctx: &Ctx<'_>) {
        let sink = &self.shared.vol.sink;
        let nblocks = inode.nblocks().0;
        if nblocks != 0 {
            let found = format!("nblocks is {nblocks}, expected 0 in a free inode");
            sink.error(ctx.fail("inode.nblocks.free", "0", found));
        }
        let next = inode.core.next_unlinked.get();
        sink.error(ctx.eq_hex("inode.next_unlinked", inode::NULLAGINO, next));
    }

    /// What the core of an inode in use says beyond its verifier.
    fn judge_core(&self, inode: &Dinode<'_>, ctx: &Ctx<'_>, file_type: FileType) {
        let vol = self.shared.vol;
        let sink = &vol.sink;
        let core = inode.core;
        let is_metadata = inode.flags2() & flags2::METADATA != 0;
        if core.version > 1 && !is_metadata && core.onlink.get() != 0 {
            sink.error(ctx.eq("inode.onlink", 0, core.onlink.get()));
        }
        let unknown = inode.flags() & !all(flags::ALL);
        let unknown2 = inode.flags2() & !all(flags2::ALL);
        if unknown != 0 || unknown2 != 0 {
            sink.error(ctx.eq_hex("inode.flags", 0u16, unknown));
            sink.error(ctx.eq_hex("inode.flags2", 0u64, unknown2));
        }
        let directory_only = match file_type {
            FileType::Directory => 0,
            _ => flags::PROJINHERIT | flags::RTINHERIT | flags::NOSYMLINKS,
        };
        let misplaced = inode.flags() & directory_only;
        let wanted = "flags of directories on directories only";
        sink.error(ctx.require(
            "inode.flags.directory",
            misplaced == 0,
            wanted,
            Value::Hex(misplaced.into()),
        ));
        let is_bitmap = vol.geo.features.metadir() || vol.geo.rbmino == ctx.at.ino;
        let is_new = inode.flags() & flags::NEWRTBM != 0 && !is_bitmap;
        sink.error(ctx.require(
            "inode.flags.newrtbm",
            !is_new,
            "that of the realtime bitmap only",
            true,
        ));
        if let Some(v3) = inode.v3
            && v3.pad2 != [0; 12]
        {
            sink.warning(ctx.require("inode.pad2", false, "zeroes", "other bytes"));
        }
        if !inode.has_bigtime() {
            let times = [("inode.atime", core.atime), ("inode.mtime", core.mtime)];
            let times = times.into_iter().chain([("inode.ctime", core.ctime)]);
            let born = inode.v3.map(|v3| ("inode.crtime", v3.crtime));
            for (id, time) in times.chain(born) {
                sink.error(ctx.at_most(id, 999_999_999, time.get() & 0xffff_ffff));
            }
        }
        if vol.log_clean && core.next_unlinked.get() != inode::NULLAGINO {
            let next = core.next_unlinked.get();
            sink.error(ctx.eq_hex("inode.next_unlinked", inode::NULLAGINO, next));
        }
        let size = inode.size().0;
        if file_type.is_special() {
            sink.error(ctx.eq("inode.size", 0, size));
        } else if file_type == FileType::Symlink {
            sink.error(ctx.at_most("inode.size", xfskit_format::symlink::MAX_LEN.into(), size));
        } else if file_type == FileType::Directory && inode.format() != Some(Format::Local) {
            let stray = size % vol.geo.dirblksize() as u64;
            sink.error(ctx.require("inode.size", stray == 0, "whole directory blocks", size));
        }
    }

    /// Both forks' maps, the counters of extents and blocks, and what is found through the maps
    /// but directories, which wait for phase 4.
    fn judge_forks(
        &mut self,
        inode: &Dinode<'_>,
        ctx: &Ctx<'_>,
        place: &Place,
        file_type: FileType,
    ) {
        let (mut blocks, mut sound) = (0, true);
        let mut map = std::mem::take(&mut self.map);
        for fork in [Fork::Data, Fork::Attr] {
            map.clear();
            let keep = fork == Fork::Attr || file_type == FileType::Symlink;
            let mapped = matches!(inode.fork_format(fork), Some(Format::Extents | Format::Btree));
            let mut whole = true;
            if mapped && inode.fork(fork).is_some() {
                let keep = keep.then_some(&mut map);
                let fork_blocks;
                (whole, fork_blocks) = self.judge_fork(inode, ctx, fork, place, keep);
                sound &= whole;
                blocks += fork_blocks;
            }
            if !whole && fork == Fork::Attr {
                self.shared.attrs_known.store(false, Ordering::Relaxed);
            } else if fork == Fork::Attr {
                self.judge_attrs(inode, place, &map);
            } else if whole && file_type == FileType::Symlink {
                symlinks::judge(self.shared.vol, inode, place.at, &map);
            }
        }
        self.map = map;
        if sound {
            self.shared.vol.sink.error(ctx.eq("inode.nblocks", blocks, inode.nblocks().0));
        } else {
            self.shared.lose_forks();
        }
    }

    fn judge_attrs(&mut self, inode: &Dinode<'_>, place: &Place, map: &[Extent]) {
        let shared = self.shared;
        if inode.forkoff() != 0 && !shared.attrs_found.load(Ordering::Relaxed) {
            shared.attrs_found.store(true, Ordering::Relaxed);
        }
        let sound = attrs::judge(
            shared.vol,
            &mut self.tree,
            inode,
            place.at,
            map,
            &mut |parent, generation, name| {
                let number = parents::number(parent, generation, name);
                shared.table.remove_parent(place.rank, number);
            },
        );
        if !sound {
            shared.attrs_known.store(false, Ordering::Relaxed);
        }
    }

    /// One fork's map: true where it could be followed to its end, and the blocks it uses.
    fn judge_fork(
        &mut self,
        inode: &Dinode<'_>,
        ctx: &Ctx<'_>,
        fork: Fork,
        place: &Place,
        mut keep: Option<&mut Vec<Extent>>,
    ) -> (bool, u64) {
        let vol = self.shared.vol;
        let mut flags = if fork == Fork::Attr { rmap::OFF_ATTR_FORK } else { 0 };
        let elsewhere = fork == Fork::Data && inode.is_realtime();
        if fork == Fork::Data && inode.is_regular() {
            flags |= OFF_REGULAR | if inode.is_reflink() { OFF_REFLINK } else { 0 };
        }
        let (mut blocks, mut extents) = (0u64, 0u64);
        let mut gather = Gather { vol, claims: &mut self.claims, owner: place.ino, last: None };
        let sound =
            forks::walk(
                vol,
                &mut self.scratch,
                inode,
                place.at,
                fork,
                &mut |mapped| match mapped {
                    Mapped::Extent(extent) => {
                        extents += 1;
                        blocks = blocks.saturating_add(extent.blockcount.0);
                        if !elsewhere {
                            gather.content(&extent, flags);
                        }
                        if let Some(map) = &mut keep {
                            map.push(extent);
                        }
                    }
                    Mapped::Btree(fsbno) => {
                        blocks = blocks.saturating_add(1);
                        gather.btree_block(fsbno, flags & rmap::OFF_ATTR_FORK);
                    }
                },
            );
        gather.flush();
        if sound {
            let id = if fork == Fork::Data { "inode.nextents" } else { "inode.naextents" };
            vol.sink.error(ctx.eq(id, extents, inode.fork_nextents(fork)));
        }
        (sound, blocks)
    }

    /// Gives what was put down to the groups.
    fn hand_over(&mut self) {
        self.claims.sort_unstable_by_key(|(agno, _)| *agno);
        for run in self.claims.chunk_by(|a, b| a.0 == b.0) {
            let Some(group) =
                run.first().and_then(|(agno, _)| self.shared.groups.get(agno.0 as usize))
            else {
                continue;
            };
            group.claim(run.iter().map(|(_, used)| *used));
        }
        self.claims.clear();
    }
}

/// Puts down the extents of one fork in the largest pieces, as the rmapbt has them.
struct Gather<'g, 'v> {
    vol: &'g Volume<'v>,
    claims: &'g mut Vec<(AgNumber, Used)>,
    owner: Ino,
    last: Option<(AgNumber, Used)>,
}

impl Gather<'_, '_> {
    fn content(&mut self, extent: &Extent, flags: u64) {
        let Some((agno, agbno)) = self.vol.geo.fsb_split(extent.startblock) else { return };
        let Ok(len) = u32::try_from(extent.blockcount.0) else { return };
        let state = if extent.unwritten { rmap::OFF_UNWRITTEN } else { 0 };
        let offset = extent.startoff.0 | flags | state;
        let used = Used { start: agbno.0, len, owner: self.owner.0, offset };
        if let Some((last_agno, last)) = &mut self.last
            && *last_agno == agno
            && last.end() == used.start
            && last.offset.checked_add(last.len.into()) == Some(offset)
            && let Some(sum) = last.len.checked_add(len)
        {
            last.len = sum;
            return;
        }
        self.flush();
        self.last = Some((agno, used));
    }

    fn btree_block(&mut self, fsbno: xfskit_units::FsBlock, flags: u64) {
        let Some((agno, agbno)) = self.vol.geo.fsb_split(fsbno) else { return };
        let offset = flags | rmap::OFF_BMBT_BLOCK;
        self.claims.push((agno, Used { start: agbno.0, len: 1, owner: self.owner.0, offset }));
    }

    fn flush(&mut self) {
        self.claims.extend(self.last.take());
    }
}

/// Where one inode lies. Copies are read in units of 512 bytes; smaller inodes share one, and have
/// no place of their own.
fn inode_place(vol: &Volume<'_>, place: &Place) -> Location {
    let whole = vol.geo.inodesize().is_multiple_of(512);
    let offset = vol.geo.ino_to_byte(place.ino).filter(|_| whole);
    Location { daddr: offset.map(|byte| Daddr(byte.0 / 512)), ..place.at }
}

/// All bits that a flag word has names for.
fn all<T: Copy + Default + std::ops::BitOr<Output = T>>(bits: &[(T, &str)]) -> T {
    bits.iter().fold(T::default(), |all, (bit, _)| all | *bit)
}

/// Rank of `ino`, for those who hold the shared state.
pub(crate) fn rank_of(shared: &Inodes<'_, '_>, ino: Ino) -> Option<usize> {
    let (agno, agino) = shared.vol.geo.ino_split(ino)?;
    rank_in(shared.groups, agno, agino)
}

/// The fault of an inode in use whose mode is 0.
fn no_mode(ctx: &Ctx<'_>) -> Box<Corruption> {
    let wanted = Expected::Described("the type of a file, for it is in use".into());
    ctx.corruption("inode.mode", wanted, Value::Hex(0))
}

/// True where the inodes of the group of `ino` are not all known, as where its inode btree is
/// damaged: whether such an inode is in use cannot be told.
pub(crate) fn is_unknown(shared: &Inodes<'_, '_>, ino: Ino) -> bool {
    let group =
        shared.vol.geo.ino_split(ino).and_then(|(agno, _)| shared.groups.get(agno.0 as usize));
    group.is_some_and(|group| !group.chunks.complete)
}

/// The fault of an inode in use whose mode is 0, where its checksum is right: what its verifier
/// says of one that is free leads astray.
fn without_mode(bytes: &[u8], ctx: &Ctx<'_>) -> Option<Box<Corruption>> {
    let inode = Dinode::parse(bytes, ctx.geo)?;
    let whole = ctx.crc("inode.crc", bytes, inode::CRC_OFFSET).is_ok();
    let starts = bytes.starts_with(b"IN") && inode.is_free();
    (whole && starts).then(|| no_mode(ctx))
}
