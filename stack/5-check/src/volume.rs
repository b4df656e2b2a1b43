//! The volume under judgement: its device, its geometry, and reading a block of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use xfskit_block::BlockDevice;
use xfskit_format::inode::Dinode;
use xfskit_format::log::Stamp;
use xfskit_format::{Corruption, Ctx, Expected, Location, VerifyResult};
use xfskit_units::{ByteLen, ByteOffset, Geometry, Lsn, index};

use crate::finding::{Healing, Severity, Sink};
use crate::suspects::Suspects;

/// Longest structure, in bytes: a directory block.
const LONGEST: u64 = 64 << 10;
/// Sound copies that are kept, in bytes.
const KEPT_MAX: usize = 64 << 20;

/// Blocks that failed their verifier when read, with the sound bytes of an alternative. Later
/// reads return these bytes.
#[derive(Default)]
pub(crate) struct Sound {
    /// By where they begin on the device. A leaf lock.
    blocks: RwLock<BTreeMap<u64, Vec<u8>>>,
    bytes: AtomicUsize,
}

impl Sound {
    fn keep(&self, offset: ByteOffset, block: &[u8]) {
        if self.bytes.load(Ordering::Relaxed) < KEPT_MAX {
            self.bytes.fetch_add(block.len(), Ordering::Relaxed);
            let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
            blocks.insert(offset.0, block.to_vec());
        }
    }

    /// Puts what is kept of the range over what was read of it.
    fn lay_over(&self, offset: ByteOffset, buf: &mut [u8]) {
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let end = offset.0.saturating_add(buf.len() as u64);
        let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
        for (start, block) in blocks.range(offset.0.saturating_sub(LONGEST)..end) {
            let (from, to) = ((*start).max(offset.0), (start + block.len() as u64).min(end));
            if from < to {
                buf[index(from - offset.0)..index(to - offset.0)]
                    .copy_from_slice(&block[index(from - start)..index(to - start)]);
            }
        }
    }
}

/// What every part of the check shares.
pub(crate) struct Volume<'a> {
    pub dev: &'a dyn BlockDevice,
    pub geo: Geometry,
    /// The journal's head, where it is known: no block may be newer.
    pub log_head: Option<Lsn>,
    /// True where the journal has been replayed, so that counters and lists must be exact.
    pub log_clean: bool,
    /// Whether every copy of a block is read and compared.
    pub scrub: bool,
    /// Whether the device is to rewrite what was bad and is known to be right.
    pub mend: bool,
    pub sound: &'a Sound,
    /// Places whose users are wanted.
    pub suspects: Option<&'a Suspects>,
    pub sink: Sink<'a>,
}

impl<'a> Volume<'a> {
    /// The same volume, for reading again what has been judged.
    pub(crate) fn quiet(&self) -> Volume<'a> {
        Volume { geo: self.geo.clone(), sink: Sink::quiet(), scrub: false, ..*self }
    }

    /// The surroundings of a block at `at`.
    pub(crate) fn ctx(&self, at: Location) -> Ctx<'_> {
        Ctx::new(&self.geo, at).log_head(self.log_head)
    }

    /// Reports a failed check as fatal. True where it passed.
    pub(crate) fn fatal(&self, verdict: VerifyResult) -> bool {
        verdict.map_err(|fault| self.sink.report(Severity::Fatal, fault)).is_ok()
    }

    /// Fills `buf` from the place `at`, whose `daddr` is set. A failure is a finding.
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
        self.sound.lay_over(daddr.byte_offset(), buf);
        if self.scrub {
            self.compare_copies(at, buf);
        }
        true
    }

    /// Every way to obtain these bytes must give the same ones.
    fn compare_copies(&self, at: Location, buf: &[u8]) {
        let Some(offset) = at.daddr.map(xfskit_units::Daddr::byte_offset) else { return };
        let mut copy = vec![0; buf.len()];
        let ways = self.dev.alternatives(offset, ByteLen(buf.len() as u64));
        for k in (0..ways).filter(|_| ways > 1) {
            let ctx = self.ctx(at).entry(k);
            let found = match self.dev.read_alternative(offset, &mut copy, k) {
                Ok(()) if copy == buf => continue,
                Ok(()) => "other bytes".to_owned(),
                Err(error) => error.to_string(),
            };
            self.sink.error(ctx.require("scrub.copy", false, "the bytes of the first copy", found));
        }
    }

    /// Reads the structure at `at` into `buf` and hands it to `take`, as
    /// [`judge_in`](Self::judge_in).
    pub(crate) fn judge<T>(
        &self,
        at: Location,
        buf: &mut [u8],
        crc_offset: usize,
        take: impl FnMut(&[u8]) -> VerifyResult<T>,
    ) -> Option<T> {
        if !self.read(at, buf) {
            return None;
        }
        self.judge_in(at, buf, crc_offset, take)
    }

    /// Hands the structure that was read from `at` into `buf` to `take`, which verifies it and only
    /// then uses it. A fault is reported. Then, in this order: another copy that the device has
    /// may pass; and where only the checksum (at byte `crc_offset`) is wrong, the content is
    /// judged all the same, for one flipped bit must not hide a whole tree.
    pub(crate) fn judge_in<T>(
        &self,
        at: Location,
        buf: &mut [u8],
        crc_offset: usize,
        mut take: impl FnMut(&[u8]) -> VerifyResult<T>,
    ) -> Option<T> {
        if self.is_suspect(at, buf) {
            self.take_newest(at, buf, crc_offset);
        }
        let fault = match take(buf) {
            Ok(taken) => return Some(taken),
            Err(fault) => fault,
        };
        if let Some((taken, healing)) = self.other_way(at, buf, &mut take) {
            self.sink.report_healed(fault, healing);
            return Some(taken);
        }
        let only_crc = self.geo.v5() && is_crc(&fault);
        self.sink.report(Severity::Error, fault);
        if !only_crc {
            return None;
        }
        xfskit_crc::update(buf, crc_offset);
        take(buf).map_err(|fault| self.sink.report(Severity::Error, fault)).ok()
    }

    /// True where others than the judge have doubts of what was read from `at`.
    pub(crate) fn is_suspect(&self, at: Location, buf: &[u8]) -> bool {
        at.daddr.zip(self.suspects).is_some_and(|(daddr, suspects)| {
            suspects.touches(daddr.byte_offset().0, buf.len() as u64)
        })
    }

    /// Of all that the device has for a structure in doubt whose checksum is right, `buf` gets the
    /// newest: a member that lost a write has a block that is sound, and old. The others are
    /// rewritten where that is wanted.
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
            let lsn = self.age(&copy).filter(|lsn| whole(&copy) && is_new(*lsn));
            if let Some(lsn) = lsn
                && best.as_ref().is_none_or(|(newest, ..)| *newest < lsn)
            {
                best = Some((lsn, k, copy.clone()));
            }
        }
        let Some((_, k, newest)) = best.filter(|_| differ) else { return };
        let ctx = self.ctx(at).entry(k);
        let rewritten = self.mend && self.dev.heal(offset, &newest, k).unwrap_or(false);
        if newest != *buf {
            let wanted = Expected::Described("the newest there is".into());
            let fault = ctx.corruption("scrub.copy", wanted, "an older or a damaged one");
            let healing = if rewritten { Healing::Rewritten } else { Healing::Read };
            self.sink.report_healed(fault, healing);
            buf.copy_from_slice(&newest);
            if !rewritten {
                self.sound.keep(offset, &newest);
            }
        }
    }

    /// When a structure was last written, where it says so.
    fn age(&self, bytes: &[u8]) -> Option<Lsn> {
        match Stamp::of(bytes, &self.geo) {
            Some(stamp) => Some(stamp.lsn(bytes)),
            None => Some(Dinode::parse(bytes, &self.geo)?.lsn()),
        }
    }

    /// The structure that was read from `at` into `buf` and failed, in another way that the device
    /// has: the newest that `take` accepts is in `buf` then, and rewritten where that is wanted.
    #[cold]
    pub(crate) fn other_way<T>(
        &self,
        at: Location,
        buf: &mut [u8],
        mut take: impl FnMut(&[u8]) -> VerifyResult<T>,
    ) -> Option<(T, Healing)> {
        let offset = at.daddr?.byte_offset();
        let ways = self.dev.alternatives(offset, ByteLen(buf.len() as u64));
        if ways < 2 {
            return None;
        }
        let mut copy = vec![0; buf.len()];
        let mut order: Vec<(Reverse<Lsn>, usize)> = Vec::with_capacity(ways);
        for k in 0..ways {
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
            let rewritten = self.mend && self.dev.heal(offset, &copy, k).unwrap_or(false);
            if !rewritten {
                self.sound.keep(offset, &copy);
            }
            return Some((taken, if rewritten { Healing::Rewritten } else { Healing::Read }));
        }
        None
    }
}

/// True where nothing is known to be wrong but the checksum.
#[allow(clippy::case_sensitive_file_extension_comparisons)] // an id, not a file
fn is_crc(fault: &Corruption) -> bool {
    fault.check.0.ends_with(".crc")
}
