//! The fields of an inode's core, made right by what the rest of the inode shows.
//!
//! The verifier names the first field that is wrong. It is set to the only value that it can have,
//! or to what the forks show, and the inode is verified again, until it is sound or a field comes
//! up that was set already.

use std::collections::BTreeSet;

use xfskit_format::attr::sf as attr_sf;
use xfskit_format::bmbt::{self, BmdrRoot};
use xfskit_format::dir::sf as dir_sf;
use xfskit_format::inode::{
    self, CoreV3, Dinode, FileType, Format, InodeFlags, InodeFlags2, InodeMut, NULLAGINO,
};
use xfskit_format::{Ctx, Fork};
use xfskit_units::Ino;
use xfskit_units::flags::FlagWord;
use zerocopy::FromBytes;

/// Stands in the list of changes for attributes that were there, and are not any more.
pub(crate) const ATTRIBUTES_DROPPED: &str = "attributes";

/// Returns the loss of all attributes of inode `ino`, in words.
pub(crate) fn loss_of_attributes(ino: Ino) -> String {
    format!("the attributes of inode {ino}")
}

/// Stands in the list of changes for the type in the mode, when it is that of the entries.
pub(crate) const TYPE_OF_ENTRIES: &str = "type";

/// The permissions of an inode whose mode is lost.
const PERMISSIONS: u16 = 0o600;

/// Makes the core of inode `ino` right. `kind`: its type as the entries that name it have it, where
/// the inode by itself is beyond use.
/// Returns the checks that led to a change; `None` if the inode is beyond use.
pub(crate) fn mend(
    bytes: &mut [u8],
    ctx: &Ctx<'_>,
    ino: Ino,
    kind: Option<FileType>,
) -> Option<Vec<&'static str>> {
    let mut changed = Vec::new();
    let mut tried = BTreeSet::new();
    if kind.is_some() && Dinode::parse(bytes, ctx.geo)?.is_free() {
        // A mode of 0 makes an inode look free.
        set_field(bytes, ctx, "inode.mode", kind);
        inode::stamp(bytes);
        changed.push("inode.mode");
    }
    if let Some(kind) = kind
        && set_type(bytes, ctx, kind)
    {
        changed.push(TYPE_OF_ENTRIES);
    }
    loop {
        let wrong = match Dinode::verify(bytes, ctx, ino) {
            Ok(_) => break,
            Err(corruption) => corruption.check.0,
        };
        let old = bytes.to_vec();
        if !tried.insert(wrong) || !set(bytes, ctx, ino, wrong, kind) {
            return None;
        }
        let fork = Dinode::parse(&old, ctx.geo).and_then(|inode| inode.attr_fork());
        let held = fork.is_some_and(|fork| fork.iter().any(|byte| *byte != 0));
        let dropped = Dinode::parse(bytes, ctx.geo).is_some_and(|inode| inode.forkoff() == 0);
        if held && dropped {
            changed.push(ATTRIBUTES_DROPPED);
        }
        inode::stamp(bytes);
        changed.push(wrong);
    }
    changed.extend(tidy(bytes, ctx));
    Dinode::verify(bytes, ctx, ino).ok()?;
    Some(changed)
}

/// Sets the type in the mode, and leaves the permissions. Returns false if it is that already, or
/// none.
fn set_type(bytes: &mut [u8], ctx: &Ctx<'_>, kind: FileType) -> bool {
    let now = Dinode::parse(bytes, ctx.geo).and_then(|inode| inode.file_type());
    let Some(inode) = InodeMut::new(bytes).filter(|_| now.is_some_and(|now| now != kind)) else {
        return false;
    };
    let mode = &mut inode.core.core.mode;
    *mode = ((mode.get() & !S_IFMT) | kind.mode()).into();
    inode::stamp(bytes);
    true
}

/// Bits of the mode that hold the type.
const S_IFMT: u16 = 0o170_000;

/// Sets the field that failed check `wrong`. Returns false if nothing shows its value.
fn set(bytes: &mut [u8], ctx: &Ctx<'_>, ino: Ino, wrong: &str, kind: Option<FileType>) -> bool {
    match wrong {
        "inode.crc" => true, // stamped by the caller
        "inode.magic" | "inode.version" | "inode.inumber" | "inode.uuid" => {
            set_identity(bytes, ctx, ino)
        }
        _ if wrong.starts_with("inode.metadata.") => false,
        _ => set_field(bytes, ctx, wrong, kind),
    }
}

/// Sets magic, version, number and UUID, if two of magic, number and UUID are right: another inode,
/// or other bytes, would have none of them.
fn set_identity(bytes: &mut [u8], ctx: &Ctx<'_>, ino: Ino) -> bool {
    let Some(inode) = InodeMut::new(bytes) else { return false };
    let uuid = *ctx.geo.meta_uuid.as_bytes();
    let right = [
        inode.core.core.magic.get() == inode::MAGIC,
        inode.core.inumber.get() == ino.0,
        inode.core.uuid == uuid,
    ];
    if right.iter().filter(|right| **right).count() < 2 {
        return false;
    }
    inode.core.core.magic = inode::MAGIC.into();
    inode.core.core.version = 3;
    inode.core.inumber = ino.0.into();
    inode.core.uuid = uuid;
    true
}

/// The facts of an inode that its forks show.
struct Shown {
    kind: Option<FileType>,
    /// Bytes of both forks.
    data: Vec<u8>,
    attr: Option<Vec<u8>>,
    large: bool,
}

fn shown(bytes: &[u8], ctx: &Ctx<'_>, kind: Option<FileType>) -> Option<Shown> {
    let inode = Dinode::parse(bytes, ctx.geo)?;
    Some(Shown {
        kind: inode.file_type().or(kind),
        data: inode.data_fork().to_vec(),
        attr: inode.attr_fork().map(<[u8]>::to_vec),
        large: inode.has_nrext64(),
    })
}

fn set_field(bytes: &mut [u8], ctx: &Ctx<'_>, wrong: &str, kind: Option<FileType>) -> bool {
    let Some(shown) = shown(bytes, ctx, kind) else { return false };
    let Some(inode) = InodeMut::new(bytes) else { return false };
    let v3 = inode.core;
    let core = &mut v3.core;
    match wrong {
        "inode.mode" => {
            let Some(kind) = kind else { return false };
            let search = if kind == FileType::Directory { 0o100 } else { 0 };
            core.mode = (kind.mode() | PERMISSIONS | search).into();
        }
        "inode.onlink" | "inode.metatype" => core.onlink = 0.into(),
        "inode.next_unlinked" => core.next_unlinked = NULLAGINO.into(),
        "inode.v3_pad" => core.big_nextents = 0.into(),
        "inode.flags2.nrext64" => {
            v3.flags2 = (v3.flags2.get() & !InodeFlags2::NREXT64.bits()).into();
        }
        "inode.size" | "inode.size.zero" | "inode.size.local" | "inode.size.dir" => {
            let Some(size) =
                size_of(&shown, ctx, core.format, count(core, shown.large, Fork::Data))
            else {
                return false;
            };
            core.size = size.into();
        }
        "inode.nblocks" | "inode.nblocks.none" => return set_counts(bytes, ctx),
        "inode.nextents"
        | "inode.nextents.local"
        | "inode.nextents.btree"
        | "inode.nextents.dir"
        | "inode.naextents"
        | "inode.naextents.local"
        | "inode.naextents.btree" => {
            return set_formats(bytes, ctx, &shown) | set_counts(bytes, ctx);
        }
        "inode.format" => return set_formats(bytes, ctx, &shown) && set_counts(bytes, ctx),
        "inode.aformat" => {
            let attr = shown.attr.as_deref().unwrap_or(&[]);
            match attr_format(attr, ctx) {
                Some(format) => core.aformat = format as u8,
                None => drop_attributes(core, shown.large),
            }
            return set_counts(bytes, ctx);
        }
        "inode.aformat.nofork" => core.aformat = Format::Extents as u8,
        "inode.naextents.nofork" if shown.large => core.nextents = 0.into(),
        "inode.naextents.nofork" | "inode.nrext64_pad" => core.naextents = 0.into(),
        "inode.forkoff" => {
            match found_forkoff(v3, inode.literal, ctx, shown.kind) {
                Some(forkoff) => v3.core.forkoff = forkoff,
                None => drop_attributes(&mut v3.core, shown.large),
            }
            return set_counts(bytes, ctx);
        }
        _ => return set_flags(v3, wrong),
    }
    true
}

/// Takes flags away that the inode cannot have, with what they mean.
fn set_flags(v3: &mut CoreV3, wrong: &str) -> bool {
    let core = &mut v3.core;
    let keep = |word: u16, drop: InodeFlags| word & !drop.bits();
    match wrong {
        "inode.flags.realtime" => {
            core.flags = keep(core.flags.get(), InodeFlags::REALTIME).into();
        }
        "inode.flags.extsz"
        | "inode.flags.extszinherit"
        | "inode.extsize"
        | "inode.extsize.unused"
        | "inode.extsize.rt"
        | "inode.extsize.max" => {
            let hints = InodeFlags::EXTSIZE | InodeFlags::EXTSZINHERIT;
            core.flags = keep(core.flags.get(), hints).into();
            core.extsize = 0.into();
        }
        "inode.flags2.bigtime" => {
            v3.flags2 = (v3.flags2.get() & !InodeFlags2::BIGTIME.bits()).into();
        }
        "inode.flags2.reflink" => {
            v3.flags2 = (v3.flags2.get() & !InodeFlags2::REFLINK.bits()).into();
        }
        "inode.flags2.metadata" => {
            v3.flags2 = (v3.flags2.get() & !InodeFlags2::METADATA.bits()).into();
        }
        "inode.flags2.cowextsz"
        | "inode.cowextsize"
        | "inode.cowextsize.unused"
        | "inode.cowextsize.max" => {
            v3.flags2 = (v3.flags2.get() & !InodeFlags2::COWEXTSIZE.bits()).into();
            v3.cowextsize = 0.into();
        }
        _ => return false,
    }
    true
}

/// Returns the size that the data fork shows: that of content in the inode, or the end of the map
/// of a directory. The last block of a file does not show its length.
fn size_of(shown: &Shown, ctx: &Ctx<'_>, format: u8, extents: u64) -> Option<u64> {
    match (Format::from_disk(format)?, shown.kind?) {
        (Format::Dev, _) => Some(0),
        (Format::Local, FileType::Directory) => directory_len(&shown.data, ctx),
        (Format::Local, FileType::Symlink) => {
            let end = shown.data.iter().position(|byte| *byte == 0);
            Some(end.unwrap_or(shown.data.len()) as u64).filter(|len| *len > 0)
        }
        (_, kind) => {
            let count = usize::try_from(extents).ok()?;
            let records = bmbt::records(&shown.data, count).iter().map(bmbt::Rec::decode);
            let dir = kind == FileType::Directory;
            let limit = u64::from(ctx.geo.dir_leafblk().0);
            let end = records.map(|rec| rec.end().0).filter(|end| !dir || *end <= limit).max()?;
            end.checked_mul(ctx.geo.blocksize() as u64)
        }
    }
}

/// Returns the length of a directory in short form that is at the start of `fork`.
fn directory_len(fork: &[u8], ctx: &Ctx<'_>) -> Option<u64> {
    let least = dir_sf::empty(Ino(1)).len();
    let sound = |len: &usize| dir_sf::Sf::verify(&fork[..*len], ctx).is_ok();
    (least..=fork.len()).find(sound).map(|len| len as u64)
}

/// Returns the number of extents that the core counts for a fork.
fn count(core: &inode::Core, large: bool, fork: Fork) -> u64 {
    match (fork, large) {
        (Fork::Data, true) => core.big_nextents.get(),
        (Fork::Data, false) | (Fork::Attr, true) => core.nextents.get().into(),
        (Fork::Attr, false) => core.naextents.get().into(),
    }
}

/// Returns the format of the data that an attribute fork holds; `None` if it holds none.
fn attr_format(fork: &[u8], ctx: &Ctx<'_>) -> Option<Format> {
    if attr_sf::Sf::verify(fork, ctx).is_ok_and(|list| list.count > 0) {
        return Some(Format::Local);
    }
    if BmdrRoot::verify(fork, ctx, Fork::Attr).is_ok() {
        return Some(Format::Btree);
    }
    (valid_records(fork, ctx, Fork::Attr) > 0).then_some(Format::Extents)
}

/// Sets the format of the data fork as its content shows.
fn set_formats(bytes: &mut [u8], ctx: &Ctx<'_>, shown: &Shown) -> bool {
    let Some(kind) = shown.kind else { return false };
    let data = &shown.data;
    let local = match kind {
        FileType::Directory => directory_len(data, ctx),
        FileType::Symlink if valid_records(data, ctx, Fork::Data) == 0 => {
            let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
            Some(end as u64).filter(|len| *len > 0)
        }
        _ => None,
    };
    let format = if kind.is_special() {
        Format::Dev
    } else if local.is_some() {
        Format::Local
    } else if BmdrRoot::verify(data, ctx, Fork::Data).is_ok() {
        Format::Btree
    } else {
        Format::Extents
    };
    let Some(inode) = InodeMut::new(bytes) else { return false };
    let old = std::mem::replace(&mut inode.core.core.format, format as u8);
    if let Some(len) = local {
        inode.core.core.size = len.into();
    }
    old != format as u8
}

/// Returns the number of records at the start of a fork that are possible and ascend.
fn valid_records(fork: &[u8], ctx: &Ctx<'_>, which: Fork) -> u64 {
    let rules = bmbt::ExtentRules { realtime: false, unwritten: which == Fork::Data };
    let mut end = xfskit_units::FileOff(0);
    let records = bmbt::records(fork, bmbt::inline_records(fork.len())).iter();
    let valid = records.map(bmbt::Rec::decode).take_while(|extent| {
        let valid = extent.verify(ctx, rules).and_then(|()| extent.follows(ctx, end)).is_ok();
        end = extent.end();
        valid
    });
    valid.count() as u64
}

/// Sets the counters of extents and blocks that the inode alone shows: those of maps in the inode.
/// Those of btrees are set when the map has been read.
fn set_counts(bytes: &mut [u8], ctx: &Ctx<'_>) -> bool {
    let Some(inode) = Dinode::parse(bytes, ctx.geo) else { return false };
    let mut blocks = 0u64;
    let mut counts = [0u64; 2];
    for (fork, count) in [Fork::Data, Fork::Attr].into_iter().zip(&mut counts) {
        let Some(room) = inode.fork(fork) else { continue };
        match inode.fork_format(fork) {
            Some(Format::Extents) => {
                *count = valid_records(room, ctx, fork);
                let records = bmbt::records(room, usize::try_from(*count).unwrap_or(0));
                let lens = records.iter().map(|rec| rec.decode().blockcount.0);
                blocks = lens.fold(blocks, u64::saturating_add);
            }
            Some(Format::Btree) => {
                // At least one more than fit; the map itself tells how many.
                let least = bmbt::inline_records(room.len()) as u64 + 1;
                *count = inode.fork_nextents(fork).max(least);
                blocks = blocks.saturating_add(*count).max(inode.nblocks().0);
            }
            _ => {}
        }
    }
    set_counters(bytes, counts, blocks)
}

/// Writes the size, in bytes, if it is known. The caller stamps the inode.
pub(crate) fn set_size(bytes: &mut [u8], size: Option<u64>) {
    if let (Some(size), Some(inode)) = (size, InodeMut::new(bytes)) {
        inode.core.core.size = size.into();
    }
}

/// Writes the counters of extents of both forks, and of blocks. Returns false if one does not fit.
pub(crate) fn set_counters(bytes: &mut [u8], [data, attr]: [u64; 2], blocks: u64) -> bool {
    let Ok((v3, _)) = CoreV3::mut_from_prefix(bytes) else { return false };
    let large = v3.flags2.get() & InodeFlags2::NREXT64.bits() != 0;
    let core = &mut v3.core;
    let (Ok(data32), Ok(attr32)) = (u32::try_from(data), u32::try_from(attr)) else {
        return false;
    };
    if large {
        core.big_nextents = data.into();
        core.nextents = attr32.into();
        core.naextents = 0.into();
    } else {
        let Ok(attr16) = u16::try_from(attr) else { return false };
        core.nextents = data32.into();
        core.naextents = attr16.into();
        core.big_nextents = 0.into();
    }
    core.nblocks = blocks.into();
    true
}

/// Returns `bytes` with the counters of extents of `old`, the same inode.
pub(crate) fn with_counters_of(bytes: &[u8], old: &[u8]) -> Vec<u8> {
    let mut counted = bytes.to_vec();
    if let (Ok((to, _)), Ok((from, _))) =
        (CoreV3::mut_from_prefix(&mut counted), CoreV3::ref_from_prefix(old))
        && to.flags2 == from.flags2
    {
        to.core.nextents = from.core.nextents;
        to.core.naextents = from.core.naextents;
        to.core.big_nextents = from.core.big_nextents;
    }
    counted
}

/// Returns where attributes of the format that the core has begin in `literal`; `None` if nowhere.
fn found_forkoff(v3: &CoreV3, literal: &[u8], ctx: &Ctx<'_>, kind: Option<FileType>) -> Option<u8> {
    let special = kind.is_some_and(FileType::is_special);
    let end = if special { 1 } else { literal.len() / 8 - 1 };
    let format = Format::from_disk(v3.core.aformat)?;
    let holds = |forkoff: &usize| {
        literal.get(forkoff * 8..).is_some_and(|fork| attr_format(fork, ctx) == Some(format))
    };
    u8::try_from((1..=end).find(holds)?).ok()
}

/// Takes the attribute fork away.
fn drop_attributes(core: &mut inode::Core, large: bool) {
    core.forkoff = 0;
    core.aformat = Format::Extents as u8;
    if large {
        core.nextents = 0.into();
    } else {
        core.naextents = 0.into();
    }
}

/// Sets the fields that the verifier does not look at. Returns the checks of those that were wrong.
fn tidy(bytes: &mut [u8], ctx: &Ctx<'_>) -> Vec<&'static str> {
    let Some(inode) = Dinode::parse(bytes, ctx.geo) else { return Vec::new() };
    let (kind, bigtime, flags, flags2) =
        (inode.file_type(), inode.has_bigtime(), inode.flags(), inode.flags2());
    let mut wrong = Vec::new();
    let Some(inode) = InodeMut::new(bytes) else { return wrong };
    let mut drop = flags.undefined() | (flags & InodeFlags::NEWRTBM);
    if kind != Some(FileType::Directory) {
        let inherited = InodeFlags::PROJINHERIT | InodeFlags::RTINHERIT | InodeFlags::NOSYMLINKS;
        drop |= flags & inherited;
    }
    if !drop.is_empty() {
        inode.core.core.flags = (flags.bits() & !drop.bits()).into();
        wrong.push("inode.flags");
    }
    let mut drop2 = flags2.undefined();
    if !matches!(kind, Some(FileType::Regular | FileType::Directory)) {
        drop2 |= flags2 & InodeFlags2::DAX;
    }
    if !drop2.is_empty() {
        inode.core.flags2 = (flags2.bits() & !drop2.bits()).into();
        wrong.push("inode.flags2");
    }
    let core = &mut inode.core.core;
    if core.next_unlinked.get() != NULLAGINO && core.nlinkv2.get() != 0 {
        core.next_unlinked = NULLAGINO.into();
        wrong.push("inode.next_unlinked");
    }
    if kind.is_some_and(FileType::is_special) && core.size.get() != 0 {
        core.size = 0.into();
        wrong.push("inode.size");
    }
    if !bigtime {
        let times = [&mut core.atime, &mut core.mtime, &mut core.ctime];
        for time in times.into_iter().chain([&mut inode.core.crtime]) {
            if time.get() & 0xffff_ffff > 999_999_999 {
                *time = (time.get() & !0xffff_ffff).into();
                wrong.push("inode.mtime");
            }
        }
    }
    if !wrong.is_empty() {
        inode::stamp(bytes);
    }
    wrong
}
