//! Data blocks: the names of a directory. In block form the only block, which holds the hash table
//! too.
//!
//! ```text
//! head  bestfree[3] | entry | unused | entry | entry | …                      data form (XDD3)
//! head  bestfree[3] | entry | unused | entry | …  | unused | bleaf[] | btail  block form (XDB3)
//!
//! entry    inumber(8) namelen(1) name filetype(1) padding tag(2)
//! unused   freetag(2) = 0xffff  length(2) … tag(2)
//! ```
//!
//! Entries and unused space tile the block without gaps, in multiples of 8 bytes. The last two
//! bytes of each are its own offset, the `tag`. No two unused spaces are adjacent. `bestfree` lists
//! the three longest, longest first.

use xfskit_units::{Geometry, Ino, ValidInos};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes;
use crate::corruption::{Corruption, Expected, VerifyResult};
use crate::ctx::Ctx;
use crate::da::{self, Ids, ids};
use crate::dir::leaf::{LeafEntry, verify_order};
use crate::dir::{self, DataPtr, ENTRY_ALIGN, Entry, FTYPE_END};
use crate::hash;
use crate::layout::Layout;

/// Byte of the CRC field on version 5.
pub const CRC_OFFSET: usize = 4;

/// The first word of unused space.
pub const FREETAG: u16 = u16::MAX;

/// The header on version 5. Version 4 has the magic alone.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Hdr {
    /// Block or data form, or free index.
    pub magic: U32,
    /// CRC32c of the block, little-endian.
    pub crc: [u8; 4],
    /// Own address ([`xfskit_units::Daddr`]).
    pub bno: U64,
    /// [`xfskit_units::Lsn`] of the last write.
    pub lsn: U64,
    /// UUID of the volume's metadata.
    pub uuid: [u8; 16],
    /// The directory's inode.
    pub owner: U64,
}
const _: () = assert!(size_of::<Hdr>() == 48 && std::mem::offset_of!(Hdr, crc) == CRC_OFFSET);

/// Verifies the header of data and free-index blocks and returns the magic, one of `magics`.
pub(crate) fn verify_hdr(
    block: &[u8],
    ctx: &Ctx<'_>,
    ids: &Ids,
    magics: &[u32],
) -> VerifyResult<u32> {
    let (Some(magic), true) = (bytes::be32(block, 0), block.len() == ctx.geo.dirblksize()) else {
        return Err(ctx.short(ids.magic, block.len()));
    };
    ctx.crc(ids.crc, block, CRC_OFFSET)?;
    if !magics.contains(&magic) {
        ctx.eq_hex(ids.magic, magics.first().copied().unwrap_or(0), magic)?;
    }
    if ctx.geo.v5() {
        let Ok((hdr, _)) = Hdr::ref_from_prefix(block) else {
            return Err(ctx.short(ids.magic, block.len()));
        };
        ids.identity(ctx, hdr.uuid, hdr.bno, hdr.owner, hdr.lsn)?;
    }
    Ok(magic)
}

/// One of the three longest unused spaces; 0, 0 for none.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BestFree {
    /// Offset in the block, in bytes.
    pub offset: U16,
    /// Length in bytes.
    pub length: U16,
}

/// The two forms of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The only block of its directory, with the hash table at its end.
    Block,
    /// One of several blocks, or the only one beside a leaf.
    Data,
}

impl Form {
    /// Returns the form of `block`, by its magic.
    pub fn of(block: &[u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        match bytes::be32(block, 0)? {
            magic if magic == layout.dir_block_magic => Some(Self::Block),
            magic if magic == layout.dir_data_magic => Some(Self::Data),
            _ => None,
        }
    }
}

/// An entry or an unused space of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot<'a> {
    /// A name.
    Entry(Entry<'a>),
    /// Unused space.
    Unused {
        /// Offset in the block, in bytes.
        offset: usize,
        /// Length in bytes.
        length: usize,
        /// Its own offset, in its last two bytes.
        tag: u16,
    },
}

/// The entries and unused spaces of a block in order. The iterator ends early at one that does not
/// fit.
#[derive(Clone, Debug)]
pub struct Slots<'a> {
    /// The block up to the end of the entries.
    area: &'a [u8],
    offset: usize,
    ftype: bool,
}

impl<'a> Slots<'a> {
    /// Iterates over `block` without verifying it, to inspect damaged blocks.
    pub fn of(block: &'a [u8], geo: &Geometry) -> Self {
        let mut end = block.len();
        if Form::of(block, geo) == Some(Form::Block) {
            let tail = end.saturating_sub(TAIL_LEN);
            let count = xfskit_units::index(bytes::be32(block, tail).unwrap_or(0).into());
            end = tail.saturating_sub(count.saturating_mul(size_of::<LeafEntry>()));
        }
        let area = block.get(..end).unwrap_or(block);
        Self { area, offset: Layout::of(geo).dir_data_header, ftype: geo.features.ftype() }
    }

    fn entry(&self, rest: &'a [u8]) -> Option<(Entry<'a>, usize)> {
        let namelen = usize::from(*rest.get(8)?);
        let end = namelen.saturating_add(9);
        let name = rest.get(9..end)?;
        let filetype = if self.ftype { Some(*rest.get(end)?) } else { None };
        let raw = end.saturating_add(usize::from(self.ftype)).saturating_add(size_of::<U16>());
        let length = bytes::round_up(raw, ENTRY_ALIGN);
        let offset = bytes::be16(rest, length.saturating_sub(2))?;
        let inumber = Ino(bytes::be64(rest, 0)?);
        Some((Entry { inumber, name, filetype, offset }, length))
    }
}

impl<'a> Iterator for Slots<'a> {
    type Item = Slot<'a>;

    #[inline]
    fn next(&mut self) -> Option<Slot<'a>> {
        let rest = self.area.get(self.offset..)?;
        if bytes::be16(rest, 0)? != FREETAG {
            let (entry, length) = self.entry(rest)?;
            self.offset = self.offset.saturating_add(length);
            return Some(Slot::Entry(entry));
        }
        let (offset, length) = (self.offset, usize::from(bytes::be16(rest, 2)?));
        if length == 0 || !length.is_multiple_of(ENTRY_ALIGN) {
            return None;
        }
        let tag = bytes::be16(rest, length.saturating_sub(2))?;
        self.offset = offset.saturating_add(length);
        Some(Slot::Unused { offset, length, tag })
    }
}

/// A verified block.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    /// The form.
    pub form: Form,
    /// The longest unused spaces, longest first.
    pub bestfree: &'a [BestFree],
    /// Block form: the hash table.
    pub bleaf: &'a [LeafEntry],
    /// Block form: the number of stale entries in the hash table.
    pub stale: u32,
    slots: Slots<'a>,
}

const IDS: Ids = ids!("dir.data");
const FITS: &str = "a hash table that fits the block";

impl<'a> Data<'a> {
    /// Verifies `block`, one directory block, as data block of a directory; of `form`, if it is
    /// given.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>, form: Option<Form>) -> VerifyResult<Self> {
        let layout = Layout::of(ctx.geo);
        let magics = [layout.dir_data_magic, layout.dir_block_magic];
        let magics = match form {
            None => &magics,
            Some(Form::Data) => &magics[..1],
            Some(Form::Block) => &magics[1..],
        };
        verify_hdr(block, ctx, &IDS, magics)?;
        let Some(data) = Self::parse(block, ctx.geo) else {
            let count = bytes::be32(block, block.len().saturating_sub(TAIL_LEN)).unwrap_or(0);
            return Err(ctx.corruption("dir.block.count", Expected::Described(FITS.into()), count));
        };
        if data.form == Form::Block {
            let (order, stale) = ("dir.block.order", "dir.block.stale");
            verify_order(data.bleaf, data.stale, ctx, order, stale)?;
        }
        data.verify_slots(ctx)?;
        Ok(data)
    }

    /// Parses a block that was verified before, or as much as possible of a damaged one. `None` if
    /// it has neither form's magic, or if its hash table does not fit.
    pub fn parse(block: &'a [u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        let form = Form::of(block, geo)?;
        let bestfree = da::table::<BestFree>(block, layout.dir_bestfree, 3)?;
        let (area, bleaf, stale) = match form {
            Form::Block => split_tail(block, layout.dir_data_header)?,
            Form::Data => (block, &[][..], 0),
        };
        let slots = Slots { area, offset: layout.dir_data_header, ftype: geo.features.ftype() };
        Some(Self { form, bestfree, bleaf, stale, slots })
    }

    /// Verifies the whole block: each slot's own fields, no adjacent unused spaces, `bestfree`, and
    /// in block form the hash table.
    fn verify_slots(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let mut slots = self.slots.clone();
        let mut best = BestCheck { bestfree: self.bestfree, seen: [false; 3] };
        let (mut index, mut entries) = (0, 0usize);
        let mut after_unused = false;
        let inos = ctx.geo.valid_inos();
        while slots.offset < slots.area.len() {
            let ctx = ctx.entry(index);
            let offset = slots.offset;
            match slots.next() {
                None => return Err(slots.explain(&ctx)),
                Some(Slot::Entry(entry)) => {
                    if usize::from(entry.offset) != offset {
                        slots.verify_namelen(&ctx, offset, entry.name.len())?;
                    }
                    verify_entry(&entry, &ctx, &inos, offset)?;
                    if self.form == Form::Block {
                        self.verify_hashed(&entry, &ctx)?;
                    }
                    entries = entries.saturating_add(1);
                    after_unused = false;
                }
                Some(Slot::Unused { length, tag, .. }) => {
                    ctx.eq("dir.data.tag", offset, usize::from(tag))?;
                    let apart = "unused spaces joined";
                    ctx.require("dir.data.unused", !after_unused, apart, "two side by side")?;
                    best.gap(&ctx, offset, length)?;
                    after_unused = true;
                }
            }
            index = index.saturating_add(1);
        }
        best.done(ctx)?;
        if self.form == Form::Block {
            self.verify_count(ctx, entries)?;
        }
        Ok(())
    }

    fn verify_count(&self, ctx: &Ctx<'_>, entries: usize) -> VerifyResult {
        let live = self.bleaf.len().saturating_sub(xfskit_units::index(self.stale.into()));
        ctx.eq("dir.block.count", entries, live)
    }

    /// Fails if the hash table of a block-form directory lacks `entry`.
    fn verify_hashed(&self, entry: &Entry<'_>, ctx: &Ctx<'_>) -> VerifyResult {
        let hash = hash::dir_hash(ctx.geo, entry.name);
        let address = u32::from(entry.offset) >> 3;
        let found = dir::leaf::run(self.bleaf, hash).iter().any(|e| e.address.get() == address);
        if !found {
            // An impossible name shows that the name is wrong, and not the hash; as many entries
            // as names, that no entry is cut off.
            entry.verify_name(ctx)?;
            self.verify_count(ctx, self.entries().count())?;
        }
        ctx.require("dir.block.hashval", found, "the name's hash, with its address", hash)
    }

    /// Returns the names.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + Clone + use<'a> {
        self.slots.clone().filter_map(|slot| match slot {
            Slot::Entry(entry) => Some(entry),
            Slot::Unused { .. } => None,
        })
    }

    /// Returns the names and unused spaces in order.
    pub fn slots(&self) -> Slots<'a> {
        self.slots.clone()
    }

    /// Returns the entry at byte `offset`, as a hash entry names it; `None` if nothing begins
    /// there.
    pub fn entry_at(&self, offset: usize) -> Option<Entry<'a>> {
        match (Slots { offset, ..self.slots.clone() }).next()? {
            Slot::Entry(entry) if usize::from(entry.offset) == offset => Some(entry),
            _ => None,
        }
    }

    /// Verifies the first two entries of a directory's first block: "." is `ino`, ".." a directory.
    ///
    /// # Errors
    /// `dir.data.dot`, `dir.data.dotdot`.
    pub fn verify_dots(&self, ctx: &Ctx<'_>, ino: Ino) -> VerifyResult<Ino> {
        let mut entries = self.entries();
        let dot = entries.next().filter(|e| e.name == b".").map(|e| e.inumber);
        ctx.require("dir.data.dot", dot == Some(ino), "the directory itself, first", "another")?;
        let dotdot = entries.next().filter(|e| e.name == b"..").map(|e| e.inumber);
        dotdot.ok_or_else(|| ctx.short("dir.data.dotdot", 1))
    }
}

/// Bytes of `btail`: `count` and `stale`.
const TAIL_LEN: usize = 8;

/// Splits a block-form block: header and names, hash table, `stale`. `None` if the hash table is
/// longer than the header of `head` bytes leaves.
fn split_tail(block: &[u8], head: usize) -> Option<(&[u8], &[LeafEntry], u32)> {
    let tail = block.len().checked_sub(TAIL_LEN)?;
    let count = xfskit_units::index(bytes::be32(block, tail)?.into());
    let stale = bytes::be32(block, tail.checked_add(4)?)?;
    let start = tail.checked_sub(count.checked_mul(size_of::<LeafEntry>())?)?;
    if start <= head {
        return None;
    }
    Some((block.get(..start)?, da::table(block, start, count)?, stale))
}

fn verify_entry(entry: &Entry<'_>, ctx: &Ctx<'_>, inos: &ValidInos, offset: usize) -> VerifyResult {
    ctx.at_least("dir.data.namelen", 1, entry.name.len())?;
    ctx.eq("dir.data.tag", offset, usize::from(entry.offset))?;
    let known = inos.contains(entry.inumber);
    ctx.require("dir.data.inumber", known, "an inode number", entry.inumber)?;
    if let Some(filetype) = entry.filetype {
        ctx.at_most("dir.data.filetype", FTYPE_END.saturating_sub(1), filetype)?;
    }
    Ok(())
}

impl Slots<'_> {
    /// Fails if the entry at `offset`, which does not end with its tag, has it elsewhere: then the
    /// length of its name is wrong, and not the tag.
    #[cold]
    fn verify_namelen(&self, ctx: &Ctx<'_>, offset: usize, namelen: usize) -> VerifyResult {
        let longest = bytes::round_up(usize::from(u8::MAX).saturating_add(12), ENTRY_ALIGN);
        let tagged = |length: &usize| {
            let tag = offset.saturating_add(*length).saturating_sub(2);
            bytes::be16(self.area, tag).map(usize::from) == Some(offset)
        };
        match (2 * ENTRY_ALIGN..=longest).step_by(ENTRY_ALIGN).find(tagged) {
            Some(length) => {
                let most = length.saturating_sub(11).saturating_sub(self.ftype.into());
                ctx.within("dir.data.namelen", most.saturating_sub(7).max(1)..=most, namelen)
            }
            None => Ok(()),
        }
    }

    /// Returns the reason why no slot begins at the current offset.
    #[cold]
    fn explain(&self, ctx: &Ctx<'_>) -> Box<Corruption> {
        let rest = self.area.get(self.offset..).unwrap_or(&[]);
        if bytes::be16(rest, 0) == Some(FREETAG) {
            return ctx.short("dir.data.length", bytes::be16(rest, 2).unwrap_or(0).into());
        }
        ctx.short("dir.data.namelen", rest.get(8).copied().unwrap_or(0).into())
    }
}

/// Verifies `bestfree` during a walk over the unused spaces.
struct BestCheck<'a> {
    bestfree: &'a [BestFree],
    seen: [bool; 3],
}

impl BestCheck<'_> {
    /// Checks one unused space: it is listed as it is, or not longer than the shortest listed one.
    fn gap(&mut self, ctx: &Ctx<'_>, offset: usize, length: usize) -> VerifyResult {
        for (best, seen) in self.bestfree.iter().zip(&mut self.seen) {
            if usize::from(best.offset.get()) == offset && !*seen {
                *seen = true;
                return ctx.eq("dir.data.bestfree", length, best.length.get().into());
            }
        }
        let shortest = self.bestfree.last().map_or(0, |best| best.length.get());
        ctx.at_least("dir.data.bestfree", length, shortest.into())
    }

    /// Checks the list at the end of the walk: longest first, and all listed spaces exist.
    fn done(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let mut longest = u16::MAX;
        for (i, (best, seen)) in self.bestfree.iter().zip(self.seen).enumerate() {
            let (offset, length) = (best.offset.get(), best.length.get());
            let empty = offset == 0 && length == 0;
            ctx.entry(i).require("dir.data.bestfree", seen || empty, "unused space", offset)?;
            ctx.entry(i).at_most("dir.data.bestfree", longest, length)?;
            longest = length;
        }
        Ok(())
    }
}

/// Returns the readable entries of a damaged data block: everything at a multiple of 8 bytes that
/// parses as an entry with its own tag and a name. Nothing else is verified: the inode tells its
/// type, and its number and the bytes of its name may be damaged.
pub fn salvage<'a>(block: &'a [u8], geo: &'a Geometry) -> impl Iterator<Item = Entry<'a>> + 'a {
    let offset = Layout::of(geo).dir_data_header;
    let mut slots = Slots { area: block, offset, ftype: geo.features.ftype() };
    std::iter::from_fn(move || {
        while slots.offset < slots.area.len() {
            let offset = slots.offset;
            match slots.next() {
                Some(Slot::Entry(entry)) if plausible(&entry, offset) => return Some(entry),
                Some(Slot::Unused { tag, .. }) if usize::from(tag) == offset => {}
                _ => slots.offset = offset.saturating_add(ENTRY_ALIGN),
            }
        }
        None
    })
}

fn plausible(entry: &Entry<'_>, offset: usize) -> bool {
    usize::from(entry.offset) == offset && !entry.name.is_empty()
}

/// Returns the data pointer of `entry`, for a block that begins at `fileoff`.
pub fn dataptr(
    geo: &Geometry,
    fileoff: xfskit_units::FileOff,
    entry: &Entry<'_>,
) -> Option<DataPtr> {
    DataPtr::new(geo, fileoff, entry.offset.into())
}
