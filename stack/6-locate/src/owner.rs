//! Owners of blocks.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::agbtree::Tree;
use xfskit_units::{AgBlock, AgNumber, ExtLen, FileOff, Ino};

/// What a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Free space.
    Free,
    /// The free list of the group, for the growth of its own btrees.
    FreeList,
    /// The headers of the group: superblock, AGF, AGI, AGFL.
    Headers,
    /// The journal.
    Log,
    /// A btree of the group.
    Tree(Tree),
    /// A block of the free-space btrees, the rmapbt or the free list, according to the rmapbt. The
    /// block itself does not show which.
    AgMetadata,
    /// A block of inobt or finobt, according to the rmapbt. The block itself does not show which.
    InodeTree,
    /// Inodes, used or free. The number is that of the first one.
    Inodes(Ino),
    /// Staging blocks of copy-on-write.
    Staging,
    /// An extent of a fork.
    Extent {
        /// The inode.
        ino: Ino,
        /// The fork.
        fork: Fork,
        /// Offset in the fork.
        startoff: FileOff,
        /// True if the blocks were never written.
        unwritten: bool,
    },
    /// A block of the extent tree of a fork.
    ForkTree {
        /// The inode.
        ino: Ino,
        /// The fork.
        fork: Fork,
    },
    /// An owner in the rmapbt that the format does not define.
    Undefined(u64),
    /// Nothing: neither free nor in use. The block has leaked.
    Leaked,
    /// Not known, because of damage.
    Unknown,
}

impl Owner {
    /// Returns the inode of a block of a file.
    pub fn ino(&self) -> Option<Ino> {
        match *self {
            Self::Extent { ino, .. } | Self::ForkTree { ino, .. } => Some(ino),
            _ => None,
        }
    }
}

/// A run of blocks with one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owned {
    /// The group.
    pub agno: AgNumber,
    /// First block.
    pub start: AgBlock,
    /// Number of blocks.
    pub len: ExtLen,
    /// The owner of each of them.
    pub owner: Owner,
    /// Inodes per block, by which the number of the first inode moves.
    inopblock: u32,
}

impl Owned {
    /// Makes a run. Its blocks are a range of agbno.
    pub(crate) fn new(agno: AgNumber, blocks: Range<u32>, owner: Owner) -> Self {
        let len = ExtLen(blocks.end.saturating_sub(blocks.start));
        Self { agno, start: AgBlock(blocks.start), len, owner, inopblock: 0 }
    }

    /// Makes a run of blocks with inodes.
    pub(crate) fn inodes(agno: AgNumber, blocks: Range<u32>, first: Ino, inopblock: u32) -> Self {
        Self { inopblock, ..Self::new(agno, blocks, Owner::Inodes(first)) }
    }

    /// Returns the block after the last one (agbno).
    pub fn end(&self) -> u32 {
        self.start.0.saturating_add(self.len.0)
    }

    /// Returns the part within `blocks` (agbno), unless that is empty.
    pub(crate) fn clip(&self, blocks: Range<u32>) -> Option<Self> {
        let (start, end) = (self.start.0.max(blocks.start), self.end().min(blocks.end));
        let len = end.checked_sub(start).filter(|&len| len > 0)?;
        let owner = self.owner_at(start.saturating_sub(self.start.0));
        Some(Self { start: AgBlock(start), len: ExtLen(len), owner, ..*self })
    }

    /// Returns the owner as block `ahead` of the run has it.
    fn owner_at(&self, ahead: u32) -> Owner {
        match self.owner {
            Owner::Extent { ino, fork, startoff, unwritten } => {
                let startoff = startoff.saturating_add(ahead.into());
                Owner::Extent { ino, fork, startoff, unwritten }
            }
            Owner::Inodes(first) => {
                let inodes = u64::from(ahead).saturating_mul(self.inopblock.into());
                Owner::Inodes(Ino(first.0.saturating_add(inodes)))
            }
            owner => owner,
        }
    }

    /// Returns true if `next`, directly behind, continues this run.
    pub(crate) fn takes_in(&self, next: &Self) -> bool {
        self.agno == next.agno
            && self.end() == next.start.0
            && self.owner_at(self.len.0) == next.owner
    }
}
