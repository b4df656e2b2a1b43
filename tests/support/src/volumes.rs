//! New volumes in memory.

use std::sync::Arc;

use xfskit_block::MemDevice;
use xfskit_mkfs::{DeviceFacts, Options, Stamp};
use xfskit_units::{ByteLen, Uuid};

/// UUID, time and generation of every new volume.
pub const STAMP: Stamp =
    Stamp { uuid: Uuid::from_u128(7), seconds: 1_600_000_000, nanoseconds: 0, generation: 9 };

/// Formats a new volume of `bytes` bytes. `options` are those of mkfs.xfs, for example
/// `("-b", "size=1024")`.
///
/// # Panics
/// If it cannot be formatted.
pub fn make(bytes: u64, options: &[(&str, &str)]) -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(ByteLen(bytes)));
    let mut asked = Options::default();
    for (option, argument) in options {
        asked.sub(option, argument).expect("an option of mkfs");
    }
    let plan = xfskit_mkfs::plan(&asked, &DeviceFacts::of(&*device, None), STAMP).expect("a plan");
    xfskit_mkfs::make(&*device, None, &plan).expect("a volume");
    device
}
