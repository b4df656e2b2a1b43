//! An array with somebody at its side: a thread that does what md's own threads do while it is in use.
//!
//! - Where nothing was written for a while the array is marked clean (md: `safe_mode_delay`); the next write makes
//!   it active again. A crash of an idle array asks for no resync.
//! - Where a spare has taken over from a member that failed, its content is brought to it at once, while the array is
//!   read and written. Who lets go of the array stops that; it goes on with the next rebuild.
//!
//! What waited for a rebuild when the array was opened is not begun: somebody put it off.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xfskit_block::{BlockDevice, IoRead, Result, Topology};
use xfskit_units::{ByteLen, ByteOffset};

use super::Array;

/// How long an array is left alone before it counts as idle; md's own measure.
pub const SAFE_MODE_DELAY: Duration = Duration::from_millis(200);

/// An array and its attendant, which ends with it.
#[derive(Debug)]
pub struct MonitoredArray {
    array: Arc<Array>,
    attendant: Option<JoinHandle<()>>,
    leaves: Arc<AtomicBool>,
}

impl MonitoredArray {
    /// The array, to be looked after; idle when nothing is written for so long.
    pub fn new(array: Array, idle: Duration) -> Self {
        let (array, leaves) = (Arc::new(array), Arc::new(AtomicBool::new(false)));
        let (its, told) = (Arc::clone(&array), Arc::clone(&leaves));
        let attendant = thread::Builder::new().name("md".into());
        // Without a thread it is an array like any other: active until it is closed.
        let attendant = attendant.spawn(move || monitor(&its, idle, &told)).ok();
        Self { array, attendant, leaves }
    }

    /// The array itself.
    pub fn array(&self) -> &Array {
        &self.array
    }
}

fn monitor(array: &Array, idle: Duration, leaves: &AtomicBool) {
    while !leaves.load(Ordering::Acquire) {
        thread::park_timeout(idle);
        if array.take_spare_activated() {
            let leaves = || leaves.load(Ordering::Acquire);
            let go_on =
                |_| if leaves() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            // What fails here fails whoever uses the array, too, and is told there.
            let _ = array.rebuild(go_on);
        } else {
            let _ = array.mark_clean_if_idle();
        }
    }
}

impl Drop for MonitoredArray {
    fn drop(&mut self) {
        self.leaves.store(true, Ordering::Release);
        if let Some(attendant) = self.attendant.take() {
            attendant.thread().unpark();
            let _ = attendant.join();
        }
    }
}

impl BlockDevice for MonitoredArray {
    fn size(&self) -> ByteLen {
        self.array.size()
    }
    fn logical_block_size(&self) -> u32 {
        self.array.logical_block_size()
    }
    fn physical_block_size(&self) -> u32 {
        self.array.physical_block_size()
    }
    fn topology(&self) -> Topology {
        self.array.topology()
    }
    fn is_read_only(&self) -> bool {
        self.array.is_read_only()
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.array.read_at(offset, buf)
    }
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        self.array.read_batch(batch)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.array.write_at(offset, buf)
    }
    fn flush(&self) -> Result<()> {
        self.array.flush()
    }
    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        self.array.will_need(offset, len);
    }
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        self.array.alternatives(offset, len)
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.array.read_alternative(offset, buf, k)
    }
    fn heal(&self, offset: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        self.array.heal(offset, good, k)
    }
}
