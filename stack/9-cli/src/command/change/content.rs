//! `truncate`, `fallocate`: change the content of files, by ranges.

use std::ops::Range;
use std::path::Path;

use xfskit::{ErrorKind, File, NewFile, OpenOptions, Result};

use super::{Session, Stopped};
use crate::exit::Failure;
use crate::grammar::arguments::Owner;
use crate::grammar::change::{Fallocate, Truncate};

/// `xfskit truncate`: sets the size of files.
pub(super) fn truncate(session: &Session<'_>, args: &Truncate) -> Result<(), Failure> {
    let owner = (!args.no_create).then_some(args.owner);
    session.each(&args.paths, |path| {
        match with_file(session, path, owner, |file| file.set_len(args.size)) {
            Err(error) if error.kind() == ErrorKind::NotFound && args.no_create => Ok(()),
            result => Ok(result?),
        }
    })
}

/// `xfskit fallocate`: allocates blocks for a range of a file, or frees them.
pub(super) fn fallocate(session: &Session<'_>, args: &Fallocate) -> Result<(), Failure> {
    let needs_file = args.punch_hole || args.collapse_range || args.insert_range;
    let owner = (!needs_file).then_some(args.owner);
    session.each(std::slice::from_ref(&args.path), |path| {
        let end = args.offset.checked_add(args.length).filter(|_| args.length > 0);
        let end = end.ok_or(Stopped::Refused("the range is empty or beyond all files", None))?;
        Ok(with_file(session, path, owner, |file| allocate(file, args, args.offset..end))?)
    })
}

fn allocate(file: &File, args: &Fallocate, range: Range<u64>) -> Result<()> {
    match (args.keep_size, args.zero_range) {
        _ if args.punch_hole => file.punch_hole(range),
        _ if args.collapse_range => file.collapse_range(range),
        _ if args.insert_range => file.insert_range(range),
        (true, true) => file.zero_range_keep_size(range),
        (false, true) => file.zero_range(range),
        (true, false) => file.allocate_keep_size(range),
        (false, false) => file.allocate(range),
    }
}

/// Runs `work` on the file `path`. If `owner` is given, a missing file is made, and gets its name
/// when the work is done.
fn with_file(
    session: &Session<'_>,
    path: &Path,
    owner: Option<Owner>,
    work: impl Fn(&File) -> Result<()>,
) -> Result<()> {
    let volume = session.volume;
    match (volume.open_with(path, OpenOptions::new().write(true)), owner) {
        (Err(error), Some(owner)) if error.kind() == ErrorKind::NotFound => {
            let dir = path.parent().unwrap_or(Path::new("/"));
            let file = volume.create_unnamed(dir, &NewFile::file().owner(owner.uid, owner.gid))?;
            work(&file)?;
            file.link(path)
        }
        (found, _) => work(&found?),
    }
}
