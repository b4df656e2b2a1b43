//! Floor 6: make a volume.
//!
//! Making an XFS volume has two steps. [`plan`] turns options and the properties of the device into
//! a [`Plan`], in which every size and location is fixed. [`make`] writes it. The plan for a device
//! of 8 EiB costs nothing, and a volume of 500 TB takes a fraction of a second, because nothing is
//! written between the groups' headers.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`options`] | [`Options`]: mkfs.xfs's option syntax |
//! | `suboptions` | the table of what each option takes |
//! | [`geometry`] | [`DeviceFacts`], [`Plan`], [`plan`]: every rule of mkfs.xfs |
//! | `stripe` | the decisions on the data stripe |
//! | `logspace` | the decisions on the log |
//! | [`minlog`] | the smallest log that Linux accepts |
//! | [`layout`] | the layout of one group |
//! | [`group`] | a group's bytes: headers and btree roots |
//! | [`group_btrees`], [`group_space`] | blocks for the btrees of a group with content |
//! | [`inodes`] | the first inode chunk |
//! | [`existing`] | contents that must not be overwritten by accident |
//! | [`mod@write`] | [`make`]: the order of writing; its parts, to fill a volume first |
//! | [`compat`] | which readers can use a volume, and what to leave out for one |
//! | [`summary`] | [`Summary`]: what mkfs.xfs and xfs_info print |
//!
//! Time, UUID and generation numbers are parameters ([`Stamp`]), so the same plan gives the same
//! bytes.

pub mod compat;
pub mod error;
pub mod existing;
pub mod geometry;
pub mod group;
pub mod group_btrees;
pub mod group_space;
pub mod inodes;
pub mod layout;
mod logspace;
pub mod minlog;
pub mod options;
mod sizes;
mod stripe;
mod suboptions;
pub mod summary;
pub mod write;

pub use error::Error;
pub use geometry::{Plan, Stamp, plan};
pub use options::{Autofsck, OptionError, Options};
pub use sizes::{DeviceFacts, LogFacts};
pub use summary::Summary;
pub use write::make;
