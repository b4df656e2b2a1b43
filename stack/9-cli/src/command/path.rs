//! `xfskit path`: prints the paths of inodes.

use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::{FindPaths, InodePaths, InodeState, Volume};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::locate::Path;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show::Named;

/// One path, for JSON.
#[derive(Serialize)]
struct Found<'a> {
    inode: u64,
    #[serde(flatten)]
    path: Named<'a>,
}

/// The problem with a number that has no path.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoPath(String);

/// `xfskit path`: prints the paths of inodes.
pub(crate) fn run(volume: &Volume, args: &Path, out: &Out) -> Outcome {
    let inos = numbers(args)?;
    let progress = Progress::beside_output(out, "directories", Unit::Count("read"));
    let search = FindPaths::new(volume).limit(args.limit.unwrap_or(usize::MAX));
    let search = search.progress(|at| progress.set(at.done, at.total));
    let found = search.run(inos).map_err(|error| open::failure(&error))?;
    drop(search);
    progress.finish();
    for inode in &found.inodes {
        print(inode, args, out)?;
    }
    warn(&found.warnings, found.warnings_more, out);
    Ok(out.status())
}

/// Reports damage that a search met.
pub(super) fn warn(warnings: &[xfskit::Error], more: u64, out: &Out) {
    for warning in warnings {
        out.fault_at("while searching", warning.reason(), warning.corruption());
    }
    if more > 0 {
        let more = NoPath(format!("{more} more"));
        out.fault_at("while searching", &more, None);
    }
}

fn print(inode: &InodePaths, args: &Path, out: &Out) -> Result<(), Failure> {
    for path in &inode.paths {
        let path = path.as_os_str().as_bytes();
        if out.json() {
            out.object(&Found { inode: inode.ino, path: Named("path", path) })?;
        } else if args.print0 {
            out.raw(&[path, b"\0"].concat())?;
        } else {
            out.line([inode.ino.to_string().as_bytes(), b" ", &out.name(path)].concat())?;
        }
    }
    let found = inode.paths.len() as u64;
    let at = format!("inode {}", inode.ino);
    let limit = args.limit.map_or(u64::MAX, |limit| limit as u64);
    if let Some(problem) = problem(inode, found, limit) {
        out.fault_at(&at, &NoPath(problem), None);
    } else if let Some(more @ 1..) = inode.names.and_then(|names| names.checked_sub(found)) {
        out.note(&format!("{at}: {more} more names"));
    }
    Ok(())
}

/// Returns what is wrong with an inode of which so many paths were found.
fn problem(inode: &InodePaths, found: u64, limit: u64) -> Option<String> {
    let text = match inode.state {
        InodeState::Used => match inode.names {
            Some(names) if found < names.min(limit) && found > 0 => {
                format!("{found} of its {names} names were found")
            }
            _ if found == 0 => "no directory names it".to_owned(),
            _ => return None,
        },
        InodeState::Unlinked => "it has no name: removed while it was open".to_owned(),
        InodeState::Internal(name) => format!("it is {name}, which has no path"),
        InodeState::Free => "it is free".to_owned(),
        InodeState::Absent => "no inodes are allocated there".to_owned(),
        InodeState::OutOfRange => "the volume cannot have an inode of this number".to_owned(),
        // The damage is among the warnings.
        InodeState::Damaged if found > 0 => return None,
        _ => "it cannot be read, and no directory names it".to_owned(),
    };
    Some(text)
}

/// Returns the numbers of the command line, and those of standard input.
fn numbers(args: &Path) -> Result<Vec<u64>, Failure> {
    let mut numbers = Vec::new();
    for word in &args.inos {
        if word != "-" {
            numbers.push(number(word)?);
            continue;
        }
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|e| Failure::cannot(format!("standard input: {e}")))?;
            for word in line.split_whitespace() {
                numbers.push(number(word)?);
            }
        }
    }
    Ok(numbers)
}

/// Parses a number, in decimal or with 0x in hexadecimal.
pub(super) fn number(word: &str) -> Result<u64, Failure> {
    let parsed = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.parse(),
    };
    let plain = !word.starts_with('+');
    parsed.ok().filter(|_| plain).ok_or_else(|| match word {
        "" => Failure::cannot("a number is missing: write A, or A-B"),
        _ => Failure::cannot(format!("{word:?} is no number")),
    })
}
