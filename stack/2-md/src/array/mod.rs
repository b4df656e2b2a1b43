//! The array as a device.
//!
//! A request is cut at chunks. What members can give goes straight into the caller's buffer; what they
//! cannot is taken from another copy or computed from the rest of its row. Three things make a
//! degraded read cost about what a healthy one does:
//!
//! 1. A row whose chunks are all wanted is read once, into the caller's buffer, with the parity it
//!    takes beside it; the missing chunk is computed from there, a slice that stays in the processor's
//!    cache at a time. Nothing is copied.
//! 2. A sequential reader with small requests has its rows fetched whole, into the row cache
//!    ([`cache`]), so that no member reads a byte twice.
//! 3. Nothing is shared but what must be: rows are locked one by one (a thousand locks), the work is
//!    done by the thread that asks, and members are asked all at once.
//!
//! | module | what |
//! | --- | --- |
//! | `member` | one member: where it is readable, what became of it |
//! | `io` | reads and writes of several members at once |
//! | `places`, `badblocks` | places of a member that must not be read, and how they come to be |
//! | `concat` | linear and RAID0 |
//! | `heal` | what lied is rewritten, once somebody can tell who did |
//! | `mirror` | RAID1 and RAID10: reading and writing copies |
//! | `nested` | members that are arrays themselves: their ways, and what of the content they hold |
//! | `rows` | RAID4, 5, 6: a row with holes, and what fills them |
//! | `striped` | RAID4, 5, 6: requests, cut into rows |
//! | `write` | RAID4, 5, 6: whole rows, and parts of rows |
//! | `partial`, `journaled` | the same, announced in partial parity logs, by way of a journal |
//! | [`monitor`] | a thread that marks an idle array clean, and rebuilds onto a spare that took over |
//! | [`sync_action`] | jobs over all of an array: rebuild, scrub; spares that take over |
//! | [`scrub`] | do members agree, and who is wrong |
//! | [`metadata`] | superblocks and bitmap of an array that is written |
//! | [`verify`] | reads that compare before they deliver |
//! | [`cache`] | rows kept for their next reader |
//!
//! Promises:
//!
//! 1. SpanData are written only by writes to the array, by the rewriting of what a member failed to
//!    read, and by the [`metadata`]; on members opened for writing only.
//! 2. While a row is written nobody computes from it: writers of a row hold its lock alone, those who
//!    compute share it.
//! 3. A member is taken out of use only where the level bears it.
//! 4. Before data changes, the metadata is on the disk.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, RwLock};

use xfskit_block::device::check_range;
use xfskit_block::{BlockDevice, Error, IoRead, Result, Topology};
use xfskit_units::{ByteLen, ByteOffset, Sectors};

use crate::geometry::{Geometry, Slot};
use crate::journal::JournalWriter;
use crate::layout::concat::Concat;
use crate::layout::mirror::Raid10;
use crate::layout::{Layout, Level};

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

/// A member whose reads fail more often than this is taken out of use (md: `max_read_errors`).
const READ_ERRORS_MAX: u32 = 20;

/// Locks of rows. Two rows may share one.
const STRIPE_LOCKS: usize = 1024;

/// Why members make no array that can run.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Fewer or more slots than the geometry has roles.
    #[error("{found} members were given for {expected} roles")]
    SlotCount {
        /// How many roles there are.
        expected: u32,
        /// How many slots came.
        found: usize,
    },
    /// A member has less room than the array uses of it.
    #[error("member {name} (role {role}) has {found} bytes, the array needs {needed}")]
    TooSmall {
        /// The member.
        name: String,
        /// Its role.
        role: usize,
        /// Bytes that the array uses of it, its data offset included.
        needed: ByteLen,
        /// Bytes that it has.
        found: ByteLen,
    },
    /// More roles are missing than the level bears.
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

/// How an array goes about its work.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most bytes of whole rows to keep for sequential readers of a degraded array. Memory is taken
    /// only while it is needed. md's `stripe_cache_size` times 4096 times the number of members.
    pub stripe_cache: ByteLen,
    /// Threads that one request may use to compute several rows at once.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { stripe_cache: ByteLen(256 << 20), threads }
    }
}

/// What the array did so far, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Read from members, failures included.
    pub read: u64,
    /// Loaded from memory by the array's own code: sources of parity, copies out of the cache.
    pub loaded: u64,
    /// Stored to memory by the array's own code.
    pub stored: u64,
}

#[derive(Debug, Default)]
struct Counters {
    read: AtomicU64,
    loaded: AtomicU64,
    stored: AtomicU64,
}

impl Counters {
    fn count_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    fn count_memory(&self, loaded: u64, stored: u64) {
        self.loaded.fetch_add(loaded, Ordering::Relaxed);
        self.stored.fetch_add(stored, Ordering::Relaxed);
    }
}

/// Where the bytes of the array lie.
#[derive(Debug)]
enum Map {
    Concat(Concat),
    Raid1,
    Raid10(Raid10),
    Parity,
}

/// What one role has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// There and in use.
    InSync,
    /// There, but valid only up to this byte from its data offset.
    Recovering(u64),
    /// Taken out of use because it failed.
    Faulty,
    /// There was none.
    Missing,
}

/// An array of members: a device like any other.
#[derive(Debug)]
pub struct Array {
    geometry: Geometry,
    map: Map,
    members: Vec<Member>,
    options: Options,
    cache: StripeCache,
    /// Shared by those who compute from a row, alone for those who write it. Taken in ascending
    /// order; only members' own locks are taken below.
    stripe_locks: Vec<RwLock<()>>,
    counters: Counters,
    /// Requests that compute at the moment.
    computing: AtomicU64,
    read_only: bool,
    /// No member was ever missing, invalid in places, or faulty: nobody needs to look for holes.
    is_optimal: AtomicBool,
    /// Mirrors are read from their first copy alone.
    first_copy_only: AtomicBool,
    /// From this sector of the sync space on parity, or other copies than the first, may be out of
    /// date: the array was not shut down cleanly.
    synced_to: AtomicU64,
    /// Where writes are announced, of RAID5 with a partial parity log.
    logs: Option<PplLogs>,
    /// Where writes go first, of arrays with a journal device. Taken below the rows' locks, and held until the
    /// members have what went there.
    journal: Option<Mutex<JournalWriter>>,
    metadata: Option<ArrayMetadata>,
    /// Devices that wait for a member to fail. Leaf lock.
    spares: Mutex<Vec<sync_action::Spare>>,
    /// A spare took over from a member that failed, and lacks its content.
    spare_activated: AtomicBool,
    /// There where reads are verified.
    verifier: OnceLock<verify::Verifier>,
}

impl Array {
    /// The array of `slots`, one per role in role order.
    ///
    /// # Errors
    /// [`OpenError`] where it cannot run.
    pub fn open(geometry: Geometry, slots: Vec<Slot>) -> std::result::Result<Self, OpenError> {
        Self::open_with(geometry, slots, Options::default())
    }

    /// [`open`](Self::open) with options.
    ///
    /// # Errors
    /// [`OpenError`] where it cannot run.
    pub fn open_with(
        geometry: Geometry,
        slots: Vec<Slot>,
        options: Options,
    ) -> std::result::Result<Self, OpenError> {
        check_slots(&geometry, &slots)?;
        let chunks = geometry.array_size().0.checked_div(geometry.chunk().0).unwrap_or(0);
        let raid_disks = geometry.raid_disks();
        let sizes: Vec<Sectors> = (0..slots.len()).map(|role| geometry.member_size(role)).collect();
        let map = match geometry.layout() {
            Layout::Linear => Map::Concat(Concat::linear(&sizes)),
            Layout::Raid0(layout) => Map::Concat(Concat::raid0(layout, &sizes, geometry.chunk())),
            Layout::Raid1 => Map::Raid1,
            Layout::Raid10(layout) => Map::Raid10(Raid10::new(layout, raid_disks, chunks)),
            Layout::Raid4 | Layout::Raid5(_) | Layout::Raid6(_) => Map::Parity,
        };
        let stripe_bytes =
            geometry.chunk_bytes().0.saturating_mul(u64::from(geometry.data_disks()));
        let is_optimal = slots.iter().all(|slot| {
            let all = slot.readable_until == Slot::ALL_READABLE && slot.bad_blocks.is_empty();
            slot.device.is_some() && all
        });
        let mut devices = slots.iter().filter_map(|slot| slot.device.as_ref());
        let read_only = devices.any(BlockDevice::is_read_only);
        Ok(Self {
            map,
            members: slots.into_iter().map(Member::new).collect(),
            cache: StripeCache::new(options.stripe_cache.0, stripe_bytes),
            options,
            stripe_locks: (0..STRIPE_LOCKS).map(|_| RwLock::default()).collect(),
            counters: Counters::default(),
            computing: AtomicU64::new(0),
            read_only,
            is_optimal: AtomicBool::new(is_optimal),
            first_copy_only: AtomicBool::new(false),
            synced_to: AtomicU64::new(u64::MAX),
            logs: None,
            journal: None,
            metadata: None,
            spares: Mutex::default(),
            spare_activated: AtomicBool::new(false),
            verifier: OnceLock::new(),
            geometry,
        })
    }

    /// The array, its metadata kept by `metadata` while it is written.
    ///
    /// # Errors
    /// Where members whose superblocks are behind cannot be written.
    pub fn with_metadata(mut self, metadata: ArrayMetadata) -> Result<Self> {
        self.metadata = Some(metadata);
        self.update_metadata(ArrayMetadata::equalize_events)?;
        Ok(self)
    }

    /// Makes all writes durable and the array clean. The next write makes it active again.
    ///
    /// # Errors
    /// Where more members fail than the level bears.
    pub fn close(&self) -> Result<()> {
        self.flush()?;
        self.flush_journal()?;
        self.update_metadata(ArrayMetadata::close)
    }

    /// Makes the array clean, if nothing was written since this was asked before, and nothing is being written.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn mark_clean_if_idle(&self) -> Result<()> {
        let Some(writes) = self.metadata.as_ref().and_then(ArrayMetadata::take_idle_writes) else {
            return Ok(());
        };
        self.flush()?;
        self.flush_journal()?;
        self.update_metadata(|metadata| metadata.mark_clean_if_idle(writes))
    }

    /// True once after a spare took over from a member that failed.
    pub(crate) fn take_spare_activated(&self) -> bool {
        self.spare_activated.swap(false, Ordering::AcqRel)
    }

    /// Lets the metadata do something, if there is one. SpanData that fail it are taken out of use.
    fn update_metadata(&self, work: impl FnOnce(&ArrayMetadata) -> Failures) -> Result<()> {
        let failures = self.metadata.as_ref().map(work).unwrap_or_default();
        failures.into_iter().try_for_each(|(role, error)| self.fail_member(role, error))
    }

    /// The sectors of the sync space (a member's, on RAID10 the array's) that a write touches.
    fn sync_sectors(&self, offset: u64, len: u64) -> Range<u64> {
        let (start, end) = (offset, offset + len);
        match self.map {
            Map::Parity => {
                let chunk = self.geometry.chunk().0;
                start / self.stripe_bytes() * chunk..end.div_ceil(self.stripe_bytes()) * chunk
            }
            _ => start / 512..end.div_ceil(512),
        }
    }

    /// The numbers of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What has become of each role.
    pub fn states(&self) -> Vec<MemberState> {
        let size = |role| self.geometry.member_size(role).byte_len().0;
        let state = |(role, member): (usize, &Member)| match member.device() {
            None if member.is_faulty() => MemberState::Faulty,
            None => MemberState::Missing,
            Some(_) if member.readable_until() >= size(role) => MemberState::InSync,
            Some(_) => MemberState::Recovering(member.readable_until()),
        };
        self.members.iter().enumerate().map(state).collect()
    }

    /// How often reads of the member with this role failed.
    pub fn read_errors(&self, role: usize) -> u32 {
        self.members.get(role).map_or(0, Member::read_errors)
    }

    /// What the array read and io_stats so far.
    pub fn io_stats(&self) -> IoStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { read, loaded, stored } = &self.counters;
        IoStats { read: get(read), loaded: get(loaded), stored: get(stored) }
    }

    /// Takes the member with this role out of use, as `mdadm --fail` does.
    ///
    /// # Errors
    /// Where the level does not bear it, or there is no such member.
    pub fn fail(&self, role: usize) -> Result<()> {
        match self.members.get(role) {
            Some(member) if member.device().is_some() => {
                let why = std::io::Error::other("taken out of use");
                let (offset, len) = (ByteOffset(0), ByteLen(0));
                self.fail_member(role, Error::Io { op: "fail", offset, len, source: why })
            }
            _ => Err(io_error("fail", 0, 0, format!("role {role} has no member in use"))),
        }
    }

    /// Takes a member out of use; answers `error` where the level does not bear that.
    fn fail_member(&self, role: usize, error: Error) -> Result<()> {
        match self.members.get(role) {
            None => return Err(error), // the journal: whoever needs it cannot do without
            Some(member) if member.device().is_none() => return Ok(()),
            Some(_) => {}
        }
        if !self.survives_without(role) {
            return Err(error);
        }
        self.is_optimal.store(false, Ordering::Release);
        if self.members[role].set_faulty() {
            self.update_metadata(|metadata| metadata.fail(role))?;
            let taken = self.activate_spare(role)?;
            self.spare_activated.fetch_or(taken.is_some(), Ordering::AcqRel);
        }
        Ok(())
    }

    /// A read of this member failed.
    fn read_failed(&self, role: usize) {
        let member = &self.members[role];
        if member.count_read_error() > READ_ERRORS_MAX {
            let why = format!("member {} keeps failing", member.name());
            let _ = self.fail_member(role, io_error("read", 0, 0, why));
        }
    }
}

impl Drop for Array {
    /// An array that was written and is not closed is closed here; one that fails that stays active,
    /// and is resynced.
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

/// True where all content is there without these roles.
pub(crate) fn survives(geometry: &Geometry, missing: &[usize]) -> bool {
    let Layout::Raid10(layout) = geometry.layout() else {
        return missing.len() <= geometry.tolerates() as usize;
    };
    if missing.len() < layout.copies() as usize {
        return true;
    }
    // The copies of the first so many chunks stand on every set of members that there is.
    let chunks = geometry.array_size().0 / geometry.chunk().0;
    let map = Raid10::new(layout, geometry.raid_disks(), chunks);
    (0..chunks.min(u64::from(geometry.raid_disks())))
        .all(|chunk| map.copies(chunk).any(|copy| !missing.contains(&copy.role)))
}

impl BlockDevice for Array {
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
        members.fold(self.geometry.topology(), |own, member| own.over(member.topology()))
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        if let Some(verifier) = self.verifier.get() {
            return self.read_verified(verifier, offset.0, buf);
        }
        match &self.map {
            Map::Concat(map) => self.read_concat(map, offset.0, buf),
            Map::Raid1 | Map::Raid10(_) => self.read_mirror(offset.0, buf),
            Map::Parity => self.read_striped(offset.0, buf),
        }
    }

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        if batch.len() > 1 {
            for io in batch.iter() {
                self.will_need(io.offset, ByteLen(io.buf.len() as u64));
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
        let sectors = self.sync_sectors(offset.0, buf.len() as u64);
        let noted = self.update_metadata(|metadata| metadata.begin_write(sectors.clone()));
        let answer = noted.and_then(|()| match &self.map {
            Map::Concat(map) => self.write_concat(map, offset.0, buf),
            Map::Raid1 | Map::Raid10(_) => self.write_mirror(offset.0, buf),
            Map::Parity => self.write_striped(offset.0, buf),
        });
        if let Some(metadata) = &self.metadata {
            metadata.end_write(sectors);
        }
        answer
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
        let end = offset.0.saturating_add(len.0).min(self.size().0);
        self.prefetch_range(offset.0, end);
    }

    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        match &self.map {
            Map::Concat(map) => self.concat_alternatives(map, offset.0, len.0),
            Map::Raid1 | Map::Raid10(_) => self.mirror_alternatives(offset.0, len.0),
            Map::Parity => self.striped_alternatives(offset.0, len.0),
        }
    }

    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        match &self.map {
            Map::Concat(map) => self.read_concat_alternative(map, offset.0, buf, k),
            Map::Raid1 | Map::Raid10(_) => self.read_mirror_copy(offset.0, buf, k),
            Map::Parity => self.read_striped_alternative(offset.0, buf, k),
        }
    }

    fn heal(&self, offset: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        check_range("write", self.size(), offset, good.len())?;
        if self.read_only || good.is_empty() {
            return Ok(false);
        }
        match &self.map {
            Map::Concat(map) => self.heal_concat(map, offset.0, good, k),
            _ => self.heal_redundant(offset.0, good, k),
        }
    }
}
