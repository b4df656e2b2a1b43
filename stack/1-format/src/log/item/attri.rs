//! ATTRI: the intent to set, remove or replace an attribute or a parent pointer.
//!
//! The first region names the operation. Names and values follow in regions of their own, padded to
//! four bytes.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::exactly;
use crate::attr::Namespace;
use crate::bytes::round_up;
use crate::corruption::{Expected, VerifyResult};
use crate::ctx::Ctx;

/// The first region.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AttriFormat {
    /// [`kind::ATTRI`](super::kind::ATTRI).
    pub r#type: U16,
    /// Regions of the item.
    pub size: U16,
    /// Generation of the inode, for parent pointers.
    pub igen: U32,
    /// Id of the intent.
    pub id: U64,
    /// Inode that has the attribute.
    pub ino: U64,
    /// 1 set, 2 remove, 3 replace; 4, 5, 6 the same with a parent pointer. See [`AttrOp`].
    pub op_flags: U32,
    /// Bytes of the name; for [`AttrOp::ParentReplace`] old length low, new length high.
    pub name_len: U32,
    /// Bytes of the value.
    pub value_len: U32,
    /// Namespace: 2 root, 4 secure, 8 parent; 0x80 incomplete.
    pub attr_filter: U32,
}
const _: () = assert!(size_of::<AttriFormat>() == 40);

/// The operation on an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrOp {
    /// Set.
    Set,
    /// Remove.
    Remove,
    /// Replace.
    Replace,
    /// Add a parent pointer.
    ParentSet,
    /// Remove a parent pointer.
    ParentRemove,
    /// Change a parent pointer.
    ParentReplace,
}

/// A decoded attribute intent, with owned names and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attri {
    /// The first region.
    pub format: AttriFormat,
    /// The operation.
    pub op: AttrOp,
    /// The name; for [`AttrOp::ParentReplace`] the old one.
    pub name: Vec<u8>,
    /// The value; for [`AttrOp::ParentReplace`] the old one.
    pub value: Vec<u8>,
    /// [`AttrOp::ParentReplace`]: the new name.
    pub new_name: Vec<u8>,
    /// [`AttrOp::ParentReplace`]: the new value.
    pub new_value: Vec<u8>,
}

impl AttriFormat {
    /// Returns the operation; `None` if it is unknown.
    pub fn op(&self) -> Option<AttrOp> {
        Some(match self.op_flags.get() {
            1 => AttrOp::Set,
            2 => AttrOp::Remove,
            3 => AttrOp::Replace,
            4 => AttrOp::ParentSet,
            5 => AttrOp::ParentRemove,
            6 => AttrOp::ParentReplace,
            _ => return None,
        })
    }
}

impl Attri {
    /// Returns the namespace of the attribute; `None` if it is unknown.
    pub fn namespace(&self) -> Option<Namespace> {
        Namespace::from_flags(u8::try_from(self.format.attr_filter.get()).ok()?)
    }
}

/// Decodes the regions of an ATTRI.
pub(super) fn decode(regions: &[&[u8]], ctx: &Ctx<'_>) -> VerifyResult<Attri> {
    let mut regions = regions.iter().copied();
    let format: &AttriFormat = exactly(regions.next().unwrap_or_default(), "log.attri.len", ctx)?;
    let Some(op) = format.op() else {
        let known = Expected::Between(1u8.into(), 6u8.into());
        return Err(ctx.corruption("log.attri.op_flags", known, format.op_flags.get()));
    };
    let mut next = |check, len: usize| part(check, &mut regions, len, ctx);
    let (name_len, value_len) = (format.name_len.get(), format.value_len.get() as usize);
    let (mut new_name, mut new_value) = (Vec::new(), Vec::new());
    let name;
    if op == AttrOp::ParentReplace {
        name = next("log.attri.old_name", (name_len & 0xffff) as usize)?;
        new_name = next("log.attri.new_name", (name_len >> 16) as usize)?;
    } else {
        name = next("log.attri.name", name_len as usize)?;
    }
    let value = if value_len > 0 { next("log.attri.value", value_len)? } else { Vec::new() };
    if op == AttrOp::ParentReplace {
        new_value = next("log.attri.new_value", value_len)?;
    }
    Ok(Attri { format: format.clone(), op, name, value, new_name, new_value })
}

/// Returns the next region, `len` bytes padded to four.
fn part<'a>(
    check: &'static str,
    regions: &mut impl Iterator<Item = &'a [u8]>,
    len: usize,
    ctx: &Ctx<'_>,
) -> VerifyResult<Vec<u8>> {
    let region = regions.next().unwrap_or_default();
    ctx.eq(check, round_up(len, 4), region.len())?;
    Ok(region.get(..len).unwrap_or_default().to_vec())
}
