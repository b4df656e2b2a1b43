//! Floor 1: devices that hold blocks of bytes.
//!
//! All floors above see [`BlockDevice`] and nothing else: not files, not arrays, not networks.
//! Wrappers compose: a window into a device, a copy-on-write overlay, a recorder of writes and
//! flush barriers, a counter, an injector of faults. Each holds the device below it as an `Arc<dyn
//! BlockDevice>` and is one itself.
//!
//! | module | content |
//! | --- | --- |
//! | [`device`] | the trait and its errors |
//! | [`plain`](mod@plain) | defaults for devices ([`plain!`]); [`forward!`] is for wrappers |
//! | [`topology`] | the stripe layout of a device |
//! | [`file`](mod@file) | an image file or a block device of this machine |
//! | [`direct`] | writes that bypass the page cache |
//! | [`memory`] | a sparse device in memory |
//! | [`window`] | a byte range of another device: a partition |
//! | [`overlay`] | copy-on-write in memory over a device that is never written |
//! | [`cow`] | copy-on-write in a file that a later run can continue |
//! | [`snapshot`] | the content of a moment, while the device goes on being written |
//! | [`nobarrier`] | a device that is never flushed |
//! | [`count`] | counts reads, writes, bytes and flushes |
//! | [`record`] | keeps every write with its flush barriers, and replays them |
//! | [`limited`] | has the bandwidth and latency of a disk |
//! | [`fault`] | fails, delays, tears, misplaces and rots, all from one seed |

pub mod count;
pub mod cow;
pub mod device;
pub mod direct;
pub mod fault;
pub mod file;
mod forward;
mod holders;
mod ioctl;
pub mod limited;
mod lock;
mod loops;
pub mod memory;
pub mod nobarrier;
pub mod overlay;
mod pages;
pub mod plain;
pub mod record;
pub mod snapshot;
mod spill;
pub mod topology;
pub mod window;

pub use count::{CountingDevice, Counts};
pub use cow::CowDevice;
pub use device::{BlockDevice, Error, Holder, IoRead, Result};
pub use direct::AlignedBuf;
pub use fault::{FaultDevice, FaultPlan, SilentFault};
pub use file::{FileDevice, OpenMode};
pub use limited::LimitedDevice;
pub use memory::MemDevice;
pub use nobarrier::NoBarrierDevice;
pub use overlay::OverlayDevice;
pub use record::{Event, RecordingDevice};
pub use snapshot::{Snapshot, SnapshotDevice, SnapshotGroup};
pub use topology::Topology;
pub use window::WindowDevice;
#[doc(hidden)]
pub use xfskit_units as units;
