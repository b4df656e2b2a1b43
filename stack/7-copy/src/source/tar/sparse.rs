//! Files with holes, in all forms of GNU tar: a map of the ranges with data, followed by the data,
//! one range after the other.
//!
//! | form | where the map is |
//! | --- | --- |
//! | old GNU | in the header, and in blocks behind it |
//! | 0.0 | in records, one for each number |
//! | 0.1 | in one record |
//! | 1.0 | in front of the data, a number on each line, padded to a block |

use super::super::SourceError;
use super::header::{Block, number};
use super::pax::decimal;
use super::{BLOCK, Input, Member, Problem, Segment};

/// Maximum number of ranges in one map.
const RANGES_MAX: usize = 4 << 20;
/// Memory of a map while it is read, as a multiple of its size.
const MAP_GROWTH: u64 = 8;
/// Longest line of a map, in bytes.
const LINE_MAX: usize = 20;

/// The map of a file.
pub(super) struct Map {
    /// The file's size.
    pub(super) size: u64,
    /// Segments with data.
    pub(super) segments: Vec<Segment>,
    /// Number of bytes of data that follow.
    pub(super) stored: u64,
}

/// The reason why there is no map.
pub(super) enum Error {
    /// It is damaged.
    Problem(Problem),
    /// The archive cannot be read.
    Input(SourceError),
}

impl From<Problem> for Error {
    fn from(what: Problem) -> Self {
        Self::Problem(what)
    }
}

impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        Self::Input(error)
    }
}

/// Returns the map of `member`, whose data is next in `input`; `None` if it is not a sparse file.
pub(super) fn map(input: &mut Input<'_, '_>, member: &Member) -> Result<Option<Map>, Error> {
    let records = &member.records;
    if member.header.kind == b'S' {
        let (size, ranges) = old_gnu(input, &member.header.block)?;
        return Ok(Some(checked(size, &ranges, member.stored)?));
    }
    if let Some(major) = records.number(b"GNU.sparse.major")? {
        let minor = records.number(b"GNU.sparse.minor")?.unwrap_or(0);
        if (major, minor) != (1, 0) {
            return Err(format!("a sparse file of form {major}.{minor}, which is not known").into());
        }
        let size =
            records.number(b"GNU.sparse.realsize")?.ok_or("a sparse file without its size")?;
        let (ranges, taken) = in_front(input, member.stored)?;
        return Ok(Some(checked(size, &ranges, member.stored - taken)?));
    }
    let Some(size) = records.number(b"GNU.sparse.size")? else { return Ok(None) };
    let ranges = match records.get(b"GNU.sparse.map") {
        Some(map) => {
            let numbers = map.split(|&b| b == b',').map(decimal).collect::<Option<Vec<u64>>>();
            numbers.ok_or("a sparse map has an entry that is not a number")?
        }
        None => records.ranges.clone(),
    };
    Ok(Some(checked(size, &ranges, member.stored)?))
}

impl From<&str> for Error {
    fn from(what: &str) -> Self {
        Self::Problem(what.into())
    }
}

/// Offsets and lengths, in turn.
type Numbers = Vec<u64>;

fn old_gnu(input: &mut Input<'_, '_>, header: &Block) -> Result<(u64, Numbers), Error> {
    let of = |field: &[u8]| {
        let value = number(field, "a range of a sparse file")?;
        u64::try_from(value).map_err(|_| Problem::from("a range of a sparse file is negative"))
    };
    let size = of(&header[483..495])?;
    let mut ranges = Vec::new();
    let mut take = |entries: &[u8]| -> Result<(), Problem> {
        for field in entries.chunks_exact(24).take_while(|entry| entry[0] != 0) {
            ranges.extend([of(&field[..12])?, of(&field[12..])?]);
        }
        if ranges.len() > 2 * RANGES_MAX { Err("too many ranges".into()) } else { Ok(()) }
    };
    take(&header[386..482])?;
    let (mut more, mut taken) = (header[482] != 0, 0);
    while more {
        let block = input.block()?;
        taken += BLOCK as u64;
        input.borrow_memory(taken * MAP_GROWTH)?;
        take(&block[..504])?;
        more = block[504] != 0;
    }
    Ok((size, ranges))
}

/// Reads the map in front of `stored` bytes of data. Returns the numbers, and the bytes of the map.
fn in_front(input: &mut Input<'_, '_>, stored: u64) -> Result<(Numbers, u64), Error> {
    let mut taken = 0;
    let mut block = [0; BLOCK];
    let mut at = BLOCK;
    let mut line = || -> Result<u64, Error> {
        let mut digits = Vec::new();
        loop {
            if at == BLOCK {
                if stored - taken < BLOCK as u64 {
                    return Err("a sparse map is longer than its file".into());
                }
                block = input.block()?;
                taken += BLOCK as u64;
                input.borrow_memory(taken * MAP_GROWTH)?;
                at = 0;
            }
            let byte = block[at];
            at += 1;
            if byte == b'\n' {
                return decimal(&digits)
                    .ok_or("a sparse map has an entry that is not a number".into());
            }
            if digits.len() == LINE_MAX {
                return Err("a sparse map has an entry that is not a number".into());
            }
            digits.push(byte);
        }
    };
    let count = line()?;
    if count > RANGES_MAX as u64 {
        return Err(format!("a sparse map of {count} ranges").into());
    }
    let numbers = (0..2 * count).map(|_| line()).collect::<Result<Vec<u64>, _>>()?;
    Ok((numbers, taken))
}

/// Converts ranges to segments: ascending, within the file, together as long as the stored data.
fn checked(size: u64, ranges: &[u64], stored: u64) -> Result<Map, Problem> {
    let (pairs, []) = ranges.as_chunks::<2>() else {
        return Err("a sparse map ends within a range".into());
    };
    let mut segments: Vec<Segment> = Vec::new();
    let (mut end, mut held) = (0, 0_u64);
    for &[offset, len] in pairs {
        let next = offset.checked_add(len).filter(|&next| offset >= end && next <= size);
        let Some(next) = next else {
            return Err(format!("a sparse map: {len} bytes at {offset} of {size}"));
        };
        match segments.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.end() == offset => last.len += len,
            _ => segments.push(Segment { offset, len }),
        }
        end = next;
        held += len;
    }
    if held != stored {
        return Err(format!("a sparse map of {held} bytes for {stored} bytes of data"));
    }
    Ok(Map { size, segments, stored })
}
