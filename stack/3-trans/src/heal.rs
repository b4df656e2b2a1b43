//! What was bad in one way and good in another: blocks that healed.
//!
//! A block that fails its verifier is asked for in every other way that the device has (copies, parity). Of
//! the answers that pass (an old copy passes, too) the newest counts, by the LSN in the block; the verifier
//! refuses what is ahead of the journal. Where blocks may be changed, that is, on a target opened for
//! writing whose journal was replayed, the device is told what is right and rewrites who lied.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use xfskit_block::BlockDevice;
use xfskit_format::log::Stamp;
use xfskit_format::{Corruption, Ctx, VerifyResult};
use xfskit_units::{ByteLen, ByteOffset, Lsn};

/// Blocks that are kept by name; more are only counted.
const KEPT_MAX: usize = 1000;

/// A block that was bad in the way it was read first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healed {
    /// What was wrong with it there, and where that is.
    pub fault: Corruption,
    /// The device holds the right content in every way now.
    pub rewritten: bool,
}

impl fmt::Display for Healed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.rewritten { "rewritten" } else { "not rewritten" };
        write!(f, "healed: {}; had from the other members, {what}", self.fault)
    }
}

/// What healed so far. The lock is a leaf.
#[derive(Debug, Default)]
pub struct Heals(Mutex<(Vec<Healed>, u64)>);

impl Heals {
    /// One more.
    pub fn note(&self, fault: Box<Corruption>, rewritten: bool) {
        tracing::warn!(%fault, rewritten, "bad copy; another one is used");
        let (kept, count) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        if kept.len() < KEPT_MAX {
            kept.push(Healed { fault: *fault, rewritten });
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// The first thousand of them.
    pub fn list(&self) -> Vec<Healed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// The other ways to obtain `bytes`, which failed: `read` fills it in way `k` of so many. Answers the way of
/// the newest content that passes, which is in `bytes` then.
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

/// Fills `buf` from `offset` in the first way but the ordinary one that passes `judge`.
pub fn read_other_way(
    dev: &dyn BlockDevice,
    offset: ByteOffset,
    buf: &mut [u8],
    judge: impl Fn(&[u8]) -> bool,
) -> bool {
    let ways = dev.alternatives(offset, ByteLen(buf.len() as u64));
    ways > 1 && (0..ways).any(|k| dev.read_alternative(offset, buf, k).is_ok() && judge(buf))
}
