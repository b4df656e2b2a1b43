//! `xfskit cat`: a file's content.

use std::io;

use serde_json::json;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::{Error, Follow, ReadError};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Cat;
use crate::out::Out;
use crate::show;

/// `xfskit cat`
pub(crate) fn run(volume: &Volume, args: &Cat, out: &Out) -> Outcome {
    let inode = open::resolve(volume, &args.path, Follow::Yes)?;
    if inode.core().is_dir() {
        let path = args.path.to_string_lossy().into_owned();
        return Err(Failure::problem(Error::IsDirectory { path }.to_string())
            .hint("`xfskit ls TARGET PATH` lists a directory."));
    }
    let end = args.length.map_or(u64::MAX, |length| args.offset.saturating_add(length));
    let mut refused = None;
    let read = volume.fs().read_range(&inode, args.offset..end, &mut |offset, bytes| {
        let printed = if out.json() {
            out.object(&json!({ "offset": offset, "data": show::base64(bytes) }))
        } else {
            out.raw(bytes)
        };
        printed.map_err(|failure| {
            refused = Some(failure);
            io::Error::other("standard output")
        })
    });
    match (read, refused) {
        (_, Some(failure)) => Err(failure),
        (Err(ReadError::Volume(error)), None) => Err(open::failure(&error)),
        (Err(ReadError::Sink(error)), None) => Err(Failure::cannot(error.to_string())),
        (Ok(()), None) => Ok(out.status()),
    }
}
