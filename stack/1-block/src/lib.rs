//! Floor 1: devices that hold blocks of bytes.
//!
//! Everything above sees [`BlockDevice`] and nothing else: not files, not arrays, not networks.
//! Wrappers compose: a window into a device, a copy-on-write overlay, a recorder of writes and
//! flush barriers, a counter, an injector of faults.
//!
//! | module | what |
//! | --- | --- |
//! | [`device`] | the trait, its errors |
//! | [`memory`] | a sparse device in memory |

pub mod device;
pub mod memory;

pub use device::{BlockDevice, Error, IoRead, Result};
pub use memory::MemDevice;
