//! `xfskit repair --salvage`.

use std::io::{self, BufWriter, ErrorKind as IoKind};
use std::path::Path;

use xfskit::{ErrorKind, Salvage, Salvaged};

use super::dest as dest_dir;
use super::open;
use super::repair::{failed, refuse_mount};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::repair::Repair;
use crate::out::{Out, io_cause};
use crate::progress::{Progress, Unit};
use crate::show;
use crate::stop::Stop;

/// Bytes that are collected before an archive is written.
const BUFFER: usize = 1 << 20;

/// Copies all that can be read of the target to `dest`, and reports what is damaged.
pub(super) fn run(args: &Repair, dest: &Path, out: &Out) -> Outcome {
    let name = &*args.target;
    refuse_mount(name)?;
    let to_stdout = dest.as_os_str() == "-";
    if to_stdout && out.json() {
        return Err(Failure::cannot("an archive and JSON cannot share standard output")
            .hint("Name a directory in place of `-`."));
    }
    if !to_stdout {
        dest_dir::refuse(name, dest)?;
    }
    open::warn(name, out)?;
    open::note_in_use(name, out);
    let stop = Stop::on_signals()?;
    let progress = Progress::new(out, "salvage", Unit::Count("files"));
    let salvage = Salvage::new()
        .threads(args.threads)
        .progress(|at| progress.set(at.done, at.total))
        .cancel(stop.token());
    let salvaged = if to_stdout {
        salvage.to_tar(name, BufWriter::with_capacity(BUFFER, out.stream()?))
    } else {
        salvage.to_dir(name, dest)
    };
    drop(salvage);
    progress.finish();
    let salvaged = salvaged.map_err(|error| failure(name, dest, &error))?;
    report(&salvaged, to_stdout, out)?;
    Ok(ExitStatus::of(salvaged.is_complete()))
}

/// Prints the report: to standard error, line by line, if standard output has the archive.
fn report(salvaged: &Salvaged, to_stdout: bool, out: &Out) -> Result<(), Failure> {
    if out.json() {
        return out.object(salvaged);
    }
    let text = salvaged.to_string();
    if to_stdout {
        text.lines().for_each(|line| out.note(line));
    } else {
        out.raw(show::harmless(&text).as_bytes())?;
    }
    out.skipped(&salvaged.skipped);
    Ok(())
}

fn failure(name: &str, dest: &Path, error: &xfskit::Error) -> Failure {
    match (error.kind(), io_cause(error).map(io::Error::kind)) {
        (ErrorKind::Cancelled, _) => Failure::stopped_and("what was copied until then is kept"),
        (ErrorKind::AlreadyExists, _) => Failure::cannot(error.to_string())
            .hint("Name a directory that does not exist, or an empty one."),
        (ErrorKind::ResourceBusy, None) => {
            Failure::cannot(error.to_string()).hint("Name another directory.")
        }
        (_, Some(IoKind::BrokenPipe)) => {
            Failure::problem("the reader of the archive closed the pipe; the archive is incomplete")
        }
        (_, Some(IoKind::StorageFull)) if dest.as_os_str() == "-" => {
            Failure::cannot(error.to_string())
                .hint("Free some space on the side that receives the archive.")
        }
        (_, Some(IoKind::StorageFull)) => Failure::cannot(error.to_string())
            .hint("Free some space; what was copied is still there."),
        (_, Some(cause)) if is_of_dest(dest, error) => {
            let failure = Failure::cannot(error.to_string());
            match cause {
                IoKind::NotFound => failure.hint("Make the directory that is to hold it first."),
                IoKind::PermissionDenied => {
                    failure.hint("Choose a directory that you may write to.")
                }
                _ => failure,
            }
        }
        _ => failed(name, error),
    }
}

/// Returns true for an error of the destination, which names it.
fn is_of_dest(dest: &Path, error: &xfskit::Error) -> bool {
    error.to_string().contains(&format!("writing {}", dest.display()))
}
