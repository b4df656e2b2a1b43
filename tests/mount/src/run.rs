//! What a program saw in a mount.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use xfskit_test_support::manifest::{Entry, Time};

/// What a program saw, a line for each step.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The lines.
    pub lines: Vec<String>,
    /// What cannot be compared.
    pub exempt: Exempt,
}

/// An inode: its number, which another may get later, and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(u64, Time);

impl Id {
    /// Returns the inode of a record.
    pub fn of_entry(entry: &Entry) -> Self {
        Self(entry.ino, entry.btime)
    }

    /// Returns the inode of which stat(2) was asked.
    ///
    /// # Panics
    /// The filesystem has no times of birth.
    pub fn of(metadata: &Metadata) -> Self {
        let born = metadata.created().expect("a time of birth");
        let born = born.duration_since(UNIX_EPOCH).expect("after 1970");
        let seconds = i64::try_from(born.as_secs()).expect("in this age");
        Self(metadata.ino(), (seconds, born.subsec_nanos()))
    }
}

/// Inodes of which a part depends on more than the calls.
#[derive(Clone, Debug, Default)]
pub struct Exempt {
    /// Where holes are depends on the sizes of pages in the kernel's cache (a shared mapping), or
    /// on whether a copy shared blocks.
    pub holes: BTreeSet<Id>,
    /// The kernel does not learn that fallocate(2) on FUSE changes the mtime, or that it was out of
    /// the format's range.
    pub mtimes: BTreeSet<Id>,
}

impl From<Vec<String>> for Run {
    fn from(lines: Vec<String>) -> Self {
        Self { lines, exempt: Exempt::default() }
    }
}

impl Run {
    /// Returns the seed or the first line, and the latest steps that name `path`, for a message.
    pub(crate) fn about(&self, path: &str) -> String {
        format!("{}\n{}", self.lines[0], naming(&self.lines, path))
    }

    /// Compares what two programs saw.
    ///
    /// # Panics
    /// The two differ: with the steps before the first difference.
    pub fn assert_same(&self, ours: &Self) {
        for (step, (linux, ours)) in self.lines.iter().zip(&ours.lines).enumerate() {
            assert!(
                linux == ours,
                "{}\n…\n{}\nstep {step}, Linux:  {linux}\nstep {step}, xfskit: {ours}",
                self.lines[0],
                before(&self.lines[..=step])
            );
        }
        assert_eq!(self.lines.len(), ours.lines.len());
    }
}

/// Steps that are shown of each kind.
const SHOWN: usize = 25;

/// Returns the steps before the last one: those that name the same path, and the latest.
fn before(lines: &[String]) -> String {
    let Some((last, lines)) = lines.split_last() else { return String::new() };
    let path = last.split_once(": ").and_then(|(head, _)| head.rsplit_once(", "));
    let path = path.map_or(last.as_str(), |(_, path)| path);
    let latest = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    format!("{}\n…\n{latest}", naming(lines, path))
}

/// Returns the latest steps that name a path.
fn naming(lines: &[String], path: &str) -> String {
    let names = |line: &&String| {
        line.contains(&format!(", {path}: ")) || line.contains(&format!("to {path}"))
    };
    let mut shown: Vec<&str> =
        lines.iter().filter(names).rev().take(SHOWN).map(String::as_str).collect();
    shown.reverse();
    shown.join("\n")
}
