//! The monitor: a thread that does for an open array what md's own threads do.
//!
//! - When nothing was written for a while, the monitor marks the array clean (md:
//!   `safe_mode_delay`). The next write makes it active again. A crash of an idle array therefore
//!   needs no resync.
//! - When a spare has taken over from a failed member, the monitor rebuilds onto it at once, while
//!   the array is read and written. Dropping the array stops the rebuild. The next rebuild
//!   continues from the last mark.
//!
//! A rebuild that was already due when the array was opened is not started: it was deferred on
//! purpose.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xfskit_block::BlockDevice;

use super::Array;

/// How long an array must be without writes to count as idle: md's own default.
pub const SAFE_MODE_DELAY: Duration = Duration::from_millis(200);

/// An array and its monitor thread. The thread ends when this is dropped.
#[derive(Debug)]
pub struct MonitoredArray {
    array: Arc<Array>,
    monitor: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl MonitoredArray {
    /// Starts a monitor for the array. The array is idle after `idle` without a write.
    pub fn new(array: Array, idle: Duration) -> Self {
        let (array, stop) = (Arc::new(array), Arc::new(AtomicBool::new(false)));
        let (shared, stop_flag) = (Arc::clone(&array), Arc::clone(&stop));
        let builder = thread::Builder::new().name("md".into());
        // Without a thread the array stays active until it is closed.
        let monitor = builder.spawn(move || monitor(&shared, idle, &stop_flag)).ok();
        Self { array, monitor, stop }
    }

    /// Returns the array.
    pub fn array(&self) -> &Array {
        &self.array
    }
}

fn monitor(array: &Array, idle: Duration, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        thread::park_timeout(idle);
        if array.take_spare_activated() {
            let stop = || stop.load(Ordering::Acquire);
            let flow = |_| if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            // An error here also reaches the next reader or writer, which reports it.
            let _ = array.rebuild(flow);
        } else {
            let _ = array.mark_clean_if_idle();
        }
    }
}

impl Drop for MonitoredArray {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(monitor) = self.monitor.take() {
            monitor.thread().unpark();
            let _ = monitor.join();
        }
    }
}

impl BlockDevice for MonitoredArray {
    xfskit_block::forward!(this => this.array;
        size, logical_block_size, physical_block_size, topology, is_read_only, read_at, read_batch, lend,
        write_at, write_batch, flush, write_fua, discard, write_zeroes, will_need, skip_hole,
        alternatives, read_alternative, heal
    );
}
