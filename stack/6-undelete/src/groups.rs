//! Evidence in the groups: freed inodes, and inodes and directory blocks in free space.
//!
//! When all inodes of a chunk are free, Linux frees the chunk. It does not write them any more
//! then, so its blocks hold them as they were written last: with mode, size and extents.

use std::ops::ControlFlow;

use xfskit_core::{Error, Volume};
use xfskit_format::agbtree::Tree;
use xfskit_format::alloc;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_format::inode::Dinode;
use xfskit_units::{AgBlock, AgIno, AgNumber, Daddr, Ino, Lsn};

use crate::candidate::Candidate;
use crate::journal::{Life, Lives, is_dir_block};
use crate::names::{Hint, of_short_form};
use crate::remains::{changecount, identify, of_freed, of_image};
use xfskit_core::Warnings;

/// Bytes of free space that are read at once.
const READ: usize = 1 << 20;
/// Maximum number of directory blocks that are kept of free space.
const DIR_BLOCKS_MAX: usize = 1 << 22;

/// What the groups hold.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    pub candidates: Vec<Candidate>,
    /// Directory blocks in free space.
    pub dir_blocks: Vec<Daddr>,
    /// Names in the literal areas of removed directories.
    pub hints: Vec<Hint>,
}

/// A search through the groups.
pub(crate) struct Search<'s> {
    pub volume: &'s Volume,
    pub lives: &'s mut Lives,
    pub warnings: &'s mut Warnings,
    /// Reads free space, too.
    pub free_space: bool,
    pub step: &'s dyn Fn(u64, u64) -> ControlFlow<()>,
    pub found: Remains,
}

impl Search<'_> {
    /// Searches all groups. Returns false if the caller ended it.
    pub(crate) fn run(&mut self) -> bool {
        let geo = self.volume.geo();
        for agno in geo.ags() {
            if self.report(agno, 0).is_break() || !self.group(agno) {
                return false;
            }
        }
        self.rest();
        true
    }

    /// Reports that the search is at block `agbno` of a group.
    fn report(&self, agno: AgNumber, agbno: u32) -> ControlFlow<()> {
        let geo = self.volume.geo();
        let done = geo.agb_to_rfs(agno, AgBlock(agbno)).0;
        (self.step)(done, geo.dblocks.0)
    }

    fn group(&mut self, agno: AgNumber) -> bool {
        let mut chunks: Vec<Chunk> = Vec::new();
        let listed = self.volume.for_each_chunk(agno, |chunk| {
            chunks.push(*chunk);
            Ok(())
        });
        if let Err(error) = listed {
            self.warnings.add(error);
        }
        for chunk in &chunks {
            self.chunk(agno, chunk);
            if self.report(agno, self.volume.geo().agino_to_agb(chunk.startino).0).is_break() {
                return false;
            }
        }
        !self.free_space || self.free(agno)
    }

    /// Looks at the inodes of a chunk, if one of them is free or the journal saw one.
    fn chunk(&mut self, agno: AgNumber, chunk: &Chunk) {
        let geo = self.volume.geo();
        let ino = |n: u32| geo.agino_to_ino(agno, AgIno(chunk.startino.0.saturating_add(n)));
        let seen = self.lives.range((ino(0), 0)..(ino(INODES_PER_CHUNK), 0)).next().is_some();
        if chunk.present() & chunk.free == 0 && !seen {
            return;
        }
        let size = geo.inodesize();
        for n in (0..INODES_PER_CHUNK).step_by(4) {
            if (chunk.present() >> n).trailing_zeros() >= 4 {
                continue;
            }
            let Some(place) = geo.ino_to_byte(ino(n)) else { continue };
            let mut four = vec![0; size.saturating_mul(4)];
            if let Err(error) = self.volume.device().read_at(place, &mut four) {
                self.warnings.add(Error::from(error));
                continue;
            }
            for (slot, bytes) in (n..).zip(four.chunks_exact(size)) {
                self.inode(ino(slot), bytes, chunk.used() >> slot & 1 != 0);
            }
        }
    }

    /// Takes one inode of a chunk, or of free space, where it is not `used`.
    fn inode(&mut self, ino: Ino, bytes: &[u8], used: bool) {
        let Some(inode) = identify(self.volume, bytes, ino) else { return };
        let generation = inode.generation();
        if used {
            self.lives.remove(&(ino, generation));
        } else if inode.is_free() {
            self.freed(ino, bytes, &inode);
        } else {
            let life = self.lives.remove(&(ino, generation));
            self.dead(ino, bytes, life);
        }
    }

    /// Takes a freed inode.
    fn freed(&mut self, ino: Ino, bytes: &[u8], inode: &Dinode<'_>) {
        let life = self.lives.remove(&(ino, inode.generation().wrapping_sub(1)));
        if life.is_none() && changecount(bytes) == 0 {
            return;
        }
        of_short_form(inode.literal(), self.volume.geo(), &mut |entry| {
            self.found.hints.push(Hint::new(&entry, Some(ino), Lsn::NONE));
        });
        let mut freed = of_freed(self.volume, ino, bytes);
        if let Some(mut life) = life.filter(|life| life.has_core) {
            life.complete_from(bytes, self.volume);
            // The journal had the core last when this was the time of the content.
            let current = freed.mtime;
            freed = Candidate { removed: freed.removed, ..self.of_life(ino, &life) };
            if freed.mtime != current {
                freed.doubt();
            }
        }
        self.found.candidates.push(freed);
    }

    /// Takes an inode in free space that is as it was before its chunk was freed.
    fn dead(&mut self, ino: Ino, bytes: &[u8], life: Option<Life>) {
        let candidate = if let Some(mut life) = life {
            life.complete_from(bytes, self.volume);
            self.of_life(ino, &life)
        } else {
            let lsn = Dinode::parse(bytes, self.volume.geo()).map(|inode| inode.lsn());
            Candidate { lsn: lsn.unwrap_or(Lsn::NONE), ..of_image(self.volume, ino, bytes) }
        };
        self.found.candidates.push(candidate);
    }

    fn of_life(&self, ino: Ino, life: &Life) -> Candidate {
        let (removed, lsn) = (life.removed, life.lsn);
        let file = of_image(self.volume, ino, &life.image);
        Candidate { removed, lsn, links: file.links.max(life.links), ..file }
    }

    /// Takes the files that the journal saw and that the groups do not have any more.
    fn rest(&mut self) {
        for ((ino, _), life) in std::mem::take(self.lives) {
            if life.has_core {
                let mut candidate = self.of_life(ino, &life);
                if !life.has_data {
                    candidate.doubt();
                }
                self.found.candidates.push(candidate);
            }
        }
    }

    // ---- free space --------------------------------------------------------------------------

    /// Reads the free space of a group. Returns false if the caller ended it.
    fn free(&mut self, agno: AgNumber) -> bool {
        let mut complete = true;
        let volume = self.volume;
        let walked = volume.space().walk_tree(agno, Tree::Bno, &(0..u32::MAX), &mut |_, block| {
            let recs = match &block {
                Ok(block) if block.level == 0 => block.recs::<alloc::Rec>(),
                _ => &[],
            };
            for rec in recs {
                complete = complete && self.extent(agno, *rec);
            }
            block.map(drop)
        });
        if let Err(error) = walked {
            self.warnings.add(Error::from(error));
        }
        complete
    }

    fn extent(&mut self, agno: AgNumber, rec: alloc::Rec) -> bool {
        let geo = self.volume.geo();
        let end = rec.startblock.get().saturating_add(rec.blockcount.get());
        let end = end.min(geo.ag_length(agno));
        let at_once = u32::try_from(READ / geo.blocksize()).unwrap_or(1).max(1);
        let mut at = rec.startblock.get();
        while at < end {
            if self.report(agno, at).is_break() {
                return false;
            }
            let count = at_once.min(end.saturating_sub(at));
            let mut buf = vec![0; geo.blocksize().saturating_mul(count as usize)];
            let place = geo.agb_to_daddr(agno, AgBlock(at)).byte_offset();
            match self.volume.device().read_at(place, &mut buf) {
                Err(error) => self.warnings.add(Error::from(error)),
                Ok(()) => {
                    for (agbno, block) in (at..).zip(buf.chunks_exact(geo.blocksize())) {
                        self.block(agno, AgBlock(agbno), block);
                    }
                }
            }
            at = at.saturating_add(count);
        }
        true
    }

    /// Looks for inodes, or the header of a directory block, in a free block.
    fn block(&mut self, agno: AgNumber, agbno: AgBlock, block: &[u8]) {
        let geo = self.volume.geo();
        let daddr = geo.agb_to_daddr(agno, agbno);
        if is_dir_block(self.volume, block, daddr) && self.found.dir_blocks.len() < DIR_BLOCKS_MAX {
            self.found.dir_blocks.push(daddr);
            return;
        }
        let first = geo.agb_to_agino(agbno);
        for (n, bytes) in (0u32..).zip(block.chunks_exact(geo.inodesize())) {
            let agino = AgIno(first.0.saturating_add(n));
            self.inode(geo.agino_to_ino(agno, agino), bytes, false);
        }
    }
}
