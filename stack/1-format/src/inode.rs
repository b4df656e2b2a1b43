//! Inode: everything about a file except its name and content. `inodesize` bytes, 256 to 2048.
//!
//! ```text
//! 0          core             100 (v1, v2) or 176 (v3)        + 8 * forkoff    inodesize
//! | mode, owner, times, counts… | data fork                    | attribute fork |
//!                               '-------------- literal area -------------------'
//! ```
//!
//! A *fork* is a map of an inode: the data fork holds content (of a file, a directory, a symlink),
//! the attribute fork extended attributes. Its [`Format`] tells whether its part of the literal
//! area holds the content itself, extent records, or the root of a btree of them.
//!
//! Version 3 belongs to version 5 of the volume: it adds CRC, own number, UUID, LSN, birth time and
//! more flags. Versions 1 and 2 may coexist on one version 4 volume; 1 stores link count and
//! project id elsewhere. Two flags of version 3 change the meaning of earlier fields: BIGTIME of
//! the times, NREXT64 of the extent counters.
//!
//! A [`Dinode`] hides all that. [`Dinode::parse`] reads without verifying. [`Dinode::verify`]
//! verifies, free inodes too: they keep core, CRC and identity, with `mode` 0. Nothing here
//! allocates, because walks over whole volumes verify every inode.

mod kind;
mod make;
mod verify;

use xfskit_units::{AgIno, ByteLen, ExtLen, FilBlks, Geometry, Ino, Lsn};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes;
use crate::corruption::{Fork, Location};
use crate::layout::Layout;
use crate::timestamp::Timestamp;

pub use kind::{FileType, Format, InodeFlags, InodeFlags2, S_IFMT};
pub use make::{
    InodeMut, is_whole, stamp, stamp_empty_forks, stamp_lsn, template, template_unstamped,
};

/// "IN".
pub const MAGIC: u16 = 0x494e;
/// Byte of the CRC field of version 3.
pub const CRC_OFFSET: usize = 100;
/// "Not on an unlinked list."
pub const NULLAGINO: u32 = u32::MAX;

/// The part of the core that all versions have, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Core {
    /// [`MAGIC`].
    pub magic: U16,
    /// POSIX type and permissions; 0 if the inode is free.
    pub mode: U16,
    /// 1 or 2 on version 4 of the volume, 3 on version 5.
    pub version: u8,
    /// [`Format`] of the data fork.
    pub format: u8,
    /// Version 1: links. Metadata directory files: their type. Else 0.
    pub onlink: U16,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Links, from version 2 on.
    pub nlinkv2: U32,
    /// Project id, low half; from version 2 on.
    pub projid_lo: U16,
    /// Project id, high half.
    pub projid_hi: U16,
    /// Version 3 with NREXT64: extents of the data fork; without: 0. Before: 6 bytes of padding
    /// and `flushiter`, which counts write-backs and orders log replay.
    pub big_nextents: U64,
    /// Last access.
    pub atime: U64,
    /// Last change of content.
    pub mtime: U64,
    /// Last change of the inode.
    pub ctime: U64,
    /// Bytes of content.
    pub size: U64,
    /// Filesystem blocks of both forks with their btrees.
    pub nblocks: U64,
    /// Extent size hint in filesystem blocks.
    pub extsize: U32,
    /// Extents of the data fork, or with NREXT64 of the attribute fork.
    pub nextents: U32,
    /// Extents of the attribute fork, or with NREXT64 0.
    pub naextents: U16,
    /// Start of the attribute fork, in 8-byte units into the literal area; 0 for no such fork.
    pub forkoff: u8,
    /// [`Format`] of the attribute fork.
    pub aformat: u8,
    /// Used by DMAPI, which no longer exists.
    pub dmevmask: U32,
    /// Used by DMAPI.
    pub dmstate: U16,
    /// [`InodeFlags`].
    pub flags: U16,
    /// Generation: changes whenever the inode is reused. (`gen` to `xfs_db`; a Rust keyword.)
    pub generation: U32,
    /// Next inode of the unlinked list (agino), or [`NULLAGINO`].
    pub next_unlinked: U32,
}

/// The core of version 3.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CoreV3 {
    /// The part that all versions have.
    pub core: Core,
    /// CRC32c of the whole inode, little-endian.
    pub crc: [u8; 4],
    /// Counts changes.
    pub change_count: U64,
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// [`InodeFlags2`].
    pub flags2: U64,
    /// Copy-on-write extent size hint in filesystem blocks.
    pub cowextsize: U32,
    /// Must be 0.
    pub pad2: [u8; 12],
    /// Birth.
    pub crtime: U64,
    /// Own number ([`Ino`]).
    pub inumber: U64,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
}
/// Bytes of the core of version 3.
const V3_LEN: usize = size_of::<CoreV3>();
const _: () =
    assert!(size_of::<Core>() == Layout::V4.inode_core && V3_LEN == Layout::V5.inode_core);
const _: () = assert!(std::mem::offset_of!(CoreV3, crc) == CRC_OFFSET);

/// A view of the bytes of one inode of any version.
#[derive(Clone, Copy, Debug)]
pub struct Dinode<'a> {
    /// The core's older part.
    pub core: &'a Core,
    /// The whole core, on version 3.
    pub v3: Option<&'a CoreV3>,
    literal: &'a [u8],
}

/// Returns the location of inode `ino`: the block that holds it.
pub fn location(geo: &Geometry, ino: Ino) -> Location {
    let at = Location::of("inode").ino(ino);
    let Some((agno, agino)) = geo.ino_split(ino) else { return at };
    let agbno = geo.agino_to_agb(agino);
    at.ag(agno).agb(agbno).daddr(geo.agb_to_daddr(agno, agbno), geo.block_sectors())
}

impl<'a> Dinode<'a> {
    /// Parses the first `inodesize` bytes of `bytes` without verifying them; `None` if there are
    /// fewer.
    pub fn parse(bytes: &'a [u8], geo: &Geometry) -> Option<Self> {
        Self::from_core(bytes.get(..geo.inodesize())?, Layout::of(geo))
    }

    /// Parses `bytes`, which are one inode and nothing else; `None` if they are too few.
    pub fn from_core(bytes: &'a [u8], layout: &Layout) -> Option<Self> {
        let literal = bytes.get(layout.inode_core..)?;
        let v3 = match layout.inode_core {
            V3_LEN => Some(CoreV3::ref_from_prefix(bytes).ok()?.0),
            _ => None,
        };
        let core = match v3 {
            Some(v3) => &v3.core,
            None => Core::ref_from_prefix(bytes).ok()?.0,
        };
        Some(Self { core, v3, literal })
    }

    // ---- identity ----------------------------------------------------------------------------

    /// Returns POSIX type and permissions; 0 if the inode is free.
    pub fn mode(&self) -> u16 {
        self.core.mode.get()
    }
    /// Returns true if the inode is free.
    pub fn is_free(&self) -> bool {
        self.mode() == 0
    }
    /// Returns the type of the file; `None` if the inode is free.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode())
    }
    /// Returns true for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }
    /// Returns true for a regular file.
    pub fn is_regular(&self) -> bool {
        self.file_type() == Some(FileType::Regular)
    }
    /// Returns the owner.
    pub fn uid(&self) -> u32 {
        self.core.uid.get()
    }
    /// Returns the group.
    pub fn gid(&self) -> u32 {
        self.core.gid.get()
    }
    /// Returns the number of links.
    pub fn nlink(&self) -> u32 {
        if self.core.version == 1 { self.core.onlink.get().into() } else { self.core.nlinkv2.get() }
    }
    /// Returns the project id; 0 on version 1, which has none.
    pub fn projid(&self) -> u32 {
        if self.core.version == 1 {
            return 0;
        }
        (u32::from(self.core.projid_hi.get()) << 16) | u32::from(self.core.projid_lo.get())
    }
    /// Returns what a metadata file holds; 0 for other files.
    pub fn metatype(&self) -> u16 {
        let is_metadata = self.flags2().contains(InodeFlags2::METADATA);
        if is_metadata { self.core.onlink.get() } else { 0 }
    }
    /// Returns the generation, which changes whenever the inode is reused.
    pub fn generation(&self) -> u32 {
        self.core.generation.get()
    }
    /// Returns the next inode of its unlinked list.
    pub fn next_unlinked(&self) -> Option<AgIno> {
        let next = self.core.next_unlinked.get();
        (next != NULLAGINO).then_some(AgIno(next))
    }
    /// Returns the [`InodeFlags`].
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.core.flags.get())
    }
    /// Returns [`InodeFlags2`]; 0 before version 3.
    pub fn flags2(&self) -> InodeFlags2 {
        InodeFlags2::from_bits_retain(self.v3.map_or(0, |v3| v3.flags2.get()))
    }
    /// Returns true if the data fork's extents lie on the realtime device.
    pub fn is_realtime(&self) -> bool {
        self.flags().contains(InodeFlags::REALTIME)
    }
    /// Returns true if some block may be shared with another file.
    pub fn is_reflink(&self) -> bool {
        self.flags2().contains(InodeFlags2::REFLINK)
    }
    /// Returns true if times are in bigtime.
    pub fn has_bigtime(&self) -> bool {
        self.flags2().contains(InodeFlags2::BIGTIME)
    }
    /// Returns true if the extent counters are the large ones.
    pub fn has_nrext64(&self) -> bool {
        self.flags2().contains(InodeFlags2::NREXT64)
    }
    /// Returns the change counter; `None` before version 3.
    pub fn change_count(&self) -> Option<u64> {
        self.v3.map(|v3| v3.change_count.get())
    }
    /// Returns the LSN of the last write; [`Lsn::NONE`] before version 3.
    pub fn lsn(&self) -> Lsn {
        self.v3.map_or(Lsn::NONE, |v3| Lsn(v3.lsn.get()))
    }
    /// Returns the major and minor number of a device.
    pub fn rdev(&self) -> Option<(u32, u32)> {
        let raw = bytes::be32(self.literal, 0)?;
        matches!(self.file_type()?, FileType::CharDevice | FileType::BlockDevice)
            .then_some((raw >> 18, raw & 0x3_ffff))
    }

    // ---- times -------------------------------------------------------------------------------

    fn time(&self, raw: U64) -> Timestamp {
        if self.has_bigtime() {
            Timestamp::from_bigtime(raw.get())
        } else {
            Timestamp::from_legacy(raw.get())
        }
    }
    /// Returns the time of the last access.
    pub fn atime(&self) -> Timestamp {
        self.time(self.core.atime)
    }
    /// Returns the time of the last change of content.
    pub fn mtime(&self) -> Timestamp {
        self.time(self.core.mtime)
    }
    /// Returns the time of the last change of the inode.
    pub fn ctime(&self) -> Timestamp {
        self.time(self.core.ctime)
    }
    /// Returns the time of birth; `None` before version 3.
    pub fn crtime(&self) -> Option<Timestamp> {
        self.v3.map(|v3| self.time(v3.crtime))
    }

    // ---- sizes -------------------------------------------------------------------------------

    /// Returns the size of the content, in bytes.
    pub fn size(&self) -> ByteLen {
        ByteLen(self.core.size.get())
    }
    /// Returns the filesystem blocks of both forks with their btrees.
    pub fn nblocks(&self) -> FilBlks {
        FilBlks(self.core.nblocks.get())
    }
    /// Returns the number of extents of the data fork.
    pub fn nextents(&self) -> u64 {
        if self.has_nrext64() {
            self.core.big_nextents.get()
        } else {
            self.core.nextents.get().into()
        }
    }
    /// Returns the number of extents of the attribute fork.
    pub fn anextents(&self) -> u32 {
        if self.has_nrext64() { self.core.nextents.get() } else { self.core.naextents.get().into() }
    }
    /// Returns the extent size hint, in filesystem blocks.
    pub fn extsize(&self) -> ExtLen {
        ExtLen(self.core.extsize.get())
    }
    /// Returns the copy-on-write extent size hint, in filesystem blocks.
    pub fn cowextsize(&self) -> ExtLen {
        ExtLen(self.v3.map_or(0, |v3| v3.cowextsize.get()))
    }

    // ---- forks -------------------------------------------------------------------------------

    /// Returns the bytes after the core.
    pub fn literal(&self) -> &'a [u8] {
        self.literal
    }
    /// Returns the start of the attribute fork, in 8-byte units into the literal area; 0 for none.
    pub fn forkoff(&self) -> u8 {
        self.core.forkoff
    }
    /// Returns the start of the attribute fork, in bytes into the literal area, at most at its end.
    fn boundary(&self) -> usize {
        match self.core.forkoff {
            0 => self.literal.len(),
            n => usize::from(n).saturating_mul(8).min(self.literal.len()),
        }
    }
    /// Returns the format of the data fork; `None` if it is unknown.
    pub fn format(&self) -> Option<Format> {
        Format::from_disk(self.core.format)
    }
    /// Returns the format of the attribute fork; `None` if it is unknown.
    pub fn aformat(&self) -> Option<Format> {
        Format::from_disk(self.core.aformat)
    }
    /// Returns the data fork's part of the inode.
    pub fn data_fork(&self) -> &'a [u8] {
        self.literal.get(..self.boundary()).unwrap_or(&[])
    }
    /// Returns the attribute fork's part of the inode, where there is one.
    pub fn attr_fork(&self) -> Option<&'a [u8]> {
        if self.core.forkoff == 0 { None } else { self.literal.get(self.boundary()..) }
    }
    /// Returns one fork's part of the inode.
    pub fn fork(&self, fork: Fork) -> Option<&'a [u8]> {
        match fork {
            Fork::Data => Some(self.data_fork()),
            Fork::Attr => self.attr_fork(),
        }
    }
    /// Returns one fork's format.
    pub fn fork_format(&self, fork: Fork) -> Option<Format> {
        match fork {
            Fork::Data => self.format(),
            Fork::Attr => self.aformat(),
        }
    }
    /// Returns the number of one fork's extents, as the inode counts them.
    pub fn fork_nextents(&self, fork: Fork) -> u64 {
        match fork {
            Fork::Data => self.nextents(),
            Fork::Attr => self.anextents().into(),
        }
    }
}

#[cfg(test)]
mod tests;
