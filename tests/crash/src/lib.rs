//! Crashes: a run of changes on a device that remembers every write, cut at any place, recovered, judged.
//!
//! The power may fail behind any write. What was written before the last flush that had returned is
//! there then, and what was written with FUA; of the rest any part may be, in any order, down to single
//! sectors, and a sector may even be torn. From each such device we recover and ask:
//!
//! 1. Does the volume open, with nothing for `check` to say?
//! 2. Is the tree one that it was between two operations, not before the last sync, and not behind the
//!    last operation that had begun?
//! 3. Does recovery in memory come to the same tree, and the next recovery find nothing to do?
//! 4. For one in some: does the kernel recover it as well, to the same tree, and `xfs_repair -n` agree?
//!
//! | module | what |
//! | --- | --- |
//! | [`run`] | a run: the device before, what was written, what was promised when |
//! | [`crash`] | the devices that a crash may leave |
//! | [`judge`] | the questions |
//! | [`tree`] | a tree in one number |
//! | [`random`] | choices without a pattern, from a seed |

pub mod crash;
pub mod judge;
pub mod random;
pub mod run;
pub mod tree;

pub use crash::{Crash, Crashes, Wear};
pub use random::Random;
pub use run::{Run, Workshop};
