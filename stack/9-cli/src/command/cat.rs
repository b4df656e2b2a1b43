//! `xfskit cat`: a file's content.

use std::io::{self, Write};

use serde_json::json;
use xfskit::Volume;

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Cat;
use crate::out::Out;
use crate::show;

/// `xfskit cat`: writes the content of a file to standard output.
pub(crate) fn run(volume: &Volume, args: &Cat, out: &Out) -> Outcome {
    let path = open::inside(&args.path)?;
    let metadata = volume.metadata(path).map_err(|error| open::failure(&error))?;
    if metadata.is_dir() {
        return Err(open::is_directory(&args.path, "`xfskit ls TARGET PATH` lists a directory."));
    }
    let end = args.length.map_or(u64::MAX, |length| args.offset.saturating_add(length));
    let mut printer = Printer { out, offset: args.offset, failed: None };
    let copied =
        volume.open_file(path).and_then(|file| file.copy_to(args.offset..end, &mut printer));
    match (copied, printer.failed) {
        (_, Some(failure)) => Err(failure),
        (Err(error), None) => Err(open::failure(&error)),
        (Ok(_), None) => Ok(out.status()),
    }
}

/// Prints content as it is, or as JSON piece by piece.
struct Printer<'a> {
    out: &'a Out,
    /// Offset of the next piece in the file, in bytes.
    offset: u64,
    failed: Option<Failure>,
}

impl Write for Printer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let printed = if self.out.json() {
            self.out.object(&json!({ "offset": self.offset, "data": show::base64(bytes) }))
        } else {
            self.out.raw(bytes)
        };
        printed.map_err(|failure| {
            self.failed = Some(failure);
            io::Error::other("standard output")
        })?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
