//! The volume under judgement: its device, its geometry, and reading a block of it.

use xfskit_block::BlockDevice;
use xfskit_format::{Ctx, Fault, Location, Verdict};
use xfskit_units::{ByteLen, Geometry, Lsn};

use crate::finding::{Severity, Sink};

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
    pub(crate) fn fatal(&self, verdict: Verdict) -> bool {
        verdict.map_err(|fault| self.sink.report(Severity::Fatal, fault)).is_ok()
    }

    /// Fills `buf` from the place `at`, whose `daddr` is set. A failure is a finding.
    pub(crate) fn read(&self, at: Location, buf: &mut [u8]) -> bool {
        let Some(daddr) = at.daddr else { return false };
        if let Err(error) = self.dev.read_at(daddr.byte_offset(), buf) {
            let readable = Err(self.ctx(at).fault(
                "device.read",
                xfskit_format::Expected::Described("readable bytes".into()),
                error.to_string(),
            ));
            return self.fatal(readable);
        }
        if self.scrub {
            self.compare_copies(at, buf);
        }
        true
    }

    /// Every way to obtain these bytes must give the same ones.
    fn compare_copies(&self, at: Location, buf: &[u8]) {
        let Some(offset) = at.daddr.map(xfskit_units::Daddr::byte_offset) else { return };
        let mut copy = vec![0; buf.len()];
        for k in 1..self.dev.alternatives(offset, ByteLen(buf.len() as u64)) {
            let ctx = self.ctx(at).entry(k);
            let found = match self.dev.read_alternative(offset, &mut copy, k) {
                Ok(()) if copy == buf => continue,
                Ok(()) => "other bytes".to_owned(),
                Err(error) => error.to_string(),
            };
            self.sink.error(ctx.require("scrub.copy", false, "the bytes of the first copy", found));
        }
    }

    /// Reads the structure at `at` into `buf` and hands it to `take`, as [`judge_in`](Self::judge_in).
    pub(crate) fn judge<T>(
        &self,
        at: Location,
        buf: &mut [u8],
        crc_offset: usize,
        take: impl FnMut(&[u8]) -> Verdict<T>,
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
        mut take: impl FnMut(&[u8]) -> Verdict<T>,
    ) -> Option<T> {
        let fault = match take(buf) {
            Ok(taken) => return Some(taken),
            Err(fault) => fault,
        };
        let only_crc = self.geo.v5() && is_crc(&fault);
        self.sink.report(Severity::Error, fault);
        let offset = at.daddr?.byte_offset();
        for k in 1..self.dev.alternatives(offset, ByteLen(buf.len() as u64)) {
            let mut copy = vec![0; buf.len()];
            if self.dev.read_alternative(offset, &mut copy, k).is_ok()
                && let Ok(taken) = take(&copy)
            {
                return Some(taken);
            }
        }
        if !only_crc {
            return None;
        }
        xfskit_crc::update(buf, crc_offset);
        take(buf).map_err(|fault| self.sink.report(Severity::Error, fault)).ok()
    }
}

/// True where nothing is known to be wrong but the checksum.
#[allow(clippy::case_sensitive_file_extension_comparisons)] // an id, not a file
fn is_crc(fault: &Fault) -> bool {
    fault.check.0.ends_with(".crc")
}
