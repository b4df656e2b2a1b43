//! `xfskit extents` of files on a mount.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::mounts;
use super::protocol::{Client, Extent, FileEnd, Layout, Reply, Request};
use crate::exit::Failure;

/// The extents of one fork of a file, and what their listing needs to know.
pub(crate) struct Listed {
    pub layout: Layout,
    pub end: FileEnd,
    pub extents: Vec<Extent>,
}

/// Returns true if `file` is on a mount by xfskit.
pub(crate) fn is_on_mount(file: &OsStr) -> bool {
    matches!(mounts::of(Path::new(file)), Ok(Some(_)))
}

/// Returns the extents of the content of a file on a mount, or of its attributes.
pub(crate) fn extents(file: &OsStr, attr: bool) -> Result<Listed, Failure> {
    let path = Path::new(file);
    let cannot = |error: std::io::Error| Failure::cannot(format!("{}: {error}", path.display()));
    let entry = mounts::on(path)?;
    let state = Client::state(&entry)?;
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    let has_content = metadata.is_file() || metadata.is_dir();
    // Content that the kernel caches gets its blocks. A frozen mount takes nothing.
    if has_content && !state.frozen {
        open(path).and_then(|file| file.sync_all()).map_err(cannot)?;
    }
    let mut client = Client::ask(&entry, Request::Extents { ino: metadata.ino(), attr })?;
    let (mut extents, mut end) = (Vec::new(), FileEnd::default());
    loop {
        match client.reply()? {
            Reply::File(file) => end = file,
            Reply::Extents(some) => extents.extend(some),
            Reply::Done => return Ok(Listed { layout: state.layout, end, extents }),
            _ => return Err(client.unexpected()),
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}
