//! Buffers that were freed.
//!
//! A freed buffer's older images must not be replayed over the present contents of its blocks. The
//! first pass counts how often each buffer was freed, and the second counts down. While the count
//! is not zero, every change of this buffer is skipped. Changes after the last time are replayed as
//! usual.

use std::collections::BTreeMap;

use xfskit_format::log::item::Buf;
use xfskit_units::{Daddr, Sectors};

/// Remaining number of cancellations of each buffer. Address and length must both match.
#[derive(Debug, Default)]
pub(crate) struct Cancelled(BTreeMap<(Daddr, Sectors), u32>);

impl Cancelled {
    /// Adds a cancellation.
    pub(crate) fn add(&mut self, buf: &Buf<'_>) {
        let count = self.0.entry((buf.daddr(), buf.sectors())).or_default();
        *count = count.saturating_add(1);
    }

    /// Removes a cancellation that the second pass has reached.
    pub(crate) fn remove(&mut self, buf: &Buf<'_>) {
        let key = (buf.daddr(), buf.sectors());
        if let Some(count) = self.0.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&key);
            }
        }
    }

    /// Returns true if the buffer is freed later in the journal.
    pub(crate) fn has(&self, daddr: Daddr, sectors: Sectors) -> bool {
        self.0.contains_key(&(daddr, sectors))
    }
}
