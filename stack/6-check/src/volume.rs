//! The volume that is checked: its device, its geometry, and reading its blocks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use xfskit_block::BlockDevice;
use xfskit_format::corruption::Severity;
use xfskit_format::inode::Dinode;
use xfskit_format::log::Stamp;
use xfskit_format::{Corruption, Ctx, Expected, Location, VerifyResult};
use xfskit_units::{ByteLen, ByteOffset, Geometry, Lsn, index};

use crate::finding::{Healing, Sink};
use crate::mismatches::Mismatches;
use crate::spill::Spill;
use crate::survey::{KnownChunks, Surveyor};

/// Length of the longest structure, in bytes: a directory block.
const LONGEST: u64 = 64 << 10;
/// Maximum number of bytes of sound copies that are kept.
const HEALED_MAX: usize = 64 << 20;

/// Blocks that failed their verifier when read, with the sound bytes of an alternative copy. Later
/// reads return these bytes.
#[derive(Default)]
pub(crate) struct HealedBlocks {
    /// Indexed by their first byte on the device. A leaf lock.
    blocks: RwLock<BTreeMap<u64, Vec<u8>>>,
    bytes: AtomicUsize,
}

impl HealedBlocks {
    fn insert(&self, offset: ByteOffset, block: &[u8]) {
        if self.bytes.load(Ordering::Relaxed) < HEALED_MAX {
            self.bytes.fetch_add(block.len(), Ordering::Relaxed);
            let mut blocks = self.blocks.write();
            blocks.insert(offset.0, block.to_vec());
        }
    }

    /// Replaces the parts of `buf`, read from `offset`, that have a sound copy here.
    fn overlay(&self, offset: ByteOffset, buf: &mut [u8]) {
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let end = offset.0.saturating_add(buf.len() as u64);
        let blocks = self.blocks.read();
        for (start, block) in blocks.range(offset.0.saturating_sub(LONGEST)..end) {
            let (from, to) = ((*start).max(offset.0), (start + block.len() as u64).min(end));
            if from < to {
                buf[index(from - offset.0)..index(to - offset.0)]
                    .copy_from_slice(&block[index(from - start)..index(to - start)]);
            }
        }
    }
}

/// State that all parts of the check share.
pub(crate) struct Volume<'a> {
    pub dev: &'a dyn BlockDevice,
    pub geo: Geometry,
    /// The journal's head, if it is known: no block may be newer.
    pub log_head: Option<Lsn>,
    /// True if the journal has been replayed, so that counters and lists must be exact.
    pub log_clean: bool,
    /// True if every copy of a block is read and compared.
    pub scrub: bool,
    /// True if the device rewrites damaged blocks that have a sound copy.
    pub heal: bool,
    pub healed: &'a HealedBlocks,
    /// Ranges whose users are recorded.
    pub mismatches: Option<&'a Mismatches>,
    /// Files whose records in the rmapbt the survey lists.
    pub owners: Option<&'a BTreeSet<u64>>,
    /// Inode chunks that are not read from the btrees.
    pub known_chunks: Option<&'a KnownChunks>,
    /// Takes what is in use.
    pub surveyor: Option<&'a Surveyor>,
    /// Stores extents that are not kept in memory.
    pub spill: Option<&'a Spill>,
    pub sink: Sink<'a>,
}

impl<'a> Volume<'a> {
    /// Returns the same volume with findings discarded, for reading again what was checked already.
    pub(crate) fn quiet(&self) -> Volume<'a> {
        Volume { geo: self.geo.clone(), sink: Sink::quiet(), scrub: false, ..*self }
    }

    /// Returns the verification context of a block at `at`.
    pub(crate) fn ctx(&self, at: Location) -> Ctx<'_> {
        Ctx::new(&self.geo, at).log_head(self.log_head)
    }

    /// Reports a failed check as fatal. Returns true if it passed.
    pub(crate) fn fatal(&self, result: VerifyResult) -> bool {
        result.map_err(|corruption| self.sink.report(Severity::Fatal, corruption)).is_ok()
    }

    /// Fills `buf` from the location `at`, whose `daddr` is set. A failure is a finding.
    pub(crate) fn read(&self, at: Location, buf: &mut [u8]) -> bool {
        let Some(daddr) = at.daddr else { return false };
        if let Err(error) = self.dev.read_at(daddr.byte_offset(), buf) {
            let readable = Err(self.ctx(at).corruption(
                "device.read",
                xfskit_format::Expected::Described("readable bytes".into()),
                error.to_string(),
            ));
            return self.fatal(readable);
        }
        self.healed.overlay(daddr.byte_offset(), buf);
        if self.scrub {
            self.compare_copies(at, buf);
        }
        true
    }

    /// Checks that every copy of these bytes is the same.
    fn compare_copies(&self, at: Location, buf: &[u8]) {
        let Some(offset) = at.daddr.map(xfskit_units::Daddr::byte_offset) else { return };
        let mut copy = vec![0; buf.len()];
        let copies = self.dev.alternatives(offset, ByteLen(buf.len() as u64));
        for k in (0..copies).filter(|_| copies > 1) {
            let ctx = self.ctx(at).entry(k);
            let found = match self.dev.read_alternative(offset, &mut copy, k) {
                Ok(()) if copy == buf => continue,
                Ok(()) => "other bytes".to_owned(),
                Err(error) => error.to_string(),
            };
            self.sink.error(ctx.require("scrub.copy", false, "the bytes of the first copy", found));
        }
    }

    /// Reads the structure at `at` into `buf` and verifies it with `take`, as
    /// [`verify_in`](Self::verify_in).
    pub(crate) fn verify<T>(
        &self,
        at: Location,
        buf: &mut [u8],
        crc_offset: usize,
        take: impl FnMut(&[u8]) -> VerifyResult<T>,
    ) -> Option<T> {
        if !self.read(at, buf) {
            return None;
        }
        self.verify_in(at, buf, crc_offset, take)
    }

    /// Verifies the structure that was read from `at` into `buf`: `take` verifies it, and uses it
    /// only if it is sound. A failure is reported. Then another copy that the device has may pass.
    /// If only the checksum (at byte `crc_offset`) is wrong, the content is used all the same,
    /// because one flipped bit must not hide a whole tree.
    pub(crate) fn verify_in<T>(
        &self,
        at: Location,
        buf: &mut [u8],
        crc_offset: usize,
        mut take: impl FnMut(&[u8]) -> VerifyResult<T>,
    ) -> Option<T> {
        if self.is_mismatch(at, buf) {
            self.take_newest(at, buf, crc_offset);
        }
        let corruption = match take(buf) {
            Ok(taken) => return Some(taken),
            Err(corruption) => corruption,
        };
        if let Some((taken, healing)) = self.read_alternatives(at, buf, &mut take) {
            self.sink.report_healed(corruption, healing);
            return Some(taken);
        }
        let only_crc = self.geo.v5() && is_crc(&corruption);
        self.sink.report(Severity::Error, corruption);
        if !only_crc {
            return None;
        }
        xfskit_crc::update(buf, crc_offset);
        take(buf).map_err(|corruption| self.sink.report(Severity::Error, corruption)).ok()
    }

    /// Returns true if the copies of the bytes read from `at` are known to mismatch.
    pub(crate) fn is_mismatch(&self, at: Location, buf: &[u8]) -> bool {
        at.daddr.zip(self.mismatches).is_some_and(|(daddr, mismatches)| {
            mismatches.touches(daddr.byte_offset().0, buf.len() as u64)
        })
    }

    /// Replaces `buf` by the newest copy with a right checksum, if the copies of a structure
    /// mismatch. A member that lost a write has a block that is sound but old. With
    /// [`heal`](Self::heal), the others are rewritten.
    #[cold]
    pub(crate) fn take_newest(&self, at: Location, buf: &mut [u8], crc_offset: usize) {
        let Some(offset) = at.daddr.map(xfskit_units::Daddr::byte_offset) else { return };
        if !self.geo.v5() {
            return;
        }
        let whole = |bytes: &[u8]| xfskit_crc::verify(bytes, crc_offset);
        let is_new = |lsn: Lsn| self.log_head.is_none_or(|head| lsn <= head);
        let mut copy = vec![0; buf.len()];
        let (mut best, mut differ): (Option<(Lsn, usize, Vec<u8>)>, bool) = (None, false);
        for k in 0..self.dev.alternatives(offset, ByteLen(buf.len() as u64)) {
            if self.dev.read_alternative(offset, &mut copy, k).is_err() {
                continue;
            }
            differ |= copy != buf;
            let lsn = self.lsn_of(&copy).filter(|lsn| whole(&copy) && is_new(*lsn));
            if let Some(lsn) = lsn
                && best.as_ref().is_none_or(|(newest, ..)| *newest < lsn)
            {
                best = Some((lsn, k, copy.clone()));
            }
        }
        let Some((_, k, newest)) = best.filter(|_| differ) else { return };
        let ctx = self.ctx(at).entry(k);
        let rewritten = self.heal && self.dev.heal(offset, &newest, k).unwrap_or(false);
        if newest != *buf {
            let wanted = Expected::Described("the newest there is".into());
            let corruption = ctx.corruption("scrub.copy", wanted, "an older or a damaged one");
            let healing = if rewritten { Healing::Rewritten } else { Healing::Read };
            self.sink.report_healed(corruption, healing);
            buf.copy_from_slice(&newest);
            if !rewritten {
                self.healed.insert(offset, &newest);
            }
        }
    }

    /// Returns the LSN of the structure's last write, if it has one.
    fn lsn_of(&self, bytes: &[u8]) -> Option<Lsn> {
        match Stamp::of(bytes, &self.geo) {
            Some(stamp) => Some(stamp.lsn(bytes)),
            None => Some(Dinode::parse(bytes, &self.geo)?.lsn()),
        }
    }

    /// Reads the alternative copies of the structure at `at`, which failed verification. If `take`
    /// accepts one, returns the newest such with its bytes in `buf`, rewritten if
    /// [`heal`](Self::heal) is set.
    #[cold]
    pub(crate) fn read_alternatives<T>(
        &self,
        at: Location,
        buf: &mut [u8],
        mut take: impl FnMut(&[u8]) -> VerifyResult<T>,
    ) -> Option<(T, Healing)> {
        let offset = at.daddr?.byte_offset();
        let copies = self.dev.alternatives(offset, ByteLen(buf.len() as u64));
        if copies < 2 {
            return None;
        }
        let mut copy = vec![0; buf.len()];
        let mut order: Vec<(Reverse<Lsn>, usize)> = Vec::with_capacity(copies);
        for k in 0..copies {
            if self.dev.read_alternative(offset, &mut copy, k).is_ok() {
                let stamp = Stamp::of(&copy, &self.geo).filter(|stamp| stamp.is_whole(&copy));
                order.push((Reverse(stamp.map_or(Lsn(0), |stamp| stamp.lsn(&copy))), k));
            }
        }
        order.sort_unstable();
        for (_, k) in order {
            if self.dev.read_alternative(offset, &mut copy, k).is_err() {
                continue;
            }
            let Ok(taken) = take(&copy) else { continue };
            buf.copy_from_slice(&copy);
            let rewritten = self.heal && self.dev.heal(offset, &copy, k).unwrap_or(false);
            if !rewritten {
                self.healed.insert(offset, &copy);
            }
            return Some((taken, if rewritten { Healing::Rewritten } else { Healing::Read }));
        }
        None
    }
}

/// Returns true if only the checksum is known to be wrong.
#[allow(clippy::case_sensitive_file_extension_comparisons)] // an id, not a file
fn is_crc(corruption: &Corruption) -> bool {
    corruption.check.0.ends_with(".crc")
}
