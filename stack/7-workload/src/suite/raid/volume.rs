//! An XFS volume on the array, and its files.
//!
//! Every block of a file begins with its number and the number of the file, so that each request of
//! a reader is verified at its first block at no cost.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use xfskit_core::OpenOptions;
use xfskit_units::Ino;
use xfskit_vfs::Fs;

use super::members::RaidArray;
use crate::Driver;
use crate::driver::engine::Engine;
use crate::random::Random;
use crate::testbed;

/// Bytes of a block with a mark.
const BLOCK: usize = 4096;
/// Bytes of a write.
const WRITE: usize = 4 << 20;

/// Returns the bytes that the array must hold for these files: their own, a tenth more, and the
/// journal with room to spare.
pub(super) fn room(files: &[Range<u64>]) -> u64 {
    let bytes: u64 = files.iter().map(|file| file.end - file.start).sum();
    bytes + bytes / 10 + (512 << 20)
}

/// Makes a volume on the array, with its stripes in the superblock, and writes the files.
pub(super) fn make(array: &RaidArray, files: &[Range<u64>], seed: u64) -> io::Result<()> {
    testbed::format(&*array.device, &xfskit_mkfs::Options::default())?;
    let device = Arc::clone(&array.device);
    let engine = Engine::new(device, OpenOptions::default(), "xfskit", "an array")?;
    let root = engine.root()?;
    let mut random = Random::new(seed);
    let mut data = vec![0; WRITE];
    for bytes in data.chunks_exact_mut(8) {
        bytes.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    for (n, range) in files.iter().enumerate() {
        let file = engine.create(&root, name(n).as_bytes())?;
        let size = range.end - range.start;
        let mut at = 0;
        while at < size {
            stamp(n, at, &mut data);
            let part = usize::try_from(size - at).map_or(WRITE, |left| left.min(WRITE));
            engine.write(&file, at, &data[..part])?;
            at += part as u64;
        }
        Driver::close(&engine, file)?;
    }
    engine.close()
}

/// Returns the inode of file `n`.
pub(super) fn find(fs: &Fs, n: usize) -> io::Result<Ino> {
    let root = fs.inode(fs.volume().geo().rootino).map_err(io::Error::other)?;
    let found = fs.lookup(&root, name(n).as_bytes()).map_err(io::Error::other)?;
    found.ok_or_else(|| io::Error::other(format!("{} is not on the volume", name(n))))
}

/// Compares the mark of the first whole block in what was read of file `n` from byte `at` on.
///
/// # Errors
/// If it differs: the array or the volume returned wrong data.
pub(super) fn verify(n: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
    let first = at.next_multiple_of(BLOCK as u64);
    let found = usize::try_from(first - at).ok().and_then(|skip| bytes.get(skip..skip + 8));
    let expected = mark(n, first);
    if found.is_none_or(|found| found == expected) {
        return Ok(());
    }
    Err(io::Error::other(format!("{}: the block at byte {first} has wrong data", name(n))))
}

pub(super) fn name(n: usize) -> String {
    format!("file{n}")
}

fn mark(n: usize, at: u64) -> [u8; 8] {
    (((n as u64) << 40) | (at / BLOCK as u64)).to_le_bytes()
}

/// Marks every block of `data`, which begins at byte `at` of file `n`.
fn stamp(n: usize, at: u64, data: &mut [u8]) {
    for (block, offset) in data.chunks_mut(BLOCK).zip((at..).step_by(BLOCK)) {
        block[..8].copy_from_slice(&mark(n, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::super::members::{MemberKind, MemberSet, Plan};
    use super::*;
    use std::process::Command;
    use xfskit_block::{BlockDevice, FileDevice, OpenMode};
    use xfskit_md::Level;
    use xfskit_units::{ByteLen, ByteOffset};

    #[test]
    fn a_wrong_block_is_an_error() {
        let mut data = vec![7; 3 * BLOCK];
        stamp(3, 8192, &mut data);
        verify(3, 8192, &data).expect("the first block");
        verify(3, 8192 + 100, &data[100..]).expect("the next whole block");
        verify(3, 8192 + 100, &data[100..200]).expect("no whole block");
        assert!(verify(4, 8192, &data).is_err() && verify(3, 4096, &data).is_err());
    }

    /// Copies the array to a file, without its zeros.
    fn copy(array: &RaidArray, path: &std::path::Path) {
        let size = array.device.size();
        std::fs::File::create(path).and_then(|file| file.set_len(size.0)).expect("a file");
        let file = FileDevice::open(path, OpenMode::ReadWrite).expect("a file");
        let (mut at, mut buf) = (0, vec![0; 1 << 20]);
        while at < size.0 {
            let part = usize::try_from(size.0 - at).map_or(buf.len(), |left| left.min(buf.len()));
            array.device.read_at(ByteOffset(at), &mut buf[..part]).expect("read");
            if buf[..part].iter().any(|byte| *byte != 0) {
                file.write_at(ByteOffset(at), &buf[..part]).expect("written");
            }
            at += part as u64;
        }
    }

    /// Reads all files with the kernel.
    fn kernel_reads(image: &std::path::Path, files: &[Range<u64>]) {
        let mount = match crate::kernel::Mount::new(image, "ro") {
            Ok(mount) => mount,
            Err(error) => return eprintln!("skipped: the kernel cannot mount an image: {error}"),
        };
        for (n, range) in files.iter().enumerate() {
            let bytes = std::fs::read(mount.path().join(name(n))).expect("a file");
            assert_eq!(bytes.len() as u64, range.end - range.start);
            for (at, block) in (0..).step_by(BLOCK).zip(bytes.chunks(BLOCK)) {
                verify(n, at, block).expect("its mark");
            }
        }
        mount.unmount().expect("unmounted");
    }

    #[test]
    fn a_volume_on_the_array_is_clean_and_complete_without_two_members() {
        let plan = Plan { level: Level::Raid6, legs: 1, members: 6, chunk: 64 << 10 };
        let files = [0..3 << 20, (4 << 20)..(5 << 20) + 100, (8 << 20)..(13 << 20) + 4097];
        let size = (room(&files) / 4).next_multiple_of(4 << 20);
        let member_set = MemberSet::empty(&MemberKind::Memory, 6, size).expect("members");
        let array = |missing| member_set.array(&plan, missing, false, ByteLen(0)).expect("array");
        make(&array(0), &files, 7).expect("a volume");
        for missing in 0..=2 {
            let options = xfskit_check::Options::default();
            let report = xfskit_check::check(&*array(missing).device, None, &options, &mut |_| ());
            assert!(report.expect("a check").clean(), "{missing} missing");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        copy(&array(2), &image);
        kernel_reads(&image, &files);
        let Ok(out) = Command::new("xfs_repair").args(["-n", "-f"]).arg(&image).output() else {
            eprintln!("skipped: xfs_repair is not installed");
            return;
        };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}
