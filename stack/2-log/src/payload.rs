//! The payload of a checkpoint: its regions in order, in one buffer.

use xfskit_format::log::item::Regions;

/// Consecutive regions, each a multiple of four bytes. A payload may hold many megabytes. Reused
/// and [cleared](Self::clear), it allocates its memory only once.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    pub(crate) bytes: Vec<u8>,
    /// Length of each region in bytes.
    pub(crate) lens: Vec<u32>,
}

impl Payload {
    /// Makes an empty payload.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if there is no region.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Returns the number of regions.
    pub fn region_count(&self) -> usize {
        self.lens.len()
    }

    /// Returns the length of all regions together, in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all regions, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lens.clear();
    }

    /// Returns the regions in order.
    pub fn regions(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lens.iter().map(move |&len| {
            let (region, behind) = rest.split_at(len as usize);
            rest = behind;
            region
        })
    }
}

impl Regions for Payload {
    fn region(&mut self, parts: &[&[u8]]) {
        let start = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let len = self.bytes.len() - start;
        self.lens.push(u32::try_from(len).expect("a region is at most a directory block"));
    }
}
