//! Dirty data of a file that is in memory only: whole blocks, in runs.
//!
//! A file that is written from front to back becomes a few long runs, each of which one extent can
//! hold. A block that is written in part is loaded first, so that every block here is complete.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_block::AlignedBuf;
use xfskit_units::index;

/// Longest run, so that growing one never costs much.
const RUN_MAX: usize = 1 << 20;

/// Dirty blocks of one file. Positions are block numbers of the file, or bytes where stated.
#[derive(Debug)]
pub(crate) struct Dirty {
    blocklog: u32,
    /// Data by first block. Runs neither overlap nor are empty.
    runs: BTreeMap<u64, AlignedBuf>,
    blocks: u64,
}

impl Dirty {
    pub(crate) fn new(blocklog: u32) -> Self {
        Self { blocklog, runs: BTreeMap::new(), blocks: 0 }
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    fn byte(&self, block: u64) -> u64 {
        block << self.blocklog
    }

    fn blocks_in(&self, run: &[u8]) -> u64 {
        (run.len() as u64) >> self.blocklog
    }

    /// Returns the first block of the run that holds `block`.
    fn run_of(&self, block: u64) -> Option<u64> {
        let (&start, run) = self.runs.range(..=block).next_back()?;
        (block < start + self.blocks_in(run)).then_some(start)
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        self.run_of(block).is_some()
    }

    /// Returns true if the block of byte `offset` is here.
    pub(crate) fn has_byte(&self, offset: u64) -> bool {
        self.has(offset >> self.blocklog)
    }

    /// Returns the runs that touch `range`, cut to it: first block and data.
    pub(crate) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.run_of(range.start).unwrap_or(range.start);
        self.runs.range(first..range.end.max(first)).filter_map(move |(&start, run)| {
            let from = range.start.max(start);
            let to = range.end.min(start + self.blocks_in(run));
            let bytes = index(self.byte(from - start))..index(self.byte(to.checked_sub(start)?));
            Some((from, run.get(bytes)?)).filter(|(_, part)| !part.is_empty())
        })
    }

    /// Returns how many blocks of `range` are not here.
    pub(crate) fn missing(&self, range: Range<u64>) -> u64 {
        let len = range.end - range.start;
        len - self.parts(range).map(|(_, part)| self.blocks_in(part)).sum::<u64>()
    }

    /// Returns the first contiguous blocks.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        let (&start, _) = self.runs.first_key_value()?;
        let mut end = start;
        for (&next, run) in &self.runs {
            if next != end {
                break;
            }
            end += self.blocks_in(run);
        }
        Some(start..end)
    }

    /// Copies the bytes that are here, from `offset` on, over `buf`.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        for (block, part) in self.parts(offset >> self.blocklog..end.div_ceil(self.byte(1))) {
            let start = self.byte(block);
            let (from, to) = (start.max(offset), (start + part.len() as u64).min(end));
            if from < to {
                buf[index(from - offset)..index(to - offset)]
                    .copy_from_slice(&part[index(from - start)..index(to - start)]);
            }
        }
    }

    /// Takes over `bytes` at byte `offset`. The caller has loaded a block that is new here and only
    /// partly written.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let block = at >> self.blocklog;
            let start = self.run_of(block).unwrap_or_else(|| self.open(block));
            let next = self.runs.range(start + 1..).next().map_or(u64::MAX, |(&next, _)| next);
            let room = next.saturating_sub(start).min((RUN_MAX as u64) >> self.blocklog).max(1);
            let (first, room) = (self.byte(start), index(self.byte(room)));
            let Some(run) = self.runs.get_mut(&start) else { return };
            let from = index(at - first);
            let len = rest.len().min(room.max(run.len()) - from);
            let (now, later) = rest.split_at(len);
            let before = run.len();
            let to = from + len;
            if to > before {
                run.resize(to.next_multiple_of(1 << self.blocklog));
            }
            run[from..to].copy_from_slice(now);
            self.blocks += ((run.len() - before) as u64) >> self.blocklog;
            (at, rest) = (at + len as u64, later);
        }
    }

    /// Returns the run for `block`, which is not here: the run that ends there, or a new one.
    fn open(&mut self, block: u64) -> u64 {
        if let Some((&start, run)) = self.runs.range(..block).next_back()
            && start + self.blocks_in(run) == block
            && run.len() < RUN_MAX
        {
            return start;
        }
        self.runs.insert(block, AlignedBuf::default());
        block
    }

    /// Drops the blocks of `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        let first = self.run_of(range.start).unwrap_or(range.start);
        let touched: Vec<u64> =
            self.runs.range(first..range.end.max(first)).map(|(&start, _)| start).collect();
        for start in touched {
            let Some(mut run) = self.runs.remove(&start) else { continue };
            let end = start + self.blocks_in(&run);
            let gone = range.start.max(start)..range.end.min(end);
            self.blocks -= gone.end - gone.start;
            if gone.end < end {
                let tail = &run[index(self.byte(gone.end - start))..];
                self.runs.insert(gone.end, tail.into());
            }
            if gone.start > start {
                run.resize(index(self.byte(gone.start - start)));
                self.runs.insert(start, run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use xfskit_test_support::Random;

    use super::*;

    /// Returns the first `len` bytes of `dirty` as text, with dots where it has none.
    fn shown(dirty: &Dirty, len: usize) -> String {
        let mut bytes = vec![b'.'; len];
        dirty.read(0, &mut bytes);
        String::from_utf8(bytes).unwrap().replace('\0', "0")
    }

    #[test]
    fn runs_join_are_cut_and_come_back() {
        let mut dirty = Dirty::new(2);
        dirty.write(4, b"abcdefgh");
        dirty.write(16, b"ijkl");
        assert_eq!(shown(&dirty, 24), "....abcdefgh....ijkl....");
        assert_eq!((dirty.first(), dirty.blocks(), dirty.missing(0..6)), (Some(1..3), 3, 3));
        dirty.write(10, b"XXxxyyYY");
        assert_eq!(shown(&dirty, 24), "....abcdefXXxxyyYYkl....");
        assert_eq!((dirty.first(), dirty.blocks()), (Some(1..5), 4));
        dirty.remove(2..3);
        assert_eq!(shown(&dirty, 24), "....abcd....xxyyYYkl....");
        assert_eq!((dirty.first(), dirty.blocks()), (Some(1..2), 3));
        dirty.remove(0..9);
        assert_eq!((dirty.first(), dirty.blocks()), (None, 0));
    }

    #[test]
    fn random_writes_and_removals_match_an_array() {
        const LEN: usize = 6000;
        let mut random = Random::of_test(1);
        let mut dirty = Dirty::new(4);
        let (mut plain, mut here) = (vec![b'.'; LEN], vec![false; LEN / 16]);
        for round in 0..4000 {
            let start = random.below(300);
            let end = start + 1 + random.below(60);
            let bytes = index(start * 16)..index(end * 16);
            if random.below(4) == 0 {
                dirty.remove(start..end);
                plain[bytes].fill(b'.');
                here[index(start)..index(end)].fill(false);
            } else {
                let byte = b'a' + u8::try_from(round % 26).unwrap();
                let content = vec![byte; bytes.len()];
                dirty.write(start * 16, &content);
                plain[bytes].fill(byte);
                here[index(start)..index(end)].fill(true);
            }
            assert_eq!(shown(&dirty, LEN).as_bytes(), plain, "round {round}");
            let count = here.iter().filter(|&&is| is).count() as u64;
            assert_eq!((dirty.blocks(), dirty.missing(0..375)), (count, 375 - count));
            let at = random.below(375);
            assert_eq!(dirty.has(at), here[index(at)]);
        }
    }
}
