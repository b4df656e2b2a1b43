//! Duplicate names in one directory.
//!
//! Only names with the same hash can be equal, and few names share a hash. Those few are read
//! again, so that no name needs to be kept.

use xfskit_format::dir::DataPtr;
use xfskit_format::dir::data::Data;
use xfskit_format::hash;

use crate::datree::MappedFork;

/// Maximum number of names of one hash that are read at once. This bounds memory, and no directory
/// that a kernel made comes near it.
const MAX_RUN: usize = 4096;

/// Checks the entries of a directory, given as sorted packed pairs of hash and address.
pub(crate) fn check_duplicates(fork: MappedFork<'_, '_>, sorted: &[u64]) {
    for run in sorted.chunk_by(|a, b| a >> 32 == b >> 32).filter(|run| run.len() > 1) {
        check_run(fork, run.get(..MAX_RUN).unwrap_or(run));
    }
}

fn check_run(fork: MappedFork<'_, '_>, run: &[u64]) {
    let geo = &fork.vol.geo;
    let mut block = Vec::new();
    let mut names: Vec<(Vec<u8>, DataPtr)> = Vec::with_capacity(run.len());
    let mut there = None;
    for packed in run {
        let ptr = DataPtr(u32::try_from(packed & 0xffff_ffff).unwrap_or(0));
        let fileoff = ptr.fileoff(geo);
        if there != Some(fileoff) {
            block.resize(geo.dirblksize(), 0);
            let at = fork.location("dir block", fileoff.0);
            there = fork.read(at, &mut block).map(|()| fileoff);
        }
        let ctx = fork.vol.ctx(fork.location("dir block", fileoff.0));
        let Ok(data) = Data::verify(&block, &ctx, None) else { continue };
        let entry = data.entry_at(ptr.offset(geo));
        names.extend(entry.map(|entry| (hash::folded(geo, entry.name).into_owned(), ptr)));
    }
    names.sort_unstable();
    for pair in names.windows(2) {
        let [(before, _), (name, ptr)] = pair else { continue };
        if before == name {
            let at = fork.location("dir block", ptr.fileoff(geo).0).index(ptr.offset(geo));
            let found = format!("the name {:?} is there twice", String::from_utf8_lossy(name));
            fork.vol.sink.error(fork.vol.ctx(at).fail("dir.dup", "each name once", found));
        }
    }
}
