//! Inode: everything about a file but its name and content. `inodesize` bytes, 256 to 2048.
//!
//! ```text
//! 0          core             100 (v1, v2) or 176 (v3)        + 8 * forkoff    inodesize
//! | mode, owner, times, counts… | data fork                    | attribute fork |
//!                               '-------------- literal area -------------------'
//! ```
//!
//! A *fork* is what hangs off an inode: the data fork holds content (of a file, a directory, a
//! symlink), the attribute fork extended attributes. Each says by its [`Format`] whether its part
//! of the literal area holds the content itself, extent records, or the root of a btree of them.
//!
//! Version 3 belongs to version 5 of the volume: it adds CRC, own number, UUID, LSN, birth time and
//! more flags. Versions 1 and 2 may stand side by side on one version 4 volume; 1 differs in where
//! link count and project id are. Two flags of version 3 change the meaning of earlier fields:
//! BIGTIME of the times, NREXT64 of the extent counters.
//!
//! A [`Dinode`] hides all that. [`Dinode::parse`] looks without judging, [`Dinode::verify`] judges,
//! free inodes too: they keep core, CRC and identity, with `mode` 0. Nothing here allocates, for
//! walks over whole volumes verify every inode they meet.

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

pub use kind::{FileType, Format, S_IFMT, flags, flags2};
pub use make::{InodeMut, is_whole, stamp, stamp_bare, stamp_lsn, template, template_unstamped};

/// "IN".
pub const MAGIC: u16 = 0x494e;
/// Byte of the CRC field of version 3.
pub const CRC_OFFSET: usize = 100;
/// "Not on an unlinked list."
pub const NULLAGINO: u32 = u32::MAX;

/// The core as far as all versions have it, as it stands on disk.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Core {
    /// [`MAGIC`].
    pub magic: U16,
    /// POSIX type and permissions; 0 where the inode is free.
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
    /// Where the attribute fork begins: 8-byte units into the literal area; 0 for no such fork.
    pub forkoff: u8,
    /// [`Format`] of the attribute fork.
    pub aformat: u8,
    /// Of DMAPI, long gone.
    pub dmevmask: U32,
    /// Of DMAPI.
    pub dmstate: U16,
    /// [`flags`].
    pub flags: U16,
    /// Generation: changes whenever the inode is used anew. (`gen` to `xfs_db`; a Rust keyword.)
    pub generation: U32,
    /// Next inode of the unlinked list (agino), or [`NULLAGINO`].
    pub next_unlinked: U32,
}

/// The core of version 3.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CoreV3 {
    /// What all versions have.
    pub core: Core,
    /// CRC32c of the whole inode, little-endian.
    pub crc: [u8; 4],
    /// Counts changes.
    pub change_count: U64,
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// [`flags2`].
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

/// One inode, of whatever version, seen in its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Dinode<'a> {
    /// The core's older part.
    pub core: &'a Core,
    /// All of it, on version 3.
    pub v3: Option<&'a CoreV3>,
    literal: &'a [u8],
}

/// Where inode `ino` lies: the block that holds it.
pub fn location(geo: &Geometry, ino: Ino) -> Location {
    let at = Location::of("core").ino(ino);
    let Some((agno, agino)) = geo.ino_split(ino) else { return at };
    let agbno = geo.agino_to_agb(agino);
    at.ag(agno).agb(agbno).daddr(geo.agb_to_daddr(agno, agbno), geo.block_sectors())
}

impl<'a> Dinode<'a> {
    /// Looks at the first `inodesize` bytes of `bytes` without judging them; `None` where there
    /// are fewer.
    pub fn parse(bytes: &'a [u8], geo: &Geometry) -> Option<Self> {
        Self::over(bytes.get(..geo.inodesize())?, Layout::of(geo))
    }

    /// Looks at `bytes`, which are one inode and nothing else; `None` where they are too few.
    pub fn over(bytes: &'a [u8], layout: &Layout) -> Option<Self> {
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

    // ---- what it is --------------------------------------------------------------------------

    /// POSIX type and permissions; 0 where the inode is free.
    pub fn mode(&self) -> u16 {
        self.core.mode.get()
    }
    /// True where nobody uses the inode.
    pub fn is_free(&self) -> bool {
        self.mode() == 0
    }
    /// What the file is; `None` where the inode is free.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode())
    }
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }
    /// True for a regular file.
    pub fn is_regular(&self) -> bool {
        self.file_type() == Some(FileType::Regular)
    }
    /// Owner.
    pub fn uid(&self) -> u32 {
        self.core.uid.get()
    }
    /// Group.
    pub fn gid(&self) -> u32 {
        self.core.gid.get()
    }
    /// Links to it.
    pub fn nlink(&self) -> u32 {
        if self.core.version == 1 { self.core.onlink.get().into() } else { self.core.nlinkv2.get() }
    }
    /// Project id; version 1 has none, which is 0.
    pub fn projid(&self) -> u32 {
        if self.core.version == 1 {
            return 0;
        }
        (u32::from(self.core.projid_hi.get()) << 16) | u32::from(self.core.projid_lo.get())
    }
    /// Generation: changes whenever the inode is used anew.
    pub fn generation(&self) -> u32 {
        self.core.generation.get()
    }
    /// Next inode of the unlinked list it stands on.
    pub fn next_unlinked(&self) -> Option<AgIno> {
        let next = self.core.next_unlinked.get();
        (next != NULLAGINO).then_some(AgIno(next))
    }
    /// [`flags`].
    pub fn flags(&self) -> u16 {
        self.core.flags.get()
    }
    /// [`flags2`]; none before version 3.
    pub fn flags2(&self) -> u64 {
        self.v3.map_or(0, |v3| v3.flags2.get())
    }
    /// True where the data fork's extents lie on the realtime device.
    pub fn is_realtime(&self) -> bool {
        self.flags() & flags::REALTIME != 0
    }
    /// True where some block may be shared with another file.
    pub fn is_reflink(&self) -> bool {
        self.flags2() & flags2::REFLINK != 0
    }
    /// True where times are in bigtime.
    pub fn has_bigtime(&self) -> bool {
        self.flags2() & flags2::BIGTIME != 0
    }
    /// True where the extent counters are the large ones.
    pub fn has_nrext64(&self) -> bool {
        self.flags2() & flags2::NREXT64 != 0
    }
    /// Number of the changes so far; before version 3 nobody counted.
    pub fn change_count(&self) -> Option<u64> {
        self.v3.map(|v3| v3.change_count.get())
    }
    /// LSN of the last write; [`Lsn::NONE`] before version 3.
    pub fn lsn(&self) -> Lsn {
        self.v3.map_or(Lsn::NONE, |v3| Lsn(v3.lsn.get()))
    }
    /// Major and minor number of a device.
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
    /// Last access.
    pub fn atime(&self) -> Timestamp {
        self.time(self.core.atime)
    }
    /// Last change of content.
    pub fn mtime(&self) -> Timestamp {
        self.time(self.core.mtime)
    }
    /// Last change of the inode.
    pub fn ctime(&self) -> Timestamp {
        self.time(self.core.ctime)
    }
    /// Birth; unknown before version 3.
    pub fn crtime(&self) -> Option<Timestamp> {
        self.v3.map(|v3| self.time(v3.crtime))
    }

    // ---- sizes -------------------------------------------------------------------------------

    /// Bytes of content.
    pub fn size(&self) -> ByteLen {
        ByteLen(self.core.size.get())
    }
    /// Filesystem blocks of both forks with their btrees.
    pub fn nblocks(&self) -> FilBlks {
        FilBlks(self.core.nblocks.get())
    }
    /// Extents of the data fork.
    pub fn nextents(&self) -> u64 {
        if self.has_nrext64() {
            self.core.big_nextents.get()
        } else {
            self.core.nextents.get().into()
        }
    }
    /// Extents of the attribute fork.
    pub fn anextents(&self) -> u32 {
        if self.has_nrext64() { self.core.nextents.get() } else { self.core.naextents.get().into() }
    }
    /// Extent size hint, in filesystem blocks.
    pub fn extsize(&self) -> ExtLen {
        ExtLen(self.core.extsize.get())
    }
    /// Copy-on-write extent size hint, in filesystem blocks.
    pub fn cowextsize(&self) -> ExtLen {
        ExtLen(self.v3.map_or(0, |v3| v3.cowextsize.get()))
    }

    // ---- forks -------------------------------------------------------------------------------

    /// Everything behind the core.
    pub fn literal(&self) -> &'a [u8] {
        self.literal
    }
    /// Where the attribute fork begins, in 8-byte units into the literal area; 0 for none.
    pub fn forkoff(&self) -> u8 {
        self.core.forkoff
    }
    /// Where the attribute fork begins, in bytes into the literal area, at most at its end.
    fn boundary(&self) -> usize {
        match self.core.forkoff {
            0 => self.literal.len(),
            n => usize::from(n).saturating_mul(8).min(self.literal.len()),
        }
    }
    /// Format of the data fork; `None` where no such format exists.
    pub fn format(&self) -> Option<Format> {
        Format::from_disk(self.core.format)
    }
    /// Format of the attribute fork; `None` where no such format exists.
    pub fn aformat(&self) -> Option<Format> {
        Format::from_disk(self.core.aformat)
    }
    /// The data fork's part of the inode.
    pub fn data_fork(&self) -> &'a [u8] {
        self.literal.get(..self.boundary()).unwrap_or(&[])
    }
    /// The attribute fork's part of the inode, where there is one.
    pub fn attr_fork(&self) -> Option<&'a [u8]> {
        if self.core.forkoff == 0 { None } else { self.literal.get(self.boundary()..) }
    }
    /// One fork's part of the inode.
    pub fn fork(&self, fork: Fork) -> Option<&'a [u8]> {
        match fork {
            Fork::Data => Some(self.data_fork()),
            Fork::Attr => self.attr_fork(),
        }
    }
    /// One fork's format.
    pub fn fork_format(&self, fork: Fork) -> Option<Format> {
        match fork {
            Fork::Data => self.format(),
            Fork::Attr => self.aformat(),
        }
    }
    /// One fork's extents, as the inode counts them.
    pub fn fork_nextents(&self, fork: Fork) -> u64 {
        match fork {
            Fork::Data => self.nextents(),
            Fork::Attr => self.anextents().into(),
        }
    }
}

#[cfg(test)]
mod tests;
