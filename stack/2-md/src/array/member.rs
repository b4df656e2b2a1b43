//! One member: where it is readable, its failures, and the device that took over from it.
//!
//! A spare that takes over becomes the successor of the member, which then delegates to it. A
//! replacement is written wherever the member is written, and is not read until it is complete.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, IoRead, Result};
use xfskit_units::{ByteLen, ByteOffset, MemberByte, Sectors};

use super::badblock_list::BadBlockList;
use super::ppl::PplLog;
use crate::geometry::{Replacement, Slot};

/// The member of a role, or a role without one.
#[derive(Debug)]
pub(super) struct Member {
    device: Option<Arc<dyn BlockDevice>>,
    name: String,
    /// Where its data start on the device.
    data_start: ByteOffset,
    /// A [`MemberByte`].
    readable_until: AtomicU64,
    bad: BadBlockList,
    write_mostly: bool,
    faulty: AtomicBool,
    read_errors: AtomicU32,
    pending: AtomicU32,
    /// The member was re-added: only what the bitmap names is missing, and `readable_until` does
    /// not count.
    by_bitmap: bool,
    /// The partial parity log, for writes whose parity this member holds. Locked until the logged
    /// write is durable.
    log: OnceLock<Mutex<PplLog>>,
    replacement: OnceLock<ActiveReplacement>,
    successor: OnceLock<Box<Member>>,
}

/// A replacement that is being filled.
#[derive(Debug)]
pub(super) struct ActiveReplacement {
    slot: Replacement,
    faulty: AtomicBool,
    bad: BadBlockList,
}

impl ActiveReplacement {
    fn new(replacement: Replacement) -> Self {
        let bad = BadBlockList::new(&replacement.bad_blocks);
        Self { slot: replacement, faulty: AtomicBool::new(false), bad }
    }

    /// Returns the device and its state when the array was opened.
    pub(super) fn slot(&self) -> &Replacement {
        &self.slot
    }

    /// Returns the ranges that must not be read.
    pub(super) fn bad(&self) -> &BadBlockList {
        &self.bad
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.faulty.load(Ordering::Acquire)
    }

    /// Writes the data. A replacement that failed is not written any more.
    pub(super) fn write(&self, at: MemberByte, buf: &[u8]) -> Result<()> {
        if self.is_faulty() {
            return Ok(());
        }
        let start = data_start(self.slot.data_offset);
        let result = self.slot.device.write_at(start.saturating_add(at.0), buf);
        self.faulty.fetch_or(result.is_err(), Ordering::AcqRel);
        result
    }

    pub(super) fn flush(&self) -> Result<()> {
        let result = if self.is_faulty() { Ok(()) } else { self.slot.device.flush() };
        self.faulty.fetch_or(result.is_err(), Ordering::AcqRel);
        result
    }
}

/// Returns the offset on a device at which its data start.
fn data_start(data_offset: Sectors) -> ByteOffset {
    ByteOffset(data_offset.byte_len().0)
}

impl Member {
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            device: slot.device,
            name: slot.name,
            data_start: data_start(slot.data_offset),
            readable_until: AtomicU64::new(slot.readable_until.byte().0),
            bad: BadBlockList::new(&slot.bad_blocks),
            write_mostly: slot.write_mostly,
            faulty: AtomicBool::new(false),
            read_errors: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            by_bitmap: slot.by_bitmap,
            replacement: slot
                .replacement
                .map_or_else(OnceLock::new, |new| ActiveReplacement::new(new).into()),
            log: OnceLock::new(),
            successor: OnceLock::new(),
        }
    }

    /// Sets the partial parity log.
    pub(super) fn set_log(&self, log: Option<PplLog>) {
        if let Some(log) = log {
            let _ = self.current().log.set(Mutex::new(log));
        }
    }

    /// Returns the partial parity log.
    pub(super) fn log(&self) -> Option<&Mutex<PplLog>> {
        self.current().log.get()
    }

    /// Returns the member that serves the role now: the last successor.
    pub(super) fn current(&self) -> &Self {
        let mut member = self;
        while let Some(next) = member.successor.get() {
            member = next;
        }
        member
    }

    /// Makes `successor` serve the role from now on.
    pub(super) fn set_successor(&self, successor: Self) {
        let _ = self.current().successor.set(Box::new(successor));
    }

    /// Returns the replacement that is being filled.
    pub(super) fn replacement(&self) -> Option<&ActiveReplacement> {
        self.current().replacement.get()
    }

    /// Sets the replacement.
    pub(super) fn set_replacement(&self, replacement: Replacement) {
        let _ = self.current().replacement.set(ActiveReplacement::new(replacement));
    }

    /// Makes the complete replacement serve the role from now on, with this partial parity log.
    /// Returns false if it failed.
    pub(super) fn promote_replacement(&self, log: Option<PplLog>) -> bool {
        let Some(replacement) = self.replacement().filter(|replacement| !replacement.is_faulty())
        else {
            return false;
        };
        let Replacement { device, name, data_offset, .. } = replacement.slot.clone();
        let size = Sectors(device.size().0 / 512);
        let slot = Slot::new(device, name, data_offset, size);
        let successor = Self::new(Slot { bad_blocks: replacement.bad.sectors(), ..slot });
        successor.set_log(log);
        self.set_successor(successor);
        true
    }

    /// Returns true if only what the bitmap names is missing from the member.
    pub(super) fn by_bitmap(&self) -> bool {
        self.current().by_bitmap
    }

    pub(super) fn name(&self) -> &str {
        &self.current().name
    }

    pub(super) fn is_write_mostly(&self) -> bool {
        self.current().write_mostly
    }

    /// Returns the device, unless it is missing or faulty.
    pub(super) fn device(&self) -> Option<&Arc<dyn BlockDevice>> {
        let this = self.current();
        this.device.as_ref().filter(|_| !this.faulty.load(Ordering::Acquire))
    }

    /// Returns true if the member was present and has failed.
    pub(super) fn is_faulty(&self) -> bool {
        self.current().faulty.load(Ordering::Acquire)
    }

    /// Returns true if the whole range is present and valid.
    pub(super) fn is_readable(&self, at: MemberByte, len: ByteLen) -> bool {
        let end = at.plus(len);
        let this = self.current();
        self.device().is_some()
            && end.0 <= this.readable_until.load(Ordering::Acquire)
            && !this.bad.overlaps(at, len)
    }

    /// Returns how far the member is filled.
    pub(super) fn readable_until(&self) -> MemberByte {
        MemberByte(self.current().readable_until.load(Ordering::Acquire))
    }

    /// Records that the member is filled up to `until`.
    pub(super) fn set_readable_until(&self, until: MemberByte) {
        self.current().readable_until.fetch_max(until.0, Ordering::AcqRel);
    }

    /// Returns the ranges that must not be read.
    pub(super) fn bad(&self) -> &BadBlockList {
        &self.current().bad
    }

    /// Takes the member out of use. Returns true for the first caller.
    pub(super) fn set_faulty(&self) -> bool {
        !self.current().faulty.swap(true, Ordering::AcqRel)
    }

    /// Counts a failed read. Returns the count.
    pub(super) fn count_read_error(&self) -> u32 {
        self.current().read_errors.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn read_errors(&self) -> u32 {
        self.current().read_errors.load(Ordering::Relaxed)
    }

    /// Returns the number of mirror reads in flight.
    pub(super) fn pending(&self) -> &AtomicU32 {
        &self.pending
    }

    /// Returns where a byte of the member lies on its device.
    pub(super) fn position(&self, at: MemberByte) -> ByteOffset {
        self.current().data_start.saturating_add(at.0)
    }

    /// Reads without checking that the range is valid. Returns `None` if there is no device.
    pub(super) fn read(&self, at: MemberByte, buf: &mut [u8]) -> Option<Result<()>> {
        Some(self.device()?.read_at(self.position(at), buf))
    }

    /// Reads many ranges at once. Returns `None` if there is no device.
    pub(super) fn read_batch<'a>(
        &self,
        batch: impl Iterator<Item = (MemberByte, &'a mut [u8])>,
    ) -> Option<Vec<Result<()>>> {
        let device = self.device()?;
        let mut batch: Vec<_> =
            batch.map(|(at, buf)| IoRead { offset: self.position(at), buf }).collect();
        Some(match batch.as_mut_slice() {
            [one] => vec![device.read_at(one.offset, one.buf)],
            many => device.read_batch(many),
        })
    }

    /// Writes many ranges at once, also to the replacement. Returns `None` if there is no device.
    pub(super) fn write_batch<'a>(
        &self,
        batch: impl Iterator<Item = (MemberByte, &'a [u8])>,
    ) -> Option<Vec<Result<()>>> {
        let batch: Vec<_> = batch.collect();
        if let Some(replacement) = self.replacement() {
            // A replacement that fails is given up. The member continues.
            let _ = batch.iter().try_for_each(|(at, buf)| replacement.write(*at, buf));
        }
        let device = self.device()?;
        let batch: Vec<_> = batch.into_iter().map(|(at, buf)| (self.position(at), buf)).collect();
        Some(device.write_batch(&batch))
    }

    /// Announces a read.
    pub(super) fn will_need(&self, at: MemberByte, len: ByteLen) {
        if let Some(device) = self.device() {
            device.will_need(self.position(at), len);
        }
    }
}
