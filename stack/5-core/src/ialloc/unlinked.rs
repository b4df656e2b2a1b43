//! Unlinked lists: inodes without a name that are still open, or whose freeing takes more than one
//! transaction. After a crash recovery finds them here.
//!
//! Each group has 64 lists, by inode number modulo 64, singly linked: the AGI has the heads, each
//! inode its successor.

use std::mem::offset_of;

use xfskit_format::agi::Agi;
use xfskit_format::{Expected, Image};
use xfskit_space::inodes::InodeGroup;
use xfskit_units::AgIno;
use zerocopy::big_endian::U32;

use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Number of lists of a group.
const LISTS: u32 = 64;

impl Tx<'_> {
    /// Adds `inode`, which lost its last name, to its unlinked list.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn add_unlinked(&mut self, inode: TxInode) -> Result<()> {
        let (group, agino) = self.list_of(inode)?;
        let head = self.list_head(group, agino)?;
        if head.is_some() {
            self.set_next_unlinked(inode, head);
        }
        self.set_list_head(group, agino, Some(agino));
        Ok(())
    }

    /// Removes `inode` from its unlinked list, because it got a name or is freed.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`] if it is not on the list.
    pub fn remove_unlinked(&mut self, inode: TxInode) -> Result<()> {
        let (group, agino) = self.list_of(inode)?;
        let next = self.core(inode).next_unlinked();
        let head = self.list_head(group, agino)?;
        if head == Some(agino) {
            self.set_list_head(group, agino, next);
        } else {
            let before = self.before_on_list(group, head, agino)?;
            self.set_next_unlinked(before, next);
        }
        if next.is_some() {
            self.set_next_unlinked(inode, None);
        }
        Ok(())
    }

    /// Returns the inode on the list that begins at `head` whose successor is `agino`. A list has
    /// no more members than the group has inodes.
    fn before_on_list(
        &mut self,
        group: InodeGroup,
        head: Option<AgIno>,
        agino: AgIno,
    ) -> Result<TxInode> {
        let most = group.header(self)?.count.get();
        let mut at = head;
        for _ in 0..most {
            let Some(member) = at else { break };
            let ino = self.volume().geo().agino_to_ino(group.agno, member);
            let inode = self.iget_any(ino)?;
            at = self.core(inode).next_unlinked();
            if at == Some(agino) {
                return Ok(inode);
            }
            self.release(inode.handle);
        }
        let ctx = self.volume().ctx(xfskit_format::agi::location(self.volume().geo(), group.agno));
        let found = ctx.corruption(
            "agi.unlinked",
            Expected::Described("a list with this inode".into()),
            agino,
        );
        Err(found.into())
    }

    fn list_of(&mut self, inode: TxInode) -> Result<(InodeGroup, AgIno)> {
        let split = self.volume().geo().ino_split(inode.ino);
        let (agno, agino) = split.ok_or(Error::NoInode(inode.ino))?;
        Ok((InodeGroup::lock(self, agno)?, agino))
    }

    fn list_head(&self, group: InodeGroup, agino: AgIno) -> Result<Option<AgIno>> {
        let head = group.header(self)?.unlinked.get((agino.0 % LISTS) as usize);
        Ok(head.map(|head| head.get()).filter(|&head| head != u32::MAX).map(AgIno))
    }

    fn set_list_head(&mut self, group: InodeGroup, agino: AgIno, head: Option<AgIno>) {
        let at = offset_of!(Agi, unlinked) + (agino.0 % LISTS) as usize * size_of::<U32>();
        let head = U32::new(head.map_or(u32::MAX, |agino| agino.0));
        self.image(group.agi).put(at, &head);
    }
}
