//! `truncate`, `fallocate`: the content of files, by ranges.

use xfskit::core::Error as Core;
use xfskit::vfs::{Error, Follow, NewNode};

use super::Session;
use crate::exit::Failure;
use crate::grammar::change::{Fallocate, Truncate};

/// `xfskit truncate`
pub(super) fn truncate(session: &Session<'_>, args: &Truncate) -> Result<(), Failure> {
    let fs = session.fs();
    session.each(&args.paths, |path| {
        let ino = match fs.resolve(path, Follow::Yes) {
            Err(Error::NotFound { .. }) => {
                let (dir, name) = fs.resolve_parent(path)?;
                fs.make(dir, &name, &NewNode::file(0o644))?
            }
            found => found?.ino(),
        };
        Ok(fs.truncate(ino, args.size)?)
    })
}

/// `xfskit fallocate`
pub(super) fn fallocate(session: &Session<'_>, args: &Fallocate) -> Result<(), Failure> {
    let fs = session.fs();
    session.each(std::slice::from_ref(&args.path), |path| {
        let ino = fs.resolve(path, Follow::Yes)?.ino();
        let end = args.offset.checked_add(args.length).filter(|_| args.length > 0);
        let end = end.ok_or(Error::Core(Core::Limit("the range is empty or beyond all files")))?;
        let (range, handle) = (args.offset..end, fs.open(ino)?);
        if args.punch_hole {
            handle.punch(range)?;
        } else if args.zero_range {
            handle.zero(range, args.keep_size)?;
        } else if args.collapse_range {
            handle.collapse(range)?;
        } else if args.insert_range {
            handle.insert(range)?;
        } else {
            handle.preallocate(range, args.keep_size)?;
        }
        Ok(handle.close()?)
    })
}
