//! The bad-block log: ranges of one member that must not be read.
//!
//! A block is listed when it could not be written, or when a rebuild could not compute it. It is
//! then read from the other members, and leaves the list when it is written again. On disk the log
//! is a list of 64-bit numbers, `start << 10 | length`, in units of `1 << bblog_shift` sectors from
//! the member's data offset. A number of all ones ends the list.

use std::ops::Range;

use xfskit_block::BlockDevice;
use xfskit_units::{MemberSector, Sectors, index};

use crate::superblock::{MemberRange, Superblock};

/// Ends the list.
const END: u64 = u64::MAX;
/// The longest range of one entry, in units.
const LONGEST: u64 = 512;

/// Decodes the ranges in `bytes`, sorted, with touching ranges merged.
pub fn decode(bytes: &[u8], shift: u8) -> Vec<Range<MemberSector>> {
    let (entries, _) = bytes.as_chunks::<8>();
    let entries = entries.iter().map(|entry| u64::from_le_bytes(*entry));
    let scale = |units: u64| MemberSector(units.checked_shl(u32::from(shift)).unwrap_or(u64::MAX));
    let mut ranges: Vec<Range<MemberSector>> = entries
        .take_while(|entry| *entry != END)
        .map(|entry| scale(entry >> 10)..scale((entry >> 10) + (entry & 0x3ff)))
        .filter(|range| range.start < range.end)
        .collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<MemberSector>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Encodes `ranges` for a log of `len` bytes. Returns `None` if they do not fit. A range that
/// begins or ends within a unit takes the whole unit.
pub fn encode(ranges: &[Range<MemberSector>], shift: u8, len: usize) -> Option<Vec<u8>> {
    let unit = Sectors(1u64.checked_shl(u32::from(shift))?);
    let mut bytes = Vec::with_capacity(len);
    for range in ranges {
        let (mut start, end) = (range.start.whole(unit), range.end.div_ceil(unit));
        while start < end && bytes.len() < len {
            let length = (end - start).min(LONGEST);
            let entry = start.checked_mul(1 << 10)? | length;
            bytes.extend_from_slice(&entry.to_le_bytes());
            start += length;
        }
        if start < end {
            return None;
        }
    }
    bytes.resize(len, 0xff);
    Some(bytes)
}

/// Reads the bad blocks of the member with this superblock.
///
/// # Errors
/// Returns an error if the member cannot be read.
pub fn read(
    device: &dyn BlockDevice,
    superblock: &Superblock,
) -> xfskit_block::Result<Vec<Range<MemberSector>>> {
    let (Some(MemberRange { at, len }), Superblock::V1(sb)) = (superblock.bad_blocks(), superblock)
    else {
        return Ok(Vec::new());
    };
    let mut bytes = vec![0; index(len.byte_len().0)];
    device.read_at(at.byte_offset(), &mut bytes)?;
    Ok(decode(&bytes, sb.bblog_shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(range: Range<u64>) -> Range<MemberSector> {
        MemberSector(range.start)..MemberSector(range.end)
    }

    #[test]
    fn entries_are_start_and_length_until_all_ones() {
        let mut bytes = vec![0x18, 0xa0, 0x0f, 0, 0, 0, 0, 0, 0x08, 0xb0, 0x04, 0, 0, 0, 0, 0];
        bytes.extend([0xff; 16]);
        bytes.extend([1; 8]);
        assert_eq!(decode(&bytes, 0), [range(300..308), range(1000..1024)]);
        assert_eq!(decode(&bytes, 3), [range(2400..2464), range(8000..8192)]);
    }

    #[test]
    fn encoded_ranges_decode_to_the_same_ranges() {
        let ranges = [range(5..6), range(100..1700), range(1 << 40..(1 << 40) + 8)];
        let bytes = encode(&ranges, 0, 4096).unwrap();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(decode(&bytes, 0), ranges);
        assert_eq!(decode(&encode(&ranges[..1], 3, 512).unwrap(), 3), [range(0..8)]);
        assert!(encode(&ranges, 0, 16).is_none());
    }

    #[test]
    fn any_bytes_decode() {
        for fill in [0x00, 0x01, 0x7f, 0xfe] {
            for shift in [0, 9, 63, 64, 255] {
                decode(&[fill; 512], shift);
            }
        }
    }
}
