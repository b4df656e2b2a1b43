//! Crash tests: a run of changes on a device that records every write is cut at any point,
//! recovered and verified.
//!
//! The power may fail after any write. Writes before the last flush that had returned are durable,
//! and so are writes with FUA. Of the other writes any subset may have arrived, in any order, down
//! to single sectors, and a sector may even be torn. Each such device is recovered, and these
//! claims are verified:
//!
//! 1. The volume opens, and `check` has no findings.
//! 2. The names are those between two operations: not before the last sync, and not after the last
//!    operation that had begun. Each byte of each file is the one of the last sync, or was written
//!    since.
//! 3. Recovery in memory gives the same tree, and the next recovery finds nothing to do.
//! 4. For a sample: a recovery that is itself interrupted at any of its writes gives the same
//!    result when repeated.
//! 5. For one crash in twenty: the kernel recovers the volume to the same tree, and `xfs_repair -n`
//!    has no findings.
//!
//! | module | contents |
//! | --- | --- |
//! | [`workload`] | the workloads |
//! | [`worker`] | a thread that works below a directory of its own |
//! | [`history`] | its operations and syncs, and the states allowed after a crash |
//! | [`run`] | a run: the device before, the writes, the histories |
//! | [`crash`] | the device states that a crash may leave |
//! | [`verify`] | the claims |
//! | [`torture`] | repeated crashes of one workload |
//! | [`killed`] | processes that are killed |
//! | [`tree`] | a tree as a digest and file contents |
//! | [`pattern`] | content that names its file, operation and offset |
//!
//! `make torture` (`cargo run --release -p xfskit-test-crash -- POINTS SEED WORKLOAD`) makes a
//! hundred thousand crashes; `make test` makes some of each workload.

pub mod crash;
pub mod history;
pub mod killed;
pub mod pattern;
pub mod run;
pub mod torture;
pub mod tree;
pub mod verify;
pub mod worker;
pub mod workload;

pub use crash::{Crash, Crashes, WriteLoss};
pub use run::Run;
