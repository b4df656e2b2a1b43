//! One member: where it may be read, what became of it, who came after it.
//!
//! A spare that takes over is a successor: from then on it is the member, for whoever asks. A replacement
//! is a replacement: it is written wherever the member is, and read by nobody until it is complete.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use xfskit_block::{BlockDevice, IoRead, Result};
use xfskit_units::{ByteOffset, Sectors};

use super::badblock_list::BadBlockList;
use super::ppl::PplLog;
use crate::geometry::{Replacement, Slot};

/// A member that is there, or a role without one. Addresses are bytes from the data offset.
#[derive(Debug)]
pub(super) struct Member {
    device: Option<Arc<dyn BlockDevice>>,
    name: String,
    data_start: u64,
    readable_until: AtomicU64,
    bad: BadBlockList,
    write_mostly: bool,
    faulty: AtomicBool,
    read_errors: AtomicU32,
    pending: AtomicU32,
    /// What lies before `readable_until` counts for nothing: only what the bitmap names is missing.
    by_bitmap: bool,
    /// Where writes are announced whose parity it holds. MemberPage until what is announced is on the disk.
    log: OnceLock<Mutex<PplLog>>,
    replacement: OnceLock<ActiveReplacement>,
    successor: OnceLock<Box<Member>>,
}

/// What is to replace the member.
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

    /// What it replaces the member with.
    pub(super) fn slot(&self) -> &Replacement {
        &self.slot
    }

    /// Its places that are not to be read.
    pub(super) fn bad(&self) -> &BadBlockList {
        &self.bad
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.faulty.load(Ordering::Acquire)
    }

    /// Writes at a place from the data offset on; who fails is not written any more.
    pub(super) fn write(&self, at: u64, buf: &[u8]) -> Result<()> {
        if self.is_faulty() {
            return Ok(());
        }
        let start = self.slot.data_offset.byte_len().0;
        let answer = self.slot.device.write_at(ByteOffset(start.saturating_add(at)), buf);
        self.faulty.fetch_or(answer.is_err(), Ordering::AcqRel);
        answer
    }

    pub(super) fn flush(&self) -> Result<()> {
        let answer = if self.is_faulty() { Ok(()) } else { self.slot.device.flush() };
        self.faulty.fetch_or(answer.is_err(), Ordering::AcqRel);
        answer
    }
}

impl Member {
    pub(super) fn new(slot: Slot) -> Self {
        let bytes = |sector: u64| sector.saturating_mul(512);
        Self {
            device: slot.device,
            name: slot.name,
            data_start: slot.data_offset.byte_len().0,
            readable_until: AtomicU64::new(bytes(slot.readable_until.0)),
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

    /// Where writes are to be announced whose parity it holds.
    pub(super) fn set_log(&self, log: Option<PplLog>) {
        if let Some(log) = log {
            let _ = self.current().log.set(Mutex::new(log));
        }
    }

    /// Where writes are announced whose parity it holds.
    pub(super) fn log(&self) -> Option<&Mutex<PplLog>> {
        self.current().log.get()
    }

    /// The last of those who took over: who serves the role now.
    pub(super) fn current(&self) -> &Self {
        let mut member = self;
        while let Some(next) = member.successor.get() {
            member = next;
        }
        member
    }

    /// From now on this one serves the role.
    pub(super) fn set_successor(&self, successor: Self) {
        let _ = self.current().successor.set(Box::new(successor));
    }

    /// What is to replace it.
    pub(super) fn replacement(&self) -> Option<&ActiveReplacement> {
        self.current().replacement.get()
    }

    /// This is to replace it.
    pub(super) fn set_replacement(&self, replacement: Replacement) {
        let _ = self.current().replacement.set(ActiveReplacement::new(replacement));
    }

    /// What was to replace it is complete, and serves the role from now on, with this log. False where it failed.
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

    /// True where only what the bitmap names is missing from it.
    pub(super) fn by_bitmap(&self) -> bool {
        self.current().by_bitmap
    }

    pub(super) fn name(&self) -> &str {
        &self.current().name
    }

    pub(super) fn is_write_mostly(&self) -> bool {
        self.current().write_mostly
    }

    /// The device, unless it is missing or faulty.
    pub(super) fn device(&self) -> Option<&Arc<dyn BlockDevice>> {
        let this = self.current();
        this.device.as_ref().filter(|_| !this.faulty.load(Ordering::Acquire))
    }

    /// True where the member was there and was taken out of use.
    pub(super) fn is_faulty(&self) -> bool {
        self.current().faulty.load(Ordering::Acquire)
    }

    /// True where all of the range is there and valid.
    pub(super) fn is_readable(&self, at: u64, len: u64) -> bool {
        let end = at + len;
        let this = self.current();
        self.device().is_some()
            && end <= this.readable_until.load(Ordering::Acquire)
            && !this.bad.overlaps(at, len)
    }

    /// Up to where the member holds what it should, in bytes.
    pub(super) fn readable_until(&self) -> u64 {
        self.current().readable_until.load(Ordering::Acquire)
    }

    /// It holds what it should up to here.
    pub(super) fn set_readable_until(&self, until: u64) {
        self.current().readable_until.fetch_max(until, Ordering::AcqRel);
    }

    /// Its places that are not to be read.
    pub(super) fn bad(&self) -> &BadBlockList {
        &self.current().bad
    }

    /// Takes the member out of use. True for the first who does.
    pub(super) fn set_faulty(&self) -> bool {
        !self.current().faulty.swap(true, Ordering::AcqRel)
    }

    /// Counts a failed read; answers how many there were.
    pub(super) fn count_read_error(&self) -> u32 {
        self.current().read_errors.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn read_errors(&self) -> u32 {
        self.current().read_errors.load(Ordering::Relaxed)
    }

    /// How many reads of mirrors are under way.
    pub(super) fn pending(&self) -> &AtomicU32 {
        &self.pending
    }

    pub(super) fn position(&self, at: u64) -> ByteOffset {
        ByteOffset(self.current().data_start.saturating_add(at))
    }

    /// Reads, without asking whether the range is valid; `None` where there is no device.
    pub(super) fn read(&self, at: u64, buf: &mut [u8]) -> Option<Result<()>> {
        Some(self.device()?.read_at(self.position(at), buf))
    }

    /// Reads many ranges at once; `None` where there is no device.
    pub(super) fn read_batch<'a>(
        &self,
        batch: impl Iterator<Item = (u64, &'a mut [u8])>,
    ) -> Option<Vec<Result<()>>> {
        let device = self.device()?;
        let mut batch: Vec<_> =
            batch.map(|(at, buf)| IoRead { offset: self.position(at), buf }).collect();
        Some(match batch.as_mut_slice() {
            [one] => vec![device.read_at(one.offset, one.buf)],
            many => device.read_batch(many),
        })
    }

    /// Writes many ranges at once, to what is to replace it as well; `None` where there is no device.
    pub(super) fn write_batch<'a>(
        &self,
        batch: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> Option<Vec<Result<()>>> {
        let batch: Vec<_> = batch.collect();
        if let Some(replacement) = self.replacement() {
            // One that fails is given up, and the member goes on.
            let _ = batch.iter().try_for_each(|(at, buf)| replacement.write(*at, buf));
        }
        let device = self.device()?;
        let batch: Vec<_> = batch.into_iter().map(|(at, buf)| (self.position(at), buf)).collect();
        Some(device.write_batch(&batch))
    }

    /// Announces a read.
    pub(super) fn will_need(&self, at: u64, len: u64) {
        if let Some(device) = self.device() {
            device.will_need(self.position(at), xfskit_units::ByteLen(len));
        }
    }
}
