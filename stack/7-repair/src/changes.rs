//! The sectors that a repair changes.

use std::ops::Range;

use xfskit_block::{BlockDevice, OverlayDevice, Result};
use xfskit_units::{ByteLen, ByteOffset, index};

/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;

/// Returns the ranges, in whole sectors of `sector` bytes, in which the overlay differs from the
/// device below: ascending, at most a MiB each. The overlay itself has whole pages, which may have
/// blocks of files beside what was changed.
pub(crate) fn changed(overlay: &OverlayDevice, sector: usize) -> Result<Vec<Range<ByteOffset>>> {
    let mut ranges: Vec<Range<ByteOffset>> = Vec::new();
    for range in overlay.changed_ranges() {
        for start in (range.start.0..range.end.0).step_by(index(PIECE)) {
            let len = index(PIECE.min(range.end.0 - start));
            let (mut old, mut new) = (vec![0; len], vec![0; len]);
            overlay.base().read_at(ByteOffset(start), &mut old)?;
            overlay.read_at(ByteOffset(start), &mut new)?;
            let sectors = old.chunks(sector).zip(new.chunks(sector));
            let differing = sectors.enumerate().filter(|(_, (old, new))| old != new);
            for (n, (old, _)) in differing {
                let at = ByteOffset(start + (n * sector) as u64);
                let end = at.saturating_plus(ByteLen(old.len() as u64));
                match ranges.last_mut() {
                    Some(last) if last.end == at && end.0 - last.start.0 <= PIECE => last.end = end,
                    _ => ranges.push(at..end),
                }
            }
        }
    }
    Ok(ranges)
}

/// Sorts ranges, and joins those that touch.
pub(crate) fn merged<At: Ord + Copy>(mut ranges: Vec<Range<At>>) -> Vec<Range<At>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<At>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xfskit_block::MemDevice;

    use super::*;

    #[test]
    fn sectors_that_were_written_with_the_same_bytes_are_left_out() {
        let base: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(4 << 20)));
        let overlay = OverlayDevice::new(base);
        overlay.write_at(ByteOffset(0), &[0; 4096]).unwrap();
        overlay.write_at(ByteOffset(1024), &[7; 600]).unwrap();
        overlay.write_at(ByteOffset(8192), &vec![7; (2 << 20) + 512]).unwrap();
        let ranges = changed(&overlay, 512).unwrap();
        let ranges: Vec<_> = ranges.iter().map(|range| (range.start.0, range.end.0)).collect();
        let big = 8192;
        assert_eq!(ranges[0], (1024, 2048));
        assert!(ranges[1..].windows(2).all(|pair| pair[0].1 == pair[1].0), "{ranges:?}");
        assert!(ranges.iter().all(|(start, end)| end - start <= PIECE));
        assert_eq!((ranges[1].0, ranges.last().unwrap().1), (big, big + (2 << 20) + 512));
    }
}
