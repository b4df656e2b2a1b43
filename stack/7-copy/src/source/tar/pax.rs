//! Records in front of a member: `LENGTH KEY=VALUE
//! `, one after the other.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use xfskit_format::timestamp::Timestamp;

use super::Problem;

/// The last record of each key; `None` for a record that removes an earlier one.
type Table = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The records of one member, on top of those of the whole archive.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// Shared by all members, because they may be many and long.
    globals: Arc<Table>,
    own: Table,
    /// Ranges of a sparse file in GNU's form 0.0, whose records repeat.
    pub(super) ranges: Vec<u64>,
}

/// Keys of records that are kept. A tree has no use for any other.
const KEYS: [&[u8]; 10] = [
    b"path",
    b"linkpath",
    b"size",
    b"uid",
    b"gid",
    b"mtime",
    b"atime",
    SELINUX,
    ACL_ACCESS,
    ACL_DEFAULT,
];
/// Prefixes of other keys that are kept.
const PREFIXES: [&[u8]; 3] = [b"GNU.sparse.", XATTR, XATTR_BASE64];

const XATTR: &[u8] = b"SCHILY.xattr.";
const XATTR_BASE64: &[u8] = b"LIBARCHIVE.xattr.";
const SELINUX: &[u8] = b"RHT.security.selinux";
/// The access ACL, as text.
pub(super) const ACL_ACCESS: &[u8] = b"SCHILY.acl.access";
/// The default ACL, as text.
pub(super) const ACL_DEFAULT: &[u8] = b"SCHILY.acl.default";

impl Records {
    /// Returns a member's records, none yet, on top of these, which are the archive's.
    pub(super) fn of_member(&self) -> Self {
        Self { globals: Arc::clone(&self.globals), ..Self::default() }
    }

    /// Adds the records in `bytes` to those of the whole archive.
    pub(super) fn read_global(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let mut read = Self::default();
        read.read(bytes)?;
        Arc::make_mut(&mut self.globals).extend(read.own);
        Ok(())
    }

    /// Adds the records in `bytes`. One without a value removes an earlier one.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        while !bytes.is_empty() && bytes[0] != 0 {
            let wrong = || "an extended header has data that is not a record".to_owned();
            let digits = bytes.iter().position(|&b| b == b' ').ok_or_else(wrong)?;
            let len = decimal(&bytes[..digits]).ok_or_else(wrong)?;
            let len = usize::try_from(len).map_err(|_| wrong())?;
            let record = bytes.get(digits + 1..len).ok_or_else(wrong)?;
            let record = record.strip_suffix(b"\n").ok_or_else(wrong)?;
            let equals = record.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
            self.add(&record[..equals], &record[equals + 1..])?;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), Problem> {
        if matches!(key, b"GNU.sparse.offset" | b"GNU.sparse.numbytes") {
            let number = decimal(value).ok_or("a sparse map has an entry that is not a number")?;
            self.ranges.push(number);
        } else if KEYS.contains(&key) || PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
            let is_value = !value.is_empty() || key.starts_with(XATTR);
            self.own.insert(key.to_vec(), is_value.then(|| value.to_vec()));
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.own.get(key).or_else(|| self.globals.get(key))?.as_deref()
    }

    pub(super) fn number(&self, key: &[u8]) -> Result<Option<u64>, Problem> {
        self.get(key).map(|value| decimal(value).ok_or_else(|| wrong(key, value))).transpose()
    }

    pub(super) fn time(&self, key: &[u8]) -> Result<Option<Timestamp>, Problem> {
        self.get(key).map(|value| time(value).ok_or_else(|| wrong(key, value))).transpose()
    }

    /// Returns records whose keys begin with `prefix`, with the rest of the key.
    fn with<'r>(&'r self, prefix: &'static [u8]) -> impl Iterator<Item = (&'r [u8], &'r [u8])> {
        let of = move |table: &'r Table| {
            let from = (Bound::Included(prefix), Bound::Unbounded);
            let records = table.range::<[u8], _>(from).map(|(key, value)| (&**key, value));
            records.take_while(move |(key, _)| key.starts_with(prefix))
        };
        let globals = of(&self.globals).filter(|(key, _)| !self.own.contains_key(*key));
        let records = globals.chain(of(&self.own));
        records.filter_map(move |(key, value)| Some((&key[prefix.len()..], value.as_deref()?)))
    }

    /// Returns the bytes of extended attributes and ACLs, with their names.
    pub(super) fn xattr_bytes(&self) -> u64 {
        let all = [XATTR_BASE64, SELINUX, XATTR, b"SCHILY.acl."].into_iter();
        all.flat_map(|prefix| self.with(prefix))
            .map(|(key, value)| key.len() + value.len())
            .sum::<usize>() as u64
    }

    /// Returns extended attributes under the names that programs use. Of several forms of one
    /// attribute the last counts.
    pub(super) fn xattrs(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + '_ {
        let libarchive = self
            .with(XATTR_BASE64)
            .filter_map(|(name, value)| Some((unescaped(name), base64(value)?)));
        // A stored label ends with a zero.
        let selinux = self
            .with(SELINUX)
            .map(|(_, value)| (b"security.selinux".to_vec(), [value, &b"\0"[..]].concat()));
        let schily = self.with(XATTR).map(|(name, value)| (unescaped(name), value.to_vec()));
        libarchive.chain(selinux).chain(schily)
    }
}

fn wrong(key: &[u8], value: &[u8]) -> Problem {
    format!("{} is {}", String::from_utf8_lossy(key), value.escape_ascii())
}

/// Parses a number of at most 20 digits and nothing else.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, b| match b {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

/// Parses seconds with a fraction, of which nine digits count. Before 1970 the number as a whole is
/// negative.
fn time(value: &[u8]) -> Option<Timestamp> {
    let (negative, value) = match value.strip_prefix(b"-") {
        Some(value) => (true, value),
        None => (false, value),
    };
    let mut halves = value.splitn(2, |&b| b == b'.');
    let sec = i64::try_from(decimal(halves.next()?)?).ok()?;
    let fraction = halves.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |i| fraction.get(i).map_or(0, |&b| u32::from(b - b'0'));
    let nsec = (0..9).fold(0, |nsec, i| nsec * 10 + digit(i));
    Some(match (negative, nsec) {
        (false, _) => Timestamp { sec, nsec },
        (true, 0) => Timestamp { sec: -sec, nsec },
        (true, _) => Timestamp { sec: -sec - 1, nsec: 1_000_000_000 - nsec },
    })
}

/// Replaces `%3D` and the like by its byte, because a key cannot have `=`.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let hex = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        if escaped.is_some() {
            rest = &after[2..];
        }
        plain.push(escaped.unwrap_or(first));
    }
    plain
}

/// Decodes six bits a character, with or without padding. Returns `None` if there is another
/// character.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::with_capacity(text.len() / 4 * 3));
    for &b in text.iter().filter(|b| !b"=\r\n".contains(b)) {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_removed() {
        let mut records = Records::default();
        records.read(b"9 path=a\n12 path=b\0c\n24 SCHILY.xattr.user.x=\n").unwrap();
        assert_eq!(records.get(b"path"), Some(&b"b\0c"[..]));
        assert_eq!(records.xattrs().collect::<Vec<_>>(), [(b"user.x".to_vec(), vec![])]);
        records.read(b"8 path=\n").unwrap();
        assert_eq!(records.get(b"path"), None);
        for wrong in
            [&b"9 path=ab\n"[..], b"x", b"5 a=b\n", b"6 abc\n", b"0 ", b"2 ", b"99999 a=b\n"]
        {
            assert!(Records::default().read(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn times_keep_their_nanoseconds_on_both_sides_of_1970() {
        let at = |sec, nsec| Some(Timestamp { sec, nsec });
        assert_eq!(time(b"5"), at(5, 0));
        assert_eq!(time(b"5.000000001999"), at(5, 1));
        assert_eq!(time(b"5.5"), at(5, 500_000_000));
        assert_eq!(time(b"-0.25"), at(-1, 750_000_000));
        assert_eq!(time(b"-5"), at(-5, 0));
        assert_eq!((time(b""), time(b"x"), time(b"1.x")), (None, None, None));
    }

    #[test]
    fn names_and_values_are_unpacked() {
        assert_eq!(unescaped(b"user.a%3Db%25c%"), b"user.a=b%c%");
        assert_eq!(base64(b"aGVsbG8=").as_deref(), Some(&b"hello"[..]));
        assert_eq!(base64(b"aGVsbG8").as_deref(), Some(&b"hello"[..]));
        assert_eq!(base64(b"a!"), None);
    }
}
