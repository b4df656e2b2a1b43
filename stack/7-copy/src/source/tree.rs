//! A tree that was read: one [`Node`] for each name, compact enough for millions of them.
//!
//! Invariants, for every source and any number of threads:
//!
//! 1. Node 0 is the root, a directory.
//! 2. The children of a directory have consecutive numbers, in the order of their names' bytes, and
//!    all are numbered higher than their directory.
//! 3. A file with several names is described at the name with the lowest number; its other names
//!    are [`Kind::HardLink`]s to that node.
//! 4. Names have 1 to 255 bytes, neither `/` nor NUL among them, and are not `.` or `..`.

use std::ops::Range;
use std::sync::Arc;

use xfskit_format::attr::Namespace;
use xfskit_format::timestamp::Timestamp;

use super::content::{Content, ContentLocation, Stores};
use super::node_id::NodeId;
use super::unread::{Reading, Unread, UnreadFiles};
use super::{Segment, SourceError};
use crate::skipped::{Skipped, SkippedCount};

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory; [`Tree::children`] has the rest.
    Dir {
        /// Number of its first child.
        first: u32,
        /// Number of its children.
        count: u32,
    },
    /// A regular file; [`Tree::open`] has the rest.
    File {
        /// Size in bytes.
        size: u64,
        /// Location of its content.
        content: ContentId,
    },
    /// A symbolic link; [`Tree::target`] has the rest.
    Symlink {
        /// Length of the target, in bytes: 1 to 1023.
        len: u16,
    },
    /// A character device.
    Char {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A block device.
    Block {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A further name of the node given, which has a lower number and is no directory.
    HardLink(NodeId),
}

/// Location of the content of a file: an index into the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentId(pub(super) u32);

/// Metadata of every inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Permissions with set-user-id, set-group-id and sticky: the low 12 bits of the mode.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Time of the last change of the content.
    pub mtime: Timestamp,
    /// Time of the last access.
    pub atime: Timestamp,
}

/// One extended attribute, as XFS stores it. POSIX ACLs are among them, in their stored form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// Namespace of the name.
    pub namespace: Namespace,
    /// Without its namespace: 1 to 255 bytes.
    pub name: Box<[u8]>,
    /// At most 65536 bytes.
    pub value: Box<[u8]>,
}

/// One name and its inode.
#[derive(Clone, Debug)]
pub struct Node {
    /// The type.
    pub kind: Kind,
    /// Zero for a [`Kind::HardLink`]: its target has it.
    pub meta: Meta,
    /// Link count: for a directory 2 and one for each directory in it; 0 for a [`Kind::HardLink`].
    pub nlink: u32,
    /// The directory that it is in; the root's is itself.
    pub parent: NodeId,
    pub(super) name: Text,
    pub(super) target: Text,
    pub(super) xattrs: XattrsId,
}

/// A range of the tree's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) at: u32,
    pub(super) len: u16,
}

impl Text {
    fn range(self) -> Range<usize> {
        let at = self.at as usize;
        at..at + usize::from(self.len)
    }
}

/// One of the tree's sets of attributes, which many nodes share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct XattrsId(pub(super) u32);

/// A whole tree.
#[derive(Debug)]
pub struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Names and targets of symbolic links.
    pub(super) text: Vec<u8>,
    /// Sets of attributes, each sorted by namespace and name; the first is empty.
    pub(super) xattrs: Vec<Arc<[Xattr]>>,
    /// Locations of files' contents.
    pub(super) locations: Vec<ContentLocation>,
    /// The directories and files that hold contents.
    pub(super) stores: Stores,
    pub(super) notes: Notes,
    pub(super) unread: UnreadFiles,
}

/// Things to report about the reading of a tree.
#[derive(Debug, Default)]
pub struct Notes {
    /// Files that could not be read and are not part of the tree.
    pub left_out: Vec<SourceError>,
    /// Number of attributes for which XFS has no namespace, and which are not part of the tree.
    pub foreign_xattrs: u64,
    /// Files of proc and the like: empty in the tree, because only reading them shows their size.
    pub sizeless: u64,
    /// Names that begin with `.wh.` and were copied as files.
    pub whiteouts: u64,
}

impl Notes {
    /// Returns the counts of what is not part of the tree.
    pub fn skipped(&self) -> Vec<SkippedCount> {
        let skipped = Skipped::default();
        for error in &self.left_out {
            skipped.count(match error {
                SourceError::TooManyXattrs { .. } => "attributes (more than Linux lists)",
                _ => "names (removed while the tree was read)",
            });
        }
        skipped.count_more("content (of files whose size is unknown, as in /proc)", self.sizeless);
        skipped.count_usual("attributes (XFS has no namespace for them)", self.foreign_xattrs);
        skipped.counts()
    }
}

impl Tree {
    /// Returns an empty root, of user 0 with permissions 0755, from 1970.
    pub fn empty() -> Self {
        let root = Node {
            kind: Kind::Dir { first: 1, count: 0 },
            meta: Meta { perm: 0o755, ..Meta::default() },
            nlink: 2,
            parent: NodeId::ROOT,
            name: Text::default(),
            target: Text::default(),
            xattrs: XattrsId::default(),
        };
        Self {
            nodes: vec![root],
            text: Vec::new(),
            xattrs: vec![Arc::from([])],
            locations: Vec::new(),
            stores: Stores::default(),
            notes: Notes::default(),
            unread: UnreadFiles::default(),
        }
    }

    /// Returns the files that are not part of the tree, and forgets them.
    pub fn take_left_out(&mut self) -> Vec<SourceError> {
        std::mem::take(&mut self.notes.left_out)
    }

    /// Returns things to report about the reading.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Returns the number of nodes.
    #[allow(clippy::len_without_is_empty)] // there always is a root
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns all numbers, ascending: each directory before its children.
    #[allow(clippy::cast_possible_truncation)] // nodes are numbered in 32 bits
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Returns node `id`.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns the node that has the inode of `id`: the target of a hard link, else `id` itself.
    pub fn inode(&self, id: NodeId) -> NodeId {
        match self.node(id).kind {
            Kind::HardLink(target) => target,
            _ => id,
        }
    }

    /// Returns the name of `id` in its directory; the root's is empty.
    pub fn name(&self, id: NodeId) -> &[u8] {
        &self.text[self.node(id).name.range()]
    }

    /// Returns the path of `id` from the root, without a leading `/`; the root's is empty.
    pub fn path(&self, id: NodeId) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = id;
        while at != NodeId::ROOT {
            names.push(self.name(at));
            at = self.node(at).parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Returns the children of directory `id`, sorted by name; none if it is not a directory.
    pub fn children(
        &self,
        id: NodeId,
    ) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        let range = match self.node(id).kind {
            Kind::Dir { first, count } => first..first + count,
            _ => 0..0,
        };
        range.map(NodeId)
    }

    /// Returns the target of symbolic link `id`; empty if it is not one.
    pub fn target(&self, id: NodeId) -> &[u8] {
        &self.text[self.node(id).target.range()]
    }

    /// Returns the attributes of `id`, sorted by namespace and name. A hard link has none: ask its
    /// target.
    pub fn xattrs(&self, id: NodeId) -> &[Xattr] {
        &self.xattrs[self.node(id).xattrs.0 as usize]
    }

    /// Opens the content of file `id`; empty if it is not a file. A file in a source directory is
    /// opened once, here.
    ///
    /// # Errors
    /// A file cannot be opened, or is a different one now.
    pub fn open(&self, id: NodeId) -> Result<Content<'_>, SourceError> {
        let Kind::File { size, content } = self.node(id).kind else {
            return Ok(Content::empty());
        };
        let reading = Reading { files: &self.unread, id: id.0, size };
        self.stores.open(&self.locations[content.0 as usize], self.path(id), reading)
    }

    /// Returns the size that a copy of file `id` has, in bytes: its own, or less if it could not be
    /// read to its end. Known once it was read.
    pub fn copied_size(&self, id: NodeId) -> u64 {
        let Kind::File { size, .. } = self.node(id).kind else { return 0 };
        self.unread.get(id.0).map_or(size, |(end, _)| end)
    }

    /// Returns true if file `id` could not be opened, because it is gone or may not be read.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.unread.get(id.0).is_some_and(|(_, is_open)| !is_open)
    }

    /// Returns the files that were not read as they were when the tree was read, and forgets them.
    /// A strict tree has none: reading them is an error.
    pub fn take_unread(&self) -> Vec<Unread> {
        self.unread.take()
    }

    /// Returns the segments of file `id` with data: ascending, not touching, not empty, within its
    /// size. Opens the file only if it may have holes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn segments(&self, id: NodeId) -> Result<Vec<Segment>, SourceError> {
        let Kind::File { size, content } = self.node(id).kind else { return Ok(Vec::new()) };
        if self.locations[content.0 as usize].is_dense(size) {
            return Ok(Segment::whole(size));
        }
        self.open(id)?.segments()
    }

    /// Sets all times later than `epoch` to it, and access times to modification times.
    pub(super) fn clamp_times(&mut self, epoch: Timestamp) {
        for node in &mut self.nodes {
            node.meta.mtime = node.meta.mtime.min(epoch);
            node.meta.atime = node.meta.mtime;
        }
    }
}
