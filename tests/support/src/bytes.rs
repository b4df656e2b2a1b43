//! Byte-by-byte comparison of two sparse images.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Bytes compared at a time.
const STEP: u64 = 1 << 20;

/// Returns the first differences of two images outside of `ignored`: one line for each differing
/// sector, at most `limit`. Reads only ranges that one of the images stores; holes are zeroes.
pub fn differences(
    ours: &Path,
    theirs: &Path,
    ignored: &[Range<u64>],
    limit: usize,
) -> Vec<String> {
    let files = [ours, theirs].map(|path| File::open(path).expect("open an image"));
    let sizes = files.each_ref().map(|file| file.metadata().expect("stat").len());
    let mut found = Vec::new();
    if sizes[0] != sizes[1] {
        found.push(format!("{} and {} bytes", sizes[0], sizes[1]));
    }
    let end = sizes[0].min(sizes[1]);
    let mut at = 0;
    while let Some(start) = next_data(&files, at).filter(|&start| start < end) {
        if found.len() >= limit {
            break;
        }
        at = (start / STEP * STEP).max(at);
        let length = STEP.min(end - at);
        compare(&files, at..at + length, ignored, &mut found);
        at += length;
    }
    found.truncate(limit);
    found
}

/// Returns the next byte that one of the files stores.
fn next_data(files: &[File; 2], at: u64) -> Option<u64> {
    let next = |file: &File| match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(next) => Some(next),
        Err(Errno::NXIO) => None,
        Err(error) => panic!("SEEK_DATA: {error}"),
    };
    files.iter().filter_map(next).min()
}

fn compare(files: &[File; 2], range: Range<u64>, ignored: &[Range<u64>], found: &mut Vec<String>) {
    let length = usize::try_from(range.end - range.start).expect("at most a step");
    let mut bytes = files.each_ref().map(|file| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, range.start).expect("read");
        bytes
    });
    for hidden in ignored {
        let overlap = hidden.start.max(range.start)..hidden.end.min(range.end);
        if !overlap.is_empty() {
            let inside = |at: u64| usize::try_from(at - range.start).expect("at most a step");
            for side in &mut bytes {
                side[inside(overlap.start)..inside(overlap.end)].fill(0);
            }
        }
    }
    let [ours, theirs] = &bytes;
    if ours == theirs {
        return;
    }
    for (number, (ours, theirs)) in ours.chunks(512).zip(theirs.chunks(512)).enumerate() {
        if let Some(at) = (0..ours.len()).find(|&at| ours[at] != theirs[at]) {
            let near = at / 4 * 4..(at / 4 * 4 + 8).min(ours.len());
            found.push(format!(
                "daddr {:#x}, byte {at}: ours {:02x?}, theirs {:02x?}",
                range.start / 512 + number as u64,
                &ours[near.clone()],
                &theirs[near],
            ));
        }
    }
}
