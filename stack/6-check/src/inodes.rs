//! Phase 3: every inode, in use or free, with the maps of its forks.
//!
//! Inode chunks are read in large pieces, and each inode is checked in place. The blocks that its
//! forks use are recorded for phase 5. Its link count goes to the table for phases 4 and 6.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use xfskit_format::bmbt::Extent;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_format::inode::{self, Dinode, FileType, Format, InodeFlags, InodeFlags2};
use xfskit_format::{Corruption, Ctx, Expected, Fork, Location, Value, rmap};
use xfskit_units::flags::FlagWord;
use xfskit_units::{AgBlock, AgIno, AgNumber, ByteLen, Daddr, Ino};

use crate::ahead::ReadAhead;
use crate::attrs;
use crate::chunks;
use crate::datree;
use crate::digest::Digester;
use crate::digests::{Gatherer, Pending};
use crate::forks::{self, Mapped};
use crate::groups::Group;
use crate::owners::{OFF_REFLINK, OFF_REGULAR, UsedExtent};
use crate::parallel;
use crate::parents;
use crate::report::{Phase, Progress};
use crate::symlinks;
use crate::table::{InodeTable, Kind, rank_in};
use crate::volume::Volume;

/// Bytes of inodes read at once: few enough to stay in a processor's cache until they are checked.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that are announced to the device before they are read.
const AHEAD: usize = 32;
/// Number of extents that a worker keeps before it hands them to their groups.
const CLAIMS: usize = 8192;

/// State that all workers of this phase and the next share.
pub(crate) struct Context<'a, 'v> {
    pub vol: &'a Volume<'v>,
    pub groups: &'a [Group],
    pub table: &'a InodeTable,
    /// The same volume with findings discarded, for reading again.
    pub quiet: &'a Volume<'v>,
    /// False once some fork could not be followed to its end.
    pub forks_known: &'a AtomicBool,
    /// False once some attributes could not be read, so that parent pointers are missing.
    pub attrs_known: &'a AtomicBool,
    /// True once some inode has an attribute fork.
    pub attrs_found: &'a AtomicBool,
    /// Announces the content of directories.
    pub ahead: &'a ReadAhead,
    /// Collects digests of files, if they are wanted.
    pub gatherer: Option<&'a Gatherer>,
}

impl Context<'_, '_> {
    /// Records that some blocks of some inode are not known.
    pub(crate) fn mark_forks_unknown(&self) {
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

impl Piece {
    /// Has the device read the blocks, without waiting for them.
    fn announce(self, vol: &Volume<'_>) {
        let at = vol.geo.agb_to_daddr(self.agno, AgBlock(self.start)).byte_offset();
        vol.dev.will_need(at, ByteLen(u64::from(self.len) << vol.geo.blocklog));
    }
}

fn pieces(shared: &Context<'_, '_>) -> Vec<Piece> {
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

/// Checks all inodes. Returns the directories, in order.
pub(crate) fn check(
    shared: &Context<'_, '_>,
    threads: usize,
    progress: &dyn Progress,
) -> (Vec<Ino>, Counts) {
    let pieces = pieces(shared);
    pieces.iter().take(AHEAD).for_each(|piece| piece.announce(shared.vol));
    let done = AtomicU64::new(0);
    let workers = parallel::for_each(
        threads,
        pieces.len(),
        || Worker::new(shared),
        |worker, index| {
            if let Some(piece) = pieces.get(index + AHEAD) {
                piece.announce(shared.vol);
            }
            worker.check_piece(pieces[index]);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(16) || done == pieces.len() as u64 {
                progress.report(Phase::Inodes, done, pieces.len() as u64);
            }
        },
    );
    let mut directories = Vec::new();
    let mut counts = Counts::default();
    for mut worker in workers {
        worker.flush_claims();
        directories.append(&mut worker.directories);
        counts.used += worker.counts.used;
        counts.free += worker.counts.free;
    }
    directories.sort_unstable();
    (directories, counts)
}

/// Numbers of inodes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub used: u64,
    pub free: u64,
}

struct Worker<'w, 'v> {
    shared: &'w Context<'w, 'v>,
    buf: Vec<u8>,
    scratch: forks::Scratch,
    tree: datree::Scratch,
    map: Vec<Extent>,
    claims: Vec<(AgNumber, UsedExtent)>,
    digests: Pending,
    directories: Vec<Ino>,
    counts: Counts,
    /// First inode of the chunk without inodes that was reported last.
    no_chunk: Option<Ino>,
}

/// One inode and where it is.
#[derive(Clone, Copy)]
struct InodeSlot {
    ino: Ino,
    rank: usize,
    /// True if the inode btree has it as in use.
    in_use: bool,
    at: Location,
}

impl<'w, 'v> Worker<'w, 'v> {
    fn new(shared: &'w Context<'w, 'v>) -> Self {
        Self {
            shared,
            buf: Vec::new(),
            scratch: forks::Scratch::default(),
            tree: datree::Scratch::default(),
            map: Vec::new(),
            claims: Vec::with_capacity(CLAIMS),
            digests: Pending::default(),
            directories: Vec::new(),
            counts: Counts::default(),
            no_chunk: None,
        }
    }

    fn check_piece(&mut self, piece: Piece) {
        let vol = self.shared.vol;
        let geo = &vol.geo;
        let mut buf = std::mem::take(&mut self.buf);
        buf.resize((piece.len as usize) << geo.blocklog, 0);
        let daddr = geo.agb_to_daddr(piece.agno, AgBlock(piece.start));
        let at = Location::of("inodes").ag(piece.agno).agb(AgBlock(piece.start));
        let sectors = geo.block_sectors().0 * u64::from(piece.len);
        if vol.read(at.daddr(daddr, xfskit_units::Sectors(sectors)), &mut buf) {
            let mut near = 0;
            for (agbno, block) in (piece.start..).zip(buf.chunks_exact(geo.blocksize())) {
                self.check_block(piece.agno, AgBlock(agbno), block, &mut near);
            }
        } else {
            self.shared.mark_forks_unknown();
        }
        self.buf = buf;
        if let Some(gatherer) = self.shared.gatherer {
            self.digests.flush(gatherer);
        }
        if self.claims.len() >= CLAIMS {
            self.flush_claims();
        }
    }

    /// Checks the inodes of a block. `near`: the index of the chunk that was looked up last.
    fn check_block(&mut self, agno: AgNumber, agbno: AgBlock, block: &[u8], near: &mut usize) {
        let geo = &self.shared.vol.geo;
        let daddr = geo.agb_to_daddr(agno, agbno);
        let at = Location::of("inode").ag(agno).agb(agbno).daddr(daddr, geo.block_sectors());
        let first = geo.agb_to_agino(agbno);
        let chunks = &self.shared.groups[agno.0 as usize].chunks;
        let mut found = None;
        for (slot, bytes) in (0u32..).zip(block.chunks_exact(geo.inodesize())) {
            let agino = AgIno(first.0.saturating_add(slot));
            if slot % INODES_PER_CHUNK == 0 {
                found = chunks.find_near(agino, near);
            }
            let Some((place, chunk)) = found else { continue };
            let Some(bit) = agino.since(chunk.startino) else { continue };
            if chunk.present() >> bit & 1 == 0 {
                continue;
            }
            let ino = geo.agino_to_ino(agno, agino);
            let slot = InodeSlot {
                ino,
                rank: (chunks.base + place) * INODES_PER_CHUNK as usize + bit as usize,
                in_use: chunk.free >> bit & 1 == 0,
                at: at.ino(ino),
            };
            self.check_inode(bytes, &slot);
        }
    }

    /// Checks one inode.
    fn check_inode(&mut self, bytes: &[u8], slot: &InodeSlot) {
        let vol = self.shared.vol;
        let ctx = vol.ctx(slot.at);
        match Dinode::verify(bytes, &ctx, slot.ino) {
            Ok(inode) if !is_mismatch(vol, bytes, slot) => {
                self.check_verified(&inode, &ctx, slot);
            }
            _ => self.check_damaged(bytes, &ctx, slot),
        }
    }

    /// Returns true if no inode of the chunk of `slot` has the magic, and reports it once. Then the
    /// chunk's record is wrong, or the whole chunk is lost.
    #[cold]
    fn is_no_chunk(&mut self, bytes: &[u8], slot: &InodeSlot) -> bool {
        let vol = self.shared.vol;
        let Some((agno, agino)) = vol.geo.ino_split(slot.ino) else { return false };
        let Some(group) = self.shared.groups.get(agno.0 as usize) else { return false };
        let Some((_, chunk)) = group.chunks.find(agino) else { return false };
        if bytes.starts_with(b"IN") {
            return false;
        }
        let at = vol.geo.agino_to_ino(agno, chunk.startino);
        if self.no_chunk != Some(at) {
            if (0..INODES_PER_CHUNK).any(|slot| self.has_magic(agno, chunk, slot)) {
                return false;
            }
            self.no_chunk = Some(at);
            let ctx = vol.ctx(inode::location(&vol.geo, at));
            let found = "none of its 64 inodes has the magic";
            vol.sink.error(ctx.fail("inobt.chunk", "inodes where a record has a chunk", found));
        }
        true
    }

    /// Returns true if an inode of `chunk` cannot be read, has another copy, or has the magic.
    fn has_magic(&self, agno: AgNumber, chunk: &Chunk, slot: u32) -> bool {
        let geo = &self.shared.vol.geo;
        let agino = AgIno(chunk.startino.0.saturating_add(slot));
        if chunk.present() >> slot & 1 == 0 {
            return false;
        }
        let at = inode::location(geo, geo.agino_to_ino(agno, agino));
        let mut block = vec![0; geo.blocksize()];
        let copies = at.daddr.map_or(0, |daddr| {
            self.shared.vol.dev.alternatives(daddr.byte_offset(), ByteLen(block.len() as u64))
        });
        let bytes = geo.agino_block_offset(agino)..;
        copies > 1
            || !self.shared.quiet.read(at, &mut block)
            || block.get(bytes).is_none_or(|bytes| bytes.starts_with(b"IN"))
    }

    /// Checks an inode that failed verification or whose copies mismatch. Another copy may pass, or
    /// only the checksum may be wrong.
    #[cold]
    fn check_damaged(&mut self, bytes: &[u8], ctx: &Ctx<'_>, slot: &InodeSlot) {
        let vol = self.shared.vol;
        if self.is_no_chunk(bytes, slot) {
            self.shared.table.set(slot.rank, Kind::Broken, 0);
            self.shared.mark_forks_unknown();
            return;
        }
        let at = inode_location(vol, slot.at, slot.ino);
        let mut copy = bytes.to_vec();
        let verified = vol.verify_in(at, &mut copy, inode::CRC_OFFSET, |bytes| {
            let inode = Dinode::verify(bytes, ctx, slot.ino).map_err(|corruption| {
                if slot.in_use { wrong_field(bytes, ctx, corruption) } else { corruption }
            })?;
            self.check_verified(&inode, ctx, slot);
            Ok(())
        });
        if verified.is_none() {
            self.shared.table.set(slot.rank, Kind::Broken, 0);
            self.shared.mark_forks_unknown();
        }
    }

    fn check_verified(&mut self, inode: &Dinode<'_>, ctx: &Ctx<'_>, slot: &InodeSlot) {
        let sink = &self.shared.vol.sink;
        let holds = inode.nlink() != 0 || inode.nblocks().0 != 0;
        if slot.in_use && inode.is_free() && holds {
            sink.error(Err(mode_corruption(ctx)));
            self.shared.table.set(slot.rank, Kind::Broken, 0);
            self.shared.mark_forks_unknown();
            return;
        }
        if inode.is_free() == slot.in_use {
            let found = if slot.in_use {
                "its record in the inobt says that it is in use, its mode that it is free"
            } else {
                "its record in the inobt says that it is free, its mode that it is in use"
            };
            sink.error(ctx.fail("inobt.free", "the same in both", found));
        }
        sink.error(ctx.lsn("inode.lsn", inode.lsn()));
        let Some(file_type) = inode.file_type() else {
            self.counts.free += 1;
            self.check_free(inode, ctx);
            return;
        };
        self.counts.used += 1;
        self.shared.table.set(slot.rank, Kind::Used(file_type), inode.nlink());
        self.check_core(inode, ctx, file_type);
        self.check_forks(inode, ctx, slot, file_type);
        if file_type == FileType::Directory {
            self.directories.push(slot.ino);
        }
    }

    /// Checks that a free inode has no blocks and is on no list.
    fn check_free(&self, inode: &Dinode<'_>, ctx: &Ctx<'_>) {
        let sink = &self.shared.vol.sink;
        let nblocks = inode.nblocks().0;
        if nblocks != 0 {
            let found = format!("nblocks is {nblocks}, expected 0 in a free inode");
            sink.error(ctx.fail("inode.nblocks.free", "0", found));
        }
        let next = inode.core.next_unlinked.get();
        sink.error(ctx.eq_hex("inode.next_unlinked", inode::NULLAGINO, next));
    }

    /// Checks the core of an inode in use beyond its verifier.
    fn check_core(&self, inode: &Dinode<'_>, ctx: &Ctx<'_>, file_type: FileType) {
        let vol = self.shared.vol;
        let sink = &vol.sink;
        let core = inode.core;
        let is_metadata = inode.flags2().contains(InodeFlags2::METADATA);
        if core.version > 1 && !is_metadata && core.onlink.get() != 0 {
            sink.error(ctx.eq("inode.onlink", 0, core.onlink.get()));
        }
        sink.error(ctx.eq_hex("inode.flags", 0u16, inode.flags().undefined().bits()));
        let mut misplaced = inode.flags2().undefined();
        if !matches!(file_type, FileType::Regular | FileType::Directory) {
            misplaced |= inode.flags2() & InodeFlags2::DAX;
        }
        sink.error(ctx.eq_hex("inode.flags2", 0u64, misplaced.bits()));
        let directory_only = match file_type {
            FileType::Directory => InodeFlags::empty(),
            _ => InodeFlags::PROJINHERIT | InodeFlags::RTINHERIT | InodeFlags::NOSYMLINKS,
        };
        let misplaced = inode.flags() & directory_only;
        let wanted = "flags of directories on directories only";
        sink.error(ctx.require(
            "inode.flags.directory",
            misplaced.is_empty(),
            wanted,
            Value::Hex(misplaced.bits().into()),
        ));
        let is_bitmap = vol.geo.features.metadir() || vol.geo.rbmino == ctx.at.ino;
        let is_new = inode.flags().contains(InodeFlags::NEWRTBM) && !is_bitmap;
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

    /// Checks both forks' maps, the counters of extents and blocks, and what is found through the
    /// maps except directories, which phase 4 checks.
    fn check_forks(
        &mut self,
        inode: &Dinode<'_>,
        ctx: &Ctx<'_>,
        slot: &InodeSlot,
        file_type: FileType,
    ) {
        let (mut blocks, mut sound) = (0, true);
        let mut digester = self.shared.gatherer.map(|_| Digester::new(inode, file_type));
        let mut map = std::mem::take(&mut self.map);
        for fork in [Fork::Data, Fork::Attr] {
            map.clear();
            let is_dir = file_type == FileType::Directory;
            let keep = fork == Fork::Attr || is_dir || file_type == FileType::Symlink;
            let mapped = match inode.fork_format(fork) {
                Some(Format::Extents) => inode.fork_nextents(fork) != 0,
                format => matches!(format, Some(Format::Btree | Format::MetaBtree)),
            };
            let mut whole = true;
            if mapped && inode.fork(fork).is_some() {
                let keep = keep.then_some(&mut map);
                let fork_blocks;
                (whole, fork_blocks) =
                    self.check_fork(inode, ctx, fork, slot, (keep, digester.as_mut()));
                sound &= whole;
                blocks += fork_blocks;
            }
            if !whole && fork == Fork::Attr {
                self.shared.attrs_known.store(false, Ordering::Relaxed);
            } else if fork == Fork::Attr {
                self.check_attrs(inode, slot, &map);
            } else if whole && file_type == FileType::Symlink {
                symlinks::check(self.shared.vol, inode, slot.at, &map);
            } else if is_dir {
                self.shared.ahead.directory(self.shared.vol.dev, &self.shared.vol.geo, &map);
            }
        }
        self.map = map;
        if sound {
            self.shared.vol.sink.error(ctx.eq("inode.nblocks", blocks, inode.nblocks().0));
            if let Some((gatherer, digester)) = self.shared.gatherer.zip(digester) {
                self.digests.add(gatherer, slot.rank, digester.finish());
            }
        } else {
            self.shared.mark_forks_unknown();
        }
    }

    fn check_attrs(&mut self, inode: &Dinode<'_>, slot: &InodeSlot, map: &[Extent]) {
        let shared = self.shared;
        if inode.forkoff() != 0 && !shared.attrs_found.load(Ordering::Relaxed) {
            shared.attrs_found.store(true, Ordering::Relaxed);
        }
        let sound = attrs::check(
            shared.vol,
            &mut self.tree,
            inode,
            slot.at,
            map,
            &mut |parent, generation, name| {
                let number = parents::number(parent, generation, name);
                shared.table.remove_parent(slot.rank, number);
            },
        );
        if !sound {
            shared.attrs_known.store(false, Ordering::Relaxed);
        }
    }

    /// Checks one fork's map. Returns true if it could be followed to its end, and its number of
    /// blocks.
    fn check_fork(
        &mut self,
        inode: &Dinode<'_>,
        ctx: &Ctx<'_>,
        fork: Fork,
        slot: &InodeSlot,
        (mut keep, mut digester): (Option<&mut Vec<Extent>>, Option<&mut Digester>),
    ) -> (bool, u64) {
        let vol = self.shared.vol;
        let mut flags = if fork == Fork::Attr { rmap::OFF_ATTR_FORK } else { 0 };
        let elsewhere = fork == Fork::Data && inode.is_realtime();
        if fork == Fork::Data && inode.is_regular() {
            flags |= OFF_REGULAR | if inode.is_reflink() { OFF_REFLINK } else { 0 };
        }
        let (mut blocks, mut extents) = (0u64, 0u64);
        let mut gather = ClaimMerger { vol, claims: &mut self.claims, owner: slot.ino, last: None };
        let sound =
            forks::walk(vol, &mut self.scratch, inode, slot.at, fork, &mut |mapped| match mapped {
                Mapped::Extent(extent) => {
                    extents += 1;
                    blocks = blocks.saturating_add(extent.blockcount.0);
                    if !elsewhere {
                        gather.content(&extent, flags);
                    }
                    if let Some(map) = &mut keep {
                        map.push(extent);
                    }
                    if let Some(digester) = &mut digester {
                        digester.extent(fork, &extent);
                    }
                }
                Mapped::Btree(fsbno) => {
                    blocks = blocks.saturating_add(1);
                    gather.btree_block(fsbno, flags & rmap::OFF_ATTR_FORK);
                }
            });
        gather.flush();
        if let Some(digester) = digester {
            digester.end(fork);
        }
        if sound {
            vol.sink.error(ctx.eq(forks::counter(fork), extents, inode.fork_nextents(fork)));
        }
        (sound, blocks)
    }

    /// Hands the recorded extents to their groups.
    fn flush_claims(&mut self) {
        self.claims.sort_unstable_by_key(|(agno, _)| *agno);
        for run in self.claims.chunk_by(|a, b| a.0 == b.0) {
            let Some(group) =
                run.first().and_then(|(agno, _)| self.shared.groups.get(agno.0 as usize))
            else {
                continue;
            };
            group.claim_files(run.iter().map(|(_, used)| *used), self.shared.vol.spill);
        }
        self.claims.clear();
    }
}

/// Records the extents of one fork in the largest pieces, as the rmapbt has them.
struct ClaimMerger<'g, 'v> {
    vol: &'g Volume<'v>,
    claims: &'g mut Vec<(AgNumber, UsedExtent)>,
    owner: Ino,
    last: Option<(AgNumber, UsedExtent)>,
}

impl ClaimMerger<'_, '_> {
    fn content(&mut self, extent: &Extent, flags: u64) {
        let Some((agno, agbno)) = self.vol.geo.fsb_split(extent.startblock) else { return };
        let Ok(len) = u32::try_from(extent.blockcount.0) else { return };
        let state = if extent.unwritten { rmap::OFF_UNWRITTEN } else { 0 };
        let offset = extent.startoff.0 | flags | state;
        let used = UsedExtent { start: agbno.0, len, owner: self.owner.0, offset };
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
        self.claims
            .push((agno, UsedExtent { start: agbno.0, len: 1, owner: self.owner.0, offset }));
    }

    fn flush(&mut self) {
        self.claims.extend(self.last.take());
    }
}

/// Returns the location of the inode `ino` of the block `at`. Copies are read in units of 512
/// bytes. Smaller inodes share a unit and have no location of their own.
pub(crate) fn inode_location(vol: &Volume<'_>, at: Location, ino: Ino) -> Location {
    let whole = vol.geo.inodesize().is_multiple_of(512);
    let offset = vol.geo.ino_to_byte(ino).filter(|_| whole);
    Location { daddr: offset.map(|byte| Daddr(byte.0 / 512)), ..at }
}

/// Returns true if the copies of an inode are known to mismatch.
fn is_mismatch(vol: &Volume<'_>, bytes: &[u8], slot: &InodeSlot) -> bool {
    vol.mismatches.is_some() && vol.is_mismatch(inode_location(vol, slot.at, slot.ino), bytes)
}

/// Returns the rank of `ino`.
pub(crate) fn rank_of(shared: &Context<'_, '_>, ino: Ino) -> Option<usize> {
    let (agno, agino) = shared.vol.geo.ino_split(ino)?;
    rank_in(shared.groups, agno, agino)
}

/// Returns the corruption of an inode in use whose mode is 0.
fn mode_corruption(ctx: &Ctx<'_>) -> Box<Corruption> {
    let wanted = Expected::Described("the type of a file, for it is in use".into());
    ctx.corruption("inode.mode", wanted, Value::Hex(0))
}

/// Returns true if the inode btree of the group of `ino` is damaged, so that it is not known
/// whether the inode is in use.
pub(crate) fn is_unknown(shared: &Context<'_, '_>, ino: Ino) -> bool {
    let group =
        shared.vol.geo.ino_split(ino).and_then(|(agno, _)| shared.groups.get(agno.0 as usize));
    group.is_some_and(|group| !group.chunks.complete)
}

/// Returns the field that is wrong in an inode in use whose verifier found `corruption`, if the
/// checksum is right. A mode of 0 makes an inode look free, and a counter of extents that is too
/// large makes the number of blocks look too small.
fn wrong_field(bytes: &[u8], ctx: &Ctx<'_>, corruption: Box<Corruption>) -> Box<Corruption> {
    let whole = ctx.crc("inode.crc", bytes, inode::CRC_OFFSET).is_ok() && bytes.starts_with(b"IN");
    let Some(inode) = Dinode::parse(bytes, ctx.geo).filter(|_| whole) else { return corruption };
    if inode.is_free() {
        mode_corruption(ctx)
    } else if corruption.check.0 == "inode.nblocks" {
        forks::blank_extents(&inode, ctx).unwrap_or(corruption)
    } else {
        corruption
    }
}
