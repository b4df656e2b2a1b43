//! Blocks that nothing claims, by the inode that each names.

use std::collections::BTreeMap;

use xfskit_units::{FsBlock, Ino};

/// A block that names an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    pub at: FsBlock,
    pub kind: Kind,
}

/// What such a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block of a map's btree.
    Map,
    /// A leaf of attributes.
    Leaf,
    /// A node of a hash btree.
    Node,
    /// A part of an attribute's value.
    Value(Part),
    /// A part of the target of a symbolic link, and the blocks that it takes.
    Target(Part, u64),
}

/// A part of a value or a target: its first byte there, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub offset: u32,
    pub bytes: u32,
}

impl Kind {
    /// Returns the number of its blocks.
    pub(crate) fn blocks(self) -> u64 {
        if let Self::Target(_, blocks) = self { blocks } else { 1 }
    }
}

/// The blocks that nothing claims and that name an inode.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed {
    by_owner: BTreeMap<Ino, Vec<Stray>>,
}

impl Unclaimed {
    /// Adds a block that names inode `ino`.
    pub(crate) fn add(&mut self, ino: Ino, stray: Stray) {
        self.by_owner.entry(ino).or_default().push(stray);
    }

    /// Returns the blocks that name inode `ino`.
    pub(crate) fn of(&self, ino: Ino) -> &[Stray] {
        self.by_owner.get(&ino).map_or(&[], |strays| strays)
    }

    /// Returns the blocks of maps' btrees that name inode `ino`.
    pub(crate) fn maps_of(&self, ino: Ino) -> Vec<FsBlock> {
        let maps = self.of(ino).iter().filter(|stray| stray.kind == Kind::Map);
        maps.map(|stray| stray.at).collect()
    }
}
