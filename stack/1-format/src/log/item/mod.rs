//! Log items: the changes that a transaction records.
//!
//! An item consists of a few regions. The first begins with two 16-bit words, the item's type and
//! its number of regions; [`Item::decode`] decodes the regions by type.
//!
//! | module | items |
//! | --- | --- |
//! | [`buf`] | BUF: changed 128-byte chunks of a buffer, or its cancellation |
//! | [`inode`] | INODE: the core and the changed forks of an inode |
//! | [`icreate`] | ICREATE: a new chunk of inodes |
//! | [`dquot`] | DQUOT, QUOTAOFF: quota records, which recovery here skips |
//! | [`intent`] | EFI, RUI, CUI, BUI, XMI and all done items |
//! | [`attri`] | ATTRI: intents to set or remove an attribute or parent pointer |
//! | [`encode`] | encodes items of changed blocks and inodes |

pub mod attri;
pub mod buf;
pub mod dquot;
pub mod encode;
pub mod icreate;
pub mod inode;
pub mod intent;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes;
use crate::corruption::{Expected, Value, VerifyResult};
use crate::ctx::Ctx;

pub use buf::Buf;
pub use dquot::{Dquot, Quotaoff};
pub use icreate::Icreate;
pub use inode::Inode;
pub use intent::{Done, Family, Intent};

/// Most regions an item may have.
pub const REGIONS_MAX: u16 = 257;

/// The types of items.
pub mod kind {
    /// Extent-free intent.
    pub const EFI: u16 = 0x1236;
    /// Extent-free done.
    pub const EFD: u16 = 0x1237;
    /// Inode.
    pub const INODE: u16 = 0x123b;
    /// Buffer.
    pub const BUF: u16 = 0x123c;
    /// Quota record.
    pub const DQUOT: u16 = 0x123d;
    /// Quota turned off.
    pub const QUOTAOFF: u16 = 0x123e;
    /// Inode chunk made.
    pub const ICREATE: u16 = 0x123f;
    /// Reverse-mapping update intent.
    pub const RUI: u16 = 0x1240;
    /// Reverse-mapping update done.
    pub const RUD: u16 = 0x1241;
    /// Reference-count update intent.
    pub const CUI: u16 = 0x1242;
    /// Reference-count update done.
    pub const CUD: u16 = 0x1243;
    /// Block-map update intent.
    pub const BUI: u16 = 0x1244;
    /// Block-map update done.
    pub const BUD: u16 = 0x1245;
    /// Attribute intent.
    pub const ATTRI: u16 = 0x1246;
    /// Attribute done.
    pub const ATTRD: u16 = 0x1247;
    /// Mapping-exchange intent.
    pub const XMI: u16 = 0x1248;
    /// Mapping-exchange done.
    pub const XMD: u16 = 0x1249;
    /// Extent-free intent on the realtime device.
    pub const EFI_RT: u16 = 0x124a;
    /// Extent-free done on the realtime device.
    pub const EFD_RT: u16 = 0x124b;
    /// Reverse-mapping update intent on the realtime device.
    pub const RUI_RT: u16 = 0x124c;
    /// Reverse-mapping update done on the realtime device.
    pub const RUD_RT: u16 = 0x124d;
    /// Reference-count update intent on the realtime device.
    pub const CUI_RT: u16 = 0x124e;
    /// Reference-count update done on the realtime device.
    pub const CUD_RT: u16 = 0x124f;
}

/// A receiver of the regions of items, in order: the payload of a checkpoint.
pub trait Regions {
    /// Adds a region: the concatenation of `parts`, padded with zeroes to a multiple of four bytes.
    fn region(&mut self, parts: &[&[u8]]);
}

impl Regions for Vec<Vec<u8>> {
    fn region(&mut self, parts: &[&[u8]]) {
        let mut region = parts.concat();
        region.resize(region.len().next_multiple_of(4), 0);
        self.push(region);
    }
}

/// One decoded item.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// Changed chunks of a buffer.
    Buf(Buf<'a>),
    /// An inode.
    Inode(Box<Inode<'a>>),
    /// A new inode chunk.
    Icreate(&'a Icreate),
    /// A quota record.
    Dquot(Dquot<'a>),
    /// Quota turned off.
    Quotaoff(&'a Quotaoff),
    /// An intent.
    Intent(Intent),
    /// A done item.
    Done(Done),
}

/// Returns the number of regions of the item that begins with `region`, itself included.
///
/// # Errors
/// If the region is too short, or the number lies outside `1..=257`.
pub fn region_count(region: &[u8], ctx: &Ctx<'_>) -> VerifyResult<usize> {
    let Some(count) = bytes::le16(region, 2) else {
        return Err(ctx.short("log.item.type", region.len()));
    };
    ctx.within("log.item.size", 1..=REGIONS_MAX, count)?;
    Ok(count.into())
}

impl<'a> Item<'a> {
    /// Decodes `regions`, all regions of one item.
    ///
    /// # Errors
    /// The first check that fails; `log.item.type` for an unknown type.
    pub fn decode(regions: &'a [&'a [u8]], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        let first = regions.first().copied().unwrap_or_default();
        let Some(kind) = bytes::le16(first, 0) else {
            return Err(ctx.short("log.item.type", first.len()));
        };
        Ok(match kind {
            kind::BUF => Self::Buf(Buf::decode(regions, ctx)?),
            kind::INODE => Self::Inode(Box::new(Inode::decode(regions, ctx)?)),
            kind::ICREATE => Self::Icreate(exactly(first, "log.icreate.len", ctx)?),
            kind::DQUOT => Self::Dquot(Dquot::decode(regions, ctx)?),
            kind::QUOTAOFF => Self::Quotaoff(exactly(first, "log.quotaoff.len", ctx)?),
            kind::ATTRI => Self::Intent(Intent::of_attr(attri::decode(regions, ctx)?)),
            _ => intent::decode(kind, first, ctx)?.ok_or_else(|| {
                let known = Expected::Described("a known item type".into());
                ctx.corruption("log.item.type", known, Value::Hex(kind.into()))
            })?,
        })
    }
}

/// Returns `region` as a structure of exactly its length.
fn exactly<'a, T>(region: &'a [u8], check: &'static str, ctx: &Ctx<'_>) -> VerifyResult<&'a T>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_bytes(region)
        .map_err(|_| ctx.corruption(check, Expected::Exactly(size_of::<T>().into()), region.len()))
}

/// Returns the structure that `region` begins with, and what follows it.
fn prefix<'a, T>(
    region: &'a [u8],
    check: &'static str,
    ctx: &Ctx<'_>,
) -> VerifyResult<(&'a T, &'a [u8])>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(region)
        .map_err(|_| ctx.corruption(check, Expected::AtLeast(size_of::<T>().into()), region.len()))
}

/// Splits the regions of a transaction, those after its header, into items; ends after the first
/// bad one. Entry `index` of a report is the first region of the item.
pub fn split<'a>(
    regions: &'a [&'a [u8]],
    ctx: &Ctx<'_>,
) -> impl Iterator<Item = VerifyResult<&'a [&'a [u8]]>> {
    let mut next = Some(0usize);
    std::iter::from_fn(move || {
        let rest = regions.get(next?..)?;
        let first = rest.first()?;
        let ctx = ctx.entry(next?);
        let item = region_count(first, &ctx).and_then(|count| {
            rest.get(..count).ok_or_else(|| {
                let there = Expected::AtMost(rest.len().into());
                ctx.corruption("log.item.size", there, count)
            })
        });
        next = item.as_ref().ok().and_then(|item| next?.checked_add(item.len()));
        Some(item)
    })
}

#[cfg(test)]
mod tests;
