//! Floor 7: the classic workloads, and reports of them.
//!
//! Each workload is written once, against the operations of [`Driver`]. A driver runs them on the
//! engine in this process, on any mounted directory, or on nothing at all, which measures the
//! harness. The measurements go into a [`Report`] together with the environment in which they were
//! made. Text, JSON, CSV and a page with plots are views of the same report.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`driver`] | the operations that a workload uses, and three drivers that run them |
//! | [`measure`] | time, processor time and memory; many threads at once; medians and their spread |
//! | [`random`] | a seeded random generator: the same seed gives the same operations |
//! | [`environment`] | the machine and the software that a report describes |
//! | [`report`] | tables and plots, and how they are shown |
//! | [`program`] | fs_mark, dbench and compilebench, with the interfaces that their users know |
//! | [`kernel`] | images that the kernel mounts |
//! | [`mounter`] | volumes that this program mounts |
//! | [`repairer`] | volumes that this program and `xfs_repair` repair |
//! | `image` | disk images in unlinked files |
//! | [`testbed`] | test volumes of one format, run by the engine or by the kernel |
//! | [`suite`] | whole studies |

pub mod driver;
pub mod environment;
mod image;
pub mod kernel;
pub mod measure;
pub mod mounter;
pub mod program;
pub mod random;
pub mod repairer;
pub mod report;
pub mod suite;
pub mod testbed;

pub use driver::{Driver, Kind, Stat};
pub use environment::Environment;
pub use image::{FullDir, full_dir};
pub use report::Report;

/// The speed of the parity routines.
pub mod parity {
    pub use xfskit_parity::{Measured, Operation, measure, selected};
}
