//! What an array that is written keeps of itself on its members, so that md and mdadm take it back.
//!
//! ```text
//!            first write                  idle, close
//!   clean ──────────────► active ────────────────────────► clean
//!  (events)             (events + 1)        (events, or + 1 where a member is missing)
//! ```
//!
//! Superblocks say *active* on the disk before the first byte of data changes; a crash from there on
//! asks for a resync. With a write-intent bitmap the resync is limited to regions whose bit is set: the
//! bit is on the disk before its region is written, and is cleared some flushes after the last write to
//! it. Where a member fails, the others' tables say so and events rise by two, so that it is stale
//! wherever the array is put together again; from then on no bit is cleared, for the member may come
//! back and want to know what it missed.
//!
//! An array that was not shut down cleanly stays so until it is resynced, whatever is written meanwhile:
//! where the resync has to go on stands in the superblocks, and bits that were found set stay set.
//!
//! The state on the disk is only ever behind in the safe direction: set before, cleared after.

pub(crate) mod roles;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xfskit_block::{BlockDevice, Error, Result};
use xfskit_units::{ByteOffset, Daddr, MemberSector, Sectors, index};

use crate::bad_blocks;
use crate::bitmap::{Bitmap, HEAD_BYTES};
use crate::superblock::{MemberRange, Superblock};

/// An idle region's bit is cleared at this flush after its last write (md: two rounds of its daemon).
const IDLE_FLUSHES: u32 = 2;

/// In place of a role: the journal device.
pub const JOURNAL: usize = usize::MAX;

/// A member whose superblock is member.
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
    /// Leaf lock. MemberPage while metadata is written: who comes meanwhile must wait for it anyway.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    members: Vec<MemberMetadata>,
    /// Devices that are to replace members: they hear everything, too.
    replacements: Vec<MemberMetadata>,
    events: u64,
    active: bool,
    /// Writes so far, how many there were when somebody asked last, and how many are under way.
    writes: u64,
    writes_seen: u64,
    writes_pending: u64,
    /// Events were raised by becoming active, and by nothing else since.
    may_rewind_events: bool,
    degraded: bool,
    /// Where the resync of an array that was not shut down cleanly has to go on, in sectors of the
    /// members.
    resync_offset: Option<Sectors>,
    bitmap: Option<Bitmap>,
    /// Regions whose bit this metadata set.
    regions: HashMap<u64, Region>,
    /// What is under way stands in a journal: superblocks need not say that all of the array is in doubt.
    journaled: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Writes under way.
    pending: u32,
    /// Flushes since the last write.
    idle: u32,
}

/// SpanData whose metadata could not be written.
pub(super) type Failures = Vec<(usize, Error)>;

impl ArrayMetadata {
    /// The metadata of an array. `degraded`: a role is missing. `resync_offset`: where a resync has to go
    /// on, `None` for a clean array. `utime`: what superblocks will say about when they were written.
    pub fn new(
        mut members: Vec<MemberMetadata>,
        bitmap: Option<Bitmap>,
        degraded: bool,
        resync_offset: Option<Sectors>,
        utime: u64,
    ) -> Self {
        for member in &mut members {
            member.superblock.set_utime(utime);
        }
        let events = members.iter().map(|member| member.superblock.events()).max().unwrap_or(0);
        let state = State {
            members,
            replacements: Vec::new(),
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

    /// The metadata of an array that is written by way of a journal.
    pub fn journaled(self) -> Self {
        self.state().journaled = true;
        self
    }

    /// The journal begins at this sector of its data area. Its own superblock says so, on the disk.
    pub(super) fn set_journal_tail(&self, tail: u64) -> Failures {
        let state = &mut *self.state();
        let write = |member: &mut MemberMetadata| {
            if let Superblock::V1(superblock) = &mut member.superblock {
                superblock.recovery_offset.set(tail);
            }
            let at = member.superblock.at().byte_offset();
            let written = member.device.write_fua(at, &member.superblock.own_bytes());
            written.err().map(|error| (member.role, error))
        };
        state.members.iter_mut().filter(|member| member.role == JOURNAL).filter_map(write).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings members to the same count of events: where a crash came between the updates of two
    /// superblocks, another one must not leave the older of them two behind.
    pub(super) fn equalize_events(&self) -> Failures {
        let state = &mut *self.state();
        let torn = state.members.iter().any(|member| member.superblock.events() != state.events);
        if torn { state.write_superblocks() } else { Vec::new() }
    }

    /// Sectors of the sync space are about to be written.
    pub(super) fn begin_write(&self, sectors: Range<u64>) -> Failures {
        let state = &mut *self.state();
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

    /// They were written.
    pub(super) fn end_write(&self, sectors: Range<u64>) {
        let mut state = self.state();
        state.writes_pending = state.writes_pending.saturating_sub(1);
        for bit in state.bits(&sectors) {
            if let Some(region) = state.regions.get_mut(&bit) {
                region.pending = region.pending.saturating_sub(1);
            }
        }
    }

    /// The members were note_flush: regions that have been idle for long are in sync for sure.
    pub(super) fn note_flush(&self) -> Failures {
        let state = &mut *self.state();
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

    /// The member of `role` is out of use: the others shall know.
    pub(super) fn fail(&self, role: usize) -> Failures {
        let mut state = self.state();
        let number = |member: &MemberMetadata| member.superblock.dev_number();
        let gone: Vec<u32> =
            state.members.iter().filter(|member| member.role == role).map(number).collect();
        state.members.retain(|member| member.role != role);
        let state = &mut *state;
        for member in state.members.iter_mut().chain(&mut state.replacements) {
            for number in &gone {
                member.superblock.set_failed(*number);
            }
        }
        state.degraded = true;
        state.may_rewind_events = false;
        // Two steps, not one of two: whoever a crash lets miss the last of them is not stale.
        let mut failures = Failures::new();
        for _ in 0..2 {
            state.events += 1;
            failures.extend(state.write_superblocks());
        }
        failures
    }

    /// A member's list of bad places has changed. What was written to those that left it is on the disk
    /// first. `None` where the member (or what is to replace it) has no room for such a list.
    pub(super) fn write_bad_blocks(
        &self,
        role: usize,
        replacement: bool,
        ranges: &[Range<MemberSector>],
    ) -> Option<Failures> {
        let mut state = self.state();
        let member = state.list(replacement).iter_mut().find(|member| member.role == role)?;
        let Superblock::V1(sb) = &member.superblock else { return None };
        let MemberRange { at, len } = sb.bad_blocks()?;
        let log = bad_blocks::encode(ranges, sb.bblog_shift, index(len.byte_len().0))?;
        member.superblock.set_has_bad_blocks(!ranges.is_empty());
        let superblock = member.superblock.own_bytes();
        let work = || {
            member.device.flush()?;
            member.device.write_fua(at.byte_offset(), &log)?;
            member.device.write_fua(member.superblock.at().byte_offset(), &superblock)
        };
        Some(work().err().map(|error| (role, error)).into_iter().collect())
    }

    /// How many writes there were, where the array is active and there were none since this was asked before.
    pub(super) fn take_idle_writes(&self) -> Option<u64> {
        let state = &mut *self.state();
        let idle = state.active && state.writes_pending == 0 && state.writes == state.writes_seen;
        state.writes_seen = state.writes;
        idle.then_some(state.writes)
    }

    /// The members were note_flush behind the last of so many writes: unless there were more since, the array is
    /// clean. Bits go when they have been idle for longer.
    pub(super) fn mark_clean_if_idle(&self, writes: u64) -> Failures {
        let state = &mut *self.state();
        if state.active && state.writes_pending == 0 && state.writes == writes {
            state.mark_clean()
        } else {
            Vec::new()
        }
    }

    /// All writes are done and note_flush: the array is clean again.
    pub(super) fn close(&self) -> Failures {
        let state = &mut *self.state();
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

    /// The regions that need a resync: sectors of the sync space. Those that the bitmap names, or where
    /// it does not say all from the resync's offset on. None where the array is in sync.
    pub(super) fn out_of_sync(&self, end: u64) -> Vec<Range<u64>> {
        let state = self.state();
        match (state.resync_offset, &state.bitmap) {
            (None, _) => Vec::new(),
            (Some(from), None) => std::iter::once(from.0..end).collect(),
            (Some(_), Some(bitmap)) => bitmap.set_bits().map(|bit| bitmap.covers(bit)).collect(),
        }
    }

    /// All sectors of the sync space before this one agree, and are on the disk.
    pub(super) fn set_synced_to(&self, sector: u64) -> Failures {
        let state = &mut *self.state();
        let mut failures = Vec::new();
        if let Some(at) = state.resync_offset.as_mut().filter(|at| at.0 < sector) {
            at.0 = sector;
            // While the array is active, superblocks say that all of it is in doubt.
            if !state.active && sector != u64::MAX {
                failures = state.write_superblocks();
            }
        }
        if state.degraded {
            return failures; // who is missing wants to know the bits
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

    /// The whole array agrees: the resync is done.
    pub(super) fn finish_resync(&self) -> Failures {
        let mut failures = self.set_synced_to(u64::MAX);
        let state = &mut *self.state();
        if state.resync_offset.take().is_some() {
            state.events += 1;
            failures.extend(state.write_superblocks());
        }
        failures
    }
}

impl State {
    /// Superblocks say that the array is clean.
    fn mark_clean(&mut self) -> Failures {
        self.active = false;
        // Back to where it was, so that spares need no write at every turn; but never back over a
        // change of members.
        if self.may_rewind_events {
            self.events -= 1;
        } else {
            self.events += 1;
        }
        self.write_superblocks()
    }

    /// The bits of sectors of the sync space.
    fn bits(&self, sectors: &Range<u64>) -> Range<u64> {
        match &self.bitmap {
            Some(bitmap) if !sectors.is_empty() => {
                bitmap.bit_of(sectors.start)..bitmap.bit_of(sectors.end - 1) + 1
            }
            _ => 0..0,
        }
    }

    /// Writes superblocks and the bitmap's head to all members, and flushes. A bitmap that is behind the
    /// superblocks is not believed: where events rise it goes before them, where they fall behind.
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
        let resync_offset = if in_doubt { Some(Sectors(0)) } else { self.resync_offset };
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
            let Some(Daddr(at)) = member.superblock.bitmap() else { return Ok(()) };
            let at = ByteOffset(at * 512 + start as u64);
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
