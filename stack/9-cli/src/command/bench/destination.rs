//! A file that is replaced as a whole: a reader finds the old content or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Where a text is written to.
#[derive(Debug)]
pub(super) struct Destination {
    path: PathBuf,
    /// The path without symbolic links; `None` for a pipe or a device, which is written in place.
    file: Option<PathBuf>,
}

impl Destination {
    /// Returns the destination at `path`, after making sure that a file can be made there.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let is_stream = fs::metadata(path).is_ok_and(|is| !is.is_file() && !is.is_dir());
        let file = (!is_stream).then(|| path.canonicalize().unwrap_or_else(|_| path.into()));
        let destination = Self { path: path.into(), file };
        if let Some(file) = &destination.file {
            if file.is_dir() {
                return Err(destination.failed(&io::ErrorKind::IsADirectory.into()));
            }
            let temporary = temporary(file);
            let made = OpenOptions::new().write(true).create_new(true).open(&temporary);
            made.and_then(|_| fs::remove_file(&temporary))
                .map_err(|err| destination.failed(&err))?;
        }
        Ok(destination)
    }

    /// Returns the path as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the destination can be written several times.
    pub(super) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Replaces the content. If that fails, the old content stays.
    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        let written = match &self.file {
            Some(file) => replace(file, text),
            None => OpenOptions::new()
                .write(true)
                .open(&self.path)
                .and_then(|mut stream| stream.write_all(text.as_bytes())),
        };
        written.map_err(|err| self.failed(&err))
    }

    fn failed(&self, err: &io::Error) -> Failure {
        Failure::cannot(format!("{}: {err}", self.path.display()))
    }
}

/// Returns the name of the temporary file beside `file`.
fn temporary(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}", std::process::id()))
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let temporary = temporary(file);
    let written = write_new(&temporary, file, text).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Writes a new file with the permissions of `old`, if that exists.
fn write_new(path: &Path, old: &Path, text: &str) -> io::Result<()> {
    let mut new = File::create(path)?;
    if let Ok(old) = fs::metadata(old) {
        new.set_permissions(old.permissions())?;
    }
    new.write_all(text.as_bytes())?;
    new.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_replaced_with_its_permissions_and_behind_its_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("a"), dir.path().join("link"));
        fs::write(&file, "old").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("permissions");
        symlink("a", &link).expect("a link");
        Destination::new(&link).and_then(|to| to.write("new")).expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "new");
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2);
    }

    #[test]
    fn a_destination_that_cannot_be_written_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        Destination::new(dir.path()).expect_err("a directory");
        Destination::new(&dir.path().join("none/a")).expect_err("in no directory");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn a_device_is_written_and_not_replaced() {
        let null = Destination::new(Path::new("/dev/null")).expect("a device");
        assert!(!null.is_file());
        null.write("text").expect("written");
        assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    }
}
