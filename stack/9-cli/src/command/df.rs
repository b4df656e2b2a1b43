//! `xfskit df`: prints how full a volume is, as `df` on Linux does for a mounted volume.

use serde::Serialize;
use xfskit::Volume;

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Df;
use crate::out::Out;
use crate::show;

/// Space and inodes as in Linux' `statfs`: reserved space counts as used, and inodes that can still
/// be made count as free. Lengths in bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Usage {
    pub size: u64,
    pub used: u64,
    pub free: u64,
    pub inodes: u64,
    pub inodes_used: u64,
    pub inodes_free: u64,
}

impl Usage {
    /// Reads the counts of `volume`.
    pub(crate) fn of(volume: &Volume) -> Result<Self, Failure> {
        let now = volume.statfs().map_err(|error| open::failure(&error))?;
        let bytes = |blocks: u64| blocks.saturating_mul(now.blocksize.into());
        let size = bytes(now.blocks);
        let free = bytes(now.blocks_free).min(size);
        let (inodes, inodes_free) = (now.inodes, now.inodes_free);
        let inodes_used = inodes.saturating_sub(inodes_free);
        Ok(Self { size, used: size - free, free, inodes, inodes_used, inodes_free })
    }

    /// Returns the used part in percent, rounded up as `df` does.
    pub(crate) fn percent(&self) -> u128 {
        (u128::from(self.used) * 100).div_ceil(u128::from(self.size.max(1)))
    }
}

/// `xfskit df`: prints how full the volume is.
pub(crate) fn run(volume: &Volume, args: &Df, out: &Out) -> Outcome {
    let usage = Usage::of(volume)?;
    let name = &args.target.name;
    let size = |bytes: u64| {
        if args.human { show::human(bytes) } else { (bytes / 1024).to_string() }
    };
    out.result(&usage, |usage| {
        let unit = if args.human { "Size" } else { "1K-blocks" };
        let (total, used, free) = (size(usage.size), size(usage.used), size(usage.free));
        let width = name.len().max(6);
        format!(
            "{:width$} {unit:>12} {:>12} {:>12} Use% {:>12} {:>12}\n{name:width$} {total:>12} \
             {used:>12} {free:>12} {:>3}% {:>12} {:>12}\n",
            "Target",
            "Used",
            "Free",
            "Inodes",
            "IFree",
            usage.percent(),
            usage.inodes,
            usage.inodes_free,
        )
    })?;
    Ok(out.status())
}
