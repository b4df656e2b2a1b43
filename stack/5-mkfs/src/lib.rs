//! Floor 5: make a volume.
//!
//! Making an XFS volume is deciding, then writing. [`plan`] turns options and facts about the
//! device into a [`Plan`], in which every size and place is fixed; [`make`] writes it. The plan for
//! a device of 8 EiB costs nothing, and the volume of one of 500 TB a fraction of a second: between
//! the groups' headers nothing is written.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`options`] | [`Options`]: mkfs.xfs's option syntax |
//! | `suboptions` | the table of what each option takes |
//! | [`geometry`] | [`DeviceFacts`], [`Plan`], [`plan`]: every rule of mkfs.xfs |
//! | `stripe` | the data stripe's part of that |
//! | `logspace` | the log's |
//! | [`minlog`] | the smallest log that Linux accepts |
//! | [`layout`] | what lies where in one group |
//! | [`group`] | a group's bytes: headers and btree roots |
//! | [`inodes`] | the first inode chunk |
//! | [`existing`] | what must not be overwritten by accident |
//! | [`mod@write`] | [`make`]: the order of writing, and its parts for a volume that is filled before |
//! | [`compat`] | which readers can use a volume, and what to leave out for one |
//! | [`summary`] | [`Summary`]: what mkfs.xfs and xfs_info print |
//!
//! Time, UUID and generation numbers are parameters ([`Stamp`]): the same plan gives the same
//! bytes.

pub mod compat;
pub mod error;
pub mod existing;
pub mod geometry;
pub mod group;
pub mod inodes;
pub mod layout;
mod logspace;
pub mod minlog;
pub mod options;
mod stripe;
mod suboptions;
pub mod summary;
pub mod write;

pub use error::Error;
pub use geometry::{DeviceFacts, LogFacts, Plan, Stamp, plan};
pub use options::{Autofsck, OptionError, Options};
pub use summary::Summary;
pub use write::make;
