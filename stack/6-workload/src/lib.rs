//! Floor 6: the classic workloads, and reports of them.
//!
//! Each workload is written once, against [`Driver`]: what a program asks of a filesystem. What drives it is
//! the engine in process, any mounted directory, or nothing at all, which measures the harness. What was
//! measured goes into a [`Report`], which says on what it ran; text, JSON, CSV and a page with plots are views
//! of the same report.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`driver`] | what a workload asks of a filesystem, and the three who answer |
//! | [`measure`] | time, processor time and memory; many threads at once; medians and their spread |
//! | [`random`] | choices from a seed: the same seed, the same operations |
//! | [`circumstances`] | the machine and the software that a report is of |
//! | [`report`] | tables and plots, and how they are shown |
//! | [`program`] | fs_mark and its kin, as users of these programs know them |
//! | [`kernel`] | images that the kernel mounts |
//! | `image` | disks in files that have no name |
//! | [`side`] | the same disk with the engine on it, or the kernel |
//! | [`suite`] | whole studies |

pub mod circumstances;
pub mod driver;
mod image;
pub mod kernel;
pub mod measure;
pub mod program;
pub mod random;
pub mod report;
pub mod side;
pub mod suite;

pub use circumstances::Circumstances;
pub use driver::{Driver, Kind, Stat};
pub use report::Report;
