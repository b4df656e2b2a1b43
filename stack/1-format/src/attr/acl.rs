//! POSIX ACLs: the stored form, and the form that programs see.
//!
//! XFS stores an ACL big-endian as the trusted attribute [`ACCESS`] or [`DEFAULT`]: a count, then
//! entries of 12 bytes. Programs get and set `system.posix_acl_access` and `…_default` in the
//! kernel's own form, little-endian: a version, then entries of 8 bytes.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The attribute that holds the access ACL.
pub const ACCESS: &[u8] = b"SGI_ACL_FILE";
/// The attribute that holds a directory's default ACL.
pub const DEFAULT: &[u8] = b"SGI_ACL_DEFAULT";
/// The access ACL as programs name it.
pub const ACCESS_XATTR: &str = "system.posix_acl_access";
/// The default ACL as programs name it.
pub const DEFAULT_XATTR: &str = "system.posix_acl_default";
/// Version of the form that programs see.
const XATTR_VERSION: u32 = 2;

/// One entry on disk.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Entry {
    /// 1 owner, 2 a user, 4 owning group, 8 a group, 0x10 mask, 0x20 others.
    pub ae_tag: U32,
    /// The user or group; all ones if the tag implies it.
    pub ae_id: U32,
    /// Read 4, write 2, execute 1.
    pub ae_perm: U16,
    /// Zero.
    pub ae_pad: U16,
}
const _: () = assert!(size_of::<Entry>() == 12);

/// Returns the entries of an ACL as stored; `None` if count and length disagree.
pub fn entries(disk: &[u8]) -> Option<&[Entry]> {
    let (count, rest) = U32::ref_from_prefix(disk).ok()?;
    let entries = <[Entry]>::ref_from_bytes(rest).ok()?;
    (u64::from(count.get()) == entries.len() as u64).then_some(entries)
}

/// Tags of entries, in the order in which Linux wants them.
const OWNER: u32 = 0x01;
const USER: u32 = 0x02;
const OWNING_GROUP: u32 = 0x04;
const GROUP: u32 = 0x08;
const MASK: u32 = 0x10;
const OTHERS: u32 = 0x20;

/// Returns the nine permission bits of the mode that belongs to a stored ACL: those of its owner,
/// its mask (or, without one, its owning group), and others. `None` for ACLs that Linux rejects:
/// entries out of order, one of those three missing, users or groups without a mask.
pub fn perm(disk: &[u8]) -> Option<u16> {
    let entries = entries(disk)?;
    let key = |entry: &Entry| (entry.ae_tag.get(), entry.ae_id.get());
    let named = |tag: u32| matches!(tag, USER | GROUP);
    let ordered = entries.is_sorted_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0 < b.0 || (a.0 == b.0 && named(a.0) && a.1 != b.1)
    });
    let sound = |entry: &Entry| {
        let known =
            matches!(entry.ae_tag.get(), OWNER | USER | OWNING_GROUP | GROUP | MASK | OTHERS);
        known && entry.ae_perm.get() <= 7
    };
    let of = |tag| entries.iter().find(|e| e.ae_tag.get() == tag).map(|e| e.ae_perm.get());
    let has_named = entries.iter().any(|entry| named(entry.ae_tag.get()));
    if !ordered || !entries.iter().all(sound) || (has_named && of(MASK).is_none()) {
        return None;
    }
    let group = of(OWNING_GROUP)?;
    Some((of(OWNER)? << 6) | (of(MASK).unwrap_or(group) << 3) | of(OTHERS)?)
}

/// Returns true if a stored ACL expresses no more than a mode.
pub fn is_minimal(disk: &[u8]) -> bool {
    entries(disk).is_some_and(|entries| entries.len() == 3)
}

/// Returns a stored ACL with the permissions of `mode`, as after a change of its file's mode.
/// `None` if it is damaged.
pub fn with_perm(disk: &[u8], mode: u16) -> Option<Vec<u8>> {
    let entries = entries(disk)?;
    let has_mask = entries.iter().any(|entry| entry.ae_tag.get() == MASK);
    let mut changed = disk.get(..size_of::<U32>())?.to_vec();
    for entry in entries {
        let perm = match entry.ae_tag.get() {
            OWNER => (mode >> 6) & 7,
            MASK => (mode >> 3) & 7,
            OWNING_GROUP if !has_mask => (mode >> 3) & 7,
            OTHERS => mode & 7,
            _ => entry.ae_perm.get(),
        };
        changed.extend(Entry { ae_perm: U16::new(perm), ..*entry }.as_bytes());
    }
    Some(changed)
}

/// Returns the access ACL of a file created with the permissions of `mode` in a directory with this
/// stored default ACL, and the permissions that both allow. `None` if it is damaged.
pub fn inherited(default: &[u8], mode: u16) -> Option<Vec<u8>> {
    with_perm(default, perm(default)? & mode)
}

/// Converts a stored ACL to the form that programs see; `None` if it is damaged.
pub fn to_xattr(disk: &[u8]) -> Option<Vec<u8>> {
    let mut xattr = XATTR_VERSION.to_le_bytes().to_vec();
    for entry in entries(disk)? {
        let tag = u16::try_from(entry.ae_tag.get()).ok()?;
        xattr.extend(tag.to_le_bytes());
        xattr.extend(entry.ae_perm.get().to_le_bytes());
        xattr.extend(entry.ae_id.get().to_le_bytes());
    }
    Some(xattr)
}

/// Converts an ACL from the form that programs see to the stored form; `None` if it is invalid.
pub fn from_xattr(xattr: &[u8]) -> Option<Vec<u8>> {
    let (version, rest) = xattr.split_first_chunk::<4>()?;
    let (entries, []) = rest.as_chunks::<8>() else { return None };
    if u32::from_le_bytes(*version) != XATTR_VERSION {
        return None;
    }
    let mut disk = u32::try_from(entries.len()).ok()?.to_be_bytes().to_vec();
    for &[t0, t1, p0, p1, id @ ..] in entries {
        let entry = Entry {
            ae_tag: U32::new(u16::from_le_bytes([t0, t1]).into()),
            ae_id: U32::new(u32::from_le_bytes(id)),
            ae_perm: U16::new(u16::from_le_bytes([p0, p1])),
            ae_pad: U16::ZERO,
        };
        disk.extend(entry.as_bytes());
    }
    Some(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `user::rw-, user:1000:r-x, group::r--, mask::rwx, other::r--` as Linux stores it.
    const DISK: &[u8] = b"\0\0\0\x05\0\0\0\x01\xff\xff\xff\xff\0\x06\0\0\0\0\0\x02\0\0\x03\xe8\
        \0\x05\0\0\0\0\0\x04\xff\xff\xff\xff\0\x04\0\0\0\0\0\x10\xff\xff\xff\xff\0\x07\0\0\
        \0\0\0\x20\xff\xff\xff\xff\0\x04\0\0";

    #[test]
    fn an_acl_survives_conversion_to_xattr_form_and_back() {
        let xattr = to_xattr(DISK).unwrap();
        assert_eq!(xattr.len(), 4 + 5 * 8);
        assert_eq!(&xattr[..12], b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff");
        assert_eq!(&xattr[12..20], b"\x02\0\x05\0\xe8\x03\0\0");
        assert_eq!(from_xattr(&xattr).unwrap(), DISK);
    }

    #[test]
    fn an_acl_and_a_mode_go_together() {
        assert_eq!(perm(DISK), Some(0o674));
        assert!(!is_minimal(DISK));
        let changed = with_perm(DISK, 0o100_751).unwrap();
        assert_eq!(perm(&changed), Some(0o751));
        // The user's own entry and the group's stay.
        assert_eq!(entries(&changed).unwrap()[1..3], entries(DISK).unwrap()[1..3]);
        let minimal =
            with_perm(&[&[0, 0, 0, 3], &DISK[4..16], &DISK[28..40], &DISK[52..]].concat(), 0o640);
        assert!(is_minimal(minimal.as_ref().unwrap()));
        assert_eq!(perm(&minimal.unwrap()), Some(0o640));
        // Without its mask, its owner, its others; out of order; with a permission too many.
        assert_eq!(perm(&[&[0, 0, 0, 4], &DISK[4..40], &DISK[52..]].concat()), None);
        assert_eq!(perm(&[&[0, 0, 0, 4], &DISK[16..]].concat()), None);
        assert_eq!(perm(&[&[0, 0, 0, 4], &DISK[4..52]].concat()), None);
        assert_eq!(perm(&[&[0, 0, 0, 5], &DISK[16..], &DISK[4..16]].concat()), None);
        let mut much = DISK.to_vec();
        much[13] = 8;
        assert_eq!(perm(&much), None);
    }

    #[test]
    fn an_inherited_acl_allows_the_requested_permissions() {
        let access = inherited(DISK, 0o100_752).unwrap();
        assert_eq!(perm(&access), Some(0o650));
        assert_eq!(entries(&access).unwrap()[1..3], entries(DISK).unwrap()[1..3]);
        assert_eq!(inherited(&DISK[..DISK.len() - 1], 0o777), None);
    }

    #[test]
    fn a_damaged_acl_yields_none() {
        assert_eq!(to_xattr(&DISK[..DISK.len() - 1]), None);
        assert_eq!(to_xattr(b"\xff\xff\xff\xff"), None);
        assert_eq!(from_xattr(b"\x01\0\0\0"), None);
        assert_eq!(from_xattr(b"\x02\0\0\0\x01"), None);
    }
}
