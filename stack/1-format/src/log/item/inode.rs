//! INODE: the core of an inode, and each changed fork as a whole.
//!
//! The core has the same offsets in the journal as on disk, but every number is in the writer's
//! byte order: [`LogDinode::to_disk`] converts them. Three of its fields have no meaning here:
//! `next_unlinked`, which is logged in buffer items; `crc` and `lsn`, which are stamped when the
//! inode is written.

use xfskit_units::{Daddr, Ino, Sectors};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::exactly;
use crate::bytes;
use crate::corruption::{Expected, Fork, VerifyResult};
use crate::ctx::Ctx;
use crate::layout::Layout;

/// `fields`: the core; always set.
pub const CORE: u32 = 0x001;
/// `fields`: the data fork's bytes (short form).
pub const DDATA: u32 = 0x002;
/// `fields`: the data fork's extents.
pub const DEXT: u32 = 0x004;
/// `fields`: the data fork's btree root.
pub const DBROOT: u32 = 0x008;
/// `fields`: the device number.
pub const DEV: u32 = 0x010;
/// `fields`: the attribute fork's bytes (short form).
pub const ADATA: u32 = 0x040;
/// `fields`: the attribute fork's extents.
pub const AEXT: u32 = 0x080;
/// `fields`: the attribute fork's btree root.
pub const ABROOT: u32 = 0x100;
/// `fields`: every block of the data fork's btree changes its owner to this inode.
pub const DOWNER: u32 = 0x200;
/// `fields`: likewise in the attribute fork.
pub const AOWNER: u32 = 0x400;

/// `fields` that come with a data-fork region.
const DATA_FORK: u32 = DDATA | DEXT | DBROOT;
/// `fields` that come with an attribute-fork region.
const ATTR_FORK: u32 = ADATA | AEXT | ABROOT;

/// "IN".
pub const MAGIC: u16 = 0x494e;
/// `flags2`: timestamps are one 64-bit number.
const FLAGS2_BIGTIME: u64 = 1 << 3;

/// The first region, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InodeFormat {
    /// [`kind::INODE`](super::kind::INODE).
    pub r#type: U16,
    /// Regions of the item.
    pub size: U16,
    /// [`CORE`], [`DDATA`], ….
    pub fields: U32,
    /// Bytes of the attribute fork.
    pub asize: U16,
    /// Bytes of the data fork.
    pub dsize: U16,
    /// Zero.
    pub pad: U32,
    /// Inode number.
    pub ino: U64,
    /// With [`DEV`]: the device number.
    pub rdev: U32,
    /// Zero.
    pub rdev_pad: [u8; 12],
    /// Address of the inode cluster.
    pub blkno: U64,
    /// Length of the cluster in 512-byte units.
    pub len: U32,
    /// Byte of the inode in the cluster.
    pub boffset: U32,
}
const _: () = assert!(size_of::<InodeFormat>() == 56);
const _: () = assert!(std::mem::offset_of!(InodeFormat, blkno) == 40);
/// Bytes of the first region of old 32-bit kernels, which lacks `pad`.
const FORMAT_PACKED: usize = 52;
const PAD_OFFSET: usize = std::mem::offset_of!(InodeFormat, pad);

impl InodeFormat {
    /// Decodes the first region in either of its forms.
    fn decode(region: &[u8], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        if region.len() != FORMAT_PACKED {
            return Ok(exactly::<Self>(region, "log.inode.format", ctx)?.clone());
        }
        let (before, behind) = region.split_at(PAD_OFFSET);
        let mut whole = Vec::with_capacity(size_of::<Self>());
        whole.extend_from_slice(before);
        whole.extend_from_slice(&[0; 4]);
        whole.extend_from_slice(behind);
        Ok(exactly::<Self>(&whole, "log.inode.format", ctx)?.clone())
    }

    /// Returns the length of the logged data fork, in bytes.
    fn data_len(&self) -> usize {
        if self.fields.get() & DATA_FORK != 0 { self.dsize.get().into() } else { 0 }
    }

    /// Returns the length of the logged attribute fork, in bytes.
    fn attr_len(&self) -> usize {
        if self.fields.get() & ATTR_FORK != 0 { self.asize.get().into() } else { 0 }
    }

    /// Returns the address and length of the cluster.
    pub fn cluster(&self) -> (Daddr, Sectors) {
        (Daddr(self.blkno.get()), Sectors(self.len.get().into()))
    }
}

/// An inode core, little-endian. Version 1 and 2 inodes end after `gen`.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LogDinode {
    /// [`MAGIC`].
    pub magic: U16,
    /// Type and permissions.
    pub mode: U16,
    /// 1, 2 or 3.
    pub version: u8,
    /// Format of the data fork.
    pub format: u8,
    /// Version 1: link count. Version 3 with METADIR: type of metadata.
    pub metatype: U16,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Links.
    pub nlink: U32,
    /// Project, low half.
    pub projid_lo: U16,
    /// Project, high half.
    pub projid_hi: U16,
    /// NREXT64: extents of the data fork. Else 6 bytes of zero and `flushiter`.
    pub big_nextents: U64,
    /// Access time, in the encoding that `flags2` selects.
    pub atime: U64,
    /// Modification time.
    pub mtime: U64,
    /// Change time.
    pub ctime: U64,
    /// Bytes.
    pub size: U64,
    /// Blocks, with those of btrees.
    pub nblocks: U64,
    /// Extent size hint, in blocks.
    pub extsize: U32,
    /// Extents of the data fork; with NREXT64 those of the attribute fork.
    pub nextents: U32,
    /// Extents of the attribute fork; with NREXT64 zero.
    pub anextents: U16,
    /// Where the attribute fork begins, in units of 8 bytes; 0 for none.
    pub forkoff: u8,
    /// Format of the attribute fork.
    pub aformat: u8,
    /// Zero.
    pub dmevmask: U32,
    /// Zero.
    pub dmstate: U16,
    /// Flags.
    pub flags: U16,
    /// Generation.
    pub r#gen: U32,
    /// Without meaning here.
    pub next_unlinked: U32,
    /// Without meaning here.
    pub crc: U32,
    /// Changes counted.
    pub changecount: U64,
    /// Without meaning here.
    pub lsn: U64,
    /// More flags.
    pub flags2: U64,
    /// CoW extent size hint, in blocks.
    pub cowextsize: U32,
    /// Zero.
    pub pad2: [u8; 12],
    /// Birth time.
    pub crtime: U64,
    /// This inode.
    pub ino: U64,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
}
/// Bytes of a version 3 core.
pub const CORE_LEN: usize = size_of::<LogDinode>();
const _: () = assert!(CORE_LEN == Layout::V5.log_inode_core);
/// Byte of `next_unlinked`, in the core as on disk.
pub const NEXT_UNLINKED_OFFSET: usize = std::mem::offset_of!(LogDinode, next_unlinked);
const _: () = assert!(NEXT_UNLINKED_OFFSET == Layout::V4.log_inode_core);

/// Offsets of the numbers of 2, 4 and 8 bytes, timestamps apart, that all versions have.
const NUMBERS: Numbers = Numbers {
    two: &[0, 2, 6, 20, 22, 80, 88, 90],
    four: &[8, 12, 16, 72, 76, 84, 92],
    eight: &[56, 64],
};
/// Versions 1 and 2: `flushiter`.
const NUMBERS_V2: Numbers = Numbers { two: &[30], four: &[], eight: &[] };
/// Version 3 only.
const NUMBERS_V3: Numbers =
    Numbers { two: &[], four: &[96, 100, 128], eight: &[24, 104, 112, 120, 152] };
/// `atime`, `mtime`, `ctime`; on version 3 also `crtime`.
const TIMES: Numbers = Numbers { two: &[], four: &[], eight: &[32, 40, 48] };
/// The timestamps of inodes whose timestamps are two numbers.
const TIMES_LEGACY: Numbers = Numbers { two: &[], four: &[32, 36, 40, 44, 48, 52], eight: &[] };
const CRTIME: usize = 144;
const FLAGS2_OFFSET: usize = std::mem::offset_of!(LogDinode, flags2);

impl LogDinode {
    /// Returns version 4's flush counter, which shares its bytes with `big_nextents`.
    pub fn flushiter(&self) -> u16 {
        u16::try_from(self.big_nextents.get() >> 48).unwrap_or(0)
    }

    /// Converts the core to its form on disk: big-endian.
    pub fn to_disk(&self) -> [u8; CORE_LEN] {
        let mut core = [0; CORE_LEN];
        core.copy_from_slice(self.as_bytes());
        turn(&mut core, self.version, self.flags2.get());
        core
    }

    /// Converts the core `disk` of a version 3 inode to its form in the journal; `None` if it is
    /// truncated.
    pub fn from_disk(disk: &[u8]) -> Option<Self> {
        let mut core: [u8; CORE_LEN] = *disk.first_chunk()?;
        let flags2 = bytes::be64(&core, FLAGS2_OFFSET)?;
        turn(&mut core, 3, flags2);
        let mut core = Self::read_from_bytes(&core).ok()?;
        core.next_unlinked = u32::MAX.into();
        core.crc = 0.into();
        core.lsn = 0.into();
        Some(core)
    }
}

/// Converts the numbers of a core from one byte order to the other.
fn turn(core: &mut [u8; CORE_LEN], version: u8, flags2: u64) {
    NUMBERS.turn(core);
    if version < 3 {
        NUMBERS_V2.turn(core);
        return TIMES_LEGACY.turn(core);
    }
    NUMBERS_V3.turn(core);
    if flags2 & FLAGS2_BIGTIME != 0 {
        TIMES.turn(core);
        swap::<8>(core, CRTIME);
    } else {
        TIMES_LEGACY.turn(core);
        swap::<4>(core, CRTIME);
        swap::<4>(core, CRTIME.saturating_add(4));
    }
}

/// Numbers of a core by width, at offsets known at compile time, because every inode in the journal
/// is converted.
struct Numbers {
    two: &'static [usize],
    four: &'static [usize],
    eight: &'static [usize],
}

impl Numbers {
    #[inline]
    fn turn(&self, core: &mut [u8; CORE_LEN]) {
        self.two.iter().for_each(|&at| swap::<2>(core, at));
        self.four.iter().for_each(|&at| swap::<4>(core, at));
        self.eight.iter().for_each(|&at| swap::<8>(core, at));
    }
}

/// Reverses the `N` bytes at `at`.
#[inline]
fn swap<const N: usize>(core: &mut [u8; CORE_LEN], at: usize) {
    if let Some(number) = core.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>) {
        number.reverse();
    }
}

/// An inode item.
#[derive(Clone, Debug)]
pub struct Inode<'a> {
    /// The first region.
    pub format: InodeFormat,
    /// The core, padded with zeroes after the bytes of the item.
    pub core: LogDinode,
    /// Bytes of the core that the item holds: 96 on version 4, 176 on version 5.
    pub core_len: usize,
    /// The data fork, if it changed.
    pub data: Option<&'a [u8]>,
    /// The attribute fork, if it changed.
    pub attr: Option<&'a [u8]>,
}

impl<'a> Inode<'a> {
    pub(super) fn decode(regions: &'a [&'a [u8]], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        let mut regions_left = regions.iter().copied();
        let format = InodeFormat::decode(regions_left.next().unwrap_or_default(), ctx)?;
        let ctx = &ctx.at(ctx.at.ino(Ino(format.ino.get())));
        let core_region = regions_left.next().unwrap_or_default();
        let core = decode_core(core_region, ctx)?;
        let fields = format.fields.get();
        ctx.require("log.inode.fields", fields & CORE != 0, "the core", fields)?;
        for fork in [DATA_FORK, ATTR_FORK] {
            let forms = (fields & fork).count_ones();
            ctx.at_most("log.inode.fields", 1, forms)?;
        }
        let mut fork = |mask| (fields & mask != 0).then(|| regions_left.next()).flatten();
        let (data, attr) = (fork(DATA_FORK), fork(ATTR_FORK));
        let forks = usize::from(fields & DATA_FORK != 0)
            .saturating_add(usize::from(fields & ATTR_FORK != 0));
        ctx.eq("log.inode.size", forks.saturating_add(2), regions.len())?;
        ctx.at_most("log.inode.dsize", data.map_or(0, <[u8]>::len), format.data_len())?;
        ctx.at_most("log.inode.asize", attr.map_or(0, <[u8]>::len), format.attr_len())?;
        Ok(Self { format, core, core_len: core_region.len(), data, attr })
    }

    /// Returns the inode number.
    pub fn ino(&self) -> Ino {
        Ino(self.format.ino.get())
    }

    /// Returns the logged bytes of `fork`, without padding, if it changed.
    pub fn fork(&self, fork: Fork) -> Option<&'a [u8]> {
        match fork {
            Fork::Data => self.data?.get(..self.format.data_len()),
            Fork::Attr => self.attr?.get(..self.format.attr_len()),
        }
    }
}

/// Decodes a core region: 176 bytes on version 5, 96 on version 4; `next_unlinked` or more may
/// follow.
fn decode_core(region: &[u8], ctx: &Ctx<'_>) -> VerifyResult<LogDinode> {
    let least = Layout::of(ctx.geo).log_inode_core;
    ctx.within("log.inode.core", least..=CORE_LEN, region.len())?;
    let mut core = LogDinode::new_zeroed();
    if let Some(known) = core.as_mut_bytes().get_mut(..region.len()) {
        known.copy_from_slice(region);
    }
    if core.magic.get() != MAGIC {
        let magic = Expected::Exactly(u64::from(MAGIC).into());
        return Err(ctx.corruption("log.inode.magic", magic, core.magic.get()));
    }
    let version = if ctx.geo.v5() { 3..=3 } else { 1..=2 };
    ctx.within("log.inode.version", version, core.version)?;
    Ok(core)
}
