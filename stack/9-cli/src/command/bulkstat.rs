//! `xfskit bulkstat`: lists every inode, from the inode btrees.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::core::chunks::Entry;
use xfskit::raw::vfs::Stat;

use super::check::threads;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Bulkstat;
use crate::out::Out;
use crate::progress::Progress;
use crate::show;

/// Number of inodes, and the space that they take.
#[derive(Clone, Debug, Default, Serialize)]
struct Count {
    inodes: u64,
    bytes: u64,
    /// Space taken, in bytes.
    space: u64,
}

/// `xfskit bulkstat`
pub(crate) fn run(args: &Bulkstat, out: &Out) -> Outcome {
    let writer = if args.count { None } else { args.rows.writer(false, out)? };
    let volume = open::volume(&args.target, out)?;
    let volume = volume.fs().volume();
    let geo = volume.geo();
    let sb = volume.superblock();
    let total = sb.icount.get().saturating_sub(sb.ifree.get());
    let progress = Progress::beside_output(out, "bulkstat", "inodes");
    let counts = Mutex::new(BTreeMap::<&'static str, Count>::new());
    let failed = Mutex::new(None);
    let visit = |entries: &[Entry<'_>]| {
        let mut lines = Vec::new();
        let mut some = BTreeMap::<&'static str, Count>::new();
        for entry in entries {
            let core = match &entry.inode {
                Ok(core) => core,
                Err(fault) => {
                    out.fault_at(&format!("inode {}", entry.ino), fault.as_ref(), Some(fault));
                    continue;
                }
            };
            if !args.internal && volume.is_internal(entry.ino, core) {
                continue;
            }
            let stat = Stat::of(entry.ino, core, geo);
            let count = some.entry(show::kind(stat.mode)).or_default();
            count.inodes += 1;
            count.bytes = count.bytes.saturating_add(stat.size);
            count.space = count.space.saturating_add(stat.blocks.saturating_mul(512));
            match &writer {
                _ if args.count => {}
                Some(writer) => writer.write(b"", &stat, out, &mut lines),
                None => line(&stat, &mut lines),
            }
        }
        progress.add_of(entries.len() as u64, total);
        merge(&mut counts.lock(), some);
        match out.raw(&lines) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                *failed.lock() = Some(failure);
                ControlFlow::Break(())
            }
        }
    };
    let done = volume.bulkstat(threads(args.threads), visit);
    progress.finish();
    if let Some(failure) = failed.into_inner() {
        return Err(failure);
    }
    let counts = counts.into_inner();
    if args.count {
        print_counts(&counts, out)?;
    }
    done.map_err(|error| open::failure(&error.into()))?;
    Ok(out.status())
}

fn merge(all: &mut BTreeMap<&'static str, Count>, some: BTreeMap<&'static str, Count>) {
    for (kind, more) in some {
        let count = all.entry(kind).or_default();
        count.inodes += more.inodes;
        count.bytes = count.bytes.saturating_add(more.bytes);
        count.space = count.space.saturating_add(more.space);
    }
}

/// Appends the line of one inode.
fn line(stat: &Stat, lines: &mut Vec<u8>) {
    let Stat { ino, nlink, uid, gid, size, blocks, .. } = stat;
    let (mode, mtime) = (show::mode(stat.mode), stat.mtime);
    let text = format!(
        "{ino:>12} {mode} {nlink:>4} {uid:>6} {gid:>6} {size:>14} {blocks:>10} {}.{:09}\n",
        mtime.sec, mtime.nsec
    );
    lines.extend_from_slice(text.as_bytes());
}

fn print_counts(counts: &BTreeMap<&'static str, Count>, out: &Out) -> Result<(), Failure> {
    for (kind, count) in counts {
        out.result(&json!({ "kind": kind, "count": count }), |_| {
            let (bytes, space) = (show::human(count.bytes), show::human(count.space));
            format!("{:>12} {kind:<22} {bytes:>12} in {space:>12}\n", count.inodes)
        })?;
    }
    Ok(())
}
