//! Ids in extended attributes: of named users and groups in ACLs, and of the root user that
//! capabilities are for.

use rustix::io::Errno;
use xfskit_format::attr::acl::{ACCESS_XATTR, DEFAULT_XATTR};

use super::{IdMap, Ids};
use crate::operations::Reply;

/// The attribute with a program's capabilities.
const CAPABILITY: &[u8] = b"security.capability";

/// Bytes of the version before the entries of an ACL.
const VERSION: usize = 4;
/// Tag, permissions and id of an entry.
type Entry = [u8; 8];
/// Tags of entries with an id, and of the mask.
const USER: u16 = 2;
const GROUP: u16 = 8;
const MASK: u16 = 16;

/// Versions of capabilities, in the upper byte of their first word: without and with the user who
/// is root where they have effect.
const WITHOUT_ROOT: u8 = 2;
const WITH_ROOT: u8 = 3;
/// Bytes of capabilities before that user.
const SETS: usize = 20;

/// Returns true for an attribute with an ACL.
pub(super) fn is_acl(name: &[u8]) -> bool {
    [ACCESS_XATTR, DEFAULT_XATTR].iter().any(|acl| acl.as_bytes() == name)
}

/// Returns true for the attribute with capabilities.
pub(super) fn is_capability(name: &[u8]) -> bool {
    name == CAPABILITY
}

/// Returns the entries of an ACL in the form that programs see.
fn entries(acl: &[u8]) -> Option<&[Entry]> {
    match acl.get(VERSION..)?.as_chunks() {
        (entries, []) => Some(entries),
        _ => None,
    }
}

fn tag([low, high, ..]: Entry) -> u16 {
    u16::from_le_bytes([low, high])
}

fn id([.., a, b, c, d]: Entry) -> u32 {
    u32::from_le_bytes([a, b, c, d])
}

fn with_id([a, b, c, d, ..]: Entry, id: u32) -> Entry {
    let [e, f, g, h] = id.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

impl IdMap {
    /// Returns the map for entries with this tag; `None` if they have no id.
    fn of_tag(&self, tag: u16) -> Option<&Ids> {
        match tag {
            USER => Some(&self.users),
            GROUP => Some(&self.groups),
            _ => None,
        }
    }

    /// Returns an entry with its id translated; `None` outside of all ranges.
    fn entry(&self, entry: Entry, translate: fn(&Ids, u32) -> Option<u32>) -> Option<Entry> {
        match self.of_tag(tag(entry)) {
            Some(ids) => translate(ids, id(entry)).map(|id| with_id(entry, id)),
            None => Some(entry),
        }
    }

    /// Returns an ACL of the volume as it is shown: without the entries of unmapped users and
    /// groups, which are equal to no user's.
    pub(super) fn acl_shown(&self, acl: &[u8]) -> Vec<u8> {
        let Some(entries) = entries(acl) else { return acl.to_vec() };
        let shown = entries.iter().filter_map(|&entry| self.entry(entry, Ids::shown));
        joined(acl, shown.collect())
    }

    /// Returns an ACL for the volume, in the place of `before`. The entries of `before` that are
    /// not shown stay, unless the new ACL says no more than a mode.
    ///
    /// # Errors
    /// `EINVAL` for a user or group that is not mapped, as on idmapped mounts of Linux.
    pub(super) fn acl_in_volume(&self, acl: &[u8], before: &[u8]) -> Reply<Vec<u8>> {
        let Some(new) = entries(acl) else { return Ok(acl.to_vec()) };
        let mapped = new.iter().map(|&entry| self.entry(entry, Ids::in_volume));
        let mut mapped: Vec<Entry> = mapped.collect::<Option<_>>().ok_or(Errno::INVAL)?;
        if mapped.iter().any(|&entry| tag(entry) == MASK) {
            let old = entries(before).unwrap_or_default();
            mapped.extend(old.iter().filter(|&&entry| self.entry(entry, Ids::shown).is_none()));
        }
        Ok(joined(acl, mapped))
    }

    /// Returns capabilities of the volume as they are shown: with the user who is root in the
    /// volume, if that is not root here. Linux gives a program capabilities only where that user
    /// is root.
    ///
    /// # Errors
    /// `EOVERFLOW` if root of the volume is not mapped.
    pub(super) fn capability_shown(&self, value: &[u8]) -> Reply<Vec<u8>> {
        with_root(value, |root| self.users.shown(root)).ok_or(Errno::OVERFLOW)
    }

    /// Returns capabilities for the volume.
    ///
    /// # Errors
    /// `EPERM` if the user who is to be root is not mapped.
    pub(super) fn capability_in_volume(&self, value: &[u8]) -> Reply<Vec<u8>> {
        with_root(value, |root| self.users.in_volume(root)).ok_or(Errno::PERM)
    }
}

/// Returns an ACL with these entries, in the order in which Linux wants them.
fn joined(acl: &[u8], mut entries: Vec<Entry>) -> Vec<u8> {
    entries.sort_by_key(|&entry| (tag(entry), id(entry)));
    let mut joined = acl[..VERSION].to_vec();
    joined.extend(entries.as_flattened());
    joined
}

/// Returns capabilities with their root user translated, or `None`. Values that are none pass.
fn with_root(value: &[u8], translate: impl Fn(u32) -> Option<u32>) -> Option<Vec<u8>> {
    let root = match (value.get(3), value.len()) {
        (Some(&WITHOUT_ROOT), SETS) => 0,
        (Some(&WITH_ROOT), len) if len == SETS + 4 => {
            u32::from_le_bytes(*value[SETS..].first_chunk()?)
        }
        _ => return Some(value.to_vec()),
    };
    let root = translate(root)?;
    let mut translated = value[..SETS].to_vec();
    translated[3] = if root == 0 { WITHOUT_ROOT } else { WITH_ROOT };
    if root != 0 {
        translated.extend(root.to_le_bytes());
    }
    Some(translated)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACL with these tags and ids; each entry may read.
    fn acl(of: &[(u16, u32)]) -> Vec<u8> {
        let mut acl = vec![2, 0, 0, 0];
        for (tag, id) in of {
            acl.extend(tag.to_le_bytes());
            acl.extend([4, 0]);
            acl.extend(id.to_le_bytes());
        }
        acl
    }

    const NONE: u32 = u32::MAX;

    #[test]
    fn named_users_and_groups_of_an_acl_are_mapped() {
        let map: IdMap = "u:5:1005:1 u:6:1000:1 g:5:2005:1".parse().unwrap();
        let volume = acl(&[(1, NONE), (2, 5), (2, 6), (4, NONE), (8, 5), (16, NONE), (32, NONE)]);
        let shown =
            acl(&[(1, NONE), (2, 1000), (2, 1005), (4, NONE), (8, 2005), (16, NONE), (32, NONE)]);
        assert_eq!(map.acl_shown(&volume), shown);
        assert_eq!(map.acl_in_volume(&shown, &volume), Ok(volume));
    }

    #[test]
    fn entries_that_are_not_shown_stay_when_an_acl_is_set() {
        let map: IdMap = "b:0:1000:1".parse().unwrap();
        let before = acl(&[(1, NONE), (2, 0), (2, 7), (4, NONE), (8, 8), (16, NONE), (32, NONE)]);
        let shown = acl(&[(1, NONE), (2, 1000), (4, NONE), (16, NONE), (32, NONE)]);
        assert_eq!(map.acl_shown(&before), shown);
        let set = acl(&[(1, NONE), (4, NONE), (16, NONE), (32, NONE)]);
        let after = acl(&[(1, NONE), (2, 7), (4, NONE), (8, 8), (16, NONE), (32, NONE)]);
        assert_eq!(map.acl_in_volume(&set, &before), Ok(after));
        // What says no more than a mode takes them away.
        let minimal = acl(&[(1, NONE), (4, NONE), (32, NONE)]);
        assert_eq!(map.acl_in_volume(&minimal, &before), Ok(minimal));
        let unmapped = acl(&[(1, NONE), (2, 5), (4, NONE), (16, NONE), (32, NONE)]);
        assert_eq!(map.acl_in_volume(&unmapped, &before), Err(Errno::INVAL));
        assert_eq!(map.acl_in_volume(b"\x02\0\0\0\x01", &[]), Ok(b"\x02\0\0\0\x01".to_vec()));
    }

    #[test]
    fn capabilities_have_the_user_who_is_root_in_the_volume() {
        let map: IdMap = "b:0:1000:1".parse().unwrap();
        let mut plain = [0; SETS];
        (plain[3], plain[5]) = (WITHOUT_ROOT, 4);
        let mut rooted = [&plain[..], &1000_u32.to_le_bytes()].concat();
        rooted[3] = WITH_ROOT;
        assert_eq!(map.capability_shown(&plain), Ok(rooted.clone()));
        assert_eq!(map.capability_in_volume(&rooted), Ok(plain.to_vec()));
        // Root here is not mapped.
        assert_eq!(map.capability_in_volume(&plain), Err(Errno::PERM));
        let map: IdMap = "b:5:1000:1".parse().unwrap();
        assert_eq!(map.capability_shown(&plain), Err(Errno::OVERFLOW));
        assert_eq!(map.capability_shown(b"none"), Ok(b"none".to_vec()));
    }
}
