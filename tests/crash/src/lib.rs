//! Crashes: a run of changes on a device that remembers every write, cut at any place, recovered, judged.
//!
//! The power may fail behind any write. What was written before the last flush that had returned is
//! there then, and what was written with FUA; of the rest any part may be, in any order, down to single
//! sectors, and a sector may even be torn. From each such device we recover and ask:
//!
//! 1. Does the volume open, with nothing for `check` to say?
//! 2. Are the names such as they were between two operations, not before the last sync, and not behind the last
//!    operation that had begun? Has every place of every file what was synced there, or what was written since?
//! 3. Does recovery in memory come to the same tree, and the next recovery find nothing to do?
//! 4. For one in some: does recovery that is itself cut, at any of its writes, come to the same when it is done again?
//! 5. For one in twenty: does the kernel recover it as well, to the same tree, and `xfs_repair -n` agree?
//!
//! | module | what |
//! | --- | --- |
//! | [`workload`] | the kinds of work |
//! | [`worker`] | a thread at work below a directory of its own |
//! | [`diary`] | what it did and was promised, and what may be there after a crash |
//! | [`run`] | a run: the device before, what was written, everybody's diary |
//! | [`crash`] | the devices that a crash may leave |
//! | [`judge`] | the questions |
//! | [`torture`] | crash after crash |
//! | [`killed`] | processes that are killed, and what they leave |
//! | [`tree`] | what is seen of a tree |
//! | [`pattern`] | contents that say where they belong |
//! | [`random`] | choices without a pattern, from a seed |
//!
//! `make torture` (`cargo run --release -p xfskit-test-crash -- POINTS SEED WORKLOAD`) goes on until there were a hundred
//! thousand crashes; `make test` takes some of each workload.

pub mod crash;
pub mod diary;
pub mod judge;
pub mod killed;
pub mod pattern;
pub mod random;
pub mod run;
pub mod torture;
pub mod tree;
pub mod worker;
pub mod workload;

pub use crash::{Crash, Crashes, Wear};
pub use random::Random;
pub use run::Run;
