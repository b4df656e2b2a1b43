//! `xfskit bulkstat`: lists every inode, from the inode btrees.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use xfskit::{Bulkstat, BulkstatEntry, Metadata};

use super::{mount, open};
use crate::exit::{Failure, Outcome};
use crate::grammar::read;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show;

/// Number of inodes, and the space that they take.
#[derive(Clone, Debug, Default, Serialize)]
struct Count {
    inodes: u64,
    bytes: u64,
    /// Space taken, in bytes.
    space: u64,
}

/// `xfskit bulkstat`: lists every inode from the inode btrees.
pub(crate) fn run(args: &read::Bulkstat, out: &Out) -> Outcome {
    let writer = if args.count { None } else { args.rows.writer(false, out)? };
    let volume = mount::volume_to_read(&args.target, out)?;
    let now = volume.statfs().map_err(|error| open::failure(&error))?;
    let total = now.inodes.saturating_sub(now.inodes_free);
    let progress = Progress::beside_output(out, "bulkstat", Unit::Count("inodes"));
    let counts = Mutex::new(BTreeMap::<&'static str, Count>::new());
    let failed = Mutex::new(None);
    let visit = |entries: &[BulkstatEntry]| {
        let mut lines = Vec::new();
        let mut some = BTreeMap::<&'static str, Count>::new();
        for BulkstatEntry { ino, metadata, .. } in entries {
            let file = match metadata {
                Ok(file) => file,
                Err(error) => {
                    let at = format!("inode {ino}");
                    out.fault_at(&at, error.reason(), error.corruption());
                    continue;
                }
            };
            let count = some.entry(show::kind(file.mode())).or_default();
            count.inodes += 1;
            count.bytes = count.bytes.saturating_add(file.len());
            count.space = count.space.saturating_add(file.blocks().saturating_mul(512));
            match &writer {
                _ if args.count => {}
                Some(writer) => writer.write(b"", file, out, &mut lines),
                None => line(file, &mut lines),
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
    let listing = Bulkstat::new(&volume).threads(args.threads).internal(args.internal);
    let done = listing.run(visit);
    progress.finish();
    if let Some(failure) = failed.into_inner() {
        return Err(failure);
    }
    let counts = counts.into_inner();
    if args.count {
        print_counts(&counts, out)?;
    }
    done.map_err(|error| open::failure(&error))?;
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
fn line(file: &Metadata, lines: &mut Vec<u8>) {
    let (mode, mtime) = (show::mode(file.mode()), file.mtime());
    let text = format!(
        "{:>12} {mode} {:>4} {:>6} {:>6} {:>14} {:>10} {}.{:09}\n",
        file.ino(),
        file.nlink(),
        file.uid(),
        file.gid(),
        file.len(),
        file.blocks(),
        mtime.sec,
        mtime.nsec
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
