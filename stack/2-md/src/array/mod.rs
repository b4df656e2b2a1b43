//! The array as a device.
//!
//! A request is cut at chunks. Data that members can deliver are read straight into the caller's
//! buffer. Other data are taken from another copy or computed from the rest of the stripe. Three
//! properties make a degraded read cost about what a healthy read costs:
//!
//! 1. A stripe whose chunks are all requested is read once, into the caller's buffer; only the
//!    parity needs extra memory. The missing chunk is computed in slices that stay in the
//!    processor's cache. Nothing is copied.
//! 2. For a sequential reader with small requests, the rest of a stripe is read into the stripe
//!    cache ([`stripe_cache`]), so that no byte of a member is read twice.
//! 3. Little is shared. Stripes have a thousand locks, the requesting thread does the work, and all
//!    members are asked at once.
//!
//! | module | what |
//! | --- | --- |
//! | `member` | one member: where it is readable, its failures, its replacement |
//! | `io` | reads and writes of several members at once |
//! | `badblock_list`, `badblocks` | ranges that must not be read, and how they are recorded |
//! | `concat` | linear and RAID0 |
//! | `heal` | rewriting wrong data once a layer above knows what is right |
//! | `mirror` | RAID1 and RAID10: reading and writing copies |
//! | `nested` | members that are arrays themselves |
//! | `stripes` | RAID4, 5, 6: a stripe with missing chunks, and their reconstruction |
//! | `striped` | RAID4, 5, 6: requests, cut into stripes |
//! | `write` | RAID4, 5, 6: full-stripe and partial writes |
//! | `ppl`, `journal` | writes through partial parity logs or a journal device |
//! | [`monitor`] | a thread that marks an idle array clean, and rebuilds onto spares |
//! | [`sync_action`] | work over the whole array: rebuild, check, repair; spares that take over |
//! | [`scrub`] | comparing members, and locating the one that is wrong |
//! | [`metadata`] | superblocks and bitmap of an array that is written |
//! | [`verify`] | reads that compare members before they deliver |
//! | [`stripe_cache`] | stripes kept for their next reader |
//!
//! Invariants:
//!
//! 1. Members are written only by writes to the array, by rewriting what a member failed to read,
//!    and by [`metadata`]; and only if they were opened for writing.
//! 2. While a stripe is written, no thread computes from it: writers hold the stripe's lock
//!    exclusively, readers that compute hold it shared.
//! 3. A member is failed only if the level tolerates it.
//! 4. Metadata are durable before the data that they announce change.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use xfskit_block::device::check_range;
use xfskit_block::{BlockDevice, Error, IoRead, Result, Topology};
use xfskit_units::{ByteLen, ByteOffset, MemberByte, Sectors, SyncSector};

use crate::geometry::{Geometry, Slot};
use crate::journal::JournalWriter;
use crate::layout::concat::Concat;
use crate::layout::mirror::Raid10;
use crate::layout::{Layout, Level};
use crate::superblock::Superblock;

mod badblock_list;
mod badblocks;
mod concat;
mod heal;
mod io;
mod journal;
mod member;
pub mod metadata;
mod mirror;
pub mod monitor;
mod nested;
pub(crate) mod ppl;
pub(crate) mod replay;
pub mod resync;
pub mod scrub;
pub mod stripe_cache;
mod striped;
mod stripes;
pub mod sync_action;
pub mod verify;
mod write;

use io::io_error;
use member::Member;
use metadata::{ArrayMetadata, Failures};
use ppl::PplLogs;
use stripe_cache::StripeCache;

/// A member with more failed reads than this is failed (md: `max_read_errors`).
const READ_ERRORS_MAX: u32 = 20;

/// Number of stripe locks. Two stripes may share one.
const STRIPE_LOCKS: usize = 1024;

/// Why members make no array that can run.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The number of slots differs from the number of roles.
    #[error("{found} members were given for {expected} roles")]
    SlotCount {
        /// How many roles there are.
        expected: u32,
        /// How many slots were given.
        found: usize,
    },
    /// A member is smaller than the array needs.
    #[error("member {name} (role {role}) has {found} bytes, the array needs {needed}")]
    TooSmall {
        /// The member.
        name: String,
        /// Its role.
        role: usize,
        /// Bytes that the array uses of the member, its data offset included.
        needed: ByteLen,
        /// Bytes that the member has.
        found: ByteLen,
    },
    /// More roles are missing than the level tolerates.
    #[error("roles {roles:?} are missing, {level} of {raid_disks} members cannot run without them")]
    TooManyMissing {
        /// The missing roles, ascending.
        roles: Vec<usize>,
        /// The level.
        level: Level,
        /// How many roles there are.
        raid_disks: u32,
    },
}

/// Options of an open array.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most bytes of stripes to keep for sequential readers of a degraded array. Memory is
    /// allocated only as needed. In md's unit: `stripe_cache_size` times 4096 times the number of
    /// members.
    pub stripe_cache: ByteLen,
    /// Threads that one request may use to compute several stripes at once.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { stripe_cache: ByteLen(512 << 20), threads }
    }
}

/// Bytes that the array has read and processed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Read from members, failures included.
    pub read: ByteLen,
    /// Loaded from memory by the array's own code: parity sources, copies out of the cache.
    pub loaded: ByteLen,
    /// Stored to memory by the array's own code.
    pub stored: ByteLen,
}

#[derive(Debug, Default)]
struct Counters {
    read: AtomicU64,
    loaded: AtomicU64,
    stored: AtomicU64,
}

impl Counters {
    fn count_read(&self, bytes: ByteLen) {
        self.read.fetch_add(bytes.0, Ordering::Relaxed);
    }

    fn count_memory(&self, loaded: ByteLen, stored: ByteLen) {
        self.loaded.fetch_add(loaded.0, Ordering::Relaxed);
        self.stored.fetch_add(stored.0, Ordering::Relaxed);
    }
}

/// How array addresses map to members.
#[derive(Debug)]
enum Map {
    Concat(Concat),
    Raid1,
    Raid10(Raid10),
    Parity,
}

/// The state of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// The member is present and in use.
    InSync,
    /// The member is present, but valid only up to this byte.
    Recovering(MemberByte),
    /// The member failed and is out of use.
    Faulty,
    /// There is no member.
    Missing,
}

/// An array of members, as a block device.
#[derive(Debug)]
pub struct Array {
    geometry: Geometry,
    map: Map,
    members: Vec<Member>,
    options: Options,
    cache: StripeCache,
    /// Held shared by threads that compute from a stripe, exclusively by threads that write it.
    /// Taken in ascending order; only the members' own locks rank below.
    stripe_locks: Vec<RwLock<()>>,
    counters: Counters,
    /// Requests that are computing at the moment.
    computing: AtomicU64,
    read_only: bool,
    /// No member was ever missing, partly invalid or faulty, so reads need not look for missing
    /// chunks.
    is_optimal: AtomicBool,
    /// Mirrors are read from their first copy only.
    first_copy_only: AtomicBool,
    /// A [`SyncSector`]: from there on, parity or the copies after the first may be out of date,
    /// because the array was not shut down cleanly.
    synced_to: AtomicU64,
    /// The partial parity logs of a RAID5 that has them.
    logs: Option<PplLogs>,
    /// The journal, if the array has a journal device. Locked below the stripe locks, and held
    /// until the members have what was written to the journal.
    journal: Option<Mutex<JournalWriter>>,
    metadata: Option<ArrayMetadata>,
    /// Devices that wait for a member to fail. Leaf lock.
    spares: Mutex<Vec<sync_action::Spare>>,
    /// A spare took over from a failed member and is not filled yet.
    spare_activated: AtomicBool,
    /// Held by a sync action, from its first look at the members to its end: one at a time. Stripe
    /// locks rank below.
    sync_action: Mutex<()>,
    /// Set if reads are verified.
    verifier: OnceLock<verify::Verifier>,
}

impl Array {
    /// Opens the array of `slots`, one per role in role order.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the array cannot run.
    pub fn open(geometry: Geometry, slots: Vec<Slot>) -> std::result::Result<Self, OpenError> {
        Self::open_with(geometry, slots, Options::default())
    }

    /// Opens the array with options; see [`open`](Self::open).
    ///
    /// # Errors
    /// Returns [`OpenError`] if the array cannot run.
    pub fn open_with(
        geometry: Geometry,
        slots: Vec<Slot>,
        options: Options,
    ) -> std::result::Result<Self, OpenError> {
        check_slots(&geometry, &slots)?;
        let has_chunks = !geometry.chunk().is_zero();
        let chunks = if has_chunks { geometry.array_size().whole(geometry.chunk()) } else { 0 };
        let raid_disks = geometry.raid_disks();
        let sizes: Vec<Sectors> = (0..slots.len()).map(|role| geometry.member_size(role)).collect();
        let map = match geometry.layout() {
            Layout::Linear => Map::Concat(Concat::linear(&sizes)),
            Layout::Raid0(layout) => Map::Concat(Concat::raid0(layout, &sizes, geometry.chunk())),
            Layout::Raid1 => Map::Raid1,
            Layout::Raid10(layout) => Map::Raid10(Raid10::new(layout, raid_disks, chunks)),
            Layout::Raid4 | Layout::Raid5(_) | Layout::Raid6(_) => Map::Parity,
        };
        let is_optimal = slots.iter().all(|slot| {
            let all = slot.readable_until == Slot::ALL_READABLE && slot.bad_blocks.is_empty();
            slot.device.is_some() && all
        });
        let mut devices = slots.iter().filter_map(|slot| slot.device.as_ref());
        let read_only = devices.any(BlockDevice::is_read_only);
        Ok(Self {
            map,
            members: slots.into_iter().map(Member::new).collect(),
            cache: StripeCache::new(
                options.stripe_cache,
                geometry.chunk_bytes(),
                geometry.data_disks(),
            ),
            options,
            stripe_locks: (0..STRIPE_LOCKS).map(|_| RwLock::default()).collect(),
            counters: Counters::default(),
            computing: AtomicU64::new(0),
            read_only,
            is_optimal: AtomicBool::new(is_optimal),
            first_copy_only: AtomicBool::new(false),
            synced_to: AtomicU64::new(SyncSector::MAX.0),
            logs: None,
            journal: None,
            metadata: None,
            spares: Mutex::default(),
            spare_activated: AtomicBool::new(false),
            sync_action: Mutex::default(),
            verifier: OnceLock::new(),
            geometry,
        })
    }

    /// Sets the metadata that the array maintains while it is written, and makes the members' event
    /// counts equal.
    ///
    /// # Errors
    /// Returns an error if members whose superblocks are behind cannot be written.
    pub fn with_metadata(mut self, metadata: ArrayMetadata) -> Result<Self> {
        self.metadata = Some(metadata);
        self.update_metadata(ArrayMetadata::equalize_events)?;
        Ok(self)
    }

    /// Makes all writes durable and marks the array clean. The next write marks it active again.
    ///
    /// # Errors
    /// Returns an error if more members fail than the level tolerates.
    pub fn close(&self) -> Result<()> {
        self.flush()?;
        self.flush_journal()?;
        self.update_metadata(ArrayMetadata::close)
    }

    /// Marks the array clean if nothing was written since the last call and no write is in flight.
    ///
    /// # Errors
    /// See [`close`](Self::close).
    pub fn mark_clean_if_idle(&self) -> Result<()> {
        let Some(writes) = self.metadata.as_ref().and_then(ArrayMetadata::take_idle_writes) else {
            return Ok(());
        };
        self.flush()?;
        self.flush_journal()?;
        self.update_metadata(|metadata| metadata.mark_clean_if_idle(writes))
    }

    /// Returns true once after a spare took over from a failed member, and resets the flag.
    pub(crate) fn take_spare_activated(&self) -> bool {
        self.spare_activated.swap(false, Ordering::AcqRel)
    }

    /// Runs `work` on the metadata, if there are any. Members that it cannot write are failed.
    fn update_metadata(&self, work: impl FnOnce(&ArrayMetadata) -> Failures) -> Result<()> {
        let failures = self.metadata.as_ref().map(work).unwrap_or_default();
        failures.into_iter().try_for_each(|(role, error)| self.fail_member(role, error))
    }

    /// Returns the sectors of the sync space that a write touches. The sync space is a member's, on
    /// RAID10 the array's.
    fn sync_sectors(&self, offset: ByteOffset, len: ByteLen) -> Range<SyncSector> {
        let Range { start, end } = offset.range(len);
        let (unit, sectors) = match self.map {
            Map::Parity => (self.stripe_bytes(), self.geometry.chunk()),
            _ => (Sectors(1).byte_len(), Sectors(1)),
        };
        let sector = |units: u64| SyncSector(sectors.times(units).0);
        sector(start.whole(unit))..sector(end.div_ceil(unit))
    }

    /// Returns the geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the state of each role.
    pub fn states(&self) -> Vec<MemberState> {
        let size = |role| MemberByte(self.geometry.member_size(role).byte_len().0);
        let state = |(role, member): (usize, &Member)| match member.device() {
            None if member.is_faulty() => MemberState::Faulty,
            None => MemberState::Missing,
            Some(_) if member.readable_until() >= size(role) => MemberState::InSync,
            Some(_) => MemberState::Recovering(member.readable_until()),
        };
        self.members.iter().enumerate().map(state).collect()
    }

    /// Returns the superblock of a device as it is now, if the array maintains superblocks and the
    /// device was a member at any time since the array was opened.
    pub(crate) fn superblock_on(&self, device: &Arc<dyn BlockDevice>) -> Option<Superblock> {
        self.metadata.as_ref()?.superblock_on(device)
    }

    /// Returns the number of failed reads of the member with this role.
    pub fn read_errors(&self, role: usize) -> u32 {
        self.members.get(role).map_or(0, Member::read_errors)
    }

    /// Returns how much the array has read and processed so far.
    pub fn io_stats(&self) -> IoStats {
        let get = |counter: &AtomicU64| ByteLen(counter.load(Ordering::Relaxed));
        let Counters { read, loaded, stored } = &self.counters;
        IoStats { read: get(read), loaded: get(loaded), stored: get(stored) }
    }

    /// Returns the memory that the stripe cache has allocated so far, in bytes. It is at most
    /// [`Options::stripe_cache`] and is kept until the array is dropped.
    pub fn stripe_cache_bytes(&self) -> ByteLen {
        self.cache.allocated()
    }

    /// Fails the member with this role, as `mdadm --fail` does.
    ///
    /// # Errors
    /// Returns an error if the level does not tolerate that, or there is no such member.
    pub fn fail(&self, role: usize) -> Result<()> {
        match self.members.get(role) {
            Some(member) if member.device().is_some() => {
                let why = std::io::Error::other("taken out of use");
                let (offset, len) = (ByteOffset(0), ByteLen(0));
                self.fail_member(role, Error::Io { op: "fail", offset, len, source: why })
            }
            _ => {
                let why = format!("role {role} has no member in use");
                Err(io_error("fail", ByteOffset(0), ByteLen(0), why))
            }
        }
    }

    /// Fails a member. A spare takes over if there is one.
    ///
    /// # Errors
    /// Returns `error` if the level does not tolerate that.
    fn fail_member(&self, role: usize, error: Error) -> Result<()> {
        match self.members.get(role) {
            None => return Err(error), // the journal device: the array cannot run without it
            Some(member) if member.device().is_none() => return Ok(()),
            Some(_) => {}
        }
        if !self.survives_without(role) {
            return Err(error);
        }
        self.is_optimal.store(false, Ordering::Release);
        if self.members[role].set_faulty() {
            let member = self.members[role].name();
            tracing::error!(%member, role, %error, "a member of the array failed");
            self.update_metadata(|metadata| metadata.fail(role))?;
            let taken = self.activate_spare(role)?;
            if taken.is_some() {
                tracing::warn!(role, "a spare takes the place of the member");
            }
            self.spare_activated.fetch_or(taken.is_some(), Ordering::AcqRel);
        }
        Ok(())
    }

    /// Counts a failed read of this member, and fails the member after too many.
    fn read_failed(&self, role: usize) {
        let member = &self.members[role];
        if member.count_read_error() > READ_ERRORS_MAX {
            let why = format!("too many reads of member {} failed", member.name());
            let error = io_error("read", ByteOffset(0), ByteLen(0), why);
            let _ = self.fail_member(role, error);
        }
    }
}

impl Drop for Array {
    /// Closes an array that was written and not closed. If that fails, the array stays active and
    /// is resynced when it is assembled again.
    fn drop(&mut self) {
        if self.metadata.is_some() && !std::thread::panicking() {
            let _ = self.close();
        }
    }
}

fn check_slots(geometry: &Geometry, slots: &[Slot]) -> std::result::Result<(), OpenError> {
    if slots.len() != geometry.raid_disks() as usize {
        let (expected, found) = (geometry.raid_disks(), slots.len());
        return Err(OpenError::SlotCount { expected, found });
    }
    let mut missing = Vec::new();
    for (role, slot) in slots.iter().enumerate() {
        let Some(device) = &slot.device else {
            missing.push(role);
            continue;
        };
        let sectors = slot.data_offset.0.saturating_add(geometry.member_size(role).0);
        let (needed, found) = (Sectors(sectors).byte_len(), device.size());
        if needed > found || slot.data_size < geometry.member_size(role) {
            let found = found.min(Sectors(slot.data_offset.0 + slot.data_size.0).byte_len());
            return Err(OpenError::TooSmall { name: slot.name.clone(), role, needed, found });
        }
    }
    if survives(geometry, &missing) {
        return Ok(());
    }
    let (level, raid_disks) = (geometry.level(), geometry.raid_disks());
    Err(OpenError::TooManyMissing { roles: missing, level, raid_disks })
}

/// Returns true if all data are present without these roles.
pub(crate) fn survives(geometry: &Geometry, missing: &[usize]) -> bool {
    let Layout::Raid10(layout) = geometry.layout() else {
        return missing.len() <= geometry.tolerates() as usize;
    };
    if missing.len() < layout.copies() as usize {
        return true;
    }
    // The copies of the first few chunks cover every set of members that occurs.
    let chunks = geometry.array_size().whole(geometry.chunk());
    let map = Raid10::new(layout, geometry.raid_disks(), chunks);
    (0..chunks.min(u64::from(geometry.raid_disks())))
        .all(|chunk| map.copies(chunk).any(|copy| !missing.contains(&copy.role)))
}

impl BlockDevice for Array {
    xfskit_block::plain!(write_batch, write_fua, discard, write_zeroes, skip_hole);
    fn size(&self) -> ByteLen {
        self.geometry.array_size().byte_len()
    }

    fn logical_block_size(&self) -> u32 {
        let sizes =
            self.members.iter().filter_map(Member::device).map(BlockDevice::logical_block_size);
        sizes.max().unwrap_or(512)
    }

    fn physical_block_size(&self) -> u32 {
        let sizes =
            self.members.iter().filter_map(Member::device).map(BlockDevice::physical_block_size);
        sizes.max().unwrap_or(512)
    }

    fn topology(&self) -> Topology {
        let members = self.members.iter().filter_map(Member::device);
        members.fold(self.geometry.topology(), |own, member| own.stacked_on(member.topology()))
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        if let Some(verifier) = self.verifier.get() {
            return self.read_verified(verifier, offset, buf);
        }
        match &self.map {
            Map::Concat(map) => self.read_concat(map, offset, buf),
            Map::Raid1 | Map::Raid10(_) => self.read_mirror(offset, buf),
            Map::Parity => self.read_striped(offset, buf),
        }
    }

    fn lend(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        ahead: ByteLen,
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> bool {
        let may = matches!(self.map, Map::Parity) && self.verifier.get().is_none();
        may && self.lend_striped(offset, len, ahead, take)
    }

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        if batch.len() > 1 {
            for io in batch.iter() {
                self.will_need(io.offset, ByteLen::of(io.buf));
            }
        }
        batch.iter_mut().map(|io| self.read_at(io.offset, io.buf)).collect()
    }

    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        check_range("write", self.size(), offset, buf.len())?;
        if buf.is_empty() {
            return Ok(());
        }
        let sectors = self.sync_sectors(offset, ByteLen::of(buf));
        let recorded = self.update_metadata(|metadata| metadata.begin_write(sectors.clone()));
        let result = recorded.and_then(|()| match &self.map {
            Map::Concat(map) => self.write_concat(map, offset, buf),
            Map::Raid1 | Map::Raid10(_) => self.write_mirror(offset, buf),
            Map::Parity => self.write_striped(offset, buf),
        });
        if let Some(metadata) = &self.metadata {
            metadata.end_write(sectors);
        }
        result
    }

    fn flush(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        for (role, member) in self.members.iter().enumerate() {
            if let Some(Err(error)) = member.device().map(BlockDevice::flush) {
                self.fail_member(role, error)?;
            }
            // A replacement that fails is given up.
            let _ = member.replacement().map(member::ActiveReplacement::flush);
        }
        self.update_metadata(ArrayMetadata::note_flush)
    }

    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        self.prefetch_range(offset..offset.saturating_plus(len).min(self.end()));
    }

    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        match &self.map {
            Map::Concat(map) => self.concat_alternatives(map, offset, len),
            Map::Raid1 | Map::Raid10(_) => self.mirror_alternatives(offset, len),
            Map::Parity => self.striped_alternatives(offset, len),
        }
    }

    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        match &self.map {
            Map::Concat(map) => self.read_concat_alternative(map, offset, buf, k),
            Map::Raid1 | Map::Raid10(_) => self.read_mirror_copy(offset, buf, k),
            Map::Parity => self.read_striped_alternative(offset, buf, k),
        }
    }

    fn heal(&self, offset: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        check_range("write", self.size(), offset, good.len())?;
        if self.read_only || good.is_empty() {
            return Ok(false);
        }
        match &self.map {
            Map::Concat(map) => self.heal_concat(map, offset, good, k),
            _ => self.heal_redundant(offset, good, k),
        }
    }
}
