//! `--verify`: reads content from an array and checks it with the array's redundancy.
//!
//! XFS has no checksums of content, but an array has redundancy: every stripe that is read is
//! compared with its parity, or its other copies. A mismatch that a single member explains is
//! corrected in the output. The others are reported afterwards: `xfskit check` finds the files that
//! have content there.
//!
//! A command that changes the volume reads it too: metadata, and the old content of stripes that
//! are written in part, which the new parity depends on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use xfskit::raw::block::{BlockDevice, OpenMode};
use xfskit::raw::check::{FileRange, Mismatches};
use xfskit::raw::md::array::scrub::Mismatch;
use xfskit::raw::md::array::verify::VerifyReport;
use xfskit::raw::target::{self, Base, Nested};
use xfskit::raw::units::{ByteLen, ByteOffset};

use super::work::{Change, ReadCommand};
use super::{change, check, open};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::Target;
use crate::out::Out;
use crate::show;

/// An array whose reads are verified, and the arrays within it.
struct VerifiedArray {
    name: String,
    nested: Vec<Nested>,
    /// Where the volume is on the array, in order.
    pieces: Vec<(ByteOffset, ByteLen)>,
    device: Arc<dyn BlockDevice>,
}

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
    let verifying = VerifiedArray::open(&target.name, OpenMode::ReadOnly, out)?;
    let volume = open::volume_on(target, Arc::clone(&verifying.device), out)?;
    let ended = command.run(&volume, out);
    drop(volume);
    verifying.end(target, ended, out)
}

/// Runs a command that changes files, and reports the mismatches of its reads.
pub(super) fn change(target: &change::Target, change: Change<'_>, out: &Out) -> Outcome {
    let verifying = VerifiedArray::open(&target.name, OpenMode::ReadWrite, out)?;
    let ended = change::run_on(target, Arc::clone(&verifying.device), change, out);
    verifying.end(&target.to_read(), ended, out)
}

impl VerifiedArray {
    fn open(name: &str, mode: OpenMode, out: &Out) -> Result<Self, Failure> {
        let failed = |e: target::Error| open::target_failure(name, &e);
        let target = target::Target::parse(name).map_err(failed)?;
        let Base::Array(array) = &target.base else {
            return Err(Failure::cannot(format!("{name}: --verify compares members of an array"))
                .hint("Name the members, as md:a.img,b.img,c.img; or leave --verify out."));
        };
        if target::is_reshaped(array).map_err(failed)? {
            return Err(Failure::cannot(format!(
                "{name}: the array is being reshaped; its members cannot be compared"
            )));
        }
        let nested = target::open_nested(array, mode).map_err(failed)?;
        let disk = Arc::clone(&nested[0].array) as Arc<dyn BlockDevice>;
        let pieces = target::pieces(&target, &disk).map_err(failed)?;
        let device = target::part_of(&target, disk).map_err(failed)?;
        let this = Self { name: name.to_owned(), nested, pieces, device };
        this.begin(out)?;
        Ok(this)
    }

    /// Turns on verification of every array that has redundancy.
    fn begin(&self, out: &Out) -> Result<(), Failure> {
        let redundant = |nested: &&Nested| nested.array.scrub_stripes() > 0;
        let (can, cannot): (Vec<_>, Vec<_>) =
            self.nested.iter().filter(redundant).partition(|nested| nested.array.can_be_scrubbed());
        if can.is_empty() {
            let why = "nothing is left to compare members with";
            return Err(Failure::cannot(format!("{}: {why}", self.name))
                .hint("Add the missing members, or leave --verify out."));
        }
        for nested in cannot {
            out.note(&format!("{}: nothing is left to compare members with", nested.name));
        }
        for nested in can {
            nested.array.verify_reads();
        }
        Ok(())
    }

    /// Reports the mismatches of the reads. Doubtful content is a problem (exit code 1).
    fn end(&self, target: &Target, ended: Outcome, out: &Out) -> Outcome {
        self.report(target, out)?;
        Ok(match ended? {
            ExitStatus::Success => out.status(),
            ExitStatus::Problem => ExitStatus::Problem,
        })
    }

    /// Reports the mismatches of the reads. Files whose content is doubtful are faults.
    fn report(&self, target: &Target, out: &Out) -> Result<(), Failure> {
        let found: Vec<VerifyReport> =
            self.nested.iter().map(|n| n.array.verify_report()).collect();
        let arrays = self.nested.iter().zip(&found).map(|(nested, verified)| {
            self.tell_corrected(nested, verified, out);
            summary(nested, verified)
        });
        let arrays: Vec<Value> = arrays.collect();
        if out.json() {
            out.object(&json!({ "verify": arrays }))?;
        }
        let undecided: Vec<(usize, &Mismatch)> = found
            .iter()
            .enumerate()
            .flat_map(|(index, verified)| verified.pages.iter().map(move |page| (index, page)))
            .filter(|(_, page)| page.role.is_none())
            .collect();
        if !undecided.is_empty() {
            self.report_undecided(&undecided, target, out);
        }
        Ok(())
    }

    fn tell_corrected(&self, nested: &Nested, verified: &VerifyReport, out: &Out) {
        for (role, pages) in by_role(verified) {
            let member = nested.array.member_name(role).unwrap_or("a member");
            let pages = counted(pages, "page");
            out.note(&format!(
                "{member} (role {role}) is wrong in {pages} of 4 KiB: corrected in what was read; \
                 `xfskit md scrub --repair` rewrites the member"
            ));
        }
        if verified.unchecked {
            out.note(&format!(
                "{}: some of what was read has nothing left to be compared with",
                nested.name
            ));
        }
        if verified.more > 0 {
            let name = &self.name;
            out.note(&format!("{name}: {} more pages do not agree", verified.more));
        }
    }

    /// Names the files with content in pages of which no member is known to be wrong.
    fn report_undecided(&self, undecided: &[(usize, &Mismatch)], target: &Target, out: &Out) {
        out.note("members disagree and no single one explains it: looking for the files there");
        let places: Vec<Option<Vec<Range<ByteOffset>>>> =
            undecided.iter().map(|(index, page)| self.places(*index, page)).collect();
        let mismatches = Mismatches::new(places.iter().flatten().flatten().cloned());
        let checked = check::find_files(target, Arc::clone(&self.device), &mismatches, out);
        let mut files: BTreeMap<u64, Vec<FileRange>> = BTreeMap::new();
        let mut unknown = 0;
        for places in &places {
            let here =
                |place: &Range<ByteOffset>| mismatches.files(place).filter(|_| checked.is_ok());
            let found: Option<Vec<Vec<FileRange>>> =
                places.as_ref().and_then(|places| places.iter().map(here).collect());
            match found {
                Some(found) => found.concat().into_iter().for_each(|file| {
                    files.entry(file.ino.0).or_default().push(file);
                }),
                None => unknown += 1,
            }
        }
        let mut paths: BTreeMap<u64, Option<Vec<u8>>> = files.keys().map(|i| (*i, None)).collect();
        if let Ok(volume) = open::volume_quietly_on(target, Arc::clone(&self.device), out) {
            check::find_paths(&volume, &mut paths);
        }
        for (ino, mut places) in files {
            places.sort_by_key(|file| file.offset);
            places.dedup();
            let path = paths.remove(&ino).flatten();
            let path = path.map_or_else(|| format!("inode {ino}"), |path| show::name(&path));
            let Some(FileRange { bytes, offset, .. }) = places.first() else { continue };
            let (first, len) = (offset.0, bytes.end.0 - bytes.start.0);
            let error = Undecided { first, last: first + len - 1, more: places.len() - 1 };
            out.fault_at(&path, &error, None);
        }
        if unknown > 0 {
            out.fault_at(&self.name, &Unknown { pages: unknown }, None);
        }
    }

    /// Returns the ranges of the volume in a page of one of the arrays; `None` if a part of the
    /// page is not in the volume.
    fn places(&self, index: usize, page: &Mismatch) -> Option<Vec<Range<ByteOffset>>> {
        let contents = self.nested[index].array.mismatch_ranges(page);
        let nested = |i: usize| &self.nested[i];
        let places = contents
            .iter()
            .map(|place| target::ranges_in_part(&nested, &self.pieces, index, place));
        Some(places.collect::<Option<Vec<_>>>()?.concat())
    }
}

/// Returns the number of corrected pages of each member.
fn by_role(verified: &VerifyReport) -> BTreeMap<usize, u64> {
    let mut roles = BTreeMap::new();
    for role in verified.pages.iter().filter_map(|page| page.role) {
        *roles.entry(role).or_default() += 1;
    }
    roles
}

fn summary(nested: &Nested, verified: &VerifyReport) -> Value {
    let corrected: Vec<Value> = by_role(verified)
        .into_iter()
        .map(|(role, pages)| {
            json!({ "role": role, "member": nested.array.member_name(role), "pages": pages })
        })
        .collect();
    json!({
        "array": nested.name.to_string(),
        "corrected": corrected,
        "undecided_pages": verified.pages.iter().filter(|page| page.role.is_none()).count(),
        "pages_not_listed": verified.more,
        "unchecked": verified.unchecked,
    })
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
