//! The disk alone: how long it takes to read as many bytes as a contender did.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;
use xfskit_units::index;

/// Most bytes of a request.
const REQUEST: usize = 1 << 20;
/// Alignment of offset and memory, in bytes: what disks ask for at most.
const ALIGN: u64 = 4096;
/// Requests in flight: the rate of a virtual disk does not grow any more from here on.
pub const IN_FLIGHT: usize = 8;

/// Reads the first `bytes` of data of a file, or all it has, without its holes and past the page
/// cache, in requests of up to 1 MiB of which [`IN_FLIGHT`] are in flight, and returns the time.
///
/// # Errors
/// The file cannot be read with `O_DIRECT`.
pub fn read_past_cache(path: &Path, bytes: u64) -> io::Result<Duration> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let requests = data(&file, bytes)?;
    let next = AtomicUsize::new(0);
    let reader = || -> io::Result<()> {
        let mut memory = vec![0; REQUEST + index(ALIGN)];
        let start = memory.as_ptr().align_offset(index(ALIGN));
        while let Some(range) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let len = index(range.end - range.start);
            file.read_exact_at(&mut memory[start..start + len], range.start)?;
        }
        Ok(())
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(reader)).collect();
        readers.into_iter().try_for_each(|reader| reader.join().expect("a reader does not panic"))
    })?;
    Ok(begun.elapsed())
}

/// Returns where to read `bytes` of data, rounded up to [`ALIGN`], or all there is: a range for
/// each request.
fn data(file: &File, bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let mut left = bytes.next_multiple_of(ALIGN);
    let mut requests = Vec::new();
    let mut at = 0;
    while left > 0 {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = seek(file, SeekFrom::Hole(start))?;
        let end = (hole - hole % ALIGN).clamp(start, start + left);
        let pieces = (start..end).step_by(REQUEST);
        requests.extend(pieces.map(|from| from..end.min(from + REQUEST as u64)));
        left -= end - start;
        at = hole;
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data of 3 MiB, a hole of 5, and data of 2 and a half.
    #[test]
    fn requests_are_of_data_only() {
        let path = std::env::temp_dir().join(format!("xfskit-bench-disk-{}", std::process::id()));
        let file = File::create_new(&path).unwrap();
        file.write_all_at(&vec![1; 3 << 20], 0).unwrap();
        file.write_all_at(&vec![1; 5 << 19], 8 << 20).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let of = |bytes| -> Vec<(u64, u64)> {
            data(&file, bytes)
                .unwrap()
                .iter()
                .map(|r| (r.start >> 19, (r.end - r.start) >> 12))
                .collect()
        };
        assert_eq!(of(4 << 20), [(0, 256), (2, 256), (4, 256), (16, 256)]);
        assert_eq!(of((1 << 20) + 1), [(0, 256), (2, 1)]);
        assert_eq!(of(11 << 19).last(), Some(&(20, 128)), "the last half of a request");
        assert_eq!(of(6 << 20), of(11 << 19), "there is less data");
    }
}
