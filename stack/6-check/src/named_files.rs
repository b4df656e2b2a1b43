//! Which files have a name, for the digests of them.

use std::collections::BTreeSet;

use xfskit_block::Result;
use xfskit_format::inode::FileType;
use xfskit_units::Ino;

use crate::digests::{FileDigests, Gatherer};
use crate::inodes::Context;
use crate::table::Kind;
use crate::tree::{Directories, roots};

/// Returns the digests of files with a name, once links were counted.
pub(crate) fn digests(
    gatherer: &Gatherer,
    shared: &Context<'_, '_>,
    dirs: &Directories,
) -> Result<FileDigests> {
    let geo = &shared.vol.geo;
    let roots: Vec<Ino> = roots(shared).into_iter().map(|(_, ino)| ino).collect();
    let chunks = geo.ags().zip(shared.groups).flat_map(|(agno, group)| {
        group.chunks.list.iter().map(move |chunk| geo.agino_to_ino(agno, chunk.startino))
    });
    gatherer.finish(chunks, is_connected(dirs, &roots), |ino, rank| {
        is_named(shared, dirs, &roots, (ino, rank))
    })
}

/// Returns true if an inode in use is a root, or has a name.
fn is_named(
    shared: &Context<'_, '_>,
    dirs: &Directories,
    roots: &[Ino],
    (ino, rank): (Ino, usize),
) -> bool {
    match shared.table.kind(rank) {
        // Its own "." is a link.
        Kind::Used(FileType::Directory) => roots.contains(&ino) || dirs.parent(ino).is_some(),
        Kind::Used(_) => shared.table.links(rank) > 0,
        Kind::Free | Kind::Broken => false,
    }
}

/// Returns true if every directory is below a root.
fn is_connected(dirs: &Directories, roots: &[Ino]) -> bool {
    // A directory that was passed is below a root, or on the way that is followed.
    let mut passed = vec![false; dirs.dotdots.len()];
    let mut way = BTreeSet::new();
    dirs.dotdots.iter().all(|entry| {
        let mut at = entry.dir;
        way.clear();
        while !roots.contains(&at) {
            let Ok(place) = dirs.dotdots.binary_search_by_key(&at, |entry| entry.dir) else {
                return false;
            };
            if passed[place] {
                return !way.contains(&at);
            }
            passed[place] = true;
            way.insert(at);
            let Some(parent) = dirs.parent(at) else { return false };
            at = parent;
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::DirParent;

    #[test]
    fn directories_below_themselves_or_without_a_name_are_not_connected() {
        let root = Ino(64);
        let pair = |(dir, parent)| DirParent { dir: Ino(dir), parent: Ino(parent) };
        let dirs = |all: &[u64], names: &[(u64, u64)]| Directories {
            dotdots: all.iter().map(|dir| pair((*dir, 64))).collect(),
            subdirs: names.iter().copied().map(pair).collect(),
            complete: true,
        };
        let is = |all: &[u64], names: &[(u64, u64)]| is_connected(&dirs(all, names), &[root]);
        assert!(is(&[64], &[]));
        assert!(is(&[64, 70, 80], &[(70, 80), (80, 64)]));
        assert!(!is(&[64, 70, 80], &[(70, 80), (80, 70)]));
        assert!(!is(&[64, 70, 80], &[(70, 80)]));
        assert!(!is(&[64, 70], &[(70, 70)]));
    }
}
