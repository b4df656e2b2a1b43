//! Superblock: identity and geometry of the volume. Sector 0 of every allocation group, `sectsize`
//! bytes.
//!
//! Group 0's is the primary. The others are written only by mkfs, growfs and label changes, and
//! serve repair. Version 5 uses the first 248 bytes, up to 304 with features that need more, and
//! the rest of the sector must be zero. Version 4 ends at byte 208.
//!
//! Reading takes two steps, because the sector size is in the sector itself: [`Superblock::parse`]
//! takes at least 512 bytes and finds [`Superblock::sectsize`]; [`Superblock::verify`] then takes
//! the whole sector.

use xfskit_units::features::{Compat, Features2, Incompat, LogIncompat, RoCompat, VersionNum};
use xfskit_units::flags::FlagWord;
use xfskit_units::{
    AgNumber, Daddr, Features, FsBlock, Geometry, Ino, Lsn, RfsBlock, Sectors, Uuid, Version,
};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes;
use crate::corruption::{CheckId, Corruption, Expected, Location, Value, VerifyResult};
use crate::ctx::Ctx;
use crate::layout::Layout;

/// "XFSB".
pub const MAGIC: u32 = 0x5846_5342;

/// The superblock, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magicnum: U32,
    /// Filesystem block in bytes: 512 (version 4 only) to 65536.
    pub blocksize: U32,
    /// Data device in blocks.
    pub dblocks: U64,
    /// Realtime device in blocks.
    pub rblocks: U64,
    /// Realtime extents: `rblocks / rextsize`.
    pub rextents: U64,
    /// User-visible UUID.
    pub uuid: [u8; 16],
    /// First block of the internal log ([`FsBlock`]); 0 when the log is external.
    pub logstart: U64,
    /// Root directory.
    pub rootino: U64,
    /// Realtime bitmap inode.
    pub rbmino: U64,
    /// Realtime summary inode.
    pub rsumino: U64,
    /// Realtime extent in blocks.
    pub rextsize: U32,
    /// Allocation group in blocks.
    pub agblocks: U32,
    /// Allocation groups.
    pub agcount: U32,
    /// Blocks of the realtime bitmap.
    pub rbmblocks: U32,
    /// Log in blocks.
    pub logblocks: U32,
    /// Version in the low nibble, feature bits above.
    pub versionnum: U16,
    /// Sector in bytes.
    pub sectsize: U16,
    /// Inode in bytes.
    pub inodesize: U16,
    /// Inodes in a block.
    pub inopblock: U16,
    /// Label, padded with NUL.
    pub fname: [u8; 12],
    /// log2 of `blocksize`.
    pub blocklog: u8,
    /// log2 of `sectsize`.
    pub sectlog: u8,
    /// log2 of `inodesize`.
    pub inodelog: u8,
    /// log2 of `inopblock`.
    pub inopblog: u8,
    /// `ceil(log2(agblocks))`.
    pub agblklog: u8,
    /// log2 of `rextents`.
    pub rextslog: u8,
    /// 1 while mkfs is at work.
    pub inprogress: u8,
    /// Share of the volume that inodes may take, in percent; 0 for no limit.
    pub imax_pct: u8,
    /// Allocated inodes; exact after a clean unmount.
    pub icount: U64,
    /// Free inodes among them.
    pub ifree: U64,
    /// Free data blocks.
    pub fdblocks: U64,
    /// Free realtime extents.
    pub frextents: U64,
    /// User quota inode; 0 or all ones for none.
    pub uquotino: U64,
    /// Group quota inode.
    pub gquotino: U64,
    /// Quota state.
    pub qflags: U16,
    /// Must be 0.
    pub flags: u8,
    /// Must be 0.
    pub shared_vn: u8,
    /// Inode chunk alignment in blocks.
    pub inoalignmt: U32,
    /// Stripe unit in blocks.
    pub unit: U32,
    /// Stripe width in blocks.
    pub width: U32,
    /// log2 of blocks in a directory block.
    pub dirblklog: u8,
    /// log2 of `logsectsize`; 0 unless SECTOR is set.
    pub logsectlog: u8,
    /// The log's sector in bytes; 0 unless SECTOR is set.
    pub logsectsize: U16,
    /// Log stripe unit in bytes; 0 or 1 for none.
    pub logsunit: U32,
    /// More feature bits.
    pub features2: U32,
    /// A copy of `features2`.
    pub bad_features2: U32,
    /// Version 5: features that any reader may ignore.
    pub features_compat: U32,
    /// Version 5: features a writer must know.
    pub features_ro_compat: U32,
    /// Version 5: features every reader must know.
    pub features_incompat: U32,
    /// Version 5: what the journal may hold.
    pub features_log_incompat: U32,
    /// CRC32c of the sector, little-endian.
    pub crc: [u8; 4],
    /// Sparse inode alignment in blocks.
    pub spino_align: U32,
    /// Project quota inode.
    pub pquotino: U64,
    /// [`Lsn`] of the last write.
    pub lsn: U64,
    /// UUID of metadata blocks, where META_UUID is set.
    pub meta_uuid: [u8; 16],
    /// METADIR: root of the metadata directory tree.
    pub metadirino: U64,
    /// METADIR: realtime groups.
    pub rgcount: U32,
    /// METADIR: realtime extents in a group.
    pub rgextents: U32,
    /// METADIR: `ceil(log2(rgextents * rextsize))`.
    pub rgblklog: u8,
    /// Zero.
    pub pad: [u8; 7],
    /// ZONED: first block of an internal realtime section.
    pub rtstart: U64,
    /// ZONED: reserved blocks.
    pub rtreserved: U64,
}

/// Byte of the CRC field.
pub const CRC_OFFSET: usize = std::mem::offset_of!(Superblock, crc);
const _: () = assert!(size_of::<Superblock>() == 304 && CRC_OFFSET == 224);
const _: () = assert!(std::mem::offset_of!(Superblock, meta_uuid) == 248);

/// Decodes an inode number, for which the superblock stores "none" as 0 or all ones.
fn some_ino(ino: U64) -> Option<Ino> {
    (ino.get() != 0 && ino.get() != u64::MAX).then_some(Ino(ino.get()))
}

/// The reason why a superblock cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum SbError {
    /// Not an XFS volume.
    #[error(
        "not an XFS volume: the superblock's magic is {found:#010x}, expected 0x58465342 (XFSB)"
    )]
    NotXfs {
        /// The value found in place of the magic.
        found: u32,
    },
    /// A version that is no longer written.
    #[error("XFS version {0} is not supported (versions 4 and 5 are)")]
    Version(u16),
    /// A feature this reader does not know.
    #[error("unknown {word} feature bits {bits:#x}: this volume needs a newer reader")]
    UnknownFeature {
        /// "incompat", …
        word: &'static str,
        /// The unknown bits.
        bits: u32,
    },
    /// A feature that this reader knows by name and does not support.
    #[error("the feature {0} is not supported")]
    Unsupported(&'static str),
    /// A field is wrong.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
}

impl SbError {
    /// Returns the error as a failed check. If there is a sound copy, a superblock that requires a
    /// newer reader is as bad as one with a wrong checksum.
    pub fn corruption(&self) -> Box<Corruption> {
        let (check, expected, found) = match self {
            Self::Corrupt(fault) => return fault.clone(),
            Self::NotXfs { found } => (
                "sb.magicnum",
                Expected::Exactly(Value::Hex(MAGIC.into())),
                Value::Hex((*found).into()),
            ),
            Self::Version(version) => {
                ("sb.versionnum", Expected::Described("version 4 or 5".into()), (*version).into())
            }
            Self::UnknownFeature { .. } | Self::Unsupported(_) => (
                "sb.refused",
                Expected::Described("a superblock that can be read".into()),
                self.to_string().into(),
            ),
        };
        let at = Location::of("superblock").ag(AgNumber(0)).daddr(Daddr(0), Sectors(1));
        Box::new(Corruption { check: CheckId::new(check), at, expected, found })
    }
}

impl Superblock {
    /// Parses the superblock at the start of `sector`, which holds at least 304 bytes, without
    /// verifying it.
    pub fn parse(sector: &[u8]) -> Option<&Self> {
        Self::ref_from_prefix(sector).ok().map(|(sb, _)| sb)
    }

    /// Returns the major version: the low nibble of `versionnum`.
    pub fn version(&self) -> u16 {
        self.versionnum.get() & 0xf
    }

    /// Returns the label, without its padding. Any bytes.
    pub fn label(&self) -> &[u8] {
        let end = self.fname.iter().position(|&b| b == 0).unwrap_or(self.fname.len());
        self.fname.get(..end).unwrap_or(&[])
    }

    /// Returns the LSN of the last change of this superblock.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn.get())
    }

    /// Returns the feature words. Version 4's two copies of `features2` are merged, and ignored
    /// where MOREBITS is clear, as Linux does.
    pub fn features(&self) -> Features {
        let v5 = self.version() == 5;
        let word = |w: U32| if v5 { w.get() } else { 0 };
        let versionnum = VersionNum::from_bits_retain(self.versionnum.get() & !0xf);
        let more = versionnum.contains(VersionNum::MOREBITS);
        let features2 = if more { self.features2.get() | self.bad_features2.get() } else { 0 };
        Features {
            version: if v5 { Version::V5 } else { Version::V4 },
            versionnum,
            features2: Features2::from_bits_retain(features2),
            compat: Compat::from_bits_retain(word(self.features_compat)),
            ro_compat: RoCompat::from_bits_retain(word(self.features_ro_compat)),
            incompat: Incompat::from_bits_retain(word(self.features_incompat)),
            log_incompat: LogIncompat::from_bits_retain(word(self.features_log_incompat)),
        }
    }

    /// Refuses volumes that cannot be read: another magic, another version, an unknown incompat
    /// bit. Unknown ro-compat bits only forbid writing; see [`Self::unknown_ro_compat`].
    ///
    /// # Errors
    /// [`SbError`], with the bit's number.
    pub fn check_readable(&self) -> Result<(), SbError> {
        if self.magicnum.get() != MAGIC {
            return Err(SbError::NotXfs { found: self.magicnum.get() });
        }
        if !matches!(self.version(), 4 | 5) {
            return Err(SbError::Version(self.version()));
        }
        let features = self.features();
        let bits = features.incompat.undefined().bits();
        if bits != 0 {
            return Err(SbError::UnknownFeature { word: "incompat", bits });
        }
        if features.version == Version::V4 {
            let bits = features.features2.undefined().bits();
            if bits != 0 {
                return Err(SbError::UnknownFeature { word: "features2", bits });
            }
            if features.features2.contains(Features2::OLD_PARENT) {
                return Err(SbError::Unsupported("old parent pointers"));
            }
            if !features.versionnum.contains(VersionNum::DIRV2) {
                return Err(SbError::Unsupported("directory version 1"));
            }
        }
        if features.versionnum.contains(VersionNum::SHARED) {
            return Err(SbError::Unsupported("shared volumes (SHARED)"));
        }
        Ok(())
    }

    /// Returns the unknown ro-compat bits. With any of them a volume may only be read.
    pub fn unknown_ro_compat(&self) -> RoCompat {
        self.features().ro_compat.undefined()
    }

    /// Returns the unknown log-incompat bits. With any of them a dirty log cannot be replayed.
    pub fn unknown_log_incompat(&self) -> LogIncompat {
        self.features().log_incompat.undefined()
    }

    /// Returns the geometry that the fields describe. Meaningful after [`Self::verify`].
    pub fn geometry(&self) -> Geometry {
        let features = self.features();
        let uuid = Uuid::from_bytes(self.uuid);
        let metadir = features.metadir();
        Geometry {
            features,
            blocklog: self.blocklog,
            sectlog: self.sectlog,
            inodelog: self.inodelog,
            inopblog: self.inopblog,
            agblklog: self.agblklog,
            dirblklog: self.dirblklog,
            dblocks: RfsBlock(self.dblocks.get()),
            rblocks: RfsBlock(self.rblocks.get()),
            rextents: self.rextents.get(),
            rextsize: self.rextsize.get(),
            rgblocks: if metadir && self.rgcount.get() > 0 {
                u64::from(self.rgextents.get()).saturating_mul(self.rextsize.get().into())
            } else {
                0
            },
            rgblklog: if metadir { self.rgblklog.min(63) } else { 0 },
            rtstart: RfsBlock(if features.zoned() { self.rtstart.get() } else { 0 }),
            agcount: self.agcount.get(),
            agblocks: self.agblocks.get(),
            logstart: (self.logstart.get() != 0).then_some(FsBlock(self.logstart.get())),
            logblocks: self.logblocks.get(),
            logsectlog: if features.sector() { self.logsectlog.max(9) } else { 9 },
            logsunit: self.logsunit.get(),
            inoalignmt: if features.align() { self.inoalignmt.get() } else { 0 },
            spino_align: if features.crc() { self.spino_align.get() } else { 0 },
            imax_pct: self.imax_pct,
            unit: self.unit.get(),
            width: self.width.get(),
            rootino: Ino(self.rootino.get()),
            rbmino: some_ino(self.rbmino).filter(|_| !metadir),
            rsumino: some_ino(self.rsumino).filter(|_| !metadir),
            metadirino: some_ino(self.metadirino).filter(|_| metadir),
            uuid,
            meta_uuid: if features.meta_uuid() { Uuid::from_bytes(self.meta_uuid) } else { uuid },
        }
    }

    /// Returns the length in bytes that this feature set uses of the sector; the rest must be zero.
    pub fn used_len(&self) -> usize {
        let features = self.features();
        match features.version {
            Version::V4 => Layout::V4.sb_len,
            Version::V5 if features.zoned() => 304,
            Version::V5 if features.metadir() => 288,
            Version::V5 if features.meta_uuid() => 264,
            Version::V5 => Layout::V5.sb_len,
        }
    }

    /// Verifies the superblock of group `agno` in `sector`, which is `sectsize` long.
    ///
    /// # Errors
    /// The first check that fails, in the order: CRC, sizes, counts, log, optional features.
    pub fn verify(sector: &[u8], agno: AgNumber) -> Result<&Self, SbError> {
        let at = Location::of("superblock").ag(agno);
        let Some(sb) = Self::parse(sector) else {
            return Err(SbError::NotXfs { found: bytes::be32(sector, 0).unwrap_or(0) });
        };
        sb.check_readable()?;
        if sb.version() == 5 && !xfskit_crc::verify(sector, CRC_OFFSET) {
            let expected = xfskit_crc::expected(sector, CRC_OFFSET).unwrap_or(0);
            let found = xfskit_crc::stored(sector, CRC_OFFSET).unwrap_or(0);
            return Err(SbError::Corrupt(Box::new(Corruption {
                check: CheckId::new("sb.crc"),
                at,
                expected: Expected::Exactly(Value::Hex(expected.into())),
                found: Value::Hex(found.into()),
            })));
        }
        // The checks below use no part of the geometry before they have verified it.
        let geo = sb.geometry();
        let ctx = Ctx::new(&geo, at);
        sb.verify_sizes(&ctx)?;
        sb.verify_counts(&ctx)?;
        sb.verify_log(&ctx)?;
        sb.verify_optional(&ctx)?;
        let tail = sector.get(sb.used_len()..).unwrap_or(&[]);
        let stray = tail.iter().filter(|&&b| b != 0).count();
        ctx.eq("sb.tail", 0, stray)?;
        Ok(sb)
    }

    /// Verifies that the journal of the volume `before` may replace its superblock by this one: the
    /// sizes of structures, the place of the journal, the features and the identity are the same,
    /// and no group is gone. A volume may have grown or shrunk within its last group, and has other
    /// counters, labels and quota.
    ///
    /// # Errors
    /// The first of these fields that differs.
    pub fn verify_successor(&self, before: &Self) -> VerifyResult {
        let (old, new) = (before.geometry(), self.geometry());
        let at = Location::of("superblock in the log").ag(AgNumber(0));
        let ctx = Ctx::new(&old, at);
        ctx.eq("sb.versionnum", before.version(), self.version())?;
        ctx.eq("sb.blocklog", old.blocklog, new.blocklog)?;
        ctx.eq("sb.sectlog", old.sectlog, new.sectlog)?;
        ctx.eq("sb.inodelog", old.inodelog, new.inodelog)?;
        ctx.eq("sb.dirblklog", old.dirblklog, new.dirblklog)?;
        ctx.eq("sb.agblocks", old.agblocks, new.agblocks)?;
        ctx.at_least("sb.agcount", old.agcount, new.agcount)?;
        ctx.eq("sb.logstart", before.logstart.get(), self.logstart.get())?;
        ctx.eq("sb.logblocks", old.logblocks, new.logblocks)?;
        ctx.eq("sb.logsectlog", old.logsectlog, new.logsectlog)?;
        ctx.eq("sb.logsunit", old.logsunit, new.logsunit)?;
        ctx.eq("sb.inoalignmt", old.inoalignmt, new.inoalignmt)?;
        ctx.eq("sb.spino_align", old.spino_align, new.spino_align)?;
        ctx.eq("sb.rootino", old.rootino, new.rootino)?;
        ctx.eq("sb.metadirino", before.metadirino.get(), self.metadirino.get())?;
        ctx.eq("sb.uuid", old.uuid.to_string(), new.uuid.to_string())?;
        ctx.eq("sb.uuid", old.meta_uuid.to_string(), new.meta_uuid.to_string())?;
        let (old, new) = (&old.features, &new.features);
        ctx.eq_hex("sb.features_incompat", old.incompat.bits(), new.incompat.bits())?;
        ctx.eq_hex("sb.features_ro_compat", old.ro_compat.bits(), new.ro_compat.bits())
    }

    fn verify_sizes(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let v5 = self.version() == 5;
        ctx.within("sb.blocklog", if v5 { 10 } else { 9 }..=16, self.blocklog)?;
        ctx.within("sb.sectlog", 9..=15, self.sectlog)?;
        ctx.within("sb.inodelog", 8..=11, self.inodelog)?;
        ctx.eq("sb.blocksize", power(self.blocklog), self.blocksize.get())?;
        ctx.eq("sb.sectsize", power(self.sectlog), self.sectsize.get().into())?;
        ctx.at_most("sb.sectsize", self.blocksize.get(), self.sectsize.get().into())?;
        ctx.eq("sb.inodesize", power(self.inodelog), self.inodesize.get().into())?;
        let inopblog = self.blocklog.saturating_sub(self.inodelog);
        ctx.eq("sb.inopblog", inopblog, self.inopblog)?;
        ctx.at_least("sb.inopblock", 2, self.inopblock.get())?;
        ctx.eq("sb.inopblock", power(inopblog), self.inopblock.get().into())?;
        let dirblk = u16::from(self.blocklog).saturating_add(self.dirblklog.into());
        ctx.at_most("sb.dirblklog", 16, dirblk)?;
        let sector = ctx.geo.features.sector();
        if sector {
            ctx.within("sb.logsectlog", 9..=15, self.logsectlog)?;
            ctx.eq("sb.logsectsize", power(self.logsectlog), self.logsectsize.get().into())?;
        } else {
            ctx.eq("sb.sectsize", 512, self.sectsize.get())?;
            ctx.eq("sb.logsectlog", 0, self.logsectlog)?;
            ctx.eq("sb.logsectsize", 0, self.logsectsize.get())?;
        }
        Ok(())
    }

    fn verify_counts(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let agblocks = u64::from(self.agblocks.get());
        let ag_bytes = agblocks.saturating_mul(self.blocksize.get().into());
        // Version 4 volumes of old had groups below 16 MiB; 64 blocks is what the format needs.
        let min_ag = if self.version() == 5 { 16 << 20 } else { 64 << self.blocklog };
        ctx.within("sb.agblocks", min_ag..=1 << 40, ag_bytes)?;
        let agblklog =
            agblocks.saturating_sub(1).checked_ilog2().map_or(0, |n| n.saturating_add(1));
        ctx.eq("sb.agblklog", agblklog, self.agblklog.into())?;
        ctx.at_most(
            "sb.agblklog",
            32,
            u16::from(self.agblklog).saturating_add(self.inopblog.into()),
        )?;
        let dblocks = self.dblocks.get();
        ctx.at_most("sb.dblocks", 1 << 52, dblocks)?;
        ctx.at_least("sb.agcount", 1, self.agcount.get())?;
        ctx.eq("sb.agcount", dblocks.div_ceil(agblocks), self.agcount.get().into())?;
        let before = agblocks.saturating_mul(u64::from(self.agcount.get()).saturating_sub(1));
        ctx.at_least("sb.dblocks", before.saturating_add(64), dblocks)?;
        ctx.at_most("sb.imax_pct", 100, self.imax_pct)?;
        ctx.eq("sb.flags", 0, self.flags)?;
        if ctx.at.agno == Some(AgNumber(0)) {
            ctx.eq("sb.shared_vn", 0, self.shared_vn)?;
            ctx.eq("sb.inprogress", 0, self.inprogress)?;
            let root = Ino(self.rootino.get());
            ctx.require("sb.rootino", ctx.geo.valid_ino(root), "a valid inode number", root)?;
        }
        Ok(())
    }

    fn verify_log(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let blocks = self.logblocks.get();
        let log_bytes = u64::from(blocks).saturating_mul(self.blocksize.get().into());
        ctx.within("sb.logblocks", 1..=1 << 20, blocks)?;
        ctx.at_most("sb.logblocks", 0x7f60_0000, log_bytes)?;
        if let Some(start) = ctx.geo.logstart {
            ctx.require(
                "sb.logstart",
                ctx.geo.valid_fsb_extent(start, blocks.into()),
                "a block from which the whole log fits into its group",
                start,
            )?;
        }
        let sunit = self.logsunit.get();
        if sunit > 1 {
            let whole = sunit.checked_rem(self.blocksize.get()) == Some(0);
            ctx.require("sb.logsunit", whole, "a multiple of the block size", sunit)?;
            ctx.at_most("sb.logsunit", 256 * 1024, sunit)?;
        }
        Ok(())
    }

    fn verify_optional(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let dalign = self.features().versionnum.contains(VersionNum::DALIGN);
        ctx.eq("sb.unit", dalign, self.unit.get() != 0)?;
        let whole = self.width.get().checked_rem(self.unit.get()).unwrap_or(self.width.get());
        ctx.eq("sb.width", 0, whole)?;
        ctx.eq("sb.width", self.unit.get() != 0, self.width.get() != 0)?;
        if self.rblocks.get() == 0 {
            ctx.eq("sb.rextents", 0, self.rextents.get())?;
            ctx.eq("sb.rbmblocks", 0, self.rbmblocks.get())?;
            ctx.eq("sb.rextslog", 0, self.rextslog)?;
        } else {
            let blocksize = u64::from(self.blocksize.get());
            let rext_bytes = u64::from(self.rextsize.get()).saturating_mul(blocksize);
            let least = if ctx.geo.features.zoned() { blocksize } else { 4096 };
            ctx.within("sb.rextsize", least..=1 << 30, rext_bytes)?;
        }
        if ctx.geo.features.sparse() {
            let chunk = power(self.inodelog).saturating_mul(64) >> self.blocklog;
            ctx.eq("sb.inoalignmt", chunk, self.inoalignmt.get())?;
        } else if self.version() == 5 {
            ctx.eq("sb.spino_align", 0, self.spino_align.get())?;
        }
        Ok(())
    }
}

/// Returns 2 to the power `log`, or 0 if that does not fit.
fn power(log: u8) -> u32 {
    1u32.checked_shl(log.into()).unwrap_or(0)
}

/// Returns the location of the superblock of group `agno`.
pub fn location(geo: &Geometry, agno: AgNumber) -> Location {
    Location::of("superblock").ag(agno).daddr(geo.ag_header_daddr(agno, 0), geo.sect_sectors())
}

/// Address of the primary superblock, and the least that must be read to find its sector size.
pub const PRIMARY: (Daddr, Sectors) = (Daddr(0), Sectors(1));

#[cfg(test)]
mod tests;
