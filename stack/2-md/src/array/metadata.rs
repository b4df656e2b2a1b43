//! Metadata of an array that is open for writing, kept on its members so that md and mdadm can take
//! the array back.
//!
//! ```text
//!            first write                  idle, close
//!   clean ──────────────► active ────────────────────────► clean
//!  (events)             (events + 1)        (events, or + 1 where a member is missing)
//! ```
//!
//! Superblocks say *active* on disk before the first byte of data changes. A crash from then on
//! asks for a resync. With a write-intent bitmap the resync is limited to regions whose bit is set.
//! A bit is on disk before its region is written, and is cleared some flushes after the last write
//! to it.
//!
//! If a member fails, the role tables of the others say so and events rise by two. The failed
//! member is then stale wherever the array is assembled again. From then on no bit is cleared,
//! because the member may come back and needs to know what it missed.
//!
//! An array that was not shut down cleanly stays dirty until it is resynced, whatever is written
//! meanwhile. Superblocks record where the resync has to continue, and bits that were set when the
//! array was opened stay set.
//!
//! The state on disk is only ever behind in the safe direction: bits are set before a write and
//! cleared after it.

pub(crate) mod roles;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use xfskit_block::{BlockDevice, Error, Result};
use xfskit_units::{ByteLen, JournalSector, Sectors, SyncSector, index};

use super::badblock_list::BadBlockList;
use crate::bad_blocks;
use crate::bitmap::{Bitmap, HEAD_BYTES};
use crate::superblock::{MemberRange, Superblock};

/// An idle region's bit is cleared at this flush after its last write (md: two rounds of its
/// daemon).
const IDLE_FLUSHES: u32 = 2;

/// The `role` of the journal device.
pub const JOURNAL: usize = usize::MAX;

/// A member and its superblock.
#[derive(Debug)]
pub struct MemberMetadata {
    /// Its role; [`JOURNAL`] for the journal.
    pub role: usize,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Its superblock.
    pub superblock: Superblock,
}

/// The metadata of an array that is open for writing.
#[derive(Debug)]
pub struct ArrayMetadata {
    /// Leaf lock. Held while metadata is written, because other writers must wait for that anyway.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    members: Vec<MemberMetadata>,
    /// Replacements that are being filled. They receive all metadata updates, too.
    replacements: Vec<MemberMetadata>,
    /// Members and replacements that failed or were replaced since the array was opened, with the
    /// last superblocks that they received.
    failed: Vec<MemberMetadata>,
    events: u64,
    active: bool,
    /// Writes so far, writes at the last idle check, and writes in flight.
    writes: u64,
    writes_seen: u64,
    writes_pending: u64,
    /// Events were raised only by becoming active, so they may be lowered again.
    may_rewind_events: bool,
    degraded: bool,
    /// Where the resync of an array that was not shut down cleanly continues.
    resync_offset: Option<SyncSector>,
    bitmap: Option<Bitmap>,
    /// Regions whose bit was set since the array was opened.
    regions: HashMap<u64, Region>,
    /// Writes in flight are in a journal, so superblocks need not mark the whole array as out of
    /// sync.
    journaled: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Writes under way.
    pending: u32,
    /// Flushes since the last write.
    idle: u32,
}

/// Members whose metadata could not be written.
pub(super) type Failures = Vec<(usize, Error)>;

impl ArrayMetadata {
    /// Creates the metadata of an array. `degraded`: a role is missing. `resync_offset`: where a
    /// resync continues, `None` for a clean array. `utime`: the update time that superblocks will
    /// carry.
    pub fn new(
        mut members: Vec<MemberMetadata>,
        bitmap: Option<Bitmap>,
        degraded: bool,
        resync_offset: Option<SyncSector>,
        utime: u64,
    ) -> Self {
        for member in &mut members {
            member.superblock.set_utime(utime);
        }
        let events = members.iter().map(|member| member.superblock.events()).max().unwrap_or(0);
        let state = State {
            members,
            replacements: Vec::new(),
            failed: Vec::new(),
            events,
            active: false,
            writes: 0,
            writes_seen: 0,
            writes_pending: 0,
            may_rewind_events: false,
            degraded,
            resync_offset,
            bitmap,
            regions: HashMap::new(),
            journaled: false,
        };
        Self { state: Mutex::new(state) }
    }

    /// Marks the array as written through a journal.
    pub fn journaled(self) -> Self {
        self.state.lock().journaled = true;
        self
    }

    /// Sets the journal's tail, and writes the journal's own superblock.
    pub(super) fn set_journal_tail(&self, tail: JournalSector) -> Failures {
        let state = &mut *self.state.lock();
        let write = |member: &mut MemberMetadata| {
            if let Superblock::V1(superblock) = &mut member.superblock {
                superblock.recovery_offset.set(tail.0);
            }
            let at = member.superblock.at().byte_offset();
            let written = member.device.write_fua(at, &member.superblock.own_bytes());
            written.err().map(|error| (member.role, error))
        };
        state.members.iter_mut().filter(|member| member.role == JOURNAL).filter_map(write).collect()
    }

    /// Gives all members the same event count. A crash between two superblock updates leaves one
    /// member an event behind, and a second crash must not leave it two behind.
    pub(super) fn equalize_events(&self) -> Failures {
        let state = &mut *self.state.lock();
        let torn = state.members.iter().any(|member| member.superblock.events() != state.events);
        if torn { state.write_superblocks() } else { Vec::new() }
    }

    /// Prepares a write of these sectors: marks the array active and sets the bits,
    /// durably.
    pub(super) fn begin_write(&self, sectors: Range<SyncSector>) -> Failures {
        let state = &mut *self.state.lock();
        let mut failures = Vec::new();
        state.writes += 1;
        state.writes_pending += 1;
        if !state.active {
            state.active = true;
            state.may_rewind_events = !state.degraded && state.resync_offset.is_none();
            state.events += 1;
            failures = state.write_superblocks();
        }
        let bits = state.bits(&sectors);
        let Some(bitmap) = &mut state.bitmap else { return failures };
        let new = bits.clone().any(|bit| !bitmap.get(bit));
        for bit in bits.clone() {
            if bitmap.get(bit) && !state.regions.contains_key(&bit) {
                continue; // set before the array was opened: not ours to clear
            }
            bitmap.put(bit, true);
            let region = state.regions.entry(bit).or_default();
            region.pending += 1;
            region.idle = 0;
        }
        if new {
            failures.extend(state.write_bits(bits));
            failures.extend(state.flush());
        }
        failures
    }

    /// Ends a write that [`begin_write`](Self::begin_write) prepared.
    pub(super) fn end_write(&self, sectors: Range<SyncSector>) {
        let mut state = self.state.lock();
        state.writes_pending = state.writes_pending.saturating_sub(1);
        for bit in state.bits(&sectors) {
            if let Some(region) = state.regions.get_mut(&bit) {
                region.pending = region.pending.saturating_sub(1);
            }
        }
    }

    /// Clears, after the members were flushed, the bits of regions that have been idle for
    /// several flushes.
    pub(super) fn note_flush(&self) -> Failures {
        let state = &mut *self.state.lock();
        if state.degraded {
            return Vec::new();
        }
        let mut idle = Vec::new();
        for (bit, region) in &mut state.regions {
            region.idle += u32::from(region.pending == 0);
            if region.idle > IDLE_FLUSHES {
                idle.push(*bit);
            }
        }
        let mut failures = Vec::new();
        for bit in idle {
            state.regions.remove(&bit);
            if let Some(bitmap) = &mut state.bitmap {
                bitmap.put(bit, false);
            }
            failures.extend(state.write_bits(bit..bit + 1));
        }
        failures
    }

    /// Records on the other members that the member of `role` failed.
    pub(super) fn fail(&self, role: usize) -> Failures {
        let state = &mut *self.state.lock();
        state.drop_members(role);
        state.degraded = true;
        state.may_rewind_events = false;
        // Two steps instead of one by two: a member that misses only the last update in a crash is
        // not stale.
        let mut failures = Failures::new();
        for _ in 0..2 {
            state.events += 1;
            failures.extend(state.write_superblocks());
        }
        failures
    }

    /// Returns the superblock of a device as it is now, if the device was a member at any time
    /// since the array was opened.
    pub(super) fn superblock_on(&self, device: &Arc<dyn BlockDevice>) -> Option<Superblock> {
        let state = self.state.lock();
        let mut all = state.members.iter().chain(&state.replacements).chain(&state.failed);
        let found = all.find(|member| Arc::ptr_eq(&member.device, device));
        found.map(|member| member.superblock.clone())
    }

    /// Writes a member's bad-block log. Flushes the member first, because ranges that left the list
    /// must be durable. Returns `None` if the member (or the replacement) has no log, or the log is
    /// full.
    pub(super) fn write_bad_blocks(
        &self,
        role: usize,
        replacement: bool,
        bad: &BadBlockList,
    ) -> Option<Failures> {
        let mut state = self.state.lock();
        let member = state.list(replacement).iter_mut().find(|member| member.role == role)?;
        let Superblock::V1(sb) = &member.superblock else { return None };
        // Read under this lock, so that the newest list is the last to be written.
        let ranges = bad.sectors();
        let MemberRange { at, len } = sb.bad_blocks()?;
        let log = bad_blocks::encode(&ranges, sb.bblog_shift, index(len.byte_len().0))?;
        member.superblock.set_has_bad_blocks(!ranges.is_empty());
        let superblock = member.superblock.own_bytes();
        let work = || {
            member.device.flush()?;
            member.device.write_fua(at.byte_offset(), &log)?;
            member.device.write_fua(member.superblock.at().byte_offset(), &superblock)
        };
        Some(work().err().map(|error| (role, error)).into_iter().collect())
    }

    /// Returns the number of writes so far if the array is active and there was no write since the
    /// last call; otherwise `None`. Remembers the number for the next call.
    pub(super) fn take_idle_writes(&self) -> Option<u64> {
        let state = &mut *self.state.lock();
        let idle = state.active && state.writes_pending == 0 && state.writes == state.writes_seen;
        state.writes_seen = state.writes;
        idle.then_some(state.writes)
    }

    /// Marks the array clean unless there was another write after the first `writes`. The caller
    /// has flushed the members. Bits are cleared later.
    pub(super) fn mark_clean_if_idle(&self, writes: u64) -> Failures {
        let state = &mut *self.state.lock();
        if state.active && state.writes_pending == 0 && state.writes == writes {
            state.mark_clean()
        } else {
            Vec::new()
        }
    }

    /// Marks the array clean and clears its bits. All writes are done and flushed.
    pub(super) fn close(&self) -> Failures {
        let state = &mut *self.state.lock();
        if !state.active && state.regions.is_empty() {
            return Vec::new();
        }
        let mut failures = Vec::new();
        if !state.degraded {
            let bits: Vec<u64> = state.regions.drain().map(|(bit, _)| bit).collect();
            if let Some(bitmap) = &mut state.bitmap {
                for bit in bits {
                    bitmap.put(bit, false);
                }
            }
            let all = state.bitmap.as_ref().map_or(0, Bitmap::count);
            failures.extend(state.write_bits(0..all));
        }
        if state.active {
            failures.extend(state.mark_clean());
        }
        failures
    }

    /// Returns the regions that need a resync: those with a set bit, or without a bitmap all from
    /// the resync's offset on, up to `end`. Empty if the array is in sync.
    pub(super) fn out_of_sync(&self, end: SyncSector) -> Vec<Range<SyncSector>> {
        let state = self.state.lock();
        match (state.resync_offset, &state.bitmap) {
            (None, _) => Vec::new(),
            (Some(from), None) => std::iter::once(from..end).collect(),
            (Some(_), Some(bitmap)) => bitmap.set_bits().map(|bit| bitmap.covers(bit)).collect(),
        }
    }

    /// Records that all sectors before `sector` agree and are durable.
    pub(super) fn set_synced_to(&self, sector: SyncSector) -> Failures {
        let state = &mut *self.state.lock();
        let mut failures = Vec::new();
        if let Some(at) = state.resync_offset.as_mut().filter(|at| **at < sector) {
            *at = sector;
            // While the array is active, superblocks mark all of it as out of sync.
            if !state.active && sector != SyncSector::MAX {
                failures = state.write_superblocks();
            }
        }
        if state.degraded {
            return failures; // missing members need the bits when they are re-added
        }
        let State { bitmap: Some(bitmap), regions, .. } = &mut *state else { return failures };
        let done = bitmap.set_bits().take_while(|bit| bitmap.covers(*bit).end <= sector);
        let done: Vec<u64> = done.filter(|bit| !regions.contains_key(bit)).collect();
        for bit in &done {
            bitmap.put(*bit, false);
        }
        if let (Some(first), Some(last)) = (done.first(), done.last()) {
            failures.extend(state.write_bits(*first..last + 1));
        }
        failures
    }

    /// Records that the resync is done and the whole array agrees.
    pub(super) fn finish_resync(&self) -> Failures {
        let mut failures = self.set_synced_to(SyncSector::MAX);
        let state = &mut *self.state.lock();
        if state.resync_offset.take().is_some() {
            state.events += 1;
            failures.extend(state.write_superblocks());
        }
        failures
    }
}

impl State {
    /// Takes the members of `role` off the list, and lists them as failed in the role tables of the
    /// others.
    fn drop_members(&mut self, role: usize) {
        let dropped = self.members.extract_if(.., |member| member.role == role);
        let dropped: Vec<MemberMetadata> = dropped.collect();
        for member in self.members.iter_mut().chain(&mut self.replacements) {
            for failed in &dropped {
                member.superblock.set_failed(failed.superblock.dev_number());
            }
        }
        self.failed.extend(dropped);
    }

    /// Writes superblocks that say the array is clean.
    fn mark_clean(&mut self) -> Failures {
        self.active = false;
        // Events return to their previous value, so that spares need no update at every change of
        // state. They never return over a change of members.
        if self.may_rewind_events {
            self.events -= 1;
        } else {
            self.events += 1;
        }
        self.write_superblocks()
    }

    /// Returns the bits that cover these sectors.
    fn bits(&self, sectors: &Range<SyncSector>) -> Range<u64> {
        match &self.bitmap {
            Some(bitmap) if !sectors.is_empty() => {
                bitmap.bit_of(sectors.start)..bitmap.bit_of(sectors.end.minus(Sectors(1))) + 1
            }
            _ => 0..0,
        }
    }

    /// Writes superblocks and the bitmap's head to all members, and flushes. A bitmap that is
    /// behind the superblocks is not trusted. Its head is therefore written before them when events
    /// rise, and after them when events fall.
    fn write_superblocks(&mut self) -> Failures {
        let mut failures = Vec::new();
        let mut falls = false;
        if let Some(bitmap) = &mut self.bitmap {
            falls = self.events < bitmap.superblock.events.get();
            bitmap.superblock.events.set(self.events);
            if !self.degraded {
                bitmap.superblock.events_cleared.set(self.events);
            }
            if !falls {
                failures.extend(self.write_bits(0..0));
                failures.extend(self.flush());
            }
        }
        let in_doubt = self.active && !self.journaled;
        let resync_offset = if in_doubt { Some(SyncSector(0)) } else { self.resync_offset };
        let events = self.events;
        for member in &mut self.members {
            member.superblock.set_state(events, resync_offset);
            let at = member.superblock.at().byte_offset();
            if let Err(error) = member.device.write_at(at, &member.superblock.own_bytes()) {
                failures.push((member.role, error));
            }
        }
        self.write_replacements(resync_offset);
        failures.extend(self.flush());
        if falls {
            failures.extend(self.write_bits(0..0));
            failures.extend(self.flush());
        }
        failures
    }

    /// Writes the bitmap's head and the sectors that hold these bits to all members.
    fn write_bits(&self, bits: Range<u64>) -> Failures {
        let Some(bitmap) = &self.bitmap else { return Vec::new() };
        let bytes = bitmap.encode();
        let end = if bits.is_empty() { 1 } else { HEAD_BYTES + index(bits.end.div_ceil(8)) };
        let end = end.next_multiple_of(512).min(bytes.len());
        let start = if bits.is_empty() { 0 } else { HEAD_BYTES + index(bits.start / 8) };
        let start = start / 512 * 512;
        self.each(|member| {
            let Some(at) = member.superblock.bitmap() else { return Ok(()) };
            let at = at.byte_offset().saturating_plus(ByteLen(start as u64));
            member.device.write_at(at, &bytes[start..end])
        })
    }

    fn flush(&self) -> Failures {
        self.each(|member| member.device.flush())
    }

    fn each(&self, work: impl Fn(&MemberMetadata) -> Result<()>) -> Failures {
        let failed = |member: &MemberMetadata| work(member).err().map(|error| (member.role, error));
        self.members.iter().filter_map(failed).collect()
    }
}
