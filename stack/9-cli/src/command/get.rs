//! `xfskit get`: copies a file or a tree out of a volume, to a directory or as tar.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind as IoKind, Write};
use std::os::unix::ffi::OsStrExt;

use parking_lot::Mutex;
use xfskit::{ErrorKind, Extract, Extracted, Notice, ProblemKind, Volume};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Get;
use crate::out::{Out, io_cause};
use crate::progress::{Progress, Unit};
use crate::show;

/// Bytes that are collected before an archive is written.
const BUFFER: usize = 1 << 20;

/// `xfskit get`: copies a file or a tree out of the volume, or writes it as a tar archive.
pub(crate) fn run(volume: &Volume, args: &Get, out: &Out) -> Outcome {
    // `get IMAGE /link/ …` copies the target of the link; without the slash, the link.
    let path = open::inside(&args.path)?;
    volume.symlink_metadata(path).map_err(|error| open::failure(&error))?;
    let to_stdout = args.dest.as_os_str() == "-";
    if to_stdout && out.json() {
        return Err(Failure::cannot("an archive and JSON cannot share standard output")
            .hint("Write the archive to a file: xfskit get --tar --json TARGET PATH FILE.tar"));
    }
    let progress = Progress::new(out, "get", Unit::Count("files"));
    let skipped = Mutex::new(Vec::<String>::new());
    let notice = |notice: Notice<'_>| {
        let Notice::Problem(problem) = notice else { return };
        let path = problem.path.as_os_str().as_bytes();
        match problem.kind {
            ProblemKind::Volume(error) => progress.aside(|| out.fault(path, &error)),
            ProblemKind::Skipped(what) => {
                let line = format!("{} left out: {what}", show::name(path));
                skipped.lock().push(line);
            }
            kind => progress.aside(|| out.fault_in(path, &kind, None, None)),
        }
    };
    let extract = Extract::new(volume, path)
        .threads(args.threads)
        .progress(|at| progress.set(at.done, 0))
        .notices(notice);
    let copied = if to_stdout {
        archive(&extract, buffered(out.stream()?))?
    } else if args.tar {
        let file = File::create_new(&args.dest).map_err(|e| dest_failure(args, &e))?;
        archive(&extract, buffered(file))?
    } else {
        extract.to_dir(&args.dest).map_err(|error| failure(args, &error))?
    };
    drop(extract);
    progress.finish();
    for line in skipped.into_inner() {
        out.note(&line);
    }
    out.skipped(&copied.skipped);
    if out.json() {
        out.object(&copied)?;
    }
    Ok(out.status())
}

fn buffered<W: Write>(writer: W) -> BufWriter<W> {
    BufWriter::with_capacity(BUFFER, writer)
}

fn archive(extract: &Extract<'_>, writer: impl Write) -> Result<Extracted, Failure> {
    extract.to_tar(writer).map_err(|error| {
        let failure = Failure::cannot(error.to_string());
        match io_cause(&error).map(io::Error::kind) {
            Some(IoKind::BrokenPipe) => Failure::problem(
                "the reader of the archive closed the pipe; the archive is incomplete",
            ),
            Some(IoKind::StorageFull) => {
                failure.hint("Free some space on the side that receives the archive.")
            }
            _ => failure,
        }
    })
}

fn dest_failure(args: &Get, error: &io::Error) -> Failure {
    let failure = Failure::cannot(format!("{}: {error}", args.dest.display()));
    match error.kind() {
        IoKind::AlreadyExists => failure.hint("Remove it first, or give another name."),
        IoKind::NotFound => failure.hint("Make the directory that is to hold it first."),
        IoKind::PermissionDenied => failure.hint("Choose a directory that you may write to."),
        IoKind::StorageFull => failure.hint("Free some space; what was copied is still there."),
        _ => failure,
    }
}

fn failure(args: &Get, error: &xfskit::Error) -> Failure {
    match (error.kind(), io_cause(error)) {
        (ErrorKind::Cancelled, _) => Failure::stopped_and("what was copied until then is kept"),
        (_, Some(error)) => dest_failure(args, error),
        (ErrorKind::ResourceBusy, None) => {
            Failure::cannot(error.to_string()).hint("Name another directory.")
        }
        (ErrorKind::AlreadyExists, None) => Failure::cannot(error.to_string())
            .hint("Give a name that is not taken, or an empty directory for a directory."),
        _ => open::failure(error),
    }
}
