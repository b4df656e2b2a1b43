//! Owners by a scan of all inodes, with the maps of their forks.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use xfskit_core::Volume;
use xfskit_core::bmap::ForkPart;
use xfskit_core::chunks::Entry;
use xfskit_format::Fork;
use xfskit_format::inode::Format;

use crate::Options;
use crate::owner::{Owned, Owner};
use crate::wanted::Wanted;
use crate::warnings::Warnings;

/// How a scan ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// The blocks of all files are known.
    pub known: bool,
    /// The caller did not end it.
    pub complete: bool,
}

/// Adds the wanted blocks of all files to `found`.
pub(crate) fn collect(
    volume: &Volume,
    wanted: &Wanted,
    options: &Options<'_>,
    found: &mut Vec<Owned>,
    warnings: &mut Warnings,
) -> Scanned {
    let (known, complete) = (AtomicBool::new(true), AtomicBool::new(true));
    let shared = Mutex::new((found, warnings));
    let total = u64::from(volume.geo().agcount);
    for agno in volume.geo().ags() {
        let visit = |entries: &[Entry<'_>]| {
            let (mut own, mut faults) = (Vec::new(), Vec::new());
            for entry in entries {
                faults.extend(forks(volume, entry, wanted, &mut own));
            }
            if !faults.is_empty() {
                known.store(false, Ordering::Relaxed);
            }
            if !own.is_empty() || !faults.is_empty() {
                let (found, warnings) = &mut *shared.lock();
                found.append(&mut own);
                faults.into_iter().for_each(|fault| warnings.add(fault));
            }
            let step = (options.progress)(agno.0.into(), total);
            if step.is_break() {
                complete.store(false, Ordering::Relaxed);
            }
            step
        };
        if let Err(error) = volume.bulkstat_groups([agno], options.threads.max(1), visit) {
            known.store(false, Ordering::Relaxed);
            shared.lock().1.add(error);
        }
        if !complete.load(Ordering::Relaxed) || at(options, agno.0, total).is_break() {
            return Scanned { known: false, complete: false };
        }
    }
    Scanned { known: known.into_inner(), complete: true }
}

/// Reports that group `agno` is done.
fn at(options: &Options<'_>, agno: u32, total: u64) -> ControlFlow<()> {
    (options.progress)(u64::from(agno).saturating_add(1), total)
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
        if !matches!(core.fork_format(fork), Some(Format::Extents | Format::Btree)) {
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
