//! Owners of blocks: the one record in which all owners of a group are collected.
//!
//! Each extent found in use (AG headers, trees, inode chunks, extents of forks) is recorded as a
//! [`UsedExtent`] in the form of a reverse mapping. The sorted list shows what the rmapbt and the
//! refcountbt must hold, which blocks are used twice, and which must be free.

use xfskit_format::rmap;

/// Internal bit of [`UsedExtent::offset`], unused on disk: the owner has the reflink flag.
pub(crate) const OFF_REFLINK: u64 = 1 << 60;
/// Internal bit of [`UsedExtent::offset`], unused on disk: content of a regular file.
pub(crate) const OFF_REGULAR: u64 = 1 << 59;

/// One extent in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UsedExtent {
    /// First block of the extent (agbno).
    pub start: u32,
    /// Length in blocks.
    pub len: u32,
    /// As in the rmapbt: an inode, or one of [`rmap::owner`].
    pub owner: u64,
    /// As in the rmapbt: file position and flags, and [`OFF_REFLINK`].
    pub offset: u64,
}

impl UsedExtent {
    /// Makes an extent whose owner is not a file.
    pub(crate) fn special(start: u32, len: u32, owner: u64) -> Self {
        Self { start, len, owner, offset: 0 }
    }

    /// Returns the block after the last one.
    pub(crate) fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }

    /// Returns the sort key of the rmapbt: block, owner, position without the unwritten flag.
    pub(crate) fn key(&self) -> (u32, u64, u64) {
        (self.start, self.owner, self.offset & !(OFF_REFLINK | OFF_REGULAR | rmap::OFF_UNWRITTEN))
    }

    /// Returns the reverse mapping.
    pub(crate) fn record(&self) -> rmap::Rec {
        rmap::Rec {
            startblock: self.start.into(),
            blockcount: self.len.into(),
            owner: self.owner.into(),
            offset: (self.offset & !(OFF_REFLINK | OFF_REGULAR)).into(),
        }
    }

    /// Returns the extent as it is stored outside of memory, with the internal bits.
    pub(crate) fn stored(&self) -> rmap::Rec {
        rmap::Rec { offset: self.offset.into(), ..self.record() }
    }

    /// Returns the extent that was stored.
    pub(crate) fn of_stored(rec: &rmap::Rec) -> Self {
        Self {
            start: rec.startblock.get(),
            len: rec.blockcount.get(),
            owner: rec.owner.get(),
            offset: rec.offset.get(),
        }
    }

    /// Returns true if the extent is content of a regular file. Only such blocks may be shared.
    pub(crate) fn is_content(&self) -> bool {
        self.offset & OFF_REGULAR != 0
    }

    /// Returns true if the owner has the reflink flag, so that it may share blocks.
    pub(crate) fn has_reflink_flag(&self) -> bool {
        self.offset & OFF_REFLINK != 0
    }

    /// Returns true if the extent was allocated but never written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.offset & rmap::OFF_UNWRITTEN != 0
    }

    /// Returns true if `next`, directly behind, belongs to the same reverse mapping. File contents
    /// are recorded in the largest pieces already.
    pub(crate) fn takes_in(&self, next: &Self) -> bool {
        let no_position = self.owner >> 63 != 0 || self.offset & rmap::OFF_BMBT_BLOCK != 0;
        no_position
            && self.owner == next.owner
            && self.offset == next.offset
            && self.start.checked_add(self.len) == Some(next.start)
            && self.len.checked_add(next.len).is_some()
    }

    /// Returns the owner in words.
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
