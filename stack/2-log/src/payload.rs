//! The payload of a checkpoint: its regions in order, in one piece of memory.

use xfskit_format::log::item::Regions;

/// Regions, each a multiple of four bytes, one behind the other. May hold many megabytes; kept and
/// [cleared](Self::clear), it needs its memory only once.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    pub(crate) bytes: Vec<u8>,
    /// Length of each region in bytes.
    pub(crate) lens: Vec<u32>,
}

impl Payload {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// True where there is no region.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Number of regions.
    pub fn region_count(&self) -> usize {
        self.lens.len()
    }

    /// Bytes of all regions together.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lens.clear();
    }

    /// The regions in order.
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
