//! Owners of blocks: the one record in which all owners of a group are collected.
//!
//! Whatever is found in use, AG headers, trees, inode chunks, extents of forks, is put down as a
//! [`Used`] in the form of a reverse mapping. Sorted, they say what the rmapbt and the refcountbt
//! must say, where blocks are used twice, and what must be free.

use xfskit_format::rmap;

/// Internal bit of [`Used::offset`], unused on disk: the owner has the reflink flag.
pub(crate) const OFF_REFLINK: u64 = 1 << 60;
/// Internal bit of [`Used::offset`], unused on disk: content of a regular file.
pub(crate) const OFF_REGULAR: u64 = 1 << 59;

/// One extent in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Used {
    /// First block of the extent (agbno).
    pub start: u32,
    /// Blocks.
    pub len: u32,
    /// As in the rmapbt: an inode, or one of [`rmap::owner`].
    pub owner: u64,
    /// As in the rmapbt: file position and flags, and [`OFF_REFLINK`].
    pub offset: u64,
}

impl Used {
    /// An extent of an owner that is no file.
    pub(crate) fn special(start: u32, len: u32, owner: u64) -> Self {
        Self { start, len, owner, offset: 0 }
    }

    /// One past the last block.
    pub(crate) fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }

    /// The order of the rmapbt: block, owner, position without the unwritten flag.
    pub(crate) fn key(&self) -> (u32, u64, u64) {
        (self.start, self.owner, self.offset & !(OFF_REFLINK | OFF_REGULAR | rmap::OFF_UNWRITTEN))
    }

    /// True where the extent is content of a regular file: the only blocks that may be shared.
    pub(crate) fn is_content(&self) -> bool {
        self.offset & OFF_REGULAR != 0
    }

    /// True where the owner says that it may share blocks.
    pub(crate) fn has_reflink_flag(&self) -> bool {
        self.offset & OFF_REFLINK != 0
    }

    /// True where the extent was allocated but never written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.offset & rmap::OFF_UNWRITTEN != 0
    }

    /// True where `next`, directly behind, is part of the same reverse mapping. (Content is put
    /// down in the largest pieces to begin with.)
    pub(crate) fn takes_in(&self, next: &Self) -> bool {
        let no_position = self.owner >> 63 != 0 || self.offset & rmap::OFF_BMBT_BLOCK != 0;
        no_position
            && self.owner == next.owner
            && self.offset == next.offset
            && self.start.checked_add(self.len) == Some(next.start)
            && self.len.checked_add(next.len).is_some()
    }

    /// The owner, in words.
    pub(crate) fn owner_name(&self) -> String {
        match self.owner {
            rmap::owner::FS => "AG headers".to_owned(),
            rmap::owner::LOG => "the journal".to_owned(),
            rmap::owner::AG => "free-space btrees or the AGFL".to_owned(),
            rmap::owner::INOBT => "inode btrees".to_owned(),
            rmap::owner::INODES => "inodes".to_owned(),
            rmap::owner::REFC => "the refcountbt".to_owned(),
            rmap::owner::COW => "copy-on-write staging".to_owned(),
            ino if ino >> 63 != 0 => format!("unknown owner {ino:#x}"),
            ino => {
                let fork = if self.offset & rmap::OFF_ATTR_FORK != 0 { " attributes" } else { "" };
                match self.offset & rmap::OFF_BMBT_BLOCK {
                    0 => format!("inode {ino}{fork} at {}", self.offset & rmap::OFF_MASK),
                    _ => format!("inode {ino}{fork} btree"),
                }
            }
        }
    }
}
