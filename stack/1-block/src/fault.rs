//! Fault injection: I/O errors, latency, torn, misdirected and lost writes, and bit rot.
//!
//! Every decision is a function of the seed and of the I/O's number, or for rot of the sector. A
//! single-threaded run with the same seed thus has the same faults.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xfskit_units::number::BASIC_BLOCK;
use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, Error, Result};
use crate::{forward, plain};

/// A fault of a write for which the device reports success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentFault {
    /// The write stops after some of its 512-byte sectors.
    Torn,
    /// The write goes to an offset up to 64 KiB after the requested one.
    Misdirected,
    /// The write is dropped, so the old content remains.
    Lost,
}

/// The faults to inject. A field `…_one_in` gives the average: one I/O in this many; 0 for never.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultPlan {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Fails the I/O of this number, counted from 1, and no other. Reads, writes, flushes and
    /// writes of zeroes count.
    pub fail_nth: Option<u64>,
    /// Fails the I/O of this number and all later ones, like a removed device.
    pub fail_from: Option<u64>,
    /// Fails one I/O in this many.
    pub fail_one_in: u64,
    /// Fails every read of the 512-byte sector at this offset.
    pub bad_sector: Option<ByteOffset>,
    /// Injects a silent fault into the write of this number, counted from 1 among writes.
    pub silent_nth: Option<(u64, SilentFault)>,
    /// Least duration of every I/O.
    pub latency: Duration,
    /// One 512-byte sector in this many has one wrong bit in every read, always the same bit.
    pub rot_one_in: u64,
    /// One write in this many is torn: see [`SilentFault::Torn`].
    pub torn_one_in: u64,
    /// One write in this many is misdirected: see [`SilentFault::Misdirected`].
    pub misdirected_one_in: u64,
    /// One write in this many is lost: see [`SilentFault::Lost`].
    pub lost_one_in: u64,
}

/// A device with the injected faults of a [`FaultPlan`].
#[derive(Debug)]
pub struct FaultDevice {
    base: Arc<dyn BlockDevice>,
    plan: FaultPlan,
    ios: AtomicU64,
    writes: AtomicU64,
}

/// A kind of random decision; each has an independent sequence.
#[derive(Clone, Copy)]
enum Draw {
    Fail = 1,
    Rot,
    Torn,
    Misdirected,
    Lost,
}

/// Hashes a 64-bit number (the finaliser of SplitMix64).
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

impl FaultDevice {
    /// Returns a device over `base` with the faults of `plan`.
    pub fn new(base: Arc<dyn BlockDevice>, plan: FaultPlan) -> Self {
        Self { base, plan, ios: AtomicU64::new(0), writes: AtomicU64::new(0) }
    }

    /// Returns the number of I/Os so far. A run with fewer than `fail_nth` had no failure.
    pub fn io_count(&self) -> u64 {
        self.ios.load(Ordering::Relaxed)
    }

    /// Returns the number of writes so far, without those that failed.
    pub fn write_count(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Returns the random number for `draw` and the I/O or sector `n`.
    fn random(&self, draw: Draw, n: u64) -> u64 {
        mix(self.plan.seed ^ mix(n.wrapping_add(mix(draw as u64))))
    }

    /// Returns a random number if the fault applies to `n`.
    fn strikes(&self, draw: Draw, n: u64, one_in: u64) -> Option<u64> {
        let random = self.random(draw, n);
        // The quotient is independent of the remainder, so it decides the details of the fault.
        random.checked_rem(one_in).filter(|rest| *rest == 0).map(|_| random / one_in)
    }

    /// Counts one I/O, waits, and fails if the plan says so. Returns the I/O's number.
    fn begin(&self, op: &'static str, offset: ByteOffset, len: usize) -> Result<u64> {
        let n = self.ios.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.plan.latency.is_zero() {
            std::thread::sleep(self.plan.latency);
        }
        let failed = self.plan.fail_nth == Some(n)
            || self.plan.fail_from.is_some_and(|from| n >= from)
            || self.strikes(Draw::Fail, n, self.plan.fail_one_in).is_some();
        if failed {
            let source = io::Error::other(format!("injected failure of I/O {n}"));
            return Err(Error::Io { op, offset, len: ByteLen(len as u64), source });
        }
        Ok(n)
    }

    /// Fails if `len` bytes from `offset` on have the bad sector.
    fn check_sector(&self, offset: ByteOffset, len: usize) -> Result<()> {
        let len = ByteLen(len as u64);
        match self.plan.bad_sector {
            Some(bad) if offset.0 < bad.0 + BASIC_BLOCK && bad < offset.saturating_plus(len) => {
                let source = io::Error::other("a bad sector");
                Err(Error::Io { op: "read", offset, len, source })
            }
            _ => Ok(()),
        }
    }

    /// Flips the rotten bits of `buf`, which begins at `offset`.
    fn rot(&self, offset: ByteOffset, buf: &mut [u8]) {
        if self.plan.rot_one_in == 0 || buf.is_empty() {
            return;
        }
        let last = (offset.0 + buf.len() as u64 - 1) / BASIC_BLOCK;
        for sector in offset.0 / BASIC_BLOCK..=last {
            if let Some(random) = self.strikes(Draw::Rot, sector, self.plan.rot_one_in) {
                let at = sector * BASIC_BLOCK + random / 8 % BASIC_BLOCK;
                if let Some(byte) = at.checked_sub(offset.0).and_then(|i| buf.get_mut(index(i))) {
                    *byte ^= 1 << (random % 8);
                }
            }
        }
    }
}

impl BlockDevice for FaultDevice {
    forward!(this => this.base;
        size, logical_block_size, physical_block_size, topology, is_read_only, discard, will_need,
        alternatives
    );
    // Each request draws its own faults, so batches are split. A hole is read, and may rot.
    plain!(lend, read_batch, write_batch, write_fua, skip_hole, heal);
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.begin("read", offset, buf.len())?;
        self.check_sector(offset, buf.len())?;
        self.base.read_at(offset, buf)?;
        self.rot(offset, buf);
        Ok(())
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let n = self.begin("write", offset, buf.len())?;
        let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let strikes = |what: SilentFault, draw: Draw, one_in| {
            let is_planned = self.plan.silent_nth == Some((write, what));
            let random = self.random(draw, n);
            is_planned.then_some(random).or_else(|| self.strikes(draw, n, one_in))
        };
        if strikes(SilentFault::Lost, Draw::Lost, self.plan.lost_one_in).is_some() {
            return Ok(());
        }
        let away =
            strikes(SilentFault::Misdirected, Draw::Misdirected, self.plan.misdirected_one_in);
        if let Some(random) = away {
            let away = (1 + random % 128) * BASIC_BLOCK;
            let elsewhere = ByteOffset(offset.0.saturating_add(away));
            return self.base.write_at(elsewhere, buf).or(Ok(())); // off the device: lost
        }
        if let Some(random) = strikes(SilentFault::Torn, Draw::Torn, self.plan.torn_one_in) {
            let sectors = (buf.len() as u64).div_ceil(BASIC_BLOCK).max(1);
            let kept = index(random % sectors * BASIC_BLOCK);
            return self.base.write_at(offset, &buf[..kept.min(buf.len())]);
        }
        self.base.write_at(offset, buf)
    }
    fn flush(&self) -> Result<()> {
        self.begin("flush", ByteOffset(0), 0)?;
        self.base.flush()
    }
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.begin("write zeroes", offset, usize::try_from(len.0).unwrap_or(usize::MAX))?;
        self.base.write_zeroes(offset, len)
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.begin("read", offset, buf.len())?;
        self.base.read_alternative(offset, buf, k)?;
        if k == 0 {
            self.rot(offset, buf);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
