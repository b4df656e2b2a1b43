//! Extended attributes: names to small values, per inode, in an attribute fork.
//!
//! | form | location |
//! | --- | --- |
//! | short form ([`sf`]) | in the inode itself |
//! | leaf ([`leaf`]) | one block |
//! | node ([`da`](crate::da), [`leaf`]) | a btree of such blocks, by the name's hash |
//!
//! A value too large for its leaf is stored in blocks of its own ([`remote`]). Two kinds of
//! attributes have a meaning to the filesystem: ACLs ([`acl`]) and parent pointers ([`parent`]).
//! [`forkoff`] divides the inode between its two forks.

use serde::Serialize;
use xfskit_units::Geometry;

use crate::corruption::{Value, VerifyResult};
use crate::ctx::Ctx;

pub mod acl;
pub mod forkoff;
pub mod leaf;
pub mod leaf_edit;
pub mod parent;
pub mod remote;
pub mod remote_edit;
pub mod sf;
pub mod sf_edit;

/// The value is stored in the leaf itself.
pub const LOCAL: u8 = 0x01;
/// Namespace `trusted`.
pub const ROOT: u8 = 0x02;
/// Namespace `security`.
pub const SECURE: u8 = 0x04;
/// A parent pointer.
pub const PARENT: u8 = 0x08;
/// Being created or removed: readers ignore the attribute.
pub const INCOMPLETE: u8 = 0x80;
/// The bits that choose the namespace.
pub const NAMESPACE: u8 = ROOT | SECURE | PARENT;

/// Longest value, in bytes.
pub const VALUE_MAX: u32 = 65536;

/// The namespace of a name. The same name may exist in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    /// `user.`
    User,
    /// `trusted.`; ACLs too are stored here.
    Trusted,
    /// `security.`
    Secure,
    /// Parent pointers; programs do not see them.
    Parent,
}

impl Namespace {
    /// Returns the namespace that the flag byte of an attribute names; `None` if it names two.
    pub const fn from_flags(flags: u8) -> Option<Self> {
        match flags & NAMESPACE {
            0 => Some(Self::User),
            ROOT => Some(Self::Trusted),
            SECURE => Some(Self::Secure),
            PARENT => Some(Self::Parent),
            _ => None,
        }
    }

    /// Returns the bit of the flag byte.
    pub const fn flags(self) -> u8 {
        match self {
            Self::User => 0,
            Self::Trusted => ROOT,
            Self::Secure => SECURE,
            Self::Parent => PARENT,
        }
    }

    /// Returns the prefix that programs write before the name; parent pointers have none.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::User => "user.",
            Self::Trusted => "trusted.",
            Self::Secure => "security.",
            Self::Parent => "",
        }
    }
}

/// Returns false if the flag byte holds bits beyond `allowed`, two namespaces, or a parent pointer
/// on a volume without them.
pub(crate) fn flags_are_valid(geo: &Geometry, flags: u8, allowed: u8) -> bool {
    let parent_ok = flags & PARENT == 0 || geo.features.parent();
    flags & !allowed == 0 && Namespace::from_flags(flags).is_some() && parent_ok
}

/// Fails if the flag byte holds bits beyond `allowed`, two namespaces, or a parent pointer on a
/// volume without them.
pub(crate) fn verify_flags(
    ctx: &Ctx<'_>,
    check: &'static str,
    flags: u8,
    allowed: u8,
) -> VerifyResult {
    let ok = flags_are_valid(ctx.geo, flags, allowed);
    ctx.require(check, ok, "known flags, one namespace at most", Value::Hex(flags.into()))
}

#[cfg(test)]
mod tests;
