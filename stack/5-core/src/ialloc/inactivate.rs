//! Freeing of unlinked inodes: first their forks, in transactions of bounded size, then the inodes.
//!
//! The inode is on its unlinked list until the last transaction, so a crash in between loses
//! nothing. The next open for writing continues.

use std::collections::HashSet;

use xfskit_format::Fork;
use xfskit_format::attr::leaf_edit;
use xfskit_format::da_edit::Identity;
use xfskit_format::inode::{self, FileType};
use xfskit_units::{AgIno, AgNumber, FilBlks, FileOff, Ino};

use crate::bmap::WHOLE;
use crate::error::{Error, Result};
use crate::orphan::Orphan;
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Number of extents that one transaction frees.
const EXTENTS_AT_ONCE: usize = 32;

impl Volume {
    /// Frees inode `ino`, if it has no name and is on its unlinked list. Several threads may call
    /// this at once.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`]: the remaining parts stay on the list.
    pub fn inactivate(&self, ino: Ino) -> Result<()> {
        self.inactivate_all(ino).inspect_err(|error| self.orphan_stays(Some(ino), error))
    }

    /// Records that unlinked inode `ino` (`None`: those of a whole group) could not be freed. After
    /// a failure of the device or of a transaction it is tried again when the volume is closed.
    /// Anything else is damage that would be the same then: a list may name a free inode, or a
    /// number that no inode has.
    pub fn orphan_stays(&self, ino: Option<Ino>, error: &Error) {
        let list = match error {
            Error::Device(_) | Error::Trans(_) => &self.orphans_left,
            _ => &self.damaged_orphans,
        };
        list.lock().push(Orphan::new(ino, error));
    }

    fn inactivate_all(&self, ino: Ino) -> Result<()> {
        self.verify_forks(ino)?;
        let step = || {
            self.transact(|tx| {
                let inode = match tx.iget(ino) {
                    Err(Error::NoInode(_)) => return Ok(true),
                    inode => inode?,
                };
                if tx.core(inode).nlink() > 0 {
                    return Ok(true);
                }
                if !tx.free_some(inode)? {
                    return Ok(false);
                }
                tx.remove_unlinked(inode)?;
                tx.ifree(inode)?;
                Ok(true)
            })
        };
        while !step()? {}
        Ok(())
    }

    /// Verifies the maps of inode `ino`, if it has no name. A damaged inode is left whole, for
    /// repair.
    fn verify_forks(&self, ino: Ino) -> Result<()> {
        match self.iget(ino) {
            Err(Error::NoInode(_)) => Ok(()),
            Err(error) => Err(error),
            Ok(inode) if inode.core().nlink() > 0 => Ok(()),
            Ok(_) => [Fork::Data, Fork::Attr]
                .into_iter()
                .try_for_each(|fork| self.verify_map(ino, fork, &WHOLE)),
        }
    }

    /// Verifies a member of an unlinked list, which cannot have a name.
    fn verify_orphan(&self, ino: Ino) -> Result<()> {
        let ctx = self.ctx(inode::location(self.geo(), ino));
        ctx.eq("inode.nlink", 0, self.iget(ino)?.core().nlink())?;
        self.verify_forks(ino)
    }

    /// Frees all inodes on unlinked lists: files that were deleted while open, before a crash. A
    /// damaged inode stays on its list, as Linux leaves it, and is recorded
    /// ([`damaged_orphans`](Self::damaged_orphans)). The inodes behind it on the list are freed
    /// nonetheless.
    ///
    /// # Errors
    /// [`Error::Trans`] if the volume was shut down.
    pub(crate) fn inactivate_orphans(&self) -> Result<()> {
        self.damaged_orphans.lock().clear();
        let (orphans, cut) = self.orphans();
        for (ino, error) in cut {
            self.orphan_stays(ino, &error);
        }
        for ino in orphans {
            if let Err(error) = self.verify_orphan(ino) {
                self.orphan_stays(Some(ino), &error);
            } else if let Err(error @ Error::Trans(_)) = self.inactivate(ino) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the inodes on unlinked lists that cannot be freed. For a volume that is open for
    /// writing these are the inodes that stayed; else those that would stay.
    pub fn damaged_orphans(&self) -> Vec<Orphan> {
        if self.space().is_writable() {
            return self.damaged_orphans.lock().clone();
        }
        let (orphans, cut) = self.orphans();
        let cut = cut.into_iter().map(|(ino, error)| Orphan::new(ino, &error));
        let verified = orphans.into_iter().filter_map(|ino| {
            let error = self.verify_orphan(ino).err()?;
            Some(Orphan::new(Some(ino), &error))
        });
        cut.chain(verified).collect()
    }

    /// Returns the members of all unlinked lists, and the errors of lists (or of the heads of a
    /// group) that could not be read to the end.
    fn orphans(&self) -> (Vec<Ino>, Vec<(Option<Ino>, Error)>) {
        let (mut members, mut seen, mut cut) = (Vec::new(), HashSet::new(), Vec::new());
        for agno in self.geo().ags() {
            match self.agi(agno) {
                Ok(agi) => {
                    for head in agi.unlinked.iter().map(|head| head.get()) {
                        let head = (head != u32::MAX).then_some(AgIno(head));
                        let end = self.follow_list(agno, head, (&mut members, &mut seen));
                        cut.extend(end.err().map(|(ino, error)| (Some(ino), error)));
                    }
                }
                Err(error) => cut.push((None, error)),
            }
        }
        (members, cut)
    }

    /// Adds the members of one list to `members`. No inode is on two lists, or twice on one.
    fn follow_list(
        &self,
        agno: AgNumber,
        head: Option<AgIno>,
        (members, seen): (&mut Vec<Ino>, &mut HashSet<Ino>),
    ) -> std::result::Result<(), (Ino, Error)> {
        let mut at = head;
        while let Some(agino) = at {
            let ino = self.geo().agino_to_ino(agno, agino);
            let ctx = self.ctx(inode::location(self.geo(), ino));
            let inode = self.iget(ino).map_err(|error| (ino, error))?;
            let fresh = seen.insert(ino);
            ctx.require("agi.unlinked", fresh, "an inode that is listed once", agino)
                .map_err(|fault| (ino, fault.into()))?;
            members.push(ino);
            at = inode.core().next_unlinked();
        }
        Ok(())
    }
}

impl Tx<'_> {
    /// Frees some of an unlinked inode's blocks; returns `true` if nothing is left.
    fn free_some(&mut self, inode: TxInode) -> Result<bool> {
        let file_type = self.core(inode).file_type();
        let data_is_free = match file_type {
            Some(FileType::Symlink) => {
                self.drop_target(inode)?;
                true
            }
            Some(FileType::Directory) => self.free_metadata_some(inode, Fork::Data)?,
            _ => self.bmap_trim(inode, Fork::Data, FileOff::ZERO, EXTENTS_AT_ONCE)?,
        };
        Ok(data_is_free && self.free_metadata_some(inode, Fork::Attr)?)
    }

    /// Frees the last blocks of a metadata fork, block 0 at the very end; returns `true` if none is
    /// left.
    fn free_metadata_some(&mut self, inode: TxInode, fork: Fork) -> Result<bool> {
        let unit = if fork == Fork::Data { self.volume().geo().dirblkfsbs() } else { 1 };
        for _ in 0..EXTENTS_AT_ONCE {
            if self.core(inode).fork_nextents(fork) == 0 {
                return Ok(true);
            }
            let end = self.bmap_end(inode, fork)?;
            let start = FileOff(end.0.saturating_sub(unit.into()));
            if fork == Fork::Attr && start.0 > 0 {
                self.empty_attr_root(inode)?;
            }
            if let Some(map) = self.bmap_buf(inode, fork, start, unit)? {
                self.invalidate_at(&map)?;
            }
            self.bunmap_some(inode, fork, start, FilBlks(unit.into()))?;
        }
        Ok(self.core(inode).fork_nextents(fork) == 0)
    }

    /// Makes the root of an attribute tree an empty leaf. Its blocks are freed in several
    /// transactions. Linux, which walks the tree to free it, must not find it half freed.
    fn empty_attr_root(&mut self, inode: TxInode) -> Result<()> {
        let Some(map) = self.bmap_buf(inode, Fork::Attr, FileOff::ZERO, 1)? else { return Ok(()) };
        let geo = self.volume().geo();
        let id = Identity { daddr: map.first().0, owner: inode.ino };
        let root = self.fresh(&map)?;
        leaf_edit::init(&mut self.image(root), geo, id);
        Ok(())
    }
}
