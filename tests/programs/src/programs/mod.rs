//! The programs.
//!
//! | module | contents |
//! | --- | --- |
//! | [`pjdfstest`] | the suite of POSIX calls |
//! | [`fsx`] | random reads, writes and mappings of one file |
//! | [`content`] | … with zeroed ranges, direct I/O and copies between files |
//! | [`stress`] | the stressors of stress-ng |
//! | [`fio`] | written blocks that are read again and verified |
//! | [`git`] | a clone, checked, packed, checked out |
//! | [`sqlite`] | a database whose writer, or whose disk, is killed |
//! | [`postgresql`] | a server that is killed, and whose disk is |
//! | [`build`] | a project in C with its tests, and one in Rust |
//! | [`copies`] | cp, rsync, tar and rm of a tree with everything in it |
//! | [`arrays`] | two arrays at once, members that are missing or fail |
//! | [`killed`] | `kill -9` of the process that serves the mount |
//! | [`hostile`] | every damaged volume of the repository |

pub mod arrays;
pub mod build;
pub mod content;
pub mod copies;
pub mod fio;
pub mod fsx;
pub mod git;
pub mod hostile;
pub mod killed;
pub mod pjdfstest;
pub mod postgresql;
pub mod sqlite;
pub mod stress;

use crate::stage::{Ran, Stage};

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name on the command line and in the report.
    pub name: &'static str,
    /// What the amount of its work counts.
    pub unit: &'static str,
    /// Amount of its work.
    pub short: u64,
    /// … in a long run.
    pub long: u64,
    /// Runs it.
    pub run: fn(&Stage) -> Ran,
}

const fn program(
    name: &'static str,
    unit: &'static str,
    short: u64,
    long: u64,
    run: fn(&Stage) -> Ran,
) -> Program {
    Program { name, unit, short, long, run }
}

/// All programs, in the order in which they run.
pub const ALL: [Program; 15] = [
    program("pjdfstest", "runs, with other options each", 1, 3, pjdfstest::run),
    program("fsx", "seconds", 60, 3600, fsx::run),
    program("content", "seconds", 20, 900, content::run),
    program("stress-ng", "seconds for each stressor", 2, 30, stress::run),
    program("fio", "MiB for each file", 32, 512, fio::run),
    program("git", "commits that are checked out", 5, 40, git::run),
    program("sqlite", "kills for each kind of journal", 4, 40, sqlite::run),
    program("postgresql", "seconds between kills", 5, 60, postgresql::run),
    program("hello", "runs", 1, 1, build::hello),
    program("coreutils", "runs of its tests", 0, 1, build::coreutils),
    program("cargo", "runs", 1, 1, build::cargo),
    program("copies", "directories of /usr that are copied", 1, 3, copies::run),
    program("arrays", "rounds", 1, 10, arrays::run),
    program("killed", "kills", 10, 100, killed::run),
    program("hostile", "volumes at most", 60, 10_000, hostile::run),
];
