//! All inodes of a volume, read straight from the inode btrees.
//!
//! A group's inobt lists its inodes in chunks of 64. [`bulkstat`](Volume::bulkstat) distributes the
//! trees' leaves, of up to some 16,000 inodes each, to threads. Each thread merges the chunks of
//! its leaf into large reads of its own, past the buffer cache. It verifies the inodes in use in
//! its read buffer, and passes them to the caller in batches. Nothing is copied, and threads share
//! only the list of leaves.
//!
//! | module | contents |
//! | --- | --- |
//! | `left` | what is left of a damaged inobt |

mod left;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use rayon::ThreadPoolBuilder;
use rayon::iter::{ParallelBridge, ParallelIterator};
use xfskit_block::IoRead;
use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::inobt::{self, Chunk, INODES_PER_CHUNK};
use xfskit_format::inode::{Dinode, InodeFlags2};
use xfskit_format::{Ctx, Location, VerifyResult};
use xfskit_trans::Buf;
use xfskit_units::{AgBlock, AgIno, AgNumber, ByteOffset, Ino, index};
use zerocopy::big_endian::U32;

use crate::error::Result;
use crate::volume::Volume;

/// Number of tree blocks that are read ahead at once.
const READ_AHEAD: usize = 64;
/// Longest read of inodes, in bytes.
const RUN_MAX: u64 = 1 << 20;
/// Number of reads in one batch.
const RUNS_AT_ONCE: usize = 4;
/// Largest gap between chunks that are read together, in bytes.
const JOIN_GAP: u64 = 16 * 1024;

/// One inode in use that [`Volume::bulkstat`] visited: the valid inode, or the check that failed.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The inode number.
    pub ino: Ino,
    /// The inode's core, or its corruption.
    pub inode: VerifyResult<Dinode<'a>>,
}

/// A block of an inobt, and the bounds that its parent gives.
#[derive(Clone, Copy, Debug)]
struct TreeBlock {
    agno: AgNumber,
    agbno: AgBlock,
    /// First inode of its first record; `None` for the root, which has no parent.
    first: Option<AgIno>,
    /// All its inodes are below this one, the first of its right neighbour.
    end: AgIno,
}

impl Volume {
    /// Passes every chunk of inodes of group `agno` to `visit`, in order, and verifies the inobt on
    /// the way.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt), and
    /// errors of `visit`.
    pub fn for_each_chunk(
        &self,
        agno: AgNumber,
        mut visit: impl FnMut(&Chunk) -> Result<()>,
    ) -> Result<()> {
        for group in self.inobt_leaves(agno)?.chunks(READ_AHEAD) {
            self.announce(group);
            for leaf in group {
                for chunk in self.read_leaf(leaf)? {
                    visit(&chunk)?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if the inobt has inode `ino` in use. The inode itself does not tell: one in a
    /// chunk that was freed may look as it did before.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn is_in_use(&self, ino: Ino) -> Result<bool> {
        let geo = self.geo();
        let split = geo.ino_split(ino).filter(|&(agno, agino)| geo.valid_agino(agno, agino));
        let Some((agno, agino)) = split else { return Ok(false) };
        let wanted = agino.0.saturating_sub(INODES_PER_CHUNK - 1)..agino.0.saturating_add(1);
        let mut used = false;
        self.space().walk_tree(agno, Tree::Ino, &wanted, &mut |_, block| {
            let block = block?;
            let recs = if block.level == 0 { block.recs::<inobt::Rec>() } else { &[] };
            for chunk in recs.iter().map(|rec| rec.decode(geo)) {
                let ahead = agino.0.wrapping_sub(chunk.startino.0);
                used |= ahead < INODES_PER_CHUNK && chunk.used() & 1 << ahead != 0;
            }
            Ok(())
        })?;
        Ok(used)
    }

    /// Returns true for an inode that is internal to the volume: the realtime bitmap and summary,
    /// quota, and everything in the metadata directory tree. [`bulkstat`](Self::bulkstat) visits
    /// these too; the kernel's does not.
    pub fn is_internal(&self, ino: Ino, inode: &Dinode<'_>) -> bool {
        self.internal_name(ino, inode).is_some()
    }

    /// Returns the name of an inode that is internal to the volume.
    pub fn internal_name(&self, ino: Ino, inode: &Dinode<'_>) -> Option<&'static str> {
        let (geo, sb) = (self.geo(), self.superblock());
        let quota = |ino: u64| Some(Ino(ino));
        let named = [
            (geo.rbmino, "the realtime bitmap"),
            (geo.rsumino, "the realtime summary"),
            (geo.metadirino, "the metadata directory"),
            (quota(sb.uquotino.get()), "the user quota"),
            (quota(sb.gquotino.get()), "the group quota"),
            (quota(sb.pquotino.get()), "the project quota"),
        ];
        let name = named.iter().find(|(number, _)| *number == Some(ino)).map(|(_, name)| *name);
        let is_metadata = inode.flags2().contains(InodeFlags2::METADATA);
        name.or(is_metadata.then_some("a metadata file"))
    }

    /// Passes every inode in use of the whole volume to `visit`, in batches of up to some thousand,
    /// on `threads` threads at once and in no particular order. `visit` may stop the walk.
    ///
    /// An inode that fails its checks is passed as such. The walk ends if a damaged btree hides
    /// chunks, or if the device fails.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt): an
    /// error of any thread.
    pub fn bulkstat(
        &self,
        threads: usize,
        visit: impl Fn(&[Entry<'_>]) -> ControlFlow<()> + Sync,
    ) -> Result<()> {
        self.bulkstat_groups(self.geo().ags(), threads, visit)
    }

    /// Passes the inodes in use of some groups to `visit`, as [`bulkstat`](Self::bulkstat) does.
    ///
    /// # Errors
    /// As [`bulkstat`](Self::bulkstat).
    pub fn bulkstat_groups(
        &self,
        groups: impl IntoIterator<Item = AgNumber>,
        threads: usize,
        visit: impl Fn(&[Entry<'_>]) -> ControlFlow<()> + Sync,
    ) -> Result<()> {
        let mut leaves = Vec::new();
        for agno in groups {
            leaves.extend(self.inobt_leaves(agno)?);
        }
        // `None` is the visitor's wish to stop.
        let stat = |bufs: &mut _, leaf| match self.stat_leaf(leaf, bufs, &visit) {
            Ok(ControlFlow::Continue(())) => Ok(()),
            Ok(ControlFlow::Break(())) => Err(None),
            Err(error) => Err(Some(error)),
        };
        let threads = threads.min(leaves.len());
        let pool = (threads > 1).then(|| ThreadPoolBuilder::new().num_threads(threads).build());
        let ended = if let Some(Ok(pool)) = pool {
            // Threads take the leaves in order, which is that of the disk.
            pool.install(|| leaves.iter().par_bridge().try_for_each_init(Vec::new, stat))
        } else {
            let mut bufs = Vec::new();
            leaves.iter().try_for_each(|leaf| stat(&mut bufs, leaf))
        };
        ended.or_else(|error| error.map_or(Ok(()), Err))
    }

    // ---- the tree ----------------------------------------------------------------------------

    /// Returns the leaves of a group's inobt, from left to right. Every level is one below the
    /// last, so the walk ends. A block that is visited twice fails the check of its first key or
    /// its order.
    fn inobt_leaves(&self, agno: AgNumber) -> Result<Vec<TreeBlock>> {
        let agi = self.agi(agno)?;
        let (agbno, end) = (AgBlock(agi.root.get()), AgIno(u32::MAX));
        let mut blocks = vec![TreeBlock { agno, agbno, first: None, end }];
        for level in (1..agi.level.get()).rev() {
            let mut below = Vec::new();
            for group in blocks.chunks(READ_AHEAD) {
                self.announce(group);
                for node in group {
                    self.list_children(node, level, &mut below)?;
                }
            }
            blocks = below;
        }
        Ok(blocks)
    }

    /// Adds the children of a node, which must be of `level`.
    fn list_children(
        &self,
        node: &TreeBlock,
        level: u32,
        children: &mut Vec<TreeBlock>,
    ) -> Result<()> {
        let (buf, ctx) = self.read_inobt(node)?;
        let block = Block::verify(&buf, &ctx, Tree::Ino, node.agno)?;
        ctx.eq("inobt.level", level, block.level.into())?;
        let keys = block.keys::<U32>();
        check_first(&ctx, node, keys.first())?;
        for (index, (key, ptr)) in keys.iter().zip(block.ptrs()).enumerate() {
            let ctx = ctx.entry(index);
            let first = AgIno(key.get());
            let end = keys.get(index + 1).map_or(node.end, |next| AgIno(next.get()));
            ctx.require("inobt.key", first < end, "keys in order", first)?;
            ctx.agbno("inobt.ptr", node.agno, ptr.get())?;
            let agbno = AgBlock(ptr.get());
            children.push(TreeBlock { agbno, first: Some(first), end, ..*node });
        }
        Ok(())
    }

    /// Returns the chunks of a leaf.
    fn read_leaf(&self, leaf: &TreeBlock) -> Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        self.add_chunks(leaf, &mut chunks)?;
        Ok(chunks)
    }

    /// Adds the chunks of a leaf to `chunks`, up to the first damaged record.
    fn add_chunks(&self, leaf: &TreeBlock, chunks: &mut Vec<Chunk>) -> Result<()> {
        let (buf, ctx) = self.read_inobt(leaf)?;
        let block = Block::verify(&buf, &ctx, Tree::Ino, leaf.agno)?;
        ctx.eq("inobt.level", 0, block.level)?;
        let recs = block.recs::<inobt::Rec>();
        check_first(&ctx, leaf, recs.first().map(|rec| &rec.startino))?;
        chunks.reserve(recs.len());
        let mut before = AgIno::ZERO;
        for (index, rec) in recs.iter().enumerate() {
            let ctx = ctx.entry(index);
            let chunk = rec.decode(self.geo());
            ctx.at_least("inobt.order", before, chunk.startino)?;
            before = chunk.startino.saturating_add(INODES_PER_CHUNK);
            ctx.at_most("inobt.order", leaf.end, before)?;
            let exists = bounds(chunk.present()).is_some_and(|present| {
                let exists =
                    |n| self.geo().valid_agino(leaf.agno, chunk.startino.saturating_add(n));
                exists(present.start) && exists(present.end - 1)
            });
            ctx.require("inobt.rec", exists, "inodes of the group", chunk.startino)?;
            chunks.push(chunk);
        }
        Ok(())
    }

    fn read_inobt(&self, block: &TreeBlock) -> Result<(Arc<Buf>, Ctx<'_>)> {
        let at = Tree::Ino.location(self.geo(), block.agno, block.agbno);
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| {
            Block::verify(bytes, ctx, Tree::Ino, block.agno).map(drop)
        };
        Ok((self.read_buf(at, &verify)?, self.ctx(at).crc_known()))
    }

    fn announce(&self, blocks: &[TreeBlock]) {
        let geo = self.geo();
        let range =
            |block: &TreeBlock| (geo.agb_to_daddr(block.agno, block.agbno), geo.block_sectors());
        self.cache().read_ahead(&blocks.iter().map(range).collect::<Vec<_>>());
    }

    // ---- the inodes --------------------------------------------------------------------------

    /// Passes the inodes in use of one leaf to `visit`. `bufs` is read memory that is reused from
    /// leaf to leaf.
    fn stat_leaf(
        &self,
        leaf: &TreeBlock,
        bufs: &mut Vec<Vec<u8>>,
        visit: &impl Fn(&[Entry<'_>]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let chunks = self.read_leaf(leaf)?;
        let runs = self.runs(leaf.agno, &chunks);
        for runs in runs.chunks(RUNS_AT_ONCE) {
            self.read_runs(runs, bufs)?;
            for (run, buf) in runs.iter().zip(&mut *bufs) {
                let chunks = &chunks[run.chunks.clone()];
                let mut entries = self.verify(leaf.agno, run, chunks, buf);
                let bad: Vec<Ino> =
                    entries.iter().filter(|e| e.inode.is_err()).map(|e| e.ino).collect();
                if !bad.is_empty() {
                    drop(entries);
                    self.heal(run, &bad, buf);
                    entries = self.verify(leaf.agno, run, chunks, buf);
                }
                if visit(&entries).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Merges the inodes in use of some chunks into long reads.
    fn runs(&self, agno: AgNumber, chunks: &[Chunk]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            let Some(used) = bounds(chunk.used()) else { continue };
            let start = self.byte_of(agno, chunk.startino.saturating_add(used.start));
            let end = self.byte_of(agno, chunk.startino.saturating_add(used.end));
            match runs.last_mut() {
                Some(run)
                    if start <= run.bytes.end.saturating_add(JOIN_GAP)
                        && end.saturating_sub(run.bytes.start) <= RUN_MAX =>
                {
                    run.bytes.end = end;
                    run.chunks.end = index + 1;
                }
                _ => runs.push(Run { bytes: start..end, chunks: index..index + 1 }),
            }
        }
        runs
    }

    /// Returns the device offset of `agino` of group `agno`, in bytes. Inodes are contiguous.
    fn byte_of(&self, agno: AgNumber, agino: AgIno) -> u64 {
        let group = self.geo().agb_to_daddr(agno, AgBlock(0)).byte_offset();
        group.saturating_add(u64::from(agino.0) << self.geo().inodelog).0
    }

    fn read_runs(&self, runs: &[Run], bufs: &mut Vec<Vec<u8>>) -> Result<()> {
        bufs.resize_with(bufs.len().max(runs.len()), Vec::new);
        let mut batch = Vec::with_capacity(runs.len());
        for (run, buf) in runs.iter().zip(bufs) {
            buf.resize(buf.len().max(run.len()), 0);
            batch.push(IoRead { offset: ByteOffset(run.bytes.start), buf: &mut buf[..run.len()] });
        }
        self.device().read_batch(&mut batch).into_iter().try_for_each(|result| Ok(result?))
    }

    /// Verifies the inodes in use of one run.
    fn verify<'a>(
        &self,
        agno: AgNumber,
        run: &Run,
        chunks: &[Chunk],
        bytes: &'a [u8],
    ) -> Vec<Entry<'a>> {
        let geo = self.geo();
        let mut entries = Vec::with_capacity(run.len() >> geo.inodelog);
        let ctx = self.ctx(Location::of("core").ag(agno));
        for chunk in chunks {
            let mut used = chunk.used();
            while used != 0 {
                let agino = chunk.startino.saturating_add(used.trailing_zeros());
                used &= used - 1;
                let offset = index(self.byte_of(agno, agino) - run.bytes.start);
                let ino = geo.agino_to_ino(agno, agino);
                let at = Location { ino: Some(ino), ..ctx.at };
                let inode = Dinode::verify(&bytes[offset..], &ctx.at(at), ino);
                if !inode.as_ref().is_ok_and(Dinode::is_free) {
                    entries.push(Entry { ino, inode });
                }
            }
        }
        entries
    }

    /// Reads intact copies of bad inodes into `bytes`, if the device has any.
    fn heal(&self, run: &Run, bad: &[Ino], bytes: &mut [u8]) {
        for &ino in bad {
            let (Ok(inode), Some(start)) = (self.iget(ino), self.geo().ino_to_byte(ino)) else {
                continue;
            };
            let offset = index(start.0 - run.bytes.start);
            bytes[offset..offset + inode.bytes().len()].copy_from_slice(inode.bytes());
        }
    }
}

/// Some chunks that are read together.
struct Run {
    /// Byte range on the device.
    bytes: Range<u64>,
    /// Indices of the chunks in their leaf.
    chunks: Range<usize>,
}

impl Run {
    fn len(&self) -> usize {
        index(self.bytes.end - self.bytes.start)
    }
}

/// Returns the range from the first to the last bit that is set.
fn bounds(mask: u64) -> Option<Range<u32>> {
    (mask != 0).then(|| mask.trailing_zeros()..64 - mask.leading_zeros())
}

/// Fails if a block does not begin with the inode that its parent gives.
fn check_first(ctx: &Ctx<'_>, block: &TreeBlock, first: Option<&U32>) -> VerifyResult {
    match (block.first, first) {
        (Some(expected), Some(found)) => ctx.eq("inobt.key", expected, AgIno(found.get())),
        (Some(_), None) => ctx.require("inobt.numrecs", false, "at least one record", 0u32),
        (None, _) => Ok(()),
    }
}
