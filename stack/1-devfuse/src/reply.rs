//! Where replies go, and those that are more than one structure: listings.

use std::io;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::message::{Dirent, EntryOut};

/// Entries start at multiples of this.
const ALIGN: usize = 8;

/// Takes the reply to one request.
pub trait Sink {
    /// Takes an error, or the structures and bytes of a reply, one behind the other.
    ///
    /// # Errors
    /// The device fails, or the reply is too long.
    fn reply(&mut self, reply: Result<&[&[u8]], Errno>) -> io::Result<()>;
}

/// A listing that is being built, of at most the bytes that the kernel asked for.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    max: usize,
}

impl Listing {
    /// Returns an empty listing for at most `max` bytes.
    pub fn new(max: u32) -> Self {
        Self { bytes: Vec::new(), max: usize::try_from(max).unwrap_or(usize::MAX) }
    }

    /// Adds an entry: its cookie is where the next listing continues. `kind` is the type's bits of
    /// `st_mode`, shifted right by 12. Returns false if there is no room.
    pub fn add(&mut self, ino: u64, cookie: u64, kind: u32, name: &[u8]) -> bool {
        self.push(None, ino, cookie, kind, name)
    }

    /// Adds an entry with its inode, which the kernel refers to once more if it is not 0.
    pub fn add_plus(
        &mut self,
        entry: &EntryOut,
        ino: u64,
        cookie: u64,
        kind: u32,
        name: &[u8],
    ) -> bool {
        self.push(Some(entry), ino, cookie, kind, name)
    }

    fn push(
        &mut self,
        entry: Option<&EntryOut>,
        ino: u64,
        cookie: u64,
        kind: u32,
        name: &[u8],
    ) -> bool {
        let plus = if entry.is_some() { size_of::<EntryOut>() } else { 0 };
        let len = (plus + size_of::<Dirent>() + name.len()).next_multiple_of(ALIGN);
        let Ok(namelen) = u32::try_from(name.len()) else { return false };
        if self.bytes.len() + len > self.max {
            return false;
        }
        let end = self.bytes.len() + len;
        if let Some(entry) = entry {
            self.bytes.extend_from_slice(entry.as_bytes());
        }
        let dirent = Dirent { ino, off: cookie, namelen, kind };
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }

    /// Returns the bytes of the reply.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_bounded() {
        let mut listing = Listing::new(64);
        assert!(listing.add(5, 1, 8, b"name"));
        assert_eq!(listing.bytes().len(), 32);
        assert_eq!(&listing.bytes()[16..28], b"\x04\0\0\0\x08\0\0\0name");
        assert!(listing.add(6, 2, 4, b"12345678"));
        assert!(!listing.add(7, 3, 4, b""));
        assert_eq!(listing.bytes().len(), 64);
    }

    #[test]
    fn entries_with_inodes_have_both_structures() {
        let mut listing = Listing::new(1000);
        assert!(listing.add_plus(&EntryOut { nodeid: 9, ..EntryOut::default() }, 9, 1, 8, b"x"));
        assert_eq!(listing.bytes().len(), 128 + 24 + 8);
        assert_eq!(listing.bytes()[0], 9);
    }
}
