//! The array of the md benchmarks: a RAID6 of 24 members in memory, chunks of 512 KiB,
//! left-symmetric.
//!
//! "Disks" are simulated: the same members behind [`LimitedDevice`]. MB are 10^6 bytes.

use std::sync::Arc;
use std::time::Duration;

use xfskit_block::{BlockDevice, LimitedDevice, MemDevice};
use xfskit_md::array::{Array, Options};
use xfskit_md::{Geometry, Layout, Level, Slot};
use xfskit_units::{ByteLen, ByteOffset, Sectors};

/// Members of the array.
pub const MEMBERS: u32 = 24;
/// Bytes of a chunk.
pub const CHUNK: u64 = 512 << 10;
/// Bytes of data in a full stripe.
pub const STRIPE: u64 = (MEMBERS as u64 - 2) * CHUNK;

/// The members of a filled array, and its geometry.
#[derive(Debug)]
pub struct Members {
    devices: Vec<Arc<dyn BlockDevice>>,
    /// Geometry of the array.
    pub geometry: Geometry,
}

impl Members {
    /// Creates members of `size` each and fills their array.
    ///
    /// # Panics
    /// If an array cannot have members of this size.
    pub fn new(size: Sectors) -> Self {
        let layout = Layout::default_of(Level::Raid6);
        let geometry =
            Geometry::new(layout, Sectors(CHUNK / 512), MEMBERS, size, &[]).expect("numbers");
        let devices =
            (0..MEMBERS).map(|_| Arc::new(MemDevice::new(size.byte_len())) as _).collect();
        let members = Self { devices, geometry };
        let options = Options { stripe_cache: ByteLen(0), ..Options::default() };
        let array = members.array(None, options, |_, slot| slot);
        let mut stripe = vec![0; usize::try_from(STRIPE).expect("fits")];
        for at in (0..array.size().0).step_by(stripe.len()) {
            fill(at, &mut stripe);
            array.write_at(ByteOffset(at), &stripe).expect("memory");
        }
        drop(array);
        members
    }

    /// Assembles the array; `change` may replace each slot. `speed` limits the members to this many
    /// bytes per second.
    ///
    /// # Panics
    /// If `change` leaves too few members.
    pub fn array(
        &self,
        speed: Option<u64>,
        options: Options,
        change: impl Fn(usize, Slot) -> Slot,
    ) -> Array {
        let size = self.geometry.component_size();
        let slot = |(role, device): (usize, &Arc<dyn BlockDevice>)| {
            let mut device = Arc::clone(device);
            if let Some(speed) = speed {
                device = Arc::new(LimitedDevice::new(device, speed, Duration::from_micros(100)));
            }
            change(role, Slot::new(device, format!("m{role}"), Sectors(0), size))
        };
        let slots = self.devices.iter().enumerate().map(slot).collect();
        Array::open_with(self.geometry.clone(), slots, options).expect("an array that runs")
    }
}

/// Fills the buffer with data that differs in every sector.
fn fill(at: u64, buf: &mut [u8]) {
    let mut x = at | 1;
    for bytes in buf.chunks_exact_mut(8) {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.copy_from_slice(&x.to_le_bytes());
    }
}

/// Converts a count for printing.
#[allow(clippy::cast_precision_loss)] // for printing
pub fn number(n: u64) -> f64 {
    n as f64
}
