//! The digest of one file: type and size, the maps of both forks, and what they hold in the inode.

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{Dinode, FileType, Format};

/// The bits of a digest that are of the attribute fork; those above are of everything else.
pub(crate) const OF_ATTRIBUTES: u64 = 0xffff;
/// The bit of a digest that is set for directories.
pub(crate) const IS_DIRECTORY: u64 = 1 << 16;

/// Makes the digest of one inode.
pub(crate) struct Digester {
    content: u64,
    attributes: u64,
    is_dir: bool,
    /// Consecutive extents of the fork that is walked.
    run: Option<Extent>,
}

impl Digester {
    /// Begins with the core, and with what the inode holds of its forks.
    pub(crate) fn new(inode: &Dinode<'_>, file_type: FileType) -> Self {
        let is_dir = file_type == FileType::Directory;
        let mut digester = Self { content: 0, attributes: 0, is_dir, run: None };
        if !is_dir {
            let kind = u64::from(file_type.ftype() ^ FileType::Regular.ftype());
            digester.content = mix(mix(0, kind), inode.size().0);
            let data = inode.data_fork();
            match inode.format() {
                Some(Format::Local) => {
                    let size = usize::try_from(inode.size().0).unwrap_or(usize::MAX);
                    let bytes = data.get(..size).unwrap_or(data);
                    digester.content = mix_bytes(digester.content, bytes);
                }
                Some(Format::Dev) => {
                    let bytes = data.get(..8).unwrap_or(data);
                    digester.content = mix_bytes(digester.content, bytes);
                }
                _ => {}
            }
        }
        if let Some(fork) = inode.attr_fork().filter(|_| inode.aformat() == Some(Format::Local)) {
            let len = xfskit_format::bytes::be16(fork, 0).map_or(0, usize::from);
            digester.attributes = mix_bytes(0, fork.get(..len).unwrap_or(fork));
        }
        digester
    }

    /// Takes the next extent of the map of a fork.
    pub(crate) fn extent(&mut self, fork: Fork, extent: &Extent) {
        if let Some(run) = &mut self.run
            && run.end() == extent.startoff
            && run.startblock.0.checked_add(run.blockcount.0) == Some(extent.startblock.0)
            && run.unwritten == extent.unwritten
        {
            run.blockcount.0 = run.blockcount.0.saturating_add(extent.blockcount.0);
            return;
        }
        self.end(fork);
        self.run = Some(*extent);
    }

    /// Ends the map of a fork.
    pub(crate) fn end(&mut self, fork: Fork) {
        let Some(run) = self.run.take() else { return };
        let sum = match fork {
            Fork::Data if self.is_dir => return,
            Fork::Data => &mut self.content,
            Fork::Attr => &mut self.attributes,
        };
        let len = run.blockcount.0 << 1 | u64::from(run.unwritten);
        *sum = [run.startoff.0, run.startblock.0, len].into_iter().fold(*sum, mix);
    }

    /// Returns the digest.
    pub(crate) fn finish(&self) -> u64 {
        let flag = if self.is_dir { IS_DIRECTORY } else { 0 };
        let attributes = spread(self.attributes) & OF_ATTRIBUTES;
        (spread(self.content) & !(OF_ATTRIBUTES | IS_DIRECTORY)) | flag | attributes
    }
}

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a word into a sum. Of two words that differ come sums that differ. Zeroes leave 0 as it
/// is.
fn mix(sum: u64, word: u64) -> u64 {
    let product = (sum.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    product ^ product >> 32
}

fn mix_bytes(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let sum = words.iter().fold(sum, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    mix(mix(sum, u64::from_le_bytes(last)), bytes.len() as u64)
}

/// Spreads the difference of two sums over all bits.
fn spread(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 31).wrapping_mul(MULTIPLIER);
    sum ^ sum >> 29 ^ sum >> 47
}

#[cfg(test)]
mod tests {
    use xfskit_units::{FilBlks, FileOff, FsBlock};

    use super::*;

    fn extent(startoff: u64, startblock: u64, blockcount: u64) -> Extent {
        Extent {
            startoff: FileOff(startoff),
            startblock: FsBlock(startblock),
            blockcount: FilBlks(blockcount),
            unwritten: false,
        }
    }

    /// Returns the digest of a file with this map of one fork.
    fn of_map(is_dir: bool, fork: Fork, map: &[Extent]) -> u64 {
        let mut digester = Digester { content: 0, attributes: 0, is_dir, run: None };
        for extent in map {
            digester.extent(fork, extent);
        }
        digester.end(fork);
        digester.finish()
    }

    #[test]
    fn a_digest_is_of_the_map_and_not_of_its_records() {
        let whole = of_map(false, Fork::Data, &[extent(0, 100, 10)]);
        assert_eq!(whole, of_map(false, Fork::Data, &[extent(0, 100, 4), extent(4, 104, 6)]));
        assert_eq!(of_map(false, Fork::Data, &[]), 0);
        let mut unwritten = extent(0, 100, 10);
        unwritten.unwritten = true;
        let others = [
            vec![],
            vec![extent(0, 100, 9)],
            vec![extent(1, 100, 10)],
            vec![extent(0, 101, 10)],
            vec![unwritten],
            vec![extent(0, 100, 4), extent(4, 105, 6)],
            vec![extent(0, 100, 10), extent(10, 200, 1)],
        ];
        for other in &others {
            let other = of_map(false, Fork::Data, other);
            assert!(whole != other && (whole ^ other) & OF_ATTRIBUTES == 0);
        }
        let attributes = of_map(false, Fork::Attr, &[extent(0, 100, 10)]);
        assert!(attributes != 0 && attributes & !OF_ATTRIBUTES == 0);
        assert_eq!(of_map(true, Fork::Data, &[extent(0, 100, 10)]), IS_DIRECTORY);
    }

    #[test]
    fn words_in_another_order_or_with_zeroes_behind_have_another_sum() {
        let sums = [
            mix_bytes(0, b"target"),
            mix_bytes(0, b"target\0"),
            mix_bytes(0, b"12345678abcdefgh"),
            mix_bytes(0, b"abcdefgh12345678"),
            mix_bytes(0, &[0; 8]),
            mix_bytes(0, &[0; 16]),
        ];
        for (n, sum) in sums.iter().enumerate() {
            assert!(!sums[..n].contains(sum), "{n}");
            assert!(*sum != 0);
        }
    }
}
