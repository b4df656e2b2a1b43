//! A removed file, as far as it is known.

use xfskit_core::restore::RemovedAttr;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{FilBlks, FileOff, Ino, Lsn};

use crate::attr_blocks::AttrBlocks;

/// Maximum number of names that are kept of a file, if it did not have more links.
const NAMES_MAX: usize = 16;
/// Maximum number of names that are kept of any file.
const LINKS_MAX: usize = 256;

/// How much of a file can be had again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The name of an inode of which nothing else is left.
    NameOnly,
    /// Some blocks are in use by others, or size or extents are not known for certain.
    Partial,
    /// The inode and all its extents are known, and all its blocks are still free.
    Good,
}

/// The size of a removed file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The inode's own.
    Exact(u64),
    /// The end of the last extent.
    AtMost(u64),
    /// Not known.
    Unknown,
}

/// The known part of the content of a removed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The inode's core with all of its extents.
    All,
    /// Extents, or a core whose extents are not all known.
    Part,
    /// Nothing.
    Nothing,
}

/// Why blocks of a removed file do not hold its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// They are in use.
    InUse,
    /// A file that was removed later had them too.
    Reused,
}

/// Blocks of a removed file that hold something else now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// First block, in the file.
    pub startoff: FileOff,
    /// Number of blocks.
    pub blockcount: FilBlks,
    /// What they hold.
    pub reason: LostReason,
}

/// A name that a removed file had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The directory, if it is known.
    pub parent: Option<Ino>,
    /// 1 to 255 bytes, without a slash.
    pub name: Vec<u8>,
    /// The type that the directory entry gives.
    pub file_type: Option<FileType>,
    /// When the entry was last seen in the journal; unset for one from a directory.
    pub lsn: Lsn,
}

/// A removed file.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its inode number.
    pub ino: Ino,
    /// Its generation, if that is known.
    pub generation: Option<u32>,
    /// The names that were found, the likeliest first.
    pub names: Vec<Name>,
    /// Its type.
    pub file_type: Option<FileType>,
    /// Type and permissions.
    pub mode: Option<u16>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// Its size.
    pub size: Size,
    /// When its content changed last.
    pub mtime: Option<Timestamp>,
    /// When it was read last.
    pub atime: Option<Timestamp>,
    /// When it was made.
    pub crtime: Option<Timestamp>,
    /// When it was removed.
    pub removed: Option<Timestamp>,
    /// True if its extents are on the realtime device.
    pub realtime: bool,
    /// Its extents, in order.
    pub extents: Vec<Extent>,
    /// The target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// The parts of its extents that hold something else now, in order.
    pub lost: Vec<Lost>,
    /// Its extended attributes, as far as they were in the inode.
    pub attrs: Vec<RemovedAttr>,
    /// The most links that it was seen with. 0: that is not known.
    pub links: u32,
    /// An inode in use was made when it was: perhaps the file, given back.
    pub has_twin: bool,
    /// The blocks of its extended attributes.
    pub(crate) attr_blocks: AttrBlocks,
    /// Its project.
    pub(crate) projid: u32,
    pub(crate) flags: InodeFlags,
    pub(crate) flags2: InodeFlags2,
    pub(crate) known: Known,
    /// When the journal, or the write of the inode, saw it last.
    pub(crate) lsn: Lsn,
}

impl Candidate {
    /// Returns a file of which the number is known.
    pub(crate) fn new(ino: Ino) -> Self {
        Self {
            ino,
            generation: None,
            names: Vec::new(),
            file_type: None,
            mode: None,
            owner: None,
            size: Size::Unknown,
            mtime: None,
            atime: None,
            crtime: None,
            removed: None,
            realtime: false,
            extents: Vec::new(),
            target: None,
            lost: Vec::new(),
            attrs: Vec::new(),
            links: 0,
            has_twin: false,
            attr_blocks: AttrBlocks::default(),
            projid: 0,
            flags: InodeFlags::empty(),
            flags2: InodeFlags2::empty(),
            known: Known::Nothing,
            lsn: Lsn::NONE,
        }
    }

    /// Returns how much of the file can be had again.
    pub fn confidence(&self) -> Confidence {
        match self.known {
            Known::Nothing => Confidence::NameOnly,
            Known::All if self.lost.is_empty() => Confidence::Good,
            Known::All | Known::Part => Confidence::Partial,
        }
    }

    /// Takes back that all of the content is known.
    pub(crate) fn doubt(&mut self) {
        if self.known == Known::All && !self.extents.is_empty() {
            self.known = Known::Part;
        }
    }

    /// Returns true if a file in use has some of its blocks.
    pub fn is_in_use(&self) -> bool {
        self.lost.iter().any(|lost| lost.reason == LostReason::InUse)
    }

    /// Returns true if neither a name nor content is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.known == Known::Nothing
    }

    /// Adds a name. The newest of the journal come first, those without an LSN after them.
    pub(crate) fn add_name(&mut self, name: Name) {
        let types = self.file_type.zip(name.file_type);
        if types.is_some_and(|(own, other)| own != other) {
            return;
        }
        let same = |other: &Name| other.name == name.name && other.parent == name.parent;
        if let Some(at) = self.names.iter().position(same) {
            if self.names[at].lsn >= name.lsn {
                return;
            }
            self.names.remove(at);
        }
        let at = self.names.partition_point(|other| other.lsn >= name.lsn);
        self.names.insert(at, name);
        let links = usize::try_from(self.links).unwrap_or(LINKS_MAX).min(LINKS_MAX);
        self.names.truncate(links.max(NAMES_MAX));
    }
}
