//! Phase 4: every directory: its blocks against each other, and its entries against the inodes that
//! they name.

use std::sync::atomic::{AtomicU64, Ordering};

use xfskit_format::bmbt::Extent;
use xfskit_format::dir::data::{self, Data, Form};
use xfskit_format::dir::free::{self, Free};
use xfskit_format::dir::leaf::{Kind as LeafKind, Leaf};
use xfskit_format::dir::{DataPtr, Entry, NULLDATAOFF, free_max, sf};
use xfskit_format::inobt::INODES_PER_CHUNK;
use xfskit_format::inode::{Dinode, FileType, Format};
use xfskit_format::{Ctx, Fork, Location, VerifyResult, hash, inode};
use xfskit_units::{FileOff, Ino, index};

use crate::datree::{self, LeafHead, MappedFork};
use crate::forks::{self, Mapped};
use crate::inodes::{Context, is_unknown, rank_of};
use crate::names;
use crate::parallel;
use crate::parents;
use crate::report::{Phase, Progress};
use crate::table::{Kind, chunk_in};
use crate::tree::{DirParent, Directories};

/// State and results of one thread.
pub(crate) struct Worker<'w, 'v> {
    shared: &'w Context<'w, 'v>,
    buf: Vec<u8>,
    /// Location of the inode block in `buf`.
    inode_block: Option<xfskit_units::Daddr>,
    inodes: Vec<u8>,
    forks: forks::Scratch,
    tree: datree::Scratch,
    map: Vec<Extent>,
    /// Hash and address of each entry of the current directory, from its data blocks.
    named: Vec<u64>,
    /// Hash and address of each entry of the current directory, from its hash table.
    hashed: Vec<u64>,
    /// Longest unused space of each data block, by number.
    bests: Vec<(u32, u16)>,
    /// True if all data blocks could be read.
    bests_known: bool,
    /// The ".." entry of every directory.
    pub dotdots: Vec<DirParent>,
    /// Every entry that names a directory.
    pub subdirs: Vec<DirParent>,
    /// The chunk of the inode that was looked up last: neighbours in a directory often share one.
    chunk: Option<RankedChunk>,
    /// Number of entries, without "." and "..".
    pub entries: u64,
    /// False once some directory could not be read to its end.
    pub complete: bool,
}

/// A chunk, and the rank of its first inode.
#[derive(Clone, Copy)]
struct RankedChunk {
    first: Ino,
    present: u64,
    rank: usize,
}

impl RankedChunk {
    /// Returns the chunk of `ino`.
    fn of(shared: &Context<'_, '_>, ino: Ino) -> Option<Self> {
        let geo = &shared.vol.geo;
        let (agno, agino) = geo.ino_split(ino)?;
        let (rank, chunk) = chunk_in(shared.groups, agno, agino)?;
        let first = geo.agino_to_ino(agno, chunk.startino);
        Some(Self { first, present: chunk.present(), rank })
    }

    /// Returns the index of `ino` in the chunk.
    fn slot(&self, ino: Ino) -> Option<u64> {
        ino.0.checked_sub(self.first.0).filter(|slot| *slot < INODES_PER_CHUNK.into())
    }
}

/// The directory that is being checked.
#[derive(Clone, Copy)]
struct Dir {
    ino: Ino,
    /// Its generation, which parent pointers repeat.
    generation: u32,
}

/// Number of directories in one piece of work.
const PIECE: usize = 16;

/// Maximum number of damaged blocks of one directory. Its other blocks are skipped then, because
/// extents that lead into foreign data are long.
const MAX_BAD: usize = 64;

/// Checks all `directories` and counts their entries.
pub(crate) fn check(
    shared: &Context<'_, '_>,
    directories: &[Ino],
    threads: usize,
    progress: &dyn Progress,
) -> (Directories, u64) {
    let pieces: Vec<&[Ino]> = directories.chunks(PIECE).collect();
    let done = AtomicU64::new(0);
    let workers = parallel::for_each(
        threads,
        pieces.len(),
        || Worker::new(shared),
        |worker, index| {
            for ino in pieces[index] {
                worker.check(*ino);
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(64) || done == pieces.len() as u64 {
                progress.report(Phase::Directories, done, pieces.len() as u64);
            }
        },
    );
    let mut all = Directories { dotdots: Vec::new(), subdirs: Vec::new(), complete: true };
    let mut entries = 0;
    for mut worker in workers {
        all.dotdots.append(&mut worker.dotdots);
        all.subdirs.append(&mut worker.subdirs);
        all.complete &= worker.complete;
        entries += worker.entries;
    }
    all.dotdots.sort_unstable();
    all.subdirs.sort_unstable();
    (all, entries)
}

/// Packs hash and address into one number, which sorts as hash tables do.
fn pack(hash: u32, address: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(address)
}

/// Returns the address of a packed pair.
fn address(packed: u64) -> DataPtr {
    DataPtr(u32::try_from(packed & 0xffff_ffff).unwrap_or(0))
}

impl<'w, 'v> Worker<'w, 'v> {
    pub(crate) fn new(shared: &'w Context<'w, 'v>) -> Self {
        Self {
            shared,
            buf: Vec::new(),
            inode_block: None,
            inodes: Vec::new(),
            forks: forks::Scratch::default(),
            tree: datree::Scratch::default(),
            map: Vec::new(),
            named: Vec::new(),
            hashed: Vec::new(),
            bests: Vec::new(),
            bests_known: true,
            chunk: None,
            dotdots: Vec::new(),
            subdirs: Vec::new(),
            entries: 0,
            complete: true,
        }
    }

    /// Checks the directory `ino`, whose inode passed phase 3.
    pub(crate) fn check(&mut self, ino: Ino) {
        let vol = self.shared.vol;
        let at = inode::location(&vol.geo, ino);
        let inodes = std::mem::take(&mut self.inodes);
        let inodes = self.read_inode_block(at, inodes);
        let offset = vol.geo.ino_split(ino).map(|(_, agino)| vol.geo.agino_block_offset(agino));
        let bytes = offset.and_then(|offset| inodes.get(offset..));
        if let Some(inode) = bytes.and_then(|bytes| Dinode::parse(bytes, &vol.geo)) {
            let dir = Dir { ino, generation: inode.generation() };
            self.check_content(&inode, at, dir);
        }
        self.inodes = inodes;
    }

    /// Reads the block of inodes at `at`, unless it was the last one read.
    fn read_inode_block(&mut self, at: Location, mut block: Vec<u8>) -> Vec<u8> {
        if self.inode_block != at.daddr {
            block.resize(self.shared.vol.geo.blocksize(), 0);
            let read = self.shared.vol.read(at, &mut block);
            self.inode_block = at.daddr.filter(|_| read);
            if !read {
                block.clear();
            }
        }
        block
    }

    fn check_content(&mut self, inode: &Dinode<'_>, at: Location, dir: Dir) {
        let vol = self.shared.vol;
        self.add_link(dir.ino); // its own "."
        if inode.format() == Some(Format::Local) {
            let ctx = vol.ctx(at.fork(Fork::Data));
            let size = usize::try_from(inode.size().0).unwrap_or(usize::MAX);
            let bytes = inode.data_fork().get(..size).unwrap_or(inode.data_fork());
            match sf::Sf::verify(bytes, &ctx) {
                Ok(list) => self.check_short_form(&ctx, &list, dir),
                Err(corruption) => {
                    vol.sink.error(Err(corruption));
                    self.complete = false;
                }
            }
            return;
        }
        let mut map = std::mem::take(&mut self.map);
        map.clear();
        // Phase 3 has reported errors of the map.
        let whole =
            forks::walk(self.shared.quiet, &mut self.forks, inode, at, Fork::Data, &mut |mapped| {
                if let Mapped::Extent(extent) = mapped {
                    map.push(extent);
                }
            });
        let sound = whole && {
            let fork = MappedFork { vol, ino: dir.ino, fork: Fork::Data, map: &map };
            self.check_blocks(fork, inode.size().0, at, dir)
        };
        self.complete &= sound;
        self.map = map;
    }

    // ---- entries -----------------------------------------------------------------------------

    fn add_link(&self, ino: Ino) {
        if let Some(rank) = rank_of(self.shared, ino) {
            self.shared.table.add_link(rank);
        }
    }

    /// Checks the ".." entry of `dir`.
    fn check_dotdot(&mut self, ctx: &Ctx<'_>, dir: Dir, parent: Ino) {
        self.dotdots.push(DirParent { dir: dir.ino, parent });
        let rank = rank_of(self.shared, parent);
        let kind = rank.map_or(Kind::Free, |rank| self.shared.table.kind(rank));
        let is_dir = matches!(kind, Kind::Broken | Kind::Used(FileType::Directory))
            || is_unknown(self.shared, parent);
        let sink = &self.shared.vol.sink;
        if sink.error(ctx.require("dir.dotdot", is_dir, "a directory", parent))
            && !self.was_removed(dir.ino)
        {
            self.add_link(parent);
        }
    }

    /// Returns true if `dir` has no name and waits for a replay or the next mount, which frees it:
    /// its parent does not count it any more, and its ".." stays.
    fn was_removed(&self, dir: Ino) -> bool {
        let nlink = rank_of(self.shared, dir).map(|rank| self.shared.table.nlink(rank));
        !self.shared.vol.log_clean && nlink == Some(0)
    }

    /// Returns the rank of `ino`, as [`rank_of`].
    fn rank(&mut self, ino: Ino) -> Option<usize> {
        if self.chunk.is_none_or(|chunk| chunk.slot(ino).is_none()) {
            self.chunk = RankedChunk::of(self.shared, ino);
        }
        let chunk = self.chunk?;
        let slot = chunk.slot(ino)?;
        (chunk.present >> slot & 1 != 0).then(|| chunk.rank + index(slot))
    }

    /// Checks any other entry.
    fn check_entry(&mut self, ctx: &Ctx<'_>, dir: Dir, entry: &Entry<'_>) {
        let shared = self.shared;
        let sink = &shared.vol.sink;
        self.entries += 1;
        sink.error(entry.verify_name(ctx));
        if matches!(entry.name, b"." | b"..") {
            let found = format!("{:?} is there again", String::from_utf8_lossy(entry.name));
            sink.error(ctx.fail("dir.dots", "\".\" and \"..\" once, first", found));
            return;
        }
        let rank = self.rank(entry.inumber);
        let kind = rank.map(|rank| (rank, shared.table.kind(rank)));
        let (Some((rank, kind)), true) = (kind, !matches!(kind, Some((_, Kind::Free)))) else {
            if is_unknown(shared, entry.inumber) {
                return;
            }
            let name = String::from_utf8_lossy(entry.name);
            let found = format!("{name:?} names inode {}, which is free", entry.inumber);
            sink.error(ctx.fail("dir.entry.free", "an inode in use", found));
            return;
        };
        shared.table.add_link(rank);
        if shared.vol.geo.features.parent() {
            shared.table.add_parent(rank, parents::number(dir.ino, dir.generation, entry.name));
        }
        let Kind::Used(file_type) = kind else { return };
        if let Some(filetype) = entry.filetype {
            sink.error(ctx.eq("dir.entry.ftype", file_type.ftype(), filetype));
        }
        if file_type == FileType::Directory {
            self.subdirs.push(DirParent { dir: entry.inumber, parent: dir.ino });
        }
    }

    fn check_short_form(&mut self, ctx: &Ctx<'_>, list: &sf::Sf<'_>, dir: Dir) {
        self.check_dotdot(ctx, dir, list.parent);
        let geo = &self.shared.vol.geo;
        for (index, entry) in list.entries().enumerate() {
            let ctx = ctx.entry(index);
            self.check_entry(&ctx, dir, &entry);
            let mut before = list.entries().take(index);
            if before.any(|other| hash::same_name(geo, other.name, entry.name)) {
                let name = String::from_utf8_lossy(entry.name);
                let found = format!("the name {name:?} is there twice");
                self.shared.vol.sink.error(ctx.fail("dir.dup", "each name once", found));
            }
        }
    }

    // ---- blocks ------------------------------------------------------------------------------

    /// Checks a directory in blocks. Returns false if a part could not be read.
    fn check_blocks(
        &mut self,
        fork: MappedFork<'_, '_>,
        size: u64,
        at: Location,
        dir: Dir,
    ) -> bool {
        let geo = &fork.vol.geo;
        self.named.clear();
        self.hashed.clear();
        self.bests.clear();
        let leafblk = u64::from(geo.dir_leafblk().0);
        let single = fork.map.last().is_none_or(|last| last.end().0 <= leafblk);
        let form = if single { Form::Block } else { Form::Data };
        let mut sound = self.check_data_blocks(fork, form, dir);
        self.bests_known = sound;
        if sound {
            self.check_size(fork, size, at);
        }
        if form == Form::Data {
            sound &= self.check_leaves(fork, at);
            if sound {
                self.compare_hashes(fork);
            }
        }
        if sound {
            self.named.sort_unstable();
            names::check_duplicates(fork, &self.named);
        }
        sound
    }

    /// Checks that `di_size` ends with the last data block.
    fn check_size(&self, fork: MappedFork<'_, '_>, size: u64, at: Location) {
        let geo = &fork.vol.geo;
        let dirblk = geo.dirblksize() as u64;
        let due = self.bests.last().map_or(0, |(db, _)| (u64::from(*db) + 1) * dirblk);
        fork.vol.sink.error(fork.vol.ctx(at).eq("inode.size", due, size));
    }

    fn check_data_blocks(&mut self, fork: MappedFork<'_, '_>, form: Form, dir: Dir) -> bool {
        let geo = &fork.vol.geo;
        let step = u64::from(geo.dirblkfsbs());
        let leafblk = u64::from(geo.dir_leafblk().0);
        let mut bad = 0usize;
        let mut next = 0u64;
        let mut buf = std::mem::take(&mut self.buf);
        for extent in fork.map.iter().take_while(|e| e.startoff.0 < leafblk) {
            let from = (extent.startoff.0 / step * step).max(next);
            let to = extent.end().0.min(leafblk);
            next = to.next_multiple_of(step).max(next);
            for fileoff in (from..to).step_by(usize::try_from(step).unwrap_or(1)) {
                bad += usize::from(!self.check_data_block(fork, form, dir, fileoff, &mut buf));
                if bad > MAX_BAD {
                    break;
                }
            }
        }
        let sound = bad == 0;
        self.buf = buf;
        let ctx = fork.vol.ctx(fork.location("dir block", 0));
        let first = self.bests.first().is_some_and(|(db, _)| *db == 0) || !sound;
        let wanted = "a first block, with \".\" and \"..\"";
        fork.vol.sink.error(ctx.require("dir.data.dot", first, wanted, "a hole")) && sound
    }

    fn check_data_block(
        &mut self,
        fork: MappedFork<'_, '_>,
        form: Form,
        dir: Dir,
        fileoff: u64,
        buf: &mut Vec<u8>,
    ) -> bool {
        let vol = fork.vol;
        let at = fork.location("dir block", fileoff);
        let ctx = vol.ctx(at);
        buf.resize(vol.geo.dirblksize(), 0);
        let db = fileoff >> vol.geo.dirblklog;
        let mut verify = |bytes: &[u8]| {
            let block = Data::verify(bytes, &ctx, Some(form))?;
            self.check_data(&block, &ctx, dir, FileOff(fileoff));
            let best = block.bestfree.first().map_or(0, |best| best.length.get());
            self.bests.push((u32::try_from(db).unwrap_or(u32::MAX), best));
            Ok(())
        };
        let read = fork.read(at, buf);
        read.and_then(|()| vol.verify_in(at, buf, data::CRC_OFFSET, &mut verify)).is_some()
    }

    /// Checks the entries of one data block.
    fn check_data(&mut self, block: &Data<'_>, ctx: &Ctx<'_>, dir: Dir, fileoff: FileOff) {
        let geo = ctx.geo;
        let sink = &self.shared.vol.sink;
        let first = fileoff.0 == 0;
        if first {
            sink.error(block.verify_dots(ctx, dir.ino).map(drop));
        }
        let mut count = 0usize;
        for (index, entry) in block.entries().enumerate() {
            count += 1;
            if let Some(ptr) = data::dataptr(geo, fileoff, &entry) {
                self.named.push(pack(hash::dir_hash(geo, entry.name), ptr.0));
            }
            let ctx = ctx.entry(index);
            match (first, index, entry.name) {
                (true, 0, b".") => self.check_dot_type(&ctx, &entry),
                (true, 1, b"..") => {
                    self.check_dot_type(&ctx, &entry);
                    self.check_dotdot(&ctx, dir, entry.inumber);
                }
                _ => self.check_entry(&ctx, dir, &entry),
            }
        }
        if count == 0 {
            sink.warning(ctx.at_least("dir.data.empty", 1, count));
        }
    }

    fn check_dot_type(&self, ctx: &Ctx<'_>, entry: &Entry<'_>) {
        if let Some(filetype) = entry.filetype {
            let due = FileType::Directory.ftype();
            self.shared.vol.sink.error(ctx.eq("dir.entry.ftype", due, filetype));
        }
    }

    // ---- the hash table and the free index ----------------------------------------------------

    /// Checks leaves and nodes, and their tables of free space. Fills `hashed`.
    fn check_leaves(&mut self, fork: MappedFork<'_, '_>, at: Location) -> bool {
        let vol = fork.vol;
        let geo = &vol.geo;
        let mut tree = std::mem::take(&mut self.tree);
        let (hashed, bests, known) = (&mut self.hashed, &self.bests, self.bests_known);
        let mut with_bests = false;
        let entered = datree::walk(fork, &mut tree, &mut |bytes, ctx, whole| {
            let leaf = Leaf::verify(bytes, ctx, (!whole).then_some(LeafKind::LeafN))?;
            let live = leaf.lents.iter().filter(|entry| entry.address.get() != 0);
            hashed.extend(live.map(|e| pack(e.hashval.get(), e.address.get())));
            if leaf.kind == LeafKind::Leaf1 {
                with_bests = true;
                let found = (0u32..).zip(leaf.lbests.iter().map(|best| best.get()));
                if known {
                    compare_bests(fork, ctx, "dir.leaf.bests", bests.iter().copied(), found);
                }
            }
            let hash = |entry: &xfskit_format::dir::leaf::LeafEntry| entry.hashval.get();
            Ok(LeafHead::new(leaf.info, leaf.lents.first().map(hash).zip(leaf.last_hash())))
        });
        self.tree = tree;
        let Some(entered) = entered else { return false };
        let (leafblk, freeblk) = (geo.dir_leafblk().0.into(), geo.dir_freeblk().0.into());
        let mapped = fork.mapped(leafblk, freeblk);
        let stray = mapped.saturating_sub(entered * u64::from(geo.dirblkfsbs()));
        vol.sink.error(vol.ctx(at).eq("dir.leaf.unreached", 0, stray));
        if with_bests {
            let stray = fork.mapped(freeblk, u64::MAX);
            return vol.sink.error(vol.ctx(at).eq("dir.free.unreached", 0, stray));
        }
        self.check_free_index(fork, at)
    }

    fn check_free_index(&mut self, fork: MappedFork<'_, '_>, at: Location) -> bool {
        let vol = fork.vol;
        let geo = &vol.geo;
        let (step, freeblk) = (u64::from(geo.dirblkfsbs()), u64::from(geo.dir_freeblk().0));
        let per_block = u32::try_from(free_max(geo)).unwrap_or(1).max(1);
        let mut sound = true;
        let mut covered = 0usize;
        let mut next = freeblk;
        let mut buf = std::mem::take(&mut self.buf);
        for extent in fork.map.iter().filter(|e| e.end().0 > freeblk) {
            let from = (extent.startoff.0 / step * step).max(next);
            next = extent.end().0.next_multiple_of(step).max(next);
            for fileoff in (from..extent.end().0).step_by(usize::try_from(step).unwrap_or(1)) {
                let at = fork.location("dir free index", fileoff);
                let ctx = vol.ctx(at);
                buf.resize(geo.dirblksize(), 0);
                let (bests, known) = (&self.bests, self.bests_known);
                let verified = fork.read(at, &mut buf).and_then(|()| {
                    vol.verify_in(at, &mut buf, free::CRC_OFFSET, |bytes| {
                        let index = Free::verify(bytes, &ctx)?;
                        let end = index.firstdb.saturating_add(per_block);
                        let range = index.firstdb..end;
                        let due = bests.iter().copied().filter(|(db, _)| range.contains(db));
                        covered += due.clone().count();
                        let found = index.fbests.iter().map(|best| best.get());
                        let found = (index.firstdb..).zip(found);
                        if known {
                            compare_bests(fork, &ctx, "dir.free.bests", due, found);
                        }
                        Ok(())
                    })
                });
                sound &= verified.is_some();
            }
        }
        self.buf = buf;
        if sound && self.bests_known {
            let found = covered;
            vol.sink.error(vol.ctx(at).eq("dir.free.missing", self.bests.len(), found));
        }
        sound
    }

    /// Checks that every name has its hash entry, and every hash entry its name.
    fn compare_hashes(&mut self, fork: MappedFork<'_, '_>) {
        let vol = fork.vol;
        self.named.sort_unstable();
        self.hashed.sort_unstable();
        if self.named == self.hashed {
            return;
        }
        let geo = &vol.geo;
        let entry_ctx = |packed: u64| {
            let ptr = address(packed);
            let at = fork.location("dir block", ptr.fileoff(geo).0);
            vol.ctx(at.index(ptr.offset(geo)))
        };
        crate::merge::merge(
            &self.named,
            &self.hashed,
            |n| **n,
            |h| **h,
            |named, hashed| {
                let (id, packed, wanted) = match (named, hashed) {
                    (Some(n), None) => ("dir.leaf.missing", *n, "a hash entry for the name"),
                    (None, Some(h)) => ("dir.leaf.extra", *h, "a name for the hash entry"),
                    _ => return,
                };
                let found = format!("hash {:#010x}", packed >> 32);
                vol.sink.error(entry_ctx(packed).require(id, false, wanted, found));
            },
        );
        for twice in self.hashed.windows(2).filter(|pair| pair[0] == pair[1]) {
            let wanted = "one hash entry for each name";
            let found = "two hash entries lead to one name";
            vol.sink.error(entry_ctx(twice[0]).fail("dir.leaf.dup", wanted, found));
        }
    }
}

/// Checks a table of free space against the data blocks, of which `due` exist.
fn compare_bests(
    fork: MappedFork<'_, '_>,
    ctx: &Ctx<'_>,
    id: &'static str,
    due: impl Iterator<Item = (u32, u16)>,
    found: impl Iterator<Item = (u32, u16)>,
) {
    let found = found.filter(|(_, best)| *best != NULLDATAOFF);
    crate::merge::merge(
        due,
        found,
        |due| due.0,
        |found| found.0,
        |due, found| {
            let result: VerifyResult = match (due, found) {
                (Some((db, due)), Some((_, found))) => ctx.entry(db as usize).eq(id, due, found),
                (Some((db, _)), None) => {
                    ctx.entry(db as usize).require(id, false, "an entry for the data block", "none")
                }
                (None, Some((db, best))) => {
                    ctx.entry(db as usize).require(id, false, "no entry for a hole", best)
                }
                (None, None) => Ok(()),
            };
            fork.vol.sink.error(result);
        },
    );
}
