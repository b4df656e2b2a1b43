//! Attribute leaves: names, and small values beside them.
//!
//! ```text
//! head  count usedbytes firstused holes freemap[3] | entries[count] →   free   ← names and values
//! ```
//!
//! Entries, sorted by hash, grow up behind the head; names and values, each at a multiple of 4
//! bytes, grow down from the end. A leaf is always one filesystem block.

use xfskit_units::{DaBlock, Geometry};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::attr::{INCOMPLETE, LOCAL, NAMESPACE, Namespace, VALUE_MAX, parent, verify_flags};
use crate::bytes;
use crate::corruption::{Fork, VerifyResult};
use crate::ctx::Ctx;
use crate::da::{self, BlkInfo, ChainIds, ids};
use crate::hash;
use crate::layout::Layout;

/// Bytes in front of the name of a local attribute: `valuelen`, `namelen`.
pub(super) const LOCAL_HEAD: usize = 3;
/// Bytes in front of the name of a remote attribute: `valueblk`, `valuelen`, `namelen`.
pub(super) const REMOTE_HEAD: usize = 9;
/// A remote attribute takes two bytes more than it fills, by a historic accident.
const REMOTE_EXTRA: usize = 2;
/// Names and values stand at multiples of this many bytes.
pub(super) const ALIGN: usize = 4;

/// One attribute's place.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LeafEntry {
    /// The name's hash: [`hash::name_hash`], for parent pointers [`hash::parent_hash`].
    pub hashval: U32,
    /// Where name and value stand, in bytes of the block.
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
    /// Where, in bytes of the block.
    pub base: U16,
    /// How long, in bytes.
    pub size: U16,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Beside its name.
    Local(&'a [u8]),
    /// In blocks of its own.
    Remote {
        /// The first of them, in the attribute fork.
        valueblk: DaBlock,
        /// Bytes of the value.
        valuelen: u32,
    },
}

impl Place<'_> {
    /// Length of the value, in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Self::Local(value) => u32::try_from(value.len()).unwrap_or(u32::MAX),
            Self::Remote { valuelen, .. } => *valuelen,
        }
    }

    /// True for the empty value, which is one.
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
    pub value: Place<'a>,
}

impl Attr<'_> {
    /// Where the name belongs; `None` where the flags are damaged.
    pub fn namespace(&self) -> Option<Namespace> {
        Namespace::from_flags(self.flags)
    }

    /// True while it is being made or removed: it does not exist for readers.
    pub fn is_incomplete(&self) -> bool {
        self.flags & INCOMPLETE != 0
    }

    /// Length of the value, in bytes.
    pub fn value_len(&self) -> u32 {
        self.value.len()
    }

    /// Bytes that name and value take in the leaf.
    pub fn size(&self) -> usize {
        let raw = match self.value {
            Place::Local(value) => LOCAL_HEAD.saturating_add(value.len()),
            Place::Remote { .. } => REMOTE_HEAD + REMOTE_EXTRA,
        };
        bytes::round_up(raw.saturating_add(self.name.len()), ALIGN)
    }

    /// The hash under which it is to be found.
    pub fn hash(&self, geo: &Geometry) -> u32 {
        match (self.namespace(), self.value) {
            (Some(Namespace::Parent), Place::Local(value)) => match parent::Rec::parse(value) {
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
    /// The head.
    pub info: &'a BlkInfo,
    /// Bytes of names and values.
    pub usedbytes: u16,
    /// Lowest byte of names and values; 65536 in an empty leaf of that size.
    pub firstused: usize,
    /// There may be holes among names and values.
    pub holes: bool,
    /// Up to three regions of free space.
    pub freemap: &'a [FreeMap],
    /// The attributes' places, in hash order.
    pub entries: &'a [LeafEntry],
    block: &'a [u8],
}

/// The fields of the head as they stand on disk, behind what all da blocks share.
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
    /// Judges `block`, one filesystem block, as attribute leaf.
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
        let room = da::rows::<LeafEntry>(block.len().saturating_sub(start));
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

    /// A leaf that was verified before, or (for a look at a damaged one) as far as it can be
    /// understood. `None` where its entries do not fit the block.
    pub fn parse(block: &'a [u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        let (info, _) = BlkInfo::ref_from_prefix(block).ok()?;
        let (hdr, _) = Hdr::ref_from_prefix(block.get(layout.da_count..)?).ok()?;
        let entries = da::table(block, layout.attr_leaf_header, hdr.count.get().into())?;
        // In a block of 64 KiB the end does not fit its field, and stands there as 0.
        let firstused = match (hdr.firstused.get(), block.len()) {
            (0, 65536) => 65536,
            (first, _) => usize::from(first),
        };
        let (usedbytes, holes) = (hdr.usedbytes.get(), hdr.holes != 0);
        Some(Self { info, usedbytes, firstused, holes, freemap: &hdr.freemap, entries, block })
    }

    /// Where several names lie below `firstused`, it is wrong and not each of them.
    fn verify_firstused(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let places = self.entries.iter().map(|entry| usize::from(entry.nameidx.get()));
        let below = places.filter(|place| *place < self.firstused);
        match (below.clone().count(), below.min()) {
            (2.., Some(lowest)) => ctx.at_most("attr.leaf.firstused", lowest, self.firstused),
            _ => Ok(()),
        }
    }

    fn verify_entries(&self, ctx: &Ctx<'_>) -> VerifyResult {
        self.verify_firstused(ctx)?;
        let mut last = 0;
        for (i, entry) in self.entries.iter().enumerate() {
            let ctx = ctx.entry(i);
            let hash = entry.hashval.get();
            ctx.at_least("attr.leaf.order", last, hash)?;
            last = hash;
            verify_flags(&ctx, "attr.leaf.flags", entry.flags, LOCAL | INCOMPLETE | NAMESPACE)?;
            let nameidx = usize::from(entry.nameidx.get());
            let end = self.block.len().saturating_sub(1);
            ctx.within("attr.leaf.nameidx", self.firstused..=end, nameidx)?;
            let Some(attr) = self.attr(entry) else {
                return Err(ctx.short("attr.leaf.namelen", self.block.len()));
            };
            ctx.at_least("attr.leaf.namelen", 1, attr.name.len())?;
            if let Place::Remote { valueblk, valuelen } = attr.value
                && !attr.is_incomplete()
            {
                ctx.at_least("attr.leaf.valueblk", 1, valueblk.0)?;
                ctx.at_most("attr.leaf.valuelen", VALUE_MAX, valuelen)?;
            }
        }
        Ok(())
    }

    /// What only a judge needs to know: names and values fill what `usedbytes` says, do not
    /// overlap each other or the free regions, none below `firstused`, and hash to what their
    /// entries say.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_space(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let mut space = Space::default();
        let start = Layout::of(ctx.geo).attr_leaf_header;
        space.take(0, start.saturating_add(size_of_val(self.entries)));
        let (mut used, mut first) = (0usize, self.block.len());
        for (i, entry) in self.entries.iter().enumerate() {
            let ctx = ctx.entry(i);
            let Some(attr) = self.attr(entry) else { continue };
            let nameidx = usize::from(entry.nameidx.get());
            let apart = space.take(nameidx, attr.size());
            ctx.require("attr.leaf.overlap", apart, "space of its own", nameidx)?;
            if !attr.is_incomplete() {
                ctx.eq_hex("attr.leaf.hashval", attr.hash(ctx.geo), entry.hashval.get())?;
            }
            used = used.saturating_add(attr.size());
            first = first.min(nameidx);
        }
        ctx.eq("attr.leaf.usedbytes", used, self.usedbytes.into())?;
        // After a split Linux leaves `firstused` lower than it could be.
        ctx.at_most("attr.leaf.firstused", first, self.firstused)?;
        for (i, free) in self.freemap.iter().enumerate() {
            let (base, size) = (usize::from(free.base.get()), usize::from(free.size.get()));
            let apart = space.take(base, size);
            ctx.entry(i).require("attr.leaf.freemap", apart, "free space", base)?;
        }
        Ok(())
    }

    /// Name and value of `entry`; `None` where they do not fit into the block.
    pub fn attr(&self, entry: &LeafEntry) -> Option<Attr<'a>> {
        let rest = self.block.get(usize::from(entry.nameidx.get())..)?;
        let flags = entry.flags;
        if flags & LOCAL == 0 {
            let valueblk = DaBlock(bytes::be32(rest, 0)?);
            let valuelen = bytes::be32(rest, 4)?;
            let name = bytes::slice(rest, REMOTE_HEAD, usize::from(*rest.get(8)?))?;
            return Some(Attr { flags, name, value: Place::Remote { valueblk, valuelen } });
        }
        let valuelen = usize::from(bytes::be16(rest, 0)?);
        let namelen = usize::from(*rest.get(2)?);
        let (name, rest) = rest.get(LOCAL_HEAD..)?.split_at_checked(namelen)?;
        Some(Attr { flags, name, value: Place::Local(rest.get(..valuelen)?) })
    }

    /// The attributes, incomplete ones too, in hash order.
    pub fn attrs(&self) -> impl Iterator<Item = Attr<'a>> + use<'a> {
        let leaf = *self;
        self.entries.iter().filter_map(move |entry| leaf.attr(entry))
    }

    /// The attributes that carry `hash`.
    pub fn run(&self, hash: u32) -> impl Iterator<Item = Attr<'a>> + use<'a> {
        let leaf = *self;
        let start = self.entries.partition_point(|e| e.hashval.get() < hash);
        let rest = self.entries.get(start..).unwrap_or(&[]);
        rest.iter()
            .take_while(move |e| e.hashval.get() == hash)
            .filter_map(move |entry| leaf.attr(entry))
    }

    /// The last entry's hash, which the parent repeats; `None` for an empty leaf.
    pub fn last_hash(&self) -> Option<u32> {
        self.entries.last().map(|entry| entry.hashval.get())
    }
}

/// Which parts of a block are taken: a bit for each 4 bytes of at most 64 KiB.
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

    /// Takes `len` bytes at `start`; false where some were taken already, or do not exist.
    fn take(&mut self, start: usize, len: usize) -> bool {
        let end = start.saturating_add(len).div_ceil(ALIGN);
        (start / ALIGN..end).fold(true, |apart, unit| {
            let bit = 1u64 << (unit % 64);
            let Some(word) = self.taken.get_mut(unit / 64) else { return false };
            let free = *word & bit == 0;
            *word |= bit;
            apart && free
        })
    }
}
