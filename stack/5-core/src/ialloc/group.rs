//! The choice of a group for a new inode.

use std::sync::atomic::{AtomicU32, Ordering};

use xfskit_format::inode::FileType;
use xfskit_units::{AgNumber, Ino};

use crate::volume::Volume;

/// The group for the next directory.
#[derive(Debug, Default)]
pub(crate) struct Rotor(AtomicU32);

/// Returns all groups, the best first: for a directory the next in turn, for all else that of its
/// directory.
pub(super) fn candidates(
    volume: &Volume,
    parent: Ino,
    mode: u16,
) -> impl Iterator<Item = AgNumber> + use<> {
    let agcount = volume.geo().agcount;
    let first = if FileType::from_mode(mode) == Some(FileType::Directory) {
        volume.rotor.0.fetch_add(1, Ordering::Relaxed) % agcount
    } else {
        volume.geo().ino_split(parent).map_or(0, |(agno, _)| agno.0)
    };
    (0..agcount).map(move |step| {
        let agno = u64::from(first) + u64::from(step);
        AgNumber(u32::try_from(agno % u64::from(agcount)).unwrap_or(0))
    })
}
