//! Sound copies that a device has of damaged blocks: mirrors, and what parity gives, each way.
//!
//! Before anything else the volume is checked on a view of the device ([`DeviceCopies`]). Of a
//! block that fails its verifier the check tries the other sources, and has the device rewritten
//! with the one that passes. The view keeps that copy, and the repair reads it from then on. A
//! commit has the device itself rewritten, before it writes anything else: an ordinary write to a
//! chunk that is wrong would leave parity wrong, because parity is computed from the difference.
//!
//! The view always reads the first source, so that the same copy is verified and used. Sectors stay
//! apart in it: a whole page would hide the other sources of the sectors beside a copy.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, IoRead, OverlayDevice, Result as DeviceResult};
use xfskit_check::{self as check, Finding, Healing};
use xfskit_units::{ByteLen, ByteOffset};

use crate::error::Result;
use crate::plan::{Step, StepKind};

/// Bytes of which the number of sources is asked: a block.
const BLOCK: ByteLen = ByteLen(4096);

/// A device with the sound copies of its damaged blocks.
#[derive(Debug)]
pub(crate) struct DeviceCopies {
    view: OverlayDevice,
    /// A leaf lock.
    taken: Mutex<Vec<Taken>>,
}

/// A copy that was taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: ByteOffset,
    len: usize,
    /// The source that has it.
    source: usize,
}

/// A device of which only the first source is read, if that can be read.
#[derive(Debug)]
struct FirstSource(Arc<dyn BlockDevice>);

impl BlockDevice for FirstSource {
    xfskit_block::forward!(this => this.0; size, logical_block_size, physical_block_size, topology,
        is_read_only, will_need, skip_hole, alternatives, read_alternative);
    xfskit_block::plain!(lend, read_batch, write_batch, write_fua, discard, write_zeroes, heal);

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> DeviceResult<()> {
        self.0.read_alternative(offset, buf, 0).or_else(|_| self.0.read_at(offset, buf))
    }
    fn write_at(&self, _: ByteOffset, _: &[u8]) -> DeviceResult<()> {
        Err(xfskit_block::Error::ReadOnly)
    }
    fn flush(&self) -> DeviceResult<()> {
        Ok(())
    }
}

impl BlockDevice for DeviceCopies {
    xfskit_block::forward!(this => this.view; size, logical_block_size, physical_block_size,
        topology, read_at, write_at, flush, will_need, skip_hole, alternatives, read_alternative);
    xfskit_block::plain!(lend, is_read_only, write_batch, write_fua, discard, write_zeroes);

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<DeviceResult<()>> {
        self.view.read_batch(batch)
    }

    /// Keeps a copy that was read from source `k`.
    fn heal(&self, offset: ByteOffset, good: &[u8], k: usize) -> DeviceResult<bool> {
        self.view.write_at(offset, good)?;
        self.taken.lock().push(Taken { at: offset, len: good.len(), source: k });
        Ok(true)
    }
}

impl DeviceCopies {
    /// Returns a view of `target`, if that has several sources of its bytes. Changes beyond
    /// `memory` go to a file in `dir`.
    pub(crate) fn of(
        target: &Arc<dyn BlockDevice>,
        memory: ByteLen,
        dir: &Path,
    ) -> Option<Arc<Self>> {
        let several = target.alternatives(ByteOffset(0), BLOCK) > 1;
        several.then(|| {
            let first = Arc::new(FirstSource(Arc::clone(target)));
            let view = OverlayDevice::by_sectors(first).limited_to(memory, dir);
            Arc::new(Self { view, taken: Mutex::default() })
        })
    }

    /// Checks the volume, and takes a sound copy of each damaged block that has one. Returns the
    /// step, if there were some.
    pub(crate) fn take(&self, options: &check::Options<'_>) -> Result<Option<Step>> {
        let options = check::Options { heal: true, ..*options };
        let mut findings = Vec::new();
        check::check(self, None, &options, &mut |finding: Finding| {
            findings.extend(Some(finding).filter(|f| f.healed == Some(Healing::Rewritten)));
        })?;
        findings.sort_by_cached_key(ToString::to_string);
        let count = self.taken.lock().len();
        Ok((count > 0).then(|| Step {
            id: "copies".into(),
            kind: StepKind::Copy,
            what: format!("write {count} damaged blocks again as other members have them"),
            evidence: vec!["the checksums of these copies are right".into()],
            lost: Vec::new(),
            findings,
            path: None,
        }))
    }

    /// Returns the bytes of all copies.
    pub(crate) fn bytes(&self) -> u64 {
        self.taken.lock().iter().map(|taken| taken.len as u64).sum()
    }

    /// Writes the copies to `target`, the device itself.
    pub(crate) fn write(&self, target: &dyn BlockDevice) -> DeviceResult<()> {
        for taken in self.taken.lock().iter() {
            let mut good = vec![0; taken.len];
            self.view.read_at(taken.at, &mut good)?;
            if !target.heal(taken.at, &good, taken.source)? {
                // Where a resync is due anyway, the device does not heal.
                target.write_at(taken.at, &good)?;
            }
        }
        target.flush()
    }
}
