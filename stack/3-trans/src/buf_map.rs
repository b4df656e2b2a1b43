//! The location of a buffer on the device.

use xfskit_units::{Daddr, Sectors, index};

/// Location of a buffer: its pieces on the device, in order. Nearly always one, which takes no
/// allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufMap {
    first: (Daddr, Sectors),
    rest: Vec<(Daddr, Sectors)>,
}

impl BufMap {
    /// Returns the location of a buffer in one piece.
    pub const fn single(daddr: Daddr, len: Sectors) -> Self {
        Self { first: (daddr, len), rest: Vec::new() }
    }

    /// Returns the location of a buffer in several pieces, or `None` if there are no pieces or one
    /// is empty.
    pub fn pieces(mut pieces: Vec<(Daddr, Sectors)>) -> Option<Self> {
        let whole = !pieces.is_empty() && pieces.iter().all(|(_, len)| len.0 > 0);
        whole.then(|| Self { first: pieces.remove(0), rest: pieces })
    }

    /// Returns the address and length of the first piece.
    pub fn first(&self) -> (Daddr, Sectors) {
        self.first
    }

    /// Returns the address and length of a buffer in one piece.
    pub fn as_single(&self) -> Option<(Daddr, Sectors)> {
        self.rest.is_empty().then_some(self.first)
    }

    /// Returns all pieces, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Daddr, Sectors)> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// Returns the length of the whole buffer.
    pub fn sectors(&self) -> Sectors {
        let rest: u64 = self.rest.iter().map(|(_, len)| len.0).sum();
        Sectors(self.first.1.0 + rest)
    }

    /// Returns the length of the whole buffer in bytes.
    pub fn byte_len(&self) -> usize {
        index(self.sectors().byte_len().0)
    }

    /// Returns the key of the buffer in the cache.
    pub(crate) fn key(&self) -> (Daddr, usize) {
        (self.first.0, self.byte_len())
    }
}
