//! An array and the arrays within it, each by itself: for comparing members on every level.

use std::ops::Range;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_md::array::Array;
use xfskit_units::{ByteLen, ByteOffset};

use crate::error::Result;
use crate::name::{ArrayName, Base};
use crate::open::{array_of, assemble, members_by, open_unchecked, part_of, pieces};

/// One of several nested arrays.
#[derive(Debug)]
pub struct Nested {
    /// Its name.
    pub name: ArrayName,
    /// The array.
    pub array: Arc<Array>,
    /// Its place in the array that it is a member of; `None` for the outermost.
    pub outer: Option<Outer>,
}

/// The outer array of a nested array.
#[derive(Clone, Debug)]
pub struct Outer {
    /// The array that it is a member of, by its index.
    pub index: usize,
    /// What it is called there.
    pub member: String,
    /// The pieces of the inner array that form the member, in order: all of it, a partition, or a
    /// logical volume.
    pub pieces: Vec<(ByteOffset, ByteLen)>,
}

/// Opens an array and the arrays within it, the outermost first, each before its members. An array
/// that is being reshaped is opened as a plain device.
///
/// # Errors
/// See [`open_array`](crate::open_array).
pub fn open_nested(name: &ArrayName, mode: OpenMode) -> Result<Vec<Nested>> {
    let mut found = Vec::new();
    open_below(name, mode, None, &mut found)?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns true if an array is being reshaped. Its members cannot be compared then.
///
/// # Errors
/// See [`assemble`].
pub fn is_reshaped(name: &ArrayName) -> Result<bool> {
    Ok(name.manual.is_none() && assemble(name, OpenMode::ReadOnly)?.reshaped.is_some())
}

/// Converts a range of one of the nested arrays to ranges of a part of the outermost array's disk.
/// Returns `None` if not all of it lies within the part. `pieces` are the pieces of the disk that
/// form the part, in order (`open::pieces`).
pub fn ranges_in_part<'n>(
    nested: &dyn Fn(usize) -> &'n Nested,
    pieces: &[(ByteOffset, ByteLen)],
    index: usize,
    range: &Range<ByteOffset>,
) -> Option<Vec<Range<ByteOffset>>> {
    let Some((outer, role, range)) = range_in_outer(nested, index, range) else {
        return Some(vec![within(pieces, range)?]);
    };
    let contents = nested(outer).array.array_ranges(role?, &range?)?;
    let ranges = contents.iter().map(|range| ranges_in_part(nested, pieces, outer, range));
    Some(ranges.collect::<Option<Vec<_>>>()?.concat())
}

/// Converts a range of a nested array to one of the outer array's member: the outer array's index,
/// the member's role, and the range on that member.
pub fn range_in_outer<'n>(
    nested: &dyn Fn(usize) -> &'n Nested,
    index: usize,
    range: &Range<ByteOffset>,
) -> Option<(usize, Option<usize>, Option<Range<ByteOffset>>)> {
    let outer = nested(index).outer.as_ref()?;
    let role = nested(outer.index).array.role_of(&outer.member);
    Some((outer.index, role, within(&outer.pieces, range)))
}

/// Converts a range of a device to one of the part that `pieces` form. Returns `None` if it is not
/// within one piece.
pub fn within(
    pieces: &[(ByteOffset, ByteLen)],
    range: &Range<ByteOffset>,
) -> Option<Range<ByteOffset>> {
    let mut start = 0;
    for (below, len) in pieces {
        let end = below.0.saturating_add(len.0);
        if below.0 <= range.start.0 && range.end.0 <= end {
            let at = |byte: ByteOffset| ByteOffset(byte.0 - below.0 + start);
            return Some(at(range.start)..at(range.end));
        }
        start += len.0;
    }
    None
}

/// Opens one array and those within it. Reserves the array's entry in `found` first, so that an
/// array precedes its members.
fn open_below(
    name: &ArrayName,
    mode: OpenMode,
    outer: Option<Outer>,
    found: &mut Vec<Option<Nested>>,
) -> Result<Arc<Array>> {
    let index = found.len();
    found.push(None);
    let members = members_by(name, mode, &mut |target, mode| {
        let inner = match &target.base {
            Base::Array(inner) if !is_reshaped(inner)? => inner,
            _ => return open_unchecked(target, mode),
        };
        let (own, member) = (found.len(), target.to_string());
        let outer = Outer { index, member, pieces: Vec::new() };
        let disk = open_below(inner, mode, Some(outer), found)? as Arc<dyn BlockDevice>;
        if let Some(outer) = found[own].as_mut().and_then(|nested| nested.outer.as_mut()) {
            outer.pieces = pieces(target, &disk)?;
        }
        part_of(target, disk)
    })?;
    let array = Arc::new(array_of(name, members, mode)?);
    found[index] = Some(Nested { name: name.clone(), array: Arc::clone(&array), outer });
    Ok(array)
}
