//! Attribute leaves: names, and small values beside them.
//!
//! ```text
//! head  count usedbytes firstused holes freemap[3] | entries[count] →   free   ← names and values
//! ```
//!
//! Entries, sorted by hash, grow up after the header; names and values, each at a multiple of 4
//! bytes, grow down from the end. A leaf is always one filesystem block.

use xfskit_units::{DaBlock, Geometry};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::attr::{
    INCOMPLETE, LOCAL, NAMESPACE, Namespace, VALUE_MAX, flags_are_valid, parent, verify_flags,
};
use crate::bytes;
use crate::corruption::{Corruption, Expected, Fork, VerifyResult};
use crate::ctx::Ctx;
use crate::da::{self, BlkInfo, ChainIds, ids};
use crate::hash;
use crate::layout::Layout;

/// Bytes before the name of a local attribute: `valuelen`, `namelen`.
pub(super) const LOCAL_HEAD: usize = 3;
/// Bytes before the name of a remote attribute: `valueblk`, `valuelen`, `namelen`.
pub(super) const REMOTE_HEAD: usize = 9;
/// A remote attribute takes two bytes more than it fills, by a historic accident.
const REMOTE_EXTRA: usize = 2;
/// Names and values are aligned to this many bytes.
pub(super) const ALIGN: usize = 4;

/// The entry of one attribute.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LeafEntry {
    /// The name's hash: [`hash::name_hash`], for parent pointers [`hash::parent_hash`].
    pub hashval: U32,
    /// Offset of name and value in the block, in bytes.
    pub nameidx: U16,
    /// [`LOCAL`], [`INCOMPLETE`] and the namespace bits.
    pub flags: u8,
    /// Zero.
    pub pad2: u8,
}

/// One region of free space; 0, 0 for none.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct FreeMap {
    /// Offset in the block, in bytes.
    pub base: U16,
    /// Length in bytes.
    pub size: U16,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrValue<'a> {
    /// Stored with its name in the leaf.
    Local(&'a [u8]),
    /// Stored in blocks of its own.
    Remote {
        /// The first of them, in the attribute fork.
        valueblk: DaBlock,
        /// Bytes of the value.
        valuelen: u32,
    },
}

impl AttrValue<'_> {
    /// Returns the length of the value, in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Self::Local(value) => u32::try_from(value.len()).unwrap_or(u32::MAX),
            Self::Remote { valuelen, .. } => *valuelen,
        }
    }

    /// Returns true if the value is empty, which is valid.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// [`LOCAL`], [`INCOMPLETE`] and the namespace bits.
    pub flags: u8,
    /// 1 to 255 bytes.
    pub name: &'a [u8],
    /// Its value.
    pub value: AttrValue<'a>,
}

impl Attr<'_> {
    /// Verifies an attribute of the parent namespace.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_parent(&self, ctx: &Ctx<'_>) -> VerifyResult<parent::Rec> {
        let AttrValue::Local(value) = self.value else {
            return Err(ctx.short("attr.parent.valuelen", 0));
        };
        ctx.eq("attr.parent.valuelen", size_of::<parent::Rec>(), value.len())?;
        let Some(rec) = parent::Rec::parse(value) else {
            return Err(ctx.short("attr.parent.valuelen", value.len()));
        };
        let plain = !self.name.iter().any(|&b| b == b'/' || b == 0);
        ctx.require("attr.parent.name", plain, "a name without slash and NUL", "another")?;
        let complete = !self.is_incomplete();
        ctx.require("attr.parent.flags", complete, "a complete attribute", "an incomplete one")?;
        let known = ctx.geo.valid_ino(rec.ino());
        ctx.require("attr.parent.ino", known, "an inode number", rec.ino())?;
        Ok(rec)
    }

    /// Returns the namespace of the name; `None` if the flags are damaged.
    pub fn namespace(&self) -> Option<Namespace> {
        Namespace::from_flags(self.flags)
    }

    /// Returns true while the attribute is being created or removed: readers ignore it.
    pub fn is_incomplete(&self) -> bool {
        self.flags & INCOMPLETE != 0
    }

    /// Returns the length of the value, in bytes.
    pub fn value_len(&self) -> u32 {
        self.value.len()
    }

    /// Returns the length of name and value in the leaf, in bytes.
    pub fn size(&self) -> usize {
        let raw = match self.value {
            AttrValue::Local(value) => LOCAL_HEAD.saturating_add(value.len()),
            AttrValue::Remote { .. } => REMOTE_HEAD + REMOTE_EXTRA,
        };
        bytes::round_up(raw.saturating_add(self.name.len()), ALIGN)
    }

    /// Returns the hash by which it is found.
    pub fn hash(&self, geo: &Geometry) -> u32 {
        match (self.namespace(), self.value) {
            (Some(Namespace::Parent), AttrValue::Local(value)) => match parent::Rec::parse(value) {
                Some(rec) => hash::parent_hash(geo, self.name, rec.ino()),
                None => hash::name_hash(self.name),
            },
            _ => hash::name_hash(self.name),
        }
    }
}

/// A verified leaf.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// The header.
    pub info: &'a BlkInfo,
    /// Bytes of names and values.
    pub usedbytes: u16,
    /// Lowest byte of names and values; 65536 in an empty leaf of that size.
    pub firstused: usize,
    /// True if there may be holes among names and values.
    pub holes: bool,
    /// Up to three regions of free space.
    pub freemap: &'a [FreeMap],
    /// The entries, in hash order.
    pub entries: &'a [LeafEntry],
    block: &'a [u8],
}

/// The fields of the header as they are on disk, after those that all da blocks share.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Hdr {
    pub(super) count: U16,
    pub(super) usedbytes: U16,
    pub(super) firstused: U16,
    pub(super) holes: u8,
    pub(super) pad1: u8,
    pub(super) freemap: [FreeMap; 3],
}
const _: () = assert!(size_of::<Hdr>() == 20 && size_of::<LeafEntry>() == 8);

impl<'a> Leaf<'a> {
    /// Verifies `block`, one filesystem block, as attribute leaf.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        const IDS: ChainIds =
            ChainIds { own: ids!("attr.leaf"), forw: "attr.leaf.forw", back: "attr.leaf.back" };
        let layout = Layout::of(ctx.geo);
        da::verify_info(block, ctx, Fork::Attr, &IDS, &[layout.attr_leaf_magic])?;
        let start = layout.attr_leaf_header;
        let count = usize::from(bytes::be16(block, layout.da_count).unwrap_or(0));
        let room = da::entries_in::<LeafEntry>(block.len().saturating_sub(start));
        ctx.at_most("attr.leaf.count", room, count)?;
        let Some(leaf) = Self::parse(block, ctx.geo) else {
            return Err(ctx.short("attr.leaf.count", block.len()));
        };
        let end = start.saturating_add(size_of_val(leaf.entries));
        ctx.within("attr.leaf.firstused", end..=block.len(), leaf.firstused)?;
        for (i, free) in leaf.freemap.iter().enumerate() {
            let (base, size) = (usize::from(free.base.get()), usize::from(free.size.get()));
            let aligned = base.is_multiple_of(ALIGN) && size.is_multiple_of(ALIGN);
            let inside = base.saturating_add(size) <= block.len();
            let want = "multiples of 4 within the block";
            ctx.entry(i).require("attr.leaf.freemap", aligned && inside, want, base)?;
        }
        leaf.verify_entries(ctx)?;
        Ok(leaf)
    }

    /// Parses a leaf that was verified before, or as much as possible of a damaged one. `None` if
    /// its entries do not fit into the block.
    pub fn parse(block: &'a [u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        let (info, _) = BlkInfo::ref_from_prefix(block).ok()?;
        let (hdr, _) = Hdr::ref_from_prefix(block.get(layout.da_count..)?).ok()?;
        let entries = da::table(block, layout.attr_leaf_header, hdr.count.get().into())?;
        // In a block of 64 KiB the end does not fit into its field, and is stored as 0.
        let firstused = match (hdr.firstused.get(), block.len()) {
            (0, 65536) => 65536,
            (first, _) => usize::from(first),
        };
        let (usedbytes, holes) = (hdr.usedbytes.get(), hdr.holes != 0);
        Some(Self { info, usedbytes, firstused, holes, freemap: &hdr.freemap, entries, block })
    }

    /// Checks that no name lies below `firstused`. If several do, `firstused` is wrong, and not the
    /// offset of each name.
    fn verify_firstused(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let places = self.entries.iter().map(|entry| usize::from(entry.nameidx.get()));
        let below = places.filter(|place| *place < self.firstused);
        match (below.clone().count(), below.min()) {
            (2.., Some(lowest)) => ctx.at_most("attr.leaf.firstused", lowest, self.firstused),
            _ => Ok(()),
        }
    }

    /// Makes the corruption of an entry that leads to no name. If `nameidx` lies inside another
    /// name or value it is wrong, else the length of the name is.
    #[cold]
    fn explain_name(&self, ctx: &Ctx<'_>, index: usize, nameidx: usize) -> Box<Corruption> {
        let inside = |(other, entry): (usize, &LeafEntry)| {
            let start = usize::from(entry.nameidx.get());
            let len = self.attr(entry).map_or(0, |attr| attr.size());
            other != index && start < nameidx && nameidx < start.saturating_add(len)
        };
        if self.entries.iter().enumerate().any(inside) {
            let wanted = Expected::Described("a name of its own".into());
            return ctx.corruption("attr.leaf.nameidx", wanted, nameidx);
        }
        let field = if self.entries.get(index).is_some_and(|entry| entry.flags & LOCAL == 0) {
            8
        } else {
            2
        };
        let namelen = self.block.get(nameidx.saturating_add(field)).copied().unwrap_or(0);
        let wanted = Expected::Described("a name that is not empty and fits the block".into());
        ctx.corruption("attr.leaf.namelen", wanted, namelen)
    }

    /// Verifies the entries in order. The context of an entry is made only for one that fails: this
    /// runs for each leaf that is read or written.
    fn verify_entries(&self, ctx: &Ctx<'_>) -> VerifyResult {
        const ALLOWED: u8 = LOCAL | INCOMPLETE | NAMESPACE;
        self.verify_firstused(ctx)?;
        let places = self.firstused..=self.block.len().saturating_sub(1);
        let mut last = 0;
        for (i, entry) in self.entries.iter().enumerate() {
            let hash = entry.hashval.get();
            if hash < last {
                ctx.entry(i).at_least("attr.leaf.order", last, hash)?;
            }
            last = hash;
            if !flags_are_valid(ctx.geo, entry.flags, ALLOWED) {
                verify_flags(&ctx.entry(i), "attr.leaf.flags", entry.flags, ALLOWED)?;
            }
            let nameidx = usize::from(entry.nameidx.get());
            if !places.contains(&nameidx) {
                ctx.entry(i).within("attr.leaf.nameidx", places.clone(), nameidx)?;
            }
            let attr = self.attr(entry).filter(|attr| !attr.name.is_empty());
            let Some(attr) = attr else {
                return Err(self.explain_name(&ctx.entry(i), i, nameidx));
            };
            if let AttrValue::Remote { valueblk, valuelen } = attr.value
                && !attr.is_incomplete()
            {
                let ctx = ctx.entry(i);
                ctx.at_least("attr.leaf.valueblk", 1, valueblk.0)?;
                ctx.at_most("attr.leaf.valuelen", VALUE_MAX, valuelen)?;
            }
        }
        Ok(())
    }

    /// Verifies what only a check of the volume needs: names and values fill `usedbytes`, do not
    /// overlap each other or the free regions, lie above `firstused`, and hash to the values in
    /// their entries.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_space(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let mut space = Space::default();
        let start = Layout::of(ctx.geo).attr_leaf_header;
        space.take(0, start.saturating_add(size_of_val(self.entries)));
        let (mut used, mut first) = (0usize, self.block.len());
        for (i, entry) in self.entries.iter().enumerate() {
            let Some(attr) = self.attr(entry) else { continue };
            let nameidx = usize::from(entry.nameidx.get());
            if !space.take(nameidx, attr.size()) {
                let ctx = ctx.entry(i);
                ctx.require("attr.leaf.overlap", false, "space of its own", nameidx)?;
            }
            let (due, hash) = (attr.hash(ctx.geo), entry.hashval.get());
            if due != hash && !attr.is_incomplete() {
                ctx.entry(i).eq_hex("attr.leaf.hashval", due, hash)?;
            }
            used = used.saturating_add(attr.size());
            first = first.min(nameidx);
        }
        ctx.eq("attr.leaf.usedbytes", used, self.usedbytes.into())?;
        // After a split Linux leaves `firstused` lower than it could be, and says that there are
        // holes.
        if self.holes || self.entries.is_empty() {
            ctx.at_most("attr.leaf.firstused", first, self.firstused)?;
        } else {
            ctx.eq("attr.leaf.firstused", first, self.firstused)?;
        }
        for (i, free) in self.freemap.iter().enumerate() {
            let (base, size) = (usize::from(free.base.get()), usize::from(free.size.get()));
            let apart = space.take(base, size);
            ctx.entry(i).require("attr.leaf.freemap", apart, "free space", base)?;
        }
        Ok(())
    }

    /// Returns the attribute of `entry`; `None` if it does not fit into the block.
    pub fn attr(&self, entry: &LeafEntry) -> Option<Attr<'a>> {
        let rest = self.block.get(usize::from(entry.nameidx.get())..)?;
        let flags = entry.flags;
        if flags & LOCAL == 0 {
            let valueblk = DaBlock(bytes::be32(rest, 0)?);
            let valuelen = bytes::be32(rest, 4)?;
            let name = bytes::slice(rest, REMOTE_HEAD, usize::from(*rest.get(8)?))?;
            return Some(Attr { flags, name, value: AttrValue::Remote { valueblk, valuelen } });
        }
        let valuelen = usize::from(bytes::be16(rest, 0)?);
        let namelen = usize::from(*rest.get(2)?);
        let (name, rest) = rest.get(LOCAL_HEAD..)?.split_at_checked(namelen)?;
        Some(Attr { flags, name, value: AttrValue::Local(rest.get(..valuelen)?) })
    }

    /// Returns the bytes of the attribute of `entry` as they are in the block, with those that
    /// align the next one, and their [length](Attr::size). A remote attribute at the end of the
    /// block may have fewer bytes. Returns `None` if it does not fit into the block.
    pub(super) fn stored(&self, entry: LeafEntry) -> Option<(&'a [u8], usize)> {
        let rest = self.block.get(usize::from(entry.nameidx.get())..)?;
        let (len, extra) = if entry.flags & LOCAL == 0 {
            (REMOTE_HEAD.saturating_add((*rest.get(8)?).into()), REMOTE_EXTRA)
        } else {
            let namelen = usize::from(*rest.get(2)?);
            let valuelen = usize::from(bytes::be16(rest, 0)?);
            (LOCAL_HEAD.saturating_add(namelen).saturating_add(valuelen), 0)
        };
        let size = bytes::round_up(len.saturating_add(extra), ALIGN);
        let stored = rest.get(..size).or_else(|| rest.get(len..).map(|_| rest))?;
        Some((stored, size))
    }

    /// Returns the attributes, incomplete ones too, in hash order.
    pub fn attrs(&self) -> impl Iterator<Item = Attr<'a>> + use<'a> {
        let leaf = *self;
        self.entries.iter().filter_map(move |entry| leaf.attr(entry))
    }

    /// Returns the attributes that carry `hash`.
    pub fn run(&self, hash: u32) -> impl Iterator<Item = Attr<'a>> + use<'a> {
        self.run_from(self.first_of(hash), hash)
    }

    /// Returns the index of the first entry that carries `hash` or a greater one.
    pub fn first_of(&self, hash: u32) -> usize {
        self.entries.partition_point(|e| e.hashval.get() < hash)
    }

    /// Returns the attributes that carry `hash`; the first of them is entry `start`.
    pub fn run_from(&self, start: usize, hash: u32) -> impl Iterator<Item = Attr<'a>> + use<'a> {
        let leaf = *self;
        let rest = self.entries.get(start..).unwrap_or(&[]);
        rest.iter()
            .take_while(move |e| e.hashval.get() == hash)
            .filter_map(move |entry| leaf.attr(entry))
    }

    /// Returns the last entry's hash, which the parent repeats; `None` for an empty leaf.
    pub fn last_hash(&self) -> Option<u32> {
        self.entries.last().map(|entry| entry.hashval.get())
    }
}

/// The used parts of a block: a bit for each 4 bytes of at most 64 KiB.
struct Space {
    taken: [u64; Self::WORDS],
}

impl Default for Space {
    fn default() -> Self {
        Self { taken: [0; Self::WORDS] }
    }
}

impl Space {
    const WORDS: usize = 65536 / ALIGN / 64;

    /// Marks `len` bytes at `start` as used. Returns false if some were used already, or do not
    /// exist.
    fn take(&mut self, start: usize, len: usize) -> bool {
        let (first, end) = (start / ALIGN, start.saturating_add(len).div_ceil(ALIGN));
        let mut apart = true;
        for number in first / 64..end.div_ceil(64) {
            let Some(word) = self.taken.get_mut(number) else { return false };
            let before = number.saturating_mul(64);
            let mask =
                low_bits(end.saturating_sub(before)) & !low_bits(first.saturating_sub(before));
            apart &= *word & mask == 0;
            *word |= mask;
        }
        apart
    }
}

/// Returns a word with the lowest `count` bits set, or all of them.
fn low_bits(count: usize) -> u64 {
    let bit = u32::try_from(count).ok().and_then(|count| 1_u64.checked_shl(count));
    bit.map_or(u64::MAX, |bit| bit.wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_taken_once_across_words() {
        let mut space = Space::default();
        let units = |space: &Space| space.taken.iter().map(|word| word.count_ones()).sum::<u32>();
        assert!(space.take(0, 80) && space.take(80, 4) && space.take(1000, 0));
        assert_eq!(units(&space), 21);
        // The end of one word, two whole words, and the start of the next.
        assert!(space.take(248, 8 + 512 + 12));
        assert_eq!(units(&space), 21 + 133);
        for (start, len) in [(76, 8), (80, 1), (244, 8), (500, 4), (776, 8)] {
            assert!(!space.take(start, len), "{start} {len}");
        }
        assert!(space.take(65_532, 4) && !space.take(65_532, 8));
    }
}
