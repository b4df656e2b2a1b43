//! Calls that fsx does not make: zeroed and preallocated ranges, copies between two files, direct
//! I/O beside the page cache, and holes that are looked for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};
use xfskit_test_support::Random;

use crate::stage::{Ran, Stage, Stop};

/// Bytes of a file at most.
const REACH: usize = 3 << 20;
/// Alignment of direct I/O.
const ALIGN: usize = 4096;
/// Operations between verifications of whole files.
const VERIFIED_EACH: usize = 200;

/// A file, and what it must hold.
struct Kept {
    path: PathBuf,
    content: Vec<u8>,
}

/// Runs random operations on two files.
pub(super) fn run(stage: &Stage) -> Ran {
    let mut volume = stage.volume(2)?;
    volume.ignore_times();
    let (begun, mut random, mut count) = (Instant::now(), stage.random(), 0);
    let mut files: Vec<Kept> = ["one", "other"]
        .map(|name| Kept { path: volume.path().join(name), content: Vec::new() })
        .into();
    for file in &files {
        File::create_new(&file.path)?;
    }
    while begun.elapsed() < stage.seconds() {
        for _ in 0..VERIFIED_EACH {
            let (which, op) = (random.below(2), random.below(12_u32));
            let seed = stage.seed;
            step(&mut files, which, op, &mut random)
                .map_err(|why| format!("seed {seed}, operation {count} ({op}): {why}"))?;
            count += 1;
        }
        for file in &files {
            let found = std::fs::read(&file.path)?;
            verify(&found, &file.content, 0, &file.path)?;
        }
    }
    volume.end()?;
    Ok(format!("{count} operations"))
}

/// Compares bytes that were read at `offset`.
fn verify(found: &[u8], expected: &[u8], offset: usize, path: &Path) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let at = at.unwrap_or(found.len().min(expected.len()));
    Err(format!(
        "{}: byte {}: {:?}, expected {:?} ({} bytes read, {} expected)",
        path.display(),
        offset + at,
        found.get(at),
        expected.get(at),
        found.len(),
        expected.len()
    ))
}

fn opened(path: &Path, more: OFlags) -> Result<File, Stop> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | more, Mode::empty())?.into())
}

/// Draws a range: of any length from bytes to a megabyte.
fn range(random: &mut Random) -> (usize, usize) {
    let start = random.below(REACH);
    let shift = random.below(20_u32);
    (start, (1 + random.below(1_usize << shift)).min(REACH - start))
}

/// Makes one change or one read.
fn step(files: &mut [Kept], which: usize, op: u32, random: &mut Random) -> Result<(), Stop> {
    let (start, len) = range(random);
    let end = start + len;
    let file = &mut files[which];
    let open = opened(&file.path, OFlags::empty())?;
    let keep = FallocateFlags::KEEP_SIZE;
    let fallocate = |how| rustix::fs::fallocate(&open, how, start as u64, len as u64);
    match op {
        0 | 1 => {
            let bytes = random.bytes(len);
            open.write_all_at(&bytes, start as u64)?;
            put(&mut file.content, start, &bytes);
        }
        2 => {
            fallocate(FallocateFlags::ZERO_RANGE)?;
            put(&mut file.content, start, &vec![0; len]);
        }
        3 => {
            fallocate(FallocateFlags::ZERO_RANGE | keep)?;
            clear(&mut file.content, start, end);
        }
        4 => {
            fallocate(FallocateFlags::PUNCH_HOLE | keep)?;
            clear(&mut file.content, start, end);
        }
        5 => fallocate(keep)?,
        6 => {
            fallocate(FallocateFlags::empty())?;
            let size = file.content.len().max(end);
            file.content.resize(size, 0);
        }
        7 => {
            open.set_len(start as u64)?;
            file.content.resize(start, 0);
        }
        8 => direct(file, random)?,
        9 => copy(files, which, random)?,
        10 => {
            rustix::fs::fdatasync(&open)?;
            rustix::fs::fadvise(&open, 0, None, Advice::DontNeed)?;
        }
        _ => {
            let mut found = vec![0; len];
            let read = open.read_at(&mut found, start as u64)?;
            let size = file.content.len();
            let expected = &file.content[start.min(size)..end.min(size)];
            verify(&found[..read], expected, start, &file.path)?;
        }
    }
    Ok(())
}

fn put(content: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    let end = start + bytes.len();
    content.resize(content.len().max(end), 0);
    content[start..end].copy_from_slice(bytes);
}

fn clear(content: &mut [u8], start: usize, end: usize) {
    let size = content.len();
    content[start.min(size)..end.min(size)].fill(0);
}

/// Reads or writes whole blocks beside the page cache.
fn direct(file: &mut Kept, random: &mut Random) -> Result<(), Stop> {
    let open = opened(&file.path, OFlags::DIRECT)?;
    let blocks = 1 + random.below(32_usize);
    let start = random.below(REACH / ALIGN - blocks) * ALIGN;
    let len = blocks * ALIGN;
    // The kernel asks for memory at the boundary of a sector.
    let mut memory = vec![0; len + ALIGN];
    let skip = memory.as_ptr().align_offset(ALIGN);
    let buffer = &mut memory[skip..skip + len];
    if random.one_in(2) {
        random.fill(buffer);
        open.write_all_at(buffer, start as u64)?;
        put(&mut file.content, start, buffer);
        return Ok(());
    }
    let read = open.read_at(buffer, start as u64)?;
    let size = file.content.len();
    let expected = &file.content[start.min(size)..(start + len).min(size)];
    Ok(verify(&buffer[..read], expected, start, &file.path)?)
}

/// Copies a range to the other file, or within the file.
fn copy(files: &mut [Kept], which: usize, random: &mut Random) -> Result<(), Stop> {
    let to = random.below(2_usize);
    let ((from_at, len), (mut to_at, _)) = (range(random), range(random));
    let (from_at, len) = if random.one_in(2) {
        to_at -= to_at % ALIGN;
        (from_at - from_at % ALIGN, len.next_multiple_of(ALIGN))
    } else {
        (from_at, len)
    };
    let size = files[which].content.len();
    let len = len.min(size.saturating_sub(from_at)).min(REACH - to_at);
    let is_overlap = to == which && from_at < to_at + len && to_at < from_at + len;
    if len == 0 || is_overlap {
        return Ok(());
    }
    let source = opened(&files[which].path, OFlags::empty())?;
    let target = opened(&files[to].path, OFlags::empty())?;
    let (mut from, mut into) = (from_at as u64, to_at as u64);
    let mut left = len;
    while left > 0 {
        match rustix::fs::copy_file_range(&source, Some(&mut from), &target, Some(&mut into), left)?
        {
            0 => return Err(format!("a copy ends {left} bytes early").into()),
            copied => left -= copied,
        }
    }
    let bytes = files[which].content[from_at..from_at + len].to_vec();
    put(&mut files[to].content, to_at, &bytes);
    Ok(())
}
