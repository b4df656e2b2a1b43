//! A volume in memory, and the checks after a test.
#![allow(dead_code, reason = "each test needs some of it")]

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_support::{verify, volumes};
use xfskit_units::{ByteLen, ByteOffset};
use xfskit_vfs::{Clock, Fs, Timestamp};

/// Size of a volume in bytes.
pub(crate) const SIZE: u64 = 64 << 20;

/// Makes a new volume with these options of mkfs.
pub(crate) fn make(options: &[(&str, &str)]) -> Arc<MemDevice> {
    volumes::make(SIZE, options)
}

/// Opens the volume.
pub(crate) fn open(dev: &Arc<MemDevice>, write: bool) -> Fs {
    let options = OpenOptions { write, cache_bytes: 4 << 20, ..OpenOptions::default() };
    let volume = Volume::open(Arc::clone(dev) as Arc<dyn BlockDevice>, &options).unwrap();
    Fs::new(volume, clock())
}

/// Returns the clock of all changes.
pub(crate) fn clock() -> Clock {
    Clock::fixed(Timestamp { sec: 1_700_000_000, nsec: 5 })
}

/// Returns a copy of the device.
pub(crate) fn snapshot(dev: &MemDevice) -> Arc<MemDevice> {
    let copy = Arc::new(MemDevice::new(ByteLen(SIZE)));
    let mut piece = vec![0; 1 << 20];
    for offset in (0..SIZE).step_by(piece.len()) {
        dev.read_at(ByteOffset(offset), &mut piece).unwrap();
        if piece.iter().any(|&byte| byte != 0) {
            copy.write_at(ByteOffset(offset), &piece).unwrap();
        }
    }
    copy
}

/// Fails unless our check, `xfs_repair` and the kernel find nothing.
pub(crate) fn verify_all(dev: &MemDevice) {
    verify::device(dev).unwrap();
}
