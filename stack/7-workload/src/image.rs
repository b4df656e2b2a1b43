//! Disk images for studies: sparse and unlinked, so that none is left behind however a study ends.
//!
//! A sparse image takes its space while it is written. If that is missing, the device reports it,
//! but what is above may know only that its device failed, and the kernel's XFS says EIO. When the
//! failure of the study is reported, the image and its space are free again. So each image looks
//! when it is dropped whether there is space left beside it, and [`full_dir`] has what it saw.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use xfskit_block::{FileDevice, OpenMode};
use xfskit_target::size;
use xfskit_units::ByteLen;

/// The granularity of the search in [`largest_size`].
const STEP: u64 = 1 << 30;

/// A disk image in an unlinked file. Its space is freed when the value is dropped or the process
/// ends.
#[derive(Debug)]
pub(crate) struct Image {
    /// The file below `/proc` of this process, where other programs can open it, too.
    path: PathBuf,
    dir: PathBuf,
    _file: File,
}

/// Directories that had no space left beside an image.
static FULL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Bytes that are written to find out whether there is space left.
const PROBE: usize = 1 << 20;

/// A directory that had no space left beside the images of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullDir {
    /// The directory.
    pub dir: PathBuf,
    /// Bytes that are free there now, without the images.
    pub free: ByteLen,
}

impl std::fmt::Display for FullDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dir, free) = (self.dir.display(), size::format(self.free));
        write!(
            f,
            "no space left in {dir}: {free} are free there, and the disks of this study need more than that; \
             name a directory with more space (--dir), or smaller counts"
        )
    }
}

/// Returns a directory in which there was no space left beside an image of this process, and
/// forgets it.
pub fn full_dir() -> Option<FullDir> {
    let dir = FULL.lock().ok()?.pop_first()?;
    let free = free_bytes(&dir).unwrap_or(ByteLen(0));
    Some(FullDir { dir, free })
}

/// Returns true if a file in `dir` cannot have [`PROBE`] bytes.
fn is_full(dir: &Path) -> bool {
    let written = unlinked_file(dir).and_then(|mut file| file.write_all(&vec![1; PROBE]));
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    written.is_err_and(|err| kinds.contains(&err.kind()))
}

impl Drop for Image {
    fn drop(&mut self) {
        if is_full(&self.dir)
            && let Ok(mut full) = FULL.lock()
        {
            full.insert(self.dir.clone());
        }
    }
}

impl Image {
    /// Creates an image of `len` bytes in `dir`.
    ///
    /// # Errors
    /// If no file, or none of that size, can be made in the directory.
    pub(crate) fn new(dir: &Path, len: ByteLen) -> io::Result<Self> {
        let file = unlinked_file(dir)?;
        if !grow(&file, dir, len)? {
            let most = size::format(largest_size(dir, len)?);
            let wanted = size::format(len);
            return Err(io::Error::other(format!(
                "{}: files there are limited to {most}, and {wanted} are needed; --size sets a smaller disk",
                dir.display()
            )));
        }
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
        Ok(Self { path, dir: dir.to_owned(), _file: file })
    }

    /// Returns the path under which the image can be opened while this value lives.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the image for reading and writing.
    ///
    /// # Errors
    /// If the file cannot be opened again.
    pub(crate) fn open(&self) -> io::Result<FileDevice> {
        FileDevice::open(&self.path, OpenMode::ReadWrite).map_err(io::Error::other)
    }
}

/// Returns `wanted`, or the largest file size in `dir` in whole GiB if that is less.
///
/// # Errors
/// If no file can be made in the directory.
pub(crate) fn largest_size(dir: &Path, wanted: ByteLen) -> io::Result<ByteLen> {
    let file = unlinked_file(dir)?;
    if grow(&file, dir, wanted)? {
        return Ok(wanted);
    }
    let (mut fits, mut fails) = (0, wanted.0.div_ceil(STEP));
    while fits + 1 < fails {
        let middle = fits.midpoint(fails);
        if grow(&file, dir, ByteLen(middle * STEP))? {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    Ok(ByteLen(fits * STEP))
}

/// Fails unless `dir` has `needed` bytes free. `what` names what needs them.
///
/// # Errors
/// If there is less space, which the error names.
pub(crate) fn verify_space(dir: &Path, needed: ByteLen, what: &str) -> io::Result<()> {
    let free = free_bytes(dir)?;
    if needed <= free {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{}: {} are free, and {what} need at least {}; name a directory with more space (--dir), or smaller counts",
        dir.display(),
        size::format(free),
        size::format(needed)
    )))
}

fn free_bytes(dir: &Path) -> io::Result<ByteLen> {
    let stat = rustix::fs::statvfs(dir).map_err(|err| refused(dir, &err.into()))?;
    Ok(ByteLen(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// Sets the size of `file` in `dir`. Returns false if the filesystem does not support files of that
/// size.
fn grow(file: &File, dir: &Path, len: ByteLen) -> io::Result<bool> {
    match file.set_len(len.0) {
        Ok(()) => Ok(true),
        // Some filesystems report an unsupported size as an invalid argument.
        Err(err)
            if matches!(err.kind(), io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput) =>
        {
            Ok(false)
        }
        Err(err) => Err(refused(dir, &err)),
    }
}

/// Creates a file in `dir` and unlinks it at once.
fn unlinked_file(dir: &Path) -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!("xfskit-bench-{}-{n}.img", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(|err| refused(dir, &err))?;
    std::fs::remove_file(&path).map_err(|err| refused(dir, &err))?;
    Ok(file)
}

fn refused(dir: &Path, err: &io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{}: {err}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_unlinked_and_other_programs_can_open_it() {
        let dir = tempfile::tempdir().unwrap();
        let image = Image::new(dir.path(), ByteLen(1 << 20)).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let out = std::process::Command::new("wc").arg("-c").arg(image.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout).split(' ').next(), Some("1048576"));
    }

    #[test]
    fn space_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        verify_space(dir.path(), ByteLen(1 << 20), "files").unwrap();
        let err = verify_space(dir.path(), ByteLen(1 << 62), "3 files").unwrap_err().to_string();
        assert!(err.contains("are free, and 3 files need at least 4 EiB"), "{err}");
        verify_space(&dir.path().join("none"), ByteLen(1), "files").unwrap_err();
    }

    #[test]
    fn an_image_too_large_for_its_directory_is_refused_with_the_size_that_fits() {
        let dir = tempfile::tempdir().unwrap();
        // More than the largest file on Linux.
        let wanted = ByteLen(1 << 63);
        let err = Image::new(dir.path(), wanted).unwrap_err().to_string();
        assert!(err.contains("--size sets a smaller disk"), "{err}");
        let most = largest_size(dir.path(), wanted).unwrap();
        assert!(most > ByteLen(1 << 40) && most < wanted, "{most:?}");
        assert!(Image::new(dir.path(), most).is_ok(), "{most:?}");
        assert!(Image::new(dir.path(), ByteLen(most.0 + 2 * STEP)).is_err(), "{most:?}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
