//! `--verify`: reads content from an array and checks it with the array's redundancy.
//!
//! XFS has no checksums of content, but an array has redundancy: every stripe that is read is
//! compared with its parity, or its other copies. A mismatch that a single member explains is
//! corrected in the output. The others are reported afterwards: `xfskit check` finds the files that
//! have content there.
//!
//! A command that changes the volume reads it too: metadata, and the old content of stripes that
//! are written in part, which the new parity depends on.

use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};
use xfskit::md::{Doubtful, DoubtfulContent, VerifiedArray, VerifyReport};

use super::work::{Change, ReadCommand};
use super::{change, check, open};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::Target;
use crate::out::Out;
use crate::show;

/// Members have different content for a range of a file.
#[derive(Debug, thiserror::Error)]
#[error(
    "the array's members disagree at bytes {first} to {last}{}, and which one is wrong is not known",
    match .more { 0 => String::new(), 1 => " and in one more place".into(), n => format!(" and in {n} more places") }
)]
struct Undecided {
    first: u64,
    last: u64,
    more: usize,
}

/// Members have different content, and the check could not find the files there.
#[derive(Debug, thiserror::Error)]
#[error("the array's members disagree in {pages} pages that may hold content of any file")]
struct Unknown {
    pages: usize,
}

/// Runs a command that reads files, and reports the mismatches of its reads.
pub(super) fn read(target: &Target, command: ReadCommand<'_>, out: &Out) -> Outcome {
    let array = VerifiedArray::open(&*target.name);
    let array = begun(&target.name, array, out)?;
    let volume = open::volume_on(target, &array.device(), out)?;
    let ended = command.run(&volume, out);
    drop(volume);
    end(&array, target, ended, out)
}

/// Runs a command that changes files, and reports the mismatches of its reads.
pub(super) fn change(
    target: &crate::grammar::change::Target,
    change: Change<'_>,
    out: &Out,
) -> Outcome {
    let array = VerifiedArray::open_writable(&*target.name);
    let array = begun(&target.name, array, out)?;
    let ended = change::run_on(target, &array.device(), change, out);
    end(&array, &target.to_read(), ended, out)
}

/// Notes what cannot be verified.
fn begun(
    name: &str,
    array: xfskit::Result<VerifiedArray>,
    out: &Out,
) -> Result<VerifiedArray, Failure> {
    let array = array.map_err(|e| open::not_opened(name, &e))?;
    for nested in array.unverified() {
        out.note(&format!("{nested}: nothing is left to compare members with"));
    }
    Ok(array)
}

/// Reports the mismatches of the reads. Doubtful content is a problem (exit code 1).
fn end(array: &VerifiedArray, target: &Target, ended: Outcome, out: &Out) -> Outcome {
    report(array, target, out)?;
    Ok(match ended? {
        ExitStatus::Success => out.status(),
        ExitStatus::Problem => ExitStatus::Problem,
    })
}

/// Reports the mismatches of the reads. Files whose content is doubtful are faults.
fn report(array: &VerifiedArray, target: &Target, out: &Out) -> Result<(), Failure> {
    let reports = array.report();
    for found in &reports {
        note_corrected(&target.name, found, out);
    }
    if out.json() {
        let arrays: Vec<Value> = reports.iter().map(summary).collect();
        out.object(&json!({ "verify": arrays }))?;
    }
    let undecided = reports.iter().map(|found| found.undecided_pages).sum::<u64>();
    if undecided > 0 {
        out.note("members disagree and no single one explains it: looking for the files there");
        let all = usize::try_from(undecided).unwrap_or(usize::MAX);
        report_doubtful(&target.name, check::doubtful_content(array, target, out), all, out);
    }
    Ok(())
}

fn note_corrected(name: &str, found: &VerifyReport, out: &Out) {
    for wrong in &found.corrected {
        let (role, member) = (wrong.role, wrong.member.as_deref().unwrap_or("a member"));
        let pages = counted(wrong.pages, "page");
        out.note(&format!(
            "{member} (role {role}) is wrong in {pages} of 4 KiB: corrected in what was read; \
             `xfskit md scrub --repair` rewrites the member"
        ));
    }
    if found.unchecked {
        out.note(&format!(
            "{}: some of what was read has nothing left to be compared with",
            found.array
        ));
    }
    if found.pages_not_listed > 0 {
        out.note(&format!("{name}: {} more pages do not agree", found.pages_not_listed));
    }
}

/// Names the files with doubtful content; `all` are the pages of which no member is known to be
/// wrong.
fn report_doubtful(name: &str, found: Option<Doubtful>, all: usize, out: &Out) {
    let (known, unknown) =
        found.map_or((Vec::new(), all), |found| (found.known, found.unknown_pages));
    for places in known.chunk_by(|one, next| one.ino == next.ino) {
        let [DoubtfulContent { ino, path, offset, len, .. }, others @ ..] = places else {
            continue;
        };
        let path = path.as_ref().map(|path| show::name(path.as_os_str().as_bytes()));
        let path = path.unwrap_or_else(|| format!("inode {ino}"));
        let error = Undecided { first: *offset, last: offset + len - 1, more: others.len() };
        out.fault_at(&path, &error, None);
    }
    if unknown > 0 {
        out.fault_at(name, &Unknown { pages: unknown }, None);
    }
}

fn summary(found: &VerifyReport) -> Value {
    let corrected = found
        .corrected
        .iter()
        .map(|wrong| json!({ "role": wrong.role, "member": wrong.member, "pages": wrong.pages }));
    json!({
        "array": found.array,
        "corrected": corrected.collect::<Vec<_>>(),
        "undecided_pages": found.undecided_pages,
        "pages_not_listed": found.pages_not_listed,
        "unchecked": found.unchecked,
    })
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
