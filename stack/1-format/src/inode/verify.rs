//! The verifier of an inode, by the rules under which Linux accepts one.

use xfskit_units::{Geometry, Ino};

use super::{CRC_OFFSET, Dinode, FileType, Format, InodeFlags, InodeFlags2, MAGIC};
use crate::bmbt;
use crate::corruption::{Expected, Fork, Value, VerifyResult};
use crate::ctx::Ctx;

/// Directories end at 96 GiB: three spaces of 32 GiB each.
const DIR_MAX_BYTES: u64 = 96 << 30;
/// Longest extent size hint, in filesystem blocks.
const MAX_EXTSIZE: u32 = (1 << 21) - 1;
/// Largest type of a file of the metadata directory tree.
const MAX_METATYPE: u16 = 8;
/// Flags that all files of the metadata directory tree have.
const METADATA_FLAGS: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NODEFRAG);

impl<'a> Dinode<'a> {
    /// Verifies the first `inodesize` bytes of `bytes` as inode `ino`, in use or free.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &'a [u8], ctx: &Ctx<'_>, ino: Ino) -> VerifyResult<Self> {
        let Some(inode) = Self::parse(bytes, ctx.geo) else {
            return Err(ctx.short("inode.magic", bytes.len()));
        };
        ctx.crc("inode.crc", bytes.get(..ctx.geo.inodesize()).unwrap_or(bytes), CRC_OFFSET)?;
        inode.verify_identity(ctx, ino)?;
        let kind = inode.file_type();
        if kind.is_none() && !inode.is_free() {
            let expected = Expected::Described("the type of a file".into());
            return Err(ctx.corruption("inode.mode", expected, Value::Hex(inode.mode().into())));
        }
        inode.verify_links(ctx, ino)?;
        inode.verify_size(ctx, kind)?;
        inode.verify_counters(ctx, kind)?;
        inode.verify_format(ctx, kind)?;
        inode.verify_forkoff(ctx, kind)?;
        inode.verify_data_fork(ctx, kind)?;
        inode.verify_attr_fork(ctx)?;
        inode.verify_extsize(ctx, kind)?;
        if !inode.flags2().is_empty() || inode.cowextsize().0 != 0 {
            inode.verify_flags2(ctx, kind)?;
        }
        Ok(inode)
    }

    /// Checks that this is the inode that belongs here.
    fn verify_identity(&self, ctx: &Ctx<'_>, ino: Ino) -> VerifyResult {
        ctx.eq_hex("inode.magic", MAGIC, self.core.magic.get())?;
        match self.v3 {
            None => ctx.within("inode.version", 1..=2, self.core.version),
            Some(v3) => {
                ctx.eq("inode.version", 3, self.core.version)?;
                ctx.eq("inode.inumber", ino.0, v3.inumber.get())?;
                ctx.uuid("inode.uuid", v3.uuid)
            }
        }
    }

    /// Checks that the old link count is 0 (metadata files keep their type there), and that the
    /// unlinked list continues within the group.
    fn verify_links(&self, ctx: &Ctx<'_>, ino: Ino) -> VerifyResult {
        // Version 1 has its link count there.
        if self.v3.is_some() || (self.core.version > 1 && !self.is_free()) {
            let onlink = self.core.onlink.get();
            if self.flags2().contains(InodeFlags2::METADATA) {
                ctx.at_most("inode.metatype", MAX_METATYPE, onlink)?;
            } else {
                ctx.eq("inode.onlink", 0, onlink)?;
            }
        }
        let Some(next) = self.next_unlinked() else { return Ok(()) };
        let exists =
            ctx.geo.ino_split(ino).is_some_and(|(agno, _)| ctx.geo.valid_agino(agno, next));
        ctx.require("inode.next_unlinked", exists, "an inode of the group, or none", next)
    }

    /// Checks that directories and symlinks with links have content.
    fn verify_size(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        let size = self.size().0;
        ctx.at_most("inode.size", i64::MAX.unsigned_abs(), size)?;
        let never_empty = matches!(kind, Some(FileType::Directory | FileType::Symlink));
        let ok = size != 0 || !never_empty || self.nlink() == 0;
        ctx.require("inode.size.zero", ok, "a length, for it has links", size)
    }

    fn verify_counters(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        if self.has_nrext64() {
            let known = ctx.geo.features.nrext64();
            ctx.require("inode.flags2.nrext64", known, "a volume with nrext64", true)?;
            ctx.eq("inode.nrext64_pad", 0, self.core.naextents.get())?;
        } else if self.v3.is_some() {
            ctx.eq("inode.v3_pad", 0, self.core.big_nextents.get())?;
        }
        if self.is_free() {
            return Ok(());
        }
        let extents = self.nextents().saturating_add(self.anextents().into());
        ctx.at_least("inode.nblocks", extents, self.nblocks().0)?;
        if extents == 0 && self.format() != Some(Format::MetaBtree) {
            let nblocks = self.nblocks().0;
            let wanted = "0, for it has no extents";
            ctx.require("inode.nblocks.none", nblocks == 0, wanted, nblocks)?;
        }
        if kind == Some(FileType::Directory) {
            let most = DIR_MAX_BYTES >> ctx.geo.blocklog;
            ctx.at_most("inode.nextents.dir", most, self.nextents())?;
        }
        Ok(())
    }

    /// Checks that special files have 8 bytes for a device number, and other files some space in
    /// both forks.
    fn verify_forkoff(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        let most = match kind {
            Some(kind) if kind.is_special() => 1,
            _ => (self.literal.len() / 8).saturating_sub(1),
        };
        ctx.at_most("inode.forkoff", most, self.core.forkoff.into())
    }

    /// Files of each type have formats of their own.
    fn verify_format(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        let Some(kind) = kind else { return Ok(()) };
        let format = self.format();
        let allowed = match kind {
            FileType::Directory | FileType::Symlink => {
                matches!(format, Some(Format::Local | Format::Extents | Format::Btree))
            }
            FileType::Regular => match format {
                Some(Format::Extents | Format::Btree) => true,
                Some(Format::MetaBtree) => self.flags2().contains(InodeFlags2::METADATA),
                _ => false,
            },
            _ => format == Some(Format::Dev),
        };
        let wanted = "a format that files of this type can have";
        ctx.require("inode.format", allowed, wanted, self.core.format)
    }

    fn verify_data_fork(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        let Some(kind) = kind else { return Ok(()) };
        let format = self.format();
        let (room, size) = (self.data_fork().len(), self.size().0);
        let capacity = bmbt::inline_records(room) as u64;
        match format {
            Some(Format::Local) => {
                ctx.at_most("inode.size.local", room as u64, size)?;
                ctx.eq("inode.nextents.local", 0, self.nextents())?;
            }
            Some(Format::Extents) => {
                ctx.at_most("inode.nextents", capacity, self.nextents())?;
            }
            Some(Format::Btree) => {
                let least = capacity.saturating_add(1);
                let result = ctx.at_least("inode.nextents.btree", least, self.nextents());
                self.verify_root(ctx, Fork::Data, result)?;
            }
            _ => {}
        }
        if kind == FileType::Directory && format != Some(Format::Local) && size != 0 {
            ctx.at_least("inode.size.dir", (room as u64).saturating_add(1), size)?;
        }
        Ok(())
    }

    /// Returns `result`, which compares the number of extents of a fork in btree format. If it
    /// failed and the fork holds no root of a btree, the format is wrong, and not the number.
    fn verify_root(&self, ctx: &Ctx<'_>, fork: Fork, result: VerifyResult) -> VerifyResult {
        let room = self.fork(fork).unwrap_or(&[]);
        if result.is_ok() || bmbt::BmdrRoot::verify(room, ctx, fork).is_ok() {
            return result;
        }
        let wanted = "2: so few extents fit the inode, and it holds no btree";
        match fork {
            Fork::Data => ctx.require("inode.format", false, wanted, self.core.format),
            Fork::Attr => ctx.require("inode.aformat", false, wanted, self.core.aformat),
        }
    }

    fn verify_attr_fork(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let (format, extents) = (self.aformat(), self.anextents());
        let Some(fork) = self.attr_fork() else {
            let unset = match format {
                Some(Format::Extents) => true,
                Some(Format::Dev) => self.is_free(),
                _ => false,
            };
            ctx.require(
                "inode.aformat.nofork",
                unset,
                "2 without a fork, or 0 in a free inode",
                self.core.aformat,
            )?;
            return ctx.eq("inode.naextents.nofork", 0, extents);
        };
        let capacity = u32::try_from(bmbt::inline_records(fork.len())).unwrap_or(u32::MAX);
        match format {
            Some(Format::Local) => ctx.eq("inode.naextents.local", 0, extents),
            Some(Format::Extents) => ctx.at_most("inode.naextents", capacity, extents),
            Some(Format::Btree) => {
                let least = capacity.saturating_add(1);
                let result = ctx.at_least("inode.naextents.btree", least, extents);
                self.verify_root(ctx, Fork::Attr, result)
            }
            _ => Err(ctx.corruption(
                "inode.aformat",
                Expected::Described("1, 2 or 3".into()),
                self.core.aformat,
            )),
        }
    }

    /// Checks the hint and the flags that activate it. A free inode may keep an old one.
    fn verify_extsize(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        let (flags, extsize) = (self.flags(), self.extsize().0);
        if flags.contains(InodeFlags::REALTIME) {
            let present = ctx.geo.rblocks.0 != 0;
            ctx.require("inode.flags.realtime", present, "a realtime device", flags.bits())?;
        }
        let own = flags.contains(InodeFlags::EXTSIZE);
        let inherited = flags.contains(InodeFlags::EXTSZINHERIT);
        let file = !own || kind == Some(FileType::Regular);
        ctx.require("inode.flags.extsz", file, "a regular file", flags.bits())?;
        let dir = !inherited || kind == Some(FileType::Directory);
        ctx.require("inode.flags.extszinherit", dir, "a directory", flags.bits())?;
        if own || inherited {
            ctx.at_least("inode.extsize", 1, extsize)?;
        } else if !self.is_free() {
            ctx.eq("inode.extsize.unused", 0, extsize)?;
        }
        let realtime = flags.intersects(InodeFlags::REALTIME | InodeFlags::RTINHERIT);
        if realtime && ctx.geo.rextsize > 1 {
            let whole = extsize.checked_rem(ctx.geo.rextsize) == Some(0);
            ctx.require("inode.extsize.rt", whole, "whole realtime extents", extsize)?;
        }
        ctx.at_most("inode.extsize.max", longest_hint(ctx.geo, realtime), extsize)
    }

    fn verify_flags2(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        let (geo, flags2) = (ctx.geo, self.flags2());
        if flags2.contains(InodeFlags2::BIGTIME) {
            let known = geo.features.bigtime();
            ctx.require("inode.flags2.bigtime", known, "a volume with bigtime", true)?;
        }
        let realtime = self.is_realtime();
        if flags2.contains(InodeFlags2::REFLINK) {
            let can = geo.features.reflink()
                && kind == Some(FileType::Regular)
                && (!realtime || geo.features.metadir());
            ctx.require("inode.flags2.reflink", can, "a regular file that can share", true)?;
        }
        if flags2.contains(InodeFlags2::METADATA) {
            // Zoned volumes store another number in `cowextsize`.
            return self.verify_metadata(ctx, kind);
        }
        self.verify_cowextsize(ctx, kind, realtime)
    }

    fn verify_cowextsize(
        &self,
        ctx: &Ctx<'_>,
        kind: Option<FileType>,
        realtime: bool,
    ) -> VerifyResult {
        let cowextsize = self.cowextsize().0;
        if self.flags2().contains(InodeFlags2::COWEXTSIZE) {
            let can = ctx.geo.features.reflink()
                && matches!(kind, Some(FileType::Regular | FileType::Directory))
                && (!realtime || ctx.geo.features.metadir());
            ctx.require("inode.flags2.cowextsz", can, "a file or directory that can share", true)?;
            ctx.at_least("inode.cowextsize", 1, cowextsize)?;
        } else if !self.is_free() {
            ctx.eq("inode.cowextsize.unused", 0, cowextsize)?;
        }
        ctx.at_most("inode.cowextsize.max", longest_hint(ctx.geo, realtime), cowextsize)
    }

    fn verify_metadata(&self, ctx: &Ctx<'_>, kind: Option<FileType>) -> VerifyResult {
        let known = ctx.geo.features.metadir();
        ctx.require("inode.flags2.metadata", known, "a volume with metadir", true)?;
        let kind_fits = matches!(kind, Some(FileType::Directory | FileType::Regular));
        let mode = self.mode();
        let closed = kind_fits && kind.is_some_and(|kind| mode == kind.mode());
        ctx.require("inode.metadata.mode", closed, "file or directory, no permissions", mode)?;
        ctx.eq("inode.metadata.uid", 0, self.uid())?;
        ctx.eq("inode.metadata.gid", 0, self.gid())?;
        ctx.eq("inode.metadata.dmevmask", 0, self.core.dmevmask.get())?;
        ctx.eq("inode.metadata.dmstate", 0, self.core.dmstate.get())?;
        let mut due = METADATA_FLAGS;
        if kind == Some(FileType::Directory) {
            due |= InodeFlags::NOSYMLINKS;
        }
        ctx.eq_hex("inode.metadata.flags", due.bits(), (self.flags() & due).bits())?;
        let dax = self.flags2().contains(InodeFlags2::DAX);
        ctx.require("inode.metadata.dax", !dax, "no dax", dax)
    }
}

/// Returns the longest extent size hint; on the data device also at most half a group.
fn longest_hint(geo: &Geometry, realtime: bool) -> u32 {
    if realtime { MAX_EXTSIZE } else { MAX_EXTSIZE.min(geo.agblocks / 2) }
}

impl bmbt::ExtentRules {
    /// Returns the rules for one fork of `inode`.
    pub fn of(inode: &Dinode<'_>, fork: Fork) -> Self {
        let data = fork == Fork::Data;
        Self { realtime: data && inode.is_realtime(), unwritten: data && inode.is_regular() }
    }
}
