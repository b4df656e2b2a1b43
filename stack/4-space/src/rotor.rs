//! The choice of a group for a new inode.

use std::sync::atomic::{AtomicU32, Ordering};

use xfskit_units::{AgNumber, Geometry, Ino};

/// The group for the next directory.
#[derive(Debug, Default)]
pub(crate) struct Rotor(AtomicU32);

impl Rotor {
    /// Returns all groups, the best first: for a directory the next in turn, for all else that of
    /// its directory `parent`.
    pub(crate) fn candidates(
        &self,
        geo: &Geometry,
        parent: Ino,
        is_directory: bool,
    ) -> impl Iterator<Item = AgNumber> + use<> {
        let agcount = geo.agcount;
        let first = if is_directory {
            self.0.fetch_add(1, Ordering::Relaxed) % agcount
        } else {
            geo.ino_split(parent).map_or(0, |(agno, _)| agno.0)
        };
        (0..agcount).map(move |step| {
            let agno = u64::from(first) + u64::from(step);
            AgNumber(u32::try_from(agno % u64::from(agcount)).unwrap_or(0))
        })
    }
}
