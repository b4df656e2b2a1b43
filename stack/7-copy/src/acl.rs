//! POSIX ACLs: the `system.posix_acl_*` attributes that programs get and set, and the text form in
//! tar archives.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Version of the attribute form.
const VERSION: u32 = 2;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The id of an entry whose tag needs none.
const NO_ID: u32 = u32::MAX;

/// One entry. The order is the one that Linux requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    id: u32,
    perm: u16,
}

/// A valid ACL: it has the three entries of the mode once each, and a mask if it has other entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

impl Acl {
    fn new(mut entries: Vec<Entry>) -> Option<Self> {
        entries.sort_unstable();
        let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
        let twice = entries.windows(2).any(|e| (e[0].tag, e[0].id) == (e[1].tag, e[1].id));
        let base = [USER_OBJ, GROUP_OBJ, OTHER].iter().all(|&tag| count(tag) == 1);
        let mask = count(MASK) == 1 || count(USER) + count(GROUP) == 0;
        (base && mask && !twice).then_some(Self(entries))
    }

    /// Decodes the value of a `system.posix_acl_*` attribute.
    pub(crate) fn from_xattr(value: &[u8]) -> Option<Self> {
        let (version, entries) = value.split_first_chunk::<4>()?;
        let (entries, []) = entries.as_chunks::<8>() else { return None };
        if u32::from_le_bytes(*version) != VERSION {
            return None;
        }
        let entry = |&[t0, t1, p0, p1, id @ ..]: &[u8; 8]| {
            let (tag, perm) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([p0, p1]));
            let id = match tag {
                USER | GROUP => u32::from_le_bytes(id),
                USER_OBJ | GROUP_OBJ | MASK | OTHER => NO_ID,
                _ => return None,
            };
            (perm <= 7).then_some(Entry { tag, id, perm })
        };
        Self::new(entries.iter().map(entry).collect::<Option<_>>()?)
    }

    /// Encodes the value of a `system.posix_acl_*` attribute.
    pub(crate) fn to_xattr(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend(entry.tag.to_le_bytes());
            value.extend(entry.perm.to_le_bytes());
            value.extend(entry.id.to_le_bytes());
        }
        value
    }

    /// Parses text such as `user::rwx,user:1000:r--,group::r-x,mask::r-x,other::---`. Entries may
    /// also be on lines of their own, and end with the number of the user or group
    /// (`user:jane:r--:1000`). Names without a number are looked up in `accounts`.
    pub(crate) fn from_text(text: &[u8], accounts: &Accounts) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "not text".to_owned())?;
        let entries = text.split([',', '\n']).map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty() && !entry.starts_with('#'));
        let entries =
            entries.map(|entry| entry_of_text(entry, accounts)).collect::<Result<Vec<_>, _>>()?;
        Self::new(entries).ok_or_else(|| "entries missing or double".to_owned())
    }

    /// Formats the ACL as text, with numbers for users and groups.
    pub(crate) fn to_text(&self) -> String {
        let entries: Vec<String> = self.0.iter().map(|entry| text_of_entry(*entry)).collect();
        entries.join(",")
    }

    /// Returns true if a mode can express it.
    pub(crate) fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// Returns the nine permission bits of the mode.
    pub(crate) fn perm(&self) -> u16 {
        let of = |tag| self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.perm);
        let group = of(MASK).or(of(GROUP_OBJ)).unwrap_or(0);
        of(USER_OBJ).unwrap_or(0) << 6 | group << 3 | of(OTHER).unwrap_or(0)
    }
}

/// Numbers of users and groups, from `passwd` and `group` of a directory, which are read when the
/// first name is looked up.
#[derive(Debug)]
pub(crate) struct Accounts {
    dir: PathBuf,
    users: OnceCell<HashMap<String, u32>>,
    groups: OnceCell<HashMap<String, u32>>,
}

impl Accounts {
    pub(crate) fn of(dir: &Path) -> Self {
        Self { dir: dir.into(), users: OnceCell::new(), groups: OnceCell::new() }
    }

    fn number(&self, user: bool, name: &str) -> Option<u32> {
        let (known, file) = if user { (&self.users, "passwd") } else { (&self.groups, "group") };
        let read = || {
            let bytes = std::fs::read(self.dir.join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let entry = |line: &str| {
                let mut fields = line.split(':');
                Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
            };
            text.lines().filter_map(entry).collect()
        };
        known.get_or_init(read).get(name).copied()
    }
}

fn entry_of_text(entry: &str, accounts: &Accounts) -> Result<Entry, String> {
    let wrong = || format!("no entry of an ACL: {entry:?}");
    let fields: Vec<&str> = entry.strip_prefix("default:").unwrap_or(entry).split(':').collect();
    let (word, name, perm, number) = match *fields {
        [word, perm] => (word, "", perm, None),
        [word, name, perm] => (word, name, perm, None),
        [word, name, perm, number] => (word, name, perm, Some(number)),
        _ => return Err(wrong()),
    };
    let tag = match (word, name.is_empty()) {
        ("user" | "u", true) => USER_OBJ,
        ("user" | "u", false) => USER,
        ("group" | "g", true) => GROUP_OBJ,
        ("group" | "g", false) => GROUP,
        ("mask" | "m", true) => MASK,
        ("other" | "o", true) => OTHER,
        _ => return Err(wrong()),
    };
    let id = match tag {
        USER | GROUP => {
            let name = number.unwrap_or(name).trim();
            let number = name.parse().ok().or_else(|| accounts.number(tag == USER, name));
            number.ok_or_else(|| format!("an ACL for {name:?}, which has no number here"))?
        }
        _ => NO_ID,
    };
    // The text after a blank is a comment (`#effective:r--`).
    let perm = perm.split_whitespace().next().unwrap_or("");
    let bits = perm.bytes().map(|b| match b {
        b'r' => Ok(4),
        b'w' => Ok(2),
        b'x' => Ok(1),
        b'-' => Ok(0),
        _ => Err(wrong()),
    });
    let perm = bits.reduce(|a, b| Ok(a? | b?)).unwrap_or(Ok(0))?;
    Ok(Entry { tag, id, perm })
}

fn text_of_entry(Entry { tag, id, perm }: Entry) -> String {
    let name = match tag {
        USER_OBJ => "user:".to_owned(),
        USER => format!("user:{id}"),
        GROUP_OBJ => "group:".to_owned(),
        GROUP => format!("group:{id}"),
        MASK => "mask:".to_owned(),
        _ => "other:".to_owned(),
    };
    let bit = |mask, c| if perm & mask != 0 { c } else { '-' };
    format!("{name}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &[u8] = b"\x02\0\0\0\
        \x01\0\x06\0\xff\xff\xff\xff\
        \x02\0\x04\0\xe8\x03\0\0\
        \x04\0\x04\0\xff\xff\xff\xff\
        \x10\0\x05\0\xff\xff\xff\xff\
        \x20\0\0\0\xff\xff\xff\xff";
    const TEXT: &str = "user::rw-,user:1000:r--,group::r--,mask::r-x,other::---";

    #[test]
    fn an_acl_reads_as_setfacl_writes_it() {
        let acl = Acl::from_xattr(VALUE).unwrap();
        assert_eq!(acl.to_text(), TEXT);
        assert_eq!(acl.to_xattr(), VALUE);
        assert_eq!((acl.perm(), acl.is_minimal()), (0o650, false));
        assert_eq!(Acl::from_xattr(&VALUE[..12]), None);
        assert_eq!(Acl::from_xattr(&VALUE[..10]), None);
        assert_eq!(Acl::from_xattr(b""), None);
    }

    #[test]
    fn the_text_forms_of_archives_are_the_same_acl() {
        let acl = Acl::from_xattr(VALUE).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("passwd"), "root:x:0:0::/:/bin/sh\njoe:x:1000:9\n").unwrap();
        let accounts = Accounts::of(dir.path());
        for text in [
            TEXT,
            "user::rw-,user:joe:r--,group::r--,mask::r-x,other::---",
            "mask::r-x\nuser::rw-\ngroup::r--\t#effective:r--\nuser:jane:r--:1000\nother::---\n",
            "u::rw,u:1000:r,g::r,m::rx,o::",
        ] {
            assert_eq!(Acl::from_text(text.as_bytes(), &accounts).as_ref(), Ok(&acl), "{text}");
        }
        for wrong in ["", "user::rw-", "user:jane:r--,user::r,group::r,mask::r,other::r", "x:y"] {
            assert!(Acl::from_text(wrong.as_bytes(), &accounts).is_err(), "{wrong}");
        }
        let minimal = Acl::from_text(b"user::rwx,group::r-x,other::r-x", &accounts).unwrap();
        assert!(minimal.is_minimal());
    }
}
