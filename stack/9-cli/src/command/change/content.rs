//! `truncate`, `fallocate`: change the content of files, by ranges.

use std::ops::Range;

use xfskit::raw::core::Error as Core;
use xfskit::raw::vfs::{Error, FileType, Follow, Handle, NewNode, Result};

use super::Session;
use crate::exit::Failure;
use crate::grammar::arguments::Owner;
use crate::grammar::change::{Fallocate, Truncate};

/// `xfskit truncate`
pub(super) fn truncate(session: &Session<'_>, args: &Truncate) -> Result<(), Failure> {
    let owner = (!args.no_create).then_some(args.owner);
    session.each(&args.paths, |path| {
        match with_file(session, path, owner, |file| file.truncate(args.size)) {
            Err(Error::NotFound { .. }) if args.no_create => Ok(()),
            result => Ok(result?),
        }
    })
}

/// `xfskit fallocate`
pub(super) fn fallocate(session: &Session<'_>, args: &Fallocate) -> Result<(), Failure> {
    let needs_file = args.punch_hole || args.collapse_range || args.insert_range;
    let owner = (!needs_file).then_some(args.owner);
    session.each(std::slice::from_ref(&args.path), |path| {
        let end = args.offset.checked_add(args.length).filter(|_| args.length > 0);
        let end = end.ok_or(Error::Core(Core::Limit("the range is empty or beyond all files")))?;
        Ok(with_file(session, path, owner, |file| allocate(file, args, args.offset..end))?)
    })
}

fn allocate(file: &Handle<'_>, args: &Fallocate, range: Range<u64>) -> Result<()> {
    if args.punch_hole {
        file.punch(range)
    } else if args.zero_range {
        file.zero(range, args.keep_size)
    } else if args.collapse_range {
        file.collapse(range)
    } else if args.insert_range {
        file.insert(range)
    } else {
        file.preallocate(range, args.keep_size)
    }
}

/// Runs `work` on the file `path`. If `owner` is given, a missing file is made, and gets its name
/// when the work is done.
fn with_file(
    session: &Session<'_>,
    path: &[u8],
    owner: Option<Owner>,
    work: impl Fn(&Handle<'_>) -> Result<()>,
) -> Result<()> {
    let fs = session.fs();
    let on = |ino| {
        let file = fs.open(ino)?;
        work(&file)?;
        file.close()
    };
    match (fs.resolve(path, Follow::Yes), owner) {
        (Err(Error::NotFound { .. }), Some(owner)) => {
            let (dir, name) = fs.resolve_parent(path)?;
            let new = NewNode::usual(FileType::Regular).owner(owner.uid, owner.gid);
            let file = fs.make_unnamed(dir, &new)?;
            on(file.ino())?;
            fs.link(file.ino(), dir, &name)
        }
        (found, _) => on(found?.ino()),
    }
}
