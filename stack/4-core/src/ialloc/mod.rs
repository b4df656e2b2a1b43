//! Allocation and freeing of inodes.
//!
//! A group's AGI lock protects its inodes. They are allocated in chunks of 64. The inobt has a
//! record of each chunk, and the finobt a copy of those with free inodes. A new inode is allocated
//! near its directory. If the group has none free, a chunk is allocated. A chunk whose last inode
//! is freed is freed too.
//!
//! | module | contents |
//! | --- | --- |
//! | [`group`] | the choice of a group for a new inode |
//! | [`chunk`] | allocation of chunks, whole or sparse, and their freeing |
//! | [`inactivate`] | freeing of unlinked inodes, step by step |
//! | [`records`] | the records of both trees, kept consistent |
//! | [`record_cache`] | the cached position of the last used record |
//! | [`unlinked`] | lists of unlinked inodes that are still in use |

mod chunk;
mod group;
mod inactivate;
mod record_cache;
mod records;
mod unlinked;

pub(crate) use group::Rotor;
pub use inactivate::Orphan;
pub(crate) use record_cache::RecordCache;

use std::mem::offset_of;

use xfskit_format::agi::Agi;
use xfskit_format::inobt::Chunk;
use xfskit_format::reserve;
use xfskit_format::{Image, Layout, agi, inode};
use xfskit_trans::Handle;
use xfskit_units::{AgIno, AgNumber, Ino};
use zerocopy::FromBytes;
use zerocopy::big_endian::U32;

use crate::error::{Error, Result};
use crate::icore::NewInode;
use crate::inode::Inode;
use crate::tx::{Tx, TxInode};

/// A group whose inodes a transaction changes, with its AGI locked.
#[derive(Clone, Copy, Debug)]
struct Group {
    agno: AgNumber,
    agi: Handle,
}

impl Group {
    fn lock(tx: &mut Tx<'_>, agno: AgNumber) -> Result<Self> {
        Ok(Self { agno, agi: tx.agi(agno)? })
    }

    fn header<'t>(self, tx: &'t Tx<'_>) -> Result<&'t Agi> {
        let header = Agi::ref_from_prefix(tx.bytes(self.agi)).ok().map(|(agi, _)| agi);
        header.ok_or_else(|| Error::Unsupported("a short AGI".into()))
    }

    /// Updates the group's counters and the superblock's.
    fn count(self, tx: &mut Tx<'_>, inodes: i64, free: i64) -> Result<()> {
        let agi = self.header(tx)?;
        let add = |old: u32, more: i64| u32::try_from(i64::from(old).saturating_add(more));
        let (Ok(count), Ok(freecount)) =
            (add(agi.count.get(), inodes), add(agi.freecount.get(), free))
        else {
            let ctx = tx.volume().ctx(agi::location(tx.volume().geo(), self.agno));
            let found = agi.freecount.get();
            return Ok(ctx.require("agi.freecount", false, "what the trees add up to", found)?);
        };
        let mut image = tx.image(self.agi);
        if inodes != 0 {
            image.put(offset_of!(Agi, count), &U32::new(count));
        }
        image.put(offset_of!(Agi, freecount), &U32::new(freecount));
        tx.delta.icount += inodes;
        tx.delta.ifree += free;
        Ok(())
    }
}

/// Number of inodes in a record of the inode btree.
const INODES_PER_CHUNK: u64 = 64;

impl Tx<'_> {
    /// Allocates an inode with the core of `new`, near `parent`: a directory in the next group in
    /// turn, all else in the group of its directory. Its forks are empty.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no free inode and no space for more; [`Error::BusyExtents`];
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn ialloc(&mut self, parent: Ino, new: &NewInode) -> Result<TxInode> {
        let mut is_busy = false;
        for agno in group::candidates(self.volume(), parent, new.mode) {
            match self.ialloc_in(agno, parent, new) {
                Ok(Some(inode)) => return Ok(inode),
                Ok(None) => {}
                Err(Error::BusyExtents) => is_busy = true,
                Err(error) => return Err(error),
            }
        }
        Err(if is_busy { Error::BusyExtents } else { Error::NoSpace("inodes") })
    }

    fn ialloc_in(
        &mut self,
        agno: AgNumber,
        parent: Ino,
        new: &NewInode,
    ) -> Result<Option<TxInode>> {
        let Some(agino) = self.take_agino(agno, parent, new)? else { return Ok(None) };
        let ino = self.volume().geo().agino_to_ino(agno, agino);
        Ok(Some(self.init_new_inode(ino, new)?))
    }

    /// Initialises the free inode `ino` with `new`.
    fn init_new_inode(&mut self, ino: Ino, new: &NewInode) -> Result<TxInode> {
        let volume = self.volume();
        let home = volume.inode_home(ino)?;
        let (handle, bytes) = self.new_inode(ino, &home)?;
        let generation = match (bytes, self.unmaterialized_cluster(&home)) {
            (None, Some(cluster)) => cluster.generation,
            (bytes, _) => {
                let bytes = bytes.map_or_else(|| volume.read_dinode_at(ino, &home), Ok)?;
                let old = Inode::new(ino, bytes, volume.geo());
                let ctx = volume.ctx(inode::location(volume.geo(), ino));
                let (free, mode) = (old.core().is_free(), old.core().mode());
                ctx.require("inode.mode", free, "0: the inode btree says that it is free", mode)?;
                old.core().generation()
            }
        };
        let geo = volume.geo();
        self.init_inode(handle, new.core(geo, ino, generation), geo.inodesize());
        if let Some(device) = new.device() {
            self.image(handle).put(Layout::V5.inode_core, &device);
        }
        Ok(TxInode { ino, handle })
    }

    /// Takes a free inode of group `agno`, from a new chunk if there is none. Returns `None` if the
    /// group has no space for a chunk.
    fn take_agino(&mut self, agno: AgNumber, parent: Ino, new: &NewInode) -> Result<Option<AgIno>> {
        let record_cache = &self.volume().record_cache;
        if let Some(known) = record_cache.last_alloc(agno, parent)
            && let Some(agino) = known.alloc(self)?
        {
            return Ok(Some(agino));
        }
        let group = Group::lock(self, agno)?;
        if group.header(self)?.freecount.get() == 0 {
            let generation = new.now.nsec.rotate_left(7) ^ agno.0;
            if !self.may_have_more_inodes()? || !chunk::make(self, group, generation)? {
                return Ok(None);
            }
        }
        let taken = records::take(self, group, near(self, agno, parent))?;
        let Some((agino, known)) = taken else { return Ok(None) };
        group.count(self, 0, -1)?;
        if let Some(known) = known {
            record_cache.note_alloc(parent, known);
        }
        Ok(Some(agino))
    }

    /// Returns true if the volume may have one more chunk of inodes: `imax_pct` limits their part
    /// of it.
    fn may_have_more_inodes(&self) -> Result<bool> {
        let geo = self.volume().geo();
        let Some(most) = reserve::inodes_max(geo) else { return Ok(true) };
        let count = self.volume().engine()?.counters().get().icount + self.delta.icount;
        Ok(u64::try_from(count).unwrap_or(0) + INODES_PER_CHUNK <= most)
    }

    /// Frees inode `inode`, whose forks are empty and which is on no list.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn ifree(&mut self, inode: TxInode) -> Result<()> {
        let geo = self.volume().geo();
        let (agno, agino) = geo.ino_split(inode.ino).ok_or(Error::NoInode(inode.ino))?;
        let record_cache = &self.volume().record_cache;
        if let Some(known) = record_cache.last_free(agno, agino)
            && known.free(self, agino)?
        {
            self.clear_core(inode);
            return Ok(());
        }
        let group = Group::lock(self, agno)?;
        let (chunk, cursor) = records::covering(self, group, agino)?;
        let bit = 1 << agino.0.wrapping_sub(chunk.startino.0);
        let freed = Chunk { free: chunk.free | bit, freecount: chunk.freecount + 1, ..chunk };
        self.clear_core(inode);
        if freed.freecount == freed.count
            && geo.inopblock() <= 64
            && !self.is_root_chunk(agno, &freed)
        {
            cursor.close(self);
            return chunk::give_back(self, group, &chunk);
        }
        if let Some(known) = records::update_at(self, group, cursor, &chunk, &freed)? {
            record_cache.note_free(known);
        }
        group.count(self, 0, 1)
    }

    /// Returns true for the chunk with the root directory, which is never freed: it is never all
    /// free.
    fn is_root_chunk(&self, agno: AgNumber, chunk: &Chunk) -> bool {
        let first = self.volume().geo().agino_to_ino(agno, chunk.startino).0;
        (first..first + 64).contains(&self.volume().geo().rootino.0)
    }
}

/// Returns the start of the search for a free inode in group `agno`: the directory, if it is there,
/// else the newest chunk.
fn near(tx: &Tx<'_>, agno: AgNumber, parent: Ino) -> Option<AgIno> {
    tx.volume().geo().ino_split(parent).filter(|(group, _)| *group == agno).map(|(_, agino)| agino)
}
