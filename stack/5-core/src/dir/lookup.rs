//! Look-up of a name.

use xfskit_format::dir;
use xfskit_format::dir::data::{Data, Form};
use xfskit_format::dir::leaf::{Leaf, LeafEntry};
use xfskit_format::dir::sf::Sf;
use xfskit_format::inode::{Dinode, FileType, Format};
use xfskit_format::{Ctx, Fork, hash, inode};
use xfskit_units::{FileOff, Geometry, Ino};

use super::file_type;
use crate::bmap::Mapping;
use crate::da::DaFork;
use crate::error::Result;

/// A directory for look-ups; its blocks are found through `M`.
#[derive(Debug)]
pub(super) struct Lookup<'l, 'a, M> {
    pub(super) core: &'l Dinode<'a>,
    pub(super) da: &'l DaFork<'a, M>,
}

impl<'a, M: Mapping> Lookup<'_, 'a, M> {
    fn geo(&self) -> &'a Geometry {
        self.da.geo()
    }

    /// Returns the verified short form, and a context for its corruptions; `None` in other forms.
    pub(super) fn short_form(&self) -> Option<(&'a [u8], Ctx<'a>)> {
        if self.core.fork_format(Fork::Data) != Some(Format::Local) {
            return None;
        }
        let fork = self.core.fork(Fork::Data).unwrap_or(&[]);
        let size = usize::try_from(self.core.size().0).unwrap_or(usize::MAX);
        let at = inode::location(self.geo(), self.da.ino).fork(Fork::Data);
        Some((fork.get(..size).unwrap_or(fork), self.da.vol.ctx(at)))
    }

    /// Returns the inode and type of `name`; `None` if the directory has no such name.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub(super) fn lookup(&self, name: &[u8]) -> Result<Option<(Ino, Option<FileType>)>> {
        if name == b"." {
            return Ok(Some((self.da.ino, Some(FileType::Directory))));
        }
        match self.short_form() {
            Some((fork, ctx)) => {
                let sf = Sf::verify(fork, &ctx)?;
                if name == b".." {
                    return Ok(Some((sf.parent, Some(FileType::Directory))));
                }
                let found = sf.entries().find(|e| hash::same_name(self.geo(), e.name, name));
                Ok(found.map(|e| (e.inumber, file_type(e.filetype))))
            }
            None => self.lookup_hashed(name),
        }
    }

    fn lookup_hashed(&self, name: &[u8]) -> Result<Option<(Ino, Option<FileType>)>> {
        let hash = hash::dir_hash(self.geo(), name);
        let leafblk = FileOff(self.geo().dir_leafblk().0.into());
        if self.da.extents.extent_at(leafblk)?.is_none() {
            return self.lookup_in_block(name, hash);
        }
        let mut next = self.da.leaf_for(hash)?;
        let mut budget = self.da.budget();
        while let Some(block) = next.take() {
            let Some(leaf) = Leaf::parse(&block.buf, self.geo()) else { break };
            for &entry in leaf.run(hash) {
                if let Some(found) = self.entry_matches(entry, name)? {
                    return Ok(Some(found));
                }
            }
            // Equal hashes may continue in the next leaf.
            budget = budget.saturating_sub(1);
            if leaf.last_hash() == Some(hash) && budget > 0 {
                next = self.da.next_leaf(leaf.info.forw.get())?;
            }
        }
        Ok(None)
    }

    fn lookup_in_block(&self, name: &[u8], hash: u32) -> Result<Option<(Ino, Option<FileType>)>> {
        let verify =
            |bytes: &[u8], ctx: &Ctx<'_>| Data::verify(bytes, ctx, Some(Form::Block)).map(drop);
        let buf = self.da.read("directory block", FileOff(0), &verify)?;
        let Some(data) = Data::parse(&buf, self.geo()) else { return Ok(None) };
        let live = dir::leaf::run(data.bleaf, hash).iter().filter_map(LeafEntry::dataptr);
        let mut entries = live.filter_map(|ptr| data.entry_at(ptr.offset(self.geo())));
        let found = entries.find(|e| hash::same_name(self.geo(), e.name, name));
        Ok(found.map(|e| (e.inumber, file_type(e.filetype))))
    }

    /// Returns the entry that a hash entry points to, if its name is `name`.
    fn entry_matches(
        &self,
        entry: LeafEntry,
        name: &[u8],
    ) -> Result<Option<(Ino, Option<FileType>)>> {
        let Some(ptr) = entry.dataptr() else { return Ok(None) };
        let fileoff = ptr.fileoff(self.geo());
        let verify =
            |bytes: &[u8], ctx: &Ctx<'_>| Data::verify(bytes, ctx, Some(Form::Data)).map(drop);
        let buf = self.da.read("directory block", fileoff, &verify)?;
        let data = Data::parse(&buf, self.geo());
        let found = data.and_then(|data| data.entry_at(ptr.offset(self.geo())));
        let found = found.filter(|e| hash::same_name(self.geo(), e.name, name));
        Ok(found.map(|e| (e.inumber, file_type(e.filetype))))
    }
}
