//! `xfskit check --scrub` of an array: compares its members, and decides by the volume which are
//! wrong: see [`xfskit::md::Compare`].

use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};
use xfskit::ErrorKind;
use xfskit::md::{Compare, Compared, DoubtfulContent, Resolved, ResolvedPage, SyncAction};

use crate::command::open;
use crate::exit::Failure;
use crate::grammar::change;
use crate::grammar::metadata::Check;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show;
use crate::stop::Stop;

/// Compares the members of the array that `args` names. Returns `None` if it is not an array, or
/// one without redundancy or with missing members. With `--repair`, the journal is replayed first.
pub(super) fn compare(args: &Check, out: &Out) -> Result<Option<Compared>, Failure> {
    let name = &*args.target.name;
    if args.repair {
        let volume = open::volume_for_writing(&to_change(args), out)?;
        volume.close().map_err(|e| open::not_opened(name, &e))?;
    }
    let stop = Stop::on_signals()?;
    let resync = Progress::new(out, "resync", Unit::Bytes);
    let check = Progress::new(out, "comparing members", Unit::Bytes);
    let compare = Compare::new()
        .repair(args.repair)
        .cancel(stop.token())
        .notes(|note| out.note(note))
        .progress(|action, at| match action {
            SyncAction::Resync => resync.set(at.done, at.total),
            _ => check.set(at.done, at.total),
        });
    let log = args.target.log();
    log.iter().fold(compare, Compare::log).run(name).map_err(|e| match e.kind() {
        ErrorKind::Cancelled => Failure::stopped(),
        _ => open::not_opened(name, &e),
    })
}

/// Resolves the mismatches, after the volume was checked. Returns true if everything agrees now.
pub(super) fn resolve(
    compared: Compared,
    name: &str,
    is_clean: bool,
    out: &Out,
) -> Result<bool, Failure> {
    let resolved = compared.resolve(is_clean).map_err(|e| open::not_opened(name, &e))?;
    for page in &resolved.listed {
        report(page, out)?;
    }
    let Resolved { pages, repaired, .. } = resolved;
    if pages > 0 {
        let report = json!({ "scrub": { "pages": pages, "repaired": repaired } });
        out.result(&report, |_| {
            format!("scrub: {pages} pages did not agree, {repaired} repaired\n")
        })?;
    }
    Ok(repaired == pages)
}

/// Reports a page, with its array if there are several.
fn report(page: &ResolvedPage, out: &Out) -> Result<(), Failure> {
    let (start, end) = (page.sectors.start, page.sectors.end);
    let files = page.files.as_ref().map(|files| files.iter().map(object).collect::<Vec<_>>());
    let mut report = json!({
        "sectors": [start, end], "role": page.role, "repaired": page.repaired, "files": files,
    });
    if let Some(array) = &page.array {
        report["array"] = json!(array);
    }
    out.result(&json!({ "mismatch": report }), |_| {
        let subject = match (page.files.as_deref(), page.role) {
            (_, Some(role)) => format!("role {role} is wrong"),
            _ if page.agrees_above => {
                "its content agrees with the other arrays: parity or another copy is wrong".into()
            }
            (None, None) => "the wrong member is unknown".to_owned(),
            (Some([]), None) => "no file has content there".to_owned(),
            (Some(files), None) => {
                let names: Vec<String> = files.iter().map(content).collect();
                format!("either parity or another copy is wrong, or {}", names.join(", "))
            }
        };
        let repaired = if page.repaired { ", repaired" } else { "" };
        let array = page.array.as_ref().map(|array| format!("{array}, ")).unwrap_or_default();
        format!("{array}member sectors {start} to {}: {subject}{repaired}\n", end - 1)
    })
}

/// Returns the path of a file for people, if it is known.
fn path(file: &DoubtfulContent) -> Option<String> {
    file.path.as_ref().map(|path| show::name(path.as_os_str().as_bytes()))
}

fn object(file: &DoubtfulContent) -> Value {
    json!({ "ino": file.ino, "path": path(file), "offset": file.offset, "length": file.len })
}

fn content(file: &DoubtfulContent) -> String {
    let subject = match path(file) {
        Some(path) => format!("{path} (inode {})", file.ino),
        None => format!("inode {}", file.ino),
    };
    format!("{subject} at bytes {} to {}", file.offset, file.offset + file.len - 1)
}

/// Returns the same volume for a replay of its journal.
fn to_change(args: &Check) -> change::Target {
    change::Target {
        name: args.target.name.clone(),
        logdev: args.target.logdev.clone(),
        journal: xfskit::JournalOptions::default(),
        cache: args.target.cache,
        stats: false,
    }
}
