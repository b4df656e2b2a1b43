//! Removed files, given back with the blocks that they had.
//!
//! Removing a file frees its inode and its blocks, and writes neither. Where the blocks are still
//! free, the file is given back in place: an inode is made as it was, its blocks are taken out of
//! free space where they are, and it gets its names. Their content is neither read nor written.
//!
//! 1. A file is given back whole or not at all: inode, blocks and names are one transaction.
//! 2. A block that is not free ends the transaction. What else it allocates are never blocks that
//!    the caller [keeps](xfskit_space::Space::keep_free) for other removed files.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_format::attr::Namespace;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::FileType;
use xfskit_format::timestamp::{NSEC_PER_SEC, Timestamp};
use xfskit_units::{ByteLen, Geometry, Ino, index};

use crate::attr::change::{ParentName, SetMode};
use crate::error::{Error, Result};
use crate::icore::{NewInode, Touch};
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// The part of the journal that one file may take.
const LOG_PART: u64 = 16;
/// Bytes of the journal that a file may take at most.
const DIRTY_MAX: u64 = 1 << 20;
/// Number of extents that are taken between two looks at the size of the transaction.
const EXTENTS_AT_ONCE: usize = 32;
/// Largest size of a file, in bytes.
const SIZE_MAX: u64 = i64::MAX.unsigned_abs();

/// The content of a removed inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedContent<'f> {
    /// Data of a regular file: its size in bytes, and its extents in order.
    File(ByteLen, &'f [Extent]),
    /// The target of a symbolic link. It gets new blocks where it needs some.
    Target(&'f [u8]),
    /// No content: an empty directory, a pipe, a socket.
    Nothing,
}

/// An extended attribute of a removed inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedAttr {
    /// Its namespace: not that of parent pointers.
    pub namespace: Namespace,
    /// Its name in that namespace.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// A name of a removed inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredName<'n> {
    /// The directory.
    pub dir: Ino,
    /// The name in it.
    pub name: &'n [u8],
}

/// A removed inode, as it was.
#[derive(Clone, Copy, Debug)]
pub struct RemovedInode<'f> {
    /// The number that it had.
    pub ino: Ino,
    /// The generation that it had, if that is known.
    pub generation: Option<u32>,
    /// Mode, owner, project and flags. Its number of links is set here, and `now` is the time of
    /// this change.
    pub new: NewInode,
    /// Times of the last access, of the last change of the content, and of its creation, where they
    /// are known.
    pub times: [Option<Timestamp>; 3],
    /// Its content.
    pub content: RemovedContent<'f>,
    /// Its extended attributes.
    pub attrs: &'f [RemovedAttr],
}

impl Volume {
    /// Gives a removed inode back under all of `names`: with its own number if the chunk of that
    /// exists and it is free there, else with a new one. If no other inode had the number
    /// meanwhile, the generation is as before, too. Returns the number.
    ///
    /// # Errors
    /// [`Error::Limit`] if a block of its content is not free, for more than one transaction can
    /// take, for no name, and for several names of a directory; [`Error::Exists`],
    /// [`Error::NotDirectory`], [`Error::NoInode`] for a directory of `names`, [`Error::NoSpace`],
    /// [`Error::Device`], [`Error::Corrupt`]. Nothing has changed then.
    pub fn restore_inode(
        &self,
        removed: &RemovedInode<'_>,
        names: &[RestoredName<'_>],
    ) -> Result<Ino> {
        let Some(file_type) = FileType::from_mode(removed.new.mode) else {
            return Err(Error::Limit("a mode without a file type"));
        };
        if matches!(removed.content, RemovedContent::File(size, _) if size.0 > SIZE_MAX) {
            return Err(Error::FileTooLarge("a file that is larger than one can be"));
        }
        let is_dir = file_type == FileType::Directory;
        let Some(first) = names.first() else { return Err(Error::Limit("an inode has a name")) };
        if is_dir && names.len() > 1 {
            return Err(Error::Limit("a directory has one name"));
        }
        for RestoredName { dir, .. } in names {
            if !self.is_in_use(*dir)? {
                return Err(Error::NoInode(*dir));
            }
        }
        let links = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let new = NewInode { nlink: if is_dir { 2 } else { links }, ..removed.new };
        self.transact(|tx| {
            let dirs = tx.dirs_of(names)?;
            let inode = match tx.ialloc_exactly(removed.ino, &new)? {
                Some(inode) => tx.with_generation(inode, removed.generation),
                None => tx.ialloc(first.dir, &new)?,
            };
            if is_dir {
                tx.dir_init(inode, first.dir)?;
            }
            for name in names {
                let Some(dir) = dirs.get(&name.dir) else { return Err(Error::NoInode(name.dir)) };
                tx.give_name(inode, (*dir, name.name), file_type, new.now)?;
            }
            tx.fill_restored(inode, removed)?;
            Ok(inode.ino)
        })
    }
}

impl Tx<'_> {
    /// Gives a restored inode its generation, if its number was freed once since.
    fn with_generation(&mut self, inode: TxInode, generation: Option<u32>) -> TxInode {
        let next = generation.map(|generation| generation.wrapping_add(1));
        if let Some(generation) = generation.filter(|_| next == Some(self.core(inode).generation()))
        {
            self.set_generation(inode, generation);
        }
        inode
    }

    /// Locks the directories of `names`, in the order of their numbers.
    fn dirs_of(&mut self, names: &[RestoredName<'_>]) -> Result<BTreeMap<Ino, TxInode>> {
        let numbers: BTreeSet<Ino> = names.iter().map(|name| name.dir).collect();
        let locked = numbers.into_iter().map(|ino| {
            let dir = self.iget(ino)?;
            let core = self.core(dir);
            match (core.is_dir(), core.nlink()) {
                (false, _) => Err(Error::NotDirectory(ino)),
                (true, 0) => Err(Error::NoInode(ino)),
                (true, _) => Ok((ino, dir)),
            }
        });
        locked.collect()
    }

    /// Adds a name of a restored inode to a directory.
    fn give_name(
        &mut self,
        inode: TxInode,
        (dir, name): (TxInode, &[u8]),
        file_type: FileType,
        now: Timestamp,
    ) -> Result<()> {
        if file_type == FileType::Directory {
            let links = self.core(dir).nlink();
            self.set_nlink(dir, links.saturating_add(1))?;
        }
        self.dir_create(dir, name, inode.ino, file_type)?;
        if self.volume().geo().features.parent() {
            let generation = self.core(dir).generation();
            self.parent_set(inode, ParentName { ino: dir.ino, generation, name })?;
        }
        self.touch(dir, Touch::CONTENT, now);
        self.bound("the file has too many names for one transaction")
    }

    /// Fails if the transaction takes more of the journal than one file may.
    fn bound(&self, what: &'static str) -> Result<()> {
        let most = dirty_max(self.volume().geo());
        if self.dirty_bytes() > most { Err(Error::Limit(what)) } else { Ok(()) }
    }

    /// Gives a restored inode its attributes, content and times.
    fn fill_restored(&mut self, inode: TxInode, removed: &RemovedInode<'_>) -> Result<()> {
        for RemovedAttr { namespace, name, value } in removed.attrs {
            self.attr_set(inode, *namespace, name, value, SetMode::Any)?;
            self.bound("the file has too many attributes for one transaction")?;
        }
        match removed.content {
            RemovedContent::File(size, extents) => {
                self.reclaim(inode, extents)?;
                self.set_size(inode, size);
            }
            RemovedContent::Target(target) => self.write_symlink(inode, target)?,
            RemovedContent::Nothing => {}
        }
        let [atime, mtime, crtime] =
            removed.times.map(|time| time.filter(|time| time.nsec < NSEC_PER_SEC));
        self.set_times(inode, atime, mtime, None);
        if let Some(crtime) = crtime {
            self.set_crtime(inode, crtime);
        }
        Ok(())
    }

    /// Takes all blocks of a restored file out of free space, in the order of the groups, and maps
    /// them.
    fn reclaim(&mut self, inode: TxInode, extents: &[Extent]) -> Result<()> {
        let mut by_block: Vec<&Extent> = extents.iter().collect();
        by_block.sort_unstable_by_key(|extent| extent.startblock);
        for some in by_block.chunks(EXTENTS_AT_ONCE) {
            for extent in some {
                self.bmap_reclaim(inode, extent)?;
            }
            self.bound("the file has too many extents for one transaction")?;
        }
        Ok(())
    }
}

/// Returns the bytes that one file may take of the journal of a volume like `geo`.
fn dirty_max(geo: &Geometry) -> usize {
    let log = u64::from(geo.log_bbs()).saturating_mul(512);
    index((log / LOG_PART).min(DIRTY_MAX))
}
