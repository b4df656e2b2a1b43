//! Contents of small files, read by other threads before their turn comes.
//!
//! A thread that copies files one by one waits for each of them to be found, opened and read. Here
//! a few threads go ahead in the order of the tree, as far as a bound on memory lets them.
//!
//! 1. Files are begun in ascending order, and what was begun is read whatever the bound says: so
//!    the file that is waited for is always on its way.
//! 2. They are taken in ascending order. What was passed over is dropped.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::source::{Kind, NodeId, Segment, SourceError, Tree};

/// Larger files are left to the taker, in bytes: the kernel reads ahead in them by itself.
const SMALL: u64 = 1 << 20;
/// No file is begun while so much waits to be taken, in bytes.
const BOUND: usize = 8 << 20;
/// What a file takes beside its content, in bytes.
const OVERHEAD: usize = 256;
/// Threads that read.
const THREADS: usize = 4;

/// The content of a file: what its segments hold, one behind the other.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Where it has data.
    pub(crate) segments: Vec<Segment>,
    bytes: Vec<u8>,
}

impl Whole {
    fn read(tree: &Tree, id: NodeId) -> Result<Self, SourceError> {
        let (content, segments) = (tree.open(id)?, tree.segments(id)?);
        let len: u64 = segments.iter().map(|segment| segment.len).sum();
        let mut bytes = vec![0; xfskit_units::index(len)];
        let mut rest = &mut bytes[..];
        for segment in &segments {
            let (part, behind) = rest.split_at_mut(xfskit_units::index(segment.len));
            content.read_at(segment.offset, part)?;
            rest = behind;
        }
        Ok(Self { segments, bytes })
    }

    /// Each segment with what it holds.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Segment, &[u8])> {
        let mut rest = &self.bytes[..];
        self.segments.iter().map(move |&segment| {
            let (part, behind) = rest.split_at(xfskit_units::index(segment.len));
            rest = behind;
            (segment, part)
        })
    }

    fn weight(read: &Result<Self, SourceError>) -> usize {
        OVERHEAD + read.as_ref().map_or(0, |whole| whole.bytes.len())
    }
}

/// The files of a tree that are read ahead.
#[derive(Debug)]
pub(crate) struct Ahead<'t> {
    tree: &'t Tree,
    shared: Mutex<Shared>,
    /// Something was read.
    came: Condvar,
    /// There is room again.
    room: Condvar,
}

#[derive(Debug, Default)]
struct Shared {
    /// The first node that has not been looked at.
    next: u32,
    ready: BTreeMap<NodeId, Result<Whole, SourceError>>,
    /// What is ready, in bytes.
    weight: usize,
    /// Nothing more will be taken.
    over: bool,
}

impl Shared {
    /// What was read of `id`. What was read of those before goes.
    fn take(&mut self, id: NodeId) -> Option<Result<Whole, SourceError>> {
        while let Some(first) = self.ready.first_entry().filter(|first| *first.key() <= id) {
            let (found, read) = first.remove_entry();
            self.weight -= Whole::weight(&read);
            if found == id {
                return Some(read);
            }
        }
        None
    }
}

impl<'t> Ahead<'t> {
    /// Does `work` while files of `tree` are read ahead of it.
    pub(crate) fn with<T>(tree: &'t Tree, work: impl FnOnce(&Self) -> T) -> T {
        let shared = Mutex::default();
        let ahead = Self { tree, shared, came: Condvar::new(), room: Condvar::new() };
        thread::scope(|scope| {
            let _over = Over(&ahead);
            for _ in 0..THREADS {
                scope.spawn(|| ahead.read());
            }
            work(&ahead)
        })
    }

    /// Whether [`take`](Self::take) has file `id`.
    fn is_small(&self, id: NodeId) -> bool {
        matches!(self.tree.node(id).kind, Kind::File { size, .. } if (1..=SMALL).contains(&size))
    }

    /// The content of file `id`; `None` where it is empty, large, or none. Nothing before `id` is
    /// asked for afterwards.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub(crate) fn take(&self, id: NodeId) -> Result<Option<Whole>, SourceError> {
        if !self.is_small(id) {
            return Ok(None);
        }
        let mut shared = self.lock();
        loop {
            let read = shared.take(id);
            // Not for every file: waking costs more than reading one.
            if shared.weight < BOUND / 2 {
                self.room.notify_all();
            }
            if let Some(read) = read {
                return read.map(Some);
            }
            shared = self.came.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads file after file.
    fn read(&self) {
        let mut shared = self.lock();
        while !shared.over {
            if shared.weight >= BOUND {
                shared = self.room.wait(shared).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let id = NodeId(shared.next);
            if id.index() >= self.tree.len() {
                break;
            }
            shared.next += 1;
            if !self.is_small(id) {
                continue;
            }
            drop(shared);
            let read = Whole::read(self.tree, id);
            shared = self.lock();
            shared.weight += Whole::weight(&read);
            shared.ready.insert(id, read);
            self.came.notify_one();
        }
    }
}

/// Sends the readers home, however the work ends.
struct Over<'a, 't>(&'a Ahead<'t>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::Path;

    use super::*;
    use crate::source::{Source, SourceOptions, read_tree};

    /// Of file `n`: more than the bound in all.
    fn content(n: usize) -> Vec<u8> {
        vec![n.to_le_bytes()[0]; n * 977 % 70_000]
    }

    fn with_files<T>(count: usize, work: impl FnOnce(&Tree, &Path) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..count {
            std::fs::write(dir.path().join(format!("{n:05}")), content(n)).unwrap();
        }
        let large = std::fs::File::create(dir.path().join("large")).unwrap();
        large.set_len(SMALL + 1).unwrap();
        let sources = [Source::Dir(dir.path().to_path_buf())];
        let go_on = |_| ControlFlow::Continue(());
        let options = SourceOptions { strict: true, ..SourceOptions::default() };
        work(&read_tree(&sources, &options, &go_on).unwrap(), dir.path())
    }

    #[test]
    fn every_file_comes_whole_and_what_is_passed_over_does_not_block() {
        with_files(600, |tree, _| {
            Ahead::with(tree, |ahead| {
                // The root is no file; the last one is large. Of the second half every seventh.
                for id in tree.ids().filter(|id| id.0 < 300 || id.0.is_multiple_of(7)) {
                    let wanted = id.index().checked_sub(1).filter(|n| (1..600).contains(n));
                    let got = ahead.take(id).unwrap();
                    let bytes = got.map(|whole| whole.bytes);
                    assert!(bytes == wanted.map(content), "{id:?}");
                }
            });
        });
    }

    #[test]
    fn readers_stop_at_the_bound_and_go_home_when_nothing_is_taken() {
        with_files(600, |tree, _| {
            Ahead::with(tree, |ahead| {
                while ahead.lock().weight < BOUND {
                    thread::yield_now();
                }
                assert!(ahead.lock().next < 500);
            });
        });
    }

    #[test]
    fn a_file_that_is_gone_is_the_error_of_its_own_turn() {
        with_files(3, |tree, dir| {
            std::fs::remove_file(dir.join("00002")).unwrap();
            Ahead::with(tree, |ahead| {
                assert!(ahead.take(NodeId(2)).unwrap().is_some());
                assert!(matches!(ahead.take(NodeId(3)), Err(SourceError::Changed { .. })));
            });
        });
    }
}
