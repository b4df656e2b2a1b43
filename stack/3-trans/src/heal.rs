//! Healing: blocks that failed their verifier and were read in another way.
//!
//! A block that fails its verifier is read in every other way that the device has (copies, parity).
//! An old copy passes the verifier too, so of all the copies that pass, the one with the newest LSN
//! is taken; the verifier refuses an LSN ahead of the journal. If blocks may be changed (the target
//! is open for writing, and its journal was replayed), the device rewrites the bad copies.

use std::fmt;

use parking_lot::Mutex;
use xfskit_block::BlockDevice;
use xfskit_format::log::Stamp;
use xfskit_format::{Corruption, Ctx, VerifyResult};
use xfskit_units::{ByteLen, ByteOffset, Lsn};

/// Healed blocks that are listed; more are only counted.
const LIST_MAX: usize = 1000;

/// A block that was bad in the way it was read first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healed {
    /// What the verifier found there, and where.
    pub corruption: Corruption,
    /// The device has rewritten its bad copies.
    pub rewritten: bool,
}

impl fmt::Display for Healed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.rewritten { "rewritten" } else { "not rewritten" };
        write!(f, "healed: {}; read from the other members, {what}", self.corruption)
    }
}

/// The blocks that were healed so far. The lock is a leaf.
#[derive(Debug, Default)]
pub struct Heals(Mutex<(Vec<Healed>, u64)>);

impl Heals {
    /// Records a healed block.
    pub fn note(&self, corruption: Box<Corruption>, rewritten: bool) {
        tracing::warn!(%corruption, rewritten, "bad copy; another one is used");
        let (kept, count) = &mut *self.0.lock();
        *count += 1;
        if kept.len() < LIST_MAX {
            kept.push(Healed { corruption: *corruption, rewritten });
        }
    }

    /// Returns the number of healed blocks.
    pub fn count(&self) -> u64 {
        self.0.lock().1
    }

    /// Returns the first thousand healed blocks.
    pub fn list(&self) -> Vec<Healed> {
        self.0.lock().0.clone()
    }
}

/// Reads a block in its other ways: `read` fills a buffer in way `k` of `ways`. Returns the way of
/// the newest copy that passes `verify`, and leaves that copy in `bytes`.
pub(crate) fn newest(
    ways: usize,
    bytes: &mut [u8],
    ctx: &Ctx<'_>,
    verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    mut read: impl FnMut(&mut [u8], usize) -> bool,
) -> Option<usize> {
    let mut best: Option<(Lsn, usize)> = None;
    let mut copy = vec![0; bytes.len()];
    for k in 0..ways {
        if !read(&mut copy, k) || verify(&copy, ctx).is_err() {
            continue;
        }
        let lsn = Stamp::of(&copy, ctx.geo).map_or(Lsn(0), |stamp| stamp.lsn(&copy));
        if best.is_none_or(|(newest, _)| newest < lsn) {
            best = Some((lsn, k));
            bytes.copy_from_slice(&copy);
        }
    }
    best.map(|(_, k)| k)
}

/// Fills `buf` from `offset` in the first way whose bytes pass `accepts`. Returns false if there is
/// none.
pub fn read_alternative(
    dev: &dyn BlockDevice,
    offset: ByteOffset,
    buf: &mut [u8],
    accepts: impl Fn(&[u8]) -> bool,
) -> bool {
    let ways = dev.alternatives(offset, ByteLen(buf.len() as u64));
    ways > 1 && (0..ways).any(|k| dev.read_alternative(offset, buf, k).is_ok() && accepts(buf))
}
