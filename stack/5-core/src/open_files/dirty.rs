//! Dirty data of a file that is in memory only: whole blocks, in runs.
//!
//! A file that is written from front to back becomes a few long runs, each of which one extent can
//! hold. A block that is written in part is loaded first, so that every block here is complete.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_block::AlignedBuf;
use xfskit_units::{ByteLen, ByteOffset, FilBlks, FileOff, PositionRange};

/// Longest run, so that growing one never costs much.
const RUN_MAX: ByteLen = ByteLen(1 << 20);

/// Dirty blocks of one file.
#[derive(Debug)]
pub(crate) struct Dirty {
    blocklog: u32,
    /// Data by first block. Runs neither overlap nor are empty.
    runs: BTreeMap<FileOff, AlignedBuf>,
    blocks: FilBlks,
}

impl Dirty {
    pub(crate) fn new(blocklog: u32) -> Self {
        Self { blocklog, runs: BTreeMap::new(), blocks: FilBlks(0) }
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> FilBlks {
        self.blocks
    }

    fn byte(&self, block: FileOff) -> ByteOffset {
        ByteOffset(block.0 << self.blocklog)
    }

    fn block(&self, offset: ByteOffset) -> FileOff {
        FileOff(offset.0 >> self.blocklog)
    }

    fn bytes(&self, blocks: FilBlks) -> ByteLen {
        ByteLen(blocks.0 << self.blocklog)
    }

    fn blocks_in(&self, run: &[u8]) -> FilBlks {
        FilBlks((run.len() as u64) >> self.blocklog)
    }

    /// Returns the first block of a run and the block behind it.
    fn range_of(&self, start: FileOff, run: &[u8]) -> Range<FileOff> {
        start.range(self.blocks_in(run))
    }

    /// Returns the first block of the run that holds `block`.
    fn run_of(&self, block: FileOff) -> Option<FileOff> {
        let (&start, run) = self.runs.range(..=block).next_back()?;
        self.range_of(start, run).contains(&block).then_some(start)
    }

    pub(crate) fn has(&self, block: FileOff) -> bool {
        self.run_of(block).is_some()
    }

    /// Returns true if the block of byte `offset` is here.
    pub(crate) fn has_byte(&self, offset: ByteOffset) -> bool {
        self.has(self.block(offset))
    }

    /// Returns the runs that touch `range`, cut to it: first block and data.
    pub(crate) fn parts(&self, range: Range<FileOff>) -> impl Iterator<Item = (FileOff, &[u8])> {
        let first = self.run_of(range.start).unwrap_or(range.start);
        self.runs.range(first..range.end.max(first)).filter_map(move |(&start, run)| {
            let part = self.range_of(start, run).intersection(&range);
            let bytes = |block: FileOff| self.bytes(block.distance_from(start)).index();
            Some((part.start, run.get(bytes(part.start)..bytes(part.end))?))
                .filter(|(_, part)| !part.is_empty())
        })
    }

    /// Returns how many blocks of `range` are not here.
    pub(crate) fn missing(&self, range: Range<FileOff>) -> FilBlks {
        let len = range.length();
        self.parts(range).map(|(_, part)| self.blocks_in(part)).fold(len, FilBlks::minus)
    }

    /// Returns the first contiguous blocks.
    pub(crate) fn first(&self) -> Option<Range<FileOff>> {
        let (&start, _) = self.runs.first_key_value()?;
        let mut end = start;
        for (&next, run) in &self.runs {
            if next != end {
                break;
            }
            end = end.plus(self.blocks_in(run));
        }
        Some(start..end)
    }

    /// Copies the bytes that are here, from `offset` on, over `buf`.
    pub(crate) fn read(&self, offset: ByteOffset, buf: &mut [u8]) {
        let wanted = offset.range(ByteLen::of(buf));
        let end = self.block(wanted.end.saturating_add((1 << self.blocklog) - 1));
        for (block, part) in self.parts(self.block(offset)..end) {
            let start = self.byte(block);
            let both = start.range(ByteLen::of(part)).intersection(&wanted);
            let (to, from) = (both.start.distance_from(offset), both.start.distance_from(start));
            let len = both.length().index();
            buf[to.index()..][..len].copy_from_slice(&part[from.index()..][..len]);
        }
    }

    /// Takes over `bytes` at `offset`. The caller has loaded a block that is new here and only
    /// partly written.
    pub(crate) fn write(&mut self, offset: ByteOffset, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let block = self.block(at);
            let start = self.run_of(block).unwrap_or_else(|| self.open(block));
            let behind = start.plus(FilBlks(1));
            let next = self.runs.range(behind..).next().map_or(FileOff::MAX, |(&next, _)| next);
            let most = FilBlks(RUN_MAX.0 >> self.blocklog);
            let room = next.saturating_distance_from(start).min(most).max(FilBlks(1));
            let (first, room) = (self.byte(start), self.bytes(room).index());
            let Some(run) = self.runs.get_mut(&start) else { return };
            let from = at.distance_from(first).index();
            let len = rest.len().min(room.max(run.len()) - from);
            let (now, later) = rest.split_at(len);
            let before = run.len();
            // Only new bytes that are not written now are zeroed.
            run.resize(before.max(from));
            let (over, new) = now.split_at(len.min(run.len() - from));
            run[from..][..over.len()].copy_from_slice(over);
            run.extend_from_slice(new);
            run.resize(run.len().next_multiple_of(1 << self.blocklog));
            let fresh = FilBlks(((run.len() - before) as u64) >> self.blocklog);
            self.blocks = self.blocks.plus(fresh);
            (at, rest) = (at.plus(ByteLen::of(now)), later);
        }
    }

    /// Returns the run for `block`, which is not here: the run that ends there, or a new one.
    fn open(&mut self, block: FileOff) -> FileOff {
        if let Some((&start, run)) = self.runs.range(..block).next_back()
            && self.range_of(start, run).end == block
            && ByteLen::of(run) < RUN_MAX
        {
            return start;
        }
        self.runs.insert(block, self.empty_run(block));
        block
    }

    /// Returns an empty run that begins at `block`. A file that is longer than a run is large.
    fn empty_run(&self, block: FileOff) -> AlignedBuf {
        let is_large = self.byte(block).0 >= RUN_MAX.0;
        if is_large { AlignedBuf::part_of_large() } else { AlignedBuf::default() }
    }

    /// Returns a run that begins at `block` with a copy of `bytes`.
    fn copied_run(&self, block: FileOff, bytes: &[u8]) -> AlignedBuf {
        let mut run = self.empty_run(block);
        run.extend_from_slice(bytes);
        run
    }

    /// Moves the blocks of `range` to a [`Dirty`] of their own.
    pub(crate) fn take(&mut self, range: &Range<FileOff>) -> Self {
        let mut taken = Self::new(self.blocklog);
        let whole = |start: FileOff, run: &[u8]| self.range_of(start, run).end <= range.end;
        let starts: Vec<FileOff> = (self.runs.range(range.clone()))
            .filter(|&(&start, run)| whole(start, run))
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            let Some(run) = self.runs.remove(&start) else { continue };
            self.blocks = self.blocks.minus(self.blocks_in(&run));
            taken.insert(start, run);
        }
        // Runs that only begin or end in the range.
        for (start, part) in self.parts(range.clone()) {
            taken.insert(start, self.copied_run(start, part));
        }
        self.remove(range);
        taken
    }

    /// Moves all blocks of `other`, none of which is here, to this one.
    pub(crate) fn put_back(&mut self, other: Self) {
        for (start, run) in other.runs {
            self.insert(start, run);
        }
    }

    fn insert(&mut self, start: FileOff, run: AlignedBuf) {
        self.blocks = self.blocks.plus(self.blocks_in(&run));
        self.runs.insert(start, run);
    }

    /// Drops the blocks of `range`.
    pub(crate) fn remove(&mut self, range: &Range<FileOff>) {
        let first = self.run_of(range.start).unwrap_or(range.start);
        let touched: Vec<FileOff> =
            self.runs.range(first..range.end.max(first)).map(|(&start, _)| start).collect();
        for start in touched {
            let Some(mut run) = self.runs.remove(&start) else { continue };
            let whole = self.range_of(start, &run);
            let gone = whole.intersection(range);
            self.blocks = self.blocks.minus(gone.length());
            let bytes = |block: FileOff| self.bytes(block.distance_from(start)).index();
            let (kept, tail) = (bytes(gone.start), bytes(gone.end));
            if gone.end < whole.end {
                self.runs.insert(gone.end, self.copied_run(gone.end, &run[tail..]));
            }
            if gone.start > start {
                run.resize(kept);
                self.runs.insert(start, run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use xfskit_test_support::Random;
    use xfskit_units::index;

    use super::*;

    /// Returns the first `len` bytes of `dirty` as text, with dots where it has none.
    fn shown(dirty: &Dirty, len: usize) -> String {
        let mut bytes = vec![b'.'; len];
        dirty.read(ByteOffset(0), &mut bytes);
        String::from_utf8(bytes).unwrap().replace('\0', "0")
    }

    fn blocks(start: u64, end: u64) -> Range<FileOff> {
        FileOff(start)..FileOff(end)
    }

    #[test]
    fn runs_join_are_cut_and_come_back() {
        let mut dirty = Dirty::new(2);
        dirty.write(ByteOffset(4), b"abcdefgh");
        dirty.write(ByteOffset(16), b"ijkl");
        assert_eq!(shown(&dirty, 24), "....abcdefgh....ijkl....");
        assert_eq!((dirty.first(), dirty.blocks()), (Some(blocks(1, 3)), FilBlks(3)));
        assert_eq!(dirty.missing(blocks(0, 6)), FilBlks(3));
        dirty.write(ByteOffset(10), b"XXxxyyYY");
        assert_eq!(shown(&dirty, 24), "....abcdefXXxxyyYYkl....");
        assert_eq!((dirty.first(), dirty.blocks()), (Some(blocks(1, 5)), FilBlks(4)));
        dirty.remove(&blocks(2, 3));
        assert_eq!(shown(&dirty, 24), "....abcd....xxyyYYkl....");
        assert_eq!((dirty.first(), dirty.blocks()), (Some(blocks(1, 2)), FilBlks(3)));
        dirty.remove(&blocks(0, 9));
        assert_eq!((dirty.first(), dirty.blocks()), (None, FilBlks(0)));
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
                let taken = dirty.take(&blocks(start, end));
                let count = here[index(start)..index(end)].iter().filter(|&&is| is).count();
                assert_eq!(taken.blocks(), FilBlks(count as u64));
                if random.below(2) == 0 {
                    dirty.put_back(taken);
                    continue;
                }
                plain[bytes].fill(b'.');
                here[index(start)..index(end)].fill(false);
            } else {
                let byte = b'a' + u8::try_from(round % 26).unwrap();
                let content = vec![byte; bytes.len()];
                dirty.write(ByteOffset(start * 16), &content);
                plain[bytes].fill(byte);
                here[index(start)..index(end)].fill(true);
            }
            assert_eq!(shown(&dirty, LEN).as_bytes(), plain, "round {round}");
            let count = here.iter().filter(|&&is| is).count() as u64;
            let found = (dirty.blocks(), dirty.missing(blocks(0, 375)));
            assert_eq!(found, (FilBlks(count), FilBlks(375 - count)));
            let at = random.below(375);
            assert_eq!(dirty.has(FileOff(at)), here[index(at)]);
        }
    }
}
