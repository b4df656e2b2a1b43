//! The content of a file in the model: its bytes, and which of its blocks may hold data.

use std::ops::Range;

use crate::deed::{Between, Reshape};
use crate::mem::{Facts, Refusal};

/// Content of a regular file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// For each block whether it may hold data; the others are holes, or were never written.
    pub data: Vec<bool>,
}

type Answer = Result<(), Refusal>;

impl Content {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Cuts, or adds a hole.
    pub fn resize(&mut self, size: u64, facts: &Facts) {
        self.bytes.resize(at(size), 0);
        self.data.resize(at(size.div_ceil(facts.block)), false);
    }

    fn grow(&mut self, size: u64, facts: &Facts) {
        self.resize(size.max(self.size()), facts);
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, bytes: &[u8], facts: &Facts) {
        let range = offset..offset + bytes.len() as u64;
        if bytes.is_empty() {
            return;
        }
        self.grow(range.end, facts);
        self.bytes[at(offset)..at(range.end)].copy_from_slice(bytes);
        self.data[at(offset / facts.block)..at(range.end.div_ceil(facts.block))].fill(true);
    }

    /// One of the ways in which a range of a file changes.
    ///
    /// # Errors
    /// Where the range is no good for it.
    pub fn reshape(&mut self, how: Reshape, range: &Range<u64>, facts: &Facts) -> Answer {
        match how {
            Reshape::Punch => self.zero(range, facts),
            Reshape::Zero { keep_size } => {
                if !keep_size {
                    self.grow(range.end, facts);
                }
                self.zero(range, facts);
            }
            Reshape::Preallocate { keep_size: false } => self.grow(range.end, facts),
            Reshape::Preallocate { keep_size: true } | Reshape::Unshare => {}
            Reshape::Collapse => {
                if range.end >= self.size() {
                    return Err(Refusal::Senseless);
                }
                let blocks = facts.whole(range)?;
                self.bytes.drain(at(range.start)..at(range.end));
                self.data.drain(blocks);
            }
            Reshape::Insert => {
                if range.start >= self.size() {
                    return Err(Refusal::Senseless);
                }
                let blocks = facts.whole(range)?;
                let (start, len) = (at(range.start), at(range.end - range.start));
                self.bytes.splice(start..start, vec![0; len]);
                let size = self.size();
                self.data.splice(blocks.start..blocks.start, vec![false; blocks.len()]);
                self.resize(size, facts);
            }
        }
        Ok(())
    }

    /// Zeroes within the file; whole blocks become holes.
    fn zero(&mut self, range: &Range<u64>, facts: &Facts) {
        let inside = range.start.min(self.size())..range.end.min(self.size());
        self.bytes[at(inside.start)..at(inside.end)].fill(0);
        for block in range.start.div_ceil(facts.block)..range.end / facts.block {
            if let Some(data) = self.data.get_mut(at(block)) {
                *data = false;
            }
        }
    }

    /// The bytes and blocks of a range that begins with a block.
    fn part(&self, range: &Range<u64>, facts: &Facts) -> Self {
        let blocks = at(range.start / facts.block)..at(range.end.div_ceil(facts.block));
        let bytes = self.bytes[at(range.start)..at(range.end)].to_vec();
        Self { bytes, data: self.data[blocks].to_vec() }
    }

    /// Puts such a part at `offset`.
    fn put(&mut self, offset: u64, part: &Self, facts: &Facts) {
        self.grow(offset + part.size(), facts);
        let (start, block) = (at(offset), at(offset / facts.block));
        self.bytes[start..start + part.bytes.len()].copy_from_slice(&part.bytes);
        self.data[block..block + part.data.len()].copy_from_slice(&part.data);
    }
}

/// What becomes of two files (or one, twice) in which `how` is done; `None` where it is refused. Both come back.
///
/// # Errors
/// Where the ranges, or the volume, are no good for it.
pub fn between(
    how: Between,
    (to, offset): (&Content, u64),
    (from, source): (&Content, &Range<u64>),
    itself: bool,
    facts: &Facts,
) -> Result<(Content, Content), Refusal> {
    let (mut to, mut from) = (to.clone(), from.clone());
    let len = source.end.saturating_sub(source.start);
    let overlap = itself && source.start.abs_diff(offset) < len;
    let inside = source.end <= from.size();
    let aligned = source.start.is_multiple_of(facts.block) && offset.is_multiple_of(facts.block);
    let no = Err(Refusal::Senseless);
    match how {
        Between::Copy => {
            let source = source.start..source.end.min(from.size());
            let len = source.end.saturating_sub(source.start);
            if itself && source.start.abs_diff(offset) < len {
                return no;
            }
            if len > 0 {
                let bytes = from.bytes[at(source.start)..at(source.end)].to_vec();
                to.write(offset, &bytes, facts);
            }
        }
        Between::Share => {
            let ends = source.end == from.size() && offset + len >= to.size();
            if !facts.reflink || overlap || !inside || !aligned {
                return no;
            }
            if !source.end.is_multiple_of(facts.block) && !ends {
                return no;
            }
            to.put(offset, &from.part(source, facts), facts);
        }
        Between::ExchangeRange => {
            let ends = source.end == from.size() && offset + len == to.size();
            if !facts.exchange || itself || len == 0 || !inside || offset + len > to.size() {
                return no;
            }
            if !aligned || (!len.is_multiple_of(facts.block) && !ends) {
                return no;
            }
            let (ours, theirs) =
                (to.part(&(offset..offset + len), facts), from.part(source, facts));
            to.put(offset, &theirs, facts);
            from.put(source.start, &ours, facts);
        }
        Between::Exchange => {
            if !facts.exchange || itself {
                return no;
            }
            std::mem::swap(&mut to, &mut from);
        }
    }
    Ok((to, from))
}

impl Facts {
    /// The blocks that `range` consists of.
    fn whole(&self, range: &Range<u64>) -> Result<Range<usize>, Refusal> {
        let whole = range.start.is_multiple_of(self.block) && range.end.is_multiple_of(self.block);
        if !whole || range.is_empty() {
            return Err(Refusal::Senseless);
        }
        Ok(at(range.start / self.block)..at(range.end / self.block))
    }
}

fn at(n: u64) -> usize {
    usize::try_from(n).expect("files of the model fit into memory")
}
