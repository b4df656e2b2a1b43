//! What a reader may rely on in every file.

use std::fs;
use std::path::{Path, PathBuf};

/// The only places where `unsafe` may stand: kernels for one processor, ioctls, io_uring, locks
/// that spin, guards that hold what they lock, the allocator's settings, locks for a scheduler that
/// only tests have, and the look at standard output before the standard library's.
const UNSAFE_ALLOWED: &[&str] = &[
    "stack/0-crc/src/",
    "stack/0-lock/src/raw.rs",
    "stack/0-parity/src/",
    "stack/1-block/src/",
    "stack/1-devfuse/src/ioctl.rs",
    "stack/1-devfuse/src/ring/mod.rs",
    "stack/3-trans/src/sync/explored.rs",
    "stack/7-workload/src/kernel/bulkstat.rs",
    "stack/3-trans/src/bytes.rs",
    "stack/3-trans/src/guard.rs",
    "stack/8-api/src/allocator.rs",
    "stack/9-cli/src/standard.rs",
    "bench/src/",
    "tests/support/src/fsxattr.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a readable tree").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut files = Vec::new();
    for dir in ["stack", "tests", "bench"] {
        rust_files(&root.join(dir), &mut files);
    }
    files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("UTF-8");
            let name = path.strip_prefix(&root).expect("below the root").display().to_string();
            (name, text)
        })
        .collect()
}

/// A merge that was committed with its conflicts.
#[test]
fn no_conflict_of_a_merge_is_left() {
    let known = std::process::Command::new("git").args(["ls-files"]).current_dir(root()).output();
    let Some(known) = known.ok().filter(|known| known.status.success()) else {
        return eprintln!("skipped: no repository");
    };
    for name in String::from_utf8_lossy(&known.stdout).lines() {
        // Images and archives are not text.
        let Ok(text) = fs::read_to_string(root().join(name)) else { continue };
        let marks = ["<<<<<<< ", ">>>>>>> "];
        let mark = text.lines().position(|line| marks.iter().any(|mark| line.starts_with(mark)));
        assert_eq!(mark.map(|line| line + 1), None, "{name}: a conflict is left");
    }
}

#[test]
fn unsafe_stands_only_where_it_is_allowed() {
    for (name, text) in sources() {
        let allowed = UNSAFE_ALLOWED.iter().any(|dir| name.starts_with(dir));
        let used = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or("");
            ["{", "fn", "impl"]
                .iter()
                .any(|what| code.contains(&format!("{} {what}", concat!("un", "safe"))))
        });
        assert!(allowed || !used, "{name} has unsafe code");
    }
}

#[test]
fn every_floor_opens_with_its_number_and_story() {
    for entry in fs::read_dir(root().join("stack")).expect("stack").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        let Ok(text) = fs::read_to_string(entry.path().join("src/lib.rs")) else { continue };
        let floor = name.split('-').next().expect("a number");
        if floor == "8" {
            continue; // The facade's page is written for people who have not seen the stack.
        }
        let opening = format!("//! Floor {floor}: ");
        assert!(text.starts_with(&opening), "{name}/src/lib.rs does not open with \"{opening}\"");
    }
}

#[test]
fn no_note_to_self_and_no_path_of_a_machine_is_left() {
    // Spelled in pieces, or this file would find itself.
    let marks =
        [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X:"), concat!("/wo", "rk/")];
    for (name, text) in sources() {
        for mark in marks {
            assert!(!text.contains(mark), "{name} contains {mark}");
        }
    }
}

/// Identifiers that the field has another word for, and that word (`docs/glossary.md`).
const RETIRED: &[(&str, &str)] = &[
    (concat!("Promise", "::Made"), "IntentItem::Intent"),
    (concat!("Promise", "::Kept"), "IntentItem::Done"),
    (concat!("keep", "_promises"), "finish_intents"),
    (concat!("transact", "_promised"), "transact_reserved"),
    (concat!("spare", "_room"), "reserve_blocks"),
    (concat!("Gate", "Guard"), "CtxGuard"),
    (concat!("At", "Rest"), "Parked"),
    (concat!("wants", "_peace"), "has_waiters"),
    (concat!("TWO", "_HANDS"), "SPLIT_PUSH_ITEMS"),
    (concat!("Inode", "Home"), "InodeLocation"),
    (concat!("is_being", "_written"), "begin_write"),
    (concat!("bears", "_blemish"), "can_record_badblock"),
    (concat!("judge", "_in"), "verify_in"),
    (concat!("Sus", "pects"), "Mismatches"),
    (concat!("lose", "_forks"), "mark_forks_unknown"),
    (concat!("Stand", "In"), "SecondarySuperblock"),
    (concat!("Rem", "embered"), "RecordCache"),
    (concat!("Error::", "Settle"), "Error::BusyExtents"),
    (concat!("dress", "_root"), "set_root"),
    (concat!("bring", "_xattrs"), "copy_xattrs"),
    (concat!("keep", "_place"), "add_location"),
    (concat!("judge", "_size"), "check_size"),
    (concat!("tell", "_healed"), "report_healed"),
    (concat!("carry", "_out"), "run_command"),
    (concat!("sort", "_out"), "roles_and_spares"),
    (concat!("Failure::", "no("), "Failure::problem"),
    (concat!("hand", "_down_acls"), "inherit_acls"),
    (concat!("Judged", "Guess"), "EvaluatedGuess"),
    (concat!("rows", "_compared"), "stripes_compared"),
];

/// Words that do not begin a sentence, and better ones.
const OPENERS: &[(&str, &str)] = &[
    ("Who", "the component, thread or caller"),
    ("Whoever", "the component, thread or caller"),
    ("Nobody", "no thread, no component"),
    ("Somebody", "a thread, a caller"),
    ("Answers", "Returns"),
    ("What is", "the noun"),
    ("The same,", "the verb, and the function that it differs from"),
    ("The same.", "the verb, and the function that it differs from"),
    ("The same;", "the verb, and the function that it differs from"),
    ("The same for", "the verb, and the function that it differs from"),
    ("The same of", "the verb, and the function that it differs from"),
    ("The same without", "the verb, and the function that it differs from"),
    ("True where", "Returns true if"),
    ("Judges", "Checks, Verifies"),
    ("Says", "Prints, Reports, Returns"),
];

/// Columns that a comment may take.
const COMMENT_COLUMNS: usize = 100;

/// The text of a comment that has a line of its own.
fn comment(line: &str) -> Option<&str> {
    Some(line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start())
}

/// Sentences of a line: what follows its start, or a full stop.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(". ").map(str::trim_start)
}

/// Returns true if `sentence` begins with the words of `opener`.
fn begins_with(sentence: &str, opener: &str) -> bool {
    let rest = sentence.strip_prefix(opener);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
}

#[test]
fn comments_are_plain_english_and_fit_the_column_limit() {
    let mut found = Vec::new();
    for (name, text) in sources() {
        for (number, line) in (1..).zip(text.lines()) {
            let Some(comment) = comment(line) else { continue };
            let columns = line.chars().count();
            // A table row or an address cannot be broken.
            let is_breakable = !comment.starts_with('|') && comment.contains(' ');
            if columns > COMMENT_COLUMNS && is_breakable {
                found.push(format!("{name}:{number}: {columns} columns, {COMMENT_COLUMNS} fit"));
            }
            for (opener, better) in OPENERS {
                if sentences(comment).any(|sentence| begins_with(sentence, opener)) {
                    found
                        .push(format!("{name}:{number}: \"{opener}\" begins a sentence: {better}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
}

#[test]
fn retired_identifiers_do_not_return() {
    let mut found = Vec::new();
    for (name, text) in sources() {
        for (number, line) in (1..).zip(text.lines()) {
            for (retired, better) in RETIRED.iter().filter(|(retired, _)| line.contains(retired)) {
                found.push(format!("{name}:{number}: {retired}: the word is {better}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
