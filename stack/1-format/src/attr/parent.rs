//! Parent pointers. Each directory entry that names an inode has an attribute of that inode: its
//! name is the entry's name, its value identifies the directory.

use xfskit_units::Ino;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::attr::leaf::{Attr, AttrValue};
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;

/// The value of a parent pointer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Rec {
    /// The directory.
    pub p_ino: U64,
    /// Its generation.
    pub p_gen: U32,
}
const _: () = assert!(size_of::<Rec>() == 12);

impl Rec {
    /// Parses the pointer in `value`; `None` if it has another length.
    pub fn parse(value: &[u8]) -> Option<Self> {
        Self::read_from_bytes(value).ok()
    }

    /// Returns the directory.
    pub fn ino(&self) -> Ino {
        Ino(self.p_ino.get())
    }
}

/// Verifies an attribute of the parent namespace.
///
/// # Errors
/// The first check that fails.
pub fn verify(attr: &Attr<'_>, ctx: &Ctx<'_>) -> VerifyResult<Rec> {
    let AttrValue::Local(value) = attr.value else {
        return Err(ctx.short("attr.parent.valuelen", 0));
    };
    ctx.eq("attr.parent.valuelen", size_of::<Rec>(), value.len())?;
    let Some(rec) = Rec::parse(value) else {
        return Err(ctx.short("attr.parent.valuelen", value.len()));
    };
    let plain = !attr.name.iter().any(|&b| b == b'/' || b == 0);
    ctx.require("attr.parent.name", plain, "a name without slash and NUL", "another")?;
    let complete = !attr.is_incomplete();
    ctx.require("attr.parent.flags", complete, "a complete attribute", "an incomplete one")?;
    let known = ctx.geo.valid_ino(rec.ino());
    ctx.require("attr.parent.ino", known, "an inode number", rec.ino())?;
    Ok(rec)
}
