//! Inode numbers: allocation and freeing.
//!
//! A group's AGI lock protects its inodes. They are allocated in chunks of 64. The inobt has a
//! record of each chunk, and the finobt a copy of those with free inodes. A new inode is allocated
//! near its directory. If the group has none free, a chunk is allocated. A chunk whose last inode
//! is freed is freed too.
//!
//! | module | contents |
//! | --- | --- |
//! | [`group`] | a group with its AGI locked |
//! | `records` | the records of both trees, kept consistent |
//! | `cached` | changes at the cached position of the last used record |
//! | `chunk` | allocation of chunks, whole or sparse, and their freeing |

mod cached;
mod chunk;
pub mod group;
mod records;

pub use group::InodeGroup;

use xfskit_format::inobt::Chunk;
use xfskit_format::reserve;
use xfskit_units::{AgIno, AgNumber, Geometry, Ino};

use crate::error::{Error, Result};
use crate::tx::SpaceTx;

/// Number of inodes in a record of the inode btree.
const INODES_PER_CHUNK: u64 = 64;

impl SpaceTx<'_> {
    /// Takes a free inode of group `agno`, near `parent` where that is in the group, and from a new
    /// chunk if there is none. Inodes of a new chunk get a generation made of `seed`. Returns
    /// `None` if the group has no space for a chunk.
    ///
    /// # Errors
    /// [`Error::BusyExtents`], [`Error::Device`], [`Error::Corrupt`].
    pub fn take_ino(&mut self, agno: AgNumber, parent: Ino, seed: u32) -> Result<Option<Ino>> {
        let geo = self.space().geo();
        let agino = self.take_agino(agno, parent, seed)?;
        Ok(agino.map(|agino| geo.agino_to_ino(agno, agino)))
    }

    /// Takes inode `ino` if its chunk exists and has it free. Returns false, and changes nothing,
    /// if not.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn take_ino_exactly(&mut self, ino: Ino) -> Result<bool> {
        let geo = self.space().geo();
        let split = geo.ino_split(ino).filter(|&(agno, agino)| geo.valid_agino(agno, agino));
        let Some((agno, agino)) = split else { return Ok(false) };
        let group = InodeGroup::lock(self, agno)?;
        let taken = records::take_exactly(self, group, agino)?;
        if taken {
            group.count(self, 0, -1)?;
        }
        Ok(taken)
    }

    fn take_agino(&mut self, agno: AgNumber, parent: Ino, seed: u32) -> Result<Option<AgIno>> {
        let cache = &self.space().record_cache;
        if let Some(known) = cache.last_alloc(agno, parent)
            && let Some(agino) = known.alloc(self)?
        {
            return Ok(Some(agino));
        }
        let group = InodeGroup::lock(self, agno)?;
        if group.header(self)?.freecount.get() == 0 {
            let generation = seed ^ agno.0;
            if !self.may_have_more_inodes()? || !chunk::make(self, group, generation)? {
                return Ok(None);
            }
        }
        let near = near(self.space().geo(), agno, parent);
        let taken = records::take(self, group, near)?;
        let Some((agino, known)) = taken else { return Ok(None) };
        group.count(self, 0, -1)?;
        if let Some(known) = known {
            cache.note_alloc(parent, known);
        }
        Ok(Some(agino))
    }

    /// Returns true if the volume may have one more chunk of inodes: `imax_pct` limits their part
    /// of it.
    fn may_have_more_inodes(&self) -> Result<bool> {
        let geo = self.space().geo();
        let Some(most) = reserve::inodes_max(geo) else { return Ok(true) };
        let count = self.space().engine()?.counters().get().icount + self.delta.icount;
        Ok(u64::try_from(count).unwrap_or(0) + INODES_PER_CHUNK <= most)
    }

    /// Frees inode `ino`, whose core was cleared. A chunk without inodes in use is freed too.
    ///
    /// # Errors
    /// [`Error::Limit`] if it cannot exist, [`Error::Device`], [`Error::Corrupt`].
    pub fn give_ino(&mut self, ino: Ino) -> Result<()> {
        let geo = self.space().geo();
        let no_inode = Error::Limit("an inode lies outside of the volume");
        let (agno, agino) = geo.ino_split(ino).ok_or(no_inode)?;
        let cache = &self.space().record_cache;
        if let Some(known) = cache.last_free(agno, agino)
            && known.free(self, agino)?
        {
            return Ok(());
        }
        let group = InodeGroup::lock(self, agno)?;
        let (chunk, cursor) = records::covering(self, group, agino)?;
        let bit = 1 << agino.0.wrapping_sub(chunk.startino.0);
        let freed = Chunk { free: chunk.free | bit, freecount: chunk.freecount + 1, ..chunk };
        if freed.freecount == freed.count
            && geo.inopblock() <= 64
            && !is_root_chunk(geo, agno, &freed)
        {
            cursor.close(self);
            return chunk::give_back(self, group, &chunk);
        }
        if let Some(known) = records::update_at(self, group, cursor, &chunk, &freed)? {
            cache.note_free(known);
        }
        group.count(self, 0, 1)
    }
}

/// Returns true for the chunk that holds the root directory. It is never freed.
fn is_root_chunk(geo: &Geometry, agno: AgNumber, chunk: &Chunk) -> bool {
    let first = geo.agino_to_ino(agno, chunk.startino).0;
    (first..first + INODES_PER_CHUNK).contains(&geo.rootino.0)
}

/// Returns the start of the search for a free inode in group `agno`: the directory, if it is there,
/// else the newest chunk.
fn near(geo: &Geometry, agno: AgNumber, parent: Ino) -> Option<AgIno> {
    geo.ino_split(parent).filter(|(group, _)| *group == agno).map(|(_, agino)| agino)
}
