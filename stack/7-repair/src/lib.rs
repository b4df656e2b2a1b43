//! Floor 7: repair a volume.
//!
//! [`Repair::prepare`] replays the journal, surveys the volume, and makes every change on an
//! overlay in memory: nothing is written. [`Prepared`] has the plan, and the check of the overlay.
//! Only if that is clean does [`Prepared::commit`] write, and what it overwrites goes to an undo
//! file first.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`plan`] | what a repair does, on which evidence |
//! | [`prepare`] | the order: journal, survey, changes, second check |
//! | `classes` | which findings can be repaired, and by what |
//! | `discover` | inode chunks of a group whose inode btrees are lost |
//! | `groups` | btrees, free list and headers of a group, made from what its files use |
//! | `inodes` | counters of inodes |
//! | `steps` | the changes on the overlay, and what the plan says of them |
//! | `superblocks` | the primary and its copies, and the counters |
//! | `changes` | the sectors that differ |
//! | [`commit`] | the order of writing |
//! | [`mod@undo`] | the undo file |
//!
//! So far everything can be repaired that the files of a volume determine: all of a group but its
//! inodes. Damage of the files themselves is named in the plan, and nothing is written then.
#![warn(clippy::unwrap_used)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod changes;
mod classes;
pub mod commit;
mod discover;
pub mod error;
mod groups;
mod inodes;
pub mod plan;
pub mod prepare;
mod steps;
mod superblocks;
pub mod undo;

pub use commit::Committed;
pub use error::{Error, Result};
pub use plan::{Plan, Step, StepKind};
pub use prepare::{Prepared, Repair};
pub use undo::{UndoFile, Undone, undo};
