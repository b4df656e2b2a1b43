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
//! | `device_copies` | sound copies that the device has of damaged blocks |
//! | `journal` | the journal: replayed, or cleared where it is damaged |
//! | `classes`, `damage` | which findings can be repaired, and by what |
//! | `view`, `links` | what is read of files, and of the entries that name them |
//! | `journal_copies`, `block_copy`, `inode_copy` | damaged blocks, as the journal has them |
//! | `journal_items`, `journal_names` | what the journal still holds; names in it |
//! | `discover`, `chunk_bits` | inode chunks: where the inode btrees are lost, or wrong |
//! | `files`, `layer` | damaged inodes, layer by layer |
//! | `core_fields`, `forks`, `room` | the core of an inode, its forks, and blocks for them |
//! | `raw_map`, `ground`, `maps`, `remap` | better maps where other structures contradict them |
//! | `claims`, `cuts` | blocks that several forks claim: which hold; the others are cut out |
//! | `headers`, `strays` | the owners that blocks name, and data blocks to which no map leads |
//! | `unclaimed`, `lost_forks`, `attr_blocks` | forks made of blocks that nothing claims |
//! | `directories`, `attributes`, `targets` | what the forks hold, made again |
//! | `dead_entries` | names in the unused space of directories |
//! | `tree`, `orphans` | directories with several names; inodes without a name |
//! | `groups` | btrees, free list and headers of a group, made from what its files use |
//! | `lost_groups` | content of files that is lost with a group |
//! | `inodes` | counters of inodes |
//! | `steps` | the changes on the overlay, and what the plan says of them |
//! | `primary` | fields of the primary, by its copies and by the volume |
//! | `superblocks` | the primary and its copies, and the counters |
//! | `survivors` | the files before and after the repair, compared |
//! | [`unaccounted`] | the files that differ, and that the plan does not name |
//! | `paths` | the paths of the inodes that the plan names |
//! | `unwritten` | the plan of a volume that is not repaired yet |
//! | `changes` | the sectors that differ |
//! | `stages` | the parts of the changes that are written together |
//! | [`commit`] | the order of writing |
//! | [`mod@undo`] | the undo file |
#![warn(clippy::unwrap_used)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attr_blocks;
mod attributes;
mod block_copy;
mod changes;
mod chunk_bits;
mod claims;
mod classes;
pub mod commit;
mod core_fields;
mod cuts;
mod damage;
mod dead_entries;
mod device_copies;
mod directories;
mod discover;
pub mod error;
mod files;
mod forks;
mod ground;
mod groups;
mod headers;
mod inode_copy;
mod inodes;
mod journal;
mod journal_copies;
mod journal_items;
mod journal_names;
mod layer;
mod links;
mod lost_forks;
mod lost_groups;
mod maps;
mod orphans;
mod paths;
pub mod plan;
pub mod prepare;
mod primary;
mod raw_map;
mod remap;
mod room;
mod stages;
mod steps;
mod strays;
mod superblocks;
mod survivors;
mod targets;
mod tree;
pub mod unaccounted;
mod unclaimed;
pub mod undo;
mod unwritten;
mod view;

pub use commit::{CommitPhase, CommitProgress, Committed};
pub use error::{Error, Result};
pub use plan::{LostJournal, Plan, Step, StepKind};
pub use prepare::{AcceptLoss, Prepared, Repair};
pub use unaccounted::{Change, ChangedFile, Unaccounted};
pub use undo::{UndoFile, Undone, undo};
