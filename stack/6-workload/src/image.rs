//! Disks of studies in files: sparse, and without a name, so that none is left behind however a study ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use xfskit_block::{FileDevice, OpenMode};
use xfskit_target::size;
use xfskit_units::ByteLen;

/// The step in which [`largest`] looks for a size.
const STEP: u64 = 1 << 30;

/// A disk in a file that has no name. Its room is given back when it is dropped, or the process ends.
#[derive(Debug)]
pub(crate) struct Image {
    /// The file as this process has it open: other programs can open it there, too.
    path: PathBuf,
    _file: File,
}

impl Image {
    /// Makes one of `len` in `dir`.
    ///
    /// # Errors
    /// Where no file can be made there, or none of that size.
    pub(crate) fn new(dir: &Path, len: ByteLen) -> io::Result<Self> {
        let file = unnamed(dir)?;
        if !grow(&file, dir, len)? {
            let most = size::format(largest(dir, len)?);
            let wanted = size::format(len);
            return Err(io::Error::other(format!(
                "{}: a file there can have {most}, not {wanted}; --size names a smaller disk",
                dir.display()
            )));
        }
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
        Ok(Self { path, _file: file })
    }

    /// By which name it can be opened while this value lives.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The disk, for reading and writing.
    ///
    /// # Errors
    /// Where it cannot be opened once more.
    pub(crate) fn open(&self) -> io::Result<FileDevice> {
        FileDevice::open(&self.path, OpenMode::ReadWrite).map_err(io::Error::other)
    }
}

/// Returns `wanted`, or the largest size that files in `dir` can have, in whole GiB, where that is less.
///
/// # Errors
/// Where no file can be made there.
pub(crate) fn largest(dir: &Path, wanted: ByteLen) -> io::Result<ByteLen> {
    let file = unnamed(dir)?;
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

/// Gives `file` in `dir` that size. Returns false where files there cannot be that large.
fn grow(file: &File, dir: &Path, len: ByteLen) -> io::Result<bool> {
    match file.set_len(len.0) {
        Ok(()) => Ok(true),
        // Some filesystems take the sizes that they do not know for invalid ones.
        Err(err)
            if matches!(err.kind(), io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput) =>
        {
            Ok(false)
        }
        Err(err) => Err(refused(dir, &err)),
    }
}

/// A file in `dir` whose name is gone already.
fn unnamed(dir: &Path) -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!("xfskit-bench-{}-{n}.img", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(|err| refused(dir, &err))?;
    std::fs::remove_file(&path).map_err(|err| refused(dir, &err))?;
    Ok(file)
}

fn refused(dir: &Path, err: &io::Error) -> io::Error {
    io::Error::other(format!("{}: {err}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_no_name_and_another_program_can_open_it() {
        let dir = tempfile::tempdir().unwrap();
        let image = Image::new(dir.path(), ByteLen(1 << 20)).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let out = std::process::Command::new("wc").arg("-c").arg(image.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout).split(' ').next(), Some("1048576"));
    }

    #[test]
    fn a_disk_too_large_for_its_directory_is_refused_with_what_would_fit() {
        let dir = tempfile::tempdir().unwrap();
        // More than any file of Linux can have.
        let wanted = ByteLen(1 << 63);
        let err = Image::new(dir.path(), wanted).unwrap_err().to_string();
        assert!(err.contains("--size names a smaller disk"), "{err}");
        let most = largest(dir.path(), wanted).unwrap();
        assert!(most > ByteLen(1 << 40) && most < wanted, "{most:?}");
        assert!(Image::new(dir.path(), most).is_ok(), "{most:?}");
        assert!(Image::new(dir.path(), ByteLen(most.0 + 2 * STEP)).is_err(), "{most:?}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
