//! POSIX access control lists.

use xfskit_core::Error as Core;
use xfskit_format::attr::acl;
use xfskit_vfs as vfs;

/// Version of the form in which an attribute holds an ACL.
const VERSION: u32 = 2;
/// The id of an entry whose tag implies it.
const NO_ID: u32 = u32::MAX;

/// A POSIX ACL: an access ACL, or the default ACL of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<AclEntry>,
}

/// One entry of an [`Acl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Which users the entry is about.
    pub tag: AclTag,
    /// What they may: read 4, write 2, execute 1.
    pub perm: u8,
}

/// Which users an [`AclEntry`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclTag {
    /// The owner of the file.
    UserObj,
    /// The user with this number.
    User(u32),
    /// The group of the file.
    GroupObj,
    /// The group with this number.
    Group(u32),
    /// The most that users, groups and the file's group may.
    Mask,
    /// All others.
    Other,
}

impl AclTag {
    fn number(self) -> (u16, u32) {
        match self {
            Self::UserObj => (0x01, NO_ID),
            Self::User(uid) => (0x02, uid),
            Self::GroupObj => (0x04, NO_ID),
            Self::Group(gid) => (0x08, gid),
            Self::Mask => (0x10, NO_ID),
            Self::Other => (0x20, NO_ID),
        }
    }

    fn from_number(tag: u16, id: u32) -> Option<Self> {
        Some(match tag {
            0x01 => Self::UserObj,
            0x02 => Self::User(id),
            0x04 => Self::GroupObj,
            0x08 => Self::Group(id),
            0x10 => Self::Mask,
            0x20 => Self::Other,
            _ => return None,
        })
    }
}

impl Acl {
    /// Returns the ACL with these entries, in any order. Whether it is complete is verified when it
    /// is set.
    pub fn new(entries: impl IntoIterator<Item = AclEntry>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by_key(|entry| entry.tag.number());
        Self { entries }
    }

    /// Returns the entries, in the order of the disk.
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    /// Returns the value of the attribute that holds the ACL.
    pub(crate) fn to_xattr(&self) -> Vec<u8> {
        let mut xattr = VERSION.to_le_bytes().to_vec();
        for AclEntry { tag, perm } in &self.entries {
            let (tag, id) = tag.number();
            xattr.extend(tag.to_le_bytes());
            xattr.extend(u16::from(*perm).to_le_bytes());
            xattr.extend(id.to_le_bytes());
        }
        xattr
    }

    /// Returns the ACL that an attribute holds.
    pub(crate) fn from_xattr(xattr: &[u8]) -> vfs::Result<Self> {
        let damaged = || vfs::Error::Core(Core::Limit("the value is no POSIX ACL"));
        let disk = acl::from_xattr(xattr).ok_or_else(damaged)?;
        let entry = |entry: &acl::Entry| {
            let tag = u16::try_from(entry.ae_tag.get()).ok()?;
            let tag = AclTag::from_number(tag, entry.ae_id.get())?;
            Some(AclEntry { tag, perm: u8::try_from(entry.ae_perm.get()).ok()? })
        };
        let entries = acl::entries(&disk).ok_or_else(damaged)?;
        let entries: Option<Vec<_>> = entries.iter().map(entry).collect();
        Ok(Self { entries: entries.ok_or_else(damaged)? })
    }
}
