//! An array and the arrays within it, each by itself: for those who compare members, on every level.

use std::ops::Range;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_md::array::Array;
use xfskit_units::{ByteLen, ByteOffset};

use crate::array::ArrayName;
use crate::error::Result;
use crate::name::Base;
use crate::open::{array_of, assemble, members_by, open_unchecked, part_of, pieces};

/// One of several arrays within each other.
#[derive(Debug)]
pub struct Nested {
    /// Its name.
    pub name: ArrayName,
    /// The array.
    pub array: Arc<Array>,
    /// What it is to the array that it is a member of; `None` for the outermost.
    pub above: Option<Above>,
}

/// A member that is an array.
#[derive(Clone, Debug)]
pub struct Above {
    /// The array that it is a member of, by its index.
    pub index: usize,
    /// What it is called there.
    pub member: String,
    /// Where on the inner array the member lies, in order: all of it, a partition, a logical volume.
    pub pieces: Vec<(ByteOffset, ByteLen)>,
}

/// Opens an array and the arrays within it, the outermost first, each before its members. What is being reshaped
/// is a device like any other here.
///
/// # Errors
/// As [`open_array`](crate::open_array).
pub fn open_nested(name: &ArrayName, mode: OpenMode) -> Result<Vec<Nested>> {
    let mut found = Vec::new();
    open_below(name, mode, None, &mut found)?;
    Ok(found.into_iter().flatten().collect())
}

/// True where an array is on its way from one geometry to another: nobody can compare its members then.
///
/// # Errors
/// As [`assemble`].
pub fn is_reshaped(name: &ArrayName) -> Result<bool> {
    Ok(name.manual.is_none() && assemble(name, OpenMode::ReadOnly)?.reshaped.is_some())
}

/// What of a part of the outermost array's disk lies at a place of one of the arrays within each other; `None` where
/// that is not all within it. `pieces` are where on the disk the part lies, in order (`open::pieces`).
pub fn places_in_part<'n>(
    nested: &dyn Fn(usize) -> &'n Nested,
    pieces: &[(ByteOffset, ByteLen)],
    index: usize,
    place: &Range<ByteOffset>,
) -> Option<Vec<Range<ByteOffset>>> {
    let Some((above, role, place)) = place_above(nested, index, place) else {
        return Some(vec![within(pieces, place)?]);
    };
    let contents = nested(above).array.array_ranges(role?, &place?)?;
    let places = contents.iter().map(|place| places_in_part(nested, pieces, above, place));
    Some(places.collect::<Option<Vec<_>>>()?.concat())
}

/// A place of an array within another: the other one's index, the role there, and where on that member it is.
pub fn place_above<'n>(
    nested: &dyn Fn(usize) -> &'n Nested,
    index: usize,
    place: &Range<ByteOffset>,
) -> Option<(usize, Option<usize>, Option<Range<ByteOffset>>)> {
    let above = nested(index).above.as_ref()?;
    let role = nested(above.index).array.role_of(&above.member);
    Some((above.index, role, within(&above.pieces, place)))
}

/// A place of a device as one of the part of it that these pieces are; `None` where it is not within one of them.
pub fn within(
    pieces: &[(ByteOffset, ByteLen)],
    place: &Range<ByteOffset>,
) -> Option<Range<ByteOffset>> {
    let mut start = 0;
    for (below, len) in pieces {
        let end = below.0.saturating_add(len.0);
        if below.0 <= place.start.0 && place.end.0 <= end {
            let at = |byte: ByteOffset| ByteOffset(byte.0 - below.0 + start);
            return Some(at(place.start)..at(place.end));
        }
        start += len.0;
    }
    None
}

/// Opens one array and those within it. `found` has a place for each before it is made, so that an array stands
/// before its members.
fn open_below(
    name: &ArrayName,
    mode: OpenMode,
    above: Option<Above>,
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
        let above = Above { index, member, pieces: Vec::new() };
        let disk = open_below(inner, mode, Some(above), found)? as Arc<dyn BlockDevice>;
        if let Some(above) = found[own].as_mut().and_then(|nested| nested.above.as_mut()) {
            above.pieces = pieces(target, &disk)?;
        }
        part_of(target, disk)
    })?;
    let array = Arc::new(array_of(name, members, mode)?);
    found[index] = Some(Nested { name: name.clone(), array: Arc::clone(&array), above });
    Ok(array)
}
