//! Inodes in use that no directory named: which ones there are, and where each belongs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use parking_lot::Mutex;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_units::{AgIno, AgNumber, Ino};
use xfskit_vfs::{FileType, Fs, Inode};

use crate::Event;
use crate::get::Events;
use crate::inode_set::InodeSet;

/// Inodes that are loaded together.
const BATCH: usize = 512;
/// Longest path that is followed up, in names.
const DEPTH_MAX: usize = 4096;

/// The inodes that no directory named.
pub(super) struct Unnamed<'a> {
    fs: &'a Fs,
    /// Directories first.
    inodes: Vec<Ino>,
    /// Those that a directory among them names.
    below: InodeSet,
    /// The paths of the directories that the ".." of these name.
    parents: BTreeMap<Ino, Vec<u8>>,
}

impl<'a> Unnamed<'a> {
    /// Lists the inodes in use that are not `found`. Those that cannot be read, and the groups
    /// whose inode btrees are damaged, become events. Inodes of the volume itself, and files that
    /// were removed while they were open, are left out.
    pub(super) fn list(fs: &'a Fs, found: &Mutex<InodeSet>, events: Events<'_>) -> Self {
        let (mut dirs, mut files) = (Vec::new(), Vec::new());
        let mut unnamed =
            Self { fs, inodes: Vec::new(), below: InodeSet::default(), parents: BTreeMap::new() };
        let mut parents = Vec::new();
        for agno in fs.volume().geo().ags() {
            let Candidates { listed, likely } = Candidates::of(fs, agno, found, events);
            let all: Vec<Ino> = listed.iter().chain(&likely).copied().collect();
            for (number, batch) in all.chunks(BATCH).enumerate() {
                for (index, (&ino, inode)) in batch.iter().zip(fs.inodes(batch)).enumerate() {
                    let inode = match inode {
                        Ok(inode) => inode,
                        // A number that is only likely need not be one of an inode in use.
                        Err(_) if number * BATCH + index >= listed.len() => continue,
                        Err(error) => {
                            events(Event::damaged(b"", ino, error));
                            continue;
                        }
                    };
                    let core = inode.core();
                    if fs.volume().internal_name(ino, &core).is_some() || core.nlink() == 0 {
                        continue;
                    }
                    if core.file_type() == Some(FileType::Directory) {
                        let names = fs.read_dir(&inode).entries;
                        let others = names.iter().map(|entry| entry.ino).filter(|&n| n != ino);
                        others.for_each(|ino| unnamed.below.insert(ino));
                        parents.extend(parent_of(fs, &inode));
                        dirs.push(ino);
                    } else {
                        files.push(ino);
                    }
                }
            }
        }
        if !fs.volume().geo().features.parent() {
            parents.retain(|&parent| found.lock().contains(parent));
            unnamed.parents = fs.paths_of(parents);
        }
        unnamed.inodes = dirs;
        unnamed.inodes.append(&mut files);
        unnamed
    }

    /// Returns the inodes: first the tops of trees, so that what is below them is found there. The
    /// others follow, because directories may lead in a circle.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Ino> {
        let tops = self.inodes.iter().filter(|&&ino| !self.below.contains(ino));
        let others = self.inodes.iter().filter(|&&ino| self.below.contains(ino));
        tops.chain(others).copied()
    }

    /// Returns the path of `inode` below the directory of the unnamed: its own path, by parent
    /// pointers; from the nearest directory on that has none, which then has its number as its
    /// name. Without parent pointers, the number of a directory in its parent's path. `None` if
    /// nothing is known.
    pub(super) fn place(&self, inode: &Inode) -> Option<Vec<u8>> {
        if self.fs.volume().geo().features.parent() {
            return self.by_parent_pointers(inode);
        }
        let above = self.parents.get(&parent_of(self.fs, inode)?)?;
        let above = above.strip_prefix(b"/").unwrap_or(above);
        (!above.is_empty()).then(|| [above, format!("/ino.{}", inode.ino()).as_bytes()].concat())
    }

    fn by_parent_pointers(&self, inode: &Inode) -> Option<Vec<u8>> {
        let root = self.fs.volume().geo().rootino;
        let (mut names, mut at, mut inode) = (Vec::new(), inode.ino(), Some(inode.clone()));
        while at != root {
            let parent = inode.as_ref().and_then(|inode| self.first_parent(inode));
            let Some((parent, name)) = parent.filter(|_| names.len() < DEPTH_MAX) else {
                names.push(format!("ino.{at}").into_bytes());
                break;
            };
            names.push(name);
            at = parent;
            inode = self.fs.inode(at).ok().filter(|inode| inode.core().is_dir());
        }
        names.reverse();
        (names.len() > 1 || at == root).then(|| names.join(&b'/'))
    }

    /// Returns the first name of `inode` that its parent pointers give, if it can be one.
    fn first_parent(&self, inode: &Inode) -> Option<(Ino, Vec<u8>)> {
        let mut first = None;
        // Damage behind the first one does not matter.
        let _ = self.fs.volume().each_parent(inode, &mut |parent| {
            first = Some((parent.ino, parent.name));
            ControlFlow::Break(())
        });
        first.filter(|(_, name)| is_name(name))
    }
}

/// Returns true if `name` can be the name of a file: it comes from a damaged disk.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Returns the directory that the ".." of the directory `inode` names.
fn parent_of(fs: &Fs, inode: &Inode) -> Option<Ino> {
    if !inode.core().is_dir() {
        return None;
    }
    let mut parent = None;
    // Damage was reported when the entries were listed.
    let _ = fs.each_entry(inode, 0, &mut |entry| match entry {
        Ok(entry) if entry.name == b".." => {
            parent = Some(entry.ino);
            ControlFlow::Break(())
        }
        Ok(entry) if entry.name == b"." => ControlFlow::Continue(()),
        Ok(_) => ControlFlow::Break(()),
        Err(_) => ControlFlow::Continue(()),
    });
    parent
}

/// Numbers of inodes of a group that no directory named.
struct Candidates {
    /// In use, according to the inode btree.
    listed: Vec<Ino>,
    /// In chunks of which the btree says nothing: perhaps in use.
    likely: Vec<Ino>,
}

impl Candidates {
    /// Lists the inodes of group `agno` that are not `found`. Damage of its inode btree becomes
    /// events.
    fn of(fs: &Fs, agno: AgNumber, found: &Mutex<InodeSet>, events: Events<'_>) -> Self {
        let geo = fs.volume().geo();
        let (mut listed, mut chunks, mut whole) = (Vec::new(), BTreeSet::new(), true);
        let mut visit = |chunk: &Chunk| {
            let number = |bit| geo.agino_to_ino(agno, chunk.startino.saturating_add(bit));
            chunks.insert(number(0));
            let used = (0..INODES_PER_CHUNK).filter(|bit| chunk.used() & 1 << bit != 0);
            let found = found.lock();
            listed.extend(used.map(number).filter(|&ino| !found.contains(ino)));
        };
        fs.volume().for_each_chunk_left(agno, &mut visit, &mut |error| {
            whole = false;
            events(Event::GroupDamaged { agno, error: error.into() });
        });
        let mut likely = Vec::new();
        if !whole {
            let found = found.lock();
            let end = geo.agino_to_ino(AgNumber(agno.0.saturating_add(1)), AgIno(0));
            for first in found.runs(&(geo.agino_to_ino(agno, AgIno(0))..end)) {
                let numbers = (first.0..).map(Ino).take(INODES_PER_CHUNK as usize);
                if !chunks.contains(&first) {
                    likely.extend(numbers.filter(|&ino| !found.contains(ino)));
                }
            }
        }
        Self { listed, likely }
    }
}
