//! `xfskit get`: copies a file or a tree out of a volume, to a directory or as tar.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;

use parking_lot::Mutex;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::copy::{self, ArchiveError, Event, GetError, GetOptions, Report};
use xfskit::raw::vfs::{Follow, Inode};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Get;
use crate::out::Out;
use crate::progress::Progress;
use crate::show;

/// Bytes that are collected before an archive is written.
const BUFFER: usize = 1 << 20;

/// `xfskit get`
pub(crate) fn run(volume: &Volume, args: &Get, out: &Out) -> Outcome {
    let path = args.path.as_bytes();
    // `get IMAGE /link/ …` copies the target of the link; without the slash, the link.
    let inode = open::resolve(volume, &args.path, Follow::No)?;
    let to_stdout = args.dest.as_os_str() == "-";
    if to_stdout && out.json() {
        return Err(Failure::cannot("an archive and JSON cannot share standard output")
            .hint("Write the archive to a file: xfskit get --tar --json TARGET PATH FILE.tar"));
    }
    let progress = Progress::new(out, "get", "files");
    let skipped = Mutex::new(Vec::<String>::new());
    let events = |event: Event<'_>| match event {
        Event::Done { .. } => progress.add(1),
        Event::Damaged { path, error } => progress.aside(|| out.fault(path, error)),
        Event::Refused { path, error } => {
            progress.aside(|| out.fault_in(path, error, None, None));
        }
        Event::Skipped { path, what } => {
            let line = format!("{} left out: {what}", show::name(path));
            skipped.lock().push(line);
        }
    };
    let report = if to_stdout {
        archive(volume, path, inode, buffered(out.stream()?), &events)?
    } else if args.tar {
        let file = File::create_new(&args.dest).map_err(|e| dest_failure(args, &e))?;
        archive(volume, path, inode, buffered(file), &events)?
    } else {
        let options = GetOptions { threads: args.threads, ..GetOptions::default() };
        copy::get(volume.fs(), path, inode, &args.dest, options, &events)
            .map_err(|error| get_failure(args, &error))?
    };
    progress.finish();
    for line in skipped.into_inner() {
        out.note(&line);
    }
    out.skipped(&report.skipped);
    if out.json() {
        out.object(&report)?;
    }
    Ok(out.status())
}

fn buffered<W: Write>(writer: W) -> BufWriter<W> {
    BufWriter::with_capacity(BUFFER, writer)
}

fn archive(
    volume: &Volume,
    path: &[u8],
    inode: Inode,
    writer: impl Write,
    events: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Report, Failure> {
    copy::archive(volume.fs(), path, inode, writer, events).map_err(|error| {
        let ArchiveError::Write(cause) = &error;
        let failure = Failure::cannot(error.to_string());
        match cause.kind() {
            ErrorKind::BrokenPipe => Failure::problem(
                "the reader of the archive closed the pipe; the archive is incomplete",
            ),
            ErrorKind::StorageFull => {
                failure.hint("Free some space on the side that receives the archive.")
            }
            _ => failure,
        }
    })
}

fn dest_failure(args: &Get, error: &std::io::Error) -> Failure {
    let failure = Failure::cannot(format!("{}: {error}", args.dest.display()));
    match error.kind() {
        ErrorKind::AlreadyExists => failure.hint("Remove it first, or give another name."),
        ErrorKind::NotFound => failure.hint("Make the directory that is to hold it first."),
        ErrorKind::PermissionDenied => failure.hint("Choose a directory that you may write to."),
        ErrorKind::StorageFull => failure.hint("Free some space; what was copied is still there."),
        _ => failure,
    }
}

fn get_failure(args: &Get, error: &GetError) -> Failure {
    match error {
        GetError::Stopped => Failure::stopped(),
        GetError::Exists(_) => Failure::cannot(error.to_string())
            .hint("Give a name that is not taken, or an empty directory for a directory."),
        GetError::Destination { error, .. } => dest_failure(args, error),
    }
}
