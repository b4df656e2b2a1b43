//! Helpers for tests of whole arrays.

use std::fmt::Write;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use xfskit_block::{BlockDevice, Error, Result};
use xfskit_md::array::Array;
use xfskit_md::assemble::{Assembly, Member, assemble};
use xfskit_test_support::Random;
use xfskit_units::{ByteLen, ByteOffset, index};

/// The current time in these tests, in seconds since 1970.
pub const NOW: u64 = 1_800_000_000;

/// Assembles these devices, named `m0`, `m1`, …
///
/// # Panics
/// Panics if they make no array.
pub fn assembly(devices: &[Arc<dyn BlockDevice>]) -> Assembly {
    let member = |(i, device): (usize, &Arc<dyn BlockDevice>)| Member {
        name: format!("m{i}"),
        device: Arc::clone(device),
    };
    assemble(devices.iter().enumerate().map(member).collect()).expect("an array")
}

/// A device that refuses writes.
#[derive(Debug)]
struct ReadOnlyView(Arc<dyn BlockDevice>);

impl BlockDevice for ReadOnlyView {
    xfskit_block::plain!(
        lend,
        logical_block_size,
        physical_block_size,
        topology,
        read_batch,
        write_batch,
        write_fua,
        discard,
        write_zeroes,
        will_need,
        skip_hole,
        alternatives,
        read_alternative,
        heal
    );
    fn size(&self) -> ByteLen {
        self.0.size()
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, _: ByteOffset, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// Returns read-only views of the devices.
pub fn read_only_views(devices: &[Arc<dyn BlockDevice>]) -> Vec<Arc<dyn BlockDevice>> {
    devices.iter().map(|device| Arc::new(ReadOnlyView(Arc::clone(device))) as _).collect()
}

/// Returns the whole content of a device.
///
/// # Panics
/// Panics if it cannot be read.
pub fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let mut all = vec![0; index(device.size().0)];
    device.read_at(ByteOffset(0), &mut all).expect("all of the device");
    all
}

/// Returns whether all members agree.
///
/// # Panics
/// Panics if they cannot be compared.
pub fn is_consistent(array: &Array) -> bool {
    (0..array.scrub_stripes())
        .all(|stripe| array.scrub_stripe(stripe, false).expect("members to compare").is_empty())
}

/// Returns a start and a length within `size` bytes, at most one of four lengths. Half of the
/// starts are page-aligned.
pub fn random_range(random: &mut Random, size: usize, most: [usize; 4]) -> (usize, usize) {
    let most = random.pick(&most);
    let len = 1 + random.below(size.min(most));
    let start = random.below(size - len + 1);
    (if random.below(2) == 0 { start - start % 4096 } else { start }, len)
}

/// Returns the SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string");
        text
    })
}
