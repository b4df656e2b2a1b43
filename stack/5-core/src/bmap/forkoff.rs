//! Moves the boundary between the two forks, and converts each fork to the form that fits its new
//! space.

use std::mem::offset_of;

use xfskit_format::attr::sf::Sf;
use xfskit_format::bmbt::edit::Slot;
use xfskit_format::bmbt::{inline_records, root_maxrecs};
use xfskit_format::inode::{Core, FileType, Format};
use xfskit_format::{Fork, Image, Layout};
use xfskit_units::index;

use super::cursor::{flatten_if_small, grow_root, make_extents, make_root};
use super::node::ForkOf;
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Bytes of a device number.
const DEVICE: usize = 4;

/// The contents of a fork within its inode.
#[derive(Debug)]
enum Content {
    /// Nothing, or contents that need no space.
    Empty,
    /// Bytes: a short form, a symlink target, a device number.
    Bytes(Vec<u8>),
    /// Extents.
    Extents(Vec<Slot>),
    /// The level and the children of the root of a tree.
    Root(u16, Vec<Slot>),
}

impl Content {
    fn of(tx: &Tx<'_>, of: ForkOf) -> Result<Self> {
        let core = tx.core(of.inode);
        let Some(bytes) = core.fork(of.fork) else { return Ok(Self::Empty) };
        Ok(match core.fork_format(of.fork) {
            Some(Format::Extents) if of.nextents(tx) == 0 => Self::Empty,
            Some(Format::Extents) => Self::Extents(of.slots(tx, None)?),
            Some(Format::Btree) => Self::Root(of.root(tx)?.level, of.slots(tx, None)?),
            Some(Format::Local) => {
                let len = match of.fork {
                    Fork::Data => index(core.size().0),
                    Fork::Attr => Sf::parse(bytes).map_or(0, |sf| usize::from(sf.totsize)),
                };
                Self::Bytes(bytes[..len.min(bytes.len())].to_vec())
            }
            _ => Self::Bytes(bytes[..bytes.len().min(DEVICE)].to_vec()),
        })
    }

    /// Returns true if it needs another form to fit into `capacity` bytes.
    fn is_too_large(&self, capacity: usize) -> bool {
        match self {
            Self::Empty => false,
            Self::Bytes(bytes) => bytes.len() > capacity,
            Self::Extents(slots) => slots.len() > inline_records(capacity),
            Self::Root(_, slots) => slots.len() > root_maxrecs(capacity),
        }
    }

    fn put(self, tx: &mut Tx<'_>, of: ForkOf) {
        match self {
            Self::Empty => {}
            Self::Bytes(bytes) => {
                let (at, _) = of.area(tx);
                tx.image(of.inode.handle).put(at, &bytes[..]);
            }
            Self::Extents(slots) => make_extents(tx, of, &slots),
            Self::Root(level, slots) => make_root(tx, of, level, &slots),
        }
    }
}

impl Tx<'_> {
    /// Moves the boundary between the forks to `forkoff` (8-byte units into the literal area; 0: no
    /// attribute fork). Each fork is converted to the form that fits: extents move into a tree or
    /// back, the root of a tree grows a level, a symlink's target moves into a block. A short form
    /// (a directory, attributes) must fit as it is: its module converts it first.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Device`], [`Error::Corrupt`], [`Error::Limit`] if a short form
    /// does not fit, [`Error::AttrBit`].
    pub fn set_forkoff(&mut self, inode: TxInode, forkoff: u8) -> Result<()> {
        let core = self.core(inode);
        if core.forkoff() == forkoff {
            return Ok(());
        }
        let literal = core.literal().len();
        if forkoff != 0 && !self.volume().has_attr_bit() {
            return Err(Error::AttrBit);
        }
        let border = match forkoff {
            0 => literal,
            units => (usize::from(units) * 8).min(literal),
        };
        let forks = [Fork::Data, Fork::Attr].map(|fork| ForkOf { inode, fork });
        let mut contents = Vec::with_capacity(2);
        for (of, capacity) in forks.into_iter().zip([border, literal - border]) {
            contents.push(fitting(self, of, capacity)?);
        }
        let start = Layout::V5.inode_core;
        let mut image = self.image(inode.handle);
        image.put(offset_of!(Core, forkoff), &forkoff);
        image.zero(start..start + literal);
        for (of, content) in forks.into_iter().zip(contents) {
            let is_tree = matches!(content, Content::Root(..));
            content.put(self, of);
            if is_tree {
                flatten_if_small(self, of)?;
            }
        }
        Ok(())
    }
}

/// Returns the contents of a fork, in a form that fits into `capacity` bytes.
fn fitting(tx: &mut Tx<'_>, of: ForkOf, capacity: usize) -> Result<Content> {
    let content = Content::of(tx, of)?;
    if !content.is_too_large(capacity) {
        return Ok(content);
    }
    match content {
        Content::Extents(_) | Content::Root(..) => grow_root(tx, of)?,
        Content::Bytes(_)
            if of.fork == Fork::Data
                && tx.core(of.inode).file_type() == Some(FileType::Symlink) =>
        {
            tx.push_out_target(of.inode)?;
        }
        _ => return Err(Error::Limit("a short form does not fit its part of the inode")),
    }
    Content::of(tx, of)
}
