//! The model's content of a file: its bytes, and a map of the blocks that may hold data.

use std::ops::Range;

use crate::mem::{Facts, OpError};
use crate::operation::{Fallocate, TwoFileOp};

/// Content of a regular file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The bytes, as many as the file's size.
    pub bytes: Vec<u8>,
    /// For each block, whether it may hold data. The other blocks are holes or unwritten.
    pub data: Vec<bool>,
}

type OpResult = Result<(), OpError>;

impl Content {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Sets the size: cuts the content, or extends it with a hole.
    pub fn resize(&mut self, size: u64, facts: &Facts) {
        self.bytes.resize(at(size), 0);
        self.data.resize(at(size.div_ceil(facts.block)), false);
    }

    fn grow(&mut self, size: u64, facts: &Facts) {
        self.resize(size.max(self.size()), facts);
    }

    /// Writes `bytes` at `offset`, in bytes.
    pub fn write(&mut self, offset: u64, bytes: &[u8], facts: &Facts) {
        let range = offset..offset + bytes.len() as u64;
        if bytes.is_empty() {
            return;
        }
        self.grow(range.end, facts);
        self.bytes[at(offset)..at(range.end)].copy_from_slice(bytes);
        self.data[at(offset / facts.block)..at(range.end.div_ceil(facts.block))].fill(true);
    }

    /// Changes `range`, in bytes, as one mode of `fallocate` does.
    ///
    /// # Errors
    /// The range is not valid for that mode.
    pub fn fallocate(&mut self, how: Fallocate, range: &Range<u64>, facts: &Facts) -> OpResult {
        match how {
            Fallocate::Punch => self.zero(range, facts),
            Fallocate::Zero { keep_size } => {
                if !keep_size {
                    self.grow(range.end, facts);
                }
                self.zero(range, facts);
            }
            Fallocate::Preallocate { keep_size: false } => self.grow(range.end, facts),
            Fallocate::Preallocate { keep_size: true } | Fallocate::Unshare => {}
            Fallocate::Collapse => {
                if range.end >= self.size() {
                    return Err(OpError::Invalid);
                }
                let blocks = facts.whole(range)?;
                self.bytes.drain(at(range.start)..at(range.end));
                self.data.drain(blocks);
            }
            Fallocate::Insert => {
                if range.start >= self.size() {
                    return Err(OpError::Invalid);
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

    /// Zeroes `range` within the file. Whole blocks become holes.
    fn zero(&mut self, range: &Range<u64>, facts: &Facts) {
        let inside = range.start.min(self.size())..range.end.min(self.size());
        self.bytes[at(inside.start)..at(inside.end)].fill(0);
        for block in range.start.div_ceil(facts.block)..range.end / facts.block {
            if let Some(data) = self.data.get_mut(at(block)) {
                *data = false;
            }
        }
    }

    /// Returns the bytes and blocks of `range`, which must begin on a block boundary.
    fn part(&self, range: &Range<u64>, facts: &Facts) -> Self {
        let blocks = at(range.start / facts.block)..at(range.end.div_ceil(facts.block));
        let bytes = self.bytes[at(range.start)..at(range.end)].to_vec();
        Self { bytes, data: self.data[blocks].to_vec() }
    }

    /// Writes the bytes and block map of `part` at `offset`.
    fn put(&mut self, offset: u64, part: &Self, facts: &Facts) {
        self.grow(offset + part.size(), facts);
        let (start, block) = (at(offset), at(offset / facts.block));
        self.bytes[start..start + part.bytes.len()].copy_from_slice(&part.bytes);
        self.data[block..block + part.data.len()].copy_from_slice(&part.data);
    }
}

/// Returns the content of both files after the operation `how`. Both may be the same file.
///
/// # Errors
/// The ranges are not valid, or the volume does not support the operation.
pub fn between(
    how: TwoFileOp,
    (to, offset): (&Content, u64),
    (from, source): (&Content, &Range<u64>),
    itself: bool,
    facts: &Facts,
) -> Result<(Content, Content), OpError> {
    let (mut to, mut from) = (to.clone(), from.clone());
    let len = source.end.saturating_sub(source.start);
    let overlap = itself && source.start.abs_diff(offset) < len;
    let inside = source.end <= from.size();
    let aligned = source.start.is_multiple_of(facts.block) && offset.is_multiple_of(facts.block);
    let no = Err(OpError::Invalid);
    match how {
        TwoFileOp::Copy => {
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
        TwoFileOp::Share => {
            let ends = source.end == from.size() && offset + len >= to.size();
            if !facts.reflink || overlap || !inside || !aligned {
                return no;
            }
            if !source.end.is_multiple_of(facts.block) && !ends {
                return no;
            }
            to.put(offset, &from.part(source, facts), facts);
        }
        TwoFileOp::ExchangeRange => {
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
        TwoFileOp::Exchange => {
            if !facts.exchange || itself {
                return no;
            }
            std::mem::swap(&mut to, &mut from);
        }
    }
    Ok((to, from))
}

impl Facts {
    /// Returns the blocks of `range`, which must consist of whole blocks.
    fn whole(&self, range: &Range<u64>) -> Result<Range<usize>, OpError> {
        let whole = range.start.is_multiple_of(self.block) && range.end.is_multiple_of(self.block);
        if !whole || range.is_empty() {
            return Err(OpError::Invalid);
        }
        Ok(at(range.start / self.block)..at(range.end / self.block))
    }
}

fn at(n: u64) -> usize {
    usize::try_from(n).expect("the model's files fit into memory")
}
