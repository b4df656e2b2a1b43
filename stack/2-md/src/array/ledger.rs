//! What an array that is written keeps of itself on its members, so that md and mdadm take it back.
//!
//! ```text
//!            first write                     close
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
//! The state on the disk is only ever behind in the safe direction: set before, cleared after.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xfskit_block::{BlockDevice, Error, Result};
use xfskit_units::{ByteOffset, Daddr, index};

use crate::bitmap::{Bitmap, HEAD_BYTES};
use crate::superblock::v1::{IN_SYNC, ROLE_FAULTY, SuperblockV1};

/// An idle region's bit is cleared at this flush after its last write (md: two rounds of its daemon).
const IDLE_FLUSHES: u32 = 2;

/// A member whose superblock is kept.
#[derive(Debug)]
pub struct Kept {
    /// Its role.
    pub role: usize,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Its superblock.
    pub superblock: SuperblockV1,
}

/// The metadata of an array that is open for writing.
#[derive(Debug)]
pub struct Ledger {
    /// Leaf lock. Held while metadata is written: who comes meanwhile must wait for it anyway.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    members: Vec<Kept>,
    events: u64,
    active: bool,
    degraded: bool,
    bitmap: Option<Bitmap>,
    /// Regions whose bit this ledger set.
    regions: HashMap<u64, Region>,
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

impl Ledger {
    /// The ledger of a clean array. `degraded`: a role is missing. `utime`: what superblocks will say
    /// about when they were written.
    pub fn new(mut members: Vec<Kept>, bitmap: Option<Bitmap>, degraded: bool, utime: u64) -> Self {
        for member in &mut members {
            member.superblock.utime.set(utime);
        }
        let events = members.iter().map(|member| member.superblock.events.get()).max().unwrap_or(0);
        let regions = HashMap::new();
        let state = State { members, events, active: false, degraded, bitmap, regions };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sectors of the sync space are about to be written.
    pub(super) fn begin(&self, sectors: Range<u64>) -> Failures {
        let state = &mut *self.state();
        let mut failures = Vec::new();
        if !state.active {
            state.active = true;
            state.events += 1;
            failures = state.write_superblocks();
        }
        let bits = state.bits(&sectors);
        let Some(bitmap) = &mut state.bitmap else { return failures };
        let new = bits.clone().any(|bit| !bitmap.get(bit));
        for bit in bits.clone() {
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
    pub(super) fn end(&self, sectors: Range<u64>) {
        let mut state = self.state();
        for bit in state.bits(&sectors) {
            if let Some(region) = state.regions.get_mut(&bit) {
                region.pending = region.pending.saturating_sub(1);
            }
        }
    }

    /// The members were flushed: regions that have been idle for long are in sync for sure.
    pub(super) fn flushed(&self) -> Failures {
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
    pub(super) fn failed(&self, role: usize) -> Failures {
        let mut state = self.state();
        let number = |member: &Kept| index(u64::from(member.superblock.dev_number.get()));
        let gone: Vec<usize> =
            state.members.iter().filter(|member| member.role == role).map(number).collect();
        state.members.retain(|member| member.role != role);
        for member in &mut state.members {
            for entry in &gone {
                if let Some(entry) = member.superblock.dev_roles.get_mut(*entry) {
                    entry.set(ROLE_FAULTY);
                }
            }
        }
        state.degraded = true;
        state.events += 2;
        state.write_superblocks()
    }

    /// All writes are done and flushed: the array is clean again.
    pub(super) fn close(&self) -> Failures {
        let state = &mut *self.state();
        if !state.active {
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
        state.active = false;
        // Back to where it was, so that spares need no write at every turn; but never back over a
        // change of members.
        if state.degraded {
            state.events += 1;
        } else {
            state.events -= 1;
        }
        failures.extend(state.write_superblocks());
        failures
    }
}

impl State {
    /// The bits of sectors of the sync space.
    fn bits(&self, sectors: &Range<u64>) -> Range<u64> {
        match &self.bitmap {
            Some(bitmap) if !sectors.is_empty() => {
                bitmap.bit_of(sectors.start)..bitmap.bit_of(sectors.end - 1) + 1
            }
            _ => 0..0,
        }
    }

    /// Writes superblocks and the bitmap's head to all members, and flushes.
    fn write_superblocks(&mut self) -> Failures {
        if let Some(bitmap) = &mut self.bitmap {
            bitmap.superblock.events.set(self.events);
            if !self.degraded {
                bitmap.superblock.events_cleared.set(self.events);
            }
        }
        let (events, active) = (self.events, self.active);
        let mut failures = self.write_bits(0..0);
        for member in &mut self.members {
            let superblock = &mut member.superblock;
            superblock.events.set(events);
            superblock.resync_offset.set(if active { 0 } else { IN_SYNC });
            let at = ByteOffset(superblock.super_offset.get() * 512);
            if let Err(error) = member.device.write_at(at, &used(superblock)) {
                failures.push((member.role, error));
            }
        }
        failures.extend(self.flush());
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

    fn each(&self, work: impl Fn(&Kept) -> Result<()>) -> Failures {
        let failed = |member: &Kept| work(member).err().map(|error| (member.role, error));
        self.members.iter().filter_map(failed).collect()
    }
}

/// The bytes of a superblock that are its own: what lies behind the table of roles is not written.
fn used(superblock: &SuperblockV1) -> Vec<u8> {
    let mut bytes = superblock.encode();
    let own = 256 + 2 * superblock.roles().len();
    bytes.truncate(own.next_multiple_of(512));
    bytes
}
