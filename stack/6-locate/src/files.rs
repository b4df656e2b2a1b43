//! Owners by a scan of all inodes, with the maps of their forks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use xfskit_core::Volume;
use xfskit_core::bmap::ForkPart;
use xfskit_core::chunks::Entry;
use xfskit_format::Fork;
use xfskit_format::inode::Format;
use xfskit_units::AgNumber;

use crate::Options;
use crate::owner::{Owned, Owner};
use crate::wanted::Wanted;
use xfskit_core::Warnings;

/// How a scan ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// The blocks of all files are known.
    pub known: bool,
    /// The caller did not end it.
    pub complete: bool,
}

/// What a scan has found so far.
#[derive(Default)]
struct Pass {
    found: Mutex<(Vec<Owned>, Warnings)>,
    /// Number of inodes that were visited.
    visited: AtomicU64,
    /// True once something could not be read.
    damaged: AtomicBool,
    /// True once the caller ended the scan.
    stopped: AtomicBool,
}

/// Adds the wanted blocks of all files to `found`. Threads share the work of all groups; if the
/// inode btree of one is damaged, the groups are scanned one by one, so that it hides no other.
pub(crate) fn collect(
    volume: &Volume,
    wanted: &Wanted,
    options: &Options<'_>,
    found: &mut Vec<Owned>,
    warnings: &mut Warnings,
) -> Scanned {
    let mut pass = Pass::default();
    if pass.scan(volume, volume.geo().ags(), wanted, options).is_err() {
        pass = Pass::default();
        for agno in volume.geo().ags() {
            if let Err(error) = pass.scan(volume, [agno], wanted, options) {
                pass.damaged.store(true, Ordering::Relaxed);
                pass.found.lock().1.add(error);
            }
            if pass.stopped.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    let complete = !pass.stopped.into_inner();
    let (mut own, faults) = pass.found.into_inner();
    found.append(&mut own);
    warnings.append(faults);
    Scanned { known: complete && !pass.damaged.into_inner(), complete }
}

impl Pass {
    /// Scans the inodes of some groups.
    fn scan(
        &self,
        volume: &Volume,
        groups: impl IntoIterator<Item = AgNumber>,
        wanted: &Wanted,
        options: &Options<'_>,
    ) -> xfskit_core::Result<()> {
        let counts = volume.counts();
        let total = counts.icount.saturating_sub(counts.ifree);
        volume.bulkstat_groups(groups, options.threads.max(1), |entries| {
            let (mut own, mut faults) = (Vec::new(), Vec::new());
            for entry in entries {
                faults.extend(forks(volume, entry, wanted, &mut own));
            }
            if !faults.is_empty() {
                self.damaged.store(true, Ordering::Relaxed);
            }
            if !own.is_empty() || !faults.is_empty() {
                let (found, warnings) = &mut *self.found.lock();
                found.append(&mut own);
                for fault in faults {
                    warnings.add(fault);
                }
            }
            let count = entries.len() as u64;
            let visited = self.visited.fetch_add(count, Ordering::Relaxed) + count;
            let step = (options.progress)(visited, total);
            if step.is_break() {
                self.stopped.store(true, Ordering::Relaxed);
            }
            step
        })
    }
}

/// Adds the wanted blocks of one inode to `own`. Returns what could not be read.
fn forks(
    volume: &Volume,
    entry: &Entry<'_>,
    wanted: &Wanted,
    own: &mut Vec<Owned>,
) -> Vec<xfskit_core::Error> {
    let core = match &entry.inode {
        Ok(core) => core,
        Err(fault) => return vec![fault.clone().into()],
    };
    let (geo, ino) = (volume.geo(), entry.ino);
    let mut faults = Vec::new();
    for fork in [Fork::Data, Fork::Attr] {
        let format = core.fork_format(fork);
        if !matches!(format, Some(Format::Extents | Format::Btree | Format::MetaBtree)) {
            continue;
        }
        let elsewhere = fork == Fork::Data && core.is_realtime();
        let walked = volume.each_fork_part(core, ino, fork, &mut |part| {
            let (start, len, owner) = match part {
                // The content of a realtime file is on another device.
                ForkPart::Extent(_) if elsewhere => return,
                ForkPart::Extent(extent) => {
                    let (startoff, unwritten) = (extent.startoff, extent.unwritten);
                    let owner = Owner::Extent { ino, fork, startoff, unwritten };
                    (extent.startblock, extent.blockcount.0, owner)
                }
                ForkPart::TreeBlock(block) => (block, 1, Owner::ForkTree { ino, fork }),
            };
            let Some((agno, agbno)) = geo.fsb_split(start) else { return };
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            let blocks = agbno.0..agbno.0.saturating_add(len);
            wanted.add(&Owned::new(agno, blocks, owner), own);
        });
        faults.extend(walked.err());
    }
    faults
}
